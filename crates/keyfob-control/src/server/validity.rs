//! Until when a certificate is valid.

use std::time::SystemTime;

use keyfob_api::Timestamp;
use rustls::pki_types::CertificateDer;

use crate::der::{Der, INTEGER, SEQUENCE};

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;

/// `validity.notAfter`, if this is a certificate.
pub(crate) fn not_after(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, certificate) = Der(certificate).take(SEQUENCE)?;
    let (_, fields) = certificate.take(SEQUENCE)?;
    // The version may be left out.
    let rest = fields.take(VERSION).map_or(fields, |(rest, _)| rest);
    let (rest, _serial) = rest.take(INTEGER)?;
    let (rest, _algorithm) = rest.take(SEQUENCE)?;
    let (rest, _issuer) = rest.take(SEQUENCE)?;
    let (_, validity) = rest.take(SEQUENCE)?;
    let (rest, _not_before) = validity.any()?;
    let (_, (tag, time)) = rest.any()?;
    match tag {
        UTC_TIME => moment(&in_full(time)?),
        GENERALIZED_TIME => moment(time),
        _ => None,
    }
}

/// `YYMMDDHHMMSSZ` with its century: RFC 5280 has years below 50 in this one.
fn in_full(time: &[u8]) -> Option<Vec<u8>> {
    let century = if time.first()? < &b'5' { b"20" } else { b"19" };
    Some([century, time].concat())
}

/// `YYYYMMDDHHMMSSZ`.
fn moment(time: &[u8]) -> Option<SystemTime> {
    let time = std::str::from_utf8(time).ok()?;
    let part = |from: usize, to: usize| time.get(from..to);
    let (date, clock) = (
        [part(0, 4)?, part(4, 6)?, part(6, 8)?].join("-"),
        [part(8, 10)?, part(10, 12)?, time.get(12..)?].join(":"),
    );
    Timestamp::parse(&format!("{date}T{clock}")).ok()?.to_system_time()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn ending(year: i32, month: u8, day: u8) -> Option<u64> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, month, day);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let since = not_after(certificate.der())?.duration_since(SystemTime::UNIX_EPOCH);
        Some(since.unwrap().as_secs())
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_of_its_forms() {
        assert_eq!(ending(2030, 3, 17), Some(1_899_936_000));
        assert_eq!(ending(2028, 2, 29), Some(1_835_395_200));
        assert_eq!(ending(2000, 1, 1), Some(946_684_800));
        // From 2050 on it is a GeneralizedTime.
        assert_eq!(ending(2050, 1, 1), Some(2_524_608_000));
        assert_eq!(ending(2100, 3, 1), Some(4_107_542_400));
    }

    #[test]
    fn what_is_no_certificate_has_no_end() {
        let certificate = CertificateParams::new(["a.example".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let whole = certificate.der();
        for length in 0..whole.len().min(120) {
            assert_eq!(not_after(&CertificateDer::from(&whole[..length])), None, "{length}");
        }
        for garbage in [&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff][..], &[0x30, 0x80], b"hello"] {
            assert_eq!(not_after(&CertificateDer::from(garbage)), None);
        }
    }
}
