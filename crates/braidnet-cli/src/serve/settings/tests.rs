//! What lines and files are read as, and what they are refused for.

use super::*;
use crate::serve::carrier::Which;
use braidnet::device::capture::Ring;
use braidnet::device::tun::Mode;
use clap::Parser;

#[derive(Parser, Debug)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

fn line(words: &str) -> Settings {
    Line::try_parse_from(std::iter::once("serve").chain(words.split_whitespace()))
        .unwrap()
        .settings
}

const WORDS: &str = "--tap bn0 --host 10.77.0.1/24 --address 10.77.0.2 --address 10.77.0.3/24 --device tun=bn1,address=10.78.0.2/24 --apart --forward --route default=10.77.0.1 --route 10.0.0.0/8=10.77.0.9 --echo 7 --discard 9 \
        --daytime 13 --chargen 19 --http 80=/srv --http 8080=. --architecture message --processors 2 --queues 1 --perimeter locked --order numbered --lock mcs \
        --tcp-locks 1 --agents tasks --threads 1 --wait sleep --pin --batch 8 --mtu 9000 --pcap x.pcapng --pcap-size 64M --pcap-ring 10 --impair loss=1% --impair-back delay=20ms,seed=7 --drain 500ms --memory 64M --connections 1000 --neighbours 50 --icmp-errors 10 --congestion new-reno --path-probing always --ttl 9 --dscp 46";
const FILE: &str = r#"
        tap = "bn0"
        host = "10.77.0.1/24"
        address = ["10.77.0.2", "10.77.0.3/24"]
        device = ["tun=bn1,address=10.78.0.2/24"]
        apart = true
        forward = true
        route = ["default=10.77.0.1", "10.0.0.0/8=10.77.0.9"]
        echo = 7
        discard = 9
        daytime = 13
        chargen = 19
        http = ["80=/srv", "8080=."]
        architecture = "message"
        processors = 2
        queues = 1
        perimeter = "locked"
        order = "numbered"
        lock = "mcs"
        tcp-locks = "1"
        agents = "tasks"
        threads = 1
        wait = "sleep"
        pin = true
        batch = 8
        mtu = 9000
        pcap = "x.pcapng"
        pcap-size = "64M"
        pcap-ring = 10
        impair = "loss=1%"
        impair-back = "delay=20ms,seed=7"
        drain = "500ms"
        memory = "64M"
        connections = 1000
        neighbours = 50
        icmp-errors = 10
        congestion = "new-reno"
        path-probing = "always"
        ttl = 9
        dscp = 46
    "#;

#[test]
fn line_and_file_say_the_same() {
    let from_line = format!("{:?}", line(WORDS));
    let from_file = format!("{:?}", toml::from_str::<Settings>(FILE).unwrap());
    assert_eq!(from_line, from_file);
    assert!(!from_line.contains("None, echo"), "everything is set");
}

#[test]
fn the_line_overrides_the_file() {
    let file: Settings = toml::from_str(FILE).unwrap();
    let both = line("--tun other --address 10.9.9.9 --echo 1007").or(file);
    assert_eq!(
        (both.tun.as_deref(), both.tap.as_deref()),
        (Some("other"), None)
    );
    assert_eq!(
        (both.address.len(), both.echo, both.discard),
        (1, Some(1007), Some(9))
    );
    let setup = Setup::check(both).unwrap();
    assert_eq!(
        (setup.devices[0].carrier.which.clone(), setup.services.len()),
        (Which::Named(Mode::Tun, "other".to_owned()), 6)
    );
    let ring = Ring {
        files: 10,
        file_bytes: 64 << 20,
    };
    let pcap = Pcap {
        file: "x.pcapng".into(),
        ring: Some(ring),
    };
    assert_eq!(setup.pcap, Some(pcap));
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let rows = [
        ("--address 10.77.0.2", "--tun NAME"),
        ("--tun bn0", "--address"),
        ("--tun bn0 --address 10.77.0.2 --host 10.77.0.1", "prefix"),
        (
            "--tun bn0 --address 10.77.0.2 --host 10.77.0.2/24",
            "same address",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --tcp-locks 6",
            "under connection there is none",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --architecture braid --processors 66",
            "65 processors at most",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --perimeter delegated",
            "under connection that is not so",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --architecture braid --order numbered",
            "under braid that is not so",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --lock mcs",
            "nothing to lock",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --architecture message --perimeter delegated --lock mcs",
            "nothing to lock",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --threads 2",
            "needs agents tasks",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --agents tasks --threads 0",
            "--threads",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --pin --processors 256",
            "this process may use",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --processors 0",
            "--processors",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --queues 2",
            "--queues takes a number from 1 to 1",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --architecture task --processors 3 --queues 2",
            "under task, so many",
        ),
        (
            "--tun bn0 --mac 02:00:00:00:00:01 --address 10.77.0.2",
            "--mac needs a device of Ethernet frames",
        ),
        (
            "--tun bn0 --tun-fd 3 --address 10.77.0.2",
            "the first device with one of",
        ),
        (
            "--packet v1 --qemu /run/net --address 10.77.0.2",
            "the first device with one of",
        ),
        (
            "--xdp v1 --queues 2 --processors 2 --address 10.77.0.2",
            "one that is taken over those that it has",
        ),
        (
            "--packet v1 --host 10.77.0.1/24 --address 10.77.0.2",
            "--host needs --tun",
        ),
        (
            "--tun-from /run/tun --host 10.77.0.1/24 --address 10.77.0.2",
            "--host needs --tun",
        ),
        (
            "--tun-fd 3 --tun-fd 4 --queues 2 --processors 2 --address 10.77.0.2",
            "a queue for each descriptor",
        ),
        (
            "--tun-fd 3 --tun-fd 4 --tun-fd 3 --address 10.77.0.2",
            "each descriptor once",
        ),
        (
            "--qemu /run/net --offload on --address 10.77.0.2",
            "nothing else offloads",
        ),
        ("--tun bn0 --address 10.77.0.2 --batch 0", "--batch"),
        ("--tun bn0 --address 10.77.0.2 --memory 1M", "16M"),
        (
            "--tun bn0 --address 10.77.0.2 --neighbours 0",
            "--neighbours takes 1 to 16384",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --icmp-errors 1000001",
            "--icmp-errors takes 0 to 1000000",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --pcap-size 1M",
            "--pcap-size needs --pcap FILE",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --pcap a --pcap-ring 3",
            "--pcap-ring needs --pcap-size",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --pcap a --pcap-size 1M --pcap-ring 0",
            "more than 0",
        ),
        ("--tun bn0 --address 10.77.0.2 --ttl 0", "1 to 255"),
        ("--tun bn0 --address 10.77.0.2 --dscp 64", "0 to 63"),
        (
            "--tun bn0 --address 10.77.0.2 --echo 80 --http 80=.",
            "echo and http are both on port 80",
        ),
        (
            "--tun bn0 --address 10.77.0.2/24 --device tun=bn0,address=10.78.0.2/24",
            "bn0 is named twice",
        ),
    ];
    for (words, part) in rows {
        let failure = Setup::check(line(words)).unwrap_err();
        assert!(
            matches!(&failure, Failure::Usage(sentence) if sentence.contains(part)),
            "{words}: {failure}"
        );
    }
    let by = |device: &str| {
        let text = format!(
            "tun = 'bn0'\naddress = '10.77.0.2/24'\ndevice = 'tap=bn1'\nroute = ['10.9.0.0/16 dev {device}', '10.8.0.0/16 via 10.77.0.1']"
        );
        Setup::check(toml::from_str(&text).unwrap())
    };
    let devices = by("bn1").unwrap().routes.into_iter();
    let devices: Vec<Option<u8>> = devices.map(|route| route.device).collect();
    assert_eq!(devices, [Some(1), None]);
    assert_eq!(
        by("bn2").unwrap_err().to_string(),
        "no route can be by bn2: the stack stands on bn0 and bn1"
    );
    let port: Settings = toml::from_str("tun = 'bn0'\naddress = '10.77.0.2'\necho = 0").unwrap();
    assert!(
        Setup::check(port)
            .unwrap_err()
            .to_string()
            .contains("port 0")
    );
}

#[test]
fn bad_files_are_refused_by_line() {
    let rows = [
        ("tun = 'bn0'\nehco = 7\n", "line 2", "unknown field `ehco`"),
        ("tun = \n", "line 1", ""),
        ("\n\nhost = '10.77.0.1/99'\n", "line 3", "prefix"),
        ("address = 7\n", "line 1", "a string or a list of strings"),
        (
            "tun = 'bn0'\nimpair = 'los=1%'\n",
            "line 2",
            "`los` is not known here",
        ),
        (
            "congestion = 'vegas'\n",
            "line 1",
            "there are cubic, new-reno and bbr",
        ),
        (
            "ecn = 'yes'\n",
            "line 1",
            "there are off, passive, on and accurate",
        ),
    ];
    let path = std::env::temp_dir().join(format!("braidnet-settings-{}.toml", std::process::id()));
    for (text, line, part) in rows {
        std::fs::write(&path, text).unwrap();
        let sentence = Settings::read(&path).unwrap_err().to_string();
        assert!(
            sentence.contains(line) && sentence.contains(part),
            "{sentence}"
        );
        assert!(!sentence.contains('\n'), "{sentence}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(
        Settings::read(&path)
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
}
