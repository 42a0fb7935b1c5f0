//! What is read from the service's answer.

use std::{
    str::FromStr,
    time::{Duration, SystemTime},
};

use keyfob_api::{
    Claims, Secret, Timestamp,
    document::{Document, Node, Value},
};
use keyfob_plugin::{Doing as _, Failure};
use thiserror::Error;

/// The way to a field of the answer: `data.token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a field is written as names with dots between them")]
pub(super) struct NoPath;

impl FromStr for Path {
    type Err = NoPath;

    fn from_str(text: &str) -> Result<Self, NoPath> {
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) { Err(NoPath) } else { Ok(Self(names)) }
    }
}

/// Where things stand in an answer.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) username: Option<Path>,
    pub(super) password: Option<Path>,
    pub(super) expires_in: Option<Path>,
    pub(super) expires_at: Option<Path>,
}

/// What an answer says.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) username: Option<String>,
    pub(super) password: Secret<String>,
    pub(super) end: Option<SystemTime>,
}

impl Fields {
    /// The login in an answer that came at this time.
    pub(super) fn read(&self, body: &[u8], now: SystemTime) -> Result<Login, Failure> {
        let document = Document::read_json(body).doing("the answer")?;
        let root = &document.root;
        let password = self.password(root)?;
        let end = match self.end(root, now)? {
            Some(end) => Some(end),
            None => Claims::expiry(&password),
        };
        Ok(Login { username: self.username(root)?, password, end })
    }

    fn password(&self, root: &Node) -> Result<Secret<String>, Failure> {
        let found = match &self.password {
            Some(path) => text(root, path)?,
            None => match text(root, &named("access_token"))? {
                Some(found) => Some(found),
                None => text(root, &named("token"))?,
            },
        };
        let found = found.filter(|found| !found.expose().trim().is_empty());
        let missing = || {
            Failure::new(
                "the answer has no password, or an empty one: --password-field says where it stands",
            )
        };
        found.cloned().ok_or_else(missing)
    }

    fn username(&self, root: &Node) -> Result<Option<String>, Failure> {
        let found = match &self.username {
            Some(path) => text(root, path)?,
            None => text(root, &named("username")).unwrap_or_default(),
        };
        let found = found.map(|found| found.expose().clone()).filter(|found| !found.is_empty());
        match (&self.username, found) {
            (Some(path), None) => {
                Err(Failure::new(format!("the answer has no user name in {}", path.0.join("."))))
            }
            (_, found) => Ok(found),
        }
    }

    fn end(&self, root: &Node, now: SystemTime) -> Result<Option<SystemTime>, Failure> {
        if let Some(path) = &self.expires_at
            && let Some(node) = find(root, path)
        {
            return moment(node).map(Some).ok_or_else(|| wrong(path, "a time"));
        }
        let usual = named("expires_in");
        let path = self.expires_in.as_ref().unwrap_or(&usual);
        let Some(node) = find(root, path) else { return Ok(None) };
        let life = seconds(node).ok_or_else(|| wrong(path, "a number of seconds"))?;
        // What has ended is refused by the SDK.
        let life = Duration::try_from_secs_f64(life.max(0.0)).unwrap_or_default();
        Ok(now.checked_add(life))
    }
}

fn named(name: &str) -> Path {
    Path(vec![name.to_owned()])
}

/// A value that is there and not `null`; the last of equal names wins.
fn find<'a>(root: &'a Node, path: &Path) -> Option<&'a Node> {
    let found = path.0.iter().try_fold(root, |node, name| {
        let Value::Map(fields) = &node.value else { return None };
        fields.iter().rev().find(|field| field.name.expose() == name).map(|field| &field.node)
    })?;
    (!matches!(found.value, Value::Null)).then_some(found)
}

fn text<'a>(root: &'a Node, path: &Path) -> Result<Option<&'a Secret<String>>, Failure> {
    match find(root, path).map(|node| &node.value) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(path, "a string")),
    }
}

/// A number, or a string that holds one.
fn seconds(node: &Node) -> Option<f64> {
    let number = match &node.value {
        Value::Number(number) => number.as_ref(),
        Value::String(text) => text.expose().as_str(),
        _ => return None,
    };
    number.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A time as RFC 3339 writes it, or seconds since 1970.
fn moment(node: &Node) -> Option<SystemTime> {
    if let Value::String(text) = &node.value
        && let Ok(time) = Timestamp::parse(text.expose())
    {
        return time.to_system_time();
    }
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds(node)?).ok()?)
}

fn wrong(path: &Path, expected: &str) -> Failure {
    Failure::new(format!("the answer's {} is not {expected}", path.0.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn fields(paths: [&str; 4]) -> Fields {
        let [username, password, expires_in, expires_at] = paths.map(|path| path.parse().ok());
        Fields { username, password, expires_in, expires_at }
    }

    fn end(fields: &Fields, body: &str) -> Result<Option<u64>, String> {
        let login = fields.read(body.as_bytes(), NOW).map_err(|failure| failure.to_string())?;
        Ok(login.end.map(|end| end.duration_since(NOW).unwrap().as_secs()))
    }

    #[test]
    fn a_life_is_a_number_or_a_text_with_one() {
        let usual = fields(["", "", "", ""]);
        assert_eq!(end(&usual, r#"{"token":"x","expires_in":900}"#), Ok(Some(900)));
        assert_eq!(end(&usual, r#"{"token":"x","expires_in":"900.5"}"#), Ok(Some(900)));
        assert_eq!(end(&usual, r#"{"token":"x","expires_in":-5}"#), Ok(Some(0)));
        assert_eq!(end(&usual, r#"{"token":"x","expires_in":null}"#), Ok(None));
        assert_eq!(end(&usual, r#"{"token":"x.eyJleHAiOjd9.x"}"#), Ok(Some(7)), "of a JWT");
        let wrong = Err("the answer's expires_in is not a number of seconds".to_owned());
        assert_eq!(end(&usual, r#"{"token":"x","expires_in":"soon"}"#), wrong);
    }

    #[test]
    fn an_end_is_a_time_or_seconds() {
        let named = fields(["", "", "", "data.expires"]);
        let body = |value: &str| format!(r#"{{"token":"x","data":{{"expires":{value}}}}}"#);
        assert_eq!(end(&named, &body(r#""1970-01-01T00:01:00Z""#)), Ok(Some(60)));
        assert_eq!(end(&named, &body("60")), Ok(Some(60)));
        assert_eq!(end(&named, r#"{"token":"x","expires_in":5}"#), Ok(Some(5)), "else the life");
        let wrong = Err("the answer's data.expires is not a time".to_owned());
        assert_eq!(end(&named, &body("true")), wrong);
    }

    #[test]
    fn a_path_has_no_empty_names() {
        assert_eq!("a.b".parse(), Ok(Path(vec!["a".into(), "b".into()])));
        for wrong in ["", ".", "a.", ".a", "a..b"] {
            assert_eq!(wrong.parse::<Path>(), Err(NoPath), "{wrong}");
        }
    }
}
