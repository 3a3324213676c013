//! The one way to what the service does: a handler is given a request of a caller that may have the operation, with the
//! parameters that the operation knows, and cannot be reached otherwise.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request};
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::answer::Refusal;
use super::listen::Peer;
use super::policy::Operation;
use super::query::{BadParameter, Query};
use super::rights::Permit;
use super::shared::Shared;
use super::subject::Subject;
use crate::record::Requested;
use crate::workflow::Failure;

/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(30);

/// The ids of a request.
#[derive(Clone, Debug)]
pub(super) struct RequestIds {
    /// The service's.
    pub(super) id: Arc<str>,
    /// The caller's, if it is a UUID.
    pub(super) marker: Option<Arc<str>>,
}

/// A request of a caller that may have what it asks for, with the form in which its API refuses.
pub(super) struct Call<E = Refusal> {
    pub(super) shared: Arc<Shared>,
    pub(super) subject: Subject,
    /// The caller's permission for the operation.
    pub(super) permit: Permit,
    pub(super) query: Query,
    head: Parts,
    /// Only its owner reads it; the rest may be read by several.
    body: Mutex<Body>,
    refuses: PhantomData<fn() -> E>,
}

impl<E: From<Refusal> + From<BadParameter> + From<Failure>> Call<E> {
    async fn admit(
        shared: Arc<Shared>,
        request: Request,
        operation: Operation,
        parameters: &[&str],
    ) -> Result<Self, E> {
        let (head, body) = request.into_parts();
        let peer = head.extensions.get::<Peer>().cloned();
        let peer = peer.ok_or_else(Refusal::internal)?;
        let subject = shared.subject(&peer, &head.headers).await?;
        let permit = subject.may(operation)?;
        let query = Query::parse(head.uri.query(), parameters)?;
        Ok(Self {
            shared,
            subject,
            permit,
            query,
            head,
            body: Mutex::new(body),
            refuses: PhantomData,
        })
    }

    /// Refuses what the caller may not do to some machines.
    pub(super) async fn permits(&self, nodes: impl IntoIterator<Item = Arc<str>>) -> Result<(), E> {
        if self.permit.is_whole() {
            return Ok(());
        }
        let nodes: Vec<Arc<str>> = nodes.into_iter().collect();
        let permit = self.permit.clone();
        let asking = self.shared.clone();
        let judge =
            move || permit.covers(nodes.iter().map(|node| &**node), || asking.view_of_site());
        Ok(self.shared.ask(judge).await??)
    }

    /// The part of the path that the route has a name for, as the caller wrote it.
    pub(super) fn named(&self, name: &str) -> &str {
        let route = self.head.extensions.get::<MatchedPath>();
        let route = route.map_or("", MatchedPath::as_str).split('/');
        let is_named = |part: &str| {
            let inner = part.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
            inner == Some(name)
        };
        let mut parts = route.zip(self.head.uri.path().split('/'));
        let found = parts.find(|(part, _)| is_named(part));
        found.map_or("", |(_, given)| given)
    }

    /// Its headers.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Its ids.
    pub(super) fn ids(&self) -> Result<RequestIds, Refusal> {
        let ids = self.head.extensions.get::<RequestIds>().cloned();
        ids.ok_or_else(Refusal::internal)
    }

    /// The request as a run records it.
    pub(super) fn requested(&self) -> Result<Requested, Refusal> {
        let ids = self.ids()?;
        Ok(Requested {
            subject: self.subject.name.clone(),
            by: Arc::from(self.subject.by),
            id: ids.id,
            marker: ids.marker,
            named: None,
        })
    }

    /// Its body, bounded in size and time.
    pub(super) async fn body(&mut self) -> Result<Vec<u8>, Refusal> {
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (body, most) = (std::mem::take(body), self.shared.body_bytes());
        if body.size_hint().lower() > most as u64 {
            return Err(Refusal::too_large(most));
        }
        match tokio::time::timeout(BODY_TIME, Limited::new(body, most).collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes().to_vec()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::too_large(most)),
            Ok(Err(_)) => Err(Refusal::bad_request("the body broke off").closing()),
            Err(_) => Err(Refusal::timeout("the body did not come in time")),
        }
    }

    /// Its body, which is refused if it is marked as anything but JSON.
    pub(super) async fn json_body(&mut self) -> Result<Vec<u8>, Refusal> {
        let body = self.body().await?;
        let kind = self.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        match kind {
            Some(kind) if !body.is_empty() && !kind.eq_ignore_ascii_case("application/json") => {
                Err(Refusal::unsupported_type("application/json"))
            }
            Some(_) | None => Ok(body),
        }
    }

    /// Asks the repository, on a thread that may wait.
    pub(super) fn ask<T, F>(&self, ask: F) -> impl Future<Output = Result<T, E>> + use<T, E, F>
    where
        T: Send + 'static,
        F: FnOnce(&Arc<Shared>) -> Result<T, Failure> + Send + 'static,
    {
        let shared = self.shared.clone();
        async move {
            let asking = shared.clone();
            Ok(shared.ask(move || ask(&asking)).await??)
        }
    }
}

/// A handler with its operation, and the parameters that it knows.
#[derive(Clone)]
pub(super) struct On<F> {
    operation: Operation,
    parameters: &'static [&'static str],
    handler: F,
}

/// A handler that is called for those who may have an operation.
pub(super) fn on<F>(
    operation: Operation,
    parameters: &'static [&'static str],
    handler: F,
) -> On<F> {
    On {
        operation,
        parameters,
        handler,
    }
}

impl<F, A, E> Handler<(A, E), Arc<Shared>> for On<F>
where
    F: Fn(Call<E>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<Response, E>> + Send + 'static,
    E: From<Refusal> + From<BadParameter> + From<Failure> + IntoResponse + Send + 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, shared: Arc<Shared>) -> Self::Future {
        Box::pin(async move {
            let call = Call::admit(shared, request, self.operation, self.parameters);
            match call.await {
                Ok(call) => match (self.handler)(call).await {
                    Ok(response) => response,
                    Err(refused) => refused.into_response(),
                },
                Err(refused) => refused.into_response(),
            }
        })
    }
}
