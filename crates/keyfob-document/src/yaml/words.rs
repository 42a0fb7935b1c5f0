//! What is wrong with a text that breaks YAML's grammar, in plain words: [`YamlProblem::Syntax`](super::YamlProblem::Syntax). The places
//! where a text is refused are libyaml's, the words are ours.

pub(super) const BAD_BLOCK_HEADER: &str = "only a comment may follow `|` or `>` on its line";
pub(super) const BAD_DIRECTIVE_NAME: &str =
    "the name of a directive has a character other than a letter";
pub(super) const BAD_ESCAPE: &str =
    "a backslash is followed by a character that has no meaning there";
pub(super) const BAD_TAG: &str =
    "a tag (`!…`) is followed by something other than a space or the end of the line";
pub(super) const BAD_TAG_ESCAPE: &str = "a `%` in a tag is not followed by two hexadecimal digits";
pub(super) const BAD_TAG_PREFIX: &str =
    "the prefix of a %TAG line is followed by something on the line";
pub(super) const BAD_UNICODE_ESCAPE: &str = "an escape stands for no character";
pub(super) const DIRECTIVE_WITHOUT_NAME: &str = "the name of a directive is missing after `%`";
pub(super) const DOCUMENT_INDICATOR: &str = "a line with `---` or `...` stands in a text in quotes";
pub(super) const EARLY_END: &str = "the text ends too early";
pub(super) const ENTRY_NOT_ALLOWED: &str = "a `-` for an element of a list is not allowed here";
pub(super) const EXPECTED_DASH: &str = "expected a `-` for the next element of the list";
pub(super) const EXPECTED_FIELD: &str =
    "expected the name of a field; the indentation may be wrong";
pub(super) const EXPECTED_DOCUMENT: &str = "expected `---` at the start of the next document";
pub(super) const EXPECTED_LIST_END: &str = "expected `,` or `]`";
pub(super) const EXPECTED_MAP_END: &str = "expected `,` or `}`";
pub(super) const EXPECTED_VALUE: &str = "expected a value";
pub(super) const KEY_NOT_ALLOWED: &str = "a `?` for a key is not allowed here";
pub(super) const LONG_VERSION: &str = "the version of a %YAML line is too long";
pub(super) const NO_ALIAS_NAME: &str = "expected a name of letters and digits after `*` or `&`";
pub(super) const NO_HEX_DIGITS: &str = "an escape lacks hexadecimal digits";
pub(super) const NO_TAG_END: &str = "a tag that starts with `!<` lacks its `>`";
pub(super) const NO_TAG_HANDLE: &str = "a tag handle lacks its `!`";
pub(super) const NO_TAG_NAME: &str = "the name of a tag is missing";
pub(super) const NO_TAG_SPACE: &str = "a space is missing after the tag handle";
pub(super) const NO_VERSION: &str = "the version of a %YAML line is missing";
pub(super) const NO_VERSION_DOT: &str = "the version of a %YAML line lacks its `.`";
pub(super) const REPEATED_TAG: &str = "a %TAG line is repeated";
pub(super) const REPEATED_VERSION: &str = "a %YAML line is repeated";
pub(super) const TAG_OCTET: &str = "an escape in a tag is not UTF-8";
pub(super) const TRAILING_DIRECTIVE: &str = "only a comment may follow a directive on its line";
pub(super) const UNKNOWN_CHARACTER: &str = "no value can begin with this character";
pub(super) const UNKNOWN_DIRECTIVE: &str = "this directive is not known";
pub(super) const UNKNOWN_TAG: &str = "no %TAG line declares this tag";
pub(super) const ZERO_INDENT: &str = "an indentation of 0 is not allowed";
