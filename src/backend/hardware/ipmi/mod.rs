//! Machines by their controllers' IPMI, through the program `ipmitool`.
//!
//! IPMI knows power, and what a machine boots from next; it keeps neither provision state nor flags
//! ([`ObservedNode::kept_by_records`]), shows no disks and erases none.
//!
//! | step | what is done | how it is told from outside |
//! | --- | --- | --- |
//! | verify-site | `ipmitool` is there | again |
//! | prepare-site | nothing | |
//! | prepare | the controller identifies itself, its chassis reports no power fault, its boot parameters can be read | again |
//! | deploy | off, boot from the network once, on | note before "on": without it not begun; with it, still off is not begun, on is ambiguous |
//! | destroy | off; only where the policy allows to erase nothing | power |
//! | power-on, power-off | until observed twice | power |
//! | set and unset retired, maintenance | nothing: the records keep them | |
//!
//! Before each step that changes a machine, and in each observation, the machine is proven to be the one that
//! the document means: by the GUID of its controller, else by the serial number in its FRU inventory.
//!
//! A deploy ends when the machine is on: whether a system came up cannot be observed over IPMI, but
//! by the step that waits for the Kubernetes node. A power cycle is never requested. At most two calls at
//! once go to one controller.

mod event_log;
mod identity;
mod program;
mod settings;
mod suites;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::driver::{Driver, StepTarget, carry_out, is_flag};
use super::level::{Pace, bring, holds, seen};
use super::proof::{Evidence, proven};
use super::written::reference_for;
use crate::backend::{
    ActError, BackendContext, Console, Error, Looks, Order, Probe, Secret, Secrets,
};
use crate::design::{HardwareBackend, NodeDesign, Reference, Section, WipePolicy};
use crate::identity::{Identity, Proof, Registry};
use crate::lifecycle::PowerState;
use crate::observed::{Capabilities, Capability, Fact, ObservedNode, ObservedNodes};
use crate::step::StepKind;
use crate::threads::lock;
use program::{LANPLUS, LONGEST_PASSWORD, Program, Session};
use settings::{Interface, Settings};
use suites::Suites;

/// How many calls go to one controller at once.
const AT_ONCE: usize = 2;
/// How many controllers are observed at once.
const LOOKS_AT_ONCE: usize = 32;
/// How long a controller may take to answer, beside the settling times of what was set.
const MARGIN: Duration = Duration::from_secs(5);
/// The longest time for a step that has no bound of its own.
const UNBOUNDED: Duration = Duration::from_secs(600);
/// Noted before a machine is switched on to be deployed.
const SWITCHED_ON: &str = "switched on to be deployed";

/// The calls that each controller, by its address and port, still has capacity for.
type Controllers = Mutex<HashMap<(Arc<str>, u16), Arc<Semaphore>>>;

/// Moves machines by IPMI.
pub(super) struct Ipmi {
    settings: Settings,
    program: Program,
    secrets: Arc<dyn Secrets>,
    /// Whether the site's policy allows a teardown that erases nothing.
    goes_unerased: bool,
    /// Which node is known by what.
    identities: Arc<Registry>,
    looks: Arc<Looks>,
    passwords: tokio::sync::Mutex<BTreeMap<Reference, Secret>>,
    controllers: Controllers,
}

/// The next boot source of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boot {
    Network,
    Other,
}

impl Ipmi {
    /// Opens the backend.
    ///
    /// # Errors
    ///
    /// A setting does not fit.
    pub(super) fn open(
        backend: &HardwareBackend,
        (site, wipe): (&str, WipePolicy),
        context: &BackendContext,
    ) -> Result<Self, Error> {
        let settings = Settings::read(backend).map_err(Error::Settings)?;
        let suites = Suites::of(&context.cache, site);
        let opened = Self::new(
            settings,
            Program::found_in(context.secrets.search_path(), suites),
            (context.secrets.clone(), context.identities.clone()),
            wipe == WipePolicy::Skip,
        );
        Ok(Self {
            looks: context.looks.clone(),
            ..opened
        })
    }

    fn new(
        settings: Settings,
        program: Program,
        (secrets, identities): (Arc<dyn Secrets>, Arc<Registry>),
        goes_unerased: bool,
    ) -> Self {
        Self {
            settings,
            program,
            secrets,
            goes_unerased,
            identities,
            looks: Arc::default(),
            passwords: tokio::sync::Mutex::default(),
            controllers: Mutex::default(),
        }
    }

    /// The controller of a node, and who logs in.
    async fn session(&self, node: &NodeDesign) -> Result<Session, ActError> {
        let permanent = |text: String| ActError::Permanent(Arc::from(text));
        let own = &node.out_of_band;
        let Some(address) = own.address.clone() else {
            return Err(permanent(format!(
                "`{}` has no address on its out-of-band network",
                node.name
            )));
        };
        let (username, password) = match &self.settings.account {
            Some(account) => {
                let reference = reference_for(&account.password, node);
                (account.username.clone(), self.password(reference).await?)
            }
            None => {
                let section = node.sections.get(&Section::OutOfBand);
                let credential = section.and_then(|section| section.at(&["oob", "credential"]));
                let credential = credential
                    .filter(|value| !value.is_null())
                    .and_then(|value| value.scalar_text());
                let (Some(username), Some(credential)) = (own.account.clone(), credential) else {
                    return Err(permanent(format!(
                        "no account for the controller of `{}`: set `hardware.ipmi.credentials` in the Backends document, or `oob.account` and `oob.credential` of the node",
                        node.name
                    )));
                };
                (username, Secret::new(credential.into_owned()))
            }
        };
        let longest = match self.settings.interface {
            Interface::Lanplus => LONGEST_PASSWORD.0,
            Interface::Lan => LONGEST_PASSWORD.1,
        };
        if password.reveal().len() > longest {
            return Err(permanent(format!(
                "the password for the controller of `{}` is longer than the {longest} bytes that IPMI takes",
                node.name
            )));
        }
        let port = match port_of(node) {
            None => self.settings.port,
            Some(Ok(port)) => port,
            Some(Err(text)) => {
                return Err(permanent(format!(
                    "`oob.port` of `{}` is no port: {text}",
                    node.name
                )));
            }
        };
        Ok(Session {
            address,
            port,
            interface: self.settings.interface.as_str(),
            cipher_suite: self.settings.cipher_suite,
            username,
            password,
        })
    }

    /// The secret of a reference, which is revealed once.
    async fn password(&self, reference: Reference) -> Result<Secret, ActError> {
        let mut known = self.passwords.lock().await;
        if let Some(password) = known.get(&reference) {
            return Ok(password.clone());
        }
        let secrets = self.secrets.clone();
        let wanted = reference.clone();
        // It may run a program.
        let revealed = tokio::task::spawn_blocking(move || secrets.reveal(&wanted)).await;
        let password = match revealed {
            Ok(revealed) => revealed.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let password = password.map_err(|error| ActError::Permanent(Arc::from(error)))?;
        known.insert(reference, password.clone());
        Ok(password)
    }

    /// Calls a controller, when it has capacity for another call.
    async fn ask(&self, session: &Session, request: &[&str]) -> Result<String, ActError> {
        let _place = self.place(session).await;
        self.program.ask(session, request).await
    }

    /// Calls a controller for a value that not every one has; `None` if it has none.
    async fn ask_if_known(
        &self,
        session: &Session,
        request: &[&str],
    ) -> Result<Option<String>, ActError> {
        let _place = self.place(session).await;
        self.program.ask_if_known(session, request).await
    }

    async fn place(&self, session: &Session) -> Option<OwnedSemaphorePermit> {
        let permits = lock(&self.controllers)
            .entry((session.address.clone(), session.port))
            .or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)))
            .clone();
        // It is never closed.
        permits.acquire_owned().await.ok()
    }

    async fn power(&self, session: &Session) -> Result<PowerState, ActError> {
        let said = self.ask(session, &["chassis", "power", "status"]).await?;
        let line = |text: &str| said.lines().any(|line| line.trim() == text);
        match (line("Chassis Power is on"), line("Chassis Power is off")) {
            (true, false) => Ok(PowerState::On),
            (false, true) => Ok(PowerState::Off),
            _ => Err(odd(session, "its power")),
        }
    }

    async fn boot(&self, session: &Session) -> Result<Boot, ActError> {
        let said = self
            .ask(session, &["chassis", "bootparam", "get", "5"])
            .await?;
        let selector = said.lines().find_map(|line| {
            let (key, value) = line.trim().trim_start_matches("- ").split_once(':')?;
            (key.trim() == "Boot Device Selector").then(|| value.trim())
        });
        match selector {
            Some("Force PXE") => Ok(Boot::Network),
            Some(_) => Ok(Boot::Other),
            None => Err(odd(session, "its boot parameters")),
        }
    }

    fn pace<'a>(&self, what: &'a str, order: &Order) -> Pace<'a> {
        let time = order.time().unwrap_or(UNBOUNDED);
        Pace::within(what, self.settings.settling, time)
    }

    async fn bring_power(
        &self,
        session: &Session,
        wanted: PowerState,
        order: &Order,
    ) -> Result<(), ActError> {
        let request = match wanted {
            PowerState::On => ["chassis", "power", "on"],
            PowerState::Off => ["chassis", "power", "off"],
        };
        order.reporter.progress(match wanted {
            PowerState::On => "switching it on",
            PowerState::Off => "switching it off",
        });
        let what = about(session, "power");
        bring(
            wanted,
            self.pace(&what, order),
            || self.power(session),
            || async { self.ask(session, &request).await.map(|_| ()) },
        )
        .await
    }

    /// Sees to it that the controller is one, and that its machine can be switched and told what to boot.
    async fn prepare(&self, session: &Session, order: &Order) -> Result<(), ActError> {
        order.reporter.progress("identifying the controller");
        let said = self.ask(session, &["mc", "info"]).await?;
        let is_controller = said.lines().any(|line| line.starts_with("IPMI Version"));
        if !is_controller {
            return Err(odd(session, "its identity"));
        }
        let said = self.ask(session, &["chassis", "status"]).await?;
        for fault in ["Main Power Fault", "Power Control Fault", "Power Overload"] {
            let is_true = said.lines().any(|line| {
                line.split_once(':')
                    .is_some_and(|(key, value)| key.trim() == fault && value.trim() == "true")
            });
            if is_true {
                return Err(ActError::Permanent(
                    format!("the controller at {} reports `{fault}`", session.address).into(),
                ));
            }
        }
        self.boot(session).await.map(|_| ())
    }

    async fn deploy(
        &self,
        session: &Session,
        node: &NodeDesign,
        order: &Order,
    ) -> Result<(), ActError> {
        self.bring_power(session, PowerState::Off, order).await?;
        order.reporter.progress("setting the boot source");
        let hardware = node.sections.get(&Section::Hardware);
        let mode = hardware.and_then(|hardware| hardware.at(&["hardware_profile", "boot_mode"]));
        let is_uefi = mode.is_some_and(|mode| mode.scalar_text().as_deref() == Some("uefi"));
        let mut request = vec!["chassis", "bootdev", "pxe"];
        if is_uefi {
            request.push("options=efiboot");
        }
        // Asked for each time: an override that is not used is forgotten after a minute.
        self.ask(session, &request).await?;
        let settling = self.settings.settling;
        let what = about(session, "boot device");
        let pace = Pace::within(&what, settling, settling * 4 + MARGIN);
        seen(Boot::Network, pace, || self.boot(session)).await?;
        order.reporter.note(SWITCHED_ON).await?;
        self.bring_power(session, PowerState::On, order).await?;
        order
            .reporter
            .progress("is on; whether a system comes up cannot be observed over IPMI");
        Ok(())
    }

    /// Power and identity of a machine.
    async fn look(
        &self,
        session: &Session,
        node: &NodeDesign,
    ) -> Result<(PowerState, Identity, Proof), ActError> {
        let power = self.power(session).await?;
        let (identity, proof) = self.prove(session, node).await?;
        let proof = match proof {
            Proof::Refused(why) => Proof::Refused(about(session, &why).into()),
            other => other,
        };
        Ok((power, identity, proof))
    }

    async fn observe_one(&self, node: &NodeDesign) -> ObservedNode {
        let seen = match self.session(node).await {
            Ok(session) => self.look(&session, node).await,
            Err(error) => Err(error),
        };
        match seen {
            Ok((power, identity, proof)) => {
                let unseen = |what: &str| Arc::from(format!("IPMI does not show {what}"));
                let observed = ObservedNode {
                    provision: Fact::Unknown(unseen("the system of a machine")),
                    power: Fact::Known(power),
                    disks: Fact::Unknown(unseen("disks")),
                    cluster: Fact::Unknown(unseen("Kubernetes nodes")),
                    capabilities: Capabilities::from([
                        Capability::Power,
                        Capability::Prepare,
                        Capability::Deploy,
                        Capability::Retire,
                    ]),
                    kept_by_records: true,
                    deploys_unverified: true,
                    ..ObservedNode::unknown("")
                };
                proven(identity, proof, observed)
            }
            Err(error) => ObservedNode::unknown(&error.to_string()),
        }
    }

    /// A deploy that came to its last part.
    async fn probe_deploy(&self, node: &NodeDesign) -> Probe {
        match self.is_at(node, PowerState::Off).await {
            Ok(true) => Probe::NotBegun,
            Ok(false) => Probe::Ambiguous(Arc::from(
                "it was switched on to boot from the network; see on its console, or by its Kubernetes node, whether its system was installed",
            )),
            Err(error) => Probe::Ambiguous(
                format!("it may have been switched on to boot from the network; {error}").into(),
            ),
        }
    }

    async fn is_at(&self, node: &NodeDesign, wanted: PowerState) -> Result<bool, ActError> {
        let session = self.session(node).await?;
        if let (_, Proof::Refused(why)) = self.prove(&session, node).await? {
            return Err(ActError::Permanent(about(&session, &why).into()));
        }
        holds(wanted, self.settings.settling, || self.power(&session)).await
    }
}

/// The port of a node's own controller; `Some(Err(_))`: the text is no port.
fn port_of(node: &NodeDesign) -> Option<Result<u16, String>> {
    let section = node.sections.get(&Section::OutOfBand)?;
    let port = section.at(&["oob", "port"]);
    let text = port.filter(|port| !port.is_null())?.scalar_text()?;
    let port = text.parse::<u16>().ok().filter(|port| *port != 0);
    Some(port.ok_or_else(|| text.into_owned()))
}

/// The awaited level, for the timeout's message.
fn about(session: &Session, what: &str) -> String {
    format!(
        "the controller at {}:{}: {what}",
        session.address, session.port
    )
}

fn odd(session: &Session, what: &str) -> ActError {
    ActError::Passing(
        format!(
            "the controller at {}:{} does not say {what}",
            session.address, session.port
        )
        .into(),
    )
}

/// A machine whose controller can be asked.
struct Reached<'a> {
    ipmi: &'a Ipmi,
    session: Session,
    /// Whether its controller has answered: one that refuses the account is not asked again.
    has_answered: bool,
}

impl StepTarget for Reached<'_> {
    async fn prove(&mut self, node: &NodeDesign) -> Result<Option<Evidence>, ActError> {
        let (identity, proof) = self.ipmi.prove(&self.session, node).await?;
        self.has_answered = true;
        let about = about(&self.session, "identity");
        Ok(Some(Evidence {
            identity,
            proof,
            subject: format!("node `{}`: {about}", node.name),
        }))
    }

    async fn act(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        let (ipmi, session) = (self.ipmi, &self.session);
        match order.step.id.kind {
            StepKind::Prepare => ipmi.prepare(session, order).await,
            StepKind::Deploy => ipmi.deploy(session, node, order).await,
            StepKind::Destroy | StepKind::PowerOff => {
                ipmi.bring_power(session, PowerState::Off, order).await
            }
            StepKind::PowerOn => ipmi.bring_power(session, PowerState::On, order).await,
            kind => Err(ActError::Permanent(
                format!("`{kind}` is unsupported over IPMI").into(),
            )),
        }
    }

    async fn logged_since(&self, elapsed: Duration) -> Vec<String> {
        match self.has_answered {
            true => self.ipmi.logged_since(&self.session, elapsed).await,
            false => Vec::new(),
        }
    }
}

impl Driver for Ipmi {
    async fn observe_nodes(&self, nodes: &[Arc<NodeDesign>]) -> ObservedNodes {
        self.looks.ask(nodes.len());
        let looks = futures_util::stream::iter(nodes.iter().cloned()).map(|node| async move {
            let observed = self.observe_one(&node).await;
            self.looks.observed();
            (node.name.clone(), Box::new(observed))
        });
        looks.buffer_unordered(LOOKS_AT_ONCE).collect().await
    }

    async fn console_of(&self, node: &NodeDesign) -> Result<Console, ActError> {
        let session = self.session(node).await?;
        if session.interface != LANPLUS {
            let text = "IPMI 1.5 (`interface: lan`) has no serial console over the network";
            return Err(ActError::Permanent(about(&session, text).into()));
        }
        match self.prove(&session, node).await? {
            (_, Proof::Refused(why)) => Err(ActError::Permanent(about(&session, &why).into())),
            (_, Proof::Proven | Proof::Unverified(_)) => Ok(self.program.console(&session)),
        }
    }

    async fn verify_site(&self, _: &Order) -> Result<(), ActError> {
        self.program.verify().await
    }

    fn is_kept_by_records(&self, order: &Order) -> bool {
        is_flag(order.step.id.kind)
    }

    async fn leave_all(&self) {
        self.program.suites.save();
    }

    async fn probe_step(&self, order: &Order, node: &NodeDesign) -> Probe {
        let wanted = match order.step.id.kind {
            StepKind::PowerOn => PowerState::On,
            StepKind::PowerOff => PowerState::Off,
            StepKind::Destroy if self.goes_unerased => PowerState::Off,
            StepKind::Deploy => {
                let is_noted = order.notes.iter().any(|note| **note == *SWITCHED_ON);
                return if is_noted {
                    self.probe_deploy(node).await
                } else {
                    Probe::NotBegun
                };
            }
            // Whatever else is asked for can be asked for again.
            _ => return Probe::NotBegun,
        };
        match self.is_at(node, wanted).await {
            Ok(true) => Probe::Done,
            Ok(false) | Err(_) => Probe::NotBegun,
        }
    }

    async fn act_on(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        if order.step.id.kind == StepKind::Destroy && !self.goes_unerased {
            let text = "IPMI cannot erase disks; set `wipe: skip` in the node's policy to tear down without erasing";
            return Err(ActError::Permanent(Arc::from(text)));
        }
        let session = self.session(node).await?;
        let machine = Reached {
            ipmi: self,
            session,
            has_answered: false,
        };
        carry_out(machine, &self.identities, order, node).await
    }
}
