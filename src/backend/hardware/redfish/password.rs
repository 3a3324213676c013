//! The password of a controller's account, and its replacement by a new one.
//!
//! The new password is durable in the pending slot of its secret before the controller is asked for anything, is tried, and
//! then takes the place of the old one. A process that is killed leaves both slots: the next one tries the pending password
//! and, where that is refused, the current one, each once, since controllers lock accounts. The password is in no plan, note,
//! journal or argument list.

use std::sync::Arc;

use serde_json::json;
use tokio::time::sleep;

use super::controller::Controller;
use super::machine::{Machine, sessions_of};
use super::notes::{Before, Note};
use super::settings::Sessions;
use super::{Redfish, is_of_each_node};
use crate::backend::hardware::written::reference_for;
use crate::backend::http::{Class, Credentials, Endpoint};
use crate::backend::{ActError, Order, Probe, Secret, SecretError};
use crate::design::{NodeDesign, Reference};
use crate::threads::lock;

/// The length of new passwords: as long as all makers take.
const LENGTH: u64 = 20;
/// Most accounts of a controller that are read.
const MOST: usize = 256;
/// The note of a password that was asked for.
const ROTATE: &str = "rotate-password";
/// The wrong passwords that an interrupted replacement may cost.
const WRONG: u64 = 2;

impl Redfish {
    /// The reference of a node's password, where that can be replaced; or why not.
    fn replaceable(&self, node: &NodeDesign) -> Result<(Arc<str>, Reference), String> {
        let Some(account) = &self.settings.account else {
            return Err("`credentials` is not set".to_owned());
        };
        if !is_of_each_node(&account.password) {
            let text = "`credentials.password` is one for all nodes: it needs `{node}`";
            return Err(text.to_owned());
        }
        let reference = reference_for(&account.password, node);
        match self.secrets.cannot_be_replaced(&reference) {
            Some(why) => Err(why),
            None => Ok((account.username.clone(), reference)),
        }
    }

    /// Whether the password of a node's controller can be replaced, as far as its secret is concerned.
    pub(super) fn can_rotate(&self, node: &NodeDesign) -> bool {
        self.replaceable(node).is_ok()
    }

    /// The account of a node's controller. Where a replacement of its password was interrupted, the one of both that it
    /// takes, each tried once in the life of this process.
    pub(super) async fn taken_account(
        &self,
        node: &NodeDesign,
        (subject, endpoint): (&Arc<str>, &Endpoint),
    ) -> Result<Option<Credentials>, ActError> {
        let refuse = |text: String| ActError::Permanent(Arc::from(format!("{subject}: {text}")));
        let current = self.account(node).map_err(refuse)?;
        let Some(Credentials::Basic { username, password }) = &current else {
            return Ok(current);
        };
        let Ok((_, reference)) = self.replaceable(node) else {
            return Ok(current);
        };
        let unreadable = |error: SecretError| refuse(format!("its pending password: {error}"));
        let pending = self.secrets.pending(&reference).map_err(unreadable)?;
        let Some(pending) = pending.filter(|pending| pending != password) else {
            return Ok(current);
        };
        let of = |password: &Secret| Credentials::Basic {
            username: username.clone(),
            password: password.clone(),
        };
        let both = [&pending, password];
        let known = lock(&self.taken).get(&node.name).cloned();
        match known {
            Some(Some(taken)) if both.contains(&&taken) => return Ok(Some(of(&taken))),
            Some(None) => return Err(refuse(neither(&reference))),
            _ => {}
        }
        for each in both {
            let controller = self.controller(subject, endpoint, Some(of(each)));
            let is_taken = self.is_taken(&controller).await?;
            controller.log_out().await;
            if is_taken {
                lock(&self.taken).insert(node.name.clone(), Some(each.clone()));
                return Ok(Some(of(each)));
            }
        }
        // This process retries neither.
        lock(&self.taken).insert(node.name.clone(), None);
        Err(refuse(neither(&reference)))
    }

    /// Whether a controller takes the account that it is used with; the password is sent once.
    async fn is_taken(&self, controller: &Controller) -> Result<bool, ActError> {
        let root = controller.root().await?;
        let sessions = match self.settings.sessions {
            Sessions::Auto => sessions_of(&root),
            Sessions::Never => None,
        };
        let read = root.link("/Systems").unwrap_or("/redfish/v1/Systems");
        Ok(controller.takes_login(sessions, read).await?)
    }
}

fn neither(reference: &Reference) -> String {
    let path = match reference {
        Reference::File(path) | Reference::Env(path) => path.clone(),
        Reference::Exec(words) => Arc::from(words.join(" ")),
    };
    format!(
        "its controller takes neither the pending password nor the current one: set the password of its account by hand to \
         that of `{path}`, and remove `{path}.pending`"
    )
}

impl Machine<'_> {
    /// Gives the account of its controller a new password, or ends what an interrupted run began.
    pub(super) async fn rotate_password(
        &self,
        order: &Order,
        node: &NodeDesign,
    ) -> Result<(), ActError> {
        let secrets = &self.backend.secrets;
        let told = |error: SecretError| self.permanent(&format!("its password: {error}"));
        let (username, reference) = match self.backend.replaceable(node) {
            Ok(found) => found,
            Err(why) => return self.refuse(&format!("its password cannot be replaced: {why}")),
        };
        let pending = secrets.pending(&reference).map_err(told)?;
        let taken = lock(&self.backend.taken).get(&node.name).cloned().flatten();
        if pending.is_some() && taken == pending {
            order.reporter.progress("the pending password is in use");
            return self.promote(node, &reference);
        }
        let (account, length) = self.account_of(&username).await?;
        let new = match pending {
            Some(pending) => pending,
            None => secrets.stage(&reference, length).map_err(told)?,
        };
        let note = Note::Asked {
            what: Arc::from(ROTATE),
            before: Before::default(),
        };
        self.note(order, note).await?;
        order.reporter.progress("setting the new password");
        let body = json!({ "Password": new.reveal() });
        if let Err(failure) = self.controller.patch(&account, &body).await {
            // Refused: the controller has the old one.
            if failure.class() == Class::Permanent && failure.status().is_some() {
                secrets.drop_pending(&reference).map_err(told)?;
            }
            return Err(failure.into());
        }
        sleep(self.backend.settings.settling).await;
        order.reporter.progress("trying the new password");
        let credentials = Credentials::Basic {
            username,
            password: new,
        };
        let endpoint = self.controller.endpoint();
        let controller = self
            .backend
            .controller(&self.subject, endpoint, Some(credentials));
        let is_taken = self.backend.is_taken(&controller).await;
        controller.log_out().await;
        match is_taken? {
            true => self.promote(node, &reference),
            false => self.refuse(
                "its controller accepted the new password, and does not take it: both passwords are kept; the next \
                 `trueup apply rotate-bmc-password` tries each once",
            ),
        }
    }

    fn promote(&self, node: &NodeDesign, reference: &Reference) -> Result<(), ActError> {
        let promoted = self.backend.secrets.promote(reference);
        promoted.map_err(|error| self.permanent(&format!("its password: {error}")))?;
        lock(&self.backend.taken).remove(&node.name);
        Ok(())
    }

    /// The account of its controller, and the length of a new password.
    async fn account_of(
        &self,
        username: &str,
    ) -> Result<(super::resource::Resource, usize), ActError> {
        let root = self.controller.root().await?;
        let Some(service) = root.link("/AccountService") else {
            return self.refuse("its controller has no AccountService");
        };
        let service = self.controller.get(service).await?;
        let threshold = service.number("/AccountLockoutThreshold");
        if let Some(threshold) = threshold.filter(|threshold| (1..=WRONG).contains(threshold)) {
            return self.refuse(&format!(
                "its controller locks accounts after {threshold} wrong passwords, which an interrupted run may cost: raise \
                 `AccountLockoutThreshold`"
            ));
        }
        let longest = service
            .number("/MaxPasswordLength")
            .filter(|longest| *longest > 0);
        let shortest = service.number("/MinPasswordLength").unwrap_or(0).min(64);
        let length = longest
            .map_or(LENGTH, |longest| LENGTH.min(longest))
            .max(shortest);
        let Some(accounts) = service.link("/Accounts") else {
            return self.refuse("its controller does not list its accounts");
        };
        let mut parts = self.controller.parts(accounts, self.expands).await?;
        parts.truncate(MOST);
        let accounts = self.read_parts(parts).await?;
        let mut own = accounts.into_iter();
        match own.find(|account| account.text("/UserName") == Some(username)) {
            // Read by itself: only that has its version.
            Some(account) => {
                let path = account
                    .text("/@odata.id")
                    .unwrap_or(&account.path)
                    .to_owned();
                Ok((
                    self.controller.get(&path).await?,
                    usize::try_from(length).unwrap_or(64),
                ))
            }
            None => self.refuse(&format!("its controller has no account `{username}`")),
        }
    }
}

/// How far a replacement is: its slots tell it.
pub(super) fn probe(backend: &Redfish, order: &Order, node: &NodeDesign) -> Probe {
    if super::notes::states(&order.notes).is_empty() {
        return Probe::NotBegun;
    }
    let pending = backend
        .replaceable(node)
        .map(|(_, reference)| backend.secrets.pending(&reference));
    match pending {
        Ok(Ok(None)) => match super::notes::state(&order.notes, ROTATE) {
            super::notes::RequestState::NotAsked => Probe::NotBegun,
            _ => Probe::Done,
        },
        Ok(Ok(Some(_)) | Err(_)) | Err(_) => Probe::UnderWay,
    }
}
