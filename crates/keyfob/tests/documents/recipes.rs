//! The recipes of `CONTRIBUTING.md`, which promise how much a change takes.

use super::{read, root};

#[test]
fn a_field_of_the_provider_configuration_takes_at_most_eight_files_and_all_of_them_exist() {
    let page = read("CONTRIBUTING.md");
    let section = page.split("\n## A field of the provider configuration\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let numbered = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
    let items: Vec<&str> = section.lines().filter(numbered).collect();

    assert!((1..=8).contains(&items.len()), "{items:#?}");
    for item in &items {
        let file = item.split('`').nth(1).unwrap();
        assert!(root().join(file).exists(), "{item}");
    }
    let has = |file: &str| items.iter().any(|item| item.contains(file));
    assert!(has("docs/api/keyfob-config.txt") && has("CHANGELOG.md"), "{items:#?}");
}
