//! Tearing a machine down: each drive erases itself, then the machine is switched off.
//!
//! A drive is asked once. If the answer was lost, and no task is found, it is unknown whether it
//! erases itself, and the step is ambiguous (see [`super::notes`]).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::clean::ERASE;
use super::drive::Drive;
use super::machine::Machine;
use super::notes::{Begun, Note, RequestState, erase_of, states};
use crate::backend::{ActError, Order};
use crate::design::{NodeDesign, WipePolicy};

impl Machine<'_> {
    /// Cleans it as planned, erases its drives, as far as the step says, if no clean step did, and
    /// switches it off.
    pub(super) async fn destroy(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        let steps = order.step.given().clean_steps();
        if states(&order.notes).is_empty() {
            self.check_destroy(order).await?;
        }
        self.clean_as_planned(order, node).await?;
        if !steps.iter().any(|step| step.name() == ERASE) {
            let drives = self.drives_to_erase(order, self.backend.wipe).await?;
            self.erase(order, &drives).await?;
        }
        // It does no harm to a machine that is off, and is taken back before it is switched on.
        if let Err(error) = self.take_back(false).await {
            order.reporter.progress(format!(
                "its boot override or image could not be taken back: {error}"
            ));
        }
        // Its system is gone, or is to go: it need not shut down.
        self.switch_off(order, Duration::ZERO).await
    }

    /// Checks, before anything is changed, that it can be switched off, and that the drives can be erased that have to be.
    async fn check_destroy(&self, order: &Order) -> Result<(), ActError> {
        self.check_off(&self.read_system().await?).await?;
        if self.backend.wipe == WipePolicy::Require {
            self.drives_to_erase(order, WipePolicy::Require).await?;
        }
        Ok(())
    }

    /// The drives that the step names, or all; refuses drives that cannot be erased unless the policy allows
    /// to leave them out.
    pub(super) async fn drives_to_erase(
        &self,
        order: &Order,
        wipe: WipePolicy,
    ) -> Result<Vec<Drive>, ActError> {
        let may_skip = wipe == WipePolicy::Skip;
        let system = self.read_system().await?;
        let all = match self.drives(&system).await {
            Ok(drives) => drives,
            Err(error) if may_skip => {
                order.reporter.progress(format!("not erased: {error}"));
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let named = order.step.given().disks();
        let only_system = *order.step.given().preserve_local_storage();
        let mut chosen: Vec<Drive> = Vec::new();
        if only_system && named.is_empty() {
            let node = order.node.as_deref();
            match node.and_then(|node| self.system_drive(node, &all)) {
                Some(drive) => chosen.push(drive.clone()),
                None => {
                    return self.refuse(
                        "which of its drives carries the operating system is not known: name it in \
                         `hardware.redfish.operating_system_drive`",
                    );
                }
            }
        } else if named.is_empty() {
            chosen = all;
        } else {
            for name in named {
                match all.iter().find(|drive| drive.is_called(name)) {
                    Some(drive) => chosen.push(drive.clone()),
                    None if may_skip => {}
                    None => return self.refuse(&format!("it has no drive `{name}` to erase")),
                }
            }
        }
        if chosen.is_empty() && !may_skip {
            return self.refuse("it shows no drive that could be erased");
        }
        let (can, cannot): (Vec<_>, Vec<_>) = chosen.into_iter().partition(Drive::can_be_erased);
        if cannot.is_empty() {
            return Ok(can);
        }
        let names: Vec<&str> = cannot.iter().map(|drive| &*drive.name).collect();
        let names = names.join(", ");
        if !may_skip {
            return self.refuse(&format!(
                "its controller cannot erase these drives: {names}"
            ));
        }
        order
            .reporter
            .progress(format!("not erased, as the policy says: {names}"));
        Ok(can)
    }

    /// Erases drives, all at once, and waits for the end of each.
    pub(super) async fn erase(&self, order: &Order, drives: &[Drive]) -> Result<(), ActError> {
        let ends = drives.iter().map(|drive| self.erase_one(order, drive));
        // Each is waited for, also when another failed: a running erase is not left alone.
        let failed: Vec<ActError> = join_all(ends)
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect();
        let worst = failed
            .iter()
            .position(|error| matches!(error, ActError::Ambiguous(_)));
        match failed.into_iter().nth(worst.unwrap_or(0)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    async fn erase_one(&self, order: &Order, drive: &Drive) -> Result<(), ActError> {
        let path = &drive.resource.path;
        let what = erase_of(path);
        let words = format!("erasing drive {}", drive.name);
        let Some(action) = drive.resource.action("Drive.SecureErase") else {
            return self.refuse(&format!("its controller cannot erase drive {}", drive.name));
        };
        let stands = states(&order.notes).remove(&*what);
        let found = match stands {
            Some(RequestState::Task(_) | RequestState::Done) => None,
            _ => self.running_on(path).await?,
        };
        let begun = match found {
            Some(task) => {
                let note = Note::Task {
                    what: Arc::from(&*what),
                    task: task.clone(),
                };
                self.note(order, note).await?;
                Begun::Task(task)
            }
            None => {
                let before = self.before(drive.serial()).await?;
                let ask = || async {
                    self.changes();
                    self.controller.post(&action.target, &json!({})).await
                };
                self.once(order, &what, before, ask).await?
            }
        };
        match begun {
            Begun::Done => return Ok(()),
            Begun::Said => self.await_operations(order, &words, path).await?,
            Begun::Task(task) => {
                let settling = self.backend.settings.settling;
                self.controller
                    .follow(&words, &task, settling, &order.reporter)
                    .await?;
            }
        }
        order
            .reporter
            .progress(format!("erased drive {}", drive.name));
        self.note(
            order,
            Note::Done {
                what: Arc::from(what),
            },
        )
        .await
    }

    /// Waits until a drive shows no operation of its own any more. For a controller that only acknowledges,
    /// this is the only evidence.
    async fn await_operations(
        &self,
        order: &Order,
        words: &str,
        path: &str,
    ) -> Result<(), ActError> {
        let interval = self
            .backend
            .settings
            .settling
            .clamp(Duration::from_millis(200), Duration::from_secs(10));
        loop {
            sleep(interval).await;
            let operations = match self.controller.get(path).await {
                Ok(drive) => drive
                    .value
                    .get("Operations")
                    .and_then(Value::as_array)
                    .cloned(),
                Err(failure) => match ActError::from(failure) {
                    // It may show nothing while it erases itself.
                    ActError::Passing(text) => {
                        order.reporter.progress(format!("{words}: {text}"));
                        continue;
                    }
                    other => return Err(other),
                },
            };
            let Some(operation) = operations.unwrap_or_default().into_iter().next() else {
                return Ok(());
            };
            let percent = operation.get("PercentageComplete").and_then(Value::as_u64);
            let percent = percent.map_or_else(String::new, |percent| format!(", {percent} %"));
            order.reporter.progress(format!("{words}{percent}"));
        }
    }
}
