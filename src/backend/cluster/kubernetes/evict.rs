//! The eviction of one pod: what is asked for, and what the answer means.
//!
//! An eviction names the pod's UID, so that a pod of the same name that came later is never meant. A
//! refusal that a budget gives is not an error but a reason to wait.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use serde_json::json;

use super::pods_in;
use crate::backend::api_server::{ApiError, Server};
use crate::backend::retry::{self, Waits};
use crate::observed::PodName;

/// The first wait after a refusal; each further one is twice as long.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// The longest wait.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// The answer to a request for an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is under way.
    Accepted,
    /// The pod is no longer there; at most its name is.
    Gone,
    /// A budget allows it only when its status has changed; which.
    Budget(Arc<str>),
    /// Something else holds it back for now, such as a webhook; what.
    Held(Arc<str>),
    /// The server cannot say for now; in how many seconds to ask again, if it said.
    Busy(u32),
}

/// Asks for an eviction.
///
/// # Errors
///
/// It is not allowed, or cannot be asked for in this way; or the server does not answer.
pub(super) async fn evict(
    server: &Server,
    version: &str,
    pod: &PodName,
    grace: u64,
) -> Result<Answer, ApiError> {
    let path = format!("{}/{}/eviction", pods_in(&pod.namespace), pod.name);
    let body = json!({
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"gracePeriodSeconds": grace, "preconditions": {"uid": pod.uid}},
    });
    match server.post(&path, &body).await {
        Ok(()) => Ok(Answer::Accepted),
        Err(ApiError::Refused(status)) => meaning(&status).ok_or(ApiError::Refused(status)),
        Err(error) => Err(error),
    }
}

/// Classifies a refused eviction; `None` if it is an error.
fn meaning(status: &Status) -> Option<Answer> {
    let details = status.details.as_ref();
    let cause = |reason: &str| details?.causes.iter().find(|cause| cause.reason == reason);
    let wait = details.map_or(0, |details| details.retry_after_seconds);
    match status.code {
        404 => Some(Answer::Gone),
        409 if status.message.contains("UID in precondition") => Some(Answer::Gone),
        409 => Some(Answer::Busy(wait)),
        429 => Some(match cause("DisruptionBudget") {
            Some(cause) => Answer::Budget(budget(&cause.message)),
            None => Answer::Busy(wait),
        }),
        // More than one budget holds the pod, which the server cannot reckon with.
        500 if status.message.contains("more than one PodDisruptionBudget") => {
            Some(Answer::Held(Arc::from("more than one budget")))
        }
        403 if cause("NamespaceTerminating").is_some() => Some(Answer::Held(Arc::from(
            "its namespace, which is being deleted",
        ))),
        // The server is there and cannot do it: as long as that is said of a pod, the pod stays.
        500.. => Some(Answer::Held(said(&status.message))),
        // Admission webhooks hold pods back until their owner is ready.
        400 | 403 if status.message.starts_with("admission webhook") => {
            let message = status
                .message
                .chars()
                .filter(|each| !each.is_control())
                .take(200);
            Some(Answer::Held(message.collect::<String>().into()))
        }
        _ => None,
    }
}

/// A server's words, made short and of one line.
fn said(message: &str) -> Arc<str> {
    let message = message.chars().filter(|each| !each.is_control()).take(200);
    message.collect::<String>().into()
}

/// The budget that a server speaks of (`The disruption budget front needs 2 healthy pods and has 2
/// currently`), with the numbers if they are there.
fn budget(message: &str) -> Arc<str> {
    let Some((name, rest)) = message
        .strip_prefix("The disruption budget ")
        .and_then(|rest| rest.split_once(' '))
    else {
        return Arc::from("a budget");
    };
    let numbers: Vec<&str> = rest
        .split(|each: char| !each.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .collect();
    match *numbers {
        [wanted, healthy] => {
            format!("budget `{name}`, which needs {wanted} and has {healthy}").into()
        }
        _ => format!("budget `{name}`").into(),
    }
}

/// The waits after refusals of one pod's eviction: many pods are not asked for at once.
pub(super) fn waits(pod: &PodName) -> Waits {
    retry::waits(FIRST_DELAY, LONGEST_DELAY, &pod.uid)
}

/// How long to wait after a refusal; `asked`: for how many seconds the server asks.
pub(super) fn delay(waits: &mut impl Iterator<Item = Duration>, asked: u32) -> Duration {
    let own = waits.next().unwrap_or(LONGEST_DELAY);
    own.max(Duration::from_secs(u64::from(asked.min(30))))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_answer_to_an_eviction_has_its_meaning() {
        let status = |code: u16, message: &str, details: Value| -> Status {
            let status =
                json!({"kind": "Status", "code": code, "message": message, "details": details});
            serde_json::from_value(status).unwrap()
        };
        let held = |text: &str| Some(Answer::Held(Arc::from(text)));
        let by_budget = |text: &str| Some(Answer::Budget(Arc::from(text)));
        let cause = |reason: &str, message: &str| json!({"causes": [{"reason": reason, "message": message}]});
        let none = Value::Null;
        let table = [
            (
                404,
                "pods \"a\" not found",
                none.clone(),
                Some(Answer::Gone),
            ),
            (
                409,
                "Operation cannot be fulfilled on pods \"a\": the UID in the precondition (x) does not match \
                 the UID in record (y). … Precondition failed: UID in precondition: x",
                none.clone(),
                Some(Answer::Gone),
            ),
            (
                409,
                "the object has been modified",
                none.clone(),
                Some(Answer::Busy(0)),
            ),
            (
                429,
                "slow down",
                json!({"retryAfterSeconds": 7}),
                Some(Answer::Busy(7)),
            ),
            (
                429,
                "Cannot evict pod",
                cause(
                    "DisruptionBudget",
                    "The disruption budget front needs 2 healthy pods and has 1 currently",
                ),
                by_budget("budget `front`, which needs 2 and has 1"),
            ),
            (
                429,
                "Cannot evict pod",
                cause(
                    "DisruptionBudget",
                    "The disruption budget front is still being processed by the server.",
                ),
                by_budget("budget `front`"),
            ),
            (
                429,
                "Cannot evict pod",
                cause("DisruptionBudget", "no"),
                by_budget("a budget"),
            ),
            (
                500,
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                none.clone(),
                held("more than one budget"),
            ),
            (
                403,
                "forbidden",
                cause("NamespaceTerminating", "namespace web is being terminated"),
                held("its namespace, which is being deleted"),
            ),
            (
                403,
                "admission webhook \"drain.example\" denied the request: not yet",
                none.clone(),
                held("admission webhook \"drain.example\" denied the request: not yet"),
            ),
            (
                403,
                "pods \"a\" is forbidden: User \"u\" cannot create",
                none.clone(),
                None,
            ),
            (422, "invalid", none.clone(), None),
            (500, "etcd is away", none, held("etcd is away")),
        ];
        for (code, message, details, expected) in table {
            assert_eq!(
                meaning(&status(code, message, details)),
                expected,
                "{code} {message}"
            );
        }
    }

    #[test]
    fn waits_grow_to_a_bound_and_differ_from_pod_to_pod() {
        let pod = |uid: &str| PodName {
            namespace: Arc::from("web"),
            name: Arc::from("a"),
            uid: Arc::from(uid),
        };
        let of = |uid: &str| waits(&pod(uid));
        for delay in of("one").take(40) {
            assert!(
                delay >= FIRST_DELAY / 2 && delay <= LONGEST_DELAY,
                "{delay:?}"
            );
        }
        let first = delay(&mut of("one"), 0);
        assert!(delay(&mut of("one").skip(9), 0) > first);
        assert_ne!(first, delay(&mut of("two"), 0));
        assert_eq!(delay(&mut of("one"), 9), Duration::from_secs(9));
        assert_eq!(delay(&mut of("one"), 4_000_000), Duration::from_secs(30));
    }
}
