//! Creating a machine in MAAS, from its design.

use super::api::{Fields, field};
use super::machine::Machine;
use super::settings::Creation;
use super::steps::MachineSteps;
use crate::backend::hardware::driver::Result;
use crate::backend::hardware::payload::{boot_address, designed_password};
use crate::backend::hardware::written::reference_for;
use crate::backend::{Secret, Secrets};
use crate::design::NodeDesign;

impl MachineSteps<'_> {
    /// Creates the machine. It is not commissioned by that: MAAS would begin at once.
    pub(super) async fn create(&self) -> Result<Machine> {
        let (task, maas) = (&self.task, self.maas());
        let Some(creation) = &maas.settings.creation else {
            return Err(task.permanent(maas.not_created(&task.name)));
        };
        let password = password(task.node, creation, &*maas.secrets);
        let password = password.map_err(|why| task.permanent(why))?;
        let fields = form(task.node, &task.name, creation, password.as_ref());
        let fields = fields.map_err(|why| task.permanent(why))?;
        task.report("creating it in MAAS");
        // What was taken out of MAAS has left its id in the record.
        maas.roster
            .identities
            .enrolled(task.node.name.as_str(), None);
        let api = &maas.api;
        let created = api.create(&task.subject, &fields, password.as_ref()).await;
        let machine = match created {
            Ok(id) => api.machine(&id).await?,
            // Another client was faster, or an answer was lost before.
            Err(error) if error.status() == Some(400) => match task.look().await? {
                Some(machine) => Some(machine),
                None => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        let machine =
            machine.ok_or_else(|| task.passing("was created, and MAAS does not list it"))?;
        let (identity, proof) = maas.judge(task.node, &machine);
        task.admit(identity, proof).await?;
        Ok(machine)
    }
}

/// The password of the management controller.
fn password(
    node: &NodeDesign,
    creation: &Creation,
    secrets: &dyn Secrets,
) -> Result<Option<Secret>, String> {
    match &creation.password {
        Some(reference) => {
            let secret = secrets.reveal(&reference_for(reference, node));
            secret.map(Some).map_err(|error| error.to_string())
        }
        None => Ok(designed_password(node)),
    }
}

/// The form that creates a machine.
fn form<'a>(
    node: &'a NodeDesign,
    name: &'a str,
    creation: &'a Creation,
    password: Option<&'a Secret>,
) -> Result<Fields<'a>, String> {
    let mac = boot_address(node).ok_or(
        "MAAS creates no machine without a MAC address: give its document `metadata.boot_mac`",
    )?;
    let mut fields = vec![
        field("commission", "false"),
        field("hostname", name),
        field("architecture", &*creation.architecture),
        field("mac_addresses", mac.to_string()),
        field("power_type", &*creation.power_type),
    ];
    if &*creation.power_type != "manual" {
        let address = node.out_of_band.address.as_deref();
        let address = address.ok_or(
            "MAAS needs the address of its controller: give it one on its out-of-band network",
        )?;
        // A URL is no address for MAAS.
        fields.push(field("power_parameters_power_address", address));
        let account = node
            .out_of_band
            .account
            .as_ref()
            .or(creation.username.as_ref());
        if let Some(account) = account {
            fields.push(field("power_parameters_power_user", &**account));
        }
        if let Some(password) = password {
            fields.push(field("power_parameters_power_pass", password.reveal()));
        }
    }
    for (name, value) in &creation.power_parameters {
        let name = format!("power_parameters_{name}");
        fields.push((name.into(), (&**value).into()));
    }
    Ok(fields)
}
