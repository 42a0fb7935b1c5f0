//! What a registry wants to see before it answers.
//!
//! Servers write `WWW-Authenticate` in every way that its grammar allows, and in some that it does not: whatever can be
//! understood is.

use http::{HeaderMap, header::WWW_AUTHENTICATE};

/// A way to be let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A token, which another server gives.
    Bearer(Bearer),
    /// User name and password.
    Basic,
}

/// Where a token comes from, and what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) realm: String,
    pub(crate) service: Option<String>,
    pub(crate) scope: Option<String>,
}

impl Challenge {
    /// The best way that an answer offers: a token before a password, which then goes to the token server only.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let offers: Vec<Offer> =
            values.flat_map(|value| offers(&String::from_utf8_lossy(value.as_bytes()))).collect();
        let bearer = offers.iter().find_map(Offer::bearer).map(Self::Bearer);
        bearer.or_else(|| offers.iter().any(|offer| offer.is("basic")).then_some(Self::Basic))
    }
}

/// A scheme and its parameters, whose names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Offer {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Offer {
    fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    fn bearer(&self) -> Option<Bearer> {
        let parameter = |name: &str| {
            let mut parameters = self.parameters.iter();
            let found = parameters.find(|(key, value)| key == name && !value.is_empty());
            found.map(|(_, value)| value.clone())
        };
        let realm = self.is("bearer").then(|| parameter("realm"))??;
        Some(Bearer { realm, service: parameter("service"), scope: parameter("scope") })
    }
}

/// Every offer of one header.
fn offers(header: &str) -> Vec<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches(is_separator);
        let (word, behind) = split_word(rest);
        if word.is_empty() {
            // Whatever stands here belongs to nothing.
            let mut stray = rest.chars();
            if stray.next().is_none() {
                return offers;
            }
            rest = stray.as_str();
            continue;
        }
        let Some((behind, offer)) = behind.trim_start().strip_prefix('=').zip(offers.last_mut())
        else {
            offers.push(Offer { scheme: word.to_owned(), parameters: Vec::new() });
            rest = behind;
            continue;
        };
        let (value, behind) = split_value(behind.trim_start());
        offer.parameters.push((word.to_ascii_lowercase(), value));
        rest = behind;
    }
}

fn is_separator(c: char) -> bool {
    c == ',' || c.is_whitespace()
}

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| is_separator(c) || matches!(c, '=' | '"'));
    text.split_at(end.unwrap_or(text.len()))
}

/// A quoted string with its escapes undone, or what stands up to the next comma or space.
fn split_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, behind) = text.split_at(text.find(is_separator).unwrap_or(text.len()));
        return (value.to_owned(), behind);
    };
    let (mut value, mut chars) = (String::new(), quoted.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => value.extend(chars.next()),
            _ => value.push(c),
        }
    }
    (value, chars.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn challenge(headers: &[&str]) -> Option<Challenge> {
        let header = |value: &&str| (WWW_AUTHENTICATE, value.parse().unwrap());
        Challenge::of(&headers.iter().map(header).collect())
    }

    fn bearer(realm: &str, service: &str, scope: &str) -> Challenge {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (service, scope) = (some(service), some(scope));
        Challenge::Bearer(Bearer { realm: realm.into(), service, scope })
    }

    #[test]
    fn challenges_are_read_as_servers_write_them() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let rows: [(&[&str], Option<Challenge>); 16] = [
            (
                &[hub],
                Some(bearer(
                    "https://auth.docker.io/token",
                    "registry.docker.io",
                    "repository:a/b:pull,push",
                )),
            ),
            (&["Basic realm=\"r\""], Some(Challenge::Basic)),
            (&["bAsIc"], Some(Challenge::Basic)),
            (&["BEARER  REALM = \"x\" ,  Service=y"], Some(bearer("x", "y", ""))),
            (&["Basic realm=\"a, Bearer realm=b\""], Some(Challenge::Basic)),
            (&["Basic realm=\"r\", Bearer realm=\"x\",service=\"y\""], Some(bearer("x", "y", ""))),
            (&["Basic realm=\"r\"", "Bearer realm=\"x\""], Some(bearer("x", "", ""))),
            (&["Negotiate, Bearer realm=x"], Some(bearer("x", "", ""))),
            (&["Negotiate dG9rZW4=, Bearer realm=x"], Some(bearer("x", "", ""))),
            (&[r#"Bearer realm="a\"b\\c",scope="""#], Some(bearer(r#"a"b\c"#, "", ""))),
            (&["Bearer realm=\"unfinished"], Some(bearer("unfinished", "", ""))),
            (&["Bearer realm=\"first\",realm=\"second\""], Some(bearer("first", "", ""))),
            (&["Bearer error=\"insufficient_scope\"", "Bearer realm=x"], Some(bearer("x", "", ""))),
            (&["Bearer service=\"y\"", "Basic"], Some(Challenge::Basic)),
            (&["Bearer realm=\"\""], None),
            (&["Negotiate", "", ",=\"", "=x"], None),
        ];
        for (headers, expected) in rows {
            assert_eq!(challenge(headers), expected, "{headers:?}");
        }
        assert_eq!(challenge(&[]), None);
    }

    proptest! {
        #[test]
        fn whatever_a_server_writes_is_read_to_its_end(header in "[ -~\u{80}-\u{ff}\u{1f600}]{0,200}") {
            offers(&header);
        }

        #[test]
        fn noise_of_the_grammar_is_read_too(pieces in prop::collection::vec(
            prop::sample::select(vec!["Bearer", "basic", " ", ",", "=", "\"", "\\", "realm", "x", "é"]), 0..40,
        )) {
            let header = pieces.concat();
            let parameters = offers(&header).iter().map(|offer| offer.parameters.len()).sum::<usize>();
            prop_assert!(parameters <= header.matches('=').count());
        }

        #[test]
        fn a_challenge_is_found_behind_any_other(
            realm in "[!-~ ]{1,40}", scheme in "[A-Za-z]{1,9}", value in "[a-z0-9]{1,9}",
        ) {
            prop_assume!(!scheme.eq_ignore_ascii_case("bearer") && !realm.trim().is_empty());
            let quoted = realm.replace('\\', "\\\\").replace('"', "\\\"");
            let header = format!("{scheme} a={value}, b=\"{quoted}\" , bearer ReAlM=\"{quoted}\"");
            prop_assert_eq!(challenge(&[header.as_str()]), Some(bearer(&realm, "", "")));
        }
    }
}
