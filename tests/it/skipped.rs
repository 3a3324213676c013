//! Tests that are left out, told where no test runner hides it.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Tells that the running test, or a part of it, is left out, and why: on the standard error behind the test
/// runner, which shows nothing of tests that pass, and as a line of the file that `TRUEUP_TEST_SKIPPED` names.
pub(crate) fn skipped(why: &str) {
    let line = format!("SKIPPED: {}: {why}\n", test());
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("TRUEUP_TEST_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.expect("the file of `TRUEUP_TEST_SKIPPED` can be written");
        file.write_all(line.as_bytes()).expect("it can be written");
    }
}

/// The name of the running test: a runner that starts a process a test names it on the command line.
pub(crate) fn test() -> String {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--exact");
    let thread = std::thread::current();
    let of_thread = thread.name().filter(|name| *name != "main");
    let of_process = arguments.nth(1);
    let name = of_thread.map(str::to_owned).or(of_process);
    name.unwrap_or_else(|| "a test".to_owned())
}
