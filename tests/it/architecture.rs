//! Modules use only the modules that they may, and every file keeps the rules of the crate.
//!
//! The table of permitted edges is data here; `docs/architecture.md` says the same for people. Tests beside the
//! code are left out: they may build what they need from anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::source_files::{is_test, root, source_files, without_tests};

/// A module, and the modules that it may use.
const MODULES: &[(&str, &[&str])] = &[
    ("threads", &[]),
    ("diagnostic", &[]),
    ("telemetry", &["diagnostic", "threads"]),
    ("cache", &[]),
    ("repository", &["cache", "diagnostic", "threads"]),
    ("document", &["diagnostic", "repository"]),
    ("render", &["diagnostic", "document", "threads"]),
    ("lifecycle", &[]),
    ("remediation", &[]),
    ("identity", &["threads"]),
    // `remediation`: a policy says how often and how long.
    (
        "design",
        &[
            "diagnostic",
            "document",
            "identity",
            "lifecycle",
            "remediation",
            "render",
            "threads",
        ],
    ),
    (
        "site",
        &[
            "cache",
            "design",
            "diagnostic",
            "document",
            "render",
            "repository",
            "telemetry",
            "threads",
        ],
    ),
    (
        "observed",
        // `diagnostic`: what is wrong in a file of JSON.
        &[
            "design",
            "diagnostic",
            "identity",
            "lifecycle",
            "remediation",
        ],
    ),
    (
        "record",
        &[
            "cache",
            "design",
            "diagnostic",
            "identity",
            "lifecycle",
            "remediation",
            "repository",
            "threads",
        ],
    ),
    // `record`: a kind tells what becomes of the record of its node.
    (
        "step",
        &["design", "identity", "lifecycle", "record", "remediation"],
    ),
    // `step`: what a guard lets happen is what a step is told to do.
    (
        "guard",
        &["design", "diagnostic", "observed", "record", "step"],
    ),
    ("reservation", &["design", "document"]),
    // `repository`: ids of commits, and the process that holds a site.
    (
        "rollout",
        &["design", "diagnostic", "document", "guard", "repository"],
    ),
    (
        "diff",
        &["design", "diagnostic", "document", "render", "threads"],
    ),
    // `document`: a reason in a saved plan shows the values that differ, which are a document's.
    (
        "plan",
        &[
            "design",
            "diagnostic",
            "diff",
            "document",
            "guard",
            "identity",
            "lifecycle",
            "observed",
            "record",
            "remediation",
            "reservation",
            "step",
            "threads",
        ],
    ),
    // `document`: which fields of a design are secrets. Of `plan` and `guard` data types only.
    (
        "check",
        &[
            "design",
            "document",
            "guard",
            "identity",
            "lifecycle",
            "observed",
            "plan",
            "record",
            "reservation",
            "step",
        ],
    ),
    // `diagnostic`: marks of values that stand in no file.
    (
        "adopt",
        &["design", "diagnostic", "document", "identity", "observed"],
    ),
    // `diagnostic`, `document`: a backend reads its own settings out of the design and points into them.
    // `guard`: the same functions as at planning judge what is seen at the instant of the act.
    (
        "backend",
        &[
            "cache",
            "design",
            "diagnostic",
            "document",
            "guard",
            "identity",
            "lifecycle",
            "observed",
            "remediation",
            "step",
            "threads",
        ],
    ),
    // Its requests take the frame of the backends.
    ("forge", &["backend"]),
    // The rules of a site judge a plan as it is saved.
    ("rego", &["plan"]),
    ("journal", &["step"]),
    // `backend`: the lease of the lock is what each driver's fence reads.
    (
        "run",
        &[
            "backend",
            "design",
            "diagnostic",
            "identity",
            "journal",
            "plan",
            "record",
            "remediation",
            "repository",
            "step",
            "threads",
        ],
    ),
    // `design`: the dispatcher hands a backend the node as it is designed. `diagnostic`: errors in one line.
    (
        "apply",
        &[
            "backend",
            "design",
            "diagnostic",
            "guard",
            "identity",
            "journal",
            "lifecycle",
            "observed",
            "plan",
            "record",
            "remediation",
            "run",
            "step",
            "threads",
        ],
    ),
    // What users do, as functions: below every face that trueup has.
    (
        "workflow",
        &[
            "adopt",
            "apply",
            "backend",
            "check",
            "design",
            "diagnostic",
            "diff",
            "document",
            "guard",
            "identity",
            "journal",
            "lifecycle",
            "observed",
            "plan",
            "record",
            "rego",
            "repository",
            "reservation",
            "rollout",
            "run",
            "site",
            "step",
            "telemetry",
            "threads",
        ],
    ),
    // All values; nothing that acts but the events of `run`, which are its vocabulary.
    (
        "report",
        &[
            "design",
            "diagnostic",
            "diff",
            "document",
            "guard",
            "identity",
            "journal",
            "lifecycle",
            "observed",
            "plan",
            "record",
            "remediation",
            "render",
            "reservation",
            "rollout",
            "run",
            "step",
            "threads",
        ],
    ),
    // Requests in, workflows called, values shown: no planner and no state of its own.
    (
        "serve",
        &[
            "apply",
            "backend",
            "design",
            "guard",
            "journal",
            "lifecycle",
            "observed",
            "plan",
            "record",
            "report",
            "repository",
            "reservation",
            "run",
            "site",
            "step",
            "telemetry",
            "threads",
            "workflow",
        ],
    ),
    // Compiled for tests and fuzzers only; calls what reads bytes, and nothing calls it.
    (
        "fuzz",
        &[
            "backend",
            "design",
            "diagnostic",
            "document",
            "journal",
            "observed",
            "plan",
            "render",
            "report",
        ],
    ),
    (
        "cli",
        &[
            "adopt",
            "apply",
            "backend",
            "cache",
            "design",
            "diagnostic",
            "diff",
            "document",
            "forge",
            "guard",
            "identity",
            "journal",
            "lifecycle",
            "observed",
            "plan",
            "record",
            "remediation",
            "render",
            "report",
            "repository",
            "reservation",
            "rollout",
            "run",
            "serve",
            "site",
            "step",
            "telemetry",
            "threads",
            "workflow",
        ],
    ),
];

/// Edges that must never come into the table: user, used, and why.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("plan", "backend", "planning works from observations"),
    ("run", "apply", "a run is what the dispatcher reports to"),
    ("run", "report", "reporters listen to events"),
    ("apply", "report", "reporters listen to events"),
    ("workflow", "report", "whoever calls shows what came of it"),
    ("report", "backend", "a report shows values and asks nobody"),
    (
        "report",
        "repository",
        "a report shows values and asks nobody",
    ),
];

/// A crate, and the only modules that may use it.
const CRATES: &[(&str, &[&str])] = &[
    ("git2", &["repository"]),
    ("saphyr_parser", &["document"]),
    ("jsonschema", &["design"]),
    ("petgraph", &["design", "plan"]),
    ("similar", &["diff"]),
    ("rust_sugiyama", &["report"]),
    ("kube", &["backend"]),
    ("k8s_openapi", &["backend"]),
    // `cli`: it hands the terminal to the reporter.
    ("indicatif", &["cli", "report"]),
    ("axum", &["serve"]),
    ("hyper", &["serve"]),
    ("jsonwebtoken", &["serve"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
];

/// Functions from values to values.
const PURE: &[&str] = &[
    "document",
    "render",
    "lifecycle",
    "remediation",
    "design",
    "guard",
    "diff",
    "plan",
    "check",
    "adopt",
    "reservation",
    "rollout",
];

/// What the pure modules do not know.
const WORLD: &[&str] = &[
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "std::env::",
    "std::fs::",
    "TcpStream",
    "UdpSocket",
    "std::process::",
    "RandomState",
];

/// A file of the library without its tests.
pub(crate) struct File {
    path: PathBuf,
    /// Its path below `src`, with forward slashes.
    pub(crate) below: String,
    module: String,
    pub(crate) text: String,
}

/// Every file of `src` but those of tests; the tests at the end of a file are cut off.
pub(crate) fn files() -> Vec<File> {
    let source = root().join("src");
    source_files("src", "rs")
        .into_iter()
        .filter(|path| !is_test(path))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let below = path.strip_prefix(&source).unwrap();
            let first = below.components().next().unwrap().as_os_str();
            File {
                module: first.to_string_lossy().trim_end_matches(".rs").to_owned(),
                below: below.to_string_lossy().replace('\\', "/"),
                text: without_tests(&text).to_owned(),
                path,
            }
        })
        .collect()
}

/// The code alone: lines that are comments are left out.
pub(crate) fn code(text: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The modules that a text names: `crate::module`, `crate::{one, two::{…}}`.
fn used_modules(text: &str) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for (at, name) in text.match_indices("crate::") {
        if text[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
            continue;
        }
        let rest = &text[at + name.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            modules.insert(word(rest).to_owned());
            continue;
        };
        let (mut depth, mut begins) = (1, true);
        for (index, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                _ if begins && depth == 1 && !letter.is_whitespace() => {
                    modules.insert(word(&group[index..]).to_owned());
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    // What the crate's root itself has, such as a constant, is of no module.
    modules.retain(|name| name.starts_with(|letter: char| letter.is_lowercase()));
    modules
}

#[test]
fn names_of_rooms_are_read_from_paths_groups_and_expressions() {
    let text = "use crate::plan::Plan;\nuse crate::{\n    step, design::{Node, rule},\n};\nlet a = crate::record::b();\n$crate::no; my_crate::no";
    let found: Vec<_> = used_modules(&text.replace("$crate", "my_crate"))
        .into_iter()
        .collect();
    assert_eq!(found, ["design", "plan", "record", "step"]);
}

#[test]
fn rooms_use_only_the_rooms_that_they_may() {
    let permitted: BTreeMap<&str, BTreeSet<&str>> = MODULES
        .iter()
        .map(|(module, used)| (*module, used.iter().copied().collect()))
        .collect();
    let mut problems = Vec::new();
    for file in files() {
        if matches!(file.module.as_str(), "lib" | "main") {
            continue;
        }
        let Some(permitted) = permitted.get(file.module.as_str()) else {
            problems.push(format!(
                "{} is in no module of the table",
                file.path.display()
            ));
            continue;
        };
        for used in used_modules(&code(&file.text)) {
            if used != file.module && !permitted.contains(used.as_str()) {
                problems.push(format!("{}: {} → {used}", file.path.display(), file.module));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_table_of_rooms_has_one_direction_and_no_forbidden_edge() {
    for (module, used, why) in FORBIDDEN {
        let (_, permitted) = MODULES.iter().find(|(name, _)| name == module).unwrap();
        assert!(!permitted.contains(used), "{module} → {used}: {why}");
    }
    let mut before = BTreeSet::new();
    let mut left: Vec<_> = MODULES.iter().collect();
    while !left.is_empty() {
        let count = left.len();
        left.retain(|(module, used)| {
            let ready = used.iter().all(|used| before.contains(used));
            if ready {
                before.insert(*module);
            }
            !ready
        });
        assert!(left.len() < count, "in a circle: {left:?}");
    }
    let used_cli = MODULES.iter().find(|(_, used)| used.contains(&"cli"));
    assert!(used_cli.is_none(), "{used_cli:?} uses the command line");
}

#[test]
fn crates_that_touch_the_world_stay_in_their_rooms() {
    let mut problems = Vec::new();
    for file in files() {
        let code = code(&file.text);
        for (name, modules) in CRATES {
            let path = format!("{name}::");
            let uses = code.match_indices(&path).any(|(at, _)| {
                !code[..at]
                    .ends_with(|before: char| before.is_alphanumeric() || "_:".contains(before))
            });
            if uses && !modules.contains(&file.module.as_str()) {
                problems.push(format!(
                    "{}: {name} belongs to {modules:?}",
                    file.path.display()
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn pure_rooms_know_no_clock_no_files_and_no_environment() {
    let mut problems = Vec::new();
    for file in files() {
        if !PURE.contains(&file.module.as_str()) {
            continue;
        }
        let code = code(&file.text);
        for name in WORLD {
            if code.contains(name) {
                problems.push(format!("{}: {name}", file.path.display()));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// What the checker may take from the modules whose plans it judges, beside types and constants: how a value is read.
const READ_BY_THE_CHECKER: &[&str] = &["guards", "is_empty", "node"];

#[test]
fn the_checker_uses_data_types_of_the_planner_and_none_of_its_functions() {
    let all = files();
    let functions = |module: &str| -> BTreeSet<String> {
        let own = all.iter().filter(|file| file.module == module);
        let lines: Vec<String> = own
            .flat_map(|file| {
                code(&file.text)
                    .lines()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect();
        let named = lines.iter().filter_map(|line| {
            let (before, rest) = line.split_once("fn ")?;
            let is_defined = before.trim().is_empty() || before.trim_start().starts_with("pub");
            is_defined.then(|| word(rest).to_owned())
        });
        named.filter(|name| !name.is_empty()).collect()
    };
    let mut theirs = functions("plan");
    theirs.extend(functions("guard"));
    // Names that the modules below have, too, and the checker itself.
    // Those of the list of parameters are written by a macro.
    let parameters = all
        .iter()
        .find(|file| file.path.ends_with("step/parameters.rs"));
    let written = parameters.unwrap().text.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(": ")?;
        (rest.contains(" = ") && rest.ends_with(';')).then_some(name)
    });
    let written: BTreeSet<&str> = written.collect();
    assert!(written.contains("etcd_members"), "{written:?}");
    theirs.retain(|name| !written.contains(&**name));
    for module in [
        "check",
        "design",
        "document",
        "identity",
        "lifecycle",
        "observed",
        "record",
        "step",
    ] {
        let own = functions(module);
        theirs.retain(|name| !own.contains(name));
    }
    let common = [
        "all", "new", "of", "get", "is_none", "is_some", "contains", "insert", "extend", "push",
        "reduce",
    ];
    theirs.retain(|name| !common.contains(&&**name) && !READ_BY_THE_CHECKER.contains(&&**name));
    assert!(theirs.contains("is_partial"), "{theirs:?}");
    let mut problems = Vec::new();
    for file in all.iter().filter(|file| file.module == "check") {
        let code = code(&file.text);
        for name in &theirs {
            let called = [format!(".{name}("), format!("::{name}(")];
            if called.iter().any(|call| code.contains(call)) {
                problems.push(format!(
                    "{}: `{name}` is the planner's",
                    file.path.display()
                ));
            }
        }
        for module in ["plan", "guard"] {
            let path = format!("crate::{module}::");
            for (at, _) in code.match_indices(&path) {
                let rest = &code[at + path.len()..];
                let end = rest.find(';').unwrap_or(rest.len());
                let names = rest[..end]
                    .trim_matches(['{', '}'])
                    .split(',')
                    .map(str::trim);
                let functions = names
                    .map(word)
                    .filter(|name| name.starts_with(|letter: char| letter.is_lowercase()));
                problems.extend(
                    functions.map(|name| format!("{}: {module}::{name}", file.path.display())),
                );
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_design_comes_under_guards_in_one_place() {
    let makers = ["workflow/checkout.rs", "workflow/guarded.rs"];
    let mut problems = Vec::new();
    for file in files() {
        let is_maker = makers.contains(&file.below.as_str());
        if file.module != "guard" && !is_maker && code(&file.text).contains("Guarded::") {
            problems.push(format!("{} makes a Guarded", file.path.display()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_file_says_what_it_is_and_stays_short_and_finished() {
    let mut problems = Vec::new();
    for file in files() {
        let path = file.path.display();
        if !file.text.starts_with("//! ") {
            problems.push(format!("{path} does not say what it is"));
        }
        if file.text.lines().count() > 800 {
            problems.push(format!("{path} has more than 800 lines without its tests"));
        }
        let code = code(&file.text);
        for unfinished in ["todo!", "unimplemented!"] {
            if code.contains(unfinished) {
                problems.push(format!("{path}: {unfinished}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_map_in_the_documentation_is_the_table() {
    let map = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for (module, used) in MODULES {
        let row = map
            .lines()
            .find(|line| line.starts_with(&format!("| `{module}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/architecture.md has no row for `{module}`"));
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap().trim();
        let named: BTreeSet<&str> = cell.split(", ").filter(|name| !name.is_empty()).collect();
        let used: BTreeSet<&str> = used.iter().copied().collect();
        if *module == "cli" {
            assert_eq!(cell, "all");
        } else {
            assert_eq!(named, used, "the row of `{module}`");
        }
    }
}
