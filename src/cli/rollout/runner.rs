//! Sites as a rollout has them applied and planned: by the command line's own ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::planned;
use crate::cli::Failure;
use crate::cli::apply;
use crate::cli::context::Context;
use crate::cli::planning::RemoteArguments;
use crate::report::rollout::line;
use crate::report::sites::PlanState;
use crate::repository::Repository;
use crate::rollout::SiteProgress;
use crate::site::At;
use crate::workflow::{Checkout, Drift, SiteRunner};

/// This process, as it carries a rollout out.
pub(super) struct Runner<'c> {
    context: &'c Context,
    remote: &'c RemoteArguments,
}

impl<'c> Runner<'c> {
    pub(super) fn new(context: &'c Context, remote: &'c RemoteArguments) -> Self {
        Self { context, remote }
    }

    /// The context of a command about one site.
    fn of(&self, site: &str) -> Context {
        self.context.in_folder(self.context.directory(), Some(site))
    }
}

impl SiteRunner for Runner<'_> {
    fn apply(&self, site: &str) -> Result<u8, Failure> {
        let context = self.of(site);
        let applied = apply::unattended(&context, self.remote);
        if let Err(failure) = &applied {
            context.printer.fail(failure);
        }
        applied
    }

    fn drifted(&self, sites: &[Arc<str>]) -> Result<BTreeMap<Arc<str>, Drift>, Failure> {
        let repository = self.context.repository()?;
        let head = repository.resolve("HEAD")?;
        let is_meant = |name: &str| sites.iter().any(|site| **site == *name);
        let outcomes = planned(
            self.context,
            self.remote,
            &repository,
            At::Commit(head),
            &is_meant,
        )?;
        let drifted = sites.iter().filter_map(|site| {
            let drift = match outcomes.get(site) {
                None => Drift::Unknown("the site was not found".to_owned()),
                Some(outcome) => match outcome.state {
                    PlanState::NoChanges => return None,
                    PlanState::Failed => Drift::Unknown(outcome.changes.clone()),
                    PlanState::Blocked | PlanState::Destructive | PlanState::Changes => {
                        Drift::Changes(outcome.changes.clone())
                    }
                },
            };
            Some((site.clone(), drift))
        });
        Ok(drifted.collect())
    }

    fn checkout<'a>(
        &self,
        repository: &'a Repository,
        site: &str,
    ) -> Result<Checkout<'a>, Failure> {
        self.of(site).checkout(repository)
    }

    fn tell(&self, site: &str, progress: &SiteProgress) {
        self.context.printer.tell(&line(site, progress));
    }
}
