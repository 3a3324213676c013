//! Words of other tools, and of variables that are nearly ours: what is meant is told.

use std::ffi::OsString;

use super::{Failure, FailureKind, SETTABLE};
use crate::diagnostic::nearest;
use crate::report::Visible;

/// Flags of other tools, and what does the same here.
const FLAGS: [(&str, &str); 16] = [
    ("--json", "`--format json` prints JSON"),
    ("-json", "`--format json` prints JSON"),
    (
        "--output",
        "`--format json` prints JSON; `-o FILE` saves a plan",
    ),
    (
        "-o",
        "`--format json` prints JSON; `trueup plan -o FILE` saves a plan",
    ),
    (
        "--force",
        "nothing is forced: a plan names the flag that allows what it holds back, such as `--allow-redeploy NODE`",
    ),
    ("-auto-approve", "`--yes` applies without a question"),
    ("--auto-approve", "`--yes` applies without a question"),
    ("--approve", "`--yes` applies without a question"),
    (
        "--yes",
        "`trueup apply --yes` applies without a question; this command asks none",
    ),
    ("-y", "`trueup apply --yes` applies without a question"),
    (
        "--check",
        "`trueup plan --detailed-exitcode` ends with 2 where something differs",
    ),
    (
        "--dry-run",
        "`trueup plan` shows what `trueup apply` would do",
    ),
    (
        "-destroy",
        "`trueup plan teardown NODE` plans that a machine is erased",
    ),
    (
        "--destroy",
        "`trueup plan teardown NODE` plans that a machine is erased",
    ),
    (
        "-refresh-only",
        "`trueup status` shows what differs from the records",
    ),
    (
        "--refresh-only",
        "`trueup status` shows what differs from the records",
    ),
];

/// Commands of other tools, and what does the same here.
const COMMANDS: [(&str, &str); 12] = [
    ("delete", "`trueup apply teardown NODE` erases machines"),
    (
        "deploy",
        "`trueup apply` deploys what differs from the design, `trueup apply redeploy NODE` one machine anew",
    ),
    ("destroy", "`trueup apply teardown NODE` erases machines"),
    (
        "get",
        "`trueup status` shows the nodes, `trueup nodes` selects some",
    ),
    (
        "history",
        "`trueup log` lists the runs, `trueup log NODE` what they did to a node",
    ),
    (
        "import",
        "`trueup adopt` writes documents of what runs, `trueup plan --adopt NODE` takes a machine as it is",
    ),
    ("lint", "`trueup validate` checks every document"),
    ("refresh", "`trueup status` observes every machine"),
    (
        "resume",
        "`trueup apply --resume` resumes an interrupted run",
    ),
    (
        "rollback",
        "`trueup plan --to REVISION` plans the way back, and names what is lost by it",
    ),
    (
        "state",
        "`trueup status` shows the records, `trueup log` the runs",
    ),
    ("version", "`trueup --version` prints it"),
];

/// The meaning of a command line that cannot be read, where it has a word of another tool.
pub(super) fn meant(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    let words = arguments.iter().skip(1).map_while(|word| word.to_str());
    let words = words.take_while(|word| *word != "--");
    let (word, hint) = match error.kind() {
        clap::error::ErrorKind::UnknownArgument => {
            let unknown = error.get(clap::error::ContextKind::InvalidArg);
            let unknown = unknown.map(ToString::to_string).unwrap_or_default();
            // Of several letters behind one dash only the first is named.
            let is_meant = |word: &&str| match word.starts_with("--") {
                true => *word == unknown,
                false => word.starts_with(&unknown),
            };
            let words = words.map(|word| word.split('=').next().unwrap_or(word));
            let mut words = words.filter(is_meant);
            words.find_map(|word| row(&FLAGS, word))?
        }
        clap::error::ErrorKind::InvalidSubcommand => {
            let mut words = words;
            words.find_map(|word| row(&COMMANDS, word))?
        }
        _ => return None,
    };
    let message = format!("trueup has no `{word}`");
    Some(Failure::new(FailureKind::Usage, message).hint(hint))
}

fn row(table: &'static [(&str, &str)], word: &str) -> Option<(&'static str, &'static str)> {
    table.iter().find(|(foreign, _)| *foreign == word).copied()
}

/// Warnings about variables that are none of trueup's, and are spelt nearly like one. Others may have names of documents, which
/// refer to variables.
pub(super) fn misspelt(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known: Vec<String> = SETTABLE
        .iter()
        .map(|flag| format!("TRUEUP_{}", flag.to_uppercase().replace('-', "_")))
        .chain([super::complete::VARIABLE, "TRUEUP_TRUST_FILE"].map(str::to_owned))
        .chain(super::pager::VARIABLES.map(str::to_owned))
        .collect();
    let mut warnings: Vec<String> = names
        .filter_map(|name| {
            let name = name.into_string().ok()?;
            let own = name.strip_prefix("TRUEUP_")?;
            if own.starts_with("TEST_") || known.contains(&name) {
                return None;
            }
            let flags = known
                .iter()
                .filter_map(|known| known.strip_prefix("TRUEUP_"));
            let near = nearest(own, flags).filter(|near| strsim::levenshtein(own, near) <= 2)?;
            let name = Visible(&name);
            Some(format!(
                "warning: nothing reads the variable `{name}`; did you mean `TRUEUP_{near}`?"
            ))
        })
        .collect();
    warnings.sort();
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn words_of_other_tools_lead_to_ours() {
        for (line, hint) in [
            ("trueup plan --json", Some("--format json")),
            ("trueup apply -auto-approve", Some("--yes")),
            ("trueup apply --dry-run=client", Some("trueup plan")),
            ("trueup destroy", Some("teardown")),
            ("trueup deploy", Some("trueup apply")),
            ("trueup status -o json", Some("--format json")),
            ("trueup apply --force", Some("--allow-redeploy")),
            ("trueup state list", Some("trueup status")),
            ("trueup plan --yes", Some("trueup apply --yes")),
            ("trueup apply --yes --jsan", None),
            ("trueup plan --jsan", None),
        ] {
            let arguments = words(line);
            let error = super::super::command().try_get_matches_from(&arguments);
            let meant = meant(&arguments, &error.unwrap_err());
            let told = meant.map(|failure| failure.hints.join(" "));
            match hint {
                Some(hint) => assert!(told.unwrap().contains(hint), "{line}"),
                None => assert!(told.is_none(), "{line}"),
            }
        }
    }

    #[test]
    fn a_variable_that_is_nearly_ours_is_told() {
        let told = |name: &str| misspelt([OsString::from(name)].into_iter());
        assert!(told("TRUEUP_FORMTA")[0].contains("`TRUEUP_FORMAT`"));
        assert!(told("TRUEUP_BACKEND_FROM")[0].contains("`TRUEUP_BACKENDS_FROM`"));
        for name in [
            "TRUEUP_FORMAT",
            "TRUEUP_TEST_SEEDS",
            "TRUEUP_BMC_PASSWORD",
            "PATH",
            "TRUEUP_",
        ] {
            assert_eq!(told(name), Vec::<String>::new(), "{name}");
        }
    }
}
