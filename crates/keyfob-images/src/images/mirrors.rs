//! Where else the same images are.
//!
//! Beyond upstream, which leaves mirrors to the container runtime: there they have no credentials of their own.

use keyfob_api::{ImageRef, Quoted};
use thiserror::Error;

/// Which registries, or parts of them, have mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    rules: Vec<Rule>,
}

/// `HOST[/PREFIX]=MIRROR[/PREFIX]`: what lies below one lies below the other too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    below: String,
    mirror: String,
}

impl Mirrors {
    /// Reads rules of the form `HOST[/PREFIX]=MIRROR[/PREFIX]`. Several for the same are asked in their order.
    ///
    /// ```
    /// use keyfob_api::ImageRef;
    /// use keyfob_images::Mirrors;
    ///
    /// let mirrors = Mirrors::parse(["docker.io=mirror.example", "docker.io/acme=hub.example:5000/a"])?;
    /// let of = |image: &str| mirrors.of(&ImageRef::parse(image).unwrap())[0].to_string();
    /// assert_eq!(of("nginx"), "mirror.example/library/nginx:latest");
    /// assert_eq!(of("acme/app:v1"), "hub.example:5000/a/app:v1");
    /// # Ok::<(), keyfob_images::MirrorError>(())
    /// ```
    pub fn parse<R: AsRef<str>>(rules: impl IntoIterator<Item = R>) -> Result<Self, MirrorError> {
        let rules = rules.into_iter().map(|rule| Rule::parse(rule.as_ref()));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The same image on its mirrors, in the order in which to try them. Only the rules count that say most about it.
    pub fn of(&self, image: &ImageRef) -> Vec<ImageRef> {
        let matching = self
            .rules
            .iter()
            .filter_map(|rule| Some((rule, image.repository().strip_prefix(rule.below.as_str())?)));
        let matching: Vec<_> =
            matching.filter(|(_, rest)| rest.is_empty() || rest.starts_with('/')).collect();
        let longest = matching.iter().map(|(rule, _)| rule.below.len()).max();
        let of_longest = matching.iter().filter(|(rule, _)| Some(rule.below.len()) == longest);
        of_longest.filter_map(|(rule, rest)| rule.on_mirror(image, rest)).collect()
    }
}

impl Rule {
    fn parse(rule: &str) -> Result<Self, MirrorError> {
        if rule.contains('@') {
            return Err(MirrorError::Login);
        }
        let (below, mirror) =
            rule.split_once('=').ok_or_else(|| MirrorError::NoMirror { rule: rule.to_owned() })?;
        for place in [below, mirror] {
            check_place(place, rule)?;
        }
        if below == mirror {
            return Err(MirrorError::Itself { rule: rule.to_owned() });
        }
        Ok(Self { below: below.to_owned(), mirror: mirror.to_owned() })
    }

    /// Nothing if the mirror cannot have an image of that name.
    fn on_mirror(&self, image: &ImageRef, rest: &str) -> Option<ImageRef> {
        let repository = [&self.mirror, rest].concat();
        let tag = image.tag().map(|tag| [":", tag].concat()).unwrap_or_default();
        let digest = image.digest().map(|digest| ["@", digest].concat()).unwrap_or_default();
        let there = ImageRef::parse(&[repository.as_str(), &tag, &digest].concat()).ok()?;
        (there.repository() == repository).then_some(there)
    }
}

/// A registry and perhaps the beginning of a path: an image below it must be just there, with nothing filled in.
fn check_place(place: &str, rule: &str) -> Result<(), MirrorError> {
    let below = [place, "/a/b"].concat();
    let is_place = ImageRef::parse(&below).is_ok_and(|image| image.repository() == below);
    let bad = || MirrorError::NoRegistry { place: place.to_owned(), rule: rule.to_owned() };
    is_place.then_some(()).ok_or_else(bad)
}

/// Why a text is no rule about a mirror.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// It may hold a password, so it is not shown.
    #[error(
        "a mirror is a host and perhaps a path, without a login: credentials for it come from pull secrets and providers"
    )]
    Login,
    /// It has no `=`.
    #[error("{} names no mirror: write HOST[/PREFIX]=MIRROR[/PREFIX]", Quoted(rule))]
    NoMirror {
        /// The rule.
        rule: String,
    },
    /// One of its sides is no registry.
    #[error(
        "{} in {} is no registry: write a host with a dot or a port (or localhost, or docker.io for Docker Hub), \
         and perhaps a path, without a scheme or a tag",
        Quoted(place),
        Quoted(rule)
    )]
    NoRegistry {
        /// The side.
        place: String,
        /// The rule.
        rule: String,
    },
    /// Both sides are the same.
    #[error("{} says that a registry mirrors itself", Quoted(rule))]
    Itself {
        /// The rule.
        rule: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:6f0c1a54b4bd1a4d7d0bd2bb5cf1d5d4d4dcf1b3a1b5c6a7e8f90123456789ab";

    fn of<const N: usize>(rules: [&str; N], image: &str) -> Vec<String> {
        let image = ImageRef::parse(image).unwrap();
        let mirrors = Mirrors::parse(rules).unwrap();
        mirrors.of(&image).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_mirror_has_the_same_path_tag_and_digest() {
        let rules = ["docker.io=one.test", "docker.io=two.test:5000/hub"];
        let expected = ["one.test/library/redis:latest", "two.test:5000/hub/library/redis:latest"];
        assert_eq!(of(rules, "redis"), expected);
        assert_eq!(
            of(["r.test:5000=m.test"], &format!("r.test:5000/a/b:v1@{DIGEST}")),
            [format!("m.test/a/b:v1@{DIGEST}")]
        );
        assert_eq!(
            of(["r.test=[::1]:5000"], &format!("r.test/a@{DIGEST}")),
            [format!("[::1]:5000/a@{DIGEST}")]
        );
    }

    #[test]
    fn only_the_rules_that_say_most_count_and_only_whole_components() {
        let rules = ["r.test=m.test", "r.test/team=n.test/t", "r.test/team=o.test"];
        assert_eq!(of(rules, "r.test/team/app:1"), ["n.test/t/app:1", "o.test/app:1"]);
        assert_eq!(of(rules, "r.test/teams/app:1"), ["m.test/teams/app:1"]);
        assert_eq!(of(rules, "r.test:5000/team/app"), Vec::<String>::new());
        assert_eq!(of(rules, "elsewhere.test/team/app"), Vec::<String>::new());
    }

    #[test]
    fn a_mirror_that_cannot_have_the_image_is_not_asked() {
        assert_eq!(
            of(["r.test/app=m.test", "r.test/app=m.test/app"], "r.test/app:1"),
            ["m.test/app:1"]
        );
        assert_eq!(of(["r.test=docker.io"], "r.test/app:1"), Vec::<String>::new(), "no library");
        let (long, prefix) = ("a".repeat(250), "b".repeat(10));
        let rule = format!("r.test=m.test/{prefix}");
        assert_eq!(of([rule.as_str()], &format!("r.test/{long}")), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_rule_is_refused_and_no_login_is_shown() {
        let refused = |rule: &str| Mirrors::parse([rule]).unwrap_err();
        let no_registry = |place: &str, rule: &str| MirrorError::NoRegistry {
            place: place.into(),
            rule: rule.into(),
        };
        assert_eq!(refused("r.test"), MirrorError::NoMirror { rule: "r.test".into() });
        assert_eq!(refused("r.test=r.test"), MirrorError::Itself { rule: "r.test=r.test".into() });
        assert_eq!(refused("r.test=https://ada:word@m.test"), MirrorError::Login);
        for (place, rule) in [
            ("", "=m.test"),
            ("", "r.test="),
            ("mirror", "r.test=mirror"),
            ("index.docker.io", "index.docker.io=m.test"),
            ("https://m.test", "r.test=https://m.test"),
            ("m.test/", "r.test=m.test/"),
            ("m.test/app:v1", "r.test=m.test/app:v1"),
            ("m.test=n.test", "r.test=m.test=n.test"),
            ("*.test", "*.test=m.test"),
        ] {
            assert_eq!(refused(rule), no_registry(place, rule), "{rule}");
        }
    }
}
