//! `--help` and manual pages: a usage line, examples, and flags in groups.
//!
//! What a flag is for is said beside the flag. What a page consists of is put together here, for all commands at
//! once, so that none is left out.

mod examples;
mod groups;
mod page;
mod short;

use std::fmt::Write as _;

use anstyle::{Effects, Style};

use super::action;
use examples::{examples, folded, takes_actions};
pub(super) use page::page;
pub(super) use short::first_screen;

/// The parts of `--help`, in their order.
const TEMPLATE: &str =
    "{usage-heading} {usage}\n\n{about-with-newline}\n{before-help}{all-args}{after-help}";

/// Puts the help of a command and of those below it together.
pub(super) fn arrange(command: clap::Command) -> clap::Command {
    let name = command.get_name().to_owned();
    let command = short::fold_global(command);
    arrange_one(command, &name).mut_subcommands(|below| {
        let name = below.get_name().to_owned();
        arrange_below(below, &name)
    })
}

/// Those of a command by its words behind `trueup`.
fn arrange_below(command: clap::Command, words: &str) -> clap::Command {
    arrange_one(command, words).mut_subcommands(|below| {
        let words = format!("{words} {}", below.get_name());
        arrange_below(below, &words)
    })
}

fn arrange_one(command: clap::Command, name: &str) -> clap::Command {
    let mut text = String::new();
    let examples = examples(name);
    if !examples.is_empty() {
        headed(&mut text, "Examples");
        for (purpose, line) in examples {
            let _ = writeln!(text, "  # {purpose}\n  {}", folded(line).join("\n      "));
        }
    }
    if takes_actions(name) {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        headed(&mut text, "Actions");
        text.push_str(&action::list());
    }
    let command = match text.trim_end() {
        "" => command,
        text => command.before_long_help(text.to_owned()),
    };
    let command =
        command
            .help_template(TEMPLATE)
            .mut_args(|argument| match groups::heading(&argument) {
                Some(heading) => argument.help_heading(heading),
                None => argument,
            });
    short::fold(command)
}

/// A heading, as those of clap look.
fn headed(text: &mut String, heading: &str) {
    let style = Style::new().effects(Effects::BOLD | Effects::UNDERLINE);
    let _ = writeln!(text, "{style}{heading}:{style:#}");
}
