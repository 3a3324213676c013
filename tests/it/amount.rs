//! How much a test tries: a part each time, spread evenly, and more where a variable asks for it (`docs/tests.md`).

use std::str::FromStr;

/// The number that a variable asks for.
pub(crate) fn number<N: FromStr>(variable: &str) -> Option<N> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{variable}: {text:?} is not a number")))
}

/// Whether everything is tried that a run can meet.
pub(crate) fn takes_all() -> bool {
    std::env::var_os("TRUEUP_TEST_CRASHES").is_some_and(|wanted| wanted == "all")
}

/// One in how many of `all` is tried, so that at most `few` are, unless all are.
pub(crate) fn every(few: usize, all: usize) -> usize {
    match takes_all() {
        true => 1,
        false => all.div_ceil(few).max(1),
    }
}
