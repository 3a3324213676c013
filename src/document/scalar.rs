//! The meaning of a plain scalar: the one table of YAML 1.1 as PyYAML's SafeLoader has it.
//!
//! Site documents were written for PyYAML, so its reading counts: `yes` is a boolean, `0755` is
//! octal, `12:30` is sexagesimal, `1e3` is a string. YAML 1.2's core schema is known here too, only
//! to say where it would read a scalar otherwise. Most scalars are plain strings, which the first
//! byte decides.
//!
//! Timestamps are normalised to what Python's `str` gives: `2001-12-14` or
//! `2001-12-14 21:59:43.100000+00:00` (microseconds and offset if there are any).

use std::fmt::Write as _;
use std::sync::Arc;

use super::Value;

/// Words that are no strings: the word, its value, and whether YAML 1.2 reads it in the same way.
const WORDS: &[(&str, Value, bool)] = &[
    ("~", Value::Null, true),
    ("null", Value::Null, true),
    ("Null", Value::Null, true),
    ("NULL", Value::Null, true),
    ("true", Value::Bool(true), true),
    ("True", Value::Bool(true), true),
    ("TRUE", Value::Bool(true), true),
    ("false", Value::Bool(false), true),
    ("False", Value::Bool(false), true),
    ("FALSE", Value::Bool(false), true),
    ("yes", Value::Bool(true), false),
    ("Yes", Value::Bool(true), false),
    ("YES", Value::Bool(true), false),
    ("no", Value::Bool(false), false),
    ("No", Value::Bool(false), false),
    ("NO", Value::Bool(false), false),
    ("on", Value::Bool(true), false),
    ("On", Value::Bool(true), false),
    ("ON", Value::Bool(true), false),
    ("off", Value::Bool(false), false),
    ("Off", Value::Bool(false), false),
    ("OFF", Value::Bool(false), false),
    (".inf", Value::Float(f64::INFINITY), true),
    (".Inf", Value::Float(f64::INFINITY), true),
    (".INF", Value::Float(f64::INFINITY), true),
    ("+.inf", Value::Float(f64::INFINITY), true),
    ("+.Inf", Value::Float(f64::INFINITY), true),
    ("+.INF", Value::Float(f64::INFINITY), true),
    ("-.inf", Value::Float(f64::NEG_INFINITY), true),
    ("-.Inf", Value::Float(f64::NEG_INFINITY), true),
    ("-.INF", Value::Float(f64::NEG_INFINITY), true),
    (".nan", Value::Float(f64::NAN), true),
    (".NaN", Value::Float(f64::NAN), true),
    (".NAN", Value::Float(f64::NAN), true),
];

/// Longest number that is read, in characters (Python's own limit for decimal digits).
const NUMBER_LENGTH: usize = 4300;

/// The meaning of a plain scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resolved {
    /// The value; `None` if it is a string, the text itself.
    pub(super) value: Option<Value>,
    /// Whether YAML 1.2's core schema reads something else.
    pub(super) differs: bool,
}

const STRING: Resolved = Resolved {
    value: None,
    differs: false,
};

/// Returns the meaning of a plain, untagged scalar.
///
/// # Errors
///
/// A phrase, if the scalar has the form of a date or number but is none (`2001-02-30`).
pub(super) fn resolve(text: &str) -> Result<Resolved, &'static str> {
    let bytes = text.as_bytes();
    match bytes.first() {
        None => Ok(Resolved {
            value: Some(Value::Null),
            differs: false,
        }),
        Some(b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'y' | b'Y' | b'o' | b'O')
            if bytes.len() <= 5 =>
        {
            Ok(word(text).unwrap_or(STRING))
        }
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => number_or_date(text),
        Some(_) => Ok(STRING),
    }
}

fn word(text: &str) -> Option<Resolved> {
    let (_, value, same) = WORDS.iter().find(|(word, _, _)| *word == text)?;
    Some(Resolved {
        value: Some(value.clone()),
        differs: !same,
    })
}

fn number_or_date(text: &str) -> Result<Resolved, &'static str> {
    let bytes = text.as_bytes();
    if bytes.len() <= 18 && bytes[0] != b'0' && bytes.iter().all(u8::is_ascii_digit) {
        return Ok(Resolved {
            value: text.parse().ok().map(Value::Integer),
            differs: false,
        });
    }
    let may_be_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'.' | b'_' | b':' | b'+' | b'-' | b'x' | b'o');
    if !bytes.iter().all(may_be_number) {
        return match word(text) {
            Some(resolved) => Ok(resolved),
            None => Ok(Resolved {
                value: timestamp(text)?,
                differs: false,
            }),
        };
    }
    if bytes.len() > NUMBER_LENGTH && (integer(text, 0).is_some() || float(text).is_some()) {
        return Err("the number is too long");
    }
    if let Some(date) = timestamp(text)? {
        return Ok(Resolved {
            value: Some(date),
            differs: false,
        });
    }
    let value = integer(text, NUMBER_LENGTH).or_else(|| float(text).map(Value::Float));
    let differs = value != core(text);
    Ok(Resolved { value, differs })
}

fn signed(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

/// An integer of YAML 1.1; values of more than `longest` characters are not computed.
pub(super) fn integer(text: &str, longest: usize) -> Option<Value> {
    let (negative, digits) = signed(text);
    let all = |part: &str, allowed: fn(&u8) -> bool| {
        part.bytes().all(|byte| byte == b'_' || allowed(&byte))
            && part.bytes().any(|byte| byte != b'_')
    };
    let (base, part) = match digits.as_bytes() {
        [b'0', b'b', ..] => (2, &digits[2..]),
        [b'0', b'x', ..] => (16, &digits[2..]),
        [b'0', _, ..] => (8, digits),
        [b'0'..=b'9', ..] => (10, digits),
        _ => return None,
    };
    let fits = match base {
        2 => all(part, |byte| matches!(byte, b'0' | b'1')),
        8 => all(part, |byte| matches!(byte, b'0'..=b'7')),
        16 => all(part, u8::is_ascii_hexdigit),
        _ => all(part, u8::is_ascii_digit),
    };
    if fits {
        let value = (text.len() <= longest).then(|| {
            let digits = part.bytes().filter_map(|byte| (byte as char).to_digit(16));
            compose(negative, digits.map(|digit| (base, digit)))
        });
        return Some(value.unwrap_or(Value::Null));
    }
    if base == 10 {
        let (first, rest) = digits.split_once(':')?;
        if !all(first, u8::is_ascii_digit) || !sixties(rest) {
            return None;
        }
        if text.len() > longest {
            return Some(Value::Null);
        }
        let head = first.bytes().filter(u8::is_ascii_digit);
        let head = head.map(|byte| (10, u32::from(byte - b'0')));
        let tail = rest.split(':').filter_map(|part| part.parse().ok());
        return Some(compose(negative, head.chain(tail.map(|part| (60, part)))));
    }
    None
}

/// `(:[0-5]?[0-9])+` without the first colon.
fn sixties(text: &str) -> bool {
    text.split(':')
        .all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
}

/// The number that comes of multiplying by each base and adding each digit.
fn compose(negative: bool, digits: impl Iterator<Item = (u32, u32)>) -> Value {
    const LIMB: u64 = 1_000_000_000;
    let mut limbs: Vec<u32> = Vec::new();
    for (base, digit) in digits {
        let mut carry = u64::from(digit);
        for limb in &mut limbs {
            let sum = u64::from(*limb) * u64::from(base) + carry;
            *limb = (sum % LIMB) as u32;
            carry = sum / LIMB;
        }
        if carry > 0 {
            limbs.push(carry as u32);
        }
    }
    let mut text = if negative { "-" } else { "" }.to_owned();
    match limbs.split_last() {
        None => return Value::Integer(0),
        Some((last, lower)) => {
            text.push_str(&last.to_string());
            for limb in lower.iter().rev() {
                let _ = write!(text, "{limb:09}");
            }
        }
    }
    decimal(text)
}

/// Canonical decimal digits as the value that holds them.
fn decimal(text: String) -> Value {
    match text.parse() {
        Ok(number) => Value::Integer(number),
        Err(_) => Value::BigInteger(text.into()),
    }
}

/// A float of YAML 1.1: it needs a dot, and its exponent a sign.
fn float(text: &str) -> Option<f64> {
    let (negative, digits) = signed(text);
    let (whole, rest) = digits.split_once('.')?;
    let figures = |part: &str| {
        part.bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_digit())
    };
    let begins = |part: &str| part.as_bytes().first().is_some_and(u8::is_ascii_digit);
    if let Some((first, sixtieths)) = whole.split_once(':') {
        if !begins(first) || !figures(first) || !sixties(sixtieths) || !figures(rest) {
            return None;
        }
        let plain = digits.replace('_', "");
        let (mut sum, mut base) = (0.0, 1.0);
        for part in plain.rsplit(':') {
            sum += part.parse::<f64>().ok()? * base;
            base *= 60.0;
        }
        return Some(if negative { -sum } else { sum });
    }
    let (fraction, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    if let Some(exponent) = exponent {
        let unsigned = exponent.strip_prefix(['+', '-'])?;
        if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
    }
    let sound = if whole.is_empty() {
        digits.len() == text.len() && begins(fraction)
    } else {
        begins(whole) && figures(whole)
    };
    if !sound || !figures(fraction) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// The value that YAML 1.2's core schema reads; `None` is a string. Not for words, dates and `.inf`.
pub(super) fn core(text: &str) -> Option<Value> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (negative, unsigned) = signed(text);
    if digits(unsigned) {
        let bare = unsigned.trim_start_matches('0');
        return Some(match bare {
            "" => Value::Integer(0),
            _ if negative => decimal(format!("-{bare}")),
            _ => decimal(bare.to_owned()),
        });
    }
    if let Some(octal) = text.strip_prefix("0o") {
        let sound = !octal.is_empty() && octal.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        let places = octal.bytes().map(|byte| (8, u32::from(byte - b'0')));
        return sound.then(|| compose(false, places));
    }
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        let sound = !hexadecimal.is_empty() && hexadecimal.bytes().all(|b| b.is_ascii_hexdigit());
        let places = hexadecimal.chars().filter_map(|digit| digit.to_digit(16));
        return sound.then(|| compose(false, places.map(|digit| (16, digit))));
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    if exponent.is_some_and(|exponent| !digits(signed(exponent).1)) {
        return None;
    }
    let sound = match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, "")) => digits(whole),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
    };
    if sound {
        text.parse().ok().map(Value::Float)
    } else {
        None
    }
}

/// Cuts a run of `least` to `most` digits off the front.
fn take_number<'a>(text: &mut &'a str, least: usize, most: usize) -> Option<(u32, &'a str)> {
    let run = text
        .bytes()
        .take(most)
        .take_while(u8::is_ascii_digit)
        .count();
    if run < least {
        return None;
    }
    let (digits, rest) = text.split_at(run);
    *text = rest;
    Some((digits.parse().unwrap_or(0), digits))
}

fn take_char(text: &mut &str, expected: char) -> Option<()> {
    *text = text.strip_prefix(expected)?;
    Some(())
}

struct Moment<'a> {
    date: (u32, u32, u32),
    time: Option<(u32, u32, u32, &'a str)>,
    offset: Option<(char, u32, u32)>,
}

/// PyYAML's regular expression for timestamps, taken apart.
fn moment(text: &str) -> Option<Moment<'_>> {
    let mut rest = text;
    let (year, _) = take_number(&mut rest, 4, 4)?;
    take_char(&mut rest, '-')?;
    let (month, month_digits) = take_number(&mut rest, 1, 2)?;
    take_char(&mut rest, '-')?;
    let (day, day_digits) = take_number(&mut rest, 1, 2)?;
    let mut found = Moment {
        date: (year, month, day),
        time: None,
        offset: None,
    };
    if rest.is_empty() {
        return (month_digits.len() == 2 && day_digits.len() == 2).then_some(found);
    }
    let blank = [' ', '\t'];
    let after = rest.strip_prefix(['T', 't']);
    let mut rest = match after {
        Some(after) => after,
        None if rest.starts_with(blank) => rest.trim_start_matches(blank),
        None => return None,
    };
    let (hour, _) = take_number(&mut rest, 1, 2)?;
    take_char(&mut rest, ':')?;
    let (minute, _) = take_number(&mut rest, 2, 2)?;
    take_char(&mut rest, ':')?;
    let (second, _) = take_number(&mut rest, 2, 2)?;
    let mut fraction = "";
    if take_char(&mut rest, '.').is_some() {
        fraction = take_number(&mut rest, 0, usize::MAX)?.1;
    }
    found.time = Some((hour, minute, second, fraction));
    if rest.is_empty() {
        return Some(found);
    }
    let mut rest = rest.trim_start_matches(blank);
    if rest == "Z" {
        found.offset = Some(('+', 0, 0));
        return Some(found);
    }
    let sign = rest
        .chars()
        .next()
        .filter(|sign| matches!(sign, '+' | '-'))?;
    rest = &rest[1..];
    let (hours, _) = take_number(&mut rest, 1, 2)?;
    let mut minutes = 0;
    if take_char(&mut rest, ':').is_some() {
        minutes = take_number(&mut rest, 2, 2)?.0;
    }
    found.offset = Some((sign, hours, minutes));
    rest.is_empty().then_some(found)
}

fn timestamp(text: &str) -> Result<Option<Value>, &'static str> {
    if text.as_bytes().get(4) != Some(&b'-') {
        return Ok(None);
    }
    let Some(found) = moment(text) else {
        return Ok(None);
    };
    let (year, month, day) = found.date;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year == 0 || !(1..=12).contains(&month) || !(1..=days).contains(&day) {
        return Err("there is no such date");
    }
    let mut written = format!("{year:04}-{month:02}-{day:02}");
    if let Some((hour, minute, second, fraction)) = found.time {
        if hour > 23 || minute > 59 || second > 59 {
            return Err("there is no such time");
        }
        let _ = write!(written, " {hour:02}:{minute:02}:{second:02}");
        let micros = &fraction[..fraction.len().min(6)];
        if micros.bytes().any(|byte| byte != b'0') {
            let _ = write!(written, ".{micros:0<6}");
        }
    }
    if let Some((sign, hours, minutes)) = found.offset {
        let total = hours * 60 + minutes;
        if total >= 24 * 60 {
            return Err("the offset from UTC is a day or more");
        }
        let sign = if total == 0 { '+' } else { sign };
        let _ = write!(written, "{sign}{:02}:{:02}", total / 60, total % 60);
    }
    Ok(Some(Value::Timestamp(Arc::from(written))))
}

/// The value that an explicit tag of the YAML namespace asks for (`!!int "12"`).
///
/// # Errors
///
/// A phrase, if the text cannot be that.
pub(super) fn construct(tag: &str, text: &str) -> Result<Option<Value>, &'static str> {
    match tag {
        "str" => Ok(None),
        "null" => Ok(Some(Value::Null)),
        "bool" => match text.to_ascii_lowercase().as_str() {
            "yes" | "true" | "on" => Ok(Some(Value::Bool(true))),
            "no" | "false" | "off" => Ok(Some(Value::Bool(false))),
            _ => Err("the text is no boolean"),
        },
        "int" => {
            let value = (text.len() <= NUMBER_LENGTH)
                .then(|| integer(text, NUMBER_LENGTH))
                .flatten();
            value.map(Some).ok_or("the text is no integer")
        }
        "float" => {
            let lower = text.to_ascii_lowercase();
            let value = match lower.as_str() {
                ".nan" => Some(f64::NAN),
                ".inf" | "+.inf" => Some(f64::INFINITY),
                "-.inf" => Some(f64::NEG_INFINITY),
                _ if lower.bytes().any(|byte| matches!(byte, b'i' | b'n')) => None,
                _ => float(text).or_else(|| text.replace('_', "").parse().ok()),
            };
            value
                .map(|number| Some(Value::Float(number)))
                .ok_or("the text is no number")
        }
        _ => Err("a scalar cannot have this tag"),
    }
}

/// A scalar value in the words of a diagnostic.
pub(super) fn describe(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::String(_)) => "a string".to_owned(),
        Some(Value::Null) => "null".to_owned(),
        Some(Value::Bool(truth)) => format!("the boolean {truth}"),
        Some(other) => format!(
            "the {} {}",
            other.type_name(),
            other.scalar_text().unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: bool = false;
    const DIFFERS: bool = true;

    /// Text, type, `str` of the value as PyYAML 6.0 constructs it, and whether YAML 1.2 differs.
    const TABLE: &[(&str, &str, &str, bool)] = &[
        ("yes", "boolean", "True", DIFFERS),
        ("Yes", "boolean", "True", DIFFERS),
        ("YES", "boolean", "True", DIFFERS),
        ("no", "boolean", "False", DIFFERS),
        ("NO", "boolean", "False", DIFFERS),
        ("No", "boolean", "False", DIFFERS),
        ("on", "boolean", "True", DIFFERS),
        ("ON", "boolean", "True", DIFFERS),
        ("off", "boolean", "False", DIFFERS),
        ("true", "boolean", "True", SAME),
        ("TRUE", "boolean", "True", SAME),
        ("tRUE", "string", "tRUE", SAME),
        ("y", "string", "y", SAME),
        ("n", "string", "n", SAME),
        ("null", "null", "None", SAME),
        ("NULL", "null", "None", SAME),
        ("~", "null", "None", SAME),
        ("nULL", "string", "nULL", SAME),
        ("0", "integer", "0", SAME),
        ("00", "integer", "0", SAME),
        ("0755", "integer", "493", DIFFERS),
        ("08", "string", "08", DIFFERS),
        ("0o7", "string", "0o7", DIFFERS),
        ("0x1F", "integer", "31", SAME),
        ("0X1F", "string", "0X1F", SAME),
        ("-0x1f", "integer", "-31", DIFFERS),
        ("0b101", "integer", "5", DIFFERS),
        ("0b102", "string", "0b102", SAME),
        ("-0b1", "integer", "-1", DIFFERS),
        ("1_000", "integer", "1000", DIFFERS),
        ("_1", "string", "_1", SAME),
        ("1__0_", "integer", "10", DIFFERS),
        ("12", "integer", "12", SAME),
        ("+12", "integer", "12", SAME),
        ("-12", "integer", "-12", SAME),
        ("+", "string", "+", SAME),
        (".", "string", ".", SAME),
        ("..", "string", "..", SAME),
        ("12:30", "integer", "750", DIFFERS),
        ("12:60", "string", "12:60", SAME),
        ("12:5", "integer", "725", DIFFERS),
        ("-1:30", "integer", "-90", DIFFERS),
        ("0:30", "string", "0:30", SAME),
        ("00:11:22", "string", "00:11:22", SAME),
        ("52:54:00:12:34:56", "integer", "41135085296", DIFFERS),
        ("1.5", "number", "1.5", SAME),
        ("1.", "number", "1.0", SAME),
        (".5", "number", "0.5", SAME),
        ("-.5", "string", "-.5", DIFFERS),
        ("+.5", "string", "+.5", DIFFERS),
        ("1e3", "string", "1e3", DIFFERS),
        ("1.5e3", "string", "1.5e3", DIFFERS),
        ("1.5e+3", "number", "1500.0", SAME),
        ("1.5E-3", "number", "0.0015", SAME),
        ("1.e+3", "number", "1000.0", SAME),
        (".5e-1", "number", "0.05", SAME),
        ("1_0.5_0", "number", "10.5", DIFFERS),
        ("12:30.5", "number", "750.5", DIFFERS),
        ("-12:30.25", "number", "-750.25", DIFFERS),
        (".inf", "number", "inf", SAME),
        (".INF", "number", "inf", SAME),
        ("-.inf", "number", "-inf", SAME),
        ("+.inf", "number", "inf", SAME),
        (".iNF", "string", ".iNF", SAME),
        (".nan", "number", "nan", SAME),
        (".NaN", "number", "nan", SAME),
        ("-.nan", "string", "-.nan", SAME),
        (
            "9223372036854775807",
            "integer",
            "9223372036854775807",
            SAME,
        ),
        (
            "9223372036854775808",
            "integer",
            "9223372036854775808",
            SAME,
        ),
        (
            "-9223372036854775808",
            "integer",
            "-9223372036854775808",
            SAME,
        ),
        (
            "-9223372036854775809",
            "integer",
            "-9223372036854775809",
            SAME,
        ),
        (
            "0xFFFFFFFFFFFFFFFFFF",
            "integer",
            "4722366482869645213695",
            SAME,
        ),
        (
            "0777777777777777777777777777",
            "integer",
            "2417851639229258349412351",
            DIFFERS,
        ),
        (
            "123456789012345678901234567890123456789012345",
            "integer",
            "123456789012345678901234567890123456789012345",
            SAME,
        ),
        ("2001-12-14", "date", "2001-12-14", SAME),
        ("2001-1-1", "string", "2001-1-1", SAME),
        (
            "2001-12-14T21:59:43.10-05:00",
            "date",
            "2001-12-14 21:59:43.100000-05:00",
            SAME,
        ),
        (
            "2001-12-14t21:59:43Z",
            "date",
            "2001-12-14 21:59:43+00:00",
            SAME,
        ),
        ("1.2.3", "string", "1.2.3", SAME),
        ("10.23.0.0/24", "string", "10.23.0.0/24", SAME),
        ("v1", "string", "v1", SAME),
        ("0_", "integer", "0", DIFFERS),
        ("0_7", "integer", "7", DIFFERS),
        ("-0", "integer", "0", SAME),
        ("-0.0", "number", "-0.0", SAME),
        ("1.0e+400", "number", "inf", SAME),
        ("12e03", "string", "12e03", DIFFERS),
        ("1:2:3.4", "number", "3723.4", DIFFERS),
        ("099", "string", "099", DIFFERS),
        ("1_", "integer", "1", DIFFERS),
        ("1:2_", "string", "1:2_", SAME),
        ("0x1_F", "integer", "31", DIFFERS),
        (
            "2001-12-14 21:59:43.10 -5",
            "date",
            "2001-12-14 21:59:43.100000-05:00",
            SAME,
        ),
        ("2001-12-14 1:59:43", "date", "2001-12-14 01:59:43", SAME),
        (
            "2001-12-14 21:59:43.0000001",
            "date",
            "2001-12-14 21:59:43",
            SAME,
        ),
        (
            "2001-12-14 21:59:43.1234567",
            "date",
            "2001-12-14 21:59:43.123456",
            SAME,
        ),
        ("2001-12-14 21:59", "string", "2001-12-14 21:59", SAME),
        (
            "2001-1-1 1:00:00 -00:30",
            "date",
            "2001-01-01 01:00:00-00:30",
            SAME,
        ),
    ];

    #[test]
    fn plain_scalars_mean_what_pyyaml_constructs() {
        for (text, kind, expected, differs) in TABLE {
            let resolved = resolve(text).unwrap();
            let value = resolved.value.unwrap_or_else(|| Value::string(*text));
            let found = (value.type_name(), value.scalar_text().unwrap().into_owned());
            assert_eq!(found, (*kind, (*expected).to_owned()), "{text}");
            assert_eq!(resolved.differs, *differs, "YAML 1.2 on {text}");
        }
    }

    #[test]
    fn dates_and_numbers_that_cannot_be_are_refused() {
        for text in [
            "2001-02-29",
            "2001-13-01",
            "0000-01-01",
            "2001-12-14 24:00:00",
            "2001-12-14 21:59:60",
            "2001-12-14 21:59:43 +24:00",
        ] {
            assert!(resolve(text).is_err(), "{text}");
        }
        assert!(resolve(&"9".repeat(5000)).is_err());
        assert!(resolve("2000-02-29").is_ok());
    }

    #[test]
    fn tags_convert_what_they_can() {
        assert_eq!(construct("str", "12"), Ok(None));
        assert_eq!(construct("int", "0x10"), Ok(Some(Value::Integer(16))));
        assert_eq!(construct("float", "1"), Ok(Some(Value::Float(1.0))));
        assert_eq!(construct("float", "1e3"), Ok(Some(Value::Float(1000.0))));
        assert_eq!(construct("bool", "YES"), Ok(Some(Value::Bool(true))));
        assert_eq!(construct("null", "x"), Ok(Some(Value::Null)));
        for (tag, text) in [
            ("int", "x"),
            ("float", "infinity"),
            ("bool", "y"),
            ("map", ""),
        ] {
            assert!(construct(tag, text).is_err(), "!!{tag} {text}");
        }
    }
}
