//! What holds for every image name and every pattern, well-formed or not.

use keyfob_api::{ImageRef, MatchPattern, MatchTarget};
use proptest::{
    collection::vec,
    prelude::{Just, ProptestConfig, Strategy, any},
    prop_assert, prop_assert_eq, prop_oneof, proptest,
    sample::select,
};

/// Pieces that the grammars of URLs, globs and image names give a meaning, or refuse; blanks apart.
const PIECES: &str = "\
    a b A Z 0 9 - -- _ __ ___ . .. : / // @ * ** ? # [ ] ^ ~ \\ % %2 %25 %2a %41 %C3%A9 %FF %5B %5D %00 \
    é 日 İ \u{212a} \u{301} \u{ad} 😀 \0 \u{7f} [::1] [fe80::A] [::1]:5000 fe80::1%25eth0 :5000 :* \
    localhost docker.io index.docker.io library/ registry.io https:// latest sha256: \
    0123456789abcdef0123456789abcdef \
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn nasty() -> impl Strategy<Value = String> {
    let pieces: Vec<&str> = PIECES.split(' ').chain([" ", "\t"]).collect();
    prop_oneof![
        4 => vec(select(pieces), 0..10).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

/// Labels of hosts, some of which no image name can have.
const LABELS: &str = "a A io reg docker index localhost r_1 x-y 10  -a";
const PATHS: &str = " / /a /a/ /a_ /a/b /ab /library/a /A /a:1 /a//b /* /a*";

fn host() -> impl Strategy<Value = String> {
    let port = prop_oneof![3 => Just(""), 1 => Just(":5000")];
    let name = prop_oneof![
        4 => vec(one_of(LABELS), 1..4).prop_map(|labels| labels.join(".")),
        1 => one_of("[::1] [fe80::A] [::a] [::ffff:10.0.0.1]").prop_map(str::to_owned),
    ];
    (name, port).prop_map(|(name, port)| name + port)
}

fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> {
    select(words.split(' ').collect::<Vec<_>>())
}

/// A pattern and an image that have a good chance to be about the same host.
fn related() -> impl Strategy<Value = (String, String)> {
    let place = || (host(), one_of(PATHS));
    let pair = |((host, path), stars, (other_host, other_path), relation): (
        (String, &str),
        u8,
        (String, &str),
        u8,
    )| {
        let image = match relation {
            0 => format!("{other_host}{other_path}"),
            1 => format!("{host}{other_path}"),
            2 => format!("{host}{path}"),
            _ => format!("{host}{path}a"),
        };
        (starred(&host, stars) + path, image)
    };
    (place(), any::<u8>(), place(), 0..4_u8).prop_map(pair)
}

/// Puts a star for, or at the end of, the labels that the bits choose.
fn starred(host: &str, bits: u8) -> String {
    let star = |(index, label): (usize, &str)| match (bits >> (2 * index)) & 3 {
        0 if !label.contains(['[', ':']) => "*".to_owned(),
        1 if !label.contains(['[', ':']) => format!("{label}*"),
        _ => label.to_owned(),
    };
    let labels: Vec<String> = host.split('.').enumerate().map(star).collect();
    labels.join(".")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_image_name_is_refused_with_a_reason_or_prints_as_what_it_is(text in nasty()) {
        match ImageRef::parse(&text) {
            Err(error) => prop_assert!(error.to_string().starts_with("couldn't parse image name \"")),
            Ok(image) => {
                let printed = image.to_string();
                let again = ImageRef::parse(&printed).unwrap();
                prop_assert_eq!(&again, &image);
                prop_assert_eq!(again.to_string(), printed);
                prop_assert_eq!(ImageRef::parse(&image.with_default_tag()).unwrap(), image.clone());
                prop_assert!(text.starts_with(image.name_as_written()));
                prop_assert_eq!(format!("{}/{}", image.registry(), image.path()), image.repository());
            }
        }
    }

    #[test]
    fn a_pattern_is_refused_with_a_reason_or_prints_as_written(text in nasty()) {
        match MatchPattern::parse(&text) {
            Err(error) => prop_assert!(error.to_string().starts_with("parse \"https://")),
            Ok(pattern) => {
                prop_assert_eq!(pattern.to_string(), text);
                let advice = pattern.never_matches().map(|never| never.to_string());
                prop_assert!(advice.is_none_or(|advice| !advice.is_empty()));
            }
        }
    }

    #[test]
    fn a_mismatch_is_explained_and_a_match_is_not(pattern in nasty(), target in nasty()) {
        let (Ok(pattern), Ok(target)) = (MatchPattern::parse(&pattern), MatchTarget::parse(&target)) else {
            return Ok(());
        };
        let verdict = pattern.check(&target);
        prop_assert_eq!(pattern.matches(&target), verdict.is_ok());
        prop_assert!(verdict.err().is_none_or(|mismatch| !mismatch.to_string().is_empty()));
    }

    #[test]
    fn a_pattern_that_never_matches_does_not((pattern, image) in related()) {
        let (Ok(pattern), Ok(image)) = (MatchPattern::parse(&pattern), ImageRef::parse(&image)) else {
            return Ok(());
        };
        let target = image.target().unwrap();
        prop_assert!(!(pattern.matches(&target) && pattern.never_matches().is_some()));
        prop_assert_eq!(pattern.matches(&target), pattern.check(&target).is_ok());
    }
}
