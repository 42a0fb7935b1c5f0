//! What to do about what is wrong, in plain words.

use keyfob_api::document::{
    DocumentError, FieldError, FieldPath, FieldProblem, JsonProblem, Kind, YamlError, YamlProblem,
};

use super::{
    meta::Meta,
    schema::{CONFIG, FIRST_KEP_PROVIDER, Object, PROVIDER, TOKENS, Type, VARIABLE, Version},
};

pub(super) const META: &str = "a configuration begins with `apiVersion: kubelet.config.k8s.io/v1` and `kind: CredentialProviderConfig`";

pub(super) const DUPLICATE: &str =
    "keep one of the two; a list holds several values under one name";

/// About a text that is neither JSON nor YAML.
pub(super) fn syntax(text: &[u8], error: &DocumentError) -> Option<String> {
    match error {
        DocumentError::Yaml(error) => Some(yaml(text, error)),
        DocumentError::Json(error) => Some(match error.problem {
            JsonProblem::Expected("a field name in double quotes") => {
                "a file that begins with `{` is JSON: names and texts are in double quotes, and there are no comments and no comma before `}`".to_owned()
            }
            JsonProblem::TrailingData => "a file holds one configuration: put the other into a file of its own in the same directory".to_owned(),
            JsonProblem::UnexpectedEnd => "the file ends too early: is it whole?".to_owned(),
            _ => "a file that begins with `{` must be JSON throughout".to_owned(),
        }),
        _ => None,
    }
}

fn yaml(text: &[u8], error: &YamlError) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().nth(error.at.line.saturating_sub(1)).unwrap_or_default();
    let found = line.chars().nth(error.at.column.saturating_sub(1));
    let help = match (error.problem, found) {
        (YamlProblem::InvalidKey | YamlProblem::UnsupportedKey, _) if line.contains("{{") => {
            "this looks like a template that was not filled in: write what stands for `{{…}}`"
        }
        (_, Some('*')) => {
            "a `*` begins a YAML alias: put the pattern in quotes, as in \"*.example.com\""
        }
        (YamlProblem::TabInIndentation, _) | (YamlProblem::Syntax(_), Some('\t')) => {
            "YAML is indented with spaces: replace the tab"
        }
        (_, Some('@' | '`' | '%')) => "a text that begins with this character must be in quotes",
        (_, Some('&')) => "a `&` begins a YAML anchor: put the text in quotes",
        (YamlProblem::UnexpectedColon, _) => {
            "there is a `: ` too many, or a line before is indented wrongly: put a text with `: ` in quotes"
        }
        (YamlProblem::MissingColon, _) => {
            "a `:` and a space are missing after the name, or a text with several lines is not in quotes"
        }
        (YamlProblem::UnsupportedVersion, _) => {
            "Kubernetes reads YAML 1.1 only: leave the %YAML line out"
        }
        (YamlProblem::UnclosedQuote, _) => "the quote that opens here is never closed: close it",
        (YamlProblem::UnknownAnchor, _) => "an alias needs an anchor of that name before it",
        (YamlProblem::Encoding(_), _) => "save the file as UTF-8 text",
        (YamlProblem::InvalidKey | YamlProblem::UnsupportedKey, _) => {
            "the name of a field is one text: put it in quotes"
        }
        (YamlProblem::TagMismatch | YamlProblem::Base64, _) => {
            "leave the tag (`!!…`) out, or write a value that fits it"
        }
        (YamlProblem::NotFinite, _) => "put the text in quotes: YAML takes it for a number",
        (YamlProblem::MergeOfNonMap, _) => "write an object, or an alias of one, behind `<<:`",
        (YamlProblem::SelfReference | YamlProblem::ExcessiveAliasing, _) => {
            "write the values out instead of repeating them by aliases"
        }
        (YamlProblem::TooDeep | YamlProblem::TooManyValues(_), _) => {
            "this is hardly a configuration; split it if it is"
        }
        _ => "check the indentation, quotes and brackets of this line and the one before",
    };
    help.to_owned()
}

/// About a document of another kind or version.
pub(super) fn kind(meta: &Meta) -> String {
    const CONFIG_GROUP: &str = "kubelet.config.k8s.io/";
    let is_config = meta.kind == CONFIG.name;
    match meta.kind.as_str() {
        _ if is_config && meta.api_version.starts_with("credentialprovider.kubelet") => {
            "that is the version of a provider; the file's own is `apiVersion: kubelet.config.k8s.io/v1`".to_owned()
        }
        _ if is_config => {
            "write `apiVersion: kubelet.config.k8s.io/v1` (or v1beta1, v1alpha1)".to_owned()
        }
        kind if kind.eq_ignore_ascii_case(CONFIG.name) => {
            format!("upper and lower case matter: write `kind: {}`", CONFIG.name)
        }
        "KubeletConfiguration" => "this is the kubelet's own configuration; the plugins' is another file, named by --image-credential-provider-config".to_owned(),
        "CredentialProviderResponse" | "CredentialProviderRequest" => {
            "this is a message between the kubelet and a plugin, not a configuration".to_owned()
        }
        "credentialprovider" | "RegistryCredentialConfig" => {
            format!("the first KEP's configuration has `apiVersion: v1alpha1`; today {META}")
        }
        _ if meta.api_version.starts_with(CONFIG_GROUP) => {
            format!("write `kind: {}`", CONFIG.name)
        }
        _ => META.to_owned(),
    }
}

/// About a value of the wrong type, or one that is no duration.
pub(super) fn wrong_value(error: &FieldError, version: Version) -> Option<String> {
    let path = error.path.to_string();
    let (wanted_kind, found) = match &error.problem {
        FieldProblem::Duration(error) => return Some(duration(&error.to_string())),
        FieldProblem::WrongType { wanted, found } => (*wanted, *found),
        _ => return None,
    };
    let text = match (wanted_at(&path, version), found) {
        (Some(Type::Duration), _) => {
            "write a duration with a unit, as in \"10m\" or \"12h\"; \"0s\" means that answers are not kept"
        }
        (Some(Type::List(_)), Kind::String | Kind::Number | Kind::Bool) => {
            "this is a list: write each value on a line of its own behind `- `"
        }
        (Some(Type::List(Type::Object(_))), Kind::Map) if path.ends_with("env") => {
            "this is a list: write `- name: NAME` and below it `value: VALUE` for each variable"
        }
        (Some(Type::List(_)), _) => "this is a list: begin each element with `- `",
        (Some(Type::Text), Kind::Number | Kind::Bool) => {
            "put the value in quotes: without them YAML takes it for a number or a boolean"
        }
        (Some(Type::Bool), _) => "write true or false, without quotes",
        (Some(Type::Object(object)), _) if object.name == VARIABLE.name => {
            "write `- name: NAME` and below it `value: VALUE` for each variable"
        }
        (Some(Type::Object(_)), _) => {
            "this is an object: write its fields below it, further indented"
        }
        // Inside of the first KEP's `extraArgs`.
        (None, Kind::Number) if wanted_kind == Kind::String => {
            "put quotes around it: YAML reads this as a number and would change it"
        }
        (None, Kind::Bool) if wanted_kind == Kind::String => {
            "put quotes around it: YAML reads this as a boolean and would change it"
        }
        (Some(Type::Text) | None, _) if wanted_kind == Kind::String => {
            "this is one text, neither a list nor an object"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// What the field, or the element of a list, at a path wants.
fn wanted_at(path: &str, version: Version) -> Option<Type> {
    let (parent, last) = path.rsplit_once('.').unwrap_or(("", path));
    let (name, is_element) = last.split_once('[').map_or((last, false), |(name, _)| (name, true));
    let field = version.fields(object_at(parent, version)).find(|field| field.0 == name)?;
    match field.1.wanted {
        Type::List(element) if is_element => Some(*element),
        wanted => Some(wanted),
    }
}

fn duration(said: &str) -> String {
    let units = "units are h, m, s, ms, us and ns";
    if said.contains("unknown unit \"d\"") {
        return format!("there is no unit for days: write hours, as in \"24h\"; {units}");
    }
    if said.contains("missing unit") {
        return format!("write the unit as well, as in \"90s\"; {units}");
    }
    format!("write a duration such as \"10m\" or \"1h30m\"; {units}")
}

/// About a field that there is not.
pub(super) fn unknown_field(path: &FieldPath, version: Version) -> Option<String> {
    let name = path.last_name()?;
    let parent = path.parent().to_string();
    if matches!(name, "cacheDuration" | "cacheKeyType") {
        return Some(format!(
            "{name} belongs into the plugin's answer; here there is only defaultCacheDuration, for answers that say nothing"
        ));
    }
    if name == "tokenAttributes" {
        return Some("only `apiVersion: kubelet.config.k8s.io/v1` has tokenAttributes: change the file's first lines".to_owned());
    }
    if matches!(name, "imageMatchers" | "extraArgs") && version != Version::FirstKep {
        let instead = if name == "imageMatchers" { "matchImages" } else { "env" };
        return Some(format!("this is the first KEP's name; today it is {instead}"));
    }
    let object = object_at(&parent, version);
    let here = |known: &&str| version.fields(object).any(|field| field.1.name == *known);
    let near = nearest(name, object).filter(here).map(|near| format!("did you mean `{near}`?"));
    near.or_else(|| elsewhere(name, object)).or_else(|| Some(list_of(object, version)))
}

/// Which object a path leads to.
fn object_at(path: &str, version: Version) -> &'static Object {
    let last = path.rsplit('.').next().unwrap_or_default();
    let name = last.split('[').next().unwrap_or_default();
    match name.to_ascii_lowercase().as_str() {
        "providers" if version == Version::FirstKep => &FIRST_KEP_PROVIDER,
        "providers" => &PROVIDER,
        "env" => &VARIABLE,
        "tokenattributes" => &TOKENS,
        _ => &CONFIG,
    }
}

fn nearest(name: &str, object: &'static Object) -> Option<&'static str> {
    nearest_name(name, (object.columns)().into_iter().map(|column| column.name))
}

/// The one of these names that was probably meant: only letters in upper or lower case, `-` and `_` differ, or few letters.
pub fn nearest_name<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let written = plain(written);
    let known = known.into_iter().map(|known| (distance(&written, &plain(known)), known));
    let (distance, known) = known.min()?;
    let longest = (known.len() / 3).clamp(1, 3);
    (distance <= longest).then_some(known)
}

/// A field that exists in another object: it is indented wrongly.
fn elsewhere(name: &str, here: &'static Object) -> Option<String> {
    const PLACES: [(&Object, &str); 3] = [
        (&PROVIDER, "a provider, which is an element of `providers`"),
        (&TOKENS, "tokenAttributes"),
        (&CONFIG, "the top of the file"),
    ];
    let others = PLACES.into_iter().filter(|(object, _)| object.name != here.name);
    let has = |object: &Object| (object.columns)().iter().any(|column| column.name == name);
    let (_, place) = others.into_iter().find(|(object, _)| has(object))?;
    Some(format!("{name} belongs to {place}: check the indentation"))
}

fn list_of(object: &'static Object, version: Version) -> String {
    let known: Vec<_> = version.fields(object).map(|field| field.0.into_owned()).collect();
    format!("leave it out; the fields here are {}", known.join(", "))
}

/// How many letters must be changed, added, left out or swapped with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().collect();
    let at = |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX / 2);
    let (mut before, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, c) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, d) in b.iter().enumerate() {
            let change = at(&row, j) + usize::from(c != d);
            let mut least = change.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            if let (Some(i), Some(j)) = (i.checked_sub(1), j.checked_sub(1))
                && (a.get(i), b.get(j)) == (Some(d), Some(c))
            {
                least = least.min(at(&before, j) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::nearest_name;
    use crate::Config;

    #[test]
    fn a_name_that_was_probably_meant_is_found() {
        let known = ["ecr", "gcr", "acr-credential-provider"];
        for (written, meant) in [
            ("erc", Some("ecr")),
            ("ECR", Some("ecr")),
            ("gcrr", Some("gcr")),
            ("acr-credentail-provder", Some("acr-credential-provider")),
            ("quay", None),
            ("", None),
        ] {
            assert_eq!(nearest_name(written, known), meant, "{written}");
        }
        assert_eq!(nearest_name("ecr", []), None);
    }

    fn help(text: &str) -> String {
        Config::from_files([("c.yaml", text)]).unwrap_err().help().unwrap_or_default().to_owned()
    }

    fn help_with(provider: &str) -> String {
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nproviders:\n- name: p\n";
        help(&format!("{head}{provider}"))
    }

    #[test]
    fn frequent_mistakes_come_with_what_to_do() {
        let cases = [
            ("  matchImages:\n  - *.r.io", "a `*` begins a YAML alias: put the pattern in quotes"),
            ("\tmatchImages: [r.io]", "YAML is indented with spaces"),
            ("  matchImage: [r.io]", "did you mean `matchImages`?"),
            ("  matchimages: [r.io]", "did you mean `matchImages`?"),
            ("  image_matches: [r.io]", "leave it out; the fields here are name, matchImages, "),
            ("  matchImages: r.io", "this is a list: write each value on a line of its own"),
            ("  env: {A: b}", "this is a list: write `- name: NAME`"),
            ("  env: ['A=b']", "write `- name: NAME` and below it `value: VALUE`"),
            ("  args: ['a", "the quote that opens here is never closed"),
            ("  args: [\"a]", "the quote that opens here is never closed"),
            ("  defaultCacheDuration: 1d", "there is no unit for days"),
            ("  defaultCacheDuration: '90'", "write the unit as well"),
            ("  defaultCacheDuration: 90", "write a duration with a unit"),
            ("  cacheDuration: 1m", "cacheDuration belongs into the plugin's answer"),
            ("  cacheKeyType: Image", "cacheKeyType belongs into the plugin's answer"),
            (
                "  tokenAttributes: {}",
                "only `apiVersion: kubelet.config.k8s.io/v1` has tokenAttributes",
            ),
            ("  cacheType: Token", "cacheType belongs to tokenAttributes"),
            ("  args: [1]", "put the value in quotes"),
            ("  args: [{{ x }}]", "this looks like a template"),
            ("matchImages: [r.io]", "matchImages belongs to a provider"),
        ];
        for (text, begin) in cases {
            let help = help_with(text);
            assert!(help.starts_with(begin), "{text}: {help}");
        }
        assert!(
            help("kind: CredentialProviderConfig\napiVersion: v1")
                .starts_with("write `apiVersion: kubelet")
        );
        assert!(help("kind: Pod\napiVersion: v1").starts_with("a configuration begins with"));
        let first =
            "kind: credentialprovider\napiVersion: v1alpha1\nproviders: [{imageMatcher: [r.io]}]";
        assert_eq!(help(first), "did you mean `imageMatchers`?");
        assert!(help("{a: b}").starts_with("a file that begins with `{` is JSON"));
    }
}
