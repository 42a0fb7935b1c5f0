//! The plugin of the benchmark: statically linked, reads its request, prints an answer that is not to be kept.

use std::io::{Read, Write};

const ANSWER: &str = r#"{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"0s","auth":{"registry.example":{"username":"user","password":"secret"}}}
"#;

fn main() -> std::io::Result<()> {
    let mut request = [0; 4096];
    while std::io::stdin().read(&mut request)? > 0 {}
    std::io::stdout().write_all(ANSWER.as_bytes())
}
