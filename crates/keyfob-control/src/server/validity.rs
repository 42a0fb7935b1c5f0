//! Until when a certificate is valid.
//!
//! Just enough of DER to walk to that one field; a certificate's meaning is left to those who verify it.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
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

/// Values one behind the other.
#[derive(Clone, Copy)]
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The first value if it has this tag, and what is behind it.
    fn take(self, tag: u8) -> Option<(Self, Self)> {
        let (rest, (found, value)) = self.any()?;
        (found == tag).then_some((rest, Self(value)))
    }

    fn any(self) -> Option<(Self, (u8, &'a [u8]))> {
        let (tag, rest) = self.0.split_first()?;
        let (length, rest) = length(rest)?;
        let (value, rest) = rest.split_at_checked(length)?;
        Some((Self(rest), (*tag, value)))
    }
}

/// One byte, or how many bytes follow that say it.
fn length(der: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = der.split_first()?;
    match *first {
        short @ 0..=0x7f => Some((usize::from(short), rest)),
        long @ 0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            Some((bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest))
        }
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
    let digits = time.strip_suffix(b"Z").filter(|digits| digits.len() == 14)?;
    let number = |from: usize, to: usize| {
        std::str::from_utf8(digits.get(from..to)?).ok()?.parse::<u64>().ok()
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let seconds = number(8, 10)? * 3600 + number(10, 12)? * 60 + number(12, 14)?;
    let days = days_since_1970(year, month, day)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + seconds))
}

/// Counts years from March, so that the day of a leap year is the last.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let from_march = (month + 9) % 12;
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (from_march * 153 + 2) / 5 + day;
    days.checked_sub(719_469)
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
