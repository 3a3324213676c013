//! The client of workflows on behalf of callers: the service's own, which names those for whom it acts.

use std::sync::Arc;

use tokio::runtime::Runtime;

use super::{Asking, Checkout, Client, Failure};
use crate::backend::BackendContext;
use crate::diagnostic::{Diagnostics, Sources};
use crate::repository::Repository;
use crate::run::{Committer, Timekeeper};
use crate::site::Location;

/// The client of a request. Those for whom it acts apply, and none of them approves.
pub struct Acting<'a> {
    client: &'a dyn Client,
    principals: Vec<Arc<str>>,
}

impl<'a> Acting<'a> {
    /// The client of a caller.
    #[must_use]
    pub fn of(client: &'a dyn Client, principals: &[Arc<str>]) -> Self {
        Self {
            client,
            principals: principals.to_vec(),
        }
    }

    /// The same, also on behalf of others.
    #[must_use]
    pub fn and(mut self, others: Vec<Arc<str>>) -> Self {
        self.principals.extend(others);
        self
    }
}

impl Client for Acting<'_> {
    fn tell(&self, text: &str) {
        self.client.tell(text);
    }

    fn show(&self, diagnostics: &Diagnostics, sources: &Sources) {
        self.client.show(diagnostics, sources);
    }

    fn backends(
        &self,
        checkout: &Checkout<'_>,
        location: &Location,
    ) -> Result<BackendContext, Failure> {
        self.client.backends(checkout, location)
    }

    fn actor(&self, repository: &Repository) -> Result<Committer, Failure> {
        self.client.actor(repository)
    }

    fn principals(&self) -> &[Arc<str>] {
        &self.principals
    }

    fn clock(&self) -> Box<dyn Timekeeper + '_> {
        self.client.clock()
    }

    fn drive(&self, runtime: &Runtime, asks: Asking<'_>) {
        self.client.drive(runtime, asks);
    }
}
