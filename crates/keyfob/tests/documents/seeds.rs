//! `docs/seeds.tsv` is the list of everything that the founding documents ask for, `docs/seeds.md` what became of it.

use std::{collections::BTreeSet, path::Path};

use crate::{links, page, read, root};

const PAGE: &str = "docs/seeds.md";
const LIST: &str = "docs/seeds.tsv";

/// One row of the list.
struct Item {
    /// The number of the document and that of the item in it: `003-46`.
    id: String,
    /// The state in which the first review found it: E exact, D documented difference, P partial, M missing, N rejected.
    review: String,
    /// What is true of it today.
    today: String,
    /// Where it is: files, headings of pages (`page.md#heading`) and tests (`file.rs::name`).
    places: Vec<String>,
}

#[test]
fn every_item_of_the_list_is_on_the_page_and_no_other() {
    let listed: BTreeSet<String> = items().into_iter().map(|item| item.id).collect();
    let text: Vec<String> = page::prose(&read(PAGE)).flat_map(|(_, line)| ids_in(line)).collect();
    let found: BTreeSet<String> = text.into_iter().collect();
    let only_in = |a: &BTreeSet<String>, b: &BTreeSet<String>| a - b;
    assert_eq!(only_in(&listed, &found), BTreeSet::new(), "in {LIST}, not in {PAGE}");
    assert_eq!(only_in(&found, &listed), BTreeSet::new(), "in {PAGE}, not in {LIST}");
}

#[test]
fn what_is_or_was_not_exact_has_a_row_of_its_own_with_the_same_verdict() {
    let page = read(PAGE);
    for item in items().iter().filter(|item| item.review != "E" || item.today != "exact") {
        let start = format!("| {} | {} |", item.id, item.today);
        assert!(page.lines().any(|line| line.starts_with(&start)), "no row {start} in {PAGE}");
    }
}

#[test]
fn a_verdict_is_one_of_three() {
    for item in items() {
        let known = ["exact", "differs", "rejected"];
        assert!(known.contains(&item.today.as_str()), "{}: {}", item.id, item.today);
    }
}

#[test]
fn everything_that_the_list_refers_to_is_there() {
    let mut missing = Vec::new();
    for item in items() {
        assert!(!item.places.is_empty(), "{} refers to nothing", item.id);
        for place in item.places {
            if let Err(why) = find(&place) {
                missing.push(format!("{}: {place}: {why}", item.id));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Needs the list that the review of the founding documents made, which lies outside of the project.
#[test]
#[expect(clippy::disallowed_methods, reason = "the switch of `.ci/run cases`")]
fn the_list_has_the_items_that_the_review_found() {
    let Some(cases) = std::env::var_os("KEYFOB_CASES") else {
        println!("KEYFOB_CASES is not set: {LIST} was NOT compared with the review");
        return;
    };
    let review = read(Path::new(&cases).join("../spec/seed-items.tsv"));
    let found = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        Some((fields.next()?, fields.next()?))
    };
    let reviewed: BTreeSet<_> = review.lines().skip(1).filter_map(found).collect();
    let listed: BTreeSet<_> = items().into_iter().map(|item| (item.id, item.review)).collect();
    assert_eq!(reviewed, listed);
    println!("{LIST} has all {} items of the review", reviewed.len());
}

fn items() -> Vec<Item> {
    let text = read(LIST);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("id\treview\ttoday\twhat\twhere"));
    let item = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [id, review, today, _, places] = fields[..] else { panic!("not five fields: {line}") };
        let places = places.split_whitespace().map(str::to_owned).collect();
        Item { id: id.into(), review: review.into(), today: today.into(), places }
    };
    let items: Vec<Item> = lines.map(item).collect();
    let ids: BTreeSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids.len(), items.len(), "an id stands twice in {LIST}");
    items
}

/// The ids in a line, with all that lie between the two of `003-5 to 003-7`.
fn ids_in(line: &str) -> Vec<String> {
    let words: Vec<&str> = line
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .filter(|w| !w.is_empty())
        .collect();
    let mut ids = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let Some((document, item)) = id(word) else { continue };
        let range = index.checked_sub(2).and_then(|at| words.get(at..index));
        let from = match range {
            Some([from, "to"]) => {
                id(from).filter(|(same, _)| *same == document).map_or(item, |(_, from)| from)
            }
            _ => item,
        };
        ids.extend((from..=item).map(|item| format!("{document}-{item}")));
    }
    ids
}

/// The two parts of an id.
fn id(word: &str) -> Option<(&str, u32)> {
    let (document, item) = word.split_once('-')?;
    let is_document = matches!(document, "000" | "001" | "002" | "003" | "004");
    Some((document, item.parse().ok()?)).filter(|_| is_document)
}

fn find(place: &str) -> Result<(), String> {
    let Some((file, test)) = place.split_once("::") else { return links::exists(place) };
    if !root().join(file).exists() {
        return Err("there is no such file".to_owned());
    }
    let source = read(file);
    let declaration = format!("fn {test}(");
    let before = source.split(&declaration).next().filter(|before| before.len() < source.len());
    let attributes = before.and_then(|before| before.rsplit("\n\n").next());
    match attributes {
        Some(attributes) if attributes.contains("test]") || attributes.contains("test(") => Ok(()),
        Some(_) => Err("that function is no test".to_owned()),
        None => Err("there is no such test".to_owned()),
    }
}
