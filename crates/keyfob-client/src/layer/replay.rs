//! A second copy of a request, to send it again after a 401.

use http::{Request, header::AUTHORIZATION};

/// Clones a body; nothing if it can be sent only once.
pub(super) type CloneBody<B> = fn(&B) -> Option<B>;

/// A copy of a request without its `Authorization`; nothing if its body can be sent only once.
pub(super) fn copy_of<B>(request: &Request<B>, clone_body: CloneBody<B>) -> Option<Request<B>> {
    let mut copy = Request::new(clone_body(request.body())?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy.headers_mut().remove(AUTHORIZATION);
    Some(copy)
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, Version};

    use super::*;

    fn copy(request: &Request<&'static str>) -> Request<&'static str> {
        copy_of(request, |body| Some(*body)).unwrap()
    }

    #[test]
    fn a_copy_is_the_same_request_without_its_authorization() {
        #[derive(Clone, Debug, PartialEq)]
        struct Deadline(u32);
        let mut cookie = HeaderValue::from_static("cookie");
        cookie.set_sensitive(true);
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("https://u:p@[::1]:6443/x?y=1")
            .version(Version::HTTP_2)
            .header("x-several", "1")
            .header("x-several", "é")
            .header("cookie", cookie)
            .body("hello")
            .unwrap();
        request.extensions_mut().insert("create");
        request.extensions_mut().insert(Deadline(5));
        let headers = request.headers().clone();
        request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static(""));

        let copy = copy(&request);

        assert_eq!(copy.method(), request.method());
        assert_eq!(copy.uri(), request.uri());
        assert_eq!(copy.version(), request.version());
        assert_eq!(*copy.headers(), headers);
        assert!(copy.headers()["cookie"].is_sensitive());
        assert_eq!(copy.extensions().get(), Some(&"create"));
        assert_eq!(copy.extensions().get(), Some(&Deadline(5)));
        assert_eq!(copy.body(), request.body());
    }

    #[test]
    fn a_body_that_can_be_sent_only_once_has_no_copy() {
        assert!(copy_of(&Request::new("stream"), |_| None).is_none());
    }
}
