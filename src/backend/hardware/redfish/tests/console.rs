//! Serial consoles: which program is called, with what, and that none is of another machine.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use super::*;
use crate::backend::RunningConsole;

/// Not `ssh`: prints its arguments, and what it is told where it asks for a password.
const PROGRAM: &str = "#!/bin/sh\necho \"$*\"\nexec \"$SSH_ASKPASS\" 'Password: '\n";

/// Finds the program in a folder.
#[derive(Debug)]
struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Arc<Self> {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("ssh");
        std::fs::write(&path, PROGRAM).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Arc::new(Self(folder))
    }
}

impl Secrets for Here {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        OnePassword.reveal(reference)
    }

    fn search_path(&self) -> Option<OsString> {
        let mut path = self.0.path().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH")?);
        Some(path)
    }
}

/// The output of the program that shows the console of the first machine.
async fn show(site: &Site) -> Result<String, String> {
    let console = site.hardware.console(&site.nodes[0]).await;
    let console = console.map_err(|error| error.to_string())?;
    let running = console.start(Stdio::piped()).unwrap();
    // What answers its question stays until then.
    let RunningConsole { child, .. } = running;
    let said = child.wait_with_output().unwrap().stdout;
    Ok(format!("{console}\n{}", String::from_utf8(said).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_console_is_shown_by_ssh_where_the_controller_says_that_it_is() {
    let bmc = Bmc::start().await;
    let site = strict_with(
        &text(&[bmc.port()], "", "uuid: uuid-1, serial: S-1"),
        Here::new(),
    );
    let error = show(&site).await.unwrap_err();
    assert!(
        error.contains("offers no serial console over SSH"),
        "{error}"
    );
    let managers = |enabled: bool, kinds: Value| {
        let console = json!({"ServiceEnabled": enabled, "ConnectTypesSupported": kinds});
        vec![("Managers/1", json!({"SerialConsole": console}))]
    };
    let ssh = "-tt -e ~ -o StrictHostKeyChecking=accept-new -o NumberOfPasswordPrompts=1";
    for (console, managers, expected) in [
        (
            Some(
                json!({"SSH": {"ServiceEnabled": true, "Port": 2200, "ConsoleEntryCommand": "start /system1/sol1"}}),
            ),
            Vec::new(),
            Some(format!(
                "127.0.0.1:2200 (SSH)\n{ssh} -p 2200 -l admin -- 127.0.0.1 start /system1/sol1\ns3cret\n"
            )),
        ),
        (
            Some(json!({"SSH": {"ServiceEnabled": false, "Port": 2200}})),
            managers(false, json!(["SSH"])),
            None,
        ),
        (None, managers(true, json!(["IPMI", "Telnet"])), None),
        (
            None,
            managers(true, json!(["SSH", "IPMI"])),
            Some(format!(
                "127.0.0.1:22 (SSH)\n{ssh} -p 22 -l admin -- 127.0.0.1\ns3cret\n"
            )),
        ),
    ] {
        let mut values = managers;
        values.extend(console.clone().map(|console| (CONSOLE, console)));
        bmc.state().values = values;
        assert_eq!(show(&site).await.ok(), expected, "{console:?}");
    }
    assert_eq!(bmc.sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_console_of_another_machine_is_not_shown() {
    let bmc = Bmc::start().await;
    let console = json!({"SSH": {"ServiceEnabled": true, "Port": 2200}});
    bmc.state().values = vec![(CONSOLE, console)];
    let site = strict_with(&text(&[bmc.port()], "", "uuid: uuid-2"), Here::new());
    let error = show(&site).await.unwrap_err();
    assert!(error.contains("UUID"), "{error}");
    assert_eq!(bmc.sessions(), 0);
}
