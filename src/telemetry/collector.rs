//! The HTTP client of the exporter: bounded in time and size, on the thread that sends spans.
//!
//! Redirects are not followed, since they would take the headers, which may hold a credential, elsewhere. A failure is
//! described without the address, which may hold one too.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tokio::runtime::Runtime;

use super::error::ExportError;
use super::tally::Tally;
use crate::diagnostic::chain;

/// The largest answer of a collector, in bytes.
const LARGEST: usize = 1 << 20;

/// Sends requests to a collector, each on a connection of its own: batches are seconds apart, and nothing attends to a
/// connection between them.
pub(super) struct CollectorClient {
    inner: reqwest::Client,
    runtime: Runtime,
    tally: Arc<Tally>,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

impl CollectorClient {
    pub(super) fn new(
        tls: rustls::ClientConfig,
        proxied: bool,
        timeout: Duration,
        tally: Arc<Tally>,
    ) -> Result<Self, ExportError> {
        let builder = reqwest::Client::builder();
        let builder = match proxied {
            true => builder,
            false => builder.no_proxy(),
        };
        let inner = builder
            .tls_backend_preconfigured(tls)
            .http1_only()
            .referer(false)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(timeout)
            .pool_max_idle_per_host(0)
            .user_agent(crate::USER_AGENT)
            .build()
            .map_err(ExportError::Client)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ExportError::Runtime)?;
        Ok(Self {
            inner,
            runtime,
            tally,
        })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (parts, body) = request.into_parts();
        let failed = |error: reqwest::Error| chain(&error.without_url());
        let request = self
            .inner
            .request(parts.method, parts.uri.to_string())
            .headers(parts.headers)
            .body(body);
        let mut answer = request.send().await.map_err(failed)?;
        let mut content = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            if content.len() + chunk.len() > LARGEST {
                return Err("the answer of the collector is too large".to_owned());
            }
            content.extend_from_slice(&chunk);
        }
        let mut response = Response::new(Bytes::from(content));
        *response.status_mut() = answer.status();
        std::mem::swap(response.headers_mut(), answer.headers_mut());
        Ok(response)
    }

    /// Notes why the spans of a request are not taken, all or some.
    fn judge(&self, result: &Result<Response<Bytes>, String>) {
        match result {
            Err(why) => self.tally.note(why.clone()),
            Ok(answer) if answer.status().is_success() => {
                self.tally.rejects(rejected(answer.body()));
            }
            Ok(answer) => {
                let status = answer.status();
                self.tally.note(format!("the collector answers {status}"));
            }
        }
    }
}

impl HttpClient for CollectorClient {
    fn send_bytes<'a, 'f>(&'a self, request: Request<Bytes>) -> Sending<'f>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let result = self.runtime.block_on(self.exchange(request));
            self.judge(&result);
            result.map_err(HttpError::from)
        })
    }
}

/// An exchange that is under way.
type Sending<'f> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>;

/// The number of spans that a collector has refused, of a request that it has taken.
fn rejected(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    u64::try_from(partial.rejected_spans).unwrap_or_default()
}
