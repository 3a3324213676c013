//! The common part of drivers of provisioners: systems that keep an object of their own for each machine,
//! found by a name, and drive the machine by themselves.
//!
//! An object is looked for by its name, and is that of the machine that the document means if the
//! record names the same one. A change is asked for only if trueup's own table has it ([`Task::gate`]):
//! provisioners take what they should refuse.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use super::driver::Result;
use super::proof::{self, Evidence};
use super::written::names;
use crate::backend::{ActError, BackendContext, Order};
use crate::design::{CleaningPolicy, NodeDesign, NodeName};
use crate::diagnostic::Diagnostic;
use crate::guard::Guarded;
use crate::identity::{Identity, Proof, Registry, Verdict};
use crate::lifecycle::{self, Flags, ProvisionState, Verb};
use crate::step::{Given, StepKind};
use crate::threads::lock;

/// A provisioner as its driver reaches it.
pub(super) trait Provisioner: Send + Sync + Sized {
    /// Its object for a machine.
    type Object: ProvisionedObject;

    /// The design of its machines.
    fn roster(&self) -> &Roster;

    /// The object of a task, if there is one.
    fn find(
        &self,
        task: &Task<'_, Self>,
    ) -> impl Future<Output = Result<Option<Self::Object>>> + Send;

    /// Whether an object is of the machine that the document means.
    fn prove(
        &self,
        node: &NodeDesign,
        object: &Self::Object,
    ) -> impl Future<Output = Result<(Identity, Proof)>> + Send;

    /// The error if there is no object with a name.
    fn not_found(&self, name: &str) -> String;
}

/// A provisioner's object for a machine.
pub(super) trait ProvisionedObject: Clone + Send + Sync {
    /// Its kind, and the name of its id: `node of Ironic's`, `UUID`.
    const CALLED: (&'static str, &'static str);

    /// Tells it from another object of its name.
    fn id(&self) -> &Arc<str>;

    /// Where its machine stands.
    fn provision_state(&self) -> ProvisionState;

    /// The flags beside the state.
    fn flags(&self, roster: &Roster) -> Flags;

    /// The evidence for a refusal of a verb: each with its name, where it is set.
    fn evidence(&self, verb: Verb, roster: &Roster) -> Vec<(&'static str, Option<Arc<str>>)>;
}

/// The design of the machines that a provisioner moves.
#[derive(Debug)]
pub(super) struct Roster {
    /// The site.
    pub(super) site: Arc<str>,
    /// Nodes that are called otherwise in the provisioner.
    pub(super) names: HashMap<NodeName, Arc<str>>,
    policies: Vec<CleaningPolicy>,
    /// Nodes that the design has: what left it is removed from the provisioner when it is torn down.
    designed: BTreeSet<NodeName>,
    /// Which node is known by what.
    pub(super) identities: Arc<Registry>,
}

impl Roster {
    /// The machines of a design; `system` and `title`: what the provisioner is called in documents and in
    /// words, `code`: that of its settings.
    ///
    /// # Errors
    ///
    /// Two machines have one name in the provisioner.
    pub(super) fn of(
        site: &Guarded,
        (system, title): (&str, &str),
        code: &'static str,
        context: &BackendContext,
    ) -> Result<Self, Box<Diagnostic>> {
        Ok(Self {
            site: Arc::from(site.site.as_str()),
            names: names(site, system, title, code)?,
            policies: site.guards().cleaning.clone(),
            designed: site.nodes.keys().cloned().collect(),
            identities: context.identities.clone(),
        })
    }

    /// The node's name in the provisioner.
    pub(super) fn name_of(&self, node: &NodeName) -> Arc<str> {
        let other = self.names.get(node).cloned();
        other.unwrap_or_else(|| Arc::from(node.as_str()))
    }

    /// Whether the site's policy wants the machine cleaned when its system is taken off; absent: it is
    /// not set.
    pub(super) fn automated_clean(&self, node: &NodeDesign) -> Option<bool> {
        let policy = self.policies.iter().find(|policy| policy.is_about(node));
        policy.map(|policy| policy.automated)
    }

    /// Whether the design has the node.
    pub(super) fn is_designed(&self, node: &NodeDesign) -> bool {
        self.designed.contains(&node.name)
    }

    /// Whether these are all nodes of the design.
    pub(super) fn are_all(&self, nodes: &[Arc<NodeDesign>]) -> bool {
        let given: BTreeSet<&NodeName> = nodes.iter().map(|node| &node.name).collect();
        self.designed.iter().all(|name| given.contains(name))
    }

    /// Judges what was observed of a node's machine; `designed`: what the document names of it.
    pub(super) fn judge(
        &self,
        node: &NodeDesign,
        designed: &Identity,
        observed: &Identity,
    ) -> Verdict {
        let name = node.name.as_str();
        let verdict = self.identities.judge(name, designed, observed);
        self.identities.observe(name, designed, observed);
        verdict
    }

    /// The proof of a machine whose object is still to be made: that finds it by the MAC address of the
    /// document.
    pub(super) fn proof_before(&self, node: &NodeDesign, designed: &Identity) -> Proof {
        let expected = Identity {
            macs: designed.macs.clone(),
            ..Identity::default()
        };
        let name = node.name.as_str();
        let verdict = self.identities.judge(name, designed, &expected);
        verdict.into_proof()
    }
}

/// One step on one machine of a provisioner.
pub(super) struct Task<'a, P: Provisioner> {
    pub(super) backend: &'a P,
    pub(super) order: &'a Order,
    pub(super) node: &'a NodeDesign,
    /// The node's name in the provisioner.
    pub(super) name: Arc<str>,
    /// By which failures begin.
    pub(super) subject: String,
    pub(super) began: Instant,
    /// The object as it was observed before the step began, for who looks first.
    first: Mutex<Option<P::Object>>,
}

impl<'a, P: Provisioner> Task<'a, P> {
    pub(super) fn new(
        backend: &'a P,
        order: &'a Order,
        node: &'a NodeDesign,
        subject: impl FnOnce(&str) -> String,
    ) -> Self {
        let name = backend.roster().name_of(&node.name);
        Self {
            backend,
            order,
            node,
            subject: subject(&name),
            name,
            began: Instant::now(),
            first: Mutex::default(),
        }
    }

    pub(super) fn permanent(&self, text: impl Display) -> ActError {
        ActError::Permanent(self.about(text))
    }

    pub(super) fn passing(&self, text: impl Display) -> ActError {
        ActError::Passing(self.about(text))
    }

    pub(super) fn about(&self, text: impl Display) -> Arc<str> {
        Arc::from(format!("{}: {text}", self.subject))
    }

    /// Reports the progress of the step.
    pub(super) fn report(&self, text: impl Into<Arc<str>>) {
        self.order.reporter.progress(text);
    }

    pub(super) fn kind(&self) -> StepKind {
        self.order.step.id.kind
    }

    pub(super) fn given(&self) -> &'a dyn Given {
        self.order.step.given()
    }

    /// Whether the disks are to be kept as they are.
    pub(super) fn preserves(&self) -> bool {
        *self.given().preserve_local_storage()
    }

    /// Why a flag is set.
    pub(super) fn reason(&self) -> &'a str {
        let reason = self.given().reason().as_deref();
        reason.unwrap_or("set by trueup")
    }

    /// Whether the step has noted this in an earlier attempt.
    pub(super) fn has_noted(&self, note: &str) -> bool {
        self.order.notes.iter().any(|noted| **noted == *note)
    }

    /// Whether the machine left the design.
    pub(super) fn has_left(&self) -> bool {
        !self.backend.roster().is_designed(self.node)
    }

    /// When the step ends at the latest, by its own word; `None`: it has no limit.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.order.time().map(|time| self.began + time)
    }

    /// Whether the step's time is over.
    pub(super) fn is_over(&self) -> bool {
        self.deadline().is_some_and(|end| Instant::now() >= end)
    }

    /// The object as it is now, if there is one.
    ///
    /// # Errors
    ///
    /// The provisioner cannot be asked, or has another object under the name than the record names.
    pub(super) async fn look(&self) -> Result<Option<P::Object>> {
        let first = self.first().take();
        if first.is_some() {
            return Ok(first);
        }
        let found = self.backend.find(self).await?;
        let known = &self.backend.roster().identities;
        let known = known.known(self.node.name.as_str());
        if let (Some(found), Some(recorded)) = (&found, known.and_then(|known| known.provisioner))
            && recorded != *found.id()
        {
            let (what, id) = P::Object::CALLED;
            return Err(self.permanent(format!(
                "it is another {what} than the record names: its {id} is {}, expected {recorded}",
                found.id()
            )));
        }
        Ok(found)
    }

    fn first(&self) -> MutexGuard<'_, Option<P::Object>> {
        lock(&self.first)
    }

    /// The object as it is now.
    pub(super) async fn known(&self) -> Result<P::Object> {
        let found = self.look().await?;
        found.ok_or_else(|| self.permanent(self.backend.not_found(&self.name)))
    }

    /// Observes what distinguishes the machine; `designed`: what the document names of it. `None` if
    /// there is no object, and the step makes none.
    pub(super) async fn evidence(&self, designed: &Identity) -> Result<Option<Evidence>> {
        let (identity, proof) = match self.look().await? {
            Some(found) => {
                let proven = self.backend.prove(self.node, &found).await?;
                *self.first() = Some(found);
                proven
            }
            None if self.kind() == StepKind::Prepare => {
                let proof = self.backend.roster().proof_before(self.node, designed);
                (Identity::default(), proof)
            }
            None => return Ok(None),
        };
        Ok(Some(Evidence {
            identity,
            proof,
            subject: self.subject.clone(),
        }))
    }

    /// Admits an object that the step has created.
    pub(super) async fn admit(&self, identity: Identity, proof: Proof) -> Result<()> {
        let evidence = Evidence {
            identity,
            proof,
            subject: self.subject.clone(),
        };
        let registry = &self.backend.roster().identities;
        proof::admit(registry, self.order, self.node, &evidence).await
    }

    /// Refuses what trueup's own table does not have.
    pub(super) fn gate(&self, object: &P::Object, verb: Verb) -> Result<()> {
        let roster = self.backend.roster();
        let step = lifecycle::step(object.provision_state(), verb, object.flags(roster));
        let refusal = match step {
            Ok(_) => return Ok(()),
            Err(refusal) => refusal,
        };
        let evidence = object.evidence(verb, roster).into_iter();
        let evidence: String = evidence
            .filter_map(|(what, text)| Some(format!(" ({what}: {})", text?)))
            .collect();
        Err(self.permanent(format!("{refusal}{evidence}")))
    }
}
