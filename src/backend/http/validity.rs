//! Until when a certificate counts: an own one that has expired is told before the first request.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When the first certificate of a PEM has expired; `None` if it counts, or cannot be read: then the server judges.
pub(in crate::backend) fn expired(pem: &[u8], now: Timestamp) -> Option<Timestamp> {
    let certificate = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let end = end_of(&certificate)?;
    (end < now).then_some(end)
}

/// The end of the validity of a certificate (RFC 5280, 4.1).
fn end_of(certificate: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = value(certificate, SEQUENCE)?;
    let (mut rest, _) = value(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        (_, rest) = any(rest)?;
    }
    // Its serial number, signature algorithm and issuer.
    for _ in 0..3 {
        (_, rest) = any(rest)?;
    }
    let (validity, _) = value(rest, SEQUENCE)?;
    let (_, end) = any(validity)?;
    let (text, _) = any(end)?;
    time(*end.first()?, std::str::from_utf8(text).ok()?)
}

/// A time as certificates have it: `YYMMDDhhmmssZ`, from 2050 on `YYYYMMDDhhmmssZ`.
fn time(tag: u8, text: &str) -> Option<Timestamp> {
    let text = match tag {
        UTC_TIME if text.len() == 13 => {
            let century = if *text.get(..2)? < *"50" { "20" } else { "19" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    let zoned = time.to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp())
}

/// The content of the first element of bytes, and what is behind it.
fn any(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.get(1..)?.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |sum, digit| (sum << 8) | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// The content of the first element, if it is of a kind.
fn value(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    (bytes.first() == Some(&tag)).then(|| any(bytes))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Secret;
    use crate::backend::http::{Identity, Trust, TrustError};

    fn made(year: i32) -> (String, String) {
        let mut parameters = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(1999, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(year, 2, 3);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap().pem();
        (certificate, key.serialize_pem())
    }

    fn certificate(year: i32) -> String {
        made(year).0
    }

    #[test]
    fn a_client_whose_own_certificate_has_expired_is_refused_before_its_first_request() {
        let opened = |year| {
            let (certificate, key) = made(year);
            let identity = Identity {
                certificate: Secret::new(certificate),
                key: Secret::new(key),
            };
            let trust = Trust {
                identity: Some(identity),
                ..Trust::default()
            };
            trust.config()
        };
        let error = opened(2001).unwrap_err();
        assert!(matches!(error, TrustError::Expired(_)), "{error:?}");
        assert!(error.to_string().contains("2001-02-03"), "{error}");
        assert!(opened(2055).is_ok());
    }

    #[test]
    fn a_certificate_that_has_expired_is_told_with_its_day_and_one_that_cannot_be_read_is_not() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        for (year, expected) in [
            (2025, Some("2025-02-03T00:00:00Z")),
            (1999, Some("1999-02-03T00:00:00Z")),
            (2027, None),
            (2055, None),
        ] {
            let found = expired(certificate(year).as_bytes(), now);
            assert_eq!(found, expected.map(|text| text.parse().unwrap()), "{year}");
        }
        assert_eq!(expired(b"nothing", now), None);
        // Cut off anywhere, it is read as far as it goes.
        let pem = certificate(2025);
        let der = CertificateDer::pem_slice_iter(pem.as_bytes())
            .next()
            .unwrap()
            .unwrap();
        for length in 0..der.len() {
            let _ = end_of(&der[..length]);
        }
        assert_eq!(end_of(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
