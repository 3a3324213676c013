//! The export of spans: a bounded queue, a thread that sends batches, a bounded end.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::{Context, Key, KeyValue, global};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, Span, SpanData, SpanProcessor,
};

use super::collector::CollectorClient;
use super::error::ExportError;
use super::tally::{Losses, Notice, Tally};

/// How often a batch is sent again, after pauses of tenths of a second: a collector that is down costs the end of a
/// command no more than that.
const RETRIES: usize = 2;

/// The settings that the library does not read by itself.
pub struct ExportSettings {
    /// Whom the connection to the collector trusts.
    pub tls: rustls::ClientConfig,
    /// Whether the proxies of the environment are used.
    pub proxied: bool,
    /// How long a request may take.
    pub timeout: Duration,
    /// Most spans that wait to be sent; further ones are lost.
    pub queue: usize,
    /// Told of the first loss, where that cannot wait until the end.
    pub notice: Option<Notice>,
}

/// The export of the spans of this process.
#[derive(Debug)]
pub struct Export {
    provider: SdkTracerProvider,
    tally: Arc<Tally>,
}

impl Export {
    /// Begins to record spans, and to send them on a thread of their own.
    ///
    /// # Errors
    ///
    /// What was set cannot be used.
    pub fn begin(settings: ExportSettings) -> Result<Self, ExportError> {
        let ExportSettings {
            tls,
            proxied,
            timeout,
            queue,
            notice,
        } = settings;
        let tally = Arc::new(Tally::new(queue, notice));
        let retries = RetryPolicy::recommended().with_max_retries(RETRIES);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new(tls, proxied, timeout, tally.clone())?)
            .with_retry_policy(retries)
            .build()
            .map_err(|_| ExportError::Endpoint)?;
        let batches = BatchConfigBuilder::default().with_max_queue_size(queue);
        let sender = BatchSpanProcessor::new(
            CountingExporter {
                inner: exporter,
                tally: tally.clone(),
            },
            batches.build(),
        );
        let provider = SdkTracerProvider::builder()
            .with_resource(resource())
            .with_span_processor(BoundedProcessor {
                inner: sender,
                tally: tally.clone(),
            })
            .build();
        global::set_tracer_provider(provider.clone());
        Ok(Self { provider, tally })
    }

    /// Sends what waits, for at most `limit`, and ends; the losses, if there are any that were not told.
    #[must_use]
    pub fn end(self, limit: Duration) -> Option<Losses> {
        // Whether it did so in time is what the tally tells.
        let _ = self.provider.shutdown_with_timeout(limit);
        self.tally.losses()
    }
}

/// The resource of all spans: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, else this program.
fn resource() -> Resource {
    let given = Resource::builder().build();
    let of_given = |key: &'static str| given.get(&Key::from_static_str(key));
    let is_named =
        of_given("service.name").is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let mut builder = Resource::builder();
    if !is_named {
        builder = builder.with_service_name("trueup");
    }
    if of_given("service.version").is_none() {
        builder = builder.with_attribute(version);
    }
    builder.build()
}

/// Lets spans into the queue as far as it has space, and counts those that are lost.
#[derive(Debug)]
struct BoundedProcessor {
    inner: BatchSpanProcessor,
    tally: Arc<Tally>,
}

impl SpanProcessor for BoundedProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.tally.ends() {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Counts the spans that are sent, and those that arrive.
#[derive(Debug)]
struct CountingExporter {
    inner: SpanExporter,
    tally: Arc<Tally>,
}

impl opentelemetry_sdk::trace::SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.tally.takes(spans);
        let result = self.inner.export(batch).await;
        match &result {
            Ok(()) => self.tally.delivers(spans),
            Err(_) => self.tally.lose(),
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
