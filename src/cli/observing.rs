//! The progress of an observation on stderr, if it takes longer than a second.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::context::Printer;
use crate::backend::Looks;

/// How long it may take in silence on a terminal.
const FIRST: Duration = Duration::from_secs(1);
/// How long it may take in silence where lines are kept; twice as long each time.
const FIRST_LINE: Duration = Duration::from_secs(10);

/// Shows how many machines have been observed until the other end of `ended` is dropped. In time of its own: the
/// clock of the observation may be a simulated one.
pub(super) fn show(printer: Printer, looks: &Looks, ended: &Receiver<()>) {
    match std::io::stderr().is_terminal() {
        true => draw(looks, ended),
        false => tell(printer, looks, ended),
    }
}

fn has_ended(ended: &Receiver<()>, within: Duration) -> bool {
    !matches!(ended.recv_timeout(within), Err(RecvTimeoutError::Timeout))
}

fn text(looks: &Looks) -> String {
    match looks.progress() {
        (_, 0) => "observing the site".to_owned(),
        (observed, asked) => format!("observing {observed} of {asked} machines"),
    }
}

fn draw(looks: &Looks, ended: &Receiver<()>) {
    if has_ended(ended, FIRST) {
        return;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    loop {
        bar.set_message(text(looks));
        bar.tick();
        if has_ended(ended, FIRST / 5) {
            bar.finish_and_clear();
            return;
        }
    }
}

fn tell(printer: Printer, looks: &Looks, ended: &Receiver<()>) {
    let mut wait = FIRST_LINE;
    while !has_ended(ended, wait) {
        printer.tell(&text(looks));
        wait = wait.saturating_mul(2);
    }
}
