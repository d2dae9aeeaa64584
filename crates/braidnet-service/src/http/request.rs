//! The head of a request, from bytes (RFC 9112 §3 to §6).
//!
//! ```
//! use braidnet_service::http::request::{Parsed, Status, parse};
//! let Parsed::Request(head, request) = parse(b"GET /a/../b%20c HTTP/1.1\r\nHost: h\r\n\r\nmore") else { panic!() };
//! assert_eq!((head, request.path.as_slice(), request.keep_alive), (37, &b"b c"[..], true));
//! assert_eq!(parse(b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n"), Parsed::Refused(Status::NotImplemented));
//! ```

pub use super::range::Range;
pub use super::response::Status;
use super::{MAX_BODY, MAX_HEAD};
use std::time::SystemTime;

/// Header fields of a request; more are refused with 431.
const MAX_FIELDS: usize = 100;

/// What a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The file, seen from the directory: no leading slash, no `.` or `..`, decoded. Empty for the directory itself.
    pub path: Vec<u8>,
    /// The target ends in a slash: a directory is meant.
    pub names_directory: bool,
    /// HEAD: no body is wanted.
    pub head_only: bool,
    /// The part of the file that is wanted.
    pub range: Option<Range>,
    /// What must hold for the file to be sent.
    pub conditions: Conditions,
    /// The connection may go on after the response (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// HTTP/1.0: a connection that goes on is announced.
    pub old: bool,
    /// Bytes of a body that nobody wants.
    pub body: u64,
}

/// Conditions (RFC 9110 §13.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    /// `If-Match`.
    pub if_match: Option<Tags>,
    /// `If-None-Match`.
    pub if_none_match: Option<Tags>,
    /// `If-Modified-Since`.
    pub modified_since: Option<SystemTime>,
    /// `If-Unmodified-Since`.
    pub unmodified_since: Option<SystemTime>,
    /// `If-Range`: the range counts only if the file was last modified at this time, or never if it is a tag.
    pub if_range: Option<Option<SystemTime>>,
}

/// What `If-Match` and `If-None-Match` name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tags {
    /// `*`: any representation.
    Any,
    /// Entity tags, none of which is ours: there are none.
    Others,
}

/// What bytes are.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a request.
    Partial,
    /// A request whose head has so many bytes.
    Request(usize, Box<Request>),
    /// Something that is answered with this, after which the connection is closed.
    Refused(Status),
}

/// Reads the head of a request from the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let window = &bytes[..bytes.len().min(MAX_HEAD)];
    let len = match head.parse(window) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Parsed::Partial,
        Ok(httparse::Status::Partial) => return Parsed::Refused(Status::HeadTooLarge),
        Err(httparse::Error::TooManyHeaders) => return Parsed::Refused(Status::HeadTooLarge),
        Err(httparse::Error::Version) => return Parsed::Refused(Status::VersionNotSupported),
        Err(_) => return Parsed::Refused(Status::BadRequest),
    };
    match understand(&head) {
        Ok(request) => Parsed::Request(len, Box::new(request)),
        Err(status) => Parsed::Refused(status),
    }
}

fn understand(head: &httparse::Request<'_, '_>) -> Result<Request, Status> {
    let old = head.version == Some(0);
    let fields = Fields::read(head.headers)?;
    // RFC 9112 §3.2: exactly one host, from HTTP/1.1 on.
    if fields.hosts > 1 || (fields.hosts == 0 && !old) {
        return Err(Status::BadRequest);
    }
    let head_only = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        Some("POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH") => {
            return Err(Status::MethodNotAllowed);
        }
        _ => return Err(Status::NotImplemented),
    };
    let body = match (fields.transfer_coding, fields.content_length) {
        // RFC 9112 §6.1: a length beside a coding is an attempt at smuggling.
        (true, Some(_)) => return Err(Status::BadRequest),
        (true, None) => return Err(Status::NotImplemented),
        (false, length) => length.unwrap_or(0),
    };
    if body > MAX_BODY {
        return Err(Status::ContentTooLarge);
    }
    let target = head.path.unwrap_or_default();
    let (path, names_directory) = path_of(target).ok_or(Status::BadRequest)?;
    Ok(Request {
        path,
        names_directory,
        head_only,
        // RFC 9110 §14.2: only GET has ranges.
        range: if head_only { None } else { fields.range },
        conditions: fields.conditions,
        keep_alive: if old {
            fields.keep_alive && !fields.close
        } else {
            !fields.close
        },
        old,
        body,
    })
}

/// The fields that matter.
#[derive(Default)]
struct Fields {
    hosts: usize,
    close: bool,
    keep_alive: bool,
    content_length: Option<u64>,
    transfer_coding: bool,
    range: Option<Range>,
    conditions: Conditions,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Fields, Status> {
        let mut fields = Fields::default();
        let mut ranges = 0;
        for httparse::Header { name, value } in headers {
            let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
            if is("host") {
                fields.hosts += 1;
            } else if is("connection") {
                fields.connection(value);
            } else if is("content-length") {
                fields.length(value)?;
            } else if is("transfer-encoding") {
                fields.transfer_coding = true;
            } else if is("range") {
                ranges += 1;
                fields.range = Range::parse(value);
            } else {
                fields.condition(name, value);
            }
        }
        // A field that may stand only once and stands twice says nothing.
        if ranges > 1 {
            fields.range = None;
        }
        Ok(fields)
    }

    /// RFC 9110 §7.6.1.
    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// RFC 9112 §6.3: lengths that differ, or are none, are refused; the same one twice may be taken once.
    fn length(&mut self, value: &[u8]) -> Result<(), Status> {
        for digits in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Err(Status::BadRequest);
            }
            let length = digits.iter().fold(0u64, |sum, digit| {
                sum.saturating_mul(10)
                    .saturating_add(u64::from(digit - b'0'))
            });
            if self.content_length.is_some_and(|other| other != length) {
                return Err(Status::BadRequest);
            }
            self.content_length = Some(length);
        }
        Ok(())
    }

    /// RFC 9110 §13.1: a date that cannot be read is ignored.
    fn condition(&mut self, name: &str, value: &[u8]) {
        let tags = if value.trim_ascii() == b"*" {
            Tags::Any
        } else {
            Tags::Others
        };
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        let conditions = &mut self.conditions;
        if is("if-modified-since") {
            conditions.modified_since = date(value);
        } else if is("if-unmodified-since") {
            conditions.unmodified_since = date(value);
        } else if is("if-match") {
            conditions.if_match = Some(tags);
        } else if is("if-none-match") {
            conditions.if_none_match = Some(tags);
        } else if is("if-range") {
            conditions.if_range = Some(date(value));
        }
    }
}

fn date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(core::str::from_utf8(value).ok()?.trim()).ok()
}

/// The path of a target in origin form or absolute form (RFC 9112 §3.2), decoded, without dot segments (RFC 3986 §5.2.4),
/// and whether it ends in a slash. `None` if it is no path.
fn path_of(target: &str) -> Option<(Vec<u8>, bool)> {
    let path = match target.as_bytes().first()? {
        b'/' => target,
        _ => {
            let scheme = target
                .get(..7)
                .filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
            let behind = &target[scheme.len()..];
            behind.find('/').map_or("/", |slash| &behind[slash..])
        }
    };
    let path = path.split(['?', '#']).next()?;
    let decoded = percent_decode(path.as_bytes())?;
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut ends_open = true;
    for segment in decoded.split(|byte| *byte == b'/') {
        ends_open = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    Some((segments.join(&b'/'), ends_open))
}

/// RFC 3986 §2.1. `None` for what is no encoding, and for a zero byte, which no file name has.
fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let (byte, behind) = match (byte, behind) {
            (b'%', &[high, low, ref behind @ ..]) => (hex(high)? << 4 | hex(low)?, behind),
            (b'%', _) => return None,
            _ => (byte, behind),
        };
        if byte == 0 {
            return None;
        }
        decoded.push(byte);
        rest = behind;
    }
    Some(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet::Duration;
    use proptest::prelude::*;

    fn request(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Parsed::Request(len, request) => {
                assert_eq!(len, text.len());
                *request
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_refused_for_what_they_are() {
        use Status::*;
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(MAX_HEAD));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101));
        let rows = [
            ("BLAH\r\n\r\n", BadRequest),
            ("GET / HTTP/1.1\r\n\r\n", BadRequest),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BadRequest),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", BadRequest),
            ("GET x HTTP/1.1\r\nHost: a\r\n\r\n", BadRequest),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", BadRequest),
            ("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", BadRequest),
            ("GET /%0 HTTP/1.1\r\nHost: a\r\n\r\n", BadRequest),
            ("GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n", BadRequest),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                BadRequest,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
                BadRequest,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                BadRequest,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                NotImplemented,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n",
                ContentTooLarge,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                ContentTooLarge,
            ),
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", MethodNotAllowed),
            ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", NotImplemented),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", VersionNotSupported),
            (&long, HeadTooLarge),
            (&many, HeadTooLarge),
        ];
        for (text, status) in rows {
            assert_eq!(
                parse(text.as_bytes()),
                Parsed::Refused(status),
                "{text:.80}"
            );
        }
    }

    #[test]
    fn paths_are_decoded_and_stay_below() {
        let rows: [(&str, Option<(&str, bool)>); 13] = [
            ("/", Some(("", true))),
            ("/a/b", Some(("a/b", false))),
            ("/a/b/", Some(("a/b", true))),
            ("/a//./b", Some(("a/b", false))),
            ("/../../etc/passwd", Some(("etc/passwd", false))),
            ("/a/../../b", Some(("b", false))),
            ("/%2e%2e/%2E%2e/etc", Some(("etc", false))),
            ("/..%2f..%2fetc", Some(("etc", false))),
            ("/a%20b?c=d/../..", Some(("a b", false))),
            ("/a/..", Some(("", true))),
            ("http://host", Some(("", true))),
            ("HTTP://host:80/x?y", Some(("x", false))),
            ("ftp://host/x", None),
        ];
        for (target, expected) in rows {
            let expected = expected.map(|(path, open)| (path.as_bytes().to_vec(), open));
            assert_eq!(path_of(target), expected, "{target}");
        }
    }

    #[test]
    fn connections_go_on_as_the_version_says() {
        let rows = [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n",
                false,
            ),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
        ];
        for (text, expected) in rows {
            assert_eq!(request(text).keep_alive, expected, "{text}");
        }
    }

    #[test]
    fn conditions_and_ranges_are_read() {
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let text = "GET /f HTTP/1.1\r\nhost: a\r\nif-modified-since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                    If-None-Match: \"x\"\r\nIf-Match: *\r\nIf-Range: W/\"y\"\r\nRange: bytes=1-2\r\nContent-Length: 5, 5\r\n\r\n";
        let request = request(text);
        assert_eq!(request.conditions.modified_since, Some(when));
        assert_eq!(request.conditions.if_none_match, Some(Tags::Others));
        assert_eq!(request.conditions.if_match, Some(Tags::Any));
        assert_eq!(request.conditions.if_range, Some(None));
        assert_eq!(
            (request.range, request.body),
            (Some(Range::From(1, Some(2))), 5)
        );
        let twice = "HEAD /f HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n";
        assert_eq!(super::tests::request(twice).range, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_prefix_of_a_request_is_partial(cut in 0usize..42) {
            let text = b"GET /a%20b HTTP/1.1\r\nHost: a\r\nX: yy y\r\n\r\n";
            prop_assert_eq!(parse(&text[..cut.min(text.len() - 1)]), Parsed::Partial);
        }

        #[test]
        fn no_path_leads_up(target in "/[a./%2eEfF]{0,30}") {
            if let Some((path, _)) = path_of(&target) {
                prop_assert!(path.split(|byte| *byte == b'/').all(|segment| !matches!(segment, b"." | b"..")));
                prop_assert!(path.first() != Some(&b'/'));
            }
        }
    }
}
