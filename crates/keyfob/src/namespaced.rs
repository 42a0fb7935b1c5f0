//! `NAMESPACE/NAME`, as it is typed.

use std::{fmt, str::FromStr};

/// An object in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespaced {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl FromStr for Namespaced {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match *text.split('/').collect::<Vec<_>>() {
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("write NAMESPACE/NAME, such as default/builder"),
        }
    }
}

impl fmt::Display for Namespaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_namespace_and_a_name() {
        for text in ["", "cart", "/cart", "shop/", "a/b/c"] {
            assert!(text.parse::<Namespaced>().is_err(), "{text}");
        }
        let parsed: Namespaced = "shop/cart".parse().unwrap();
        assert_eq!((parsed.namespace.as_str(), parsed.name.as_str()), ("shop", "cart"));
        assert_eq!(parsed.to_string(), "shop/cart");
    }
}
