//! Words of other tools, and of variables that are nearly ours: what is meant is told.

use std::ffi::OsString;

use super::{Failure, FailureKind, SETTABLE, action, variable};
use crate::diagnostic::nearest;
use crate::report::Visible;

const DOCUMENTS: &str = "the documents are those of the checkout: `-C DIR` names another one, and `trueup plan --rev R` plans another revision";
const SOME_NODES: &str = "`--target NODE` plans only for some nodes: names, globs, `group:NAME`, `rack:NAME`, `tag:NAME`";
const VALUES: &str = "values are in the documents of the site: `trueup render` prints them after their layers and substitutions";
const WAY_BACK: &str =
    "`trueup plan --to REVISION` plans the way back, and names what is lost by it";
const STOPS: &str = "Ctrl-C, or SIGTERM, stops a run after the steps that have begun; `trueup abort RUN` ends one that was interrupted";
const LAST_RUNS: &str = "`-n NUMBER` lists so many of the last runs";
const FOLLOWS: &str = "a run reports as it goes; `trueup serve` has pages that follow it";

/// Flags of other tools, and what does the same here.
const FLAGS: [(&str, &str); 39] = [
    (
        "-lock",
        "each apply takes the lock of the site; `trueup plan` takes none",
    ),
    (
        "-no-color",
        "`--color never` prints without colours, as `NO_COLOR` does",
    ),
    (
        "-refresh",
        "`--observed none` plans without observing the machines",
    ),
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
    ("-f", DOCUMENTS),
    ("--file", DOCUMENTS),
    ("--filename", DOCUMENTS),
    (
        "--diff",
        "a plan shows what differs; `trueup diff A B` compares documents of two revisions",
    ),
    ("--watch", FOLLOWS),
    ("-w", FOLLOWS),
    ("--follow", FOLLOWS),
    ("--limit", SOME_NODES),
    ("-l", SOME_NODES),
    ("--selector", SOME_NODES),
    ("--tags", SOME_NODES),
    (
        "-i",
        "`-C DIR` names the repository, `--site NAME` a site of it, which lists its machines",
    ),
    (
        "--inventory",
        "`-C DIR` names the repository, `--site NAME` a site of it, which lists its machines",
    ),
    ("-var", VALUES),
    ("-var-file", VALUES),
    ("--var", VALUES),
    ("--set", VALUES),
    (
        "-replace",
        "`trueup plan redeploy NODE` builds a machine anew",
    ),
    (
        "--replace",
        "`trueup plan redeploy NODE` builds a machine anew",
    ),
    (
        "--write",
        "`trueup fmt` writes; `trueup fmt --check` names the files only",
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
        "`trueup plan --detailed-exitcode` ends with 2 if there are changes, and with 3 if some are destructive",
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

/// Flags of other tools that mean something else at a command than elsewhere.
const FLAGS_OF_COMMANDS: [(&str, &str, &str); 3] = [
    ("log", "--limit", LAST_RUNS),
    ("log", "--max-count", LAST_RUNS),
    ("log", "--last", LAST_RUNS),
];

/// Commands of other tools, and what does the same here.
const COMMANDS: [(&str, &str); 34] = [
    (
        "blame",
        "`trueup log NODE` tells what was done to a machine, and by whom; `git blame` who wrote a document",
    ),
    ("cancel", STOPS),
    (
        "check",
        "`trueup validate` checks every document, `trueup doctor` what an apply needs",
    ),
    (
        "config",
        "settings are in the documents of the site, and those of a person in variables that are named as flags are: `TRUEUP_FORMAT=json`",
    ),
    ("delete", "`trueup apply teardown NODE` erases machines"),
    (
        "deploy",
        "`trueup apply` deploys what differs from the design, `trueup apply redeploy NODE` one machine anew",
    ),
    (
        "describe",
        "`trueup explain NODE` tells all that is known of a node and why, `trueup log NODE` its history",
    ),
    ("destroy", "`trueup apply teardown NODE` erases machines"),
    (
        "force-unlock",
        "`trueup unlock RUN` releases the lock of a run whose process is gone, and `trueup status` names it",
    ),
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
    (
        "list",
        "`trueup status` shows the nodes, `trueup nodes` selects some",
    ),
    ("lint", "`trueup validate` checks every document"),
    (
        "lock",
        "each apply takes the lock of the site by itself; `trueup status` names the run that holds it",
    ),
    (
        "logs",
        "`trueup log` lists the runs, `trueup show RUN` one of them, `trueup console NODE` what a machine says",
    ),
    (
        "ls",
        "`trueup status` shows the nodes, `trueup nodes` selects some",
    ),
    (
        "output",
        "`trueup render` prints the documents, `trueup nodes --format json` what is known of each node",
    ),
    ("refresh", "`trueup status` observes every machine"),
    (
        "rename",
        "a machine is called as its BaremetalNode document: change it there, and its record moves with it where the machine is recognised",
    ),
    (
        "resume",
        "`trueup apply --resume` resumes an interrupted run",
    ),
    (
        "poweroff",
        "`trueup plan power off NODE` shows what it does, `trueup apply power off NODE` does it",
    ),
    ("revert", WAY_BACK),
    ("rollback", WAY_BACK),
    (
        "state",
        "`trueup status` shows the records, `trueup log` the runs",
    ),
    (
        "ssh",
        "`trueup console NODE` shows the serial console of a machine",
    ),
    ("taint", "`trueup plan redeploy NODE` builds a machine anew"),
    (
        "test",
        "`trueup validate` checks every document, `trueup try` tries commands on a simulated copy",
    ),
    ("stop", STOPS),
    (
        "sync",
        "`git pull` follows the branch, `trueup apply` brings the machines to it",
    ),
    ("undo", WAY_BACK),
    ("version", "`trueup --version` prints it"),
    (
        "who",
        "`trueup log` tells who began each run, `trueup status` who holds the lock",
    ),
    (
        "workspace",
        "`--site NAME` chooses one of several sites, and `trueup sites` lists them",
    ),
];

/// The meaning of a command line that cannot be read, if it has a word of another tool.
pub(super) fn meant(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    let words = arguments.iter().skip(1).map_while(|word| word.to_str());
    let words = words.take_while(|word| *word != "--");
    let (word, hint) = match error.kind() {
        clap::error::ErrorKind::UnknownArgument => {
            let unknown = error.get(clap::error::ContextKind::InvalidArg);
            let unknown = unknown.map(ToString::to_string).unwrap_or_default();
            // Of several letters behind one dash only the first that is unknown is named.
            let letter = unknown.strip_prefix('-').unwrap_or(&unknown);
            let is_meant = |word: &&str| match word.starts_with("--") {
                true => *word == unknown,
                false => word
                    .strip_prefix('-')
                    .is_some_and(|letters| letters.contains(letter)),
            };
            let words = words.map(|word| word.split('=').next().unwrap_or(word));
            let mut words = words.filter(is_meant);
            let is_number = |word: &&str| {
                let mut letters = word.chars();
                letters.next() == Some('-')
                    && letters.next().is_some_and(|next| next.is_ascii_digit())
            };
            if let Some(word) = words.clone().find(is_number) {
                let message =
                    format!("`{word}` is no flag, and no number or time here is negative");
                return Some(Failure::new(FailureKind::Usage, message));
            }
            let of_tool = |word| of_command(arguments, word).or_else(|| row(&FLAGS, word));
            if let Some(found) = words.clone().find_map(of_tool) {
                found
            } else if let Some(failure) = of_another_command(&unknown) {
                return Some(failure);
            } else {
                let is_ours = |word: &&str| {
                    let name = word.strip_prefix('-').filter(|name| name.len() > 1);
                    name.is_some_and(|name| is_flag(&super::command(), name))
                };
                let word = words.find(is_ours)?;
                let message = format!("trueup has no `{word}`");
                return Some(
                    Failure::new(FailureKind::Usage, message)
                        .hint(format!("flags of words have two dashes: `-{word}`")),
                );
            }
        }
        clap::error::ErrorKind::InvalidSubcommand => {
            let unknown = error.get(clap::error::ContextKind::InvalidSubcommand);
            let unknown = unknown.map(ToString::to_string)?;
            // Commands of a command have words of their own.
            let command = super::command();
            let mut before = words.take_while(|word| *word != unknown);
            let after = before.find(|word| command.find_subcommand(word).is_some());
            if after.is_some_and(|after| after != "help") {
                return None;
            }
            let meant = row(&COMMANDS, &unknown).map(|(_, hint)| hint);
            if let Some(hint) = meant.or_else(|| action::of_another_tool(&unknown)) {
                let message = format!("trueup has no command `{unknown}`");
                return Some(Failure::new(FailureKind::Usage, message).hint(hint));
            }
            if after.is_some() {
                let names = command.get_subcommands().map(clap::Command::get_name);
                let message = format!("trueup has no command `{unknown}`");
                let near = nearest(&unknown, names)?;
                let hint = format!("did you mean `trueup help {near}`?");
                return Some(Failure::new(FailureKind::Usage, message).hint(hint));
            }
            let mut next = arguments.iter().skip_while(|word| ***word != *unknown);
            let next = next.nth(1).and_then(|word| word.to_str());
            let (action, usage) = action::usage_of(&unknown, next)?;
            let message = format!("`{action}` is an action, not a command");
            return Some(Failure::new(FailureKind::Usage, message).hint(format!(
                "`trueup plan {usage}` shows what it does, `trueup apply {usage}` does it"
            )));
        }
        clap::error::ErrorKind::MissingRequiredArgument => {
            let commands = super::command();
            let mut words = words.filter(|word| commands.find_subcommand(word).is_some());
            let command = words
                .next()
                .filter(|word| matches!(*word, "abort" | "unlock"))?;
            let message =
                format!("`trueup {command}` needs the run, by its id or the beginning of it");
            return Some(
                Failure::new(FailureKind::Usage, message)
                    .hint("`trueup status` names the run that has not ended"),
            );
        }
        _ => return None,
    };
    let message = format!("trueup has no `{word}`");
    Some(Failure::new(FailureKind::Usage, message).hint(hint))
}

/// That a flag is one of other commands only.
fn of_another_command(flag: &str) -> Option<Failure> {
    let name = flag.strip_prefix("--")?;
    let command = super::command();
    let with_it = |below: &&clap::Command| is_flag(below, name);
    let names = command.get_subcommands().filter(with_it);
    let names: Vec<String> = names
        .map(|command| format!("`trueup {}`", command.get_name()))
        .collect();
    let (last, before) = names.split_last()?;
    let names = match before {
        [] => last.clone(),
        before => format!("{} and {last}", before.join(", ")),
    };
    let message = format!("this command has no `{flag}`");
    let hint = format!("it is a flag of {names}");
    Some(Failure::new(FailureKind::Usage, message).hint(hint))
}

/// Takes away what the parser guesses from a word that is no mistake of typing: `--follow` is not nearly `--color`.
pub(super) fn without_guess(error: &mut clap::Error) {
    use clap::error::ContextKind::{
        InvalidArg, InvalidSubcommand, SuggestedArg, SuggestedSubcommand, Usage,
    };
    for (wrong, guess) in [
        (InvalidArg, SuggestedArg),
        (InvalidSubcommand, SuggestedSubcommand),
    ] {
        let (Some(word), Some(guesses)) = (error.get(wrong), error.get(guess)) else {
            continue;
        };
        let word = word.to_string();
        let guesses = guesses.to_string();
        let mut guesses = guesses.split(", ");
        let is_near = |near: &str| {
            near.starts_with(&word)
                || word.starts_with(near)
                || strsim::damerau_levenshtein(&word, near) <= 1 + word.len() / 12
        };
        if !guesses.any(is_near) {
            error.remove(guess);
            // It is that of the guess.
            error.remove(Usage);
        }
    }
}

/// The meaning of a flag of another tool at the command that is called.
fn of_command(arguments: &[OsString], flag: &str) -> Option<(&'static str, &'static str)> {
    let commands = super::command();
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let command = words
        .filter_map(|word| commands.find_subcommand(word))
        .next()?;
    let mut rows = FLAGS_OF_COMMANDS.iter();
    let row = rows.find(|(at, word, _)| *at == command.get_name() && *word == flag)?;
    Some((row.1, row.2))
}

fn row(table: &'static [(&str, &str)], word: &str) -> Option<(&'static str, &'static str)> {
    table.iter().find(|(foreign, _)| *foreign == word).copied()
}

/// The variable that gave the value which a flag does not take: the message of the parser names the flag alone.
pub(super) fn variable_of(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    if !matches!(
        error.kind(),
        clap::error::ErrorKind::InvalidValue | clap::error::ErrorKind::ValueValidation
    ) {
        return None;
    }
    let flag = error.get(clap::error::ContextKind::InvalidArg)?.to_string();
    let flag = flag.split([' ', '=']).next()?.strip_prefix("--")?;
    let is_given = arguments.iter().any(|word| {
        let word = word.to_str().and_then(|word| word.strip_prefix("--"));
        word.is_some_and(|word| word.split('=').next() == Some(flag))
    });
    let variable = variable(flag);
    let is_set = SETTABLE.contains(&flag) && std::env::var_os(&variable).is_some();
    (is_set && !is_given).then_some(variable)
}

/// Warnings about variables that are none of trueup's, and are spelt nearly like one. Others may have names of documents, which
/// refer to variables.
pub(super) fn misspelt(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known: Vec<String> = SETTABLE
        .iter()
        .map(|flag| variable(flag))
        .chain([super::complete::VARIABLE, "TRUEUP_TRUST_FILE"].map(str::to_owned))
        .chain(super::pager::VARIABLES.map(str::to_owned))
        .collect();
    let command = std::cell::LazyCell::new(super::command);
    let mut warnings: Vec<String> = names
        .filter_map(|name| {
            let name = name.into_string().ok()?;
            let own = name.strip_prefix("TRUEUP_")?;
            if own.starts_with("TEST_") || known.contains(&name) {
                return None;
            }
            let name = Visible(&name);
            let flag = own.to_lowercase().replace('_', "-");
            if is_flag(&command, &flag) {
                return Some(format!(
                    "warning: nothing reads the variable `{name}`: `--{flag}` is given with each command"
                ));
            }
            let flags = known
                .iter()
                .filter_map(|known| known.strip_prefix("TRUEUP_"));
            let near = nearest(own, flags).filter(|near| strsim::levenshtein(own, near) <= 2)?;
            Some(format!(
                "warning: nothing reads the variable `{name}`; did you mean `TRUEUP_{near}`?"
            ))
        })
        .collect();
    warnings.sort();
    warnings
}

/// Whether a command, or one below it, has a flag.
fn is_flag(command: &clap::Command, flag: &str) -> bool {
    let is_own = command
        .get_arguments()
        .any(|argument| argument.get_long() == Some(flag));
    is_own || command.get_subcommands().any(|below| is_flag(below, flag))
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
            ("trueup apply --all-sites", Some("`trueup plan`")),
            ("trueup apply -auto-approve", Some("--yes")),
            ("trueup apply --dry-run=client", Some("trueup plan")),
            ("trueup destroy", Some("teardown")),
            ("trueup deploy", Some("trueup apply")),
            ("trueup status -o json", Some("--format json")),
            ("trueup apply --force", Some("--allow-redeploy")),
            ("trueup state list", Some("trueup status")),
            ("trueup plan --yes", Some("trueup apply --yes")),
            ("trueup drain edge-1", Some("`trueup apply drain NODE`")),
            ("trueup ls", Some("trueup nodes")),
            ("trueup reboot edge-1", Some("power off")),
            ("trueup apply -f nodes.yaml", Some("-C DIR")),
            ("trueup status --watch", Some("trueup serve")),
            ("trueup abort", Some("`trueup status` names the run")),
            (
                "trueup unlock --force",
                Some("`trueup status` names the run"),
            ),
            ("trueup plan -var a=b", Some("`trueup render`")),
            ("trueup plan -target=edge-1", Some("`--target`")),
            ("trueup apply --limit edge-1", Some("`--target NODE`")),
            ("trueup workspace list", Some("`--site NAME`")),
            ("trueup log --follow", Some("`trueup serve`")),
            ("trueup log --limit 3", Some("`-n NUMBER`")),
            ("trueup rollout list", None),
            ("trueup rollout abort fleet", None),
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
    fn only_what_is_nearly_a_word_of_ours_is_guessed() {
        for (line, guess) in [
            ("trueup log --oneline", None),
            ("trueup log --offlien", Some("--offline")),
            ("trueup plan --detailed", Some("--detailed-exitcode")),
            ("trueup taimt", None),
            ("trueup stauts", Some("status")),
        ] {
            let error = super::super::command().try_get_matches_from(words(line));
            let mut error = error.unwrap_err();
            without_guess(&mut error);
            let told = error.to_string();
            match guess {
                Some(guess) => assert!(told.contains(&format!("'{guess}'")), "{told}"),
                None => assert!(!told.contains("similar"), "{told}"),
            }
        }
    }

    #[test]
    fn a_variable_that_is_nearly_ours_is_told() {
        let told = |name: &str| misspelt([OsString::from(name)].into_iter());
        assert!(told("TRUEUP_FORMTA")[0].contains("`TRUEUP_FORMAT`"));
        assert!(told("TRUEUP_ALLOW_REDEPLOY")[0].contains("`--allow-redeploy` is given"));
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
