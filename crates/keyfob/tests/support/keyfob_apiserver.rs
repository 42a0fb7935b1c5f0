//! `keyfob apiserver` as a process, and `kubectl` and `PyJWT` as they come to it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use tempfile::TempDir;

/// Verifies a token as anybody would who knows only the issuer.
const VERIFY: &str = r"
import json, ssl, sys, urllib.request, jwt
token, issuer, audience, authority = sys.argv[1:]
trusted = ssl.create_default_context(cafile=authority) if authority else ssl._create_unverified_context()
read = lambda url: json.load(urllib.request.urlopen(url, context=trusted))
keys = jwt.PyJWKSet.from_dict(read(read(issuer + '/.well-known/openid-configuration')['jwks_uri']))
key = keys[jwt.get_unverified_header(token)['kid']]
claims = jwt.decode(token, key, algorithms=['RS256'], audience=audience, issuer=issuer)
print(claims['sub'], claims['kubernetes.io']['pod']['name'])
";

/// It runs as long as the value lives.
pub(crate) struct Server {
    program: Child,
    pub(crate) folder: TempDir,
    pub(crate) issuer: String,
}

impl Server {
    pub(crate) fn start(objects: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.yaml");
        fs::write(&file, objects).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_keyfob"))
            .args(["apiserver", "--objects"])
            .arg(file)
            .arg("--kubeconfig-dir")
            .arg(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let issuer = line.strip_prefix("serving on ").unwrap().split(',').next().unwrap();
        let issuer = issuer.to_owned();
        Self { program, folder, issuer }
    }

    /// Writes a file, and says where.
    pub(crate) fn file(&self, name: &str, text: &[u8]) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn kubeconfig(&self, user: &str) -> String {
        let path = self.folder.path().join(format!("{user}.kubeconfig"));
        path.to_str().unwrap().to_owned()
    }

    /// What `kubectl` says, on success or failure.
    pub(crate) fn kubectl(&self, user: &str, args: &str) -> Result<String, String> {
        let kubectl = Command::new("kubectl")
            .env("HOME", self.folder.path())
            .args(["--kubeconfig", &self.kubeconfig(user)])
            .args(args.split(' '))
            .output();
        said(kubectl.unwrap())
    }

    pub(crate) fn admin(&self, args: &str) -> String {
        self.kubectl("admin", args).unwrap()
    }

    /// What `PyJWT` says to a token, if it trusts the server's authority.
    pub(crate) fn verify(&self, token: &str, audience: &str) -> Result<String, String> {
        let kubeconfig = fs::read(self.kubeconfig("admin")).unwrap();
        let kubeconfig: Value = serde_json::from_slice(&kubeconfig).unwrap();
        let authority = kubeconfig.pointer("/clusters/0/cluster/certificate-authority-data");
        let authority = BASE64_STANDARD.decode(authority.unwrap().as_str().unwrap()).unwrap();
        verify(token, &self.issuer, audience, &self.file("authority.pem", &authority))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.program.kill().unwrap_or_default();
        drop(self.program.wait());
    }
}

/// Subject and pod of a token that `PyJWT` verifies by the keys of its issuer, or why it does not. Without an authority, which
/// is a file, whoever answers at the issuer's address is the issuer.
pub(crate) fn verify(
    token: &str,
    issuer: &str,
    audience: &str,
    authority: &str,
) -> Result<String, String> {
    let python = std::env::var("KEYFOB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let arguments = ["-c", VERIFY, token, issuer, audience, authority];
    said(Command::new(python).args(arguments).output().unwrap())
}

/// What `audience rbac` prints to let nodes ask for tokens for an audience.
pub(crate) fn grant(audience: &str) -> String {
    let program = Command::new(env!("CARGO_BIN_EXE_keyfob"))
        .args(["audience", "rbac", "--audience", audience])
        .output();
    said(program.unwrap()).unwrap()
}

fn said(output: Output) -> Result<String, String> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Whether this run has the real programs.
pub(crate) fn is_on() -> bool {
    let on = std::env::var_os("KEYFOB_E2E").is_some();
    if !on {
        println!("KEYFOB_E2E is not set: NOT RUN; `.ci/run e2e` runs it");
    }
    on
}
