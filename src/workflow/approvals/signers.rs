//! The allowed signers of a site: whose keys may approve, and whose may sign runs.
//!
//! The file has the format of `ssh-keygen` (ALLOWED SIGNERS), of which only the plain part is taken: a principal, options
//! that limit its key, and the key. Whatever could mean more keys or more people than a reviewer sees (patterns, lists,
//! certificate authorities, one key of two people, options that are not known) makes the whole file void.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::design::ApprovalPolicy;
use crate::guard::SignerTime;
use crate::repository::PublicKey;

/// Bytes and lines of the largest file.
pub(super) const LARGEST: u64 = 1 << 18;
const MOST: usize = 1000;

/// Bytes of the longest principal.
const LONGEST: usize = 200;

/// A key that may sign for a purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The person.
    pub principal: String,
    /// The key.
    pub key: PublicKey,
    /// `valid-after` and `valid-before`, as they are written.
    limits: Vec<String>,
    /// The limits of the same key at other revisions, all of which have to hold.
    limits_elsewhere: Vec<Vec<String>>,
    /// The purpose that it was looked for.
    namespace: &'static str,
}

impl Signer {
    /// The line that `ssh-keygen` verifies a signature by: this key, for this principal and this purpose.
    #[must_use]
    pub fn line(&self) -> String {
        self.limited(&self.limits)
    }

    /// The lines that a signature has to hold by, one for each revision that has a say.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let all = std::iter::once(&self.limits).chain(&self.limits_elsewhere);
        all.map(|limits| self.limited(limits))
    }

    fn limited(&self, limits: &[String]) -> String {
        let own = format!("namespaces=\"{}\"", self.namespace);
        let options: Vec<&str> = std::iter::once(own.as_str())
            .chain(limits.iter().map(String::as_str))
            .collect();
        format!("{} {} {}", self.principal, options.join(","), self.key)
    }

    /// The signer if another list has the same key of the same person, under the limits of both.
    #[must_use]
    pub(super) fn also_in(mut self, list: &[Self]) -> Option<Self> {
        let same = |other: &&Self| other.key == self.key && other.principal == self.principal;
        let other = list.iter().find(same)?;
        let more = std::iter::once(&other.limits).chain(&other.limits_elsewhere);
        for limits in more {
            if *limits != self.limits && !self.limits_elsewhere.contains(limits) {
                self.limits_elsewhere.push(limits.clone());
            }
        }
        Some(self)
    }

    /// The time in which its key counts. A time zone makes hours of difference, and is left out.
    pub(super) fn time(&self) -> SignerTime {
        time_of(&self.limits)
    }

    /// Whether its key counts no more, at any of the revisions that have a say.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        let mut all = std::iter::once(&self.limits).chain(&self.limits_elsewhere);
        all.any(|limits| time_of(limits).is_over(now))
    }

    /// Whether its key is for a part of time only.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        !self.limits.is_empty()
    }
}

/// The time that the limits of a key leave it.
fn time_of(limits: &[String]) -> SignerTime {
    let digits = |name: &str| {
        let value = limits.iter().find_map(|limit| limit.strip_prefix(name))?;
        let digits: String = value.chars().filter(char::is_ascii_digit).collect();
        format!("{digits:0<14}").parse().ok()
    };
    SignerTime {
        after: digits("valid-after"),
        before: digits("valid-before"),
    }
}

/// The signers that a file names for a purpose.
///
/// # Errors
///
/// A line says more than a key of a person.
pub(super) fn read(text: &str, namespace: &'static str) -> Result<Vec<Signer>, String> {
    let mut signers: Vec<Signer> = Vec::new();
    let mut of_key: BTreeMap<PublicKey, usize> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if number > MOST {
            return Err(format!("it has more than {MOST} lines"));
        }
        let signer = signer(line, namespace).map_err(|why| format!("line {number}: {why}"))?;
        let Some(signer) = signer else { continue };
        if let Some(other) = of_key.insert(signer.key.clone(), number) {
            return Err(format!(
                "line {number}: the key stands in line {other}, too"
            ));
        }
        signers.push(signer);
    }
    Ok(signers)
}

/// The signer of a line; `None`: its key is for other purposes.
fn signer(line: &str, namespace: &'static str) -> Result<Option<Signer>, String> {
    let mut words = line.split_ascii_whitespace();
    let principal = words.next().unwrap_or_default();
    let is_plain = |each: char| each.is_ascii_graphic() && !"*?!,\"'\\#`".contains(each);
    if principal.len() > LONGEST || !principal.chars().all(is_plain) {
        return Err(format!(
            "`{}` is not one principal without patterns",
            principal.escape_debug()
        ));
    }
    let rest: Vec<&str> = words.collect();
    let key = |at: usize| PublicKey::read(rest.get(at)?, rest.get(at + 1)?);
    let (options, key) = match (key(0), key(1)) {
        (Some(key), _) => ("", key),
        (None, Some(key)) => (rest.first().copied().unwrap_or_default(), key),
        (None, None) => return Err("there is no key behind the principal".to_owned()),
    };
    if key.kind().contains("-cert-") {
        return Err("certificates are not taken".to_owned());
    }
    let mut limits = Vec::new();
    let mut is_ours = true;
    for (name, value) in self::options(options)? {
        match name.as_str() {
            "namespaces" => {
                let names: Vec<&str> = value.split(',').collect();
                if names.iter().any(|name| name.contains(['*', '?', '!'])) {
                    return Err("patterns in `namespaces` are not taken".to_owned());
                }
                is_ours = names.contains(&namespace);
            }
            "valid-after" | "valid-before" => {
                let digits = value.strip_suffix('Z').unwrap_or(&value);
                let is_time = digits.bytes().all(|byte| byte.is_ascii_digit());
                if !is_time || !matches!(digits.len(), 8 | 12 | 14) {
                    return Err(format!("`{name}` is no time"));
                }
                limits.push(format!("{name}=\"{value}\""));
            }
            _ => return Err(format!("option `{}` is not taken", name.escape_debug())),
        }
    }
    Ok(is_ours.then(|| Signer {
        principal: principal.to_owned(),
        key,
        limits,
        limits_elsewhere: Vec::new(),
        namespace,
    }))
}

/// The options of a line: `name="value"` with commas between, each once.
fn options(mut text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut options = BTreeMap::new();
    while !text.is_empty() {
        let named = text
            .split_once("=\"")
            .filter(|(name, _)| !name.contains(','));
        let Some((name, (value, rest))) =
            named.and_then(|(name, rest)| Some((name, rest.split_once('"')?)))
        else {
            let name = text.split([',', '=']).next().unwrap_or_default();
            return Err(format!("option `{}` is not taken", name.escape_debug()));
        };
        text = match rest.strip_prefix(',') {
            Some(rest) if !rest.is_empty() => rest,
            None if rest.is_empty() => rest,
            _ => return Err("its options are not closed".to_owned()),
        };
        if options
            .insert(name.to_ascii_lowercase(), value.to_owned())
            .is_some()
        {
            return Err(format!("option `{}` stands twice", name.escape_debug()));
        }
    }
    Ok(options)
}

/// The rules that some signers cannot meet at a time, in words; none, if keys are kept for recovery that can.
pub(super) fn unmet_by(policy: &ApprovalPolicy, signers: &[Signer], now: Timestamp) -> Vec<String> {
    let recovery = policy.recovery.as_ref();
    if recovery.is_some_and(|rule| people(signers, &rule.of, now) as u64 >= rule.count) {
        return Vec::new();
    }
    let unmet = policy.rules.iter().filter_map(|rule| {
        let (name, count, there) = (rule.scope, rule.count, people(signers, &rule.of, now));
        let of = match rule.of.is_empty() {
            true => String::new(),
            false => format!(" of {}", rule.of.join(", ")),
        };
        let over = people(signers, &rule.of, Timestamp::MIN) - there;
        let over = match over {
            0 => String::new(),
            over => format!(" that counts, and {over} more whose time is over"),
        };
        let text =
            format!("`{name}` asks for {count}{of}, and {there} of them have a key there{over}");
        ((there as u64) < count).then_some(text)
    });
    unmet.collect()
}

/// How many people of a rule have a key whose time is not over; of a rule that names none, all.
pub(super) fn people(signers: &[Signer], of: &[Arc<str>], now: Timestamp) -> usize {
    let counting = signers.iter().filter(|signer| !signer.is_over(now));
    let names = counting.map(|signer| signer.principal.to_lowercase());
    let known: BTreeSet<String> = names.collect();
    let counts = |name: &&String| of.iter().any(|each| each.to_lowercase() == **name);
    match of.is_empty() {
        true => known.len(),
        false => known.iter().filter(counts).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::NAMESPACE;

    const ADA: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJKSEMGnxdB2QI2XAlTKx7TTr0vTMxSG4vWhAQTZSmYz";
    const BOB: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn principals(text: &str) -> Result<Vec<String>, String> {
        Ok(read(text, NAMESPACE)?.iter().map(Signer::line).collect())
    }

    #[test]
    fn keys_of_people_are_read_with_the_options_that_limit_them() {
        let text = format!(
            "# people\n\nada@example.org {ADA} her laptop\nbob@example.org namespaces=\"git,{NAMESPACE}\",valid-before=\"20310101\" {BOB}\n"
        );
        assert_eq!(
            principals(&text).unwrap(),
            [
                format!("ada@example.org namespaces=\"{NAMESPACE}\" {ADA}"),
                format!(
                    "bob@example.org namespaces=\"{NAMESPACE}\",valid-before=\"20310101\" {BOB}"
                ),
            ]
        );
        let other = format!("ada@example.org namespaces=\"git\" {ADA}\n");
        assert_eq!(
            principals(&other).unwrap(),
            [""; 0],
            "a key for commits only"
        );
    }

    #[test]
    fn a_line_that_could_mean_more_than_a_key_of_a_person_voids_the_file() {
        for line in [
            format!("* {ADA}"),
            format!("*@example.org {ADA}"),
            format!("ada@example.or? {ADA}"),
            format!("!bob,ada {ADA}"),
            format!("ada,bob {ADA}"),
            format!("\"ada\" {ADA}"),
            format!("ada cert-authority {ADA}"),
            format!("ada CERT-AUTHORITY {ADA}"),
            format!("ada namespaces=\"trueup-*\" {ADA}"),
            format!("ada namespaces=\"{NAMESPACE}\",cert-authority {ADA}"),
            format!("ada cert-authority,namespaces=\"{NAMESPACE}\" {ADA}"),
            format!("ada namespaces=\"{NAMESPACE}\",namespaces=\"git\" {ADA}"),
            format!("ada valid-before=\"tomorrow\" {ADA}"),
            format!("ada valid-before=\"20310101 {ADA}"),
            format!("ada valid-before=\"20310101\"x {ADA}"),
            format!("ada verify-required {ADA}"),
            format!("ada no-touch-required=\"x\" {ADA}"),
            format!("ada {}", ADA.replace("ssh-ed25519", "ssh-rsa")),
            "ada ssh-ed25519".to_owned(),
            "ada".to_owned(),
            format!("{} {ADA}", "a".repeat(300)),
            format!("ad\u{202e}a {ADA}"),
            format!("ada {ADA}\nbob {ADA}"),
            format!("ada {ADA}\nada {ADA}"),
        ] {
            assert!(read(&line, NAMESPACE).is_err(), "{line}");
        }
        let many = format!("ada {ADA}\n") + &"# more\n".repeat(MOST) + &format!("bob {BOB}\n");
        assert!(read(&many, NAMESPACE).is_err());
    }
}
