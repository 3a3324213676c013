//! The state of a rollout: the file that its ref holds.
//!
//! Every account that can push to the remote can write it. It is bounded and checked before it counts, and it decides the
//! order of sites alone: each run is an ordinary one, under the guards and approvals of its site.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{RunId, SectionDigest, name_problem};
use crate::document::Instant;
use crate::repository::{CommitId, Holder};

/// The version of the format that is written.
const FORMAT_VERSION: u32 = 1;
/// The largest file that is read: those of 10,000 sites are of half that size.
pub const MOST_BYTES: u64 = 16 << 20;
/// The longest text in it.
const MOST_TEXT: usize = 2_000;

/// An operator's word on a rollout: a pause, or an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decree {
    /// Why.
    pub reason: Arc<str>,
    /// By whom.
    pub by: Arc<str>,
    /// When.
    pub at: Instant,
}

impl Decree {
    /// A word of an operator, with its texts as they may stand in a state.
    #[must_use]
    pub fn new(reason: &str, by: &str, at: Instant) -> Self {
        Self {
            reason: Arc::from(bounded(reason.trim())),
            by: Arc::from(bounded(by)),
            at,
        }
    }
}

/// How a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteResult {
    /// Not begun.
    Pending,
    /// A process has begun it.
    Running,
    /// At the revision of the rollout.
    Succeeded,
    /// Its run failed, or it drifted in its soak.
    Failed,
    /// Not begun, or interrupted: something stands in the way, which `why` tells.
    Held,
}

impl SiteResult {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Held => "held",
        }
    }
}

/// The progress of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteProgress {
    /// How it is.
    pub result: SiteResult,
    /// The commit that it got, or is to get.
    pub revision: Arc<str>,
    /// Its run, if one was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Why it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Arc<str>>,
    /// When it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Instant>,
    /// The process that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<Holder>>,
    /// When its result was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Instant>,
    /// Until when it has to be without drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak_until: Option<Instant>,
    /// When it was found without drift after its soak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soaked: Option<Instant>,
    /// The run whose success does not count any more: the site was found otherwise after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated: Option<RunId>,
    /// How many nodes its run worked on.
    #[serde(default)]
    pub nodes: usize,
    /// How many of them failed.
    #[serde(default)]
    pub failed_nodes: usize,
}

impl SiteProgress {
    /// A site of which nothing is known yet.
    #[must_use]
    pub fn new(result: SiteResult, revision: CommitId) -> Self {
        Self::at(result, Arc::from(revision.to_string()))
    }

    fn at(result: SiteResult, revision: Arc<str>) -> Self {
        Self {
            result,
            revision,
            run: None,
            why: None,
            begun: None,
            holder: None,
            ended: None,
            soak_until: None,
            soaked: None,
            outdated: None,
            nodes: 0,
            failed_nodes: 0,
        }
    }

    /// Whether it is proven: at the revision, and its soak has ended without drift.
    #[must_use]
    pub fn is_proven(&self, soak: u64) -> bool {
        self.result == SiteResult::Succeeded && (soak == 0 || self.soaked.is_some())
    }

    /// The site, found otherwise than designed in its soak: the success that it had counts no more.
    #[must_use]
    pub fn drifted(self, what: &str, now: Instant) -> Self {
        let outdated = self.run.clone().or_else(|| self.outdated.clone());
        let drifted = Self {
            result: SiteResult::Failed,
            ended: Some(now),
            outdated,
            ..self
        };
        drifted.because(&format!("it has drifted in its soak: {what}"))
    }

    /// Adds a reason, cut to the length that one may have.
    #[must_use]
    pub fn because(mut self, why: &str) -> Self {
        self.why = Some(Arc::from(bounded(why)));
        self
    }
}

/// A text as it may stand in a state.
fn bounded(text: &str) -> String {
    let plain = text
        .chars()
        .map(|each| if each.is_control() { ' ' } else { each });
    plain.take(MOST_TEXT / 4).collect()
}

/// The state of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolloutState {
    /// The version of its format.
    pub format_version: u32,
    /// Which rollout.
    pub rollout: Arc<str>,
    /// The commit that the sites get.
    pub revision: Arc<str>,
    /// Digest of the data of its document there.
    pub document: SectionDigest,
    /// The phase that is under way, counted from 1.
    pub phase: usize,
    /// When it was begun.
    pub begun: Instant,
    /// The pause, if it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Decree>,
    /// The end, if it was aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<Decree>,
    /// The sites of which something is known.
    pub sites: BTreeMap<Arc<str>, SiteProgress>,
}

/// Why a state cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the state of rollout `{rollout}` cannot be used: {why}")]
pub struct StateError {
    /// Which rollout.
    pub rollout: String,
    /// Why.
    pub why: String,
}

impl RolloutState {
    /// A rollout that begins.
    #[must_use]
    pub fn new(rollout: &str, revision: CommitId, document: SectionDigest, begun: i64) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            rollout: Arc::from(rollout),
            revision: Arc::from(revision.to_string()),
            document,
            phase: 1,
            begun: Instant(begun),
            paused: None,
            aborted: None,
            sites: BTreeMap::new(),
        }
    }

    /// Reads the file of a rollout.
    ///
    /// # Errors
    ///
    /// It is no state of this rollout.
    pub fn read(rollout: &str, bytes: &[u8]) -> Result<Self, StateError> {
        let refused = |why: String| StateError {
            rollout: rollout.to_owned(),
            why,
        };
        if bytes.len() as u64 > MOST_BYTES {
            return Err(refused(format!(
                "it has {} bytes, more than any has",
                bytes.len()
            )));
        }
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        let broken = |error: serde_json::Error| refused(format!("it cannot be read: {error}"));
        let version: Version = serde_json::from_slice(bytes).map_err(broken)?;
        if version.format_version > FORMAT_VERSION {
            let why = format!(
                "it was written in format {} by a newer trueup; this one reads format {FORMAT_VERSION}",
                version.format_version
            );
            return Err(refused(why));
        }
        let state: Self = serde_json::from_slice(bytes).map_err(broken)?;
        state.check(rollout).map_err(refused)?;
        Ok(state)
    }

    fn check(&self, rollout: &str) -> Result<(), String> {
        if *self.rollout != *rollout {
            return Err(format!(
                "it is that of rollout `{}`",
                bounded(&self.rollout)
            ));
        }
        if self.revision.parse::<CommitId>().is_err() {
            return Err("its revision is no commit".to_owned());
        }
        let decrees = self.paused.iter().chain(&self.aborted);
        let mut texts: Vec<&Arc<str>> = decrees.flat_map(|each| [&each.reason, &each.by]).collect();
        for (name, site) in &self.sites {
            if let Some(problem) = name_problem(name) {
                return Err(format!("a site's name `{}` {problem}", bounded(name)));
            }
            if site.revision != self.revision {
                return Err(format!(
                    "site `{name}` has another revision than the rollout"
                ));
            }
            texts.extend(&site.why);
            let mut runs = site.run.iter().chain(&site.outdated);
            if runs.any(|run| name_problem(run.as_str()).is_some()) {
                return Err(format!(
                    "the run of site `{name}` has no id that a run can have"
                ));
            }
        }
        let is_bad =
            |text: &&Arc<str>| text.len() > MOST_TEXT || text.chars().any(char::is_control);
        match texts.iter().any(is_bad) {
            true => Err("a text in it is too long, or has control characters".to_owned()),
            false => Ok(()),
        }
    }

    /// The bytes of its file.
    ///
    /// # Errors
    ///
    /// It cannot be written, which does not happen.
    pub fn write(&self) -> Result<Vec<u8>, StateError> {
        serde_json::to_vec_pretty(self).map_err(|error| StateError {
            rollout: self.rollout.to_string(),
            why: error.to_string(),
        })
    }

    /// Ends a pause, and lets failed sites be begun once more.
    pub fn resume(&mut self) {
        self.paused = None;
        for site in self.sites.values_mut() {
            if site.result == SiteResult::Failed {
                let anew = SiteProgress::at(SiteResult::Pending, site.revision.clone());
                let outdated = site.outdated.take();
                *site = SiteProgress { outdated, ..anew };
            }
        }
    }

    /// How a site is.
    #[must_use]
    pub fn result(&self, site: &str) -> SiteResult {
        let known = self.sites.get(site);
        known.map_or(SiteResult::Pending, |site| site.result)
    }
}
