//! Words that stand in questions and answers for what is long, or never the same.

use std::sync::LazyLock;

use keyfob_api::ClientIdentity;
use keyfob_client::Identity;
use keyfob_testkit::self_signed;
use serde_json::json;

/// Words and what they stand for. Of two words, one of which begins with the other, the longer comes first.
pub(super) struct StandIns(pub(super) Vec<(&'static str, String)>);

impl StandIns {
    /// What the words stand for in their place, inside of JSON strings.
    pub(super) fn in_json(&self, text: &str) -> String {
        let escaped = |meaning| json!(meaning).to_string().trim_matches('"').to_owned();
        self.0
            .iter()
            .fold(text.to_owned(), |text, (word, meaning)| text.replace(word, &escaped(meaning)))
    }

    /// The same in plain text.
    pub(super) fn in_plain(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, meaning)| text.replace(word, meaning))
    }

    /// The other way round, in plain text.
    pub(super) fn in_words(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (word, meaning)| text.replace(meaning, word))
    }
}

/// Two certificates and their keys, new ones each time: nobody trusts them. The oracle has its own.
pub(super) struct Pairs {
    pub(super) stand_ins: StandIns,
    certificates: [(&'static str, Vec<u8>); 2],
}

pub(super) static PAIRS: LazyLock<Pairs> = LazyLock::new(|| {
    let ((certificate_a, key_a), (certificate_b, key_b)) = (self_signed("a"), self_signed("b"));
    let certificates =
        [("CERT_A", der(&certificate_a, &key_a)), ("CERT_B", der(&certificate_b, &key_b))];
    let meanings = [certificate_a, key_a, certificate_b, key_b];
    let words = ["CERT_A", "KEY_A", "CERT_B", "KEY_B"];
    Pairs { stand_ins: StandIns(words.into_iter().zip(meanings).collect()), certificates }
});

impl Pairs {
    /// The word for a certificate.
    pub(super) fn named(&self, certificate: &[u8]) -> &'static str {
        let found = self.certificates.iter().find(|(_, der)| der == certificate);
        found.map_or("another", |(word, _)| word)
    }

    /// What a word stands for.
    pub(super) fn pem(&self, word: &str) -> &str {
        let found = self.stand_ins.0.iter().find(|(known, _)| *known == word);
        &found.unwrap_or_else(|| panic!("{word} stands for nothing")).1
    }
}

fn der(certificate: &str, key: &str) -> Vec<u8> {
    let pem = ClientIdentity { certificate_pem: certificate.into(), key_pem: key.into() };
    let identity = Identity::parse(pem).expect("a pair");
    identity.certified().cert.first().expect("a certificate").to_vec()
}
