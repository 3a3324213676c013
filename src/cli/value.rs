//! The values of flags, with errors in the words of the command line.

use std::fmt::Display;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use jiff::civil::Date;

use crate::backend::address_range;
use crate::design::Share;
use crate::document::{NotDuration, Seconds};

/// A whole number.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse().map_err(|error| match is_number {
        true => too_large(&error),
        false => "this is not a whole number".to_owned(),
    })
}

/// The same, as the size of something in memory.
pub(super) fn size(text: &str) -> Result<usize, String> {
    usize::try_from(number(text)?).map_err(|error| too_large(&error))
}

fn too_large(_: &dyn Display) -> String {
    "the number is too large".to_owned()
}

/// A number of which none makes no sense.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match size(text)? {
        0 => Err("the least is 1".to_owned()),
        number => Ok(number),
    }
}

/// The number of simulated runs of a plan.
pub(super) fn rehearsals(text: &str) -> Result<usize, String> {
    within(text, &(1..=10_000))
}

/// A number within bounds.
pub(super) fn within<N: TryFrom<u64>>(
    text: &str,
    bounds: &RangeInclusive<u64>,
) -> Result<N, String> {
    let number = number(text)?;
    let outside = || format!("it is from {} to {}", bounds.start(), bounds.end());
    match bounds.contains(&number) {
        true => N::try_from(number).map_err(|_| outside()),
        false => Err(outside()),
    }
}

/// The digest of a plan, whole: a part of it would vouch for other plans, too.
pub(super) fn digest(text: &str) -> Result<String, String> {
    let is_whole = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole
        .then(|| text.to_ascii_lowercase())
        .ok_or_else(|| "the digest of a plan has 64 hexadecimal digits".to_owned())
}

/// A range of addresses, or one address.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    address_range(text)
        .ok_or_else(|| "not an address range, such as `10.23.0.0/16` or `fd00:23::/64`".to_owned())
}

/// A duration in whole seconds.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    let seconds: Seconds = text
        .parse()
        .map_err(|error: NotDuration| error.to_string())?;
    let part = || "a part of a second is too short here".to_owned();
    seconds.whole().ok_or_else(part)
}

/// A time that is given, or one so many seconds from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// In seconds since 1970.
    At(i64),
    /// From now.
    In(u64),
}

/// A time, or a duration from now.
pub(super) fn until(text: &str) -> Result<Until, String> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(Until::At(time.as_second()));
    }
    let wrong = "a time is written as `2026-11-30T18:00:00Z`, a duration as `4h`";
    // A bare number would be seconds, and is more likely meant as hours.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong.to_owned());
    }
    duration(text).map(Until::In).map_err(|_| wrong.to_owned())
}

/// A number of machines, or a share of them, of which none makes no sense.
pub(super) fn share_of_at_least_one(text: &str) -> Result<Share, String> {
    let share: Share = text.parse().map_err(|error| format!("{error}"))?;
    share.at_least_one().map_err(str::to_owned)
}

/// A day.
pub(super) fn day(text: &str) -> Result<Date, String> {
    text.parse()
        .map_err(|_| "a day is written as `2026-11-23`".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Texts of the standard library and of parsers, which help no operator.
    const RAW: [&str; 6] = [
        "invalid digit",
        "failed to parse",
        "cannot parse",
        "at line 1",
        "provided string",
        "out of range",
    ];

    fn check(command: &clap::Command, seen: &mut BTreeSet<String>) {
        let takes_value = |argument: &&clap::Arg| argument.get_action().takes_values();
        for argument in command.get_arguments().filter(takes_value) {
            let Some(long) = argument.get_long() else {
                continue;
            };
            for wrong in ["?", "1x", "99999999999999999999999"] {
                let flag = format!("--{long}={wrong}");
                let words = ["trueup", command.get_name(), &flag];
                let parsed = crate::cli::command().try_get_matches_from(words);
                let Err(error) = parsed else { continue };
                let text = error.to_string();
                let raw = RAW.iter().find(|raw| text.contains(**raw));
                assert_eq!(raw, None, "{text}");
                seen.insert(long.to_owned());
            }
        }
    }

    #[test]
    fn wrong_values_are_refused_in_the_words_of_the_command_line() {
        let mut seen = BTreeSet::new();
        for command in crate::cli::command().get_subcommands() {
            check(command, &mut seen);
        }
        for flag in [
            "as-of",
            "attempts",
            "max-bytes",
            "max-failures",
            "prune-tags",
            "stop-grace",
        ] {
            assert!(seen.contains(flag), "{flag}: {seen:?}");
        }
    }
}
