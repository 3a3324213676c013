//! Spans around work, on the thread that does it.

use std::borrow::Cow;
use std::fmt;

use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, ContextGuard, InstrumentationScope, KeyValue, Value};

/// The longest text of an attribute, in bytes.
const LONGEST: usize = 4096;

/// The phases of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The documents of a site are loaded.
    Load,
    /// Machines and clusters are observed.
    Observe,
    /// The plan is made.
    Plan,
    /// The steps of a plan are carried out.
    Apply,
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Observe => "observe",
            Self::Plan => "plan",
            Self::Apply => "apply",
        }
    }
}

/// The tracer of all spans.
#[must_use]
pub fn tracer() -> BoxedTracer {
    let scope = InstrumentationScope::builder("trueup").with_version(env!("CARGO_PKG_VERSION"));
    global::tracer_with_scope(scope.build())
}

/// A text as an attribute holds it: what comes from machines has no bound of its own.
#[must_use]
pub fn clipped(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

/// A span around the work of this thread, which ends when it is dropped.
#[derive(Debug)]
pub struct Scope {
    context: Context,
    _attached: ContextGuard,
}

impl Scope {
    /// Begins a span below the one of this thread; `None` where there is none: a phase alone tells nothing.
    #[must_use]
    pub fn child(name: &'static str) -> Option<Self> {
        let parent = Context::current();
        parent
            .has_active_span()
            .then(|| Self::below(name.into(), &parent))
    }

    /// Begins the span of a phase, as [`Scope::child`] does.
    #[must_use]
    pub fn phase(phase: Phase) -> Option<Self> {
        Self::child(phase.as_str())
    }

    /// Begins the first span of this process in a trace, below `parent` where another process began the trace.
    #[must_use]
    pub fn root(name: impl Into<Cow<'static, str>>, parent: &Context) -> Self {
        Self::below(name.into(), parent)
    }

    fn below(name: Cow<'static, str>, parent: &Context) -> Self {
        let span = tracer().start_with_context(name, parent);
        let context = parent.with_span(span);
        Self {
            _attached: context.clone().attach(),
            context,
        }
    }

    /// Adds an attribute.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(key, value));
    }

    /// Marks the span as failed.
    pub fn fail(&self, why: &str) {
        self.context.span().set_status(Status::error(clipped(why)));
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.context.span().end();
    }
}

/// Does the work of a phase in a span of its own, which fails with the work.
///
/// # Errors
///
/// Those of the work.
pub fn in_phase<T, E: fmt::Display>(
    phase: Phase,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let scope = Scope::phase(phase);
    let result = work();
    if let (Some(scope), Err(error)) = (scope, &result) {
        scope.fail(&error.to_string());
    }
    result
}

/// Work for another thread, which does it in the span of this one.
pub fn in_same_span<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let context = Context::current();
    move || {
        let _attached = context.attach();
        work()
    }
}
