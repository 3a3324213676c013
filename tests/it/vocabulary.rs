//! The words of the field, in code, documentation, schemas and help: phrases that must not come back.
//!
//! One concept has one word, which is the one that operators search for. Lines that continue a paragraph are joined
//! to it first, so that a phrase is found across a line break.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use regex::Regex;

use super::source_files::{root, source_files};

/// Phrases as regular expressions, and the words to use instead.
const PHRASES: &[(&str, &str)] = &[
    ("where there is", "if there is"),
    (
        "(nobody|somebody|anybody|everybody|whoever)('s)?",
        "the program, process, client or operator that is meant",
    ),
    (
        "(go|goes|going|gone|went) on( with)?",
        "resume, continue, run",
    ),
    ("(give|gives|giving|given|gave) up", "abort, time out"),
    ("(give|gives|given) (it|them|one|a run) up", "abort"),
    ("seen (off|on|Ready)|not seen off", "off, observed off"),
    (
        "(let|lets|letting) (it |them |one )?go( of)?",
        "release, unfence",
    ),
    (
        "(held|hold|holds|holding) (it |them |a machine |machines )?off",
        "fenced, powered off",
    ),
    ("(was|were|is|are|be|been|as) seen", "observed, read, found"),
    (
        "cannot be seen|could not be seen",
        "cannot be observed, invisible",
    ),
    (
        "(look|looks|looked|looking) at",
        "observe, read, check, poll",
    ),
    ("(go|goes|went) two ways", "diverged"),
    ("(lose|loses|lost) the site", "lost the lock, fenced"),
    ("rooms?|the house", "module; space"),
    ("mend|mends|mended|mending", "repair, reconcile"),
    ("patience", "timeout, deadline"),
    ("tenure", "lease"),
    (
        "errands?|deeds?|carriers?|movers?",
        "step, driver, executor",
    ),
    ("knows no|cannot hold", "unsupported, unknown"),
    (
        "(is|are|was|were) not there( any more| yet)?",
        "not found, missing, unknown",
    ),
    (
        "of that name|where there (is|are) none",
        "with that name; not found",
    ),
    ("until (somebody|someone)", "needs manual intervention"),
    ("reliances?", "precondition"),
    ("what came of", "result, outcome"),
    (
        "says? (who|what|which|so|nothing|how|no)",
        "names, holds, reports, lists",
    ),
    ("the whole way|long way|short way", "plan, steps; full load"),
    ("side by side|beside each other", "in parallel; merge join"),
    ("git's words", "any revision that git understands"),
    ("dead run|run (that )?died", "crashed run"),
    ("tried again|another go", "retried"),
    ("makes? known|made known", "publish"),
    ("farewells?", "end of the session"),
    ("suffers?", "inject"),
    ("does not begin there", "refused"),
];

/// Names of types that readers of the field do not know.
const NAMES: &[&str] = &[
    "Beside", "Carrier", "Deed", "Ear", "Errand", "Kept", "Mover", "Patience", "Reliance",
    "Sifted", "Tenure", "Trouble",
];

/// Openings of doc comments that circumscribe a noun.
const OPENINGS: &[&str] = &[
    "What ",
    "Who ",
    "Whoever ",
    "The same for ",
    "The same with ",
];

/// Where a phrase stays: the end of the path, a part of the line, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "",
        "rule-simulated-nobody",
        "a code that scripts match: codes stay",
    ),
    (
        "",
        "api_troubles_total",
        "the name of a metric: dashboards match it",
    ),
];

/// A line of a text, with the beginning of the next if that continues it.
struct Line {
    place: String,
    text: String,
    /// How much of `text` is the line itself.
    own: usize,
    /// Whether it begins a doc comment.
    begins: bool,
}

fn is_doc(line: &str) -> bool {
    line.starts_with("///") || line.starts_with("//!")
}

/// A line without indentation, marks of comments and list items.
fn stripped(line: &str) -> &str {
    line.trim()
        .trim_start_matches(['/', '!'])
        .trim_start_matches([' ', '>'])
}

/// The lines of a text; `name`: its place in messages.
fn lines(name: &str, text: &str) -> Vec<Line> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let made = lines.iter().enumerate().map(|(index, line)| {
        let own = stripped(line).trim_end_matches('\\').trim_end();
        let next = lines.get(index + 1).copied().unwrap_or_default();
        let is_continued = line.starts_with("//") == next.starts_with("//") && !line.is_empty();
        let rest = if is_continued { stripped(next) } else { "" };
        Line {
            place: format!("{name}:{}", index + 1),
            text: format!("{own} {rest}"),
            own: own.len(),
            begins: is_doc(line)
                && !index
                    .checked_sub(1)
                    .is_some_and(|before| is_doc(lines[before])),
        }
    });
    made.collect()
}

/// All texts that users and readers of the code see.
fn texts() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    for (folder, extension) in [("src", "rs"), ("docs", "md"), ("schemas", "json")] {
        paths.extend(source_files(folder, extension));
    }
    paths.sort();
    let read = |path: PathBuf| {
        let below = path.strip_prefix(root()).unwrap().to_string_lossy();
        let text = std::fs::read_to_string(&path).unwrap();
        (below.replace('\\', "/"), text)
    };
    paths.into_iter().map(read).collect()
}

fn help(words: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_trueup"))
        .args(words)
        .arg("--help")
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The help of each command, with that of its subcommands.
fn helps() -> Vec<(String, String)> {
    let mut open = vec![Vec::new()];
    let mut found = Vec::new();
    while let Some(words) = open.pop() {
        let text = help(&words);
        let commands = text.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in commands.take_while(|line| !line.is_empty()) {
            let is_name = line.starts_with("  ") && !line.starts_with("   ");
            let name = line.split_whitespace().next().filter(|_| is_name);
            if let Some(name) = name.filter(|name| *name != "help") {
                open.push([words.as_slice(), &[name.to_owned()]].concat());
            }
        }
        found.push((format!("trueup {} --help", words.join(" ")), text));
    }
    assert!(found.len() > 15, "the commands are found in the help");
    found
}

/// The violations of one text, as lines for people.
fn violations(name: &str, text: &str, phrases: &[(Regex, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines(name, text) {
        let is_excepted =
            |(path, part, _): &(&str, &str, &str)| name.ends_with(path) && line.text.contains(part);
        if EXCEPTIONS.iter().any(is_excepted) {
            continue;
        }
        for (phrase, instead) in phrases {
            let hit = phrase.find(&line.text).filter(|hit| hit.start() < line.own);
            if let Some(hit) = hit {
                found.push(format!("{}: `{}`: {instead}", line.place, hit.as_str()));
            }
        }
        let opening = OPENINGS
            .iter()
            .find(|opening| line.text.starts_with(**opening));
        if let Some(opening) = opening.filter(|_| line.begins) {
            found.push(format!(
                "{}: `{}` opens a doc comment: name the noun, or a verb in the third person",
                line.place,
                opening.trim()
            ));
        }
    }
    found
}

fn compiled() -> Vec<(Regex, &'static str)> {
    let names = format!(r"\b({})\b", NAMES.join("|"));
    let phrases = PHRASES.iter().map(|(phrase, instead)| {
        let phrase = Regex::new(&format!(r"(?i)\b({phrase})\b")).unwrap();
        (phrase, *instead)
    });
    let names = (Regex::new(&names).unwrap(), "a name of the field");
    phrases.chain([names]).collect()
}

#[test]
fn texts_use_the_words_of_the_field() {
    let phrases = compiled();
    let mut found = BTreeSet::new();
    for (name, text) in texts().into_iter().chain(helps()) {
        found.extend(violations(&name, &text, &phrases));
    }
    let found: Vec<String> = found.into_iter().collect();
    assert!(
        found.is_empty(),
        "{} phrases:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn phrases_are_found_in_comments_messages_and_across_lines() {
    let text = "/// What a step does.\n/// It goes\n/// on.\nlet text = \"nobody is here\";\n// rule-simulated-nobody\n";
    assert_eq!(
        violations("src/x.rs", text, &compiled()),
        [
            "src/x.rs:1: `What` opens a doc comment: name the noun, or a verb in the third person",
            "src/x.rs:2: `goes on`: resume, continue, run",
            "src/x.rs:4: `nobody`: the program, process, client or operator that is meant",
        ]
    );
}
