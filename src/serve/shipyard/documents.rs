//! Documents: collections in a buffer, and what is committed.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use serde_json::{Value, json};

use super::answer::{ApiError, Call, validations, with};
use crate::report::Visible;
use crate::serve::policy::Operation;
use crate::serve::query::Query;
use crate::serve::shared::Shared;
use crate::workflow::{
    BufferMode, CollectionChange, CollectionError, Collections, CommitRequest, Version,
};

type Answer = Result<Response, ApiError>;

/// The title of refusals of a commit.
const NO_COMMIT: &str = "Unable to commit configuration documents";

/// Why documents were not taken or given out.
pub(super) fn refused_documents(error: CollectionError) -> ApiError {
    use CollectionError as E;
    match error {
        E::NoVersion(version) => {
            let text = format!("{version} version does not exist");
            ApiError::new(404, "Version does not exist", text)
        }
        E::NoCollection(Version::Buffer) => ApiError::new(
            404,
            "No documents to retrieve",
            "The Shipyard buffer is empty or does not contain this collection",
        ),
        E::NoCollection(version) => {
            let text = format!("There is no such collection in {version}");
            ApiError::new(404, "No documents to retrieve", text)
        }
        E::Occupied(mode) => {
            let text = "Buffer is either not empty or the collection already exists in it; another buffermode may \
                        do what is wanted";
            let reason = format!("Buffermode : {}", mode.as_str());
            ApiError::new(409, "Invalid collection specified for buffer", reason)
                .messages([text.to_owned()])
        }
        E::EmptyBuffer => {
            let text = "There are no documents in the buffer to commit";
            ApiError::new(409, NO_COMMIT, text).retry()
        }
        E::Elsewhere(texts) => {
            let title = "Documents may not exist in more than one collection";
            ApiError::new(409, title, texts.join("; ")).messages(texts)
        }
        E::Unchanged => ApiError::new(
            400,
            "Collection not added to Shipyard buffer",
            "Collection empty or resulted in no revision",
        ),
        E::Unsuitable(texts) => {
            let title = "Document(s) invalid syntax or otherwise unsuitable";
            ApiError::new(400, title, texts.join("; ")).messages(texts)
        }
        E::Refused(why) => {
            let title = "Document(s) invalid syntax or otherwise unsuitable";
            ApiError::new(400, title, why)
        }
        E::Raced(why) => ApiError::new(409, "The documents are being changed", why).retry(),
        E::NotPublished(why) => ApiError::new(409, NO_COMMIT, why),
        E::Behind(why) => ApiError::new(409, "The committed documents are not known", why),
        E::Failed(failure) => ApiError::failure(&failure),
    }
}

/// Works with the collections of the site, beside the requests of others.
async fn work<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Collections<'_>) -> Result<T, CollectionError> + Send + 'static,
) -> Result<T, ApiError> {
    let asking = shared.clone();
    let worked = shared.ask(move || {
        let host = &*asking.host;
        let repository = host.repository()?;
        let checkout = host.checkout(&repository)?;
        let connection = host.connection(&repository)?;
        let collections = Collections {
            client: host.client(),
            checkout: &checkout,
            connection: &connection,
        };
        work(&collections)
    });
    worked.await?.map_err(refused_documents)
}

/// A version that a caller names.
fn version(name: &str) -> Result<Version, ApiError> {
    Version::named(name).ok_or_else(|| {
        let known = Version::ALL.map(Version::as_str).join(", ");
        let text = format!("version must be {known}");
        ApiError::new(400, "Invalid version query parameter specified", text)
    })
}

/// The versions to compare, the older kind first: `versions` as Shipyard has it, or `base-version` and `diff-version`
/// as the specification does.
fn compared(query: &Query) -> Result<(Version, Version), ApiError> {
    let (base, new) = (query.text("base-version"), query.text("diff-version"));
    // Its documentation writes `version=A,B`, its client `versions=A&versions=B`.
    let versions = query.list("versions").chain(query.list("version"));
    let versions: Vec<&str> = versions.collect();
    let mut both = match &versions[..] {
        [] => [
            version(base.unwrap_or("committed"))?,
            version(new.unwrap_or("buffer"))?,
        ],
        [one, other] if base.is_none() && new.is_none() => [version(one)?, version(other)?],
        _ => {
            let title = "Incorrect number of versions for comparison";
            let text = "User must pass in 2 valid versions for comparison";
            return Err(ApiError::new(400, title, text));
        }
    };
    if both[0] == both[1] {
        let title = "Versions must be different for comparison";
        let text = "Versions must be unique in order to perform comparison";
        return Err(ApiError::new(400, title, text));
    }
    both.sort_unstable();
    Ok((both[0], both[1]))
}

pub(super) async fn status(call: Call) -> Answer {
    let (base, new) = compared(&call.query)?;
    let found = work(&call.shared, move |collections| {
        collections.compare(base, new)
    })
    .await?;
    let listed = found.collections.iter().map(|(name, change)| {
        json!({
            "collection_name": name,
            "base_version": base.as_str(),
            "base_revision": found.base.short(),
            "base_status": if *change == CollectionChange::Created { "not present" } else { "present" },
            "new_version": new.as_str(),
            "new_revision": found.new.short(),
            "new_status": change.as_str(),
        })
    });
    Ok(with(200, &Value::Array(listed.collect())))
}

/// YAML as an answer.
fn yaml(text: String) -> Response {
    let kind = [(CONTENT_TYPE, "application/x-yaml")];
    (StatusCode::OK, kind, text).into_response()
}

/// Whether secrets are wanted, which only some callers may have.
fn cleartext(call: &Call, operation: Operation) -> Result<bool, ApiError> {
    let wanted = call.query.flag("cleartext-secrets")?;
    if wanted {
        call.subject.may(operation)?.covers_all()?;
    }
    Ok(wanted)
}

pub(super) async fn collection(call: Call) -> Answer {
    let version = version(call.query.text("version").unwrap_or("buffer"))?;
    let secrets = cleartext(&call, Operation::GetConfigdocsCleartext)?;
    let name = call.named("collection").to_owned();
    let text = work(&call.shared, move |collections| {
        collections.documents(&name, version, secrets)
    });
    text.await.map(yaml)
}

pub(super) async fn rendered(call: Call) -> Answer {
    let version = version(call.query.text("version").unwrap_or("buffer"))?;
    let secrets = cleartext(&call, Operation::GetRenderedConfigdocsCleartext)?;
    let text = work(&call.shared, move |collections| {
        collections.rendered(version, secrets)
    });
    text.await.map(yaml)
}

/// The last lines of the message of a commit: who asked for it.
fn trailer(call: &Call) -> Result<String, ApiError> {
    let (subject, ids) = (&call.subject, call.ids()?);
    let line = |text: &str| Visible(&text.replace(['\n', '\r'], " ")).to_string();
    let marker = ids.marker.as_deref();
    let marker = marker.map(|marker| format!("Context-Marker: {marker}\n"));
    Ok(format!(
        "Requested-by: {} ({})\nRequest: {}\n{}",
        line(&subject.name),
        subject.by,
        ids.id,
        marker.unwrap_or_default()
    ))
}

pub(super) async fn put(mut call: Call) -> Answer {
    let mode = call.query.text("buffermode").unwrap_or("rejectoncontents");
    let mode = BufferMode::named(mode).ok_or_else(|| {
        ApiError::parameter(
            "buffermode",
            "it is `rejectoncontents`, `append` or `replace`",
        )
    })?;
    let is_empty = call.query.flag("empty-collection")?;
    let name = call.named("collection").to_owned();
    let bytes = call.body().await?;
    if bytes.is_empty() != is_empty {
        let (title, text) = match is_empty {
            false => (
                "Content-Length is a required header",
                "Content Length is 0 or not specified",
            ),
            true => (
                "Invalid collection specified for buffer",
                "an empty collection has no documents",
            ),
        };
        return Err(ApiError::new(400, title, text));
    }
    let message = format!("Put `{name}` into the buffer\n\n{}", trailer(&call)?);
    let target = name.clone();
    let problems = work(&call.shared, move |collections| {
        let bytes = (!is_empty).then_some(&bytes[..]);
        collections.put(&target, bytes, mode, &message)
    })
    .await?;
    let code = match problems.iter().any(|problem| problem.is_error) {
        true => 400,
        false => 201,
    };
    let mut response = with(201, &validations(&problems, code, None));
    let location = format!("/api/v1.0/configdocs/{name}");
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

pub(super) async fn commit(call: Call) -> Answer {
    let (force, dry_run) = (call.query.flag("force")?, call.query.flag("dryrun")?);
    let trailer = trailer(&call)?;
    let made = work(&call.shared, move |collections| {
        collections.commit(CommitRequest {
            force,
            dry_run,
            trailer: &trailer,
        })
    })
    .await?;
    let (code, message) = match (made.has_errors(), dry_run, force) {
        (_, true, _) => (200, Some("DRYRUN")),
        (true, false, true) => (200, Some("FORCED SUCCESS")),
        (true, false, false) => (400, None),
        (false, false, _) => (200, None),
    };
    if let Some(commit) = made.commit {
        log::info!(
            "the buffer was committed as {commit} for {}",
            call.subject.name
        );
    }
    Ok(with(code, &validations(&made.problems, code, message)))
}
