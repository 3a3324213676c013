//! Results with every name replaced by another one, the same name by the same.
//!
//! The exceptions are the words of trueup's own schemas, times, digests, ids of runs, numbers, and in sentences the plain words. All
//! else counts as a name: names of machines, groups, sites, people and files, addresses, and values of documents. So a
//! field that is new, or a message of a server, gives no name away because a list does not have it yet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::natural;
use crate::design::schema;
use crate::step::StepKind;

/// Words of trueup that no schema has: its own name, those of tags, events and journals.
const WORDS: &[&str] = &[
    "trueup",
    "site-action-success",
    "site-action-failure",
    "sha256",
    "dag_id",
    "format_version",
    "anonymised",
    "run",
    "report",
    "plan",
    "events",
    "checkpoints",
    "journals",
    "part",
    "entries",
    "damage",
    "time",
    "elapsed_ms",
    "event",
    "run-started",
    "group-started",
    "step-started",
    "step-retried",
    "step-progress",
    "step-finished",
    "gate-evaluated",
    "group-finished",
    "checkpoint",
    "stopping",
    "warning",
    "run-finished",
    "resumed",
    "attempt",
    "message",
    "delay_ms",
    "percent",
    "remaining_ms",
    "stage",
    "prepared",
    "deployed",
    "successful",
    "passed",
    "unmet",
    "running",
    "tagged",
    "entry",
    "opened",
    "intent",
    "ended",
    "note",
    "journal",
    "incomplete",
    "attempted",
    "text",
    "outcome",
    "succeeded",
    "failed",
    "unknown",
    "skipped",
    "not-needed",
    "before",
    "after",
    "with_default",
    "with_control_plane_default",
];

/// The words of the schemas.
#[derive(Default)]
struct SchemaWords {
    /// The names of properties.
    properties: BTreeSet<String>,
    /// The values that a schema lists.
    values: BTreeSet<String>,
}

static SCHEMA_WORDS: LazyLock<SchemaWords> = LazyLock::new(|| {
    let mut words = SchemaWords::default();
    for (_, text) in schema::files() {
        collect(&serde_json::from_str(text).unwrap_or_default(), &mut words);
    }
    words
});

/// The words of the schemas and steps: a name that is one of them gives nothing away.
static VOCABULARY: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut words: BTreeSet<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
    words.extend(StepKind::ALL.iter().map(|kind| kind.as_str().to_owned()));
    words.extend(SCHEMA_WORDS.properties.iter().cloned());
    words.extend(SCHEMA_WORDS.values.iter().cloned());
    words
});

/// Adds the names of properties and the values of enumerations of a schema.
fn collect(schema: &Value, words: &mut SchemaWords) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        words.properties.extend(properties.keys().cloned());
                    }
                    ("enum", Value::Array(values)) => {
                        let values = values.iter().filter_map(Value::as_str);
                        words.values.extend(values.map(str::to_owned));
                    }
                    ("const", Value::String(value)) => {
                        words.values.insert(value.clone());
                    }
                    _ => {}
                }
                collect(value, words);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn regex(pattern: &str) -> Regex {
    // The patterns are those below, which the tests compile.
    #[expect(clippy::unwrap_used, reason = "each pattern is a constant")]
    let compiled = Regex::new(pattern).unwrap();
    compiled
}

/// The parts of a text: addresses, times, and the words between their separators.
static PARTS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?P<url>[A-Za-z][A-Za-z0-9+.-]*://[^\s`'<>\x22]+)",
        r"|(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)",
        r"|(?P<mail>[\p{L}\p{N}_.+%-]+@[\p{L}\p{N}_.-]+)",
        r"|(?P<mac>(?:[0-9A-Fa-f]{2}[:-]){5,}[0-9A-Fa-f]{2})",
        r"|(?P<six>[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)",
        r"|(?P<word>[\p{L}\p{N}_][\p{L}\p{N}\p{M}_.+%-]*)",
    ))
});

/// A word that is no name: a number with its unit, a day, a digest, the id of a run.
static PLAIN: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"^(?:\d+(?:\.\d+)?(?:%|ms|s|m|h|d|st|nd|rd|th|B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?|\d+(?:\.\d+){2}",
        r"|\d{4}-\d\d-\d\d|[0-9a-f]{40}|[0-9a-f]{64}|[0-7][0-9A-HJKMNP-TV-Z]{25})$",
    ))
});

/// Words of sentences with a capital letter; any other may be the name of a person.
const CAPITALS: &[&str] = &[
    "A",
    "An",
    "API",
    "BMC",
    "HTTP",
    "HTTPS",
    "It",
    "Its",
    "Kubernetes",
    "No",
    "Not",
    "Ready",
    "Redfish",
    "TLS",
    "The",
    "This",
];

/// Whether a word of a sentence is a plain one.
fn is_plain(word: &str) -> bool {
    word.chars().all(char::is_lowercase) || CAPITALS.contains(&word)
}

/// Whether a word of a text is a part of a path, or of what is named like one: `/home/jan`, `@jan`.
fn is_in_path(text: &str, word: std::ops::Range<usize>) -> bool {
    const SEPARATORS: [char; 4] = ['/', '\\', '~', '@'];
    text[..word.start].ends_with(SEPARATORS) || text[word.end..].starts_with(SEPARATORS)
}

/// The kinds of names that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Node,
    Group,
    Site,
    Person,
    Name,
}

impl Class {
    fn of_key(key: &str) -> Option<Self> {
        match key {
            "node" | "nodes" | "unverified" | "drifted" | "left_out" => Some(Self::Node),
            "group" | "groups" => Some(Self::Group),
            "site" => Some(Self::Site),
            "actor" | "author" | "by" | "caller" | "committer" | "email" | "holder"
            | "operator" | "principal" | "signer" | "signers" | "subject" | "user" | "who" => {
                Some(Self::Person)
            }
            "name" | "rack" | "host" | "cluster" => Some(Self::Name),
            _ => None,
        }
    }

    /// The class of a field's value, in an object of a class.
    fn below(key: &str, class: Option<Self>) -> Option<Self> {
        match (Self::of_key(key), class) {
            // The name of a person.
            (Some(Self::Name), Some(Self::Person)) => class,
            (Some(own), _) => Some(own),
            (None, class) => class.filter(|_| !is_own(key)),
        }
    }

    /// Whether a text that stands where names of this class do is a word of trueup all the same.
    fn is_trueups(self, text: &str) -> bool {
        is_reserved(text) || (self == Self::Person && SCHEMA_WORDS.values.contains(text))
    }

    fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Group => "group",
            Self::Site => "site",
            Self::Person => "person",
            Self::Name => "name",
        }
    }
}

/// Returns a value with its names replaced.
#[must_use]
pub fn anonymous(value: &Value) -> Value {
    let mut names = Names::default();
    names.find(value, None);
    names.give();
    names.replaced(value, None)
}

/// The names of a value, with those that take their places.
#[derive(Default)]
struct Names {
    found: BTreeMap<String, Class>,
    given: BTreeMap<String, String>,
}

/// Whether a word is kept wherever it stands.
fn is_own(word: &str) -> bool {
    VOCABULARY.contains(word)
        || PLAIN.is_match(word)
        || (word.contains('.') && word.split('.').all(|part| VOCABULARY.contains(part)))
}

/// Whether a word of trueup is kept even where only a name can stand: what is read again would mean something else.
fn is_reserved(word: &str) -> bool {
    StepKind::named(word).is_some() || WORDS.contains(&word)
}

fn is_sentence(text: &str) -> bool {
    text.contains(char::is_whitespace)
}

/// A word without the full stop of its sentence.
fn bare(word: &str) -> &str {
    word.trim_end_matches(['.', '-', '+', '%'])
}

impl Names {
    fn find(&mut self, value: &Value, class: Option<Class>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if !is_own(key) {
                        self.add_all(key, class);
                    }
                    self.find(value, Class::below(key, class));
                }
            }
            Value::Array(values) => {
                for value in values {
                    self.find(value, class.filter(|_| value.is_string()));
                }
            }
            Value::String(text) => self.add_all(text, class),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Adds the names of a text. In a sentence a plain word is no name, unless it is one elsewhere or the sentence is a person's name.
    fn add_all(&mut self, text: &str, class: Option<Class>) {
        let is_whole = PARTS
            .find(text)
            .is_some_and(|found| found.len() == text.len());
        let is_person = class == Some(Class::Person);
        // Where only a name can stand, also a word of the schemas is one.
        let is_name = (is_whole || is_person) && class.is_some_and(|class| !class.is_trueups(text));
        if is_own(text) && !is_name {
            return;
        }
        let is_sentence = is_sentence(text);
        for found in PARTS.captures_iter(text) {
            let whole = &found[0];
            let name = match found.name("word") {
                Some(word) => bare(word.as_str()),
                None if found.name("time").is_some() => continue,
                None => whole,
            };
            let is_kept = match (is_name, is_whole) {
                (true, true) => false,
                // A number beside a name.
                (true, false) => PLAIN.is_match(name),
                (false, _) => {
                    let place = found.get(0);
                    let is_in_path = place.is_some_and(|at| is_in_path(text, at.range()));
                    is_own(name) || (is_sentence && is_plain(name) && !is_in_path)
                }
            };
            if is_kept {
                continue;
            }
            let class = class
                .filter(|_| is_whole || is_person)
                .unwrap_or(Class::Name);
            let known = self.found.entry(name.to_owned()).or_insert(class);
            *known = class.min(*known);
        }
    }

    /// Gives each name another one, in the order of names for people.
    fn give(&mut self) {
        let mut all: Vec<(&String, Class)> = self
            .found
            .iter()
            .map(|(name, class)| (name, *class))
            .collect();
        all.sort_by(|one, other| one.1.cmp(&other.1).then_with(|| natural(one.0, other.0)));
        let mut last: BTreeMap<&str, u32> = BTreeMap::new();
        for (name, class) in all {
            let kind = kind_of(name, class);
            let count = last.entry(kind).or_default();
            let given = loop {
                *count += 1;
                let given = another(kind, *count);
                // A name that is another's own would tell of it.
                if !self.found.contains_key(&given) {
                    break given;
                }
            };
            self.given.insert(name.clone(), given);
        }
    }

    fn text(&self, text: &str, class: Option<Class>) -> String {
        if class.map_or_else(|| is_own(text), |class| class.is_trueups(text)) {
            return text.to_owned();
        }
        let replaced = PARTS.replace_all(text, |found: &Captures<'_>| {
            let whole = &found[0];
            let Some(word) = found.name("word") else {
                return self
                    .given
                    .get(whole)
                    .cloned()
                    .unwrap_or_else(|| whole.to_owned());
            };
            let name = bare(word.as_str());
            let given = self.given.get(name);
            // A person may be called so, and the word is kept where it is trueup's own.
            match given.filter(|_| class == Some(Class::Person) || !is_reserved(name)) {
                Some(given) => format!("{given}{}", &word.as_str()[name.len()..]),
                None => whole.to_owned(),
            }
        });
        replaced.into_owned()
    }

    fn replaced(&self, value: &Value, class: Option<Class>) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| {
                    let below = Class::below(key, class);
                    // The keys of a map by name, also if one is a word of the schemas.
                    let name = self.given.get(key);
                    let name = name.filter(|_| class.is_some() && !is_reserved(key));
                    let key = name.cloned().unwrap_or_else(|| self.text(key, None));
                    (key, self.replaced(value, below))
                });
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Value::Array(values) => values
                .iter()
                .map(|value| self.replaced(value, class.filter(|_| value.is_string())))
                .collect(),
            Value::String(text) => Value::String(self.text(text, class)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// The kind of the name that takes the place of another.
fn kind_of(name: &str, class: Class) -> &'static str {
    let address = name.parse::<IpAddr>();
    match address {
        Ok(IpAddr::V4(_)) => return "v4",
        Ok(IpAddr::V6(_)) => return "v6",
        Err(_) => {}
    }
    match PARTS.captures(name) {
        Some(found) if found[0].len() == name.len() => match () {
            () if found.name("url").is_some() => "url",
            () if found.name("mail").is_some() => "mail",
            () if found.name("mac").is_some() => "mac",
            () => class.word(),
        },
        _ => class.word(),
    }
}

/// The name with a number, of the networks and domains that are for documentation.
fn another(kind: &str, number: u32) -> String {
    match kind {
        "v4" => Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + number).to_string(),
        "v6" => {
            let first = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0).to_bits();
            Ipv6Addr::from_bits(first + u128::from(number)).to_string()
        }
        "mac" => {
            let [a, b, c, d] = number.to_be_bytes();
            format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
        }
        "url" => format!("https://host-{number}.invalid"),
        "mail" => format!("person-{number}@host.invalid"),
        word => format!("{word}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_replaced_and_words_of_trueup_stay() {
        let value = json!({
            "site": "edge",
            "nodes": [{"node": "rack-b-2", "message": "`deploy` failed on rack-b-2: 10.1.2.3 refused after 30s."},
                      {"node": "rack-b-10", "failed_step": "deploy/workers/rack-b-10"}],
            "groups": {"workers": {"critical": true}},
            "group": "workers",
            "started": "2026-11-27T08:36:45Z",
            "plan_digest": "3fcae762e709fa26cc9bc03cfcc5682c87699b9bdf47d97743d5202f3ca92b1b",
            "run": "01M8E2CPA8FJRBXK3FKDT7KBMR",
            "message": "Ada <ada@corp.example> asked https://bmc.corp.example/redfish of 52:54:00:12:34:56, fe80::1 of edge.",
        });
        assert_eq!(
            anonymous(&value),
            json!({
                "site": "site-1",
                "nodes": [{"node": "node-1", "message": "`deploy` failed on node-1: 198.18.0.1 refused after 30s."},
                          {"node": "node-2", "failed_step": "deploy/group-1/node-2"}],
                "groups": {"group-1": {"critical": true}},
                "group": "group-1",
                "started": "2026-11-27T08:36:45Z",
                "plan_digest": "3fcae762e709fa26cc9bc03cfcc5682c87699b9bdf47d97743d5202f3ca92b1b",
                "run": "01M8E2CPA8FJRBXK3FKDT7KBMR",
                "message": "name-1 <person-1@host.invalid> asked https://host-1.invalid of 02:00:00:00:00:01, 2001:db8::1 of site-1.",
            })
        );
    }

    #[test]
    fn nothing_of_a_person_or_a_path_is_left() {
        for (value, expected) in [
            // Plain words, words of the schemas and of steps are names if a person is named, and replaced elsewhere, too.
            (
                json!({"actor": "jan novak", "message": "asked by jan, not by novak"}),
                json!({"actor": "person-1 person-2", "message": "asked by person-1, not by person-2"}),
            ),
            (
                json!({"actor": "deploy eva", "message": "the deploy failed"}),
                json!({"actor": "person-1 person-2", "message": "the deploy failed"}),
            ),
            (
                json!({"break_glass": {"by": "jan", "reason": "jan is on call"}}),
                json!({"break_glass": {"by": "person-1", "reason": "person-1 is on call"}}),
            ),
            (
                json!({"who": "jan", "email": "owner", "by": {"name": "eva jan"}}),
                json!({"who": "person-2", "email": "person-3", "by": {"name": "person-1 person-2"}}),
            ),
            // What a schema lists is read again.
            (
                json!({"by": "out-of-service"}),
                json!({"by": "out-of-service"}),
            ),
            (
                json!({"message": "cannot read /home/jan/keys of ~eva or @mia"}),
                json!({"message": "cannot read /name-2/name-3/name-4 of ~name-1 or @name-5"}),
            ),
            // The words of trueup stay, also in paths.
            (
                json!({"message": "step deploy/blade/n1 failed and ended"}),
                json!({"message": "step deploy/name-1/name-2 failed and ended"}),
            ),
        ] {
            assert_eq!(anonymous(&value), expected);
        }
    }

    /// The words of all texts of a value, with its keys.
    fn words(value: &Value, found: &mut BTreeSet<String>) {
        let add = |text: &str, found: &mut BTreeSet<String>| {
            let all =
                text.split(|letter: char| !letter.is_alphanumeric() && !"-_".contains(letter));
            found.extend(all.map(str::to_owned));
        };
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    add(key, found);
                    words(value, found);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| words(value, found)),
            Value::String(text) => add(text, found),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    proptest! {
        /// None of the names is left, equal names stay equal, and different ones different.
        #[test]
        fn nothing_of_the_names_is_left(
            nodes in proptest::collection::btree_set("[a-z]{1,3}[a-z0-9-]{0,8}[a-z0-9]", 1..6),
            site in "(node-[1-3]|[a-z]{4,9})",
            host in "[a-z]{3,8}-[0-9]{1,3}",
        ) {
            let is_name = |name: &str| !is_own(name);
            prop_assume!(is_name(&site) && is_name(&host) && nodes.iter().all(|name| is_name(name)));
            let rows = nodes.iter().map(|node| json!({
                "node": node,
                "step": format!("deploy/{site}/{node}"),
                "message": format!("cannot reach {host} of `{node}`, of the site {site}."),
            }));
            let records = nodes.iter().map(|node| (node.clone(), json!({"host": format!("{host}.example.org")})));
            let value = json!({
                "site": site,
                "runs": rows.collect::<Vec<_>>(),
                "nodes": records.collect::<Map<_, _>>(),
            });
            let replaced = anonymous(&value);
            let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
            words(&value, &mut before);
            words(&replaced, &mut after);
            let sentence = ["cannot", "reach", "of", "the", "", "runs", "host", "org", "example"];
            for name in nodes.iter().chain([&site, &host]) {
                prop_assume!(!sentence.contains(&name.as_str()));
                prop_assert!(!after.contains(name), "{name} in {replaced}");
            }
            let again: BTreeSet<&str> = replaced["runs"].as_array().unwrap().iter().filter_map(|row| row["node"].as_str()).collect();
            prop_assert_eq!(again.len(), nodes.len());
            for row in replaced["runs"].as_array().unwrap() {
                let node = row["node"].as_str().unwrap();
                let (step, quoted) = (format!("/{node}"), format!("`{node}`"));
                prop_assert!(row["step"].as_str().unwrap().ends_with(&step));
                prop_assert!(row["message"].as_str().unwrap().contains(&quoted));
                prop_assert!(replaced["nodes"].get(node).is_some());
            }
        }
    }
}
