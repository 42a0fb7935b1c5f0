use std::{path::PathBuf, sync::OnceLock};

/// The path of the scripted plugin, built with the profile of the test, or program, that asks.
///
/// Cargo builds another package's program only when told to, so this tells it to, once for each test process; when
/// the workspace was built that is a look at time stamps.
pub fn scripted_plugin() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&["--bin", "scripted-plugin"]).join("scripted-plugin")).clone()
}

/// The path of an example, built likewise: a single test does not bring them.
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&["--examples"]).join("examples")).join(name)
}

/// Builds these, and says where they lie.
#[expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "asks cargo, on behalf of tests"
)]
fn build(what: &[&str]) -> PathBuf {
    let program = std::env::current_exe().expect("a program has a path");
    // TARGET/PROFILE/deps for a test, TARGET/PROFILE for a program.
    let folder = program.parent().expect("TARGET/PROFILE");
    let output = match folder.parent() {
        Some(profile) if folder.ends_with("deps") => profile,
        _ => folder,
    };
    let profile = match output.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let built =
        std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            // With the features that the tests of the workspace were built with.
            .args(["build", "--quiet", "--locked", "--workspace", "--profile", profile])
            .args(what)
            .arg("--manifest-path")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .arg("--target-dir")
            .arg(output.parent().expect("TARGET"))
            .status();
    match built {
        Ok(status) if status.success() => output.to_owned(),
        failed => panic!("cannot build {what:?}: {failed:?}"),
    }
}
