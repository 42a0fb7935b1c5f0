//! What an X.509 certificate says, as far as it matters here. Nothing of it is verified.
//!
//! Upstream: `x509.ParseCertificate` of Go 1.26, as far as the public key; its sentences.

use thiserror::Error;

use crate::{
    Timestamp,
    der::{Der, INTEGER, SEQUENCE},
};

const BIT_STRING: u8 = 0x03;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;

/// A certificate, read and not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificate<'a> {
    /// From when it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// The subject's common name, which Kubernetes takes for the user.
    pub common_name: Option<String>,
    /// The subject's organizations, which Kubernetes takes for groups.
    pub organizations: Vec<String>,
    /// Its `SubjectPublicKeyInfo` in DER.
    pub public_key: &'a [u8],
    /// Which sort of key that is: an object identifier in DER, without tag and length.
    pub key_algorithm: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Reads one certificate in DER.
    pub fn parse(der: &'a [u8]) -> Result<Self, MalformedCertificate> {
        let (trailing, whole) = Der(der).take(SEQUENCE).ok_or_else(malformed("certificate"))?;
        let (_, fields) = whole.take(SEQUENCE).ok_or_else(malformed("tbs certificate"))?;
        // The version may be left out.
        let rest = fields.take(VERSION).map_or(fields, |(rest, _)| rest);
        let (rest, _) = rest.take(INTEGER).ok_or_else(malformed("serial number"))?;
        let (rest, _) =
            rest.take(SEQUENCE).ok_or_else(malformed("signature algorithm identifier"))?;
        let (rest, _) = rest.take(SEQUENCE).ok_or_else(malformed("issuer"))?;
        let (rest, validity) = rest.take(SEQUENCE).ok_or_else(malformed("validity"))?;
        let (validity, not_before) = time(validity)?;
        let (_, not_after) = time(validity)?;
        let (rest, subject) = rest.take(SEQUENCE).ok_or_else(malformed("issuer"))?;
        let (common_name, organizations) = names(subject);
        let (_, public_key) = rest.take_whole(SEQUENCE).ok_or_else(malformed("spki"))?;
        let key_algorithm = key_algorithm(public_key)?;
        if !trailing.0.is_empty() {
            return Err(MalformedCertificate::TrailingData);
        }
        Ok(Self { not_before, not_after, common_name, organizations, public_key, key_algorithm })
    }
}

fn key_algorithm(public_key: &[u8]) -> Result<&[u8], MalformedCertificate> {
    let (_, info) = Der(public_key).take(SEQUENCE).ok_or_else(malformed("spki"))?;
    let identifier = malformed("public key algorithm identifier");
    let (rest, algorithm) = info.take(SEQUENCE).ok_or_else(&identifier)?;
    let (_, Der(algorithm)) = algorithm.take(OBJECT_IDENTIFIER).ok_or_else(&identifier)?;
    rest.take(BIT_STRING).ok_or_else(malformed("subjectPublicKey"))?;
    Ok(algorithm)
}

/// The last common name and all organizations, as Go picks them.
fn names(mut subject: Der<'_>) -> (Option<String>, Vec<String>) {
    const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    const ORGANIZATION: &[u8] = &[0x55, 4, 10];
    let (mut common_name, mut organizations) = (None, Vec::new());
    while let Some((rest, mut set)) = subject.take(SET) {
        subject = rest;
        while let Some((rest, attribute)) = set.take(SEQUENCE) {
            set = rest;
            let Some((value, Der(kind))) = attribute.take(OBJECT_IDENTIFIER) else { continue };
            let Some((_, (tag, value))) = value.any() else { continue };
            match kind {
                COMMON_NAME => common_name = Some(text(tag, value)),
                ORGANIZATION => organizations.push(text(tag, value)),
                _ => {}
            }
        }
    }
    (common_name, organizations)
}

fn text(tag: u8, value: &[u8]) -> String {
    const T61_STRING: u8 = 0x14;
    const BMP_STRING: u8 = 0x1e;
    match tag {
        T61_STRING => value.iter().copied().map(char::from).collect(),
        BMP_STRING => {
            let units = value.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair));
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
        _ => String::from_utf8_lossy(value).into_owned(),
    }
}

fn time(der: Der<'_>) -> Result<(Der<'_>, Timestamp), MalformedCertificate> {
    let (rest, (tag, time)) = der.any().ok_or(MalformedCertificate::Time)?;
    let moment = match tag {
        UTC_TIME => in_full(time).and_then(|time| moment(&time)).ok_or_else(malformed("UTCTime")),
        GENERALIZED_TIME => moment(time).ok_or_else(malformed("GeneralizedTime")),
        _ => Err(MalformedCertificate::Time),
    };
    Ok((rest, moment?))
}

/// `YYMMDDHHMMSSZ` with its century: RFC 5280 has years below 50 in this one.
fn in_full(time: &[u8]) -> Option<Vec<u8>> {
    let century = if time.first()? < &b'5' { b"20" } else { b"19" };
    Some([century, time].concat())
}

/// `YYYYMMDDHHMMSSZ`.
fn moment(time: &[u8]) -> Option<Timestamp> {
    let time = std::str::from_utf8(time).ok()?;
    let part = |from: usize, to: usize| time.get(from..to);
    let (date, clock) = (
        [part(0, 4)?, part(4, 6)?, part(6, 8)?].join("-"),
        [part(8, 10)?, part(10, 12)?, time.get(12..)?].join(":"),
    );
    Timestamp::parse(&format!("{date}T{clock}")).ok()
}

fn malformed(part: &'static str) -> impl Fn() -> MalformedCertificate {
    move || MalformedCertificate::Part(part)
}

/// Why something is no certificate. It never quotes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MalformedCertificate {
    /// A part of it is not what it should be.
    #[error("x509: malformed {0}")]
    Part(&'static str),
    /// A time is of neither sort.
    #[error("x509: unsupported time format")]
    Time,
    /// Something follows it.
    #[error("x509: trailing data")]
    TrailingData,
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, PKCS_ED25519, date_time_ymd,
    };

    use super::*;

    fn certificate(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    fn ending(year: i32, month: u8, day: u8) -> i64 {
        let der = certificate(|params| params.not_after = date_time_ymd(year, month, day));
        Certificate::parse(&der).unwrap().not_after.unix_seconds()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_of_its_forms() {
        assert_eq!(ending(2030, 3, 17), 1_899_936_000);
        assert_eq!(ending(2028, 2, 29), 1_835_395_200);
        assert_eq!(ending(2000, 1, 1), 946_684_800);
        // From 2050 on it is a GeneralizedTime.
        assert_eq!(ending(2050, 1, 1), 2_524_608_000);
        assert_eq!(ending(2100, 3, 1), 4_107_542_400);
    }

    #[test]
    fn a_subject_is_a_user_and_its_groups() {
        let der = certificate(|params| {
            params.not_before = date_time_ymd(2026, 1, 2);
            let mut name = DistinguishedName::new();
            name.push(DnType::CountryName, "EX");
            name.push(DnType::OrganizationName, "builders");
            name.push(DnType::CommonName, DnValue::Utf8String("ada é".to_owned()));
            params.distinguished_name = name;
        });

        let read = Certificate::parse(&der).unwrap();

        assert_eq!(read.common_name.as_deref(), Some("ada é"));
        assert_eq!(read.organizations, ["builders"]);
        assert_eq!(read.not_before.to_string(), "2026-01-02T00:00:00Z");
        assert_eq!(read.key_algorithm, [0x2b, 101, 112]);
        assert_eq!((read.public_key.len(), read.public_key[0]), (44, SEQUENCE));
    }

    #[test]
    fn what_is_no_certificate_is_refused_wherever_it_ends() {
        let whole = certificate(|_| ());
        for length in 0..whole.len() {
            assert!(Certificate::parse(&whole[..length]).is_err(), "{length}");
        }
        for garbage in [&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff][..], &[0x30, 0x80], b"hello"] {
            let error = Certificate::parse(garbage).unwrap_err();
            assert_eq!(error.to_string(), "x509: malformed certificate");
        }
        let error = Certificate::parse(&[&whole[..], b"more"].concat()).unwrap_err();
        assert_eq!(error, MalformedCertificate::TrailingData);
        assert_eq!(
            Certificate::parse(&[0x30, 2, 0x30, 0]).unwrap_err().to_string(),
            "x509: malformed serial number"
        );
    }
}
