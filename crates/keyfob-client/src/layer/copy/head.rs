//! The address and the headers of a request, as bytes.
//!
//! A clone of an address, or of a header's value, that was never cloned before allocates; this does not, unless they are
//! long. They are put together again when they are needed, which is seldom.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    header::AUTHORIZATION,
    uri::{Parts, Scheme},
};

/// Enough for what most requests have.
const INLINE: usize = 192;
/// Of a header: the length of its name, and of its value with a bit for whether that is sensitive.
const PREFIX: usize = 6;

/// The schemes that a request can have. To keep any other would take an allocation, and nobody has one.
#[derive(Clone, Copy)]
pub(super) enum Known {
    None,
    Http,
    Https,
}

impl Known {
    /// The scheme of an address, if it is one of these.
    #[inline]
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        match uri.scheme() {
            None => Some(Self::None),
            Some(scheme) if *scheme == Scheme::HTTPS => Some(Self::Https),
            Some(scheme) if *scheme == Scheme::HTTP => Some(Self::Http),
            Some(_) => None,
        }
    }
}

/// Method, authority and path, then the headers one behind the other.
pub(super) struct Head {
    scheme: Known,
    method: usize,
    authority: usize,
    path: usize,
    room: Room,
    /// What did not fit.
    long: Option<Vec<u8>>,
}

impl Head {
    #[inline]
    pub(super) fn empty() -> Self {
        let room = Room { used: 0, bytes: [0; INLINE] };
        Self { scheme: Known::None, method: 0, authority: 0, path: 0, room, long: None }
    }

    /// Makes it a copy. Says also whether there is an `Authorization`, which is not copied: everything is looked at anyway.
    #[inline]
    pub(super) fn fill(
        &mut self,
        scheme: Known,
        (method, uri): (&Method, &Uri),
        headers: &HeaderMap,
    ) -> bool {
        let method = method.as_str();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        self.scheme = scheme;
        (self.method, self.authority, self.path) = (method.len(), authority.len(), path.len());
        let line = [method, authority, path];
        match write(line, headers, &mut self.room) {
            Some(is_authorized) => is_authorized,
            None => self.fill_long(line, headers),
        }
    }

    #[cold]
    fn fill_long(&mut self, line: [&str; 3], headers: &HeaderMap) -> bool {
        let bytes = self.long.insert(Vec::with_capacity(4 * INLINE));
        write(line, headers, bytes).unwrap_or_default()
    }

    pub(super) fn read(self) -> Option<(Method, Uri, HeaderMap)> {
        let bytes = match &self.long {
            None => self.room.bytes.get(..self.room.used)?,
            Some(bytes) => bytes,
        };
        let (method, rest) = bytes.split_at_checked(self.method)?;
        let (authority, rest) = rest.split_at_checked(self.authority)?;
        let (path, headers) = rest.split_at_checked(self.path)?;
        let mut parts = Parts::default();
        parts.scheme = match self.scheme {
            Known::None => None,
            Known::Http => Some(Scheme::HTTP),
            Known::Https => Some(Scheme::HTTPS),
        };
        if !authority.is_empty() {
            parts.authority = Some(authority.try_into().ok()?);
        }
        if !path.is_empty() {
            parts.path_and_query = Some(path.try_into().ok()?);
        }
        let method = Method::from_bytes(method).ok()?;
        Some((method, parts.try_into().ok()?, read_headers(headers)?))
    }
}

/// Where bytes are written to.
trait Sink {
    /// Nothing if there is no room for them.
    fn put(&mut self, bytes: &[u8]) -> Option<()>;
}

struct Room {
    used: usize,
    bytes: [u8; INLINE],
}

impl Sink for Room {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let room = self.bytes.get_mut(self.used..self.used + bytes.len())?;
        self.used += bytes.len();
        copy(room, bytes);
        Some(())
    }
}

/// Copies the front and the end in two pieces that overlap: names and the like are too short for a call to be worth it.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<16>(), from.last_chunk::<16>())
        && from.len() <= 32
    {
        to.first_chunk_mut().into_iter().for_each(|to| *to = *first);
        to.last_chunk_mut().into_iter().for_each(|to| *to = *last);
    } else if let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>())
        && from.len() <= 16
    {
        to.first_chunk_mut().into_iter().for_each(|to| *to = *first);
        to.last_chunk_mut().into_iter().for_each(|to| *to = *last);
    } else {
        to.copy_from_slice(from);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.extend_from_slice(bytes);
        Some(())
    }
}

#[inline]
fn write(line: [&str; 3], headers: &HeaderMap, sink: &mut impl Sink) -> Option<bool> {
    for part in line {
        sink.put(part.as_bytes())?;
    }
    let mut is_authorized = false;
    for (name, value) in headers {
        if name == AUTHORIZATION {
            is_authorized |= !value.is_empty();
            continue;
        }
        let name = name.as_str().as_bytes();
        sink.put(&prefix(name, value)?)?;
        sink.put(name)?;
        sink.put(value.as_bytes())?;
    }
    Some(is_authorized)
}

#[inline]
fn prefix(name: &[u8], value: &HeaderValue) -> Option<[u8; PREFIX]> {
    let name = u16::try_from(name.len()).ok()?.to_ne_bytes();
    let length = u32::try_from(value.len()).ok()?.checked_mul(2)?;
    let value = (length | u32::from(value.is_sensitive())).to_ne_bytes();
    Some([name[0], name[1], value[0], value[1], value[2], value[3]])
}

fn read_headers(mut bytes: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    while !bytes.is_empty() {
        let (name, rest) = bytes.split_first_chunk()?;
        let (value, rest) = rest.split_first_chunk()?;
        let value = u32::from_ne_bytes(*value);
        let (name, rest) = rest.split_at_checked(u16::from_ne_bytes(*name).into())?;
        let (text, rest) = rest.split_at_checked(usize::try_from(value / 2).ok()?)?;
        let mut text = HeaderValue::from_bytes(text).ok()?;
        text.set_sensitive(value % 2 == 1);
        headers.append(HeaderName::from_bytes(name).ok()?, text);
        bytes = rest;
    }
    Some(headers)
}
