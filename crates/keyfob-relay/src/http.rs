//! As much of HTTP/1.1 as one request and its response need: a message with `Content-Length` or chunked.
//!
//! What does not follow the grammar exactly is refused, and every part has a bound. A response without a length would end with
//! the connection, so that a truncated one could not be told from a complete one; it is refused too.

use std::io::{self, Read};

const MAX_HEAD: usize = 16 * 1024;
const MAX_BODY: usize = 8 * 1024 * 1024;
/// The size of a chunk and its extensions.
const MAX_CHUNK_LINE: usize = 256;
/// How much is read at once. Nearly all responses fit.
const READ_SIZE: usize = 16 * 1024;

/// A response, complete.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Why there is no response.
#[cfg_attr(test, derive(Debug))]
pub(crate) enum ResponseError {
    /// Not even one byte came before the end of the connection (`None`) or an error of it.
    NoAnswer(Option<io::Error>),
    /// The connection failed within the response.
    Interrupted(io::Error),
    /// The response ended too early, is too long or is not HTTP.
    Invalid(&'static str),
}

use ResponseError::{Interrupted, Invalid, NoAnswer};

/// The bytes of a request. Path and content type are constants of this program, so nothing needs to be escaped.
pub(crate) fn request(method: &str, path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "{method} {path} HTTP/1.1\r\nHost: keyfob-agent\r\nUser-Agent: keyfob-relay/{}\r\nAccept: application/json\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION"),
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads one response. What has come with it and does not belong to it is an error; waiting for the end of the connection to
/// find more would take longer and gain nothing.
pub(crate) fn read_response(source: impl Read) -> Result<Response, ResponseError> {
    let mut incoming = Incoming { source, buffer: Vec::new(), has_begun: false };
    let head = incoming.take_through(b"\r\n\r\n", MAX_HEAD, "its head is longer than 16 KiB")?;
    let head = Head::parse(&head).map_err(Invalid)?;
    let body = match head.framing {
        Framing::Length(length) => incoming.take(length)?,
        Framing::Chunked => incoming.take_chunked()?,
    };
    if !incoming.buffer.is_empty() {
        return Err(Invalid("something follows its body"));
    }
    Ok(Response { status: head.status, body })
}

/// The status and where the body ends.
struct Head {
    status: u16,
    framing: Framing,
}

enum Framing {
    Length(usize),
    Chunked,
}

impl Head {
    /// Parses a head with the empty line that ends it.
    fn parse(head: &[u8]) -> Result<Self, &'static str> {
        let head = str::from_utf8(head).map_err(|_| "its head is not text")?;
        let head = head.strip_suffix("\r\n\r\n").ok_or("its head is not complete")?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(status).ok_or("its status line is invalid")?;
        let (mut length, mut chunked) = (None, false);
        for line in lines {
            let (name, value) = header(line).ok_or("a header is invalid")?;
            if name.eq_ignore_ascii_case("content-length") {
                let value = content_length(value).ok_or("its Content-Length is invalid")?;
                if length.replace(value).is_some() {
                    return Err("it has two lengths");
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                if chunked || !value.eq_ignore_ascii_case("chunked") {
                    return Err("its transfer coding is not supported");
                }
                chunked = true;
            }
        }
        match (length, chunked) {
            (Some(length), false) if length > MAX_BODY => Err(TOO_LARGE),
            (Some(length), false) => Ok(Self { status, framing: Framing::Length(length) }),
            (None, true) => Ok(Self { status, framing: Framing::Chunked }),
            (Some(_), true) => Err("it has two lengths"),
            (None, false) => Err("it has no length"),
        }
    }
}

const TOO_LARGE: &str = "its body is larger than 8 MiB";

/// The code of a final response: an interim one (1xx) has not been asked for.
fn status(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("HTTP/1.")?.strip_prefix(['0', '1'])?.strip_prefix(' ')?;
    let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_code = code.len() == 3 && code.bytes().all(|digit| digit.is_ascii_digit());
    let is_reason = reason.chars().all(is_field_char);
    let code =
        code.parse().ok().filter(|code| is_code && is_reason && (200..600).contains(code))?;
    Some(code)
}

fn header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let value = value.trim_matches([' ', '\t']);
    (!name.is_empty() && name.bytes().all(is_token) && value.chars().all(is_field_char))
        .then_some((name, value))
}

fn is_field_char(c: char) -> bool {
    c == '\t' || !c.is_control()
}

/// Digits only: `usize::from_str` would accept a plus sign too.
fn content_length(value: &str) -> Option<usize> {
    value.bytes().all(|digit| digit.is_ascii_digit()).then(|| value.parse().ok()).flatten()
}

/// The source and what has been read from it but not used yet.
struct Incoming<R> {
    source: R,
    buffer: Vec<u8>,
    /// Whether a byte of the response has come.
    has_begun: bool,
}

impl<R: Read> Incoming<R> {
    /// Takes everything up to and including `end`, which must be within the first `limit` bytes.
    fn take_through(
        &mut self,
        end: &[u8],
        limit: usize,
        too_long: &'static str,
    ) -> Result<Vec<u8>, ResponseError> {
        let mut searched = 0;
        loop {
            let unsearched = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = unsearched.windows(end.len()).position(|bytes| bytes == end) {
                let length = searched + at + end.len();
                return if length > limit {
                    Err(Invalid(too_long))
                } else {
                    Ok(self.split(length))
                };
            }
            if self.buffer.len() >= limit {
                return Err(Invalid(too_long));
            }
            // The beginning of `end` may already be there.
            searched = (self.buffer.len() + 1).saturating_sub(end.len());
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, ResponseError> {
        while self.buffer.len() < length {
            self.fill()?;
        }
        Ok(self.split(length))
    }

    fn take_chunked(&mut self) -> Result<Vec<u8>, ResponseError> {
        let mut body = Vec::new();
        loop {
            let line =
                self.take_through(b"\r\n", MAX_CHUNK_LINE, "the size of a chunk is too long")?;
            let size = chunk_size(&line).ok_or(Invalid("the size of a chunk is invalid"))?;
            if size == 0 {
                break;
            }
            if size > MAX_BODY - body.len() {
                return Err(Invalid(TOO_LARGE));
            }
            body.append(&mut self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(Invalid("a chunk does not end where it should"));
            }
        }
        self.skip_trailers()?;
        Ok(body)
    }

    /// Fields after the last chunk, and the empty line that ends them. They have no meaning here.
    fn skip_trailers(&mut self) -> Result<(), ResponseError> {
        let mut left = MAX_HEAD;
        loop {
            let line = self.take_through(b"\r\n", left, "its trailers are longer than 16 KiB")?;
            left -= line.len();
            match line.strip_suffix(b"\r\n") {
                Some([]) => return Ok(()),
                Some(line) if str::from_utf8(line).ok().and_then(header).is_some() => {}
                _ => return Err(Invalid("a trailer is invalid")),
            }
        }
    }

    fn split(&mut self, length: usize) -> Vec<u8> {
        if length == self.buffer.len() {
            return std::mem::take(&mut self.buffer);
        }
        self.buffer.drain(..length.min(self.buffer.len())).collect()
    }

    /// Reads more. The end of the connection is an error, because every caller needs more.
    fn fill(&mut self) -> Result<(), ResponseError> {
        let mut bytes = [0; READ_SIZE];
        let count = match self.source.read(&mut bytes) {
            Ok(0) if self.has_begun => return Err(Invalid("it is truncated")),
            Ok(0) => return Err(NoAnswer(None)),
            Ok(count) => count,
            Err(error) if self.has_begun => return Err(Interrupted(error)),
            Err(error) => return Err(NoAnswer(Some(error))),
        };
        self.has_begun = true;
        self.buffer.extend_from_slice(bytes.get(..count).unwrap_or_default());
        Ok(())
    }
}

/// A hexadecimal number. Extensions after `;` have no meaning here.
fn chunk_size(line: &[u8]) -> Option<usize> {
    let line = str::from_utf8(line.strip_suffix(b"\r\n")?).ok()?;
    let (digits, extensions) = line.split_once(';').unwrap_or((line, ""));
    let digits = digits.trim_end_matches([' ', '\t']);
    let is_valid = digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        && extensions.chars().all(is_field_char);
    is_valid.then(|| usize::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, as a slow peer does.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(1);
            self.0.read(&mut buffer[..count])
        }
    }

    fn read(bytes: &[u8]) -> Result<Response, String> {
        let described = |result: Result<Response, ResponseError>| {
            result.map_err(|error| match error {
                Invalid(what) => what.to_owned(),
                other => format!("{other:?}"),
            })
        };
        let response = described(read_response(bytes));
        if bytes.len() < 4096 {
            assert_eq!(described(read_response(Drip(bytes))), response, "the same in small pieces");
        }
        response
    }

    fn response(status: u16, body: &str) -> Response {
        Response { status, body: body.into() }
    }

    #[test]
    fn a_response_with_a_length_or_in_chunks_is_read() {
        let cases = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", response(200, "hi")),
            ("HTTP/1.0 404 \r\nX: \u{e9}\r\nContent-Length:0\r\n\r\n", response(404, "")),
            ("HTTP/1.1 503\r\nContent-Length: \t1 \r\n\r\n!", response(503, "!")),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhi\r\nA;x=1\r\n, 67890abc\r\n0\r\n\r\n",
                response(200, "hi, 67890abc"),
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nX-Trailer: 1\r\n\r\n",
                response(200, ""),
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes.as_bytes()), Ok(expected), "{bytes:?}");
        }
    }

    #[test]
    fn an_invalid_response_is_refused_with_what_is_wrong() {
        let cases = [
            ("SSH-2.0-OpenSSH\r\n\r\n", "its status line is invalid"),
            ("HTTP/2 200 OK\r\n\r\n", "its status line is invalid"),
            ("HTTP/1.1 +20 OK\r\n\r\n", "its status line is invalid"),
            ("HTTP/1.1 100 Continue\r\n\r\n", "its status line is invalid"),
            ("HTTP/1.1 200 O\u{1b}K\r\n\r\n", "its status line is invalid"),
            ("HTTP/1.1 200 OK\r\n\r\nhi", "it has no length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi", "its Content-Length is invalid"),
            ("HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhi", "its Content-Length is invalid"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
                "its Content-Length is invalid",
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 8388609\r\n\r\n", TOO_LARGE),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
                "it has two lengths",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
                "it has two lengths",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                "its transfer coding is not supported",
            ),
            ("HTTP/1.1 200 OK\r\nX : 1\r\nContent-Length: 0\r\n\r\n", "a header is invalid"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n folded\r\n\r\n", "a header is invalid"),
            ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", "it is truncated"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "it is truncated"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", "it is truncated"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes.as_bytes()), Err(expected.to_owned()), "{bytes:?}");
        }
    }

    #[test]
    fn invalid_chunks_are_refused_with_what_is_wrong() {
        let cases = [
            ("2\r\nhi\r\n", "it is truncated"),
            ("2\r\nhi\r\n0\r\n", "it is truncated"),
            ("\r\n", "the size of a chunk is invalid"),
            ("+2\r\nhi\r\n", "the size of a chunk is invalid"),
            ("fffffffffffffffff\r\n", "the size of a chunk is invalid"),
            ("800001\r\n", TOO_LARGE),
            ("1\r\nhi\r\n", "a chunk does not end where it should"),
            ("0\r\nx\r\n\r\n", "a trailer is invalid"),
        ];
        for (bytes, expected) in cases {
            let bytes = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{bytes}");
            assert_eq!(read(bytes.as_bytes()), Err(expected.to_owned()), "{bytes:?}");
        }
    }

    #[test]
    fn every_part_is_bounded() {
        let endless = |start: &str| read_response(start.as_bytes().chain(io::repeat(b'a')));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let cases = [
            ("HTTP/1.1 200 OK\r\nX: ".to_owned(), "its head is longer than 16 KiB"),
            (chunked.to_owned(), "the size of a chunk is too long"),
            (format!("{chunked}0\r\nX: "), "its trailers are longer than 16 KiB"),
        ];
        for (start, expected) in cases {
            assert!(matches!(endless(&start), Err(Invalid(what)) if what == expected), "{start:?}");
        }

        let mut largest = b"HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n".to_vec();
        largest.resize(largest.len() + MAX_BODY, b'a');
        assert_eq!(read(&largest).map(|response| response.body.len()), Ok(MAX_BODY));
    }

    #[test]
    fn no_answer_differs_from_a_truncated_one() {
        assert!(matches!(read_response(&b""[..]), Err(NoAnswer(None))));
        assert!(matches!(read_response(&b"H"[..]), Err(Invalid("it is truncated"))));
    }

    #[test]
    fn bytes_after_the_body_that_came_with_it_are_refused() {
        for bytes in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK",
        ] {
            let response = read_response(bytes.as_bytes());
            assert!(matches!(response, Err(Invalid("something follows its body"))), "{bytes:?}");
        }
    }

    #[test]
    fn a_request_is_one_message_and_then_the_connection_closes() {
        let expected = format!(
            "POST /v1/provider HTTP/1.1\r\nHost: keyfob-agent\r\nUser-Agent: keyfob-relay/{}\r\nAccept: application/json\r\n\
             Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(request("POST", "/v1/provider", "text/plain", b"hi"), expected.into_bytes());
    }
}
