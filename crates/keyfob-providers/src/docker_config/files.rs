//! Which files there are, and what stands in them. Errors name the file and the place in it, and quote nothing.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyfob_api::{
    InvalidField,
    document::{Document, FieldTable, Reading},
};
use keyfob_exec::SystemClock;
use keyfob_keyring::{Logins, NodeDockerConfig};
use keyfob_plugin::{Doing as _, Failure};

use crate::credential_helper::CredentialHelper;

/// The files, and those of the directories, in the order in which their logins count.
pub(super) fn listed(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(of_directory(path).doing(format!("reading {}", path.display()))?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn of_directory(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_config = |name: &OsStr| {
        name == ".dockerconfigjson"
            || name == ".dockercfg"
            || Path::new(name).extension() == Some(OsStr::new("json"))
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name());
    }
    names.retain(|name| is_config(name));
    names.sort();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

/// The logins of a file.
pub(super) fn logins(path: &Path) -> Result<Arc<Logins>, Failure> {
    let logins = NodeDockerConfig::file(path, Arc::new(SystemClock)).logins()?;
    logins.ok_or_else(|| Failure::new(format!("{} is not there", path.display())))
}

/// The helper that a file names for a registry: the registry's own, or the one for all.
pub(super) fn helper(path: &Path, registry: &str) -> Result<Option<CredentialHelper>, Failure> {
    // What it is, and how large, was looked at when its logins were read.
    let text = fs::read(path).doing(format!("reading {}", path.display()))?;
    let name = helper_name(&text, registry).doing(format!("reading {}", path.display()))?;
    let helper = name.map(|name| name.parse::<CredentialHelper>()).transpose();
    helper.map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn helper_name(text: &[u8], registry: &str) -> Result<Option<String>, Failure> {
    let document = Document::read_json(text)?;
    let mut named = NamedHelpers { registry: registry.to_owned(), ..NamedHelpers::default() };
    Reading::default()
        .root(&document.root)
        .read_fields_in_any_case(NamedHelpers::FIELDS, &mut named)
        .map_err(InvalidField::from)?;
    Ok(named.own.or(Some(named.of_all)).filter(|name| !name.is_empty()))
}

/// The helpers of a file that count for a registry.
#[derive(Default)]
struct NamedHelpers {
    registry: String,
    own: Option<String>,
    of_all: String,
}

impl NamedHelpers {
    const FIELDS: &FieldTable<Self> = &[
        ("credHelpers", |named, item| {
            item.entries(|server, helper| {
                if names(server.expose(), &named.registry) {
                    helper.read_text(named.own.get_or_insert_default())?;
                }
                Ok(())
            })
            .map(drop)
        }),
        ("credsStore", |named, item| item.read_text(&mut named.of_all)),
    ];
}

/// Whether a key of `credHelpers` is the name of a registry; Docker Hub has several.
fn names(server: &str, registry: &str) -> bool {
    const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "https://index.docker.io/v1/"];
    server == registry || registry == "docker.io" && DOCKER_HUB.contains(&server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_of_a_registry_comes_before_the_one_of_all() {
        let text = r#"{"credsStore":"pass","credHelpers":{"r.io":"ecr-login","off.io":"",
                       "https://index.docker.io/v1/":"hub"},"auths":{}}"#;
        let name = |registry| helper_name(text.as_bytes(), registry).unwrap();
        assert_eq!(name("r.io").as_deref(), Some("ecr-login"));
        assert_eq!(name("docker.io").as_deref(), Some("hub"));
        assert_eq!(name("other.io").as_deref(), Some("pass"));
        assert_eq!(name("off.io"), None, "docker, too, asks nobody then");
        assert_eq!(helper_name(b"{}", "r.io").unwrap(), None);
        assert!(helper_name(br#"{"credsStore":1}"#, "r.io").is_err());
    }
}
