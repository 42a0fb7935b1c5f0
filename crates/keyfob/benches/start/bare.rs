//! The least that a plugin can be: reads stdin, prints.

use std::io::{self, Read as _, Write as _};

fn main() -> io::Result<()> {
    let mut request = Vec::new();
    io::stdin().read_to_end(&mut request)?;
    io::stdout().write_all(b"{}\n")
}
