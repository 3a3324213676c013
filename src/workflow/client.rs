//! The interface of a workflow to its caller: messages, and resources that only a process has.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::Runtime;

use super::{Checkout, Failure};
use crate::backend;
use crate::diagnostic::{Diagnostics, Sources};
use crate::repository::Repository;
use crate::run::{Committer, Timekeeper};
use crate::site::Location;

/// The caller of a workflow: a command line, a service, a test.
pub trait Client: Sync {
    /// Reports a message.
    fn tell(&self, text: &str);

    /// Shows what is wrong with documents.
    fn show(&self, diagnostics: &Diagnostics, sources: &Sources);

    /// The context of backends besides the documents; also decides whether they are contacted.
    ///
    /// # Errors
    ///
    /// The guards of the site cannot be loaded from where they are to be taken.
    fn backends(
        &self,
        checkout: &Checkout<'_>,
        location: &Location,
    ) -> Result<backend::BackendContext, Failure>;

    /// The user.
    ///
    /// # Errors
    ///
    /// Git's configuration cannot be read.
    fn actor(&self, repository: &Repository) -> Result<Committer, Failure>;

    /// The principals on whose behalf it acts beside the user: the caller of a service, and the author of the plan. They
    /// apply, so that none of them approves.
    fn principals(&self) -> &[Arc<str>];

    /// The clock.
    fn clock(&self) -> Box<dyn Timekeeper + '_>;

    /// Drives what asks backends to its end. A test that has a clock of its own replaces this.
    fn drive(&self, runtime: &Runtime, asks: Asking<'_>) {
        runtime.block_on(asks);
    }
}

/// Requests to backends, to be driven to their end.
pub type Asking<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Drives what asks backends to its end, for a client; what was found.
pub(super) fn driven<T: Default>(
    client: &dyn Client,
    runtime: &Runtime,
    asks: impl Future<Output = T>,
) -> T {
    let mut found = T::default();
    client.drive(runtime, Box::pin(async { found = asks.await }));
    found
}
