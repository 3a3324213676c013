//! The progress of a remediation in reports: a line for people that programs can read back.

use std::fmt;
use std::str::FromStr;

use super::{Release, Task};

/// The current activity of a remediation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The reboot annotation is put on its host.
    Hold,
    /// It is waited until it is off.
    AwaitOff,
    /// Labels, taints and annotations of its Node are backed up.
    BackUp,
    /// Its Node is deleted.
    DeleteNode,
    /// Its Node is marked as out of service.
    MarkOutOfService,
    /// The request for remediation is taken off its Machine.
    Unmark,
    /// The reboot annotation is taken off its host.
    LetGo,
    /// It is waited until it is on.
    AwaitOn,
    /// It is waited for a new Node.
    AwaitNode,
    /// Labels, annotations and taints are restored on its Node.
    Restore,
    /// It is waited until its Node is Ready.
    AwaitReady,
    /// It is off, and not by us.
    Stuck,
}

/// Each activity, and how it is reported.
const ACTIVITIES: [(Activity, &str); 12] = [
    (Activity::Hold, "fencing it (power off)"),
    (Activity::AwaitOff, "waiting until it is off"),
    (
        Activity::BackUp,
        "backing up labels, annotations and taints of its node",
    ),
    (Activity::DeleteNode, "deleting its node"),
    (
        Activity::MarkOutOfService,
        "marking its node as out of service",
    ),
    (
        Activity::Unmark,
        "it is safe: removing the request for remediation",
    ),
    (Activity::LetGo, "unfencing it (power on)"),
    (Activity::AwaitOn, "waiting until it is on"),
    (Activity::AwaitNode, "waiting for its node"),
    (
        Activity::Restore,
        "restoring labels, annotations and taints of its node",
    ),
    (Activity::AwaitReady, "waiting until its node is Ready"),
    (Activity::Stuck, "it is off, and not fenced"),
];

/// The progress of a remediation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptProgress {
    /// Which attempt, from 1 on.
    pub attempt: u32,
    /// The activity.
    pub activity: Activity,
}

impl Task {
    /// The task as it is reported, if there is anything to report.
    #[must_use]
    pub fn activity(&self, method: Release) -> Option<Activity> {
        Some(match self {
            Self::Hold => Activity::Hold,
            Self::AwaitOff => Activity::AwaitOff,
            Self::BackUp(_) => Activity::BackUp,
            Self::Release(_) => match method {
                Release::DeleteNode => Activity::DeleteNode,
                Release::OutOfService => Activity::MarkOutOfService,
            },
            Self::Unmark => Activity::Unmark,
            Self::LetGo => Activity::LetGo,
            Self::AwaitOn => Activity::AwaitOn,
            Self::AwaitNode => Activity::AwaitNode,
            Self::Restore => Activity::Restore,
            Self::AwaitReady => Activity::AwaitReady,
            Self::Stuck => Activity::Stuck,
            Self::Nothing => return None,
        })
    }
}

impl fmt::Display for AttemptProgress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempt = self.attempt;
        let own = ACTIVITIES.iter().find(|(own, _)| *own == self.activity);
        let text = own.map_or("", |(_, text)| text);
        write!(out, "attempt {attempt}: {text}")
    }
}

/// A report that is not one of a remediation's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no progress of a remediation")]
pub struct NoProgress;

impl FromStr for AttemptProgress {
    type Err = NoProgress;

    fn from_str(text: &str) -> Result<Self, NoProgress> {
        let parts = || {
            let (attempt, activity) = text.strip_prefix("attempt ")?.split_once(": ")?;
            Some(Self {
                attempt: attempt.parse().ok()?,
                activity: ACTIVITIES.iter().find(|(_, own)| *own == activity)?.0,
            })
        };
        parts().ok_or(NoProgress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_progress_is_read_back_as_it_was_reported() {
        for (activity, _) in ACTIVITIES {
            let progress = AttemptProgress {
                attempt: 3,
                activity,
            };
            assert_eq!(progress.to_string().parse(), Ok(progress));
        }
        let held = "attempt 2: fencing it (power off)";
        let read: AttemptProgress = held.parse().unwrap();
        assert_eq!((read.attempt, read.activity), (2, Activity::Hold));
        assert_eq!(read.to_string(), held);
        for other in [
            "",
            "fencing it (power off)",
            "attempt two: fencing it (power off)",
            "attempt 2: fencing",
        ] {
            assert_eq!(other.parse::<AttemptProgress>(), Err(NoProgress), "{other}");
        }
    }
}
