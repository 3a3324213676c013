//! The password of a controller's account, and its replacement by a new one.
//!
//! The new password is durable in the pending slot of its secret before the controller is asked for anything, is tried, and
//! then takes the place of the old one. A process that is killed leaves both slots: the next one tries the pending password
//! and, if that is refused, the current one, each once, since controllers lock accounts. A refusal proves nothing, since an
//! answer before it may have been lost: the pending password is dropped only if the controller was observed to refuse it and to
//! accept the current one. The password is in no plan, note, journal or argument list.

use std::sync::Arc;

use reqwest::StatusCode;
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
use crate::diagnostic::in_shell;
use crate::threads::lock;

/// The length of new passwords: as long as all makers accept.
const LENGTH: u64 = 20;
/// The shortest new password that is set.
const SHORTEST: u64 = 8;
/// Most accounts of a controller that are read.
const MOST: usize = 256;
/// The note of a password that was asked for.
const ROTATE: &str = "rotate-password";
/// The wrong passwords that an interrupted replacement may cost.
const WRONG: u64 = 2;

impl Redfish {
    /// The reference of a node's password, if that can be replaced; or why not.
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

    /// The account of a node's controller. If a replacement of its password was interrupted, the one of both that it
    /// accepts, each tried once in the life of this process, and again after each request that may have changed it.
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
        let pending = self.pending_of(node, &reference).await;
        let pending = pending.map_err(unreadable)?;
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
            if self.accepts((subject, endpoint), of(each)).await? {
                lock(&self.taken).insert(node.name.clone(), Some(each.clone()));
                return Ok(Some(of(each)));
            }
        }
        // This process retries neither.
        lock(&self.taken).insert(node.name.clone(), None);
        Err(refuse(neither(&reference)))
    }

    /// The pending password of a node. That there is none is remembered until this process stages one, or a run begins: a
    /// program may have to be run to read it, and each connection begins with it.
    async fn pending_of(
        &self,
        node: &NodeDesign,
        reference: &Reference,
    ) -> Result<Option<Secret>, SecretError> {
        if lock(&self.without_pending).contains(&node.name) {
            return Ok(None);
        }
        let (secrets, reference) = (self.secrets.clone(), reference.clone());
        let read = tokio::task::spawn_blocking(move || secrets.pending(&reference)).await;
        let pending = read.map_err(|error| SecretError(error.to_string()))??;
        if pending.is_none() {
            lock(&self.without_pending).insert(node.name.clone());
        }
        Ok(pending)
    }

    /// Whether a controller accepts an account now.
    async fn accepts(
        &self,
        (subject, endpoint): (&Arc<str>, &Endpoint),
        account: Credentials,
    ) -> Result<bool, ActError> {
        let controller = self.controller(subject, endpoint, Some(account));
        let accepted = self.accepts_login(&controller).await;
        controller.log_out().await;
        accepted
    }

    /// Whether a controller accepts the account that it is used with.
    async fn accepts_login(&self, controller: &Controller) -> Result<bool, ActError> {
        let root = controller.root().await?;
        let sessions = match self.settings.sessions {
            Sessions::Auto => sessions_of(&root),
            Sessions::Never => None,
        };
        let read = root.link("/Systems").unwrap_or("/redfish/v1/Systems");
        Ok(controller.accepts_login(sessions, read).await?)
    }
}

fn neither(reference: &Reference) -> String {
    let (current, drop) = match reference {
        Reference::File(path) | Reference::Env(path) => {
            (path.to_string(), format!("remove `{path}.pending`"))
        }
        // It has one slot alone.
        Reference::Exec(words) => (
            in_shell(words.iter().map(|word| &**word)),
            "drop the pending one".to_owned(),
        ),
        Reference::Store(words) => {
            let words = in_shell(words.iter().map(|word| &**word));
            (format!("{words} current"), format!("run `{words} drop`"))
        }
    };
    format!(
        "its controller accepts neither the pending password nor the current one: set the password of its account by hand to \
         that of `{current}`, and {drop}"
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
            None => {
                lock(&self.backend.without_pending).remove(&node.name);
                secrets.stage(&reference, length).map_err(told)?
            }
        };
        let note = Note::Asked {
            what: Arc::from(ROTATE),
            before: Before::default(),
        };
        self.note(order, note).await?;
        order.reporter.progress("setting the new password");
        let accounts = |password: &Secret| Credentials::Basic {
            username: username.clone(),
            password: password.clone(),
        };
        let body = json!({ "Password": new.reveal() });
        // From here on it may have either, whatever is answered, or if no answer comes.
        lock(&self.backend.taken).remove(&node.name);
        let failure = match self.controller.patch(&account, &body).await {
            Ok(_) => None,
            Err(failure) if failure.class() != Class::Permanent || failure.status().is_none() => {
                return Err(failure.into());
            }
            Err(failure) => Some(failure),
        };
        sleep(self.backend.settings.settling).await;
        order.reporter.progress("trying the new password");
        let place = (&self.subject, self.controller.endpoint());
        let accepted = self.backend.accepts(place, accounts(&new)).await;
        let Some(failure) = failure else {
            return match accepted? {
                true => self.promote(node, &reference),
                false => self.refuse(
                    "its controller confirmed the new password, and does not accept it: both passwords are kept; the next \
                     `trueup apply rotate-bmc-password` tries each once",
                ),
            };
        };
        // A refusal can be that of a repeated request, the first of which was carried out.
        let is_unchanged = match (accepted, failure.status()) {
            (Ok(true), _) => return self.promote(node, &reference),
            (Err(_), _) | (_, Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)) => false,
            (Ok(false), _) => {
                let current = secrets.reveal_again(&reference).map_err(told)?;
                let accepted = self.backend.accepts(place, accounts(&current)).await;
                if accepted == Ok(false) {
                    // This process retries neither.
                    lock(&self.backend.taken).insert(node.name.clone(), None);
                }
                accepted == Ok(true)
            }
        };
        if !is_unchanged {
            return Err(ActError::Permanent(Arc::from(format!(
                "{failure}; whether its controller has the new password or the old one is not known: both are kept; the \
                 next `trueup apply rotate-bmc-password` tries each once"
            ))));
        }
        // Noted first: without the note, a resumed run takes the empty slot for that of a new password in use.
        let what = Arc::from(ROTATE);
        self.note(order, Note::Refused { what }).await?;
        secrets.drop_pending(&reference).map_err(told)?;
        Err(failure.into())
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
        if let Some(longest) = longest.filter(|longest| *longest < SHORTEST) {
            return self.refuse(&format!(
                "its controller accepts passwords of at most {longest} letters (`MaxPasswordLength`), and trueup sets none \
                 shorter than {SHORTEST}"
            ));
        }
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
