//! A terminal that shows how far a run is: one bar for all steps, a line for each node in work.
//!
//! Failures, retries, gates that do not hold and ends of groups stay on the screen above the bars. Where
//! it draws is made by the owner of the terminal, which also falls back to [`Lines`](super::Lines) without
//! one.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Reporter, event};
use crate::journal::StepOutcome;
use crate::report::plan::rounded;
use crate::report::{Palette, Visible, counted};
use crate::run::{EventKind, RunEvent};
use crate::threads::lock;

/// Lines for nodes at the same time; more would not fit on a screen.
const MOST_LINES: usize = 16;

/// Keeps a terminal up to date.
#[derive(Debug)]
pub struct Progress {
    bars: MultiProgress,
    overall: ProgressBar,
    /// When the run is expected to end.
    end: ExpectedEnd,
    in_work: BTreeMap<String, ProgressBar>,
    running: usize,
    failed: usize,
    palette: Palette,
}

impl Progress {
    /// Draws on `target`.
    #[must_use]
    pub fn new(target: ProgressDrawTarget, palette: Palette) -> Self {
        let bars = MultiProgress::with_draw_target(target);
        let overall = bars.add(ProgressBar::new(0));
        let left = Arc::new(Mutex::new(None));
        let shown = left.clone();
        let overall_style = style("{bar:30} {pos} of {len} steps{msg}, {elapsed}{left}");
        let overall_style = overall_style.with_key("left", move |_: &_, out: &mut dyn Write| {
            let _ = out.write_str(&remaining(&shown));
        });
        overall.set_style(overall_style);
        Self {
            bars,
            overall,
            end: left,
            in_work: BTreeMap::new(),
            running: 0,
            failed: 0,
            palette,
        }
    }

    fn counts(&self) {
        let mut text = format!(", {} running", self.running);
        if self.failed > 0 {
            let _ = write!(text, ", {} failed", self.failed);
        }
        self.overall.set_message(text);
    }

    fn keep(&self, event: &RunEvent) -> fmt::Result {
        let mut line = String::new();
        event::line(&mut line, event, self.palette)?;
        self.bars.println(line.trim_end()).map_err(|_| fmt::Error)
    }

    fn started(&mut self, id: String, attempt: u32) {
        if attempt == 1 {
            self.running += 1;
        }
        if self.in_work.len() < MOST_LINES && !self.in_work.contains_key(&id) {
            let bar = self
                .bars
                .insert_before(&self.overall, ProgressBar::new_spinner());
            bar.set_style(style("  {spinner} {prefix} {elapsed}{msg}"));
            bar.set_prefix(Visible(&id).to_string());
            bar.enable_steady_tick(Duration::from_millis(250));
            self.in_work.insert(id, bar);
        }
    }

    fn finished(&mut self, id: &str, outcome: &StepOutcome) {
        if let Some(bar) = self.in_work.remove(id) {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
        let ran = matches!(
            outcome,
            StepOutcome::Succeeded | StepOutcome::Failed { .. } | StepOutcome::Unknown { .. }
        );
        if ran {
            self.running = self.running.saturating_sub(1);
        }
        if is_failure(outcome) {
            self.failed += 1;
        }
        self.overall.inc(1);
    }
}

impl Reporter for Progress {
    fn event(&mut self, event: &RunEvent) -> fmt::Result {
        if let Some(left) = event.remaining_ms {
            let end = Instant::now().checked_add(Duration::from_millis(left));
            *lock(&self.end) = end;
        }
        match &event.kind {
            EventKind::RunStarted { steps, .. } => {
                self.overall.set_length(*steps as u64);
                self.overall.enable_steady_tick(Duration::from_millis(250));
                self.keep(event)?;
            }
            EventKind::StepStarted { step, attempt, .. } => {
                self.started(step.to_string(), *attempt);
            }
            EventKind::StepProgress { step, message } => {
                if let Some(bar) = self.in_work.get(&step.to_string()) {
                    bar.set_message(format!(": {}", Visible(message)));
                }
            }
            EventKind::StepFinished { step, outcome, .. } => {
                self.finished(&step.to_string(), outcome);
                if is_failure(outcome) {
                    self.keep(event)?;
                }
            }
            EventKind::GateEvaluated { passed: true, .. } | EventKind::Checkpoint { .. } => {}
            EventKind::RunFinished { .. } => {
                for bar in std::mem::take(&mut self.in_work).into_values() {
                    bar.finish_and_clear();
                }
                self.overall.finish_and_clear();
                self.keep(event)?;
            }
            _ => self.keep(event)?,
        }
        self.counts();
        Ok(())
    }

    fn text(&mut self, text: &str) -> fmt::Result {
        self.bars.println(text.trim_end()).map_err(|_| fmt::Error)
    }
}

impl Drop for Progress {
    /// A run that ends without its last event leaves no bars behind.
    fn drop(&mut self) {
        for bar in self.in_work.values() {
            bar.finish_and_clear();
        }
        if !self.overall.is_finished() {
            let left = counted(self.running, "step was", "steps were");
            self.overall
                .abandon_with_message(format!(", {left} still running"));
        }
    }
}

/// When the run is expected to end, if that was estimated.
type ExpectedEnd = Arc<Mutex<Option<Instant>>>;

/// The time that is left, which counts down until it is estimated anew.
fn remaining(end: &ExpectedEnd) -> String {
    let end = *lock(end);
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    match left.map(|left| left.as_secs()) {
        None => String::new(),
        Some(0) => ", longer than expected".to_owned(),
        Some(seconds) => format!(", about {} left", rounded(seconds)),
    }
}

fn is_failure(outcome: &StepOutcome) -> bool {
    matches!(
        outcome,
        StepOutcome::Failed { .. } | StepOutcome::Unknown { .. }
    )
}

/// The templates above are constant and tested; a broken one falls back to the default bar.
fn style(template: &'static str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
