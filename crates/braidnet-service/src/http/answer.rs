//! What a request is answered with: the head of the response, and what of a file comes behind it.

use super::files::Transfer;
use super::range::Selected;
use super::request::Request;
use super::response::{Facts, Head, Status, content_type, decide, plain};
use super::root::{Found, Missing, Root};
use std::time::SystemTime;

/// The head of the response to a request, and what of a file comes behind it.
pub(super) fn respond(
    root: &Root,
    request: &Request,
    keep_alive: bool,
    now: SystemTime,
) -> (Vec<u8>, Option<Transfer>) {
    let found = match root.find(&request.path, request.names_directory) {
        Ok(found) => found,
        Err(Missing::NotFound) => {
            return (
                plain(Status::NotFound, now, keep_alive, Some(request)),
                None,
            );
        }
        Err(Missing::Failed) => {
            let status = Status::InternalServerError;
            return (plain(status, now, keep_alive, Some(request)), None);
        }
        Err(Missing::Directory) => {
            let head = Head::new(Status::MovedPermanently, now)
                .field(
                    "Location",
                    format_args!("/{}/", percent_encode(&request.path)),
                )
                .field("Content-Length", 0)
                .connection(keep_alive, request.old);
            return (head.finish(), None);
        }
    };
    respond_with(found, request, keep_alive, now)
}

/// The same for a file that has been found.
pub(super) fn respond_with(
    found: Found,
    request: &Request,
    keep_alive: bool,
    now: SystemTime,
) -> (Vec<u8>, Option<Transfer>) {
    let facts = Facts::new(found.len, found.modified, now);
    let (status, selected) = decide(request, facts);
    let head = Head::new(status, now).connection(keep_alive, request.old);
    let head = match status {
        Status::Ok | Status::PartialContent | Status::NotModified => head
            .field("Accept-Ranges", "bytes")
            .date("Last-Modified", facts.modified),
        _ => head,
    };
    let (offset, end) = match selected {
        Selected::Whole => (0, facts.len),
        Selected::Part(first, end) => (first, end),
        Selected::Unsatisfiable => (0, 0),
    };
    let head = match status {
        Status::PartialContent => head.field(
            "Content-Range",
            format_args!("bytes {offset}-{}/{}", end - 1, facts.len),
        ),
        // RFC 9110 §15.5.17.
        Status::RangeNotSatisfiable => {
            head.field("Content-Range", format_args!("bytes */{}", facts.len))
        }
        _ => head,
    };
    let head = match status {
        // RFC 9110 §15.4.5: no body, and no length but that of a 200.
        Status::NotModified => head,
        Status::Ok | Status::PartialContent => head
            .field(
                "Content-Type",
                content_type(&request.path, request.names_directory),
            )
            .field("Content-Length", end - offset),
        _ => head.field("Content-Length", 0),
    };
    let has_body = !request.head_only && end > offset;
    let transfer = has_body.then(|| Transfer::new(found.file, offset, end));
    (head.finish(), transfer)
}

/// A path as a URI writes it (RFC 3986 §3.3).
fn percent_encode(path: &[u8]) -> String {
    let mut encoded = String::with_capacity(path.len());
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(
                    char::from_digit(digit.into(), 16)
                        .unwrap_or('0')
                        .to_ascii_uppercase(),
                );
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_so_that_they_read_the_same() {
        assert_eq!(percent_encode(b"a b/\xc3\xbc?#%"), "a%20b/%C3%BC%3F%23%25");
    }
}
