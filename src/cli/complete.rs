//! Candidates for the word at the cursor of a shell: actions, nodes, groups, sites, runs, revisions.
//!
//! The script that `trueup completions` prints asks the program at each key press. It answers from the checkout
//! alone: no backend and no remote is contacted, no program is started, and nothing is told on stderr. Names of a
//! large site are those that its last load left in the cache; what takes longer than [`TIMEOUT`] is not completed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Arg, ValueHint};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};

use super::action;
use super::context::Context;
use crate::diagnostic::in_shell;
use crate::guard::{WordKind, is_by_name};
use crate::guard::{in_list, start_of_last_word};
use crate::record::Store;
use crate::repository::Repository;
use crate::site::{Accept, At, Depth, Detail, Loader, Names, Settings, site_names};
use crate::workflow::Checkout;

/// The variable by which the script names its shell.
pub(super) const VARIABLE: &str = "TRUEUP_COMPLETE";

/// The longest time that candidates from the checkout may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// More candidates are folded to what they begin with.
const MOST: usize = 1000;

/// The newest runs that are offered.
const RUNS: usize = 100;

/// The subject of an argument's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An action, and then its nodes.
    ActionAndNodes,
    /// Words for nodes.
    Words,
    /// The same, or `all`.
    WordsOrAll,
    Groups,
    Racks,
    Tags,
    Clusters,
    Sites,
    Runs,
    Revisions,
    Remotes,
}

impl Kind {
    /// The subject of an argument of a command; `None`: nothing of the checkout.
    fn of(command: &str, argument: &Arg) -> Option<Self> {
        if argument.is_positional() {
            return match command {
                "plan" | "apply" => Some(Self::ActionAndNodes),
                "status" | "nodes" | "accept" | "explain" | "learn" | "console" | "reserve"
                | "release"
                    if argument.get_id() != "by" =>
                {
                    Some(Self::Words)
                }
                "show" | "abort" | "unlock" | "explain" => Some(Self::Runs),
                "etcd" => Some(Self::Clusters),
                _ => None,
            };
        }
        match argument.get_long()? {
            "exclude" | "no-etcd-here" | "node-is-gone" | "target" => Some(Self::Words),
            "adopt" | "allow-destroy" | "allow-redeploy" | "allow-reinstall" | "allow-restart"
            | "allow-unverified" => Some(Self::WordsOrAll),
            "group" => Some(Self::Groups),
            "rack" => Some(Self::Racks),
            "tag" => Some(Self::Tags),
            "destroy-etcd" => Some(Self::Clusters),
            "site" => Some(Self::Sites),
            "affected-by" | "backends-from" | "base" | "diff" | "rev" => Some(Self::Revisions),
            "remote" => Some(Self::Remotes),
            _ => None,
        }
    }
}

impl Kind {
    /// Whether a flag of it takes several, which commas divide.
    fn is_list(self) -> bool {
        matches!(
            self,
            Self::Words | Self::WordsOrAll | Self::Groups | Self::Racks | Self::Tags
        )
    }
}

/// Answers a shell that asks for candidates; `None`: no shell does.
pub(super) fn answer(arguments: &[OsString]) -> Option<u8> {
    // The script puts `--` before the words. Without it, a variable that is left set must not keep a command from
    // being run.
    let is_asked = std::env::var_os(VARIABLE).is_some_and(|shell| !shell.is_empty());
    if !is_asked || arguments.get(1).is_none_or(|word| word != "--") || arguments.len() < 3 {
        return None;
    }
    let line = Arc::new(Line::read(&arguments[2..]));
    let here = std::env::current_dir().ok();
    let completed = CompleteEnv::with_factory(|| with_completers(super::command(), &line))
        .var(VARIABLE)
        .try_complete(arguments.iter().cloned(), here.as_deref());
    Some(u8::from(completed.is_err()))
}

/// Attaches the candidates to the arguments of a command and of those below it.
fn with_completers(command: clap::Command, line: &Arc<Line>) -> clap::Command {
    let name = command.get_name().to_owned();
    command
        .mut_args(|argument| match Kind::of(&name, &argument) {
            Some(kind) => {
                let is_list = match argument.is_positional() {
                    true => matches!(
                        &*name,
                        "accept" | "apply" | "nodes" | "plan" | "status" | "reserve" | "release"
                    ),
                    false => kind.is_list(),
                };
                let takes_file = matches!(name.as_str(), "apply" | "show" | "explain");
                let completer = Completer {
                    kind,
                    takes_file: takes_file && argument.is_positional(),
                    is_list,
                    line: Arc::clone(line),
                };
                argument.add(ArgValueCompleter::new(completer))
            }
            None => match argument.get_id().as_str() {
                "directory" | "folder" => argument.value_hint(ValueHint::DirPath),
                "out" if name == "man" => argument.value_hint(ValueHint::DirPath),
                "out" | "observed" | "save_observed" | "report" => {
                    argument.value_hint(ValueHint::AnyPath)
                }
                _ => argument,
            },
        })
        .mut_subcommands(|command| with_completers(command, line))
}

struct Completer {
    kind: Kind,
    takes_file: bool,
    /// Commas divide its value.
    is_list: bool,
    line: Arc<Line>,
}

impl ValueCompleter for Completer {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(current_text) = current.to_str() else {
            return Vec::new();
        };
        let start = match self.is_list {
            true => start_of_last_word(current_text),
            false => 0,
        };
        let (before, beginning) = current_text.split_at(start);
        let mut candidates = if self.kind == Kind::ActionAndNodes && !self.line.has_action() {
            actions(beginning)
        } else {
            let names = self.line.candidates(self.kind);
            // What is wider than a name is offered once its prefix is begun.
            let is_meant = |name: &String| {
                name.starts_with(beginning) && (!beginning.is_empty() || is_by_name(name))
            };
            let written = |name: String| match self.is_list {
                true => in_list(&name),
                false => name,
            };
            // The shell reads what it is given as if it had been typed, and documents are not written by who types.
            let names = names.into_iter().map(written);
            let names = names.filter(|name| in_shell([name.as_str()]) == **name && is_meant(name));
            let folded = folded(names.collect(), beginning.chars().count());
            let whole = folded.into_iter().map(|name| format!("{before}{name}"));
            whole.map(CompletionCandidate::new).collect()
        };
        if self.takes_file && !self.line.has_action() {
            candidates.extend(PathCompleter::file().complete(current));
        }
        candidates
    }
}

fn actions(beginning: &str) -> Vec<CompletionCandidate> {
    let mut seen = BTreeSet::new();
    let rows = action::ACTIONS.iter().filter_map(|(usage, about)| {
        let word = usage.split(' ').next()?;
        let is_new = word.starts_with(beginning) && seen.insert(word);
        is_new.then(|| CompletionCandidate::new(word).help(Some((*about).into())))
    });
    rows.collect()
}

/// The beginnings of names, as long as there are not too many of them; `typed`: characters that all begin with.
fn folded(names: Vec<String>, typed: usize) -> Vec<String> {
    if names.len() <= MOST {
        return names;
    }
    let longest = names.iter().map(|name| name.chars().count()).max();
    let beginnings = |length: usize| -> BTreeSet<String> {
        let cut = names.iter().map(|name| name.chars().take(length));
        cut.map(Iterator::collect).collect()
    };
    let lengths = typed + 1..=longest.unwrap_or_default();
    let all = lengths.map(beginnings);
    let last = all.take_while(|each| each.len() <= MOST).last();
    last.unwrap_or_default().into_iter().collect()
}

/// The words of a command line that is completed.
struct Line {
    words: Vec<String>,
    directory: Option<PathBuf>,
    site: Option<String>,
    names: OnceLock<Names>,
}

impl Line {
    fn read(words: &[OsString]) -> Self {
        let words = words.iter().map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.collect();
        let value = |short: &str, long: &str| {
            let mut pairs = words
                .windows(2)
                .filter(|pair| pair[0] == short || pair[0] == long);
            let joined = words.iter().find_map(|word| {
                let of_long = word
                    .strip_prefix(long)
                    .and_then(|rest| rest.strip_prefix('='));
                of_long.or_else(|| word.strip_prefix(short).filter(|_| short.len() == 2))
            });
            let joined = joined.filter(|value| !value.is_empty());
            let found = pairs.next().map(|pair| pair[1].as_str()).or(joined);
            found.map(str::to_owned)
        };
        Self {
            directory: value("-C", "-C").map(PathBuf::from),
            site: value("--site", "--site"),
            names: OnceLock::new(),
            words,
        }
    }

    /// Whether an action was typed before the word at the cursor.
    fn has_action(&self) -> bool {
        let typed = self.words.len().saturating_sub(1);
        let mut before = self.words[..typed].iter().skip(1);
        before.any(|word| action::words().any(|action| action == word))
    }

    /// Whether `power` was typed, and neither `on` nor `off`.
    fn wants_power(&self) -> bool {
        let typed = self.words.len().saturating_sub(1);
        self.words[..typed]
            .last()
            .is_some_and(|word| word == "power")
    }

    /// All candidates of a kind.
    fn candidates(self: &Arc<Self>, kind: Kind) -> Vec<String> {
        if kind == Kind::ActionAndNodes && self.wants_power() {
            return vec!["on".to_owned(), "off".to_owned()];
        }
        let (sender, receiver) = channel();
        let line = Arc::clone(self);
        // The thread ends with the process.
        std::thread::spawn(move || sender.send(line.collect(kind).unwrap_or_default()));
        receiver.recv_timeout(TIMEOUT).unwrap_or_default()
    }

    fn collect(&self, kind: Kind) -> Option<Vec<String>> {
        let context = Context::silent(self.directory.clone(), self.site.clone())?;
        let repository = context.unattended_repository()?;
        match kind {
            Kind::Sites => {
                let from = context.inside(&repository);
                return site_names(&repository, At::Worktree, &from).ok();
            }
            Kind::Remotes => return repository.remotes().ok(),
            Kind::Revisions => return Some(revisions(&repository)),
            _ => {}
        }
        let checkout = context.checkout(&repository).ok()?;
        if kind == Kind::Runs {
            return runs(&checkout);
        }
        let names = self.names.get_or_init(|| names(&checkout));
        let lists: &[&Vec<String>] = match kind {
            Kind::ActionAndNodes | Kind::Words | Kind::WordsOrAll => &[&names.nodes],
            Kind::Groups => &[&names.groups],
            Kind::Racks => &[&names.racks],
            Kind::Tags => &[&names.tags],
            Kind::Clusters => &[&names.clusters],
            Kind::Sites | Kind::Runs | Kind::Revisions | Kind::Remotes => &[],
        };
        let mut all: BTreeSet<String> =
            lists.iter().flat_map(|list| list.iter().cloned()).collect();
        match kind {
            Kind::ActionAndNodes | Kind::Words => all.extend(wider(names)),
            Kind::WordsOrAll => {
                all.extend(wider(names));
                all.insert("all".to_owned());
            }
            Kind::Groups
            | Kind::Racks
            | Kind::Tags
            | Kind::Clusters
            | Kind::Sites
            | Kind::Runs
            | Kind::Revisions
            | Kind::Remotes => {}
        }
        Some(all.into_iter().collect())
    }
}

/// The words for groups, racks and tags.
fn wider(names: &Names) -> impl Iterator<Item = String> {
    let lists = [
        (WordKind::Group, &names.groups),
        (WordKind::Rack, &names.racks),
        (WordKind::Tag, &names.tags),
    ];
    let words = |(kind, names): (WordKind, &Vec<String>)| {
        let words = names.iter().map(|name| kind.word(name));
        words.collect::<Vec<_>>()
    };
    lists.into_iter().flat_map(words)
}

/// The names of a site: those in the cache, or else those of its documents.
fn names(checkout: &Checkout<'_>) -> Names {
    if let Some(cached) = Names::cached(checkout.repository, &checkout.location) {
        return cached;
    }
    let settings = Settings {
        depth: Depth::Typed,
        detail: Detail::Designs,
        accept: Accept {
            missing_sources: true,
            duplicate_keys: true,
        },
    };
    let mut loader = Loader::new(checkout.repository);
    let site = loader.load(&checkout.location, At::Worktree, settings);
    site.map(|site| Names::of(&site)).unwrap_or_default()
}

/// The words for revisions, branches and tags, but not the tags of runs.
fn revisions(repository: &Repository) -> Vec<String> {
    let words = [
        "worktree",
        "committed",
        "successful-site-action",
        "last-site-action",
    ];
    let mut all: Vec<String> = words.map(str::to_owned).into();
    for folder in ["refs/heads/", "refs/remotes/", "refs/tags/"] {
        let refs = repository.refs(folder).unwrap_or_default();
        let names = refs.keys().filter_map(|name| name.strip_prefix(folder));
        let names = names.filter(|name| !name.starts_with("site-action-"));
        all.extend(names.map(str::to_owned));
    }
    all
}

/// The newest runs, the newest first.
fn runs(checkout: &Checkout<'_>) -> Option<Vec<String>> {
    let store = Store::open(checkout.repository, &checkout.location.site).ok()?;
    let mut runs = store.runs(&store.read().ok()?).ok()?;
    runs.sort_unstable();
    let newest = runs.iter().rev().take(RUNS);
    Some(newest.map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_folded_to_their_beginnings() {
        let few: Vec<String> = (0..MOST).map(|number| format!("n{number:05}")).collect();
        assert_eq!(folded(few.clone(), 0), few);
        let many: Vec<String> = (0..30_000).map(|number| format!("n{number:05}")).collect();
        let beginnings = folded(many.clone(), 0);
        assert_eq!(beginnings.len(), 300);
        assert!(beginnings.contains(&"n299".to_owned()));
        let of_one: Vec<String> = many
            .into_iter()
            .filter(|name| name.starts_with("n12"))
            .collect();
        assert_eq!(folded(of_one.clone(), 3), of_one);
    }

    #[test]
    fn the_folder_and_the_site_of_a_line_are_known() {
        for line in [
            &["trueup", "-C", "there", "--site", "north", "plan", ""][..],
            &["trueup", "-Cthere", "plan", "--site=north", ""],
        ] {
            let words: Vec<OsString> = line.iter().map(OsString::from).collect();
            let read = Line::read(&words);
            assert_eq!(read.directory.as_deref(), Some("there".as_ref()));
            assert_eq!(read.site.as_deref(), Some("north"));
        }
    }
}
