//! Why a step failed, in the words of airship-node-teardown ("Responses"): its message begins with the reason.

use std::fmt;
use std::sync::Arc;

/// Why something ended as it did: the reasons of the specification, each with its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureReason {
    /// It ended well.
    Success,
    /// The request cannot work.
    BadRequest,
    /// The subject was not found.
    NotFound,
    /// A rule forbids it now.
    Conflict,
    /// A step of a teardown failed.
    DisassociateStepFailure,
    /// The drain failed.
    DrainNodeError,
    /// Labels could not be taken off.
    ClearLabelsError,
    /// A member could not be removed from its etcd cluster.
    RemoveEtcdError,
    /// An etcd cluster gave an invalid answer.
    EtcdNotAccessible,
    /// The kubelet could not be shut down.
    ShutdownKubeletError,
    /// The Kubernetes node could not be deleted.
    DeleteNodeError,
}

impl FailureReason {
    /// The word of the specification.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// All reasons.
    const ALL: [Self; 11] = [
        Self::Success,
        Self::BadRequest,
        Self::NotFound,
        Self::Conflict,
        Self::DisassociateStepFailure,
        Self::DrainNodeError,
        Self::ClearLabelsError,
        Self::RemoveEtcdError,
        Self::EtcdNotAccessible,
        Self::ShutdownKubeletError,
        Self::DeleteNodeError,
    ];

    /// The message of a step that failed for this reason.
    #[must_use]
    pub fn message(self, text: impl fmt::Display) -> Arc<str> {
        Arc::from(format!("{self}: {text}"))
    }

    /// The reason of a step that failed with a message; `None` if it gives none.
    #[must_use]
    pub fn of_message(message: &str) -> Option<Self> {
        let (word, _) = message.split_once(':')?;
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// The code that HTTP would have for it.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.row().1
    }

    const fn row(self) -> (&'static str, u16) {
        match self {
            Self::Success => ("Success", 200),
            Self::BadRequest => ("BadRequest", 400),
            Self::NotFound => ("NotFound", 404),
            Self::Conflict => ("Conflict", 409),
            Self::DisassociateStepFailure => ("DisassociateStepFailure", 500),
            Self::DrainNodeError => ("DrainNodeError", 500),
            Self::ClearLabelsError => ("ClearLabelsError", 500),
            Self::RemoveEtcdError => ("RemoveEtcdError", 500),
            Self::EtcdNotAccessible => ("EtcdNotAccessible", 500),
            Self::ShutdownKubeletError => ("ShutdownKubeletError", 500),
            Self::DeleteNodeError => ("DeleteNodeError", 500),
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_read_back_from_the_message_of_its_step() {
        for reason in FailureReason::ALL {
            let message = reason.message("2 pods are left: default/web");
            assert_eq!(FailureReason::of_message(&message), Some(reason));
        }
        let message = FailureReason::DrainNodeError.message("2 pods are left");
        assert_eq!(&*message, "DrainNodeError: 2 pods are left");
        for other in ["", "DrainNodeError", "2 pods are left: DrainNodeError: no"] {
            assert_eq!(FailureReason::of_message(other), None, "{other}");
        }
    }
}
