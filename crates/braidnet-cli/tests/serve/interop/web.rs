//! wrk as a client of HTTP, nginx as a server.

use super::{namespace_with, proxied};
use crate::Scratch;
use crate::namespace::Namespace;
use crate::programs::{Program, await_listener};
use crate::server::Server;
use rustix::process::Signal;

#[test]
fn wrk_finds_no_error_in_what_is_served() {
    let test = "wrk_finds_no_error_in_what_is_served";
    let Some(namespace) = namespace_with(test, &["wrk"]) else {
        return;
    };
    let scratch = Scratch::new("wrk");
    scratch.file("page", &[b'x'; 1024]);
    let http = format!("80={}", scratch.0.display());
    let server = Server::on_bn0(&namespace, &["--http", &http]);
    wrk(&namespace, "http://10.77.0.2/page", 64);
    let ended = server.stop(Signal::TERM);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn tshark_finds_no_error_in_a_capture() {
    let test = "tshark_finds_no_error_in_a_capture";
    let Some(namespace) = namespace_with(test, &["wrk", "tshark"]) else {
        return;
    };
    let scratch = Scratch::new("wrk-capture");
    scratch.file("page", &[b'x'; 10_000]);
    let http = format!("80={}", scratch.0.display());
    let capture = scratch.0.join("packets.pcapng").display().to_string();
    let server = Server::on_bn0(&namespace, &["--http", &http, "--pcap", &capture]);
    let requests = wrk(&namespace, "http://10.77.0.2/page", 2);
    assert_eq!(server.stop(Signal::TERM).code, Some(0));

    // Errors are of this severity; a wrong checksum is one where checksums are looked at.
    let is_wrong = "_ws.malformed || _ws.expert.severity == 8388608";
    let is_answer = "http.response.code == 200 && http.content_length == 10000";
    let count = |filter: &str| {
        let looks = [
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "tcp.check_checksum:TRUE",
        ];
        let reads = ["-r", &capture, "-Y", filter];
        let output = namespace.output("tshark", &[&reads[..], &looks].concat());
        assert!(output.status.success(), "{output:?}");
        let listed = String::from_utf8_lossy(&output.stdout);
        (listed.lines().count() as u64, listed.into_owned())
    };
    let (wrong, listed) = count(is_wrong);
    assert_eq!(wrong, 0, "{listed}");
    let (answers, _) = count(is_answer);
    assert!(
        answers >= requests,
        "{answers} answers to {requests} requests"
    );
}

#[test]
fn a_file_is_fetched_from_nginx() {
    let test = "a_file_is_fetched_from_nginx";
    let programs = ["nginx", "wrk", "curl"];
    let Some((namespace, _proxy)) = proxied(test, &programs, &["out:8080=10.77.0.1:80"]) else {
        return;
    };
    let scratch = Scratch::new("nginx");
    let file: Vec<u8> = (0..2 << 20).flat_map(|n: u32| n.to_le_bytes()).collect();
    scratch.file("file", &file);
    scratch.file("page", &[b'x'; 1024]);
    let folder = scratch.0.display().to_string();
    let config = scratch.file("nginx.conf", nginx_config(&folder).as_bytes());
    let mut nginx = namespace.command("nginx");
    nginx.args(["-e", "stderr", "-p", &folder, "-c", &config]);
    let _nginx = Program::start(nginx);
    await_listener(&namespace, 80);

    let fetch = ["-sS", "--max-time", "60", "http://127.0.0.1:8080/file"];
    let fetched = namespace.output("curl", &fetch);
    assert!(
        fetched.status.success() && fetched.stdout == file,
        "{}: {} bytes of {}: {}",
        fetched.status,
        fetched.stdout.len(),
        file.len(),
        String::from_utf8_lossy(&fetched.stderr)
    );
    wrk(&namespace, "http://127.0.0.1:8080/page", 16);
}

/// One that keeps to a folder, and is one process.
fn nginx_config(folder: &str) -> String {
    format!(
        "daemon off; master_process off; pid {folder}/pid;
         events {{ worker_connections 256; }}
         http {{
             access_log off;
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
             server {{ listen 10.77.0.1:80; root {folder}; }}
         }}"
    )
}

/// Asks for a page for a second, by so many connections at a time: each answer is a 200, and no connection fails. How many there were.
fn wrk(namespace: &Namespace, url: &str, connections: usize) -> u64 {
    let connections = format!("-c{connections}");
    let output = namespace.output("wrk", &["-t1", &connections, "-d1s", "--timeout=60s", url]);
    let said = String::from_utf8_lossy(&output.stdout);
    // Lines that it has only where there is something to say.
    let is_clean = !said.contains("Socket errors") && !said.contains("Non-2xx");
    let requests = said
        .lines()
        .find_map(|line| line.trim().split_once(" requests in "))
        .and_then(|(count, _)| count.parse().ok());
    match requests {
        Some(count @ 1..) if output.status.success() && is_clean => count,
        _ => panic!("{output:?}"),
    }
}
