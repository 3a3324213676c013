//! `-h`: what is used every day, on one screen. `--help` has all.

use std::fmt::Write as _;

/// The flags that `-h` lists, by their long names or the id of one that has none: those of a command of many.
const EVERYDAY: [&str; 29] = [
    "allow-destroy",
    "allow-redeploy",
    "at",
    "cluster",
    "detailed-exitcode",
    "directory",
    "effect",
    "exclude",
    "format",
    "from",
    "full",
    "group",
    "help",
    "listen",
    "node",
    "observed",
    "offline",
    "on",
    "out",
    "resume",
    "rev",
    "run",
    "site",
    "skip-blocked",
    "steps",
    "supersede",
    "target",
    "to",
    "yes",
];

/// A command with more flags than these shows only those of every day.
const MOST_FLAGS: usize = 12;

/// The commands in groups, as the first screen lists them.
const COMMANDS: [(&str, &[&str]); 6] = [
    (
        "Begin",
        &["init", "adopt", "demo", "doctor", "trust", "schemas"],
    ),
    (
        "Look",
        &[
            "status", "nodes", "sites", "etcd", "hardware", "console", "log", "show", "explain",
        ],
    ),
    (
        "Review",
        &[
            "validate", "fmt", "render", "diff", "plan", "try", "approve", "policy", "comment",
        ],
    ),
    (
        "Carry out",
        &[
            "apply", "run", "rollout", "accept", "reserve", "release", "abort", "unlock", "migrate",
        ],
    ),
    ("Keep", &["bundle", "replay", "export", "serve", "images"]),
    ("Help", &["actions", "completions", "man", "help"]),
];

/// The parts of `-h` of the program.
const TEMPLATE: &str = "{usage-heading} {usage}\n\n{about-with-newline}\n{before-help}\n{options}\n\n\
                        `trueup COMMAND -h` shows its arguments, `--help` all of it with examples.\n";

/// Leaves out of `-h` what is not of every day, if the command has many flags.
pub(super) fn fold(command: clap::Command) -> clap::Command {
    let flags = command.get_arguments().filter(|each| !each.is_positional());
    // Those that every command takes are added when the command is built.
    let is_long = flags.count() > MOST_FLAGS;
    command.mut_args(|argument| {
        let name = argument.get_long();
        let name = name.unwrap_or_else(|| argument.get_id().as_str());
        let is_hidden = is_long && !argument.is_positional() && !EVERYDAY.contains(&name);
        match is_hidden {
            true => argument.hide_short_help(true),
            false => argument,
        }
    })
}

/// Leaves the flags that every command takes out of the `-h` of all but the most common ones.
pub(super) fn fold_global(command: clap::Command) -> clap::Command {
    command.mut_args(|argument| {
        let is_hidden = !matches!(argument.get_id().as_str(), "directory" | "site" | "help");
        argument.hide_short_help(is_hidden)
    })
}

/// The program with its first screen: the commands in groups.
pub(in crate::cli) fn first_screen(command: clap::Command) -> clap::Command {
    let mut text = String::new();
    super::headed(&mut text, "Commands");
    for (heading, commands) in COMMANDS {
        let _ = writeln!(text, "  {heading:<10} {}", commands.join(", "));
    }
    command.before_help(text).help_template(TEMPLATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_on_the_first_screen_once() {
        let mut command = crate::cli::command();
        command.build();
        let mut known: Vec<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        let mut shown: Vec<&str> = COMMANDS.iter().flat_map(|(_, all)| *all).copied().collect();
        known.sort_unstable();
        shown.sort_unstable();
        assert_eq!(shown, known);
        let lines = first_screen(command)
            .term_width(80)
            .render_help()
            .to_string();
        assert!(lines.lines().count() <= 24, "{lines}");
    }

    fn each(command: &clap::Command, most: usize) {
        let help = command.clone().term_width(80).render_help().to_string();
        let lines = help.lines().count();
        assert!(lines <= most, "{lines} lines\n{help}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 80),
            "{help}"
        );
        command
            .get_subcommands()
            .for_each(|below| each(below, most));
    }

    #[test]
    fn help_of_a_command_is_one_screen() {
        let mut command = crate::cli::command();
        command.build();
        for below in command.get_subcommands() {
            // That of `help` lists all commands, a line each.
            let more = match below.get_name() {
                "help" => below.get_subcommands().count(),
                _ => 40,
            };
            each(below, 10 + more);
        }
    }
}
