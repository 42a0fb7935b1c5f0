//! The plugin of the benchmark: statically linked, reads its request, prints an answer.

use std::io::{Read, Write};

fn main() -> std::io::Result<()> {
    let mut request = [0; 4096];
    while std::io::stdin().read(&mut request)? > 0 {}
    std::io::stdout().write_all(b"{\"kind\":\"CredentialProviderResponse\"}\n")
}
