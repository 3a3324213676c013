//! A manual page: what `--help` tells, and the sections that a reader of manual pages looks for.

use std::io;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::examples::{examples, folded, takes_actions};
use crate::cli::{action, exit};

/// Variables that every command reads.
const VARIABLES: [(&str, &str); 7] = [
    ("NO_COLOR", "Do not colour output, where it is not empty."),
    (
        "TRUEUP_PAGER, PAGER",
        "The program that shows long output on a terminal, the first that is set; less by default, none where it is empty.",
    ),
    (
        "TRUEUP_TRUST_FILE",
        "The file in which trust in backends is kept, outside of the checkout.",
    ),
    (
        "XDG_CONFIG_HOME",
        "The folder below which trust is kept where TRUEUP_TRUST_FILE is not set; ~/.config by default.",
    ),
    (
        "HTTPS_PROXY, NO_PROXY",
        "The proxy to backends and remotes, and the hosts that are reached without it.",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "The collector that traces are sent to; other variables of OpenTelemetry are honoured, too.",
    ),
    (
        "TRACEPARENT, TRACESTATE",
        "The span of a trace that the command belongs to.",
    ),
];

/// The page of a command that was built, with those below it.
pub(in crate::cli) fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    // What is left out of `-h` has no text in a page but a long one.
    let described = command
        .clone()
        .mut_args(|argument| match argument.get_help().cloned() {
            Some(help) if argument.get_long_help().is_none() => argument.long_help(help),
            _ => argument,
        });
    let man = Man::new(described.before_long_help(None::<&str>));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    if takes_actions(command.get_name()) {
        entries(&mut roff, "ACTIONS", action::ACTIONS.iter().copied());
    }
    let codes = exit::CODES.iter();
    let codes: Vec<(String, &str)> = codes
        .map(|(code, what)| (code.to_string(), *what))
        .collect();
    let codes = codes.iter().map(|(code, what)| (code.as_str(), *what));
    entries(&mut roff, "EXIT STATUS", codes);
    environment(&mut roff, command);
    roff.control("SH", ["EXAMPLES"]);
    let words = command.get_bin_name();
    let words = words.and_then(|words| words.strip_prefix("trueup "));
    for (purpose, line) in examples(words.unwrap_or(command.get_name())) {
        roff.control("PP", []);
        roff.text([roman(format!("{purpose}:"))]);
        roff.control("RS", ["4"]);
        for (at, part) in folded(line).into_iter().enumerate() {
            if at > 0 {
                roff.control("br", []);
            }
            roff.text([bold(part)]);
        }
        roff.control("RE", []);
    }
    roff.to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// A section of words, each with its meaning.
fn entries<'e>(roff: &mut Roff, heading: &str, rows: impl Iterator<Item = (&'e str, &'e str)>) {
    roff.control("SH", [heading]);
    for (word, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(word)]);
        roff.text([roman(meaning.replace('`', ""))]);
    }
}

/// The variables of the flags of a command, and those that every command reads.
fn environment(roff: &mut Roff, command: &clap::Command) {
    let flags = command.get_arguments().filter_map(|argument| {
        let name = argument.get_env()?.to_string_lossy().into_owned();
        let meaning = format!("The same as --{}.", argument.get_long()?);
        Some((name, meaning))
    });
    let mut flags: Vec<(String, String)> = flags.collect();
    flags.sort();
    let own = flags
        .iter()
        .map(|(name, meaning)| (name.as_str(), meaning.as_str()));
    entries(roff, "ENVIRONMENT", own.chain(VARIABLES));
}
