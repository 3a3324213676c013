//! One machine as its controller shows it: its values, to be written as a document, and its serial console.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Checkout, Client, Failure, FailureKind, allow_applied, backend_failure, identities,
    refuse_errors, runtime,
};
use crate::backend::{self, ActError, Backends, Console, Hardware as _};
use crate::design::NodeDesign;
use crate::diagnostic::nearest;
use crate::observed::LearnedHardware;
use crate::record::Store;
use crate::site::{At, Settings};
use crate::telemetry::{Phase, Scope};

/// A machine whose controller is asked about it alone.
pub struct OneMachine<'a> {
    /// The client.
    pub client: &'a dyn Client,
    /// Where its documents are.
    pub checkout: &'a Checkout<'a>,
    /// Their revision.
    pub at: At,
    /// How they are read.
    pub settings: Settings,
    /// Its node.
    pub node: &'a str,
}

impl OneMachine<'_> {
    /// Reads the firmware, the settings and the parts of the machine; nothing is changed.
    ///
    /// # Errors
    ///
    /// The documents have errors or no such node; its backend is not trusted, or does not show them.
    pub fn learn(&self) -> Result<(Arc<NodeDesign>, LearnedHardware), Failure> {
        let (design, kind, learned) =
            self.ask(async |backends, node| backends.learn(node).await)?;
        if learned.seen.is_empty() {
            let node = self.node;
            let mut text =
                format!("node `{node}` shows no firmware, settings or parts over `{kind}`");
            for why in &learned.unread {
                text.push_str("; ");
                text.push_str(why);
            }
            let hint =
                "see docs/firmware.md for what each backend shows of a machine, and from where";
            return Err(Failure::error(text).hint(hint));
        }
        Ok((design, learned))
    }

    /// The program that shows the serial console of the machine, once that was proven to be the one that is meant.
    ///
    /// # Errors
    ///
    /// Those of [`Self::learn`]; it is another machine, or its controller offers no console.
    pub fn console(&self) -> Result<Console, Failure> {
        let (_, _, console) = self.ask(async |backends, node| backends.console(node).await)?;
        Ok(console)
    }

    /// Asks the backend of the machine.
    fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(&Backends, &NodeDesign) -> Result<T, ActError>,
    ) -> Result<(Arc<NodeDesign>, &'static str, T), Failure> {
        let Self {
            client,
            checkout,
            at,
            settings,
            node,
        } = *self;
        let location = checkout.location_at(at)?;
        let mut loader = checkout.loader()?;
        let site = loader.load(&location, at, settings)?;
        let site = refuse_errors(client, &loader, settings.depth, site)?;
        let guarded = checkout.guarded(&site)?;
        let Some(design) = guarded.nodes.get(node).cloned() else {
            let failure = Failure::new(FailureKind::NotFound, format!("unknown node `{node}`"));
            let names = guarded.nodes.keys().map(|name| name.as_str());
            return Err(match nearest(node, names) {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure,
            });
        };
        let store = Store::open(checkout.repository, &location.site)?;
        let records = store.nodes(&store.read()?)?;
        let context = client.backends(checkout, &location)?;
        allow_applied(&context, &guarded, &records, &BTreeMap::new());
        context.identities.record(identities(&records));
        let backends = backend::choose(&guarded, &context)
            .map_err(|error| backend_failure(&error, &loader))?;
        let _observing = Scope::phase(Phase::Observe);
        let runtime = runtime(guarded.guards())?;
        let answer = runtime.block_on(async {
            let answer = ask(&backends, &design).await;
            backends.leave().await;
            answer
        });
        let answer = answer.map_err(|error| Failure::error(error.to_string()))?;
        let kind = guarded.guards().backend_of(&design).kind.as_str();
        Ok((design, kind, answer))
    }
}
