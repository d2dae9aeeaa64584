//! Responses: which one, and its head in bytes.

use super::range::Selected;
use super::request::{Request, Tags};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// Status codes (RFC 9110 §15, RFC 6585 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Status {
    /// The file.
    Ok = 200,
    /// A part of it.
    PartialContent = 206,
    /// At another place.
    MovedPermanently = 301,
    /// As the client has it.
    NotModified = 304,
    /// No request.
    BadRequest = 400,
    /// No such file.
    NotFound = 404,
    /// Not with this method.
    MethodNotAllowed = 405,
    /// The head took too long.
    RequestTimeout = 408,
    /// A condition does not hold.
    PreconditionFailed = 412,
    /// A body too long to read over.
    ContentTooLarge = 413,
    /// No byte of the range is there.
    RangeNotSatisfiable = 416,
    /// A head too long.
    HeadTooLarge = 431,
    /// The file cannot be read.
    InternalServerError = 500,
    /// What this server does not know.
    NotImplemented = 501,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    VersionNotSupported = 505,
}

impl Status {
    const fn reason(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::PartialContent => "Partial Content",
            Status::MovedPermanently => "Moved Permanently",
            Status::NotModified => "Not Modified",
            Status::BadRequest => "Bad Request",
            Status::NotFound => "Not Found",
            Status::MethodNotAllowed => "Method Not Allowed",
            Status::RequestTimeout => "Request Timeout",
            Status::PreconditionFailed => "Precondition Failed",
            Status::ContentTooLarge => "Content Too Large",
            Status::RangeNotSatisfiable => "Range Not Satisfiable",
            Status::HeadTooLarge => "Request Header Fields Too Large",
            Status::InternalServerError => "Internal Server Error",
            Status::NotImplemented => "Not Implemented",
            Status::VersionNotSupported => "HTTP Version Not Supported",
        }
    }
}

/// What of a file matters for a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    pub(super) len: u64,
    pub(super) modified: SystemTime,
}

impl Facts {
    /// What can be said of a file now: in whole seconds, which is all that a date field holds, and no later than now (RFC
    /// 9110 §8.8.2.1).
    pub(super) fn new(len: u64, modified: SystemTime, now: SystemTime) -> Facts {
        let since = modified
            .min(now)
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Facts {
            len,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs()),
        }
    }
}

/// What a request for a file is answered with: a status, and which bytes.
pub(super) fn decide(request: &Request, facts: Facts) -> (Status, Selected) {
    let conditions = &request.conditions;
    let nothing = |status| (status, Selected::Part(0, 0));
    // In the order of RFC 9110 §13.2.2.
    let matches = match (conditions.if_match, conditions.unmodified_since) {
        (Some(tags), _) => tags == Tags::Any,
        (None, Some(since)) => facts.modified <= since,
        (None, None) => true,
    };
    if !matches {
        return nothing(Status::PreconditionFailed);
    }
    let modified = match (conditions.if_none_match, conditions.modified_since) {
        (Some(tags), _) => tags != Tags::Any,
        (None, Some(since)) => facts.modified > since,
        (None, None) => true,
    };
    if !modified {
        return nothing(Status::NotModified);
    }
    // RFC 9110 §13.1.5: another date than ours, or a tag, and the range is to be ignored.
    let range = match conditions.if_range {
        Some(when) if when != Some(facts.modified) => None,
        _ => request.range,
    };
    match range.map_or(Selected::Whole, |range| range.select(facts.len)) {
        Selected::Whole => (Status::Ok, Selected::Whole),
        Selected::Unsatisfiable => (Status::RangeNotSatisfiable, Selected::Unsatisfiable),
        part => (Status::PartialContent, part),
    }
}

/// The head of a response.
pub(super) struct Head {
    text: String,
}

impl Head {
    /// Status line and date.
    pub(super) fn new(status: Status, now: SystemTime) -> Head {
        let mut text = String::with_capacity(400);
        let _ = write!(
            text,
            "HTTP/1.1 {} {}\r\nDate: {}\r\n",
            status as u16,
            status.reason(),
            imf_date(now)
        );
        Head { text }
    }

    /// One more field.
    pub(super) fn field(mut self, name: &str, value: impl std::fmt::Display) -> Head {
        // Writing to a string does not fail.
        let _ = write!(self.text, "{name}: {value}\r\n");
        self
    }

    /// A field with a date.
    pub(super) fn date(self, name: &str, when: SystemTime) -> Head {
        self.field(name, imf_date(when))
    }

    /// Whether the connection goes on: said where it is not what the version takes for granted (RFC 9112 §9.3).
    pub(super) fn connection(self, keep_alive: bool, old: bool) -> Head {
        match (keep_alive, old) {
            (false, _) => self.field("Connection", "close"),
            (true, true) => self.field("Connection", "keep-alive"),
            (true, false) => self,
        }
    }

    /// The whole head.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.text.push_str("\r\n");
        self.text.into_bytes()
    }
}

/// A whole response that says no more than its status; `request` is what it answers, if that was one.
pub(super) fn plain(
    status: Status,
    now: SystemTime,
    keep_alive: bool,
    request: Option<&Request>,
) -> Vec<u8> {
    let body = format!("{} {}\n", status as u16, status.reason());
    let mut head = Head::new(status, now);
    if status == Status::MethodNotAllowed {
        head = head.field("Allow", "GET, HEAD");
    }
    let mut bytes = head
        .field("Content-Type", "text/plain; charset=utf-8")
        .field("Content-Length", body.len())
        .connection(keep_alive, request.is_some_and(|request| request.old))
        .finish();
    if !request.is_some_and(|request| request.head_only) {
        bytes.extend(body.as_bytes());
    }
    bytes
}

/// A date as HTTP writes it (RFC 9110 §5.6.7), for times from 1970 to 9999; others are taken for the nearest.
fn imf_date(when: SystemTime) -> String {
    const LAST: u64 = 253_402_300_799;
    let seconds = when
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
        .min(LAST);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The content type of a file, by the extension of its name; a directory's is that of its index.
pub(super) fn content_type(path: &[u8], names_directory: bool) -> &'static str {
    if names_directory {
        return "text/html; charset=utf-8";
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let extension = match name.iter().rposition(|byte| *byte == b'.') {
        Some(dot) => name[dot + 1..].to_ascii_lowercase(),
        None => Vec::new(),
    };
    TYPES
        .iter()
        .find(|(known, _)| known.as_bytes() == extension)
        .map_or("application/octet-stream", |(_, content_type)| content_type)
}

const TYPES: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("xml", "application/xml"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/vnd.microsoft.icon"),
    ("pdf", "application/pdf"),
    ("wasm", "application/wasm"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("zst", "application/zstd"),
    ("tar", "application/x-tar"),
];

#[cfg(test)]
mod tests {
    use super::super::request::{Parsed, parse};
    use super::*;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn seconds(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn conditions_are_weighed_in_the_order_of_the_rfc() {
        use Status::*;
        let rows = [
            (String::new(), Ok),
            (format!("If-Modified-Since: {MODIFIED}"), NotModified),
            (format!("If-Modified-Since: {LATER}"), NotModified),
            (format!("If-Modified-Since: {EARLIER}"), Ok),
            ("If-Modified-Since: yesterday".into(), Ok),
            (
                format!("If-Modified-Since: {MODIFIED}\r\nIf-None-Match: \"x\""),
                Ok,
            ),
            ("If-None-Match: *".into(), NotModified),
            (
                format!("If-Unmodified-Since: {EARLIER}"),
                PreconditionFailed,
            ),
            (format!("If-Unmodified-Since: {MODIFIED}"), Ok),
            (format!("If-Unmodified-Since: {EARLIER}\r\nIf-Match: *"), Ok),
            ("If-Match: \"x\"".into(), PreconditionFailed),
            (
                format!("If-Match: \"x\"\r\nIf-Modified-Since: {MODIFIED}"),
                PreconditionFailed,
            ),
            ("Range: bytes=1-2".into(), PartialContent),
            ("Range: bytes=1-2,4-5".into(), Ok),
            ("Range: bytes=100-".into(), RangeNotSatisfiable),
            (
                format!("Range: bytes=1-2\r\nIf-Range: {MODIFIED}"),
                PartialContent,
            ),
            (format!("Range: bytes=1-2\r\nIf-Range: {EARLIER}"), Ok),
            ("Range: bytes=1-2\r\nIf-Range: \"x\"".into(), Ok),
            (
                format!("Range: bytes=1-2\r\nIf-Modified-Since: {MODIFIED}"),
                NotModified,
            ),
        ];
        let facts = Facts::new(100, seconds(784_111_777), seconds(2_000_000_000));
        for (fields, status) in rows {
            let end = if fields.is_empty() { "" } else { "\r\n" };
            let text = format!("GET /f HTTP/1.1\r\nHost: a\r\n{fields}{end}\r\n");
            let Parsed::Request(_, request) = parse(text.as_bytes()) else {
                panic!("{text}")
            };
            assert_eq!(decide(&request, facts).0, status, "{fields}");
        }
    }

    #[test]
    fn dates_stay_within_what_can_be_written() {
        let now = seconds(1000);
        assert_eq!(
            Facts::new(0, now + Duration::from_millis(1500), now).modified,
            now
        );
        assert_eq!(
            Facts::new(0, seconds(999) + Duration::from_millis(999), now).modified,
            seconds(999)
        );
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(imf_date(before), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(imf_date(seconds(1 << 40)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn refusals_say_what_would_be_taken() {
        let refused = plain(Status::MethodNotAllowed, seconds(0), false, None);
        let text = String::from_utf8(refused).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 405 Method Not Allowed\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nAllow: GET, HEAD\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: 23\r\nConnection: close\r\n\r\n405 Method Not Allowed\n"
        );
    }

    #[test]
    fn who_is_refused_hears_whether_the_connection_goes_on() {
        let rows = [
            (
                "HEAD /f HTTP/1.1\r\nHost: a\r\n\r\n",
                true,
                "length: 14\r\n\r\n",
            ),
            (
                "GET /f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                true,
                "\r\nconnection: keep-alive\r\n\r\n404 not found\n",
            ),
            (
                "GET /f HTTP/1.0\r\n\r\n",
                false,
                "\r\nconnection: close\r\n\r\n404 not found\n",
            ),
        ];
        for (text, keep_alive, end) in rows {
            let Parsed::Request(_, request) = parse(text.as_bytes()) else {
                panic!("{text}")
            };
            assert_eq!(request.keep_alive, keep_alive, "{text}");
            let bytes = plain(Status::NotFound, seconds(0), keep_alive, Some(&request));
            let answer = String::from_utf8(bytes).unwrap().to_ascii_lowercase();
            assert!(answer.ends_with(end), "{answer:?}");
        }
    }

    #[test]
    fn types_follow_the_last_extension() {
        let rows = [
            ("a/b.html", "text/html; charset=utf-8"),
            ("A.PNG", "image/png"),
            ("x.tar.gz", "application/gzip"),
            ("dir.png/file", "application/octet-stream"),
            ("", "application/octet-stream"),
        ];
        for (path, expected) in rows {
            assert_eq!(content_type(path.as_bytes(), false), expected, "{path}");
        }
    }
}
