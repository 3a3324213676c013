//! Promenade's node endpoints and its health of etcd, as airship-node-teardown defines them.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use super::actions::{Entry, NodesTask, Order, Task, url};
use super::answer::{Refusal, json, of_status};
use super::call::{Call, on};
use super::design_ref::DesignRef;
use super::policy::Operation;
use super::query::Query;
use super::reference::Reference;
use super::shared::Shared;
use super::work::{act, refused};
use crate::design::{EtcdCluster, Guards};
use crate::observed::EtcdSeen;
use crate::plan::{Action, Leaving};
use crate::report::airship::{Message, MessageKind, Reason, Status};
use crate::report::etcd;
use crate::site::{Depth, Detail, Settings};
use crate::step::FailureReason;
use crate::telemetry::{Scope, in_same_span};
use crate::workflow::{AS_APPLIED, Failure, FailureKind, observe_etcd};

/// The longest name of a node, which is that of a DNS name.
const LONGEST_NAME: usize = 253;

/// An operation on a node.
struct NodeOperation {
    word: &'static str,
    action: Action,
    operation: Operation,
    parameters: &'static [&'static str],
    has_design: bool,
}

/// All operations on nodes, by the last part of their paths.
static OPERATIONS: [NodeOperation; 6] = [
    NodeOperation {
        word: "decommission",
        action: Action::Decommission,
        operation: Operation::Decommission,
        parameters: &[
            "drain-node-timeout",
            "drain-node-grace-period",
            "clear-labels-timeout",
            "remove-etcd-timeout",
            "etcd-ready-timeout",
        ],
        has_design: true,
    },
    NodeOperation {
        word: "drain",
        action: Action::Drain,
        operation: Operation::Drain,
        parameters: &["timeout", "grace-period"],
        has_design: false,
    },
    NodeOperation {
        word: "clear-labels",
        action: Action::ClearLabels,
        operation: Operation::ClearLabels,
        parameters: &["timeout"],
        has_design: false,
    },
    NodeOperation {
        word: "remove-etcd",
        action: Action::RemoveEtcd,
        operation: Operation::RemoveEtcd,
        parameters: &["timeout"],
        has_design: true,
    },
    NodeOperation {
        word: "shutdown-kubelet",
        action: Action::ShutdownKubelet,
        operation: Operation::ShutdownKubelet,
        parameters: &[],
        has_design: false,
    },
    NodeOperation {
        word: "remove-from-cluster",
        action: Action::RemoveFromCluster,
        operation: Operation::RemoveFromCluster,
        parameters: &[],
        has_design: false,
    },
];

/// The routes.
pub(super) fn routes() -> Router<Arc<Shared>> {
    let health = on(Operation::EtcdHealth, &["design_ref"], etcd_health);
    let nodes = "/api/v1.0/nodes/{node}";
    let routes = Router::new()
        .route(&format!("{nodes}/{{operation}}"), post(no_operation))
        .route("/api/v1.0/etcd-cluster-health-statuses", get(health))
        .route("/api/v1.0/health", get(async || StatusCode::NO_CONTENT))
        .route("/versions", get(versions));
    OPERATIONS.iter().fold(routes, |routes, found| {
        let handler = move |call| on_node(call, found);
        let handler = on(found.operation, found.parameters, handler);
        routes.route(&format!("{nodes}/{}", found.word), post(handler))
    })
}

async fn versions() -> Response {
    let body = r#"{"v1.0":{"path":"/api/v1.0","status":"stable"}}"#;
    json(StatusCode::OK, body.to_owned())
}

async fn no_operation() -> Refusal {
    Refusal::not_found("there is no such operation on nodes")
}

async fn on_node(mut call: Call, found: &NodeOperation) -> Result<Response, Refusal> {
    let node = node_name(call.named("node"))?;
    call.permits([node.clone()]).await?;
    let leaving = leaving(found.action, &call.query)?;
    let gives_times = leaving.drain_timeout.is_some() || leaving.drain_grace_period.is_some();
    let design = match found.has_design {
        true => Reference::of_body(&call.json_body().await?)?,
        false if call.body().await?.is_empty() => Reference::default(),
        false => return Err(Refusal::bad_request("the operation takes no body")),
    };
    let design = match design.fetched(&call.shared, call.headers()).await? {
        Ok(design) => design,
        Err(failure) => return Ok(of_status(&refused(found.action, &failure))),
    };
    let entry = begin(
        &call.shared,
        Order {
            action: found.action,
            task: Task::Nodes(Box::new(NodesTask {
                nodes: [node].into(),
                leaving,
                gives_times,
                design,
                ..NodesTask::default()
            })),
            principals: call.subject.principals.clone(),
            permit: call.permit.clone(),
            requested: call.requested()?,
            accepted: call.shared.now(),
        },
    )?;
    if wants_async(call.headers()) {
        return Ok(accepted(&entry));
    }
    match entry.status().await {
        Some(status) => Ok(of_status(&status)),
        None => Err(Refusal::internal()),
    }
}

/// Begins an action on a thread of its own.
pub(super) fn begin(shared: &Arc<Shared>, order: Order) -> Result<Arc<Entry>, Refusal> {
    let entry = shared.actions.begin(order)?;
    work(shared, &entry);
    Ok(entry)
}

/// Carries an action out that has begun, on a thread of its own.
pub(super) fn work(shared: &Arc<Shared>, entry: &Arc<Entry>) {
    let (worker, working) = (shared.clone(), entry.clone());
    let spawned = std::thread::Builder::new()
        .name("action".to_owned())
        .spawn(in_same_span(move || {
            let span = Scope::child("action");
            let acted = std::panic::AssertUnwindSafe(|| act(&worker, &working));
            let status = std::panic::catch_unwind(acted).unwrap_or_else(|_| {
                let text = "the action failed by a defect of the service; its log has more";
                refused(
                    working.order.action,
                    &Failure::new(FailureKind::Failed, text),
                )
            });
            worker
                .metrics
                .action_ended(working.order.action, status.reason.code);
            if let Some(span) = &span {
                tell(span, &working.order, &status);
            }
            drop(span);
            worker.actions.end(Some((status, worker.now())));
        }));
    if let Err(error) = spawned {
        log::error!("no thread could be started for an action: {error}");
        let status = refused(
            entry.order.action,
            &Failure::new(
                FailureKind::Failed,
                "no thread could be started for the action",
            ),
        );
        shared.actions.end(Some((status, shared.now())));
    }
}

/// Tells an action and its end in its span.
fn tell(span: &Scope, order: &Order, status: &Status) {
    span.set("trueup.action", order.action.as_str());
    span.set("trueup.request", order.requested.id.to_string());
    span.set("trueup.action.code", i64::from(status.reason.code));
    if status.reason.code >= 400 {
        span.fail(&status.message);
    }
}

/// The answer to a request whose caller does not wait.
fn accepted(entry: &Entry) -> Response {
    let id = &entry.order.requested.id;
    let status = Status {
        reason: Reason {
            word: "Accepted",
            code: 202,
        },
        message: format!("`{}` has begun", entry.order.action),
        messages: vec![Message {
            message: format!("{} tells how far it is", url(id)),
            error: false,
            kind: MessageKind::SimpleMessage,
            name: entry.view(|view| view.node.map(str::to_owned)),
        }],
    };
    let body = entry.view(|view| status.to_json_with("action", view));
    let mut response = json(StatusCode::ACCEPTED, body.unwrap_or_default());
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&url(id)) {
        headers.insert(LOCATION, location);
    }
    headers.insert(
        HeaderName::from_static("preference-applied"),
        HeaderValue::from_static("respond-async"),
    );
    response
}

/// Whether the caller prefers not to wait (RFC 7240).
fn wants_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|preference| preference.split(';').next())
        .any(|word| word.trim().eq_ignore_ascii_case("respond-async"))
}

/// The name of a node in a path: the names of nodes are those of hosts, and nothing that would select several.
pub(super) fn node_name(part: &str) -> Result<Arc<str>, Refusal> {
    let part = percent_decode_str(part).decode_utf8().unwrap_or_default();
    let is_name = !part.is_empty()
        && part.len() <= LONGEST_NAME
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    match is_name {
        true => Ok(Arc::from(&*part)),
        false => Err(Refusal::not_found("the name of the node is not found")),
    }
}

/// How the node leaves its clusters, by the parameters of the operation. What is absent is the step's own default.
fn leaving(action: Action, query: &Query) -> Result<Leaving, Refusal> {
    let seconds = |name| query.seconds(name);
    let mut leaving = Leaving::default();
    match action {
        Action::Drain => {
            leaving.drain_timeout = seconds("timeout")?;
            leaving.drain_grace_period = seconds("grace-period")?;
        }
        Action::ClearLabels => leaving.clear_labels_timeout = seconds("timeout")?,
        Action::RemoveEtcd => leaving.remove_etcd_timeout = seconds("timeout")?,
        Action::Decommission => {
            leaving.drain_timeout = seconds("drain-node-timeout")?;
            leaving.drain_grace_period = seconds("drain-node-grace-period")?;
            leaving.clear_labels_timeout = seconds("clear-labels-timeout")?;
            leaving.remove_etcd_timeout = seconds("remove-etcd-timeout")?;
            leaving.etcd_ready_timeout = seconds("etcd-ready-timeout")?;
        }
        // They have no times of their own here.
        _ => {}
    }
    Ok(leaving)
}

async fn etcd_health(call: Call) -> Result<Response, Refusal> {
    let Some(reference) = call
        .query
        .text("design_ref")
        .filter(|text| !text.is_empty())
    else {
        return Err(Refusal::missing_design_ref());
    };
    let design = Reference::parse(reference)?;
    let shared = &call.shared;
    let status = match design.fetched(shared, call.headers()).await? {
        Ok(design) => {
            let asking = shared.clone();
            let asked = shared.ask(move || etcd_status(&asking, &design));
            asked.await?.unwrap_or_else(|failure| no_health(&failure))
        }
        Err(failure) => no_health(&failure),
    };
    Ok(of_status(&status))
}

/// The status if no cluster could be asked.
fn no_health(failure: &Failure) -> Status {
    let mut status = refused(Action::CheckEtcd, failure);
    if status.reason == FailureReason::DisassociateStepFailure.into() {
        status.reason = FailureReason::EtcdNotAccessible.into();
    }
    status
}

fn etcd_status(shared: &Shared, design: &DesignRef) -> Result<Status, Failure> {
    let host = &*shared.host;
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let connection = host.connection(&repository)?;
    let at = design.resolve(host, &checkout, &connection)?;
    let settings = Settings {
        depth: Depth::Typed,
        detail: Detail::Designs,
        ..AS_APPLIED
    };
    let (guards, seen) = observe_etcd(host.client(), &checkout, at, settings, |found| {
        clusters(design, found).map(|_| ())
    })?;
    let nothing = EtcdSeen::default();
    let rows: Vec<etcd::Row<'_>> = clusters(design, &guards)?
        .into_iter()
        .map(|cluster| etcd::Row {
            cluster,
            seen: seen.get(&cluster.name).unwrap_or(&nothing),
        })
        .collect();
    Ok(etcd::status(&rows))
}

/// The etcd clusters that a reference to a design means.
fn clusters<'d>(
    reference: &DesignRef,
    guards: &'d Guards,
) -> Result<Vec<&'d EtcdCluster>, Failure> {
    if let Some(rendered) = reference.rendered() {
        return rendered.clusters(guards);
    }
    if guards.etcd_clusters.is_empty() {
        let text = "the design has no etcd clusters";
        return Err(Failure::new(FailureKind::NotFound, text));
    }
    Ok(guards.etcd_clusters.iter().collect())
}

/// A method that a resource does not take.
pub(super) async fn no_method(method: Method) -> Refusal {
    Refusal::method_not_allowed(&method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_may_prefer_not_to_wait() {
        let prefers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("prefer", HeaderValue::from_static(value));
            }
            wants_async(&headers)
        };
        for values in [
            &["respond-async"][..],
            &["wait=5, Respond-Async"],
            &["x", "respond-async; a=b"],
        ] {
            assert!(prefers(values), "{values:?}");
        }
        for values in [&[][..], &["wait=5"], &["respond-async-not"]] {
            assert!(!prefers(values), "{values:?}");
        }
    }

    #[test]
    fn a_node_is_named_and_never_selected() {
        for name in ["n1", "node-1.example.org", "a_b"] {
            assert!(node_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(254);
        for name in [
            "", "n*", "n?", "n1,n2", "..%2f", "n 1", "group:x", "[ab]", "{a}", &long,
        ] {
            assert!(node_name(name).is_err(), "{name}");
        }
    }
}
