//! Tree to typed values, the way Go fills a struct.
//!
//! Fields are visited in the order of the text, so a repeated object merges into the first and the last of repeated
//! values wins, as in Go, without any rule of its own. `null` means "leave it as it is". Unknown and repeated fields are
//! collected for strict readers; lenient ones ignore the collection. The first value of a wrong type ends the reading,
//! so type errors hide strict ones, as upstream.
//!
//! Upstream: `sigs.k8s.io/json` (`UnmarshalStrict`, `UnmarshalCaseSensitivePreserveInts`).

use std::{cell::RefCell, fmt};

use base64::{
    Engine as _, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

use zeroize::Zeroizing;

use super::{
    Field, FieldError, FieldProblem, Kind, Node, Position, StrictIssue, StrictProblem, Value,
    path::Path,
};
use crate::{GoDuration, Secret, Timestamp, folded_name};

/// The fields of an object, each with the function that reads it into its place ([`Item::read_fields`]).
///
/// A field without a function does not compile, so a name that is added to a table cannot be read as another field.
pub type FieldTable<T> = [(&'static str, ReadField<T>)];

/// Reads one field into its place.
pub type ReadField<T> = fn(&mut T, Item<'_>) -> Result<(), FieldError>;

/// One reading of one tree; it collects what strict readers refuse.
#[derive(Debug, Default)]
pub struct Reading {
    issues: RefCell<Vec<StrictIssue>>,
}

impl Reading {
    /// The value of the whole document.
    pub fn root<'a>(&'a self, node: &'a Node) -> Item<'a> {
        Item { reading: self, node, path: &Path::ROOT }
    }

    /// Unknown and repeated fields in the order in which Go reports them; at most a hundred, each once.
    pub fn into_issues(self) -> Vec<StrictIssue> {
        self.issues.into_inner()
    }

    fn report(&self, problem: StrictProblem, path: &Path<'_>, at: Position) {
        const LIMIT: usize = 100;
        let mut issues = self.issues.borrow_mut();
        if issues.len() >= LIMIT {
            return;
        }
        let issue = StrictIssue { problem, path: path.to_owned(), at };
        let known = |seen: &StrictIssue| (seen.problem, &seen.path) == (problem, &issue.path);
        if !issues.iter().any(known) {
            issues.push(issue);
        }
    }
}

/// A value under its path. `Debug` shows the kind and the place only.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    reading: &'a Reading,
    node: &'a Node,
    path: &'a Path<'a>,
}

impl<'a> Item<'a> {
    /// The value itself.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.node.kind() == Kind::Null
    }

    /// A string; `None` for `null`.
    pub fn string(&self) -> Result<Option<&'a Secret<String>>, FieldError> {
        match &self.node.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(self.wrong_type(Kind::String)),
        }
    }

    /// Puts a string into its place; `null` leaves what is there.
    pub fn read_text(&self, target: &mut String) -> Result<(), FieldError> {
        if let Some(text) = self.string()? {
            target.clone_from(text.expose());
        }
        Ok(())
    }

    /// Puts a string into its place; `null` leaves what is there.
    pub fn read_secret(&self, target: &mut Secret<String>) -> Result<(), FieldError> {
        if let Some(text) = self.string()? {
            *target = text.clone();
        }
        Ok(())
    }

    /// Puts a boolean into its place; `null` leaves what is there.
    pub fn read_bool(&self, target: &mut bool) -> Result<(), FieldError> {
        if let Some(value) = self.bool()? {
            *target = value;
        }
        Ok(())
    }

    /// Puts a 32-bit integer into its place; `null` empties it, as it does a pointer in Go.
    pub fn read_integer(&self, target: &mut Option<i32>) -> Result<(), FieldError> {
        *target = self.integer()?;
        Ok(())
    }

    /// Puts an RFC 3339 time into its place; `null` empties it, as it does a pointer in Go.
    pub fn read_timestamp(&self, target: &mut Option<Timestamp>) -> Result<(), FieldError> {
        *target = self.timestamp()?;
        Ok(())
    }

    /// A boolean; `None` for `null`.
    pub fn bool(&self) -> Result<Option<bool>, FieldError> {
        match &self.node.value {
            Value::Null => Ok(None),
            Value::Bool(value) => Ok(Some(*value)),
            _ => Err(self.wrong_type(Kind::Bool)),
        }
    }

    /// A 32-bit integer; `None` for `null`.
    pub fn integer(&self) -> Result<Option<i32>, FieldError> {
        match &self.node.value {
            Value::Null => Ok(None),
            Value::Number(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(self.error(FieldProblem::NotAnInteger)),
            },
            _ => Err(self.wrong_type(Kind::Number)),
        }
    }

    /// A Go duration in a string; `None` for `null`.
    pub fn duration(&self) -> Result<Option<GoDuration>, FieldError> {
        let Some(text) = self.string()? else {
            return Ok(None);
        };
        let duration = GoDuration::parse(text.expose());
        duration.map(Some).map_err(|error| self.error(FieldProblem::Duration(error)))
    }

    /// An RFC 3339 time in a string; `None` for `null`.
    pub fn timestamp(&self) -> Result<Option<Timestamp>, FieldError> {
        let Some(text) = self.string()? else {
            return Ok(None);
        };
        let time = Timestamp::parse(text.expose());
        time.map(Some).map_err(|error| self.error(FieldProblem::Timestamp(error)))
    }

    /// Bytes: base64 in a string, or (Go allows it) a list of small numbers; `None` for `null`.
    pub fn bytes(&self) -> Result<Option<Secret<Vec<u8>>>, FieldError> {
        match &self.node.value {
            Value::Null => Ok(None),
            Value::String(text) => match decode_base64(text.expose()) {
                Some(bytes) => Ok(Some(bytes.into())),
                None => Err(self.error(FieldProblem::Base64)),
            },
            Value::List(_) => {
                let mut bytes = Zeroizing::new(Vec::new());
                self.elements(|_, item| {
                    bytes.push(item.byte()?);
                    Ok(())
                })?;
                Ok(Some(std::mem::take(&mut *bytes).into()))
            }
            _ => Err(self.wrong_type(Kind::String)),
        }
    }

    /// Visits the known fields of an object, in order; returns whether it was an object and not `null`.
    pub fn object(
        &self,
        known: &[&str],
        mut visit: impl FnMut(&str, Item<'_>) -> Result<(), FieldError>,
    ) -> Result<bool, FieldError> {
        let Some(fields) = self.fields()? else {
            return Ok(false);
        };
        let mut seen = Vec::new();
        for field in fields {
            let name = field.name.expose().as_str();
            let path = self.path.field(name);
            if !known.contains(&name) {
                self.report(StrictProblem::UnknownField, &path, field.at);
                continue;
            }
            if seen.contains(&name) {
                self.report(StrictProblem::DuplicateField, &path, field.at);
            } else {
                seen.push(name);
            }
            visit(name, self.at(&field.node, &path))?;
        }
        Ok(true)
    }

    /// Visits the known fields of an object, in order, however their names are cased, as Go's own JSON decoder does;
    /// returns whether it was an object and not `null`. Nothing is collected for strict readers.
    pub fn object_in_any_case(
        &self,
        known: &[&str],
        mut visit: impl FnMut(&str, Item<'_>) -> Result<(), FieldError>,
    ) -> Result<bool, FieldError> {
        let Some(fields) = self.fields()? else {
            return Ok(false);
        };
        for field in fields {
            let folded = folded_name(field.name.expose());
            if let Some(name) = known.iter().find(|name| folded_name(name) == folded) {
                let path = self.path.field(name);
                visit(name, self.at(&field.node, &path))?;
            }
        }
        Ok(true)
    }

    /// Fills `target` by the table of its fields, in the order of the text; returns whether it was an object and not `null`.
    ///
    /// ```
    /// use keyfob_document::{Document, FieldTable, Reading};
    ///
    /// const FIELDS: &FieldTable<(String, bool)> = &[
    ///     ("name", |(name, _), item| item.read_text(name)),
    ///     ("default", |(_, default), item| item.read_bool(default)),
    /// ];
    /// let document = Document::read(b"name: a\ndefault: true")?;
    /// let mut read = Default::default();
    /// Reading::default().root(&document.root).read_fields(FIELDS, &mut read)?;
    /// assert_eq!(read, ("a".into(), true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_fields<T>(
        &self,
        table: &FieldTable<T>,
        target: &mut T,
    ) -> Result<bool, FieldError> {
        self.rows(table, |read, item| read(target, item))
    }

    /// Like [`Item::read_fields`], with the rule of [`Item::object_in_any_case`] for names.
    pub fn read_fields_in_any_case<T>(
        &self,
        table: &FieldTable<T>,
        target: &mut T,
    ) -> Result<bool, FieldError> {
        self.object_in_any_case(&names(table), |name, item| {
            row(table, name).map_or(Ok(()), |read| read(target, item))
        })
    }

    /// Visits the fields of an object by a table, in the order of the text, each with what the table has beside its name; returns
    /// whether it was an object and not `null`. For readers that need more than [`Item::read_fields`] gives them.
    pub fn rows<N: AsRef<str>, R>(
        &self,
        table: &[(N, R)],
        mut visit: impl FnMut(&R, Item<'_>) -> Result<(), FieldError>,
    ) -> Result<bool, FieldError> {
        self.object(&names(table), |name, item| {
            row(table, name).map_or(Ok(()), |row| visit(row, item))
        })
    }

    /// Visits every entry of a map, in order; returns whether it was a map and not `null`.
    pub fn entries(
        &self,
        mut visit: impl FnMut(&Secret<String>, Item<'_>) -> Result<(), FieldError>,
    ) -> Result<bool, FieldError> {
        let Some(fields) = self.fields()? else {
            return Ok(false);
        };
        let mut seen = std::collections::HashSet::new();
        for (index, field) in fields.iter().enumerate() {
            let key = field.name.expose().as_str();
            let path = self.path.key(index, key);
            if !seen.insert(key) {
                self.report(StrictProblem::DuplicateField, &path, field.at);
            }
            visit(&field.name, self.at(&field.node, &path))?;
        }
        Ok(true)
    }

    /// Visits every element of a list; returns whether it was a list and not `null`.
    pub fn elements(
        &self,
        mut visit: impl FnMut(usize, Item<'_>) -> Result<(), FieldError>,
    ) -> Result<bool, FieldError> {
        let items = match &self.node.value {
            Value::Null => return Ok(false),
            Value::List(items) => items,
            _ => return Err(self.wrong_type(Kind::List)),
        };
        for (index, node) in items.iter().enumerate() {
            let path = self.path.index(index);
            visit(index, self.at(node, &path))?;
        }
        Ok(true)
    }

    /// Reads a list of texts, and shows each element to `seen` before it is read. `null` is an empty list.
    pub fn texts(&self, mut seen: impl FnMut(usize, &Item<'_>)) -> Result<Vec<String>, FieldError> {
        let mut texts = Vec::new();
        self.elements(|index, item| {
            seen(index, &item);
            let mut text = String::new();
            item.read_text(&mut text)?;
            texts.push(text);
            Ok(())
        })?;
        Ok(texts)
    }

    /// Another value of the same reading.
    fn at<'b>(&'b self, node: &'b Node, path: &'b Path<'b>) -> Item<'b> {
        Item { reading: self.reading, node, path }
    }

    fn report(&self, problem: StrictProblem, path: &Path<'_>, at: Position) {
        self.reading.report(problem, path, at);
    }

    fn fields(&self) -> Result<Option<&'a [Field]>, FieldError> {
        match &self.node.value {
            Value::Null => Ok(None),
            Value::Map(fields) => Ok(Some(fields)),
            _ => Err(self.wrong_type(Kind::Map)),
        }
    }

    fn byte(&self) -> Result<u8, FieldError> {
        match &self.node.value {
            Value::Null => Ok(0),
            Value::Number(text) => text.parse().map_err(|_| self.error(FieldProblem::NotAnInteger)),
            _ => Err(self.wrong_type(Kind::Number)),
        }
    }

    fn wrong_type(&self, wanted: Kind) -> FieldError {
        self.error(FieldProblem::WrongType { wanted, found: self.node.kind() })
    }

    fn error(&self, problem: FieldProblem) -> FieldError {
        FieldError { path: self.path.to_owned(), at: self.node.at, problem }
    }
}

fn names<N: AsRef<str>, R>(table: &[(N, R)]) -> Vec<&str> {
    table.iter().map(|row| row.0.as_ref()).collect()
}

/// What a table has beside a name. Only its own names are asked for.
fn row<'t, N: AsRef<str>, R>(table: &'t [(N, R)], name: &str) -> Option<&'t R> {
    table.iter().find(|row| row.0.as_ref() == name).map(|row| &row.1)
}

impl fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

/// Go skips line breaks, wants the padding, and does not mind stray bits in the last character.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let is_break = |c: &char| matches!(c, '\r' | '\n');
    // Big enough from the start: growing would leave a copy of a secret behind.
    let mut joined = String::with_capacity(text.len());
    joined.extend(text.chars().filter(|c| !is_break(c)));
    let engine = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
    engine.decode(Secret::new(joined).expose()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    /// A configuration in small: providers with a name, a wait and labels.
    fn read(text: &str) -> Result<(Vec<String>, Vec<String>), FieldError> {
        let document = Document::read(text.as_bytes()).unwrap();
        let reading = Reading::default();
        let mut names = Vec::new();
        reading.root(&document.root).object(&["providers"], |_, providers| {
            providers.elements(|_, provider| {
                let mut name = String::new();
                provider.object(&["name", "wait", "labels"], |field, item| {
                    match field {
                        "name" => item.read_text(&mut name)?,
                        "wait" => drop(item.duration()?),
                        _ => drop(item.entries(|_, label| label.string().map(drop))?),
                    }
                    Ok(())
                })?;
                names.push(name);
                Ok(())
            })?;
            Ok(())
        })?;
        Ok((names, reading.into_issues().iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn strict_issues_come_in_gos_order_and_words() {
        let (names, issues) = read(
            r#"{"x":1,"providers":[{"nam":1,"name":"a","name":null,"labels":{"k":"1","k":"2"}},{"Name":"b\n"}],"x":2}"#,
        )
        .unwrap();
        assert_eq!(names, ["a", ""]);
        assert_eq!(
            issues,
            [
                r#"unknown field "x""#,
                r#"unknown field "providers[0].nam""#,
                r#"duplicate field "providers[0].name""#,
                r#"duplicate field "providers[0].labels.k""#,
                r#"unknown field "providers[1].Name""#,
            ]
        );
    }

    #[test]
    fn bytes_are_read_as_leniently_as_go_reads_them() {
        let bytes = |text: &str| {
            let document = Document::read_json(text.as_bytes()).unwrap();
            let read = Reading::default().root(&document.root).bytes();
            read.ok().flatten().map(|bytes| bytes.expose().clone())
        };

        assert_eq!(bytes(r#""YW\nI=""#), Some(b"ab".to_vec()));
        assert_eq!(bytes(r#""YR==""#), Some(b"a".to_vec()), "stray bits behind the last byte");
        assert_eq!(bytes("[97, 98]"), Some(b"ab".to_vec()));
        assert_eq!((bytes(r#""YQ""#), bytes("[256]"), bytes("null")), (None, None, None));
    }

    #[test]
    fn names_in_any_case_are_visited_under_the_known_one() {
        let document = Document::read_json(br#"{"AUTHS":1,"other":2,"auth\u017f":3,"auths":4}"#);
        let document = document.unwrap();
        let mut seen = Vec::new();
        let item = |name: &str, item: Item<'_>| {
            seen.push((name.to_owned(), item.integer()?.unwrap_or_default()));
            Ok(())
        };
        Reading::default().root(&document.root).object_in_any_case(&["auths"], item).unwrap();

        assert_eq!(seen, [1, 3, 4].map(|value| ("auths".to_owned(), value)));
    }

    #[test]
    fn no_more_than_a_hundred_issues_are_collected_however_many_there_are() {
        let fields: Vec<String> = (0..1_000).map(|n| format!("\"x{n}\":1")).collect();

        let (_, issues) = read(&format!("{{{}}}", fields.join(","))).unwrap();

        assert_eq!(issues.len(), 100);
    }

    #[test]
    fn a_type_error_knows_its_path_and_place() {
        let error = read("providers:\n- name: a\n- labels:\n    a: b\n    k: 5\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "providers[1].labels.k: expected a string, found a number (line 5, column 8)"
        );
        assert_eq!(error.path.without_keys(), "providers[1].labels[1]");
    }

    #[test]
    fn a_bad_duration_speaks_for_itself() {
        let error = read("providers: [{wait: 5 minutes}]").unwrap_err();
        assert_eq!(
            error.to_string(),
            "providers[0].wait: time: unknown unit \" minutes\" in duration \"5 minutes\" (line 1, column 20)"
        );
    }
}
