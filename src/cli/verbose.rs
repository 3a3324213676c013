//! The log of `--verbose`: the work of trueup, one line each on stderr.
//!
//! Once: what is loaded, asked and kept, and every run of git and of a
//! program that tells a secret. Twice: every request to a backend too,
//! with the status and size of its answer, or why it was refused. Three times: every file that is read, every
//! wait, every write of the journal. A line is made of names, paths, counts, times and the words of a refusal
//! (which hide the secrets of their request), never of the content of a document, a request or an answer. What
//! libraries log is left out: it may hold secrets. A service tells warnings also without it, such as refused callers.

use log::{LevelFilter, Log, Metadata, Record};

use super::context::Printer;
use crate::report::{Role, Visible};

/// The prefix of the targets of trueup's own lines.
const OWN: &str = env!("CARGO_CRATE_NAME");

/// Tells what is logged in this process from now on, of one that stays also without being asked what may be an attack or
/// a defect.
pub(super) fn begin(times: u8, stays: bool, printer: Printer) {
    let level = match times {
        0 if stays => LevelFilter::Warn,
        0 => return,
        1 => LevelFilter::Info,
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    // There is one already if a process runs several commands.
    if log::set_boxed_logger(Box::new(Verbose { printer })).is_ok() {
        log::set_max_level(level);
    }
}

/// Whether progress is told.
pub(super) fn is_on() -> bool {
    log::max_level() >= LevelFilter::Info
}

struct Verbose {
    printer: Printer,
}

impl Log for Verbose {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let module = metadata.target().strip_prefix(OWN);
        module.is_some_and(|module| module.is_empty() || module.starts_with("::"))
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mut module = record.target().split("::").skip(1);
        let text = format!(
            "{:.3} {}: {}\n",
            jiff::Timestamp::now(),
            module.next().unwrap_or(OWN),
            Visible(&record.args().to_string())
        );
        self.printer
            .tell(&self.printer.err.paint(Role::Faint, &text).to_string());
    }

    fn flush(&self) {}
}
