//! Image names: what a pod asks for, and what patterns and plugins see of it.
//!
//! No registry is asked; a name that parses need not exist.
//! Upstream: `pkg/util/parsers.ParseImageName`, `applyDefaultImageTag` and `trimImageTagDigest` of the kubelet (1.37),
//! over `github.com/distribution/reference` v0.6.0.
//! Differs: behind `invalid reference format` stands which part is wrong.
//! Differs: a letter that Unicode cased after Go's tables (15.0) counts as upper case, so the refusal's words differ.

mod error;
mod grammar;

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

pub use self::error::{ImageError, ImageFault};
use self::grammar::Parts;
pub(crate) use self::grammar::is_path_prefix;
use crate::{MatchTarget, PatternError};

/// The name of an image, with Docker Hub's defaults filled in.
///
/// Two names are equal if they mean the same image, however they were written.
///
/// ```
/// use keyfob_api::ImageRef;
///
/// let image = ImageRef::parse("nginx")?;
/// assert_eq!(image.repository(), "docker.io/library/nginx");
/// assert_eq!(image.registry(), "docker.io");
/// assert_eq!(image.tag(), Some("latest"));
/// assert_eq!(image.with_default_tag(), "nginx:latest");
/// assert_eq!(image, ImageRef::parse("index.docker.io/library/nginx:latest")?);
///
/// let error = ImageRef::parse("registry.io/team//app").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"couldn't parse image name "registry.io/team//app": invalid reference format: a path component is empty"#
/// );
/// # Ok::<(), keyfob_api::ImageError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageRef {
    name_as_written: Box<str>,
    repository: Box<str>,
    tag: Option<Box<str>>,
    digest: Option<Box<str>>,
}

impl ImageRef {
    /// Reads a name as a pod's `image` field is read.
    pub fn parse(image: &str) -> Result<Self, ImageError> {
        if grammar::is_identifier(image) {
            let image = image.to_owned();
            return Err(ImageError::Identifier { image });
        }
        let (registry, remainder) = split_registry(image);
        refuse_uppercase(image, &remainder)?;
        let reference = match &remainder {
            // Nothing was filled in, so it stands there as it is.
            Cow::Borrowed(remainder) if registry.len() + 1 + remainder.len() == image.len() => {
                Cow::Borrowed(image)
            }
            remainder => Cow::Owned([registry, "/", remainder].concat()),
        };
        let parts =
            Parts::split(&reference).map_err(|fault| malformed(image, &reference, fault))?;
        check_length(image, &parts)?;
        if let Some(digest) = parts.digest {
            check_digest(image, digest)?;
        }
        Ok(Self::new(image, &parts))
    }

    /// Registry and path, without tag and digest: what patterns are matched against and plugins are told.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The repository up to its first slash: host and port.
    pub fn registry(&self) -> &str {
        self.registry_and_path().0
    }

    /// The repository behind its first slash.
    pub fn path(&self) -> &str {
        self.registry_and_path().1
    }

    /// The tag, which is `latest` if neither tag nor digest was written.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, with its algorithm.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The name as it was written, tag and digest cut off and nothing filled in.
    pub fn name_as_written(&self) -> &str {
        &self.name_as_written
    }

    /// The text as it was written, with `:latest` behind it if it had neither tag nor digest.
    pub fn with_default_tag(&self) -> String {
        self.behind(&self.name_as_written).to_string()
    }

    /// The repository as patterns see it.
    ///
    /// It fails for brackets that hold no IPv6 address (`[a:]/app`): an image name may have such a registry, a URL may
    /// not, and the kubelet takes that for "no pattern matches".
    pub fn target(&self) -> Result<MatchTarget, PatternError> {
        MatchTarget::parse(&self.repository)
    }

    fn new(image: &str, parts: &Parts<'_>) -> Self {
        let behind_name = |part: Option<&str>| part.map_or(0, |part| part.len() + 1);
        let name_length = image.len() - behind_name(parts.tag) - behind_name(parts.digest);
        let default_tag = parts.digest.is_none().then_some("latest");
        Self {
            name_as_written: image.split_at(name_length).0.into(),
            repository: [parts.registry, "/", parts.path].concat().into(),
            tag: parts.tag.or(default_tag).map(Into::into),
            digest: parts.digest.map(Into::into),
        }
    }

    fn registry_and_path(&self) -> (&str, &str) {
        self.repository.split_once('/').unwrap_or((&self.repository, ""))
    }

    fn behind<'a>(&'a self, name: &'a str) -> TagAndDigestBehind<'a> {
        TagAndDigestBehind { name, image: self }
    }

    fn identity(&self) -> (&str, Option<&str>, Option<&str>) {
        (self.repository(), self.tag(), self.digest())
    }
}

impl FromStr for ImageRef {
    type Err = ImageError;

    fn from_str(image: &str) -> Result<Self, ImageError> {
        Self::parse(image)
    }
}

/// Repository, tag and digest; parsing that again gives an equal value.
impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.behind(&self.repository).fmt(f)
    }
}

impl PartialEq for ImageRef {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for ImageRef {}

impl Hash for ImageRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// An image's tag and digest behind one of its names.
struct TagAndDigestBehind<'a> {
    name: &'a str,
    image: &'a ImageRef,
}

impl fmt::Display for TagAndDigestBehind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(tag) = &self.image.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.image.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

const DOCKER_HUB: &str = "docker.io";
/// What Docker Hub was called first; still written, never kept.
const DOCKER_INDEX: &str = "index.docker.io";

/// The registry, filled in if none is written, and the rest of the name with tag and digest.
fn split_registry(image: &str) -> (&str, Cow<'_, str>) {
    let (registry, remainder) = match image.split_once('/') {
        Some((DOCKER_INDEX, remainder)) => (DOCKER_HUB, remainder),
        Some((registry, remainder)) if looks_like_registry(registry) => (registry, remainder),
        _ => (DOCKER_HUB, image),
    };
    if registry == DOCKER_HUB && !remainder.contains('/') {
        return (registry, format!("library/{remainder}").into());
    }
    (registry, remainder.into())
}

/// A path component has no upper-case letter, so a first component with one can only be a host.
fn looks_like_registry(component: &str) -> bool {
    component == "localhost" || component.contains(['.', ':']) || has_uppercase(component)
}

fn refuse_uppercase(image: &str, remainder: &str) -> Result<(), ImageError> {
    let repository = remainder.split(':').next().unwrap_or_default();
    if has_uppercase(repository) {
        let (image, repository) = (image.to_owned(), repository.to_owned());
        return Err(ImageError::Uppercase { image, repository });
    }
    Ok(())
}

fn has_uppercase(text: &str) -> bool {
    if text.is_ascii() {
        return text.bytes().any(|byte| byte.is_ascii_uppercase());
    }
    text.chars().any(|c| lower(c) != c)
}

/// Go's `unicode.ToLower`: one character for one, so the dotted `İ` becomes a plain `i`.
fn lower(c: char) -> char {
    match c {
        'İ' => 'i',
        _ => c.to_lowercase().next().unwrap_or(c),
    }
}

fn malformed(image: &str, reference: &str, fault: ImageFault) -> ImageError {
    let image = image.to_owned();
    let lowered: String = reference.chars().map(lower).collect();
    match Parts::split(&lowered) {
        Ok(_) => ImageError::NotLowercase { image, fault },
        Err(_) => ImageError::Malformed { image, fault },
    }
}

fn check_length(image: &str, parts: &Parts<'_>) -> Result<(), ImageError> {
    let length = parts.counted_length();
    if length > grammar::MAX_PATH {
        let image = image.to_owned();
        return Err(ImageError::TooLong { image, length });
    }
    Ok(())
}

/// The algorithms the kubelet links, and how many digits each writes.
const ALGORITHMS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

fn check_digest(image: &str, digest: &str) -> Result<(), ImageError> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or((digest, ""));
    let known = ALGORITHMS.iter().find(|(name, _)| *name == algorithm);
    let has_upper = |text: &str| text.bytes().any(|byte| byte.is_ascii_uppercase());
    let (image, digest) = (image.to_owned(), digest.to_owned());
    match known {
        None if has_upper(algorithm) => Err(ImageError::DigestFormat { image, digest }),
        None => Err(ImageError::DigestAlgorithm { image, digest }),
        Some((_, length)) if *length != hex.len() => {
            Err(ImageError::DigestLength { image, digest })
        }
        Some(_) if has_upper(hex) => Err(ImageError::DigestFormat { image, digest }),
        Some(_) => Ok(()),
    }
}

/// The registry in an image name: what stands before its first slash, as a kubelet and its plugins read it. Nothing is
/// checked, and no default is filled in.
///
/// ```
/// assert_eq!(keyfob_api::registry_of("registry.example:5000/team/app"), "registry.example:5000");
/// ```
pub fn registry_of(image: &str) -> &str {
    image.split_once('/').map_or(image, |(registry, _)| registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA256: &str = "sha256:6f0c1a54b4bd1a4d7d0bd2bb5cf1d5d4d4dcf1b3a1b5c6a7e8f90123456789ab";

    /// `repository tag digest`, a dash for each that is missing.
    fn shown(image: &str) -> String {
        let image = ImageRef::parse(image).unwrap();
        let or_dash = |part: Option<&str>| part.unwrap_or("-").replace(SHA256, "DIGEST");
        let (tag, digest) = (or_dash(image.tag()), or_dash(image.digest()));
        format!("{} {tag} {digest}", image.repository())
    }

    fn refusal(image: &str) -> String {
        let text = ImageRef::parse(image).unwrap_err().to_string();
        let prefix = format!("couldn't parse image name {image:?}: ");
        text.strip_prefix(&prefix).unwrap().to_owned()
    }

    #[test]
    fn docker_hub_and_the_tag_are_filled_in() {
        let cases = [
            ("redis", "docker.io/library/redis latest -"),
            ("redis:7", "docker.io/library/redis 7 -"),
            ("ada/redis", "docker.io/ada/redis latest -"),
            ("docker.io/redis", "docker.io/library/redis latest -"),
            ("index.docker.io/redis", "docker.io/library/redis latest -"),
            ("index.docker.io:443/redis", "index.docker.io:443/redis latest -"),
            ("localhost/redis", "localhost/redis latest -"),
            ("localhost:5000", "docker.io/library/localhost 5000 -"),
            ("Host/redis", "Host/redis latest -"),
            ("reg.test:5000/a/b__c--d.e:V_1.0-x", "reg.test:5000/a/b__c--d.e V_1.0-x -"),
            ("[2001:db8::1]:5000/a", "[2001:db8::1]:5000/a latest -"),
            ("[::1]/a", "[::1]/a latest -"),
            ("r_1.test/a", "r_1.test/a latest -"),
        ];
        for (image, expected) in cases {
            assert_eq!(shown(image), expected);
        }
        assert_eq!(shown(&format!("redis@{SHA256}")), "docker.io/library/redis - DIGEST");
        assert_eq!(shown(&format!("redis:7@{SHA256}")), "docker.io/library/redis 7 DIGEST");
    }

    #[test]
    fn the_text_as_written_is_kept_but_for_tag_and_digest() {
        let both = format!("reg.test:5000/a:v1@{SHA256}");
        let cases = [
            ("redis", "redis", "redis:latest"),
            ("redis:7", "redis", "redis:7"),
            (
                "index.docker.io/ada/redis",
                "index.docker.io/ada/redis",
                "index.docker.io/ada/redis:latest",
            ),
            (both.as_str(), "reg.test:5000/a", both.as_str()),
        ];
        for (image, name, with_tag) in cases {
            let image = ImageRef::parse(image).unwrap();
            assert_eq!(
                (image.name_as_written(), image.with_default_tag()),
                (name, with_tag.to_owned())
            );
        }
    }

    #[test]
    fn registry_and_path_make_up_the_repository() {
        let image: ImageRef = "[::1]:5000/team/app:v1".parse().unwrap();
        assert_eq!((image.registry(), image.path()), ("[::1]:5000", "team/app"));
        assert_eq!(image.to_string(), "[::1]:5000/team/app:v1");
    }

    #[test]
    fn a_refusal_names_the_part_that_is_wrong() {
        let cases = [
            ("", "invalid reference format: a path component is empty"),
            ("reg.test/", "invalid reference format: a path component is empty"),
            (
                "http://reg.test/a",
                r#"invalid reference format: registry "http:" is not a host name with an optional port"#,
            ),
            (
                "r_1.test:5000/a",
                r#"invalid reference format: registry "r_1.test:5000" is not a host name with an optional port"#,
            ),
            (
                "me@reg.test/a",
                r#"invalid reference format: registry "me@reg.test" is not a host name with an optional port"#,
            ),
            (
                "[::1%25eth0]/a",
                r#"invalid reference format: registry "[::1%25eth0]" is not a host name with an optional port"#,
            ),
            (
                "a___b",
                r#"invalid reference format: path component "a___b" is not lower-case letters and digits joined by ".", "_", "__" or dashes"#,
            ),
            (
                "reg.test/*",
                r#"invalid reference format: path component "*" is not lower-case letters and digits joined by ".", "_", "__" or dashes"#,
            ),
            (
                "a:-x",
                r#"invalid reference format: tag "-x" is not up to 128 letters, digits, "_", "." and "-" with none of the last two in front"#,
            ),
            (
                "a@sha256:12",
                r#"invalid reference format: digest "sha256:12" is not an algorithm, a colon and at least 32 hexadecimal digits"#,
            ),
            (
                "Redis",
                "invalid reference format: repository name (library/Redis) must be lowercase",
            ),
            (
                "reg.test/a@SHA256:12",
                "invalid reference format: repository name (a@SHA256) must be lowercase",
            ),
            ("R_1.test/a", "repository name must be lowercase"),
            ("İ.test/a", "repository name must be lowercase"),
        ];
        for (image, expected) in cases {
            assert_eq!(refusal(image), expected, "{image}");
        }
    }

    #[test]
    fn a_digest_must_fit_its_algorithm() {
        let hex = |digits: usize| "e".repeat(digits);
        let cases = [
            (format!("a:v@sha256:{}", hex(63)), "invalid checksum digest length"),
            (format!("a:v@sha512:{}", hex(64)), "invalid checksum digest length"),
            (format!("a:v@sha256:{}", hex(64).to_uppercase()), "invalid checksum digest format"),
            (format!("a:v@SHA256:{}", hex(64)), "invalid checksum digest format"),
            (format!("a:v@md5:{}", hex(32)), "unsupported digest algorithm"),
            (format!("a:v@x+y.z:{}", hex(32)), "unsupported digest algorithm"),
        ];
        for (image, expected) in cases {
            assert_eq!(refusal(&image), expected, "{image}");
        }
        assert!(ImageRef::parse(&format!("a@sha384:{}", hex(96))).is_ok());
    }

    #[test]
    fn a_path_has_at_most_255_characters_and_is_no_bare_identifier() {
        let long = "a".repeat(255);
        assert!(ImageRef::parse(&format!("reg.test/{long}")).is_ok());
        assert_eq!(
            refusal(&format!("reg.test/{long}a")),
            "repository name must not be more than 255 characters"
        );
        assert_eq!(refusal(&long), "repository name must not be more than 255 characters");
        // What looks like a host but is none counts as path.
        assert_eq!(
            refusal(&format!("r_1.test/{long}")),
            "repository name must not be more than 255 characters"
        );

        let identifier = "0f".repeat(32);
        let expected = format!(
            "invalid repository name ({identifier}), cannot specify 64-byte hexadecimal strings"
        );
        assert_eq!(refusal(&identifier), expected);
        assert!(ImageRef::parse(&format!("{identifier}:v1")).is_ok());
    }

    #[test]
    fn a_registry_that_is_no_url_host_is_no_target() {
        let image = ImageRef::parse("[a:]/app").unwrap();
        assert_eq!(
            image.target().unwrap_err().to_string(),
            r#"parse "https://[a:]/app": invalid host: ParseAddr("a:"): colon must be followed by more characters (at ":")"#
        );
    }
}
