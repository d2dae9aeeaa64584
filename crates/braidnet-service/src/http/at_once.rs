//! What need not be waited for.
//!
//! A small file that lies on a disk of this machine, and whose path and bytes the system has in memory, is opened and read by the session itself, with
//! calls that fail where they would wait: openat2(2) with `RESOLVE_CACHED`, preadv2(2) with `RWF_NOWAIT`, as io_uring does before it takes a thread. Handing an errand to a
//! file thread and back costs more than that, most of all where both share a processor. Nothing is remembered: each request finds the file as it is then.
//! Opening and reading may still wait where a program watches the folder with the right to refuse (fanotify), and for the note of when a file was last read.

use super::answer::respond_with;
use super::files::Transfer;
use super::request::Request;
use super::root::Root;
use std::time::SystemTime;

/// Most bytes of a file that are read like this: others on the processor wait for no more than to copy them.
pub(super) const BYTES: u64 = 64 << 10;

/// How far a session comes by itself.
#[derive(Debug)]
pub(super) enum Answer {
    /// To the end: the whole response.
    Whole(Vec<u8>),
    /// The response's head; the file is open, and what is to be sent of it is long, or not in memory.
    Begun(Vec<u8>, Transfer),
}

/// Answers a request by a response of at most [`BYTES`] and `space` bytes of a file; `None` where the file has to be looked for by a thread.
pub(super) fn answer(
    root: &Root,
    request: &Request,
    keep_alive: bool,
    space: u64,
    now: SystemTime,
) -> Option<Answer> {
    let found = root.find_cached(&request.path, request.names_directory)?;
    let (mut response, transfer) = respond_with(found, request, keep_alive, now);
    let Some(transfer) = transfer else {
        return Some(Answer::Whole(response));
    };
    if transfer.left() > BYTES.min(space) {
        return Some(Answer::Begun(response, transfer));
    }
    let head = response.len();
    response.resize(head + transfer.left() as usize, 0);
    if transfer.read_cached(&mut response[head..]) {
        return Some(Answer::Whole(response));
    }
    response.truncate(head);
    Some(Answer::Begun(response, transfer))
}

#[cfg(test)]
mod tests {
    use super::super::request::{Parsed, parse};
    use super::*;
    use std::os::unix::fs::symlink;

    fn ask(root: &Root, request: &str, space: u64) -> Option<Answer> {
        let Parsed::Request(_, request) = parse(request.as_bytes()) else {
            panic!("{request:?}");
        };
        // A mount that is made meanwhile has it wait, too.
        (0..100).find_map(|_| answer(root, &request, true, space, SystemTime::now()))
    }

    #[test]
    fn what_is_small_and_in_memory_is_answered_at_once() {
        let folder = std::env::temp_dir().join(format!("braidnet-at-once-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).expect("it can be written");
        let write = |name, bytes: usize| {
            // What has just been written is in memory.
            std::fs::write(folder.join(name), vec![b'x'; bytes]).expect("it can be written");
        };
        write("small", 1024);
        write("empty", 0);
        write("long", 65_537);
        write("sub/index.html", 3);
        symlink("/etc/passwd", folder.join("out")).expect("it can be made");
        let root = Root::open(&folder).expect("it is there");
        if !root.is_local() {
            let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!is_ci, "the folder for temporary files is on no disk");
            return println!(
                "SKIPPED: {} is on no disk of this machine",
                folder.display()
            );
        }
        // How many bytes of the file come with the head, or are left to a thread.
        let rows = [
            ("GET /small", "", Some(Ok(1024))),
            ("GET /small", "Range: bytes=1-2\r\n", Some(Ok(2))),
            ("HEAD /small", "", Some(Ok(0))),
            ("GET /empty", "", Some(Ok(0))),
            ("GET /sub/", "", Some(Ok(3))),
            ("GET /long", "", Some(Err(65_537))),
            ("GET /long", "Range: bytes=-65536\r\n", Some(Ok(65_536))),
            ("GET /sub", "", None),
            ("GET /", "", None),
            ("GET /absent", "", None),
            ("GET /out", "", None),
            ("GET /small/", "", None),
        ];
        let parts = |answer| match answer {
            Answer::Whole(whole) => {
                let head = whole.windows(4).position(|four| four == b"\r\n\r\n");
                Ok(whole.len() - 4 - head.expect("it ends"))
            }
            Answer::Begun(head, transfer) => {
                assert!(head.ends_with(b"\r\n\r\n"));
                Err(transfer.left())
            }
        };
        for (line, field, expected) in rows {
            let request = format!("{line} HTTP/1.1\r\nHost: a\r\n{field}\r\n");
            let answered = ask(&root, &request, 1 << 20).map(parts);
            assert_eq!(answered, expected, "{line} {field}");
        }
        let request = "GET /small HTTP/1.1\r\nHost: a\r\n\r\n";
        let answered = ask(&root, request, 1023).map(parts);
        assert_eq!(answered, Some(Err(1024)), "more than may be sent");
        // The file of each request is the one that is there then.
        write("small", 7);
        assert_eq!(ask(&root, request, 1 << 20).map(parts), Some(Ok(7)));
        std::fs::remove_file(folder.join("small")).expect("it is there");
        assert!(ask(&root, request, 1 << 20).is_none());
        let _ = std::fs::remove_dir_all(&folder);
    }
}
