//! No secret in the words of a service, whichever repeats it and in which form.
//!
//! A service may say again what it was sent: a password, the header that carried it, a token. Each secret
//! that is revealed in this process is known here from then on, with the forms in which it is sent; a text
//! from outside goes through [`masked`] before anything is cut off or quoted, an answer in JSON through
//! [`masked_json`] before it is decoded.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use aho_corasick::AhoCorasick;
use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use regex::Regex;
use serde_json::Value;

/// The text shown in place of a secret.
const MASK: &str = "…";

/// A shorter secret may be any word of a text; it is masked only in answers to what it was sent with.
const SHORT: usize = 6;

/// The length of a line of a secret of several, such as a key, from which it is one by itself.
const SHORT_LINE: usize = 16;

/// How many forms are looked for one by one before they are put together.
const FEW: usize = 16;

/// The forms that are looked for. Of those that were put together each lot is larger than the next, so that a service which
/// gets a new token every hour for months looks for all of them in a few passes, and builds little anew for each.
#[derive(Default)]
struct KnownSecrets {
    all: BTreeSet<String>,
    together: Vec<Together>,
    since: Vec<String>,
}

/// Forms that are looked for in one pass.
struct Together {
    forms: Vec<String>,
    finder: AhoCorasick,
}

impl KnownSecrets {
    fn add(&mut self, form: String) {
        if !self.all.insert(form.clone()) {
            return;
        }
        self.since.push(form);
        if self.since.len() > FEW {
            self.put_together();
        }
    }

    fn put_together(&mut self) {
        let mut forms = std::mem::take(&mut self.since);
        loop {
            let size = forms.len();
            let smaller = self.together.pop_if(|lot| lot.forms.len() <= size);
            let Some(lot) = smaller else { break };
            forms.extend(lot.forms);
        }
        match AhoCorasick::new(&forms) {
            Ok(finder) => self.together.push(Together { forms, finder }),
            Err(_) => self.since = forms,
        }
    }

    /// The parts of a text that a form covers, whether by itself or together with others that begin or end in it.
    fn found(&self, text: &str) -> Vec<Range<usize>> {
        let together = self.together.iter().flat_map(|lot| {
            let found = lot.finder.find_overlapping_iter(text);
            found.map(|found| found.range())
        });
        let since = self.since.iter().flat_map(|form| {
            let found = text.match_indices(form.as_str());
            found.map(|(at, form)| at..at + form.len())
        });
        let mut all: Vec<Range<usize>> = together.chain(since).collect();
        all.sort_by_key(|range| range.start);
        all.dedup_by(|next, range| {
            let overlaps = next.start < range.end;
            if overlaps {
                range.end = range.end.max(next.end);
            }
            overlaps
        });
        all
    }
}

static KNOWN: LazyLock<RwLock<KnownSecrets>> = LazyLock::new(RwLock::default);

/// Secrets of one exchange, in all their forms, the longer ones first. Shows none of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Forms(Arc<[String]>);

impl Forms {
    pub(super) fn of<'a>(secrets: impl IntoIterator<Item = Cow<'a, str>>) -> Self {
        let secrets = secrets.into_iter();
        let mut all: Vec<String> = secrets.flat_map(|secret| forms(&secret)).collect();
        all.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Self(all.into())
    }

    /// A text without any of them, however short.
    pub(super) fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for form in &*self.0 {
            if clean.contains(form.as_str()) {
                clean = Cow::Owned(clean.replace(form.as_str(), MASK));
            }
        }
        clean
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// A text with `%2f` in the place of `%2F`.
fn lower_escapes(escaped: &str) -> String {
    let mut parts = escaped.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        text.extend(["%", &digits.to_ascii_lowercase(), rest]);
    }
    text
}

/// The forms of a secret in which a service may repeat it.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap_or_default();
    let escaped: String = secret
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    let mut forms = vec![
        secret.to_owned(),
        HEXLOWER.encode(secret.as_bytes()),
        HEXUPPER.encode(secret.as_bytes()),
        lower_escapes(&escaped),
        BASE64_NOPAD.encode(secret.as_bytes()),
        BASE64URL_NOPAD.encode(secret.as_bytes()),
        json.trim_matches('"').to_owned(),
        escaped,
    ];
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.dedup();
    forms.retain(|form| !form.is_empty());
    forms
}

/// Makes a secret known.
pub(super) fn remember(secret: &str) {
    let lines: Vec<&str> = match secret.contains('\n') {
        // Of a key its lines, of a kubeconfig what its fields hold.
        true => {
            let words = secret
                .lines()
                .filter_map(|line| line.split_whitespace().last());
            let words = words.map(|word| word.trim_matches(['"', '\'']));
            words
                .filter(|word| word.len() >= SHORT_LINE && !word.ends_with("-----"))
                .collect()
        }
        false => [secret]
            .into_iter()
            .filter(|secret| secret.len() >= SHORT)
            .collect(),
    };
    if lines.is_empty() {
        return;
    }
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for line in lines {
        if known.all.contains(line) {
            continue;
        }
        for form in forms(line) {
            known.add(form);
        }
    }
}

/// Returns a JSON answer without any known secret in its values, whose facts may be shown and recorded.
pub(super) fn masked_json(body: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(body) else {
        return Cow::Borrowed(body);
    };
    if matches!(known(text), Cow::Borrowed(_)) && !has_needless_escape(body) {
        return Cow::Borrowed(body);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let Some(Ok(mut value)) = values.next() else {
        return Cow::Borrowed(body);
    };
    mask_values(&mut value);
    Cow::Owned(value.to_string().into_bytes())
}

/// Whether a text in JSON may hold a secret that its bytes do not show: a letter or digit that is escaped, or
/// a `/`. Go escapes `<`, `>` and `&` in every text.
fn has_needless_escape(body: &[u8]) -> bool {
    body.windows(2).enumerate().any(|(at, pair)| match pair {
        br"\/" => true,
        br"\u" => {
            let digits = body.get(at + 2..at + 6).unwrap_or_default();
            digits.starts_with(b"00")
                && digits[2] >= b'2'
                && !["3c", "3e", "26"]
                    .iter()
                    .any(|each| digits[2..].eq_ignore_ascii_case(each.as_bytes()))
        }
        _ => false,
    })
}

fn mask_values(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = known(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_values),
        Value::Object(fields) => fields.values_mut().for_each(mask_values),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A text without any secret that is known, nor what a header of credentials carries.
pub(super) fn masked(text: &str) -> Cow<'_, str> {
    static HEADER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)\b(bearer|basic)(\s+|%20)([A-Za-z0-9._~+/=-]{8,})").ok());
    let text = match &*HEADER {
        Some(header) => header.replace_all(text, |found: &regex::Captures<'_>| {
            // A word of a sentence (`basic authentication`) is none.
            let carried = &found[3];
            let is_word = carried.bytes().all(|byte| byte.is_ascii_lowercase());
            match is_word {
                true => found[0].to_owned(),
                false => format!("{}{}{MASK}", &found[1], &found[2]),
            }
        }),
        None => Cow::Borrowed(text),
    };
    if let Cow::Owned(clean) = known(&text) {
        return Cow::Owned(clean);
    }
    text
}

/// A text without any secret that is known; borrowed if it holds none.
fn known(text: &str) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let found = known.found(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut clean, mut at) = (String::with_capacity(text.len()), 0);
    for range in found {
        clean.push_str(&text[at..range.start]);
        clean.push_str(MASK);
        at = range.end;
    }
    clean.push_str(&text[at..]);
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_in_each_form_and_so_is_what_a_header_carries() {
        remember("hunter2-\"ü\"/x");
        for form in forms("hunter2-\"ü\"/x") {
            let said = masked(&format!("got <{form}>")).into_owned();
            assert_eq!(said, "got <…>", "{form}");
        }
        assert_eq!(
            masked("Authorization: Bearer eyJhbGciOi.J9x-_y, Basic YWRtaW46eHl6"),
            "Authorization: Bearer …, Basic …"
        );
        assert_eq!(masked("no basic authentication"), "no basic authentication");
        assert_eq!(masked("nothing"), "nothing");
    }

    #[test]
    fn a_secret_in_a_value_of_an_answer_is_masked_however_it_is_escaped() {
        remember("hunter2/serial");
        for escaped in [
            "hunter2/serial",
            r"hunter2\/serial",
            r"\u0068unter2/serial",
            r"hunter2\u002Fserial",
        ] {
            let body = format!(r#"{{"hunter2/serial":1,"a":["{escaped}"]}} "#);
            let masked = masked_json(body.as_bytes());
            let value: Value = serde_json::from_slice(&masked).unwrap();
            assert_eq!(
                value,
                serde_json::json!({"hunter2/serial": 1, "a": ["…"]}),
                "{escaped}"
            );
        }
        for untouched in [
            r#"{"a":"b \u003c \u003E \u0026 \u0001 ü"}"#,
            "{\"a\":",
            "",
            r#"{"a":"\u00"#,
        ] {
            let masked = masked_json(untouched.as_bytes());
            assert!(matches!(masked, Cow::Borrowed(_)), "{untouched}");
        }
    }

    /// A secret that another one begins, ends or overlaps leaves no rest of it, whichever was known first.
    #[test]
    fn of_secrets_that_overlap_nothing_is_left() {
        let secrets = ["qwertzuiop", "qwertzuiop-and-more", "and-more-of-it"];
        for turn in 0..secrets.len() {
            let mut known = KnownSecrets::default();
            let mut ordered = secrets;
            ordered.rotate_left(turn);
            for secret in ordered {
                known.add(secret.to_owned());
                // Some are put together, others not.
                for number in 0..FEW - 1 {
                    known.add(format!("{secret} beside {number}"));
                }
            }
            let found = |text: &str| -> Vec<(usize, usize)> {
                let found = known.found(text).into_iter();
                found.map(|range| (range.start, range.end)).collect()
            };
            assert_eq!(found("<qwertzuiop-and-more-of-it>"), [(1, 26)]);
            assert_eq!(found("<qwertzuiop><and-more>"), [(1, 11)]);
        }
    }

    #[test]
    fn however_many_are_known_they_are_looked_for_in_few_passes() {
        let mut known = KnownSecrets::default();
        for number in 0..5000 {
            known.add(format!("marvellous-{number:05}"));
            assert!(known.together.len() <= 10 && known.since.len() <= FEW);
        }
        for number in [0, 1, 17, 2500, 4983, 4999] {
            let text = format!("<marvellous-{number:05}>");
            let found = known.found(&text);
            assert!(
                matches!(found[..], [Range { start: 1, end: 17 }]),
                "{number}"
            );
        }
        assert!(known.found("<marvellous-0500>").is_empty());
    }

    #[test]
    fn many_secrets_are_masked_and_so_are_the_lines_of_a_key() {
        for number in 0..500 {
            remember(&format!("marvellous-{number:04}"));
        }
        let said: String = (0..500)
            .map(|number| format!("<marvellous-{number:04}>"))
            .collect();
        assert!(!masked(&said).contains("marvellous"));
        remember("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----\n");
        remember("users:\n- user:\n    token: 'sha256~abcdefghijklm'\n");
        assert_eq!(
            masked("x MIIEvQIBADANBgkqhkiG y sha256~abcdefghijklm"),
            "x … y …"
        );
    }
}
