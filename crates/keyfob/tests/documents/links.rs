//! Links between the pages.

use std::{fs, path::Path};

use crate::{page, read, readmes::crates, root};

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        for (line, text) in page::prose(&read(&page)) {
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            for target in targets.filter(|target| !target.contains("://")) {
                if let Err(why) = resolve(&page, target) {
                    broken.push(format!("{page}:{line}: {target}: {why}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Whether a path of the workspace is there, and the heading of it that may follow a `#`.
pub(crate) fn exists(reference: &str) -> Result<(), String> {
    let (path, anchor) = reference.split_once('#').map_or((reference, None), |(p, a)| (p, Some(a)));
    if !root().join(path).exists() {
        return Err("there is no such file".to_owned());
    }
    match anchor {
        Some(anchor) if !page::anchors(&read(path)).iter().any(|each| each == anchor) => {
            Err("the page has no such heading".to_owned())
        }
        _ => Ok(()),
    }
}

fn resolve(page: &str, target: &str) -> Result<(), String> {
    if target.starts_with('#') {
        return exists(&format!("{page}{target}"));
    }
    let folder = Path::new(page).parent().unwrap();
    exists(folder.join(target).to_str().unwrap())
}

/// The pages at the root, in `docs`, in `conformance` and in the directory of each crate.
fn pages() -> Vec<String> {
    let in_folder = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_page = |name: &String| Path::new(name).extension().is_some_and(|end| end == "md");
        let pages = names.filter(is_page).map(|name| Path::new(folder).join(name));
        pages.map(|page| page.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let crates = crates().into_iter().map(|name| format!("crates/{name}"));
    let folders = ["", "docs", "conformance"].map(str::to_owned).into_iter().chain(crates);
    folders.flat_map(|folder| in_folder(&folder)).collect()
}
