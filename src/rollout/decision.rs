//! The next act of a rollout.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Decree, Phases, RolloutState, SiteResult};
use crate::design::Share;
use crate::diagnostic::counted;
use crate::document::Instant;

/// The next act of a rollout, or what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It was aborted.
    Aborted(Decree),
    /// It is paused.
    Paused(Decree),
    /// A stop condition holds: the reason.
    Stopped(String),
    /// This site may be begun.
    Begin(Arc<str>),
    /// The soak of these sites is over: they have to be found without drift.
    Prove(Vec<Arc<str>>),
    /// Sites have their soak, the last of them until then.
    Soak(Instant),
    /// Sites are running, held or failed, so that the phase does not end.
    Wait(Vec<Arc<str>>),
    /// All sites are proven.
    Done,
}

/// The first phase with a site that is not proven, counted from 0; `None`: there is none.
fn open_phase(phases: &Phases, state: &RolloutState) -> Option<usize> {
    phases.all.iter().position(|phase| {
        let is_proven = |site: &Arc<str>| {
            let known = state.sites.get(site);
            known.is_some_and(|known| known.is_proven(phase.soak))
        };
        !phase.sites.iter().all(is_proven)
    })
}

/// Why the rollout is stopped, if it is.
#[must_use]
pub fn stopped(phases: &Phases, state: &RolloutState) -> Option<String> {
    let known = || phases.sites().filter_map(|site| state.sites.get(site));
    let failed = known()
        .filter(|site| site.result == SiteResult::Failed)
        .count();
    if failed >= phases.stop.sites {
        let sites = counted(failed, "site has failed", "sites have failed");
        return Some(format!(
            "{sites}, and `failed_sites` is {}",
            phases.stop.sites
        ));
    }
    let share = phases.stop.nodes?;
    let nodes: usize = known()
        .map(|site| site.nodes)
        .fold(0, usize::saturating_add);
    let failed: usize = known()
        .map(|site| site.failed_nodes)
        .fold(0, usize::saturating_add);
    let is_over = match share {
        Share::Machines(most) => failed >= most,
        Share::Percent(most) => failed as u128 * 100 >= nodes as u128 * u128::from(most),
    };
    (failed > 0 && is_over).then(|| {
        let of = counted(nodes, "node", "nodes");
        let have = if failed == 1 { "has" } else { "have" };
        format!("{failed} of {of} {have} failed, and `failed_nodes` is {share}")
    })
}

/// Decides what may be done now. `tried`: the sites that were tried already in this call.
#[must_use]
pub fn decide(
    phases: &Phases,
    state: &RolloutState,
    tried: &BTreeSet<Arc<str>>,
    now: i64,
) -> Decision {
    if let Some(aborted) = &state.aborted {
        return Decision::Aborted(aborted.clone());
    }
    let Some(open) = open_phase(phases, state) else {
        return Decision::Done;
    };
    if let Some(paused) = &state.paused {
        return Decision::Paused(paused.clone());
    }
    if let Some(why) = stopped(phases, state) {
        return Decision::Stopped(why);
    }
    let phase = &phases.all[open];
    let is_free = |site: &&Arc<str>| {
        let result = state.result(site);
        matches!(result, SiteResult::Pending | SiteResult::Held) && !tried.contains(*site)
    };
    if let Some(site) = phase.sites.iter().find(is_free) {
        return Decision::Begin(site.clone());
    }
    let with = |results: &[SiteResult]| -> Vec<Arc<str>> {
        let sites = phase.sites.iter();
        let sites = sites.filter(|site| results.contains(&state.result(site)));
        sites.cloned().collect()
    };
    let waits = with(&[
        SiteResult::Pending,
        SiteResult::Running,
        SiteResult::Held,
        SiteResult::Failed,
    ]);
    if !waits.is_empty() {
        return Decision::Wait(waits);
    }
    let soaking = phase.sites.iter().filter_map(|site| {
        let known = state.sites.get(site)?;
        let until = known.soak_until.unwrap_or(Instant(i64::MIN));
        known.soaked.is_none().then(|| (site.clone(), until))
    });
    let soaking: Vec<(Arc<str>, Instant)> = soaking.collect();
    let last = soaking.iter().map(|(_, until)| *until).max();
    match last.filter(|until| until.0 > now) {
        Some(until) => Decision::Soak(until),
        None => Decision::Prove(soaking.into_iter().map(|(site, _)| site).collect()),
    }
}

impl RolloutState {
    /// Brings the number of its phase up to date.
    pub fn count_phase(&mut self, phases: &Phases) {
        let open = open_phase(phases, self).unwrap_or(phases.all.len().saturating_sub(1));
        self.phase = open + 1;
    }
}
