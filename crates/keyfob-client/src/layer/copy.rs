//! A request that can be made again, without its `Authorization`.

mod head;

use http::{Extensions, Request, Version};

use super::is_authorized;
use head::{Head, Known};

/// How a body is had again.
pub(super) type CloneBody<B> = fn(&B) -> Option<B>;

/// Empty, which it is without a body, or a copy. It is filled where it lies, field by field: whatever is moved right after it was written costs more than
/// writing it.
pub(super) struct RequestCopy<B> {
    head: Head,
    version: Version,
    extras: Extras,
    body: Option<B>,
    clone_body: CloneBody<B>,
}

/// What a program has attached to a request.
enum Extras {
    None,
    /// What kube attaches, and nothing else: a word for its traces. It can be had without an allocation.
    Word(&'static str),
    Many(Extensions),
}

impl<B> RequestCopy<B> {
    #[inline]
    pub(super) fn empty() -> Self {
        Self::with_body(|_| None, None)
    }

    /// One that has the body already, if that can be had again.
    #[inline]
    pub(super) fn of_body(request: &Request<B>, clone_body: CloneBody<B>) -> Self {
        Self::with_body(clone_body, clone_body(request.body()))
    }

    #[inline]
    fn with_body(clone_body: CloneBody<B>, body: Option<B>) -> Self {
        Self {
            body,
            clone_body,
            head: Head::empty(),
            version: Version::HTTP_11,
            extras: Extras::None,
        }
    }

    /// Makes it whole, if it has the body. Says also whether the request has an `Authorization` already.
    #[inline]
    pub(super) fn fill(&mut self, request: &Request<B>) -> bool {
        let Some(scheme) = Known::of(request.uri()).filter(|_| self.body.is_some()) else {
            self.body = None;
            return is_authorized(request.headers());
        };
        self.version = request.version();
        if !request.extensions().is_empty() {
            self.extras = Extras::of(request.extensions());
        }
        self.head.fill(scheme, (request.method(), request.uri()), request.headers())
    }

    /// The request, and a copy of it again; nothing if it is empty.
    pub(super) fn request(self) -> Option<(Request<B>, Self)> {
        let mut request = Request::new(self.body?);
        *request.version_mut() = self.version;
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = self.head.read()?;
        match self.extras {
            Extras::None => {}
            Extras::Word(word) => drop(request.extensions_mut().insert(word)),
            Extras::Many(extensions) => *request.extensions_mut() = extensions,
        }
        let mut copy = Self::of_body(&request, self.clone_body);
        copy.fill(&request);
        Some((request, copy))
    }
}

impl Extras {
    fn of(extensions: &Extensions) -> Self {
        match (extensions.len(), extensions.get::<&'static str>()) {
            (1, Some(word)) => Self::Word(word),
            _ => Self::Many(extensions.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, Method};

    use super::*;

    fn again(request: &Request<&'static str>) -> Option<Request<&'static str>> {
        let mut copy = RequestCopy::of_body(request, |body| Some(*body));
        copy.fill(request);
        Some(copy.request()?.1.request()?.0)
    }

    #[track_caller]
    fn comes_back(request: &Request<&'static str>) {
        let again = again(request).unwrap();
        assert_eq!(again.method(), request.method());
        assert_eq!(again.uri(), request.uri());
        assert_eq!(again.version(), request.version());
        assert_eq!(again.headers(), request.headers());
        assert_eq!(again.body(), request.body());
    }

    #[test]
    fn requests_of_every_shape_come_back_as_they_were() {
        let long = format!("https://a.example/{}?{}", "p".repeat(300), "q=1&".repeat(3_000));
        for address in ["/", "/a?b", "*", "http://a.example", "https://u:p@[::1]:6443/x?", &long] {
            comes_back(&Request::get(address).version(Version::HTTP_2).body("hello").unwrap());
        }
        let connect = Request::builder().method(Method::CONNECT).uri("a.example:443");
        comes_back(&connect.body("").unwrap());
        let method = Method::from_bytes(b"A-METHOD-WITH-A-LONG-NAME").unwrap();
        comes_back(&Request::builder().method(method).body("").unwrap());
        let mut all = Request::new("");
        for length in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64] {
            let name = HeaderName::from_bytes(&vec![b'n'; length + 1]).unwrap();
            let value = HeaderValue::from_bytes(&vec![b'v'; length]).unwrap();
            all.headers_mut().append("x-several", value.clone());
            all.headers_mut().insert(name, value);
            comes_back(&all);
        }
    }

    #[test]
    fn headers_keep_their_secrets_and_the_callers_own_is_not_copied() {
        let mut value = HeaderValue::from_static("cookie");
        value.set_sensitive(true);
        let request = Request::get("/")
            .header("cookie", value)
            .header("accept", "é")
            .header("authorization", "")
            .body("")
            .unwrap();

        let mut copy = RequestCopy::of_body(&request, |body| Some(*body));
        assert!(!copy.fill(&request));
        let (again, _) = copy.request().unwrap();

        assert!(
            again.headers()["cookie"].is_sensitive() && !again.headers()["accept"].is_sensitive()
        );
        assert_eq!(again.headers().len(), 2);
        let own = Request::get("/").header("authorization", "mine").body("").unwrap();
        assert!(RequestCopy::of_body(&own, |body| Some(*body)).fill(&own));
        assert!(RequestCopy::of_body(&own, |_| None).fill(&own));
    }

    #[test]
    fn what_a_program_attached_comes_back_too() {
        #[derive(Clone, Debug, PartialEq)]
        struct Deadline(u32);
        let mut request = Request::new("");
        request.extensions_mut().insert("list");
        assert_eq!(again(&request).unwrap().extensions().get(), Some(&"list"));
        request.extensions_mut().insert(Deadline(5));
        let again = again(&request).unwrap();
        assert_eq!(again.extensions().get(), Some(&"list"));
        assert_eq!(again.extensions().get(), Some(&Deadline(5)));
    }

    #[test]
    fn what_cannot_be_had_again_is_no_copy() {
        let request = Request::new("");
        let mut copy = RequestCopy::of_body(&request, |_| None);
        assert!(!copy.fill(&request) && copy.request().is_none());
        assert!(again(&Request::get("gopher://a.example/1").body("").unwrap()).is_none());
    }
}
