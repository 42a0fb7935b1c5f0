//! Rows about reading and judging configurations.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use keyfob_api::FeatureGates;
use keyfob_config::{Config, FieldValue, Fields, ProviderConfig, ReadProblem};
use keyfob_exec::Program;
use serde_json::{Value, json};

use crate::{Check, client_refusal::same_value, fact, same, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/config_read.json", "Test_readCredentialProviderConfig", read),
    ("kubelet/config_validate.json", "Test_validateCredentialProviderConfig", validate),
    ("kubelet/go_verified_extra.json", "config documents", documents),
    ("kubelet/derived_provider.json", "configuration reading", reading),
];

/// The row's files in a directory of their own, and the path that is to be read.
fn on_disk(row: &Value) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let mut path = directory.path().to_owned();
    for file in row["files"].as_array().unwrap() {
        let name = text(file, "name");
        let name = if name.starts_with('(') { "config.yaml" } else { name };
        fs::write(directory.path().join(name), text(file, "content")).unwrap();
        if row["path_is_dir"] == false {
            path = directory.path().join(name);
        }
    }
    (directory, path)
}

fn read(_file: &Value, row: &Value) -> Result<(), String> {
    let (_directory, path) = on_disk(row);
    match (Config::read(&path), text(row, "expected_error_contains")) {
        (Ok(config), "") => {
            fact("hash", &config.hash.as_deref(), &row["expected_hash"].as_str())?;
            fact("config", &as_go(&config), &row["expected_config"])
        }
        (Err(error), part) if !part.is_empty() && error.to_string().contains(part) => Ok(()),
        (read, _) => Err(format!("{read:?}")),
    }
}

fn documents(_file: &Value, row: &Value) -> Result<(), String> {
    let (directory, path) = on_disk(row);
    let place = directory.path().display().to_string();
    let (problem, error, hash, config, judged) = match Config::read(&path) {
        Err(error) => {
            (Some(error.problem()), error.to_string(), String::new(), Value::Null, String::new())
        }
        Ok(config) => {
            let judged = said(&config, FeatureGates::default());
            (None, String::new(), config.hash.clone().unwrap(), as_go(&config), judged)
        }
    };
    same_refusal(problem, &error.replace(&place, "$DIR"), row)?;
    fact("hash", &hash, text(row, "expected_hash"))?;
    fact("config", &config, &row["expected_config"])?;
    fact("validation", &judged, text(row, "expected_validation_error_exact"))
}

/// Syntax, types and kinds that a kubelet knows are refused in our own words, as DIFFERENCES.md says. Of those the row's class
/// is compared, which is the step that refuses; and the field, the kind of its value and the reason, where upstream names them.
fn same_refusal(problem: Option<ReadProblem>, ours: &str, row: &Value) -> Result<(), String> {
    let upstream = text(row, "expected_error_exact");
    let wanted = match text(row, "expected_error_class") {
        "yaml syntax" | "json syntax" => ReadProblem::Syntax,
        "type" | "duration" => ReadProblem::Type,
        "kind or apiVersion missing" => ReadProblem::Kind,
        "kind or version" if upstream.ends_with(" (wrong Kind)") => ReadProblem::Kind,
        _ => return fact("error", ours, upstream),
    };
    fact("step", &problem, &Some(wanted))?;
    let ((our_file, ours), (file, upstream)) = (split(ours), split(upstream));
    fact("file", our_file, file)?;
    match text(row, "expected_error_class") {
        "yaml syntax" => fact("reason", &ours.starts_with("invalid YAML at line "), &true),
        "json syntax" => fact("reason", &ours.starts_with("invalid JSON at line "), &true),
        "duration" => fact("reason", &ours.contains(&format!(": {upstream} (line ")), &true),
        "kind or apiVersion missing" => {
            fact("reason", ours, upstream.split(" in '").next().unwrap_or_default())
        }
        "kind or version" => {
            let kind = upstream.split('"').nth(1).unwrap_or_default();
            fact("reason", &ours.starts_with(&format!("no kind \"{kind}\" is ")), &true)
        }
        _ if upstream.contains(" into Go value of type ") => {
            fact("reason", &ours.starts_with("document: expected an object, found "), &true)
        }
        _ => same_value(ours, upstream.rsplit("; json parse error: ").next().unwrap_or_default()),
    }
}

/// The file that cannot be decoded, and why.
fn split(error: &str) -> (&str, &str) {
    let rest = error.strip_prefix("error decoding config \"");
    rest.and_then(|rest| rest.split_once("\": ")).unwrap_or_default()
}

fn validate(_file: &Value, row: &Value) -> Result<(), String> {
    let providers = row["config"]["Providers"].as_array().cloned().unwrap_or_default();
    let config = Config::new(providers.iter().map(from_go));
    let mut gates = FeatureGates::default();
    gates.service_account_token = row["feature_gate_sa_token"].as_bool().unwrap();
    same(&said(&config, gates), text(row, "expected_error_exact"))
}

fn said(config: &Config, gates: FeatureGates) -> String {
    config.validate(gates).map_or_else(|invalid| invalid.to_string(), |_| String::new())
}

/// A configuration in the notation of the rows: Go's names, without what is empty.
fn as_go(config: &Config) -> Value {
    let providers: Vec<Value> = config.providers.iter().map(provider_as_go).collect();
    without_empty([("Providers".to_owned(), json!(providers))])
}

fn provider_as_go(provider: &ProviderConfig) -> Value {
    fields_as_go(provider.fields())
}

fn fields_as_go(fields: Fields<'_>) -> Value {
    without_empty(fields.into_iter().map(|(name, value)| (go_name(name), value_as_go(value))))
}

fn go_name(name: &str) -> String {
    match name.split_at(1) {
        _ if name == "apiVersion" => "APIVersion".to_owned(),
        (first, rest) => first.to_uppercase() + rest,
    }
}

fn value_as_go(value: FieldValue<'_>) -> Value {
    match value {
        FieldValue::Text(text) => json!(text),
        FieldValue::Secret(text) => json!(text.expose()),
        FieldValue::Texts(texts) => json!(texts),
        FieldValue::Duration(duration) => json!(duration.map(|duration| duration.to_string())),
        FieldValue::Bool(truth) => json!(truth),
        FieldValue::Object(fields) => fields.map_or(Value::Null, fields_as_go),
        FieldValue::Objects(objects) => objects.into_iter().map(fields_as_go).collect(),
    }
}

fn without_empty(fields: impl IntoIterator<Item = (String, Value)>) -> Value {
    let is_empty = |value: &Value| [json!(null), json!(""), json!([])].contains(value);
    fields.into_iter().filter(|(_, value)| !is_empty(value)).collect()
}

/// The internal version has the names of the rows.
fn from_go(go: &Value) -> ProviderConfig {
    let document = json!({
        "apiVersion": "kubelet.config.k8s.io/__internal",
        "kind": "CredentialProviderConfig",
        "Providers": [go],
    });
    let config = Config::from_files([("row.json", document.to_string())]).unwrap();
    <[_; 1]>::try_from(config.providers).unwrap().into_iter().next().unwrap()
}

/// Rows in prose: each is built by its name.
fn reading(_file: &Value, row: &Value) -> Result<(), String> {
    let scene = Scene::new();
    match text(row, "name") {
        "single file with any extension" => scene.any_extension(row),
        "directory: .json .yaml .yml only, lower case"
        | "directory: dot files with right extension are read" => scene.some_files(row),
        "directory: sub-directories ignored, even named x.yaml" => scene.subdirectories(row),
        "directory: symlink to a file is read; symlink to a directory named x.yaml fails start-up" => {
            scene.links(row)
        }
        "one file has no providers, another has one" => scene.empty_and_not(),
        "empty file" => scene.empty_files(row),
        "YAML with several documents" => scene.several_documents(),
        "same provider name in two files or twice in one file" => scene.one_name_twice(row),
        "name empty" => scene.no_name(),
        "name with tab" => scene.valid(&provider("\"a\\tb\"", "v1")),
        "provider apiVersion v1alpha1 inside a kubelet.config.k8s.io/v1 file" => {
            scene.valid(&provider("p", "v1alpha1"))
        }
        "binary without execute permission" => scene.not_executable(),
        other => Err(format!("no scene for the row {other:?}")),
    }
}

struct Scene(tempfile::TempDir);

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";

fn provider(name: &str, version: &str) -> String {
    let fields = "matchImages: [r.io]\n  defaultCacheDuration: 1m\n";
    let version = format!("credentialprovider.kubelet.k8s.io/{version}");
    format!("{HEAD}providers:\n- name: {name}\n  {fields}  apiVersion: {version}\n")
}

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    fn fresh(&self, name: &str) -> PathBuf {
        fs::create_dir(self.path(name)).unwrap();
        self.path(name)
    }

    /// The error of reading a path, with `$DIR` for `directory`.
    fn error(path: &Path, directory: &Path) -> String {
        let error = Config::read(path).map_or_else(|error| error.to_string(), |_| String::new());
        error.replace(&directory.display().to_string(), "$DIR")
    }

    fn valid(&self, content: &str) -> Result<(), String> {
        let config = Config::read(&self.write("c.yaml", content)).map_err(|e| e.to_string())?;
        same(&said(&config, FeatureGates::default()), "")
    }

    fn any_extension(&self, row: &Value) -> Result<(), String> {
        for name in row["names_tried"].as_array().unwrap() {
            let name = name.as_str().unwrap().split(" (").next().unwrap();
            let path = self.write(name, &provider("p", "v1"));
            fact(name, &Self::error(&path, self.0.path()), "")?;
        }
        Ok(())
    }

    fn some_files(&self, row: &Value) -> Result<(), String> {
        let names = |field: &str| -> Vec<String> {
            let list = row[field].as_array().unwrap().iter();
            list.map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        for name in names("files").iter().map(String::as_str).chain([".yaml"]) {
            self.write(name, &provider(&format!("\"{name}\""), "v1"));
        }
        let config = Config::read(self.0.path()).map_err(|error| error.to_string())?;
        let read: Vec<String> = config.providers.into_iter().map(|p| p.name).collect();
        let mut expected = names("expected_read");
        expected.push(".yaml".to_owned());
        expected.sort();
        same(&read, &expected)
    }

    fn subdirectories(&self, row: &Value) -> Result<(), String> {
        self.fresh("x.yaml");
        let error = Self::error(self.0.path(), self.0.path());
        same(&error, text(row, "only_subdirectories_error"))?;
        self.write("a.yaml", &provider("p", "v1"));
        same(&Self::error(self.0.path(), self.0.path()), "")
    }

    fn links(&self, row: &Value) -> Result<(), String> {
        let target = self.write("target.txt", &provider("p", "v1"));
        let directory = self.fresh("conf");
        let link = directory.join("l.yaml");
        for (target, wanted) in [
            (target, ""),
            (self.fresh("elsewhere"), text(row, "link_to_directory_error")),
            (self.path("nothing"), text(row, "dangling_error")),
        ] {
            symlink(&target, &link).unwrap();
            fact(&target.display().to_string(), &Self::error(&directory, &directory), wanted)?;
            fs::remove_file(&link).unwrap();
        }
        Ok(())
    }

    fn empty_and_not(&self) -> Result<(), String> {
        self.write("a.yaml", HEAD);
        self.write("b.yaml", &provider("p", "v1"));
        let config = Config::read(self.0.path()).map_err(|error| error.to_string())?;
        same(&said(&config, FeatureGates::default()), "")
    }

    fn empty_files(&self, row: &Value) -> Result<(), String> {
        for content in ["", " \n", "# nothing\n", "---\n", "null", "{}"] {
            let path = self.write("a.yaml", content);
            // Upstream quotes the file, we do not.
            let wanted = text(row, "expected_error_exact").strip_suffix(" in ''");
            fact(content, &Some(&*Self::error(&path, self.0.path())), &wanted)?;
        }
        Ok(())
    }

    fn several_documents(&self) -> Result<(), String> {
        let first = provider("p", "v1");
        let read = |content: &str| Config::read(&self.write("a.yaml", content));
        let whole = read(&format!("{first}---\n}}{{ garbage")).map_err(|e| e.to_string())?;
        let alone = read(&first).map_err(|error| error.to_string())?;
        fact("providers", &whole.providers, &alone.providers)?;
        fact("equal hashes", &(whole.hash == alone.hash), &false)?;
        let json = r#"{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig"}"#;
        fact("two objects", &read(&format!("{json}{json}")).is_err(), &true)?;
        fact("an empty first document", &read(&format!("---\n---\n{first}")).is_err(), &true)
    }

    fn one_name_twice(&self, row: &Value) -> Result<(), String> {
        let wanted = text(row, "expected_error_exact");
        let once = provider("p", "v1");
        let twice =
            format!("{once}{}", once.strip_prefix(HEAD).unwrap().replace("providers:\n", ""));
        let path = self.write("one", &twice);
        fact("in one file", &Self::error(&path, self.0.path()), wanted)?;
        self.write("a.yaml", &once);
        self.write("b.yaml", &once);
        fact("in two files", &Self::error(self.0.path(), self.0.path()), wanted)
    }

    /// Upstream looks for the plugin when it starts; ours says the real path where upstream says none.
    fn no_name(&self) -> Result<(), String> {
        self.valid(&provider("\"\"", "v1"))?;
        let error = Program::in_directory(&self.fresh("bin"), "").unwrap_err().to_string();
        same(&error.contains("is a directory"), &true)
    }

    fn not_executable(&self) -> Result<(), String> {
        let directory = self.fresh("bin");
        fs::write(directory.join("noexec"), "#!/bin/sh\n").unwrap();
        let error = Program::in_directory(&directory, "noexec").unwrap_err().to_string();
        same(&error.contains("permission denied"), &true)
    }
}
