//! Registries that stand in for others: `--registry-mirror mcr.microsoft.com:foo.azurecr.io`.
//!
//! The longest source that covers the image wins, and covers it by whole parts of its path. Upstream takes any source that
//! the name begins with, in an order that changes with every run.

use std::collections::BTreeMap;

use keyfob_plugin::Failure;

/// What stands in for what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mirrors(BTreeMap<String, String>);

/// An image, as it is pulled in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pulled {
    /// What is pulled.
    pub(super) image: String,
    /// What the mirror stands in for, if the image comes from one.
    pub(super) source: Option<String>,
}

impl Mirrors {
    /// Reads `SOURCE:TARGET[,SOURCE:TARGET]`. Upstream leaves out what is no such pair, and says so in a log that nobody
    /// reads.
    pub(super) fn parse(flag: &str) -> Result<Self, Failure> {
        let entries = flag.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        Ok(Self(entries.map(pair).collect::<Result<_, _>>()?))
    }

    /// The image behind the mirror, or itself.
    pub(super) fn apply(&self, image: &str) -> Pulled {
        let covering = self
            .0
            .iter()
            .filter_map(|(source, target)| Some((source, target, behind(image, source)?)));
        match covering.max_by_key(|(source, ..)| source.len()) {
            Some((source, target, rest)) => {
                Pulled { image: format!("{target}{rest}"), source: Some(source.clone()) }
            }
            None => Pulled { image: image.to_owned(), source: None },
        }
    }
}

fn pair(entry: &str) -> Result<(String, String), Failure> {
    let pair = entry.split_once(':').filter(|(source, target)| {
        !source.is_empty() && !target.is_empty() && !target.contains(':')
    });
    let (source, target) = pair.ok_or_else(|| {
        Failure::new(format!(
            "--registry-mirror {entry}: it must be SOURCE:TARGET, and neither can have a port"
        ))
    })?;
    Ok((source.into(), target.trim_end_matches('/').into()))
}

/// What follows the source in the image's name, if the source ends where a part of the name does.
fn behind<'a>(image: &'a str, source: &str) -> Option<&'a str> {
    let rest = image.strip_prefix(source)?;
    let at_a_tag = source.contains('/') && rest.starts_with([':', '@']);
    (rest.is_empty() || rest.starts_with('/') || at_a_tag).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(flag: &str) -> Vec<(String, String)> {
        Mirrors::parse(flag).unwrap().0.into_iter().collect()
    }

    #[test]
    fn the_flag_is_a_list_of_pairs() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(source, target)| ((*source).into(), (*target).into())).collect()
        };
        assert_eq!(map(""), pairs(&[]));
        assert_eq!(map("aaa:bbb,ccc:ddd"), pairs(&[("aaa", "bbb"), ("ccc", "ddd")]));
        assert_eq!(map(" aaa:bbb , ,"), pairs(&[("aaa", "bbb")]));
        for odd in ["localhost:5000:foo.azurecr.io", "aaa", ":bbb", "aaa:", ":"] {
            let refused = Mirrors::parse(odd).unwrap_err().to_string();
            assert!(refused.contains("must be SOURCE:TARGET"), "{refused}");
        }
    }

    #[test]
    fn the_longest_source_wins_every_time() {
        let flag = "mcr.microsoft.com:a.azurecr.io,mcr.microsoft.com/oss:b.azurecr.io/oss/,mcr.microsoft.com/oss/k:c.azurecr.io";
        let mirrors = Mirrors::parse(flag).unwrap();
        let rows = [
            ("mcr.microsoft.com/x:1", "a.azurecr.io/x:1", Some("mcr.microsoft.com")),
            ("mcr.microsoft.com/oss/x", "b.azurecr.io/oss/x", Some("mcr.microsoft.com/oss")),
            ("mcr.microsoft.com/oss/k:1", "c.azurecr.io:1", Some("mcr.microsoft.com/oss/k")),
            ("mcr.microsoft.com/ossa/x", "a.azurecr.io/ossa/x", Some("mcr.microsoft.com")),
            ("mcr.microsoft.com.evil/x", "mcr.microsoft.com.evil/x", None),
            ("mcr.microsoft.com:5000/x", "mcr.microsoft.com:5000/x", None),
            ("foo.azurecr.io/bar", "foo.azurecr.io/bar", None),
        ];
        for (image, pulled, source) in rows {
            let expected = Pulled { image: pulled.into(), source: source.map(Into::into) };
            assert_eq!(mirrors.apply(image), expected);
        }
    }
}
