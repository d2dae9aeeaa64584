//! Heads of HTTP requests (RFC 9112).

use braidnet_service::http::request::{Parsed, parse};
use braidnet_service::http::{MAX_BODY, MAX_HEAD};

/// A head ends where it ends, whatever follows and however it came; what it asks for lies below the directory.
pub fn request(input: &[u8]) {
    match parse(input) {
        Parsed::Partial => {
            assert!(input.len() < MAX_HEAD);
            let half = &input[..input.len() / 2];
            assert_eq!(parse(half), Parsed::Partial, "it had been more with less");
        }
        Parsed::Request(len, request) => {
            assert!(len <= input.len().min(MAX_HEAD));
            let head = &input[..len];
            assert!(head.ends_with(b"\n"), "the empty line");
            assert_eq!(
                parse(&head[..len - 1]),
                Parsed::Partial,
                "it ends no sooner"
            );
            // Whatever follows.
            let again = if len == input.len() {
                parse(&[head, b"GET / HTTP/1.1\r\n"].concat())
            } else {
                parse(head)
            };
            assert_eq!(again, Parsed::Request(len, request.clone()));
            assert!(request.body <= MAX_BODY);
            assert!(!(request.head_only && request.range.is_some()));
            let path = request.path;
            assert!(!path.contains(&0));
            let names = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
            assert!(
                path.is_empty() || path.split(|byte| *byte == b'/').all(names),
                "{path:?}"
            );
        }
        Parsed::Refused(status) => assert!((400..=505).contains(&(status as u16))),
    }
}
