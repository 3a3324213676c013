//! This process as what a workflow calls.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Runtime;

use super::apply::{ProcessClock, actor};
use super::context::Context;
use super::observing;
use super::secrets::ProcessSecrets;
use super::signals;
use super::trust::TrustGate;
use crate::backend::{self, Reach};
use crate::diagnostic::{Diagnostics, Sources};
use crate::report::{self, Visible};
use crate::repository::Repository;
use crate::run::{Committer, Timekeeper};
use crate::site::{Location, Sandbox};
use crate::workflow::{Asking, Checkout, Client, Failure, FailureKind};

/// The setting of git that names the folder of simulated sites. Documents cannot name it: they are
/// input from others.
pub(super) const SIMULATED_SITES: &str = "trueup.simulatedSites";

/// The folder of simulated sites: one that several clones share, else beside the checkout's git data.
pub(super) fn simulated_sites(repository: &Repository) -> Result<PathBuf, Failure> {
    // A sandbox shares its machines with no other clone, whatever the operator has configured for all.
    let is_own = Sandbox::of(repository)?.is_some();
    let Some(folder) = repository.config(SIMULATED_SITES)?.filter(|_| !is_own) else {
        return Ok(repository.common_dir().join("trueup"));
    };
    let folder = PathBuf::from(folder);
    if folder.is_absolute() {
        return Ok(folder);
    }
    let folder = folder.display();
    let text = format!(
        "`{SIMULATED_SITES}` in git's configuration is `{folder}`, which is no absolute path"
    );
    Err(Failure::new(FailureKind::Usage, text))
}

impl Client for Context {
    fn tell(&self, text: &str) {
        let lines: Vec<String> = text.lines().map(|line| Visible(line).to_string()).collect();
        self.printer.tell(&lines.join("\n"));
    }

    fn show(&self, diagnostics: &Diagnostics, sources: &Sources) {
        let mut text = String::new();
        // Writing into a text does not fail.
        let _ = report::diagnostics::text(&mut text, diagnostics, sources, self.printer.err, false);
        self.printer.tell(&text);
    }

    fn backends(
        &self,
        checkout: &Checkout<'_>,
        location: &Location,
    ) -> Result<backend::BackendContext, Failure> {
        let repository = checkout.repository;
        let mut secrets = ProcessSecrets::new(repository.root());
        let mut named = None;
        if let Some(protected) = checkout.guards()? {
            secrets = secrets.at(self.repository()?, protected.commit);
            named = Some((protected.revision.to_string(), Reach::of(&protected.guards)));
        }
        let (site, printer) = (location.site.as_str(), self.printer);
        let gate = TrustGate::new(repository, self.directory(), site, printer, named);
        Ok(backend::BackendContext {
            gate: Arc::new(gate),
            applied: Arc::default(),
            simulated_state: simulated_sites(repository)?
                .join(location.site.as_str())
                .join("simulated-site.json"),
            secrets: Arc::new(secrets),
            identities: Arc::default(),
            looks: self.looks.clone(),
            cache: repository.cache().clone(),
        })
    }

    fn actor(&self, repository: &Repository) -> Result<Committer, Failure> {
        actor(repository)
    }

    fn principals(&self) -> &[Arc<str>] {
        &[]
    }

    fn drive(&self, runtime: &Runtime, asks: Asking<'_>) {
        let (running, ended) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let (printer, looks) = (self.printer, &*self.looks);
            scope.spawn(move || observing::show(printer, looks, &ended));
            let signal = signals::until_signal(runtime, asks);
            drop(running);
            if let Some(code) = signal {
                // Sessions at controllers are few.
                runtime.block_on(looks.leave());
                signals::exit(code);
            }
        });
    }

    fn clock(&self) -> Box<dyn Timekeeper + '_> {
        Box::new(ProcessClock::new(self.printer))
    }
}
