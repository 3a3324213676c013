//! Credentials in plain text in a document: they should be references, and are shown
//! no more than those.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// How the keys of fields that hold a credential end, without what divides their words.
const ENDS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "privatekey",
    "apikey",
    "accesskey",
    "secretkey",
    "encryptionkey",
    "rootpw",
];

/// The last words of keys that hold one, where they are words of their own: a compass is no password.
const LAST_WORDS: [&str; 3] = ["pass", "pw", "pwd"];

/// Whether a field of this name holds a credential.
#[must_use]
pub fn is_credential(key: &str) -> bool {
    let last = key.bytes().last().map(|last| last.to_ascii_lowercase());
    if !matches!(
        last,
        Some(b'd' | b'e' | b't' | b'n' | b'l' | b'y' | b's' | b'w')
    ) {
        return false;
    }
    let is_divider = |letter: &u8| matches!(letter, b'_' | b'-' | b'.');
    let ends = |end: &&str| {
        let mut letters = key.bytes().rev().filter(|letter| !is_divider(letter));
        let mut wanted = end.bytes().rev();
        wanted.all(|wanted| {
            letters
                .next()
                .is_some_and(|letter| letter.eq_ignore_ascii_case(&wanted))
        })
    };
    let last_word = key.rsplit(['_', '-', '.']).next().unwrap_or(key);
    ENDS.iter().any(ends)
        || LAST_WORDS
            .iter()
            .any(|word| last_word.eq_ignore_ascii_case(word))
}

/// Whether a line of a text shows a credential, among the lines before it.
pub(super) fn is_shown<'a>(line: &str, before: impl Iterator<Item = &'a str>) -> bool {
    if shows_one(line) {
        return true;
    }
    // A text block, or a value on the line below its key.
    let mut indent = indent_of(line);
    if indent == 0 {
        return false;
    }
    for above in before {
        if above.trim().is_empty() {
            continue;
        }
        if indent_of(above) >= indent {
            continue;
        }
        indent = indent_of(above);
        if let Some((key, value)) = field_of(above)
            && is_credential(key)
        {
            let is_reference =
                value.is_empty() && field_of(line).is_some_and(|(key, _)| names_a_source(key));
            return !is_reference;
        }
        if indent == 0 {
            break;
        }
    }
    false
}

fn shows_one(line: &str) -> bool {
    static FIELD: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"(?:^|[\s{\[,"'-])([A-Za-z0-9_.-]+)["']?[ \t]*:(?:[ \t]+|$|["'])"#).ok()
    });
    if line.contains("-----BEGIN") {
        return true;
    }
    if in_addresses()
        .is_none_or(|(account, parameter)| account.is_match(line) || parameter.is_match(line))
    {
        return true;
    }
    let Some(field) = &*FIELD else {
        return true;
    };
    let mut from = 0;
    while let Some(found) = field.captures_at(line, from) {
        let (Some(whole), Some(key)) = (found.get(0), found.get(1)) else {
            return true;
        };
        // What separates it from its value may begin the next key.
        from = whole.end().max(from + 1);
        let value = line[whole.end()..].trim_start();
        let is_reference = value
            .strip_prefix('{')
            .and_then(|inside| inside.trim_start().split_once(':'))
            .is_some_and(|(key, _)| names_a_source(key.trim_matches(['"', '\'', ' '])));
        if is_credential(key.as_str()) && !value.is_empty() && !is_reference {
            return true;
        }
    }
    false
}

/// The credentials that an address can have: the password of an account, and one among the parameters.
fn in_addresses() -> Option<(&'static Regex, &'static Regex)> {
    static ACCOUNT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(://[^/\s:@]*):[^/\s@]+@").ok());
    static PARAMETER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let key = "[a-z0-9_.-]*(?:pass|secret|token|key|sig|auth)[a-z0-9_.-]*";
        Regex::new(&format!(r"(?i)([?&]{key}=)[^&\s]+")).ok()
    });
    Some((ACCOUNT.as_ref()?, PARAMETER.as_ref()?))
}

/// An address without the credentials in it.
#[must_use]
pub fn without_credentials(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let Some((account, parameter)) = in_addresses() else {
        return Cow::Borrowed("(secret)");
    };
    let text = account.replace_all(text, "${1}:(secret)@").into_owned();
    Cow::Owned(parameter.replace_all(&text, "${1}(secret)").into_owned())
}

/// Whether a text is an address with a password in it: `https://user:password@host`.
#[must_use]
pub fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else {
        return false;
    };
    let authority = rest
        .split(['/', '?', '#', ' ', '\n'])
        .next()
        .unwrap_or_default();
    let account = authority.rsplit_once('@').map(|(account, _)| account);
    account.is_some_and(|account| account.contains(':'))
}

/// Whether a field says where a secret is, and so holds none.
fn names_a_source(key: &str) -> bool {
    matches!(key, "env" | "file" | "exec" | "store")
}

/// The key that a line begins with, and what is behind it.
fn field_of(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim_start_matches([' ', '\t', '-']).split_once(':')?;
    Some((key.trim_matches(['"', '\'', ' ']), value.trim()))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '-']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_the_credentials_in_it() {
        for (text, shown) in [
            ("https://me:pw@h:1/x", "https://me:(secret)@h:1/x"),
            (
                "https://h/x?a=b&Token=pw&c=d",
                "https://h/x?a=b&Token=(secret)&c=d",
            ),
            ("https://me@h/x?page=2", "https://me@h/x?page=2"),
            ("pass ?token=word", "pass ?token=word"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
    }

    #[test]
    fn a_line_with_a_credential_is_known_and_one_with_a_reference_is_not() {
        for (line, shown) in [
            ("    password: hunter2", true),
            ("password: hunter2: x", true),
            ("oob: {type: redfish, credential: hunter2}", true),
            ("- admin-token: 'hunter2'", true),
            ("{\"password\":\"hunter2\"}", true),
            ("url: https://admin:hunter2@ironic:6385", true),
            ("url: https://hooks/x?a=b&Token=hunter2", true),
            ("url: https://hooks/x?page=2", false),
            ("key: -----BEGIN PRIVATE KEY-----", true),
            ("password: {env: BMC_PASSWORD}", false),
            ("credentials: {username: a, password: {file: b}}", false),
            ("password:", false),
            ("secret_name: registry", false),
            ("url: https://ironic:6385/v1", false),
            ("name: token", false),
            ("host_profile: cp", false),
        ] {
            assert_eq!(is_shown(line, std::iter::empty()), shown, "{line}");
        }
    }

    #[test]
    fn a_value_below_its_key_is_one_too() {
        let text = "a:\n  password: |\n    hunter2\n\n    more\n  token:\n    env: NAME\n  b: c";
        let lines: Vec<&str> = text.lines().collect();
        let shown: Vec<bool> = (0..lines.len())
            .map(|at| is_shown(lines[at], lines[..at].iter().rev().copied()))
            .collect();
        assert_eq!(
            shown,
            [false, true, true, false, true, false, false, false],
            "{text}"
        );
    }
}
