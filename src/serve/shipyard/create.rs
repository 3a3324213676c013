//! Begins an action.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::response::Response;
use http::header::{HeaderValue, LOCATION};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::answer::{ApiError, Call, with};
use super::documents::refused_documents;
use super::found::of_entry;
use super::names::{Parameters, ShipyardAction, UNABLE};
use crate::plan::Leaving;
use crate::record::{NamedAction, Requested, Store};
use crate::repository::CommitId;
use crate::run::{History, intermediate_commits};
use crate::serve::actions::{NodesTask, Order, Task};
use crate::serve::answer::Refusal;
use crate::serve::own::{SiteView, current};
use crate::serve::promenade::work;
use crate::serve::shared::Shared;
use crate::serve::work::refused;
use crate::workflow::{CollectionError, Collections, Failure, FailureKind, commit_of};

/// The body of the request.
#[derive(Deserialize)]
struct Body {
    name: String,
    parameters: Option<Map<String, Value>>,
}

pub(super) async fn create(mut call: Call) -> Result<Response, ApiError> {
    let allow = call.query.flag("allow-intermediate-commits")?;
    let bytes = call.body().await?;
    let given: Body = serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::new(
            400,
            "Invalid JSON body",
            format!("the body is no action: {error}"),
        )
    })?;
    let Some(action) = ShipyardAction::named(&given.name) else {
        let name = crate::report::Visible(&given.name);
        return Err(ApiError::new(
            400,
            UNABLE,
            format!("Unsupported Action: {name}"),
        ));
    };
    call.permit = call.subject.may(action.operation())?;
    if action == ShipyardAction::UpdateSoftware {
        let text = "update_software deploys charts, which are no documents of this service";
        return Err(ApiError::new(400, UNABLE, text));
    }
    let named = given.parameters.unwrap_or_default();
    let mut parameters = Parameters::read(action, &named)?;
    parameters.allow_intermediate_commits |= allow;
    let shared = call.shared.clone();
    if shared.actions.is_stopping() {
        return Err(ApiError::from(Refusal::unavailable("the service is about to end")).retry());
    }
    if let Ok(site) = current(&shared).await {
        refuse_unknown(&site, &parameters.nodes)?;
    }
    call.permits(parameters.nodes.clone()).await?;
    let (asking, design) = (shared.clone(), parameters.design.clone());
    let (allows, continues) = (
        parameters.allow_intermediate_commits,
        parameters.continue_on_fail,
    );
    let checked = shared.ask(move || check(&asking, action, &design, (allows, continues)));
    let revision = checked.await??;
    let order = Order {
        action: action.action(),
        task: Task::Nodes(Box::new(NodesTask {
            nodes: parameters.nodes,
            leaving: Leaving {
                preserve_local_storage: parameters.preserve_local_storage,
                ..Leaving::default()
            },
            gives_times: false,
            allow_intermediate_commits: parameters.allow_intermediate_commits,
            skip_blocked: parameters.continue_on_fail,
            only_tests: action == ShipyardAction::TestSite,
            design: parameters.design,
            revision: Some(Arc::from(revision.to_string())),
        })),
        principals: call.subject.principals.clone(),
        permit: call.permit.clone(),
        requested: Requested {
            named: Some(Box::new(NamedAction {
                name: Arc::from(action.as_str()),
                parameters: named,
                allow_intermediate_commits: parameters.allow_intermediate_commits,
            })),
            ..call.requested()?
        },
        accepted: shared.now(),
    };
    Ok(begun(&shared, order))
}

/// Begins an action. One that another keeps from the site has begun, too, and failed at its first step.
fn begun(shared: &Arc<Shared>, order: Order) -> Response {
    let entry = shared.actions.begin_or_fail(order, |entry, refusal| {
        let failure = Failure::new(FailureKind::Locked, refusal.status().message.as_str());
        let now = shared.now();
        entry.ends_without_run(Some(&failure), &now);
        (refused(entry.order.action, &failure), now)
    });
    let entry = match entry {
        Ok(entry) => {
            work(shared, &entry);
            entry
        }
        Err(entry) => entry,
    };
    let view = of_entry(&entry);
    let mut response = with(201, &view.created());
    let location = format!("/api/v1.0/actions/{}", view.id);
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Refuses nodes that neither the committed design nor the records have, before anything else is found about the request.
fn refuse_unknown(site: &SiteView, nodes: &BTreeSet<Arc<str>>) -> Result<(), ApiError> {
    let known: BTreeSet<&str> = site.status.nodes.iter().map(|each| &*each.node).collect();
    let unknown = nodes.iter().filter(|node| !known.contains(&***node));
    let texts: Vec<String> = unknown
        .map(|node| format!("there is no node `{node}`"))
        .collect();
    match texts.first() {
        Some(first) => Err(
            ApiError::new(400, "Invalid target_nodes parameter", first.as_str()).messages(texts),
        ),
        None => Ok(()),
    }
}

/// Checks what Shipyard checks before an action starts; gives the commit.
fn check(
    shared: &Shared,
    action: ShipyardAction,
    design: &crate::serve::design_ref::DesignRef,
    (allows, continues): (bool, bool),
) -> Result<CommitId, ApiError> {
    let failed = |failure: Failure| ApiError::failure(&failure);
    let host = &*shared.host;
    let repository = host.repository().map_err(failed)?;
    let checkout = host.checkout(&repository).map_err(failed)?;
    let connection = host.connection(&repository).map_err(failed)?;
    let collections = Collections {
        client: host.client(),
        checkout: &checkout,
        connection: &connection,
    };
    collections.follow_branch().map_err(|error| match error {
        CollectionError::Behind(why) => ApiError::new(409, "No committed configdocs", why),
        other => refused_documents(other),
    })?;
    let head = checkout
        .head()
        .map_err(|failure| ApiError::new(400, "No committed configdocs", failure.message))?;
    let at = design
        .resolve(host, &checkout, &connection)
        .map_err(|failure| {
            let hints = failure.hints.iter().cloned();
            let error = ApiError::new(400, UNABLE, failure.message.as_str());
            error.messages(std::iter::once(failure.message.clone()).chain(hints))
        })?;
    let commit = commit_of(at).unwrap_or(head);
    if action.is_of_site() && !allows {
        let store = Store::open(&repository, &checkout.location.site)
            .and_then(|store| store.read())
            .map_err(|error| failed(error.into()))?;
        let location = &checkout.location;
        let history = intermediate_commits(
            &repository,
            &location.site,
            &location.selection,
            &store.site,
            commit,
        );
        if let History::Between(commits) = history.map_err(|error| failed(error.into()))? {
            let text = "The current committed revision of documents is not the one after the last site action; \
                        allow-intermediate-commits carries it out all the same";
            let listed = commits.iter().map(|each| {
                let summary = crate::report::Visible(&each.subject);
                format!("{} {summary}", each.commit)
            });
            return Err(ApiError::new(409, "Intermediate commit detected", text).messages(listed));
        }
    }
    let problems = collections.problems(commit).map_err(refused_documents)?;
    let errors: Vec<String> = problems
        .iter()
        .filter(|problem| problem.is_error)
        .map(|problem| format!("{}: {}", problem.diagnostic, problem.message))
        .collect();
    if !errors.is_empty() && !continues && action != ShipyardAction::TestSite {
        let text = "the documents of the site have errors";
        return Err(ApiError::new(400, "Document validation failed", text).messages(errors));
    }
    Ok(commit)
}
