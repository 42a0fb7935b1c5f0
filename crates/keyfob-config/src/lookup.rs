//! What a kubelet says of the plugin directory and of the plugins there if it does not start.
//!
//! Upstream: `RegisterCredentialProviderPlugins` in `pkg/credentialprovider/plugin/plugin.go`, `exec.LookPath` of Go 1.26.

use std::{fs, io, path::Path};

use keyfob_exec::{go::error_text, may_execute};

use super::{
    Config,
    go_files::{PathError, join, quoted},
};

/// Why a kubelet does not start with this plugin directory, in its own words. It looks at the directory before it reads the
/// configuration.
pub fn kubelet_error_of_directory(directory: &Path) -> Option<String> {
    let error = fs::metadata(directory).err()?;
    let shown = directory.display();
    Some(if error.kind() == io::ErrorKind::NotFound {
        format!("plugin binary directory {shown} did not exist")
    } else {
        let error = PathError { operation: "stat", path: directory, error: &error };
        format!("error inspecting binary directory {shown}: {error}")
    })
}

impl Config {
    /// Why a kubelet does not start with the plugins in this directory, in its own words: it tells the first that is missing or
    /// cannot be executed, without its path.
    pub fn kubelet_error_of_plugins(&self, directory: &Path) -> Option<String> {
        self.providers.iter().find_map(|provider| lookup_error(directory, &provider.name))
    }
}

pub(super) fn lookup_error(directory: &Path, name: &str) -> Option<String> {
    let path = join(&directory.to_string_lossy(), name);
    let path = Path::new(&path);
    let cause = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => "is a directory".to_owned(),
        Ok(_) => error_text(&may_execute(path).err()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some("plugin binary executable  did not exist".to_owned());
        }
        Err(error) => error_text(&error),
    };
    Some(format!("error inspecting binary executable : exec: {}: {cause}", quoted(path)))
}
