//! The serial console of a system, as its controller describes it (`SerialConsole` of the system; before that of its manager).

use super::Redfish;
use super::machine::Machine;
use super::resource::Resource;
use crate::backend::http::Credentials;
use crate::backend::{ActError, Console};
use crate::design::NodeDesign;

/// The port of SSH, if a controller names none.
const SSH: u16 = 22;

/// How a console is reached.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    port: u16,
    /// The command that opens the console, if a shell answers.
    command: Option<String>,
}

impl Redfish {
    /// The program that shows the console of a machine, once that is the one that is meant.
    ///
    /// # Errors
    ///
    /// It is another one; its controller offers no console over SSH, or does not answer.
    pub(super) async fn console(&self, node: &NodeDesign) -> Result<Console, ActError> {
        let mut machine = self.reach(node).await?;
        let way = match machine.is_meant(node).await {
            Ok(()) => machine.way().await,
            Err(error) => Err(error),
        };
        machine.controller.log_out().await;
        let way = way?;
        let authority = machine.controller.endpoint().authority().clone();
        let host = authority
            .rsplit_once(':')
            .map_or(&*authority, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let account = match machine.controller.account() {
            Some(Credentials::Basic { username, password }) => {
                Some((&**username, password.clone()))
            }
            Some(Credentials::Header { .. } | Credentials::OAuth(_)) | None => None,
        };
        let command = way.command.as_deref();
        let path = self.secrets.search_path();
        Ok(Console::by_ssh(path, (host, way.port), account, command))
    }
}

impl Machine<'_> {
    async fn way(&self) -> Result<Way, ActError> {
        let system = self.read_system().await?;
        let mut way = of_system(&system);
        if way.is_none()
            && let Some(manager) = system.links("/Links/ManagedBy").first()
        {
            way = of_manager(&self.controller.get(manager).await?);
        }
        way.map_or_else(
            || self.refuse("it offers no serial console over SSH, or has it disabled"),
            Ok,
        )
    }
}

/// The console of a system since `ComputerSystem` 1.13.
fn of_system(system: &Resource) -> Option<Way> {
    let is_enabled = system.boolean("/SerialConsole/SSH/ServiceEnabled") == Some(true);
    is_enabled.then(|| Way {
        port: port(system.number("/SerialConsole/SSH/Port")),
        command: system
            .text("/SerialConsole/SSH/ConsoleEntryCommand")
            .map(str::to_owned),
    })
}

/// The console that a manager had before that; it names no port.
fn of_manager(manager: &Resource) -> Option<Way> {
    let is_enabled = manager.boolean("/SerialConsole/ServiceEnabled") == Some(true);
    let kinds = manager.texts("/SerialConsole/ConnectTypesSupported");
    (is_enabled && kinds.contains(&"SSH")).then_some(Way {
        port: SSH,
        command: None,
    })
}

fn port(number: Option<u64>) -> u16 {
    let number = number.and_then(|number| u16::try_from(number).ok());
    number.filter(|port| *port != 0).unwrap_or(SSH)
}
