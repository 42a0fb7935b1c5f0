//! The name of a repository, in one spelling.
//!
//! Rules, plugins and logs must read a name in the same way. Patterns are matched like URLs, which have many spellings of one thing
//! (`%2e`, `..`, `user@host`, `#`), and a plugin gets the text as it is: whoever spells a name in an unusual way could be allowed one
//! thing and given another. So only plain names are accepted, and registries are written in lower case.

use keyfob_api::ImageRef;

use crate::error::{ApiError, ErrorCode};

/// Longer than any name that a registry accepts.
const MAX_LENGTH: usize = 512;

/// A repository: `registry.example/team/app`, or `registry.example/` for a whole registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository(String);

impl Repository {
    /// The repository of an image as a pod names it, without tag and digest.
    pub(crate) fn of_image(image: &str) -> Result<Self, ApiError> {
        if image.len() > MAX_LENGTH {
            return Err(invalid("the name of the image is too long"));
        }
        let image = ImageRef::parse(image)
            .map_err(|error| invalid(&format!("the image is not valid: {error}")))?;
        match Self::new(image.registry(), image.path()) {
            Some(repository) if !image.path().is_empty() => Ok(repository),
            _ => Err(invalid("the name of the image has characters that no registry accepts")),
        }
    }

    /// The same, or a whole registry as messages and the log show it, with a slash at the end: `registry.example/`.
    pub(crate) fn of_image_or_registry(name: &str) -> Result<Self, ApiError> {
        match name.strip_suffix('/') {
            Some(host) if !host.contains('/') => Self::new(host, "")
                .ok_or_else(|| invalid("the name of the registry has characters of no host")),
            _ => Self::of_image(name),
        }
    }

    /// The whole registry of this repository.
    pub(crate) fn registry(&self) -> Self {
        let host = self.0.split('/').next().unwrap_or_default();
        Self(format!("{host}/"))
    }

    /// A registry, or a repository of it.
    pub(crate) fn new(host: &str, path: &str) -> Option<Self> {
        let host = host.to_ascii_lowercase();
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        let is_part = |part: &str| {
            let is_plain = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte)
            };
            !matches!(part, "" | "." | "..") && part.bytes().all(is_plain)
        };
        let is_valid = !host.is_empty()
            && host.bytes().all(is_host)
            && host.len() + path.len() < MAX_LENGTH
            && (path.is_empty() || path.split('/').all(is_part));
        is_valid.then(|| Self(format!("{host}/{path}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, keyfob_exec::on_one_line(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_at_the_end_names_a_whole_registry() {
        let of = |name| Repository::of_image_or_registry(name).ok().map(|repository| repository.0);
        assert_eq!(of("REGISTRY.example:5000/").as_deref(), Some("registry.example:5000/"));
        assert_eq!(of("registry.example/app").as_deref(), Some("registry.example/app"));
        assert_eq!(of("registry.example").as_deref(), Some("docker.io/library/registry.example"));
        for odd in ["/", "registry.example//", "registry.example/app/", "a@b/", "%61/"] {
            assert_eq!(of(odd), None, "{odd}");
        }
        let app = Repository::of_image("registry.example/app").unwrap();
        assert_eq!(
            (&*app.registry().0, &*app.registry().registry().0),
            ("registry.example/", "registry.example/")
        );
    }

    #[test]
    fn a_name_has_one_spelling() {
        let of = |image: &str| Repository::of_image(image).ok().map(|repository| repository.0);
        assert_eq!(
            of("registry.example/team/app:v1").as_deref(),
            Some("registry.example/team/app")
        );
        assert_eq!(of("REGISTRY.example:5000/app").as_deref(), Some("registry.example:5000/app"));
        assert_eq!(of("nginx").as_deref(), Some("docker.io/library/nginx"));
        let digest = format!("registry.example/app@sha256:{}", "0".repeat(64));
        assert_eq!(of(&digest).as_deref(), Some("registry.example/app"));
        for odd in [
            "",
            "registry.example/team/../secret",
            "registry.example/team/%2e%2e/secret",
            "registry.example/%74eam/a",
            "vault.example@x.example/pub/x",
            "x.example/pub#vault.example",
            "x.example/pub?y",
            "registry.example//app",
            "registry.example/./app",
            "registry.example/Team",
            "registry.example/t\u{e9}am",
            "registry.example/a\\b",
            "registry.example/",
            &format!("registry.example/{}", "a".repeat(MAX_LENGTH)),
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }
}
