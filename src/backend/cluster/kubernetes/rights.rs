//! Which rights each kind of step needs, and which of them are missing.
//!
//! The server says itself what may be done (SelfSubjectAccessReview), so that a missing right is known
//! when a plan is made and not in the middle of a drain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;

use super::shutdown::{NAME as DAEMON_SET, NAMESPACE};
use crate::backend::api_server::{ApiError, Review, Server};
use crate::observed::MissingRight;
use crate::step::StepKind;

/// A right, and the kinds of step that need it.
struct Needed {
    review: Review,
    steps: &'static [StepKind],
    /// Only if pods are deleted without regard to budgets.
    forced: bool,
}

const fn right(
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    steps: &'static [StepKind],
) -> Needed {
    Needed {
        review: Review {
            verb,
            group,
            resource,
            subresource: "",
            namespace: "",
            name: "",
        },
        steps,
        forced: false,
    }
}

use StepKind as K;

/// Kinds of step that get their node, and change it.
const OF_A_NODE: &[StepKind] = &[
    K::Drain,
    K::Uncordon,
    K::ClearLabels,
    K::ShutdownKubelet,
    K::RemoveFromCluster,
    K::AwaitReady,
    K::Relabel,
    K::Remediate,
];

/// All rights that steps need.
fn all() -> Vec<Needed> {
    let of_daemon_set = |verb| {
        let mut needed = right(verb, "apps", "daemonsets", &[K::ShutdownKubelet]);
        needed.review.namespace = NAMESPACE;
        needed.review.name = match verb {
            "create" => "",
            _ => DAEMON_SET,
        };
        needed
    };
    let mut eviction = right("create", "", "pods", &[K::Drain]);
    eviction.review.subresource = "eviction";
    let mut forced = right("delete", "", "pods", &[K::Drain, K::RemoveFromCluster]);
    forced.forced = true;
    let pods = &[
        K::Drain,
        K::ClearLabels,
        K::ShutdownKubelet,
        K::RemoveFromCluster,
    ];
    vec![
        right("get", "", "nodes", OF_A_NODE),
        right("patch", "", "nodes", OF_A_NODE),
        right("list", "", "nodes", &[K::ShutdownKubelet]),
        right("delete", "", "nodes", &[K::RemoveFromCluster, K::Remediate]),
        right("list", "", "pods", pods),
        right("watch", "", "pods", &[K::Drain]),
        right("delete", "", "pods", &[K::ShutdownKubelet]),
        eviction,
        forced,
        right("list", "policy", "poddisruptionbudgets", &[K::Drain]),
        right("watch", "policy", "poddisruptionbudgets", &[K::Drain]),
        right("list", "storage.k8s.io", "volumeattachments", &[K::Drain]),
        of_daemon_set("get"),
        of_daemon_set("create"),
        of_daemon_set("patch"),
        of_daemon_set("delete"),
    ]
}

/// The rights that some kinds of step need and that are missing. A server that does not say is taken to
/// allow them: the step finds out.
pub(super) async fn missing(server: &Server, wanted: &BTreeSet<StepKind>) -> Vec<MissingRight> {
    let is_wanted = |needed: &Needed| needed.steps.iter().any(|step| wanted.contains(step));
    let needed: Vec<Needed> = all().into_iter().filter(is_wanted).collect();
    let mut answers: BTreeMap<&Review, Result<bool, ApiError>> = BTreeMap::new();
    let asked: BTreeSet<&Review> = needed.iter().map(|needed| &needed.review).collect();
    let asked = asked.into_iter().map(|review| async move {
        let allowed = server.allows(review).await;
        (review, allowed)
    });
    answers.extend(join_all(asked).await);
    let is_missing = |needed: &&Needed| match answers.get(&needed.review) {
        Some(Ok(allowed)) => !allowed,
        Some(Err(error)) => {
            log::debug!("whether {} is allowed is unknown: {error}", needed.review);
            false
        }
        None => false,
    };
    let missing = needed.iter().filter(is_missing);
    missing
        .map(|needed| MissingRight {
            right: Arc::from(needed.review.to_string()),
            steps: needed
                .steps
                .iter()
                .map(|step| Arc::from(step.as_str()))
                .collect(),
            forced: needed.forced,
        })
        .collect()
}
