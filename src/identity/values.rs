//! Single values in one form, and those that many boards share.

use std::sync::Arc;

/// UUIDs of boards that were never given one, in either byte order.
const DUMMY_UUIDS: &[&str] = &[
    "03000200-0400-0500-0006-000700080009",
    "00020003-0004-0005-0006-000700080009",
    "12345678-1234-5678-90ab-cddeefaabbcc",
    "78563412-3412-7856-90ab-cddeefaabbcc",
    "01234567-89ab-cdef-0123-456789abcdef",
    "4c4c4544-0000-2010-8020-80c04f202020",
    "11111111-2222-3333-4444-555555555555",
    "00112233-4455-6677-8899-aabbccddeeff",
    "33221100-5544-7766-8899-aabbccddeeff",
    "00000000-0000-0000-0000-000000000001",
];

/// Serial numbers of boards that were never given one, in lower case, letters and digits only.
const DUMMY_SERIALS: &[&str] = &[
    "tobefilledbyoem",
    "tobefilledbyoemtobefilledbyoem",
    "defaultstring",
    "systemserialnumber",
    "chassisserialnumber",
    "baseboardserialnumber",
    "serialnumber",
    "productserial",
    "none",
    "null",
    "na",
    "nil",
    "notspecified",
    "notavailable",
    "notapplicable",
    "notprovided",
    "notset",
    "unknown",
    "unspecified",
    "undefined",
    "invalid",
    "empty",
    "blank",
    "default",
    "oem",
    "serial",
    "test",
    "0123456789",
    "1234567890",
    "123456789",
    "12345678",
    "1234567",
    "123456",
    "0123456789abcdef",
    "abcdefghij",
];

/// Whether a text is a value that proves nothing: empty, one character over and over, or a vendor's dummy.
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    let plain: String = text
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    let mut letters = plain.chars();
    let first = letters.next();
    let is_one_letter = letters.all(|letter| Some(letter) == first);
    let is_pair = plain.len() > 4
        && plain.len().is_multiple_of(2)
        && plain
            .as_bytes()
            .chunks(2)
            .all(|two| two == &plain.as_bytes()[..2]);
    is_one_letter
        || is_pair
        || DUMMY_SERIALS.contains(&&*plain)
        || DUMMY_UUIDS
            .iter()
            .any(|dummy| dummy.eq_ignore_ascii_case(text.trim()))
}

/// A UUID in one form; `None` if it proves nothing.
#[must_use]
pub fn uuid(text: &str) -> Option<Arc<str>> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_prefix("urn:uuid:").unwrap_or(&text);
    let text = text.trim_start_matches('{').trim_end_matches('}');
    let hexadecimal = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let text = match hexadecimal {
        true => [
            &text[..8],
            &text[8..12],
            &text[12..16],
            &text[16..20],
            &text[20..],
        ]
        .join("-"),
        false => text.to_owned(),
    };
    bounded(&text)
}

/// A serial number, or an id of a provisioner, in one form; `None` if it proves nothing.
#[must_use]
pub fn serial(text: &str) -> Option<Arc<str>> {
    bounded(text.trim())
}

/// A MAC address in one form; `None` for anything else, and for one that names no single interface.
#[must_use]
pub fn mac(text: &str) -> Option<Arc<str>> {
    let text = text.trim().to_ascii_lowercase();
    let digits: String = text
        .chars()
        .filter(|letter| !":-.".contains(*letter))
        .collect();
    let is_mac =
        matches!(digits.len(), 12 | 16 | 40) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_mac {
        return None;
    }
    let first = u8::from_str_radix(&digits[..2], 16).ok()?;
    // Zeros, and groups of interfaces, ones among them.
    let is_placeholder = digits.bytes().all(|byte| byte == b'0') || first & 1 == 1;
    let pairs: Vec<&str> = (0..digits.len())
        .step_by(2)
        .map(|at| &digits[at..at + 2])
        .collect();
    (!is_placeholder).then(|| Arc::from(pairs.join(":")))
}

/// A value of a length that a board may have, without what could steer a terminal.
fn bounded(text: &str) -> Option<Arc<str>> {
    const LONGEST: usize = 128;
    let is_plain = text.chars().all(|letter| !letter.is_control());
    (is_plain && text.len() <= LONGEST && !is_placeholder(text)).then(|| Arc::from(text))
}
