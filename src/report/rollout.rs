//! Rollouts: how far the sites are, what comes next, and what sites would do.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use super::plan::duration;
use super::sites::PlanState;
use super::table::{Cell, Table};
use super::{Palette, Role, Visible, counted, json};
use crate::rollout::{Decision, Phases, RolloutState, SiteProgress, SiteResult};

/// The version of the form of the JSON.
const FORMAT_VERSION: u32 = 1;
/// Sites that a sentence names.
const SHOWN: usize = 3;

/// A rollout as it is reported.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Its name.
    pub name: &'a str,
    /// The phases.
    pub phases: &'a Phases,
    /// Its state; `None`: it was not begun.
    pub state: Option<&'a RolloutState>,
    /// The next act, if it was begun.
    pub decision: Option<&'a Decision>,
}

/// The effect that the revision would have on a site.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The state of its plan.
    pub state: PlanState,
    /// Its changes in a few words, or why it has no plan.
    pub changes: String,
    /// The refusals of the plan, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
}

impl Outcome {
    /// Of a site that has no plan.
    #[must_use]
    pub fn failed(why: &str) -> Self {
        Self {
            state: PlanState::Failed,
            changes: why.to_owned(),
            blocked: Vec::new(),
        }
    }
}

#[derive(Serialize)]
struct JsonSite<'a> {
    site: &'a str,
    phase: usize,
    result: SiteResult,
    #[serde(flatten)]
    outcome: Option<&'a Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    soak_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    soaked: Option<String>,
}

#[derive(Serialize)]
struct JsonRollout<'a> {
    format_version: u32,
    rollout: &'a str,
    revision: &'a str,
    phase: usize,
    phases: usize,
    /// The next act.
    next: &'static str,
    message: String,
    sites: Vec<JsonSite<'a>>,
}

impl View<'_> {
    fn progress(&self, site: &str) -> Option<&SiteProgress> {
        self.state?.sites.get(site)
    }

    fn result(&self, site: &str) -> SiteResult {
        self.progress(site)
            .map_or(SiteResult::Pending, |each| each.result)
    }

    /// The phase of each site, counted from 1, and the site.
    fn sites(&self) -> impl Iterator<Item = (usize, &Arc<str>)> {
        let phases = self.phases.all.iter().enumerate();
        phases.flat_map(|(phase, sites)| sites.sites.iter().map(move |site| (phase + 1, site)))
    }

    /// The next act, in a sentence or two.
    #[must_use]
    pub fn sentence(&self) -> String {
        let name = self.name;
        let Some(decision) = self.decision else {
            return format!(
                "Rollout `{name}` was not begun: `trueup rollout next {name}` begins it."
            );
        };
        let state = self.state;
        let revision = state.map_or("", |state| state.revision.get(..7).unwrap_or_default());
        match decision {
            Decision::Aborted(by) => format!(
                "Rollout `{name}` was aborted by {} at {}: {}. `trueup rollout next {name} --rev REV` begins it anew.",
                by.by, by.at, by.reason
            ),
            Decision::Paused(by) => format!(
                "Rollout `{name}` is paused by {} since {}: {}. `trueup rollout resume {name}` resumes it.",
                by.by, by.at, by.reason
            ),
            Decision::Stopped(why) => format!(
                "Rollout `{name}` is stopped: {why}. Where the cause is gone, `trueup rollout resume {name}` begins the failed sites once more; a success of `trueup apply --site SITE` at {revision} counts, too."
            ),
            Decision::Begin(site) => match self.result(site) {
                SiteResult::Held => {
                    format!(
                        "Site `{site}` stays held while the reason lasts, which `trueup rollout explain {name} {site}` tells with the ways out; `trueup rollout next {name}` tries it again."
                    )
                }
                SiteResult::Pending
                | SiteResult::Running
                | SiteResult::Succeeded
                | SiteResult::Failed => {
                    format!("`trueup rollout next {name}` begins site `{site}`.")
                }
            },
            Decision::Prove(sites) => format!(
                "The soak of {} is over: `trueup rollout next {name}` looks for drift of {}.",
                counted(sites.len(), "site", "sites"),
                some(sites)
            ),
            Decision::Soak(until) => {
                format!("Nothing to do now: the soak of the phase ends at {until}.")
            }
            Decision::Wait(sites) => format!(
                "Nothing to do now: the phase waits for {}. `trueup rollout explain {name} SITE` tells why.",
                self.waiting(sites)
            ),
            Decision::Done => format!(
                "Rollout `{name}` is complete: {} at {revision}.",
                counted(self.phases.sites().count(), "site", "sites")
            ),
        }
    }

    fn waiting(&self, sites: &[Arc<str>]) -> String {
        let mut by_result: BTreeMap<SiteResult, Vec<Arc<str>>> = BTreeMap::new();
        for site in sites {
            by_result
                .entry(self.result(site))
                .or_default()
                .push(site.clone());
        }
        let texts = by_result.iter().map(|(result, sites)| {
            let number = counted(sites.len(), "site", "sites");
            format!("{number} {} ({})", result.as_str(), some(sites))
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Writes how far each site is.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn status(&self, out: &mut dyn Write, palette: Palette) -> fmt::Result {
        let mut table = Table::new(&["SITE", "PHASE", "RESULT", "RUN", "WHY"]);
        for (phase, site) in self.sites() {
            let progress = self.progress(site);
            let result = self.result(site);
            let soak = progress
                .filter(|each| each.soaked.is_none() && each.why.is_none())
                .and_then(|each| Some(format!("soak until {}", each.soak_until?)));
            let why = progress.and_then(|each| each.why.as_deref().map(str::to_owned));
            table.row(vec![
                Cell::in_role(Role::Strong, &**site),
                Cell::new(phase.to_string()),
                Cell::in_role(role(result), result.as_str()),
                Cell::or_none(
                    progress
                        .and_then(|each| each.run.as_ref())
                        .map(|run| run.as_str()),
                ),
                Cell::or_none(why.or(soak)),
            ]);
        }
        table.write(out, palette)?;
        writeln!(out, "\n{}", Visible(&self.sentence()))
    }

    /// Writes how far each site is, and what it would do, as JSON.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn json(
        &self,
        out: &mut dyn Write,
        revision: &str,
        outcomes: &BTreeMap<Arc<str>, Outcome>,
    ) -> fmt::Result {
        let sites = self.sites().map(|(phase, site)| {
            let progress = self.progress(site);
            let time = |time: Option<crate::document::Instant>| time.map(|time| time.to_string());
            JsonSite {
                site,
                phase,
                result: self.result(site),
                outcome: outcomes.get(site),
                run: progress.and_then(|each| Some(each.run.as_ref()?.as_str())),
                why: progress.and_then(|each| each.why.as_deref()),
                ended: time(progress.and_then(|each| each.ended)),
                soak_until: time(progress.and_then(|each| each.soak_until)),
                soaked: time(progress.and_then(|each| each.soaked)),
            }
        });
        let next = match self.decision {
            None => "begin",
            Some(Decision::Aborted(_)) => "aborted",
            Some(Decision::Paused(_)) => "paused",
            Some(Decision::Stopped(_)) => "stopped",
            Some(Decision::Begin(_)) => "begin",
            Some(Decision::Prove(_)) => "look-for-drift",
            Some(Decision::Soak(_)) => "soak",
            Some(Decision::Wait(_)) => "wait",
            Some(Decision::Done) => "done",
        };
        json::pretty(
            out,
            &JsonRollout {
                format_version: FORMAT_VERSION,
                rollout: self.name,
                revision,
                phase: self.state.map_or(1, |state| state.phase),
                phases: self.phases.all.len(),
                next,
                message: self.sentence(),
                sites: sites.collect(),
            },
        )
    }

    /// Writes what the sites would do, phase by phase: those that would do the same in one line.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn plan(
        &self,
        out: &mut dyn Write,
        outcomes: &BTreeMap<Arc<str>, Outcome>,
        palette: Palette,
    ) -> fmt::Result {
        type Same<'s> = (SiteResult, &'s str, PlanState, &'s [String]);
        for (phase, sites) in self.phases.all.iter().enumerate() {
            let soak = match sites.soak {
                0 => String::new(),
                soak => format!(", then a soak of {}", duration(soak)),
            };
            let number = counted(sites.sites.len(), "site", "sites");
            let head = format!("Phase {}: {number}{soak}", phase + 1);
            writeln!(out, "{}", palette.paint(Role::Strong, head))?;
            let mut folded: Vec<(Same<'_>, Vec<Arc<str>>)> = Vec::new();
            for site in &sites.sites {
                let Some(outcome) = outcomes.get(site) else {
                    continue;
                };
                let same = (
                    self.result(site),
                    &*outcome.changes,
                    outcome.state,
                    &*outcome.blocked,
                );
                match folded.iter_mut().find(|(known, _)| *known == same) {
                    Some((_, sites)) => sites.push(site.clone()),
                    None => folded.push((same, vec![site.clone()])),
                }
            }
            for ((result, changes, state, blocked), sites) in folded {
                let same = if sites.len() == 1 { "" } else { "the same, " };
                let number = counted(sites.len(), "site", "sites");
                let (role, state) = state.shown();
                let state = palette.paint(role, state);
                writeln!(
                    out,
                    "  {number} ({}), {}: {same}{state}: {}",
                    Visible(&some(&sites)),
                    result.as_str(),
                    Visible(changes)
                )?;
                for line in blocked {
                    writeln!(out, "    {}", Visible(line))?;
                }
            }
        }
        writeln!(out, "\n{}", Visible(&self.sentence()))
    }

    /// Writes why a site is as it is, and who can change that.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn explain(&self, out: &mut dyn Write, site: &str) -> fmt::Result {
        self.explain_site(out, site)?;
        writeln!(out, "\n{}", Visible(&self.sentence()))
    }

    /// Writes why the rollout is where it is, with the first sites in its way.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn explain_all(&self, out: &mut dyn Write) -> fmt::Result {
        let is_in_the_way = |site: &&Arc<str>| {
            matches!(
                self.result(site),
                SiteResult::Running | SiteResult::Failed | SiteResult::Held
            )
        };
        let mut found = self.phases.sites().filter(is_in_the_way);
        for site in found.by_ref().take(SHOWN) {
            self.explain_site(out, site)?;
            writeln!(out)?;
        }
        let more = found.count();
        if more > 0 {
            let name = Visible(self.name);
            writeln!(
                out,
                "And {}: `trueup rollout status {name}` lists them.\n",
                counted(more, "more site", "more sites")
            )?;
        }
        writeln!(out, "{}", Visible(&self.sentence()))
    }

    fn explain_site(&self, out: &mut dyn Write, site: &str) -> fmt::Result {
        let phase = self.phases.of(site).map_or(0, |phase| phase + 1);
        let shown = Visible(site);
        let known = self.progress(site);
        let why = known
            .and_then(|known| known.why.as_deref())
            .unwrap_or_default();
        let result = self.result(site);
        writeln!(
            out,
            "Site `{shown}` is in phase {phase} and {}.",
            result.as_str()
        )?;
        if !why.is_empty() {
            writeln!(out, "  why: {}", Visible(why))?;
        }
        let next = match (result, known) {
            (SiteResult::Pending, _) => {
                "its phase begins when all sites of the phase before are proven".to_owned()
            }
            (SiteResult::Running, Some(known)) => {
                let holder = known.holder.as_ref();
                let by = holder.map(|holder| {
                    format!(
                        "process {} of {} on {}",
                        holder.pid, holder.who, holder.host
                    )
                });
                format!(
                    "{} is at work on it",
                    by.unwrap_or_else(|| "a process".to_owned())
                )
            }
            (SiteResult::Running, None) => "a process is at work on it".to_owned(),
            (SiteResult::Succeeded, Some(known)) => match (known.soak_until, known.soaked) {
                (Some(_), Some(at)) => {
                    format!("it was found without drift at {at}, after its soak")
                }
                (Some(until), None) => format!("its soak ends at {until}"),
                (None, _) => "it has no soak".to_owned(),
            },
            (SiteResult::Succeeded, None) => "it has no soak".to_owned(),
            (SiteResult::Failed, _) => format!(
                "`trueup plan --site {shown}` shows what it lacks; a success of `trueup apply --site {shown}` counts, and `trueup rollout resume {}` begins it once more",
                self.name
            ),
            (SiteResult::Held, Some(known)) if known.run.is_some() => format!(
                "a run that has not ended is resumed or aborted by an operator; machines that are not as designed, or were not observed, are listed by `trueup status --site {shown}`, with reservations; then `trueup rollout next {}` takes the result, or begins the site once more",
                self.name
            ),
            (SiteResult::Held, _) => format!(
                "nothing of it was begun: each `trueup rollout next {}` tries again, with `--allow-intermediate-commits` where commits lie between; a success of `trueup apply --site {shown}`, with the flags that its plan names, counts, too",
                self.name
            ),
        };
        let next = match (result, self.decision) {
            (
                SiteResult::Pending | SiteResult::Failed | SiteResult::Held,
                Some(Decision::Aborted(_)),
            ) => "nothing, since the rollout was aborted".to_owned(),
            (
                SiteResult::Pending | SiteResult::Failed | SiteResult::Held,
                Some(Decision::Paused(_)),
            ) => {
                format!("once the rollout is resumed: {next}")
            }
            _ => next,
        };
        writeln!(out, "  next: {}", Visible(&next))
    }
}

/// A line about a site whose place in a rollout has changed.
#[must_use]
pub fn line(site: &str, progress: &SiteProgress) -> String {
    let mut text = format!("{}: {}", Visible(site), progress.result.as_str());
    if let Some(run) = &progress.run {
        let _ = write!(text, " (run {})", Visible(run.as_str()));
    }
    if let Some(why) = &progress.why {
        let _ = write!(text, ": {}", Visible(why));
    }
    text
}

fn role(result: SiteResult) -> Role {
    match result {
        SiteResult::Pending => Role::Strong,
        SiteResult::Running => Role::Changed,
        SiteResult::Succeeded => Role::Success,
        SiteResult::Failed | SiteResult::Held => Role::Destructive,
    }
}

/// The first few names.
fn some(sites: &[Arc<str>]) -> String {
    let shown: Vec<&str> = sites.iter().take(SHOWN).map(|site| &**site).collect();
    let more = sites.len().saturating_sub(SHOWN);
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
