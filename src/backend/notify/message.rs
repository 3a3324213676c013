//! A message about a run, as `schemas/notification.json` describes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::http::plain;

/// The version of the format.
const VERSION: u32 = 1;
/// The most nodes that are named.
const MOST_NODES: usize = 20;
/// The most next steps.
const MOST_NEXT: usize = 5;
/// The longest text, in characters.
const LONGEST: usize = 500;

/// The moment of a run that a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// It begins, or is resumed.
    Begin,
    /// It stops, and a person has to act.
    Stop,
    /// It has succeeded, or was aborted.
    End,
    /// None: `trueup doctor` tries the destination.
    Test,
}

impl Moment {
    /// Its name in documents and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Stop => "stop",
            Self::End => "end",
            Self::Test => "test",
        }
    }
}

/// Why a person has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// Nodes or groups failed.
    Failed,
    /// Too many nodes failed, and nothing more was begun.
    Halted,
    /// No maintenance window is open any more, and steps are left.
    WindowClosed,
    /// The state of a step is not known, and waits for a decision.
    Undecided,
    /// It was asked to stop, or could not continue.
    Interrupted,
    /// Another process has taken its lock over.
    TakenOver,
    /// It does not begin: approvals are missing.
    ApprovalMissing,
}

impl StopReason {
    /// It in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Halted => "halted: too many nodes failed",
            Self::WindowClosed => "the maintenance window has closed, and steps are left",
            Self::Undecided => "the state of a step is not known",
            Self::Interrupted => "interrupted",
            Self::TakenOver => "another process has taken its lock over",
            Self::ApprovalMissing => "approvals are missing",
        }
    }
}

/// How many nodes of a run ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeCounts {
    /// As designed now.
    pub succeeded: usize,
    /// Failed.
    pub failed: usize,
    /// Begun, and not as designed yet.
    pub half_done: usize,
    /// Not begun.
    pub not_started: usize,
}

/// A node of which not all is done, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedNode {
    /// Its name.
    pub node: String,
    /// The step, where one failed or has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A message about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notification {
    /// The version of the format.
    pub version: u32,
    /// Distinguishes it from all others; the same in each attempt to deliver it.
    pub id: String,
    /// The moment.
    pub event: Moment,
    /// Why a person has to act, if one has to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<StopReason>,
    /// When, RFC 3339 in UTC.
    pub time: Arc<str>,
    /// The site.
    pub site: String,
    /// The run, if one has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The part of a divided run that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The ticket of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// Whether an interrupted run is resumed.
    pub resumed: bool,
    /// How the run ended, in the words of the records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// All of it in a sentence.
    pub summary: String,
    /// The nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,
    /// Nodes of which not all is done; of many, the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<FailedNode>,
    /// How many more there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub unfinished_more: usize,
    /// The next steps, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Notification {
    /// A message about a site.
    #[must_use]
    pub fn new(site: &str, event: Moment, time: Arc<str>) -> Self {
        Self {
            version: VERSION,
            id: String::new(),
            event,
            reason: None,
            time,
            site: site.to_owned(),
            run: None,
            part: None,
            action: None,
            revision: None,
            ticket: None,
            resumed: false,
            outcome: None,
            summary: String::new(),
            nodes: None,
            unfinished: Vec::new(),
            unfinished_more: 0,
            next: Vec::new(),
        }
    }

    /// It with all texts as they may leave this process: without secrets and control characters, and of bounded length.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let shown = |text: &str| plain(text, LONGEST);
        self.unfinished_more += self.unfinished.len().saturating_sub(MOST_NODES);
        self.unfinished.truncate(MOST_NODES);
        for node in &mut self.unfinished {
            node.node = shown(&node.node);
            node.step = node.step.as_deref().map(shown);
            node.message = node.message.as_deref().map(shown);
        }
        self.next.truncate(MOST_NEXT);
        self.next = self.next.iter().map(|text| shown(text)).collect();
        self.summary = shown(&self.summary);
        self.ticket = self.ticket.as_deref().map(shown);
        let about = self.run.as_deref().unwrap_or(&self.site);
        self.id = format!("{about}/{}/{}", self.event.as_str(), self.time);
        self
    }
}
