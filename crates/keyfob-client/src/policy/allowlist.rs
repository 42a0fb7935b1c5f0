//! Whether a command is on the list.
//!
//! By its name, by what the name means on `PATH`, or because it means the same as an entry of its name does.
//! Upstream: `checkAllowlistLocked` in `plugin/pkg/client/auth/exec/exec.go`.
//! Differs: entries are looked up at each check (upstream remembers what it has found, so that a plugin which an entry no
//! longer means stays allowed).

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use keyfob_exec::{Environment, Program};

use super::{Allowed, Denied, look_path::look_path};

pub(super) fn check(
    list: &[String],
    command: &str,
    environment: &dyn Environment,
) -> Result<Allowed, Denied> {
    let is_listed = |path: &Path| list.iter().any(|entry| OsStr::new(entry) == path.as_os_str());
    if is_listed(Path::new(command)) {
        return Ok(Allowed::default());
    }
    let found = match look_path(command, environment) {
        Ok(found) => found,
        // What lies below the current directory is not run all the same: that is for the run to say.
        Err(reason) if reason.below_here().is_some_and(is_listed) => return Ok(Allowed::default()),
        Err(reason) => {
            let path = reason.below_here().unwrap_or(Path::new(command)).to_owned();
            return Err(Denied::Unresolved { path, reason });
        }
    };
    let means_the_same = |entry: &String| {
        base(OsStr::new(entry)) == base(found.as_os_str())
            && look_path(entry, environment).is_ok_and(|path| path == found)
    };
    if is_listed(&found) || list.iter().any(means_the_same) {
        pinned(found, command)
    } else {
        Err(Denied::NotListed { path: found })
    }
}

/// The run gets the very path that was compared.
fn pinned(path: PathBuf, command: &str) -> Result<Allowed, Denied> {
    match Program::at(&path) {
        Ok(program) => Ok(Allowed { program: Some(program.called(command)) }),
        Err(_) => Err(Denied::NotListed { path }),
    }
}

/// What stands behind the last `/`.
fn base(path: &OsStr) -> &[u8] {
    path.as_encoded_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use keyfob_testkit::MapEnvironment;
    use tempfile::TempDir;

    use super::*;

    /// A folder with these programs, and with `noexec`, which is none.
    fn folder(programs: &[&str]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in programs.iter().chain(&["noexec"]) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            let mode = if *name == "noexec" { 0o644 } else { 0o755 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    fn path_of(directories: &[&Path]) -> MapEnvironment {
        [("PATH", std::env::join_paths(directories).unwrap())].into_iter().collect()
    }

    fn said(list: &[&str], command: &str, environment: &MapEnvironment) -> Result<Allowed, String> {
        let list: Vec<String> = list.iter().copied().map(str::to_owned).collect();
        check(&list, command, environment).map_err(|denied| denied.to_string())
    }

    fn pinned_to(path: &str, command: &str) -> Allowed {
        Allowed { program: Some(Program::at(path).unwrap().called(command)) }
    }

    #[test]
    fn what_is_listed_as_it_is_written_is_allowed_and_not_even_looked_for() {
        let nowhere = MapEnvironment::default();
        for command in ["login", "/no/such/login", "sub/login", ".."] {
            assert_eq!(said(&["other", command], command, &nowhere), Ok(Allowed::default()));
        }
    }

    #[test]
    fn a_name_and_the_path_that_it_means_stand_for_each_other() {
        let (one, two) = (folder(&["login"]), folder(&["login"]));
        let environment = path_of(&[one.path(), two.path()]);
        let at = |folder: &TempDir| folder.path().join("login").display().to_string();
        let (first, second) = (at(&one), at(&two));
        let not_permitted = |path: &str| {
            Err(format!(
                "plugin path \"{path}\" is not permitted by the credential plugin allowlist"
            ))
        };

        assert_eq!(said(&[&first], "login", &environment), Ok(pinned_to(&first, "login")));
        assert_eq!(said(&["login"], &first, &environment), Ok(pinned_to(&first, &first)));
        // What is hidden on PATH is something else, by the same name.
        assert_eq!(said(&[&second], "login", &environment), not_permitted(&first));
        assert_eq!(said(&["login"], &second, &environment), not_permitted(&second));
    }

    #[test]
    fn a_link_is_not_what_it_leads_to() {
        let folder = folder(&["login"]);
        let link = folder.path().join("sso");
        std::os::unix::fs::symlink("login", &link).unwrap();
        let environment = path_of(&[folder.path()]);

        assert_eq!(
            said(&["login"], "sso", &environment).unwrap_err(),
            format!(
                "plugin path \"{}\" is not permitted by the credential plugin allowlist",
                link.display()
            )
        );
    }

    #[test]
    fn directories_of_path_are_compared_as_go_cleans_them() {
        let folder = folder(&["bin/login"]);
        let written = format!("{}/./bin//", folder.path().display());
        let clean = folder.path().join("bin/login").display().to_string();

        let allowed = said(&[&clean], "login", &path_of(&[Path::new(&written)]));

        assert_eq!(allowed, Ok(pinned_to(&clean, "login")));
    }

    #[test]
    fn what_cannot_be_found_is_denied_in_gos_words() {
        let folder = folder(&["login"]);
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (noexec, missing, below) = (at("noexec"), at("missing"), at("login/x"));
        let here = folder.path().display().to_string();
        let rows = [
            ("gone", "executable file not found in $PATH".to_owned()),
            ("noexec", "executable file not found in $PATH".to_owned()),
            (".", "executable file not found in $PATH".to_owned()),
            ("", "executable file not found in $PATH".to_owned()),
            ("/", "is a directory".to_owned()),
            (&here, "is a directory".to_owned()),
            (&noexec, "permission denied".to_owned()),
            (&missing, format!("stat {missing}: no such file or directory")),
            (&below, format!("stat {below}: not a directory")),
        ];
        for (command, reason) in rows {
            assert_eq!(
                said(&["other"], command, &path_of(&[folder.path()])).unwrap_err(),
                format!(
                    "plugin path \"{command}\" cannot be resolved for credential plugin allowlist check: \
                     exec: \"{command}\": {reason}"
                )
            );
        }
    }

    #[test]
    fn a_hit_below_the_current_directory_ends_the_search_and_is_never_pinned() {
        let folder = folder(&["login"]);
        let here = std::env::current_dir().unwrap();
        let relative = "../".repeat(here.components().count() - 1);
        let relative = format!("{relative}{}", &folder.path().display().to_string()[1..]);
        let hit = format!("{relative}/login");
        let environment = path_of(&[Path::new(&relative), folder.path()]);

        assert_eq!(
            said(&[&folder.path().join("login").display().to_string()], "login", &environment),
            Err(format!(
                "plugin path \"{hit}\" cannot be resolved for credential plugin allowlist check: \
                 exec: \"login\": cannot run executable found relative to current directory"
            ))
        );
        assert_eq!(said(&[&hit], "login", &environment), Ok(Allowed::default()));
    }
}
