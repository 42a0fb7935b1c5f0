//! Files that cannot be used: each a clear error, soon, and without what they say.

use std::{
    fmt::Write as _,
    fs,
    os::unix::{fs::symlink, net::UnixListener},
};

use keyfob_client::{FileProblem, Kubeconfig, KubeconfigError, LoadError, LoadProblem};

use crate::{Folder, PLUGIN, SERVER, kubeconfig};

#[test]
fn a_file_that_cannot_be_read_is_told_as_such() {
    let folder = Folder::new(&[("file", "x: ["), ("folder/file", "")]);
    let _listener = UnixListener::bind(folder.at("socket")).unwrap();
    symlink(folder.at("b"), folder.at("a")).unwrap();
    symlink(folder.at("a"), folder.at("b")).unwrap();
    fs::File::create(folder.at("huge")).unwrap().set_len((16 << 20) + 1).unwrap();
    let cases = [
        ("folder", "read $DIR/folder: is a directory"),
        ("file/x", "open $DIR/file/x: not a directory"),
        ("a", "open $DIR/a: too many levels of symbolic links"),
        ("huge", "read $DIR/huge: larger than 16 MiB; is it the right file?"),
        ("socket", "open $DIR/socket: not a regular file; nothing that must be waited for is read"),
    ];

    for (name, reason) in cases {
        let wanted = format!("error loading config file \"$DIR/{name}\": {reason}");
        assert_eq!(folder.load(&[name]).unwrap_err(), wanted);
    }
}

#[test]
fn every_file_that_is_wrong_is_named_at_once() {
    let folder =
        Folder::new(&[("a", "x: ["), ("b", &kubeconfig(SERVER, PLUGIN)), ("c", "kind: Pod")]);

    let error = folder.rules(&["a", "b", "c"]).load().unwrap_err();

    assert_eq!(
        folder.shown(&error),
        "[error loading config file \"$DIR/a\": invalid YAML at line 2, column 1: expected a value, \
         error loading config file \"$DIR/c\": no kind \"Pod\" is registered for version \"v1\" (line 1, column 7); \
         a kubeconfig has kind \"Config\" and apiVersion \"v1\"]"
    );
    let LoadError::Files(files) = error else { panic!("two files") };
    let LoadProblem::Kubeconfig(problem) = &files[1].1 else { panic!("no kubeconfig") };
    assert!(matches!(problem, KubeconfigError::Kind { .. }));
}

#[test]
fn an_error_has_a_type() {
    let folder = Folder::new(&[("folder/file", "")]);

    let LoadError::Files(files) = folder.rules(&["folder"]).load().unwrap_err() else {
        panic!("a file")
    };

    let LoadProblem::File(error) = &files[0].1 else { panic!("a file") };
    assert_eq!((&files[0].0, &error.path), (&folder.at("folder"), &folder.at("folder")));
    assert!(matches!(error.problem, FileProblem::Directory));
}

#[test]
fn a_text_that_is_no_kubeconfig_is_refused_with_its_place() {
    let cases: &[(&[u8], &str)] = &[
        (b"\xff\xfe\xff", "invalid YAML at line 1, column 1: incomplete UTF-16 character"),
        (b"users: \xc3\x28", "invalid YAML at line 1, column 8: invalid trailing UTF-8 octet"),
        (b"[]", "the document: expected an object, found a list (line 1, column 1)"),
        (
            b"kind: 5",
            "kind: expected a string, found a number (line 1, column 7); in quotes it is one",
        ),
        (
            b"APIVERSION: v2",
            "no kind \"Config\" is registered for version \"v2\" (line 1, column 13); a kubeconfig has kind \"Config\" and apiVersion \"v1\"",
        ),
        (
            b"apiVersion: hunter2",
            "no kind \"Config\" is registered for version \"something else\" (line 1, column 13); a kubeconfig has kind \"Config\" and apiVersion \"v1\"",
        ),
        (
            b"users: [{user: {exec: {args: [y]}}}]",
            "users[0].user.exec.args[0]: expected a string, found a boolean (line 1, column 31); in quotes it is one",
        ),
        (
            b"users: [{user: {as-user-extra: {hunter2: [1]}}}]",
            "users[0].user.as-user-extra[0][0]: expected a string, found a number (line 1, column 43); in quotes it is one",
        ),
        (
            b"clusters: [{cluster: {certificate-authority-data: hunter2}}]",
            "clusters[0].cluster.certificate-authority-data: invalid base64 (line 1, column 51)",
        ),
        (
            b"users:\n- name: ada\n- name: eve\n- name: ada\n",
            "duplicate name \"ada\" in users (line 4, column 3); one of them must go",
        ),
        (
            b"{\"a\": \"\\/\"}",
            "invalid YAML at line 1, column 8: a backslash is followed by a character that has no meaning there",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(Kubeconfig::parse(text).unwrap_err().to_string(), *wanted);
    }
}

#[test]
fn extensions_of_one_name_are_refused_unless_the_first_is_null() {
    let cluster = |extensions: &str| {
        let text = format!("clusters: [{{name: c, cluster: {{extensions: [{extensions}]}}}}]");
        Kubeconfig::parse(text.as_bytes()).map(|parsed| parsed.clusters["c"].extensions.clone())
    };

    let error = cluster("{name: e, extension: 1}, {name: e, extension: 2}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "duplicate name \"e\" in extensions (line 1, column 70); one of them must go"
    );
    let extensions = cluster("{name: e}, {name: e, extension: 2}").unwrap();
    assert_eq!(extensions["e"].as_ref().unwrap().as_str(), "2");
}

#[test]
fn neither_nesting_nor_aliases_can_stop_anything() {
    let nested = format!("a: {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let error = Kubeconfig::parse(nested.as_bytes()).unwrap_err();
    assert!(error.to_string().ends_with("exceeded max depth of 10000"), "{error}");

    let deep = format!("a: {}1{}", "[".repeat(9_000), "]".repeat(9_000));
    assert_eq!(
        Kubeconfig::parse(deep.as_bytes()).unwrap().sources[0].document.as_str().len(),
        18_007
    );

    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(laughs, "a{level}: &a{level} [{before}]").unwrap();
    }
    let error = Kubeconfig::parse(laughs.as_bytes()).unwrap_err();
    assert!(error.to_string().ends_with("document contains excessive aliasing"), "{error}");
}
