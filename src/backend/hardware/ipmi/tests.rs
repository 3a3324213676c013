//! IPMI against a program that is not `ipmitool`: what is asked of it, and what it may say.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::backend::{Hardware, Listener, Pending, Reporter, SecretError};
use crate::design::RunId;
use crate::design::fixture::site;
use crate::step::{Effect, Step, StepId};

const SITE: &str = "\
schema: drydock/HardwareProfile/v1
metadata: {name: small}
data: {vendor: x, generation: '1', hw_version: '1', bios_version: '1', boot_mode: uefi, bootstrap_protocol: pxe, pxe_interface: 0}
---
schema: drydock/HostProfile/v1
metadata: {name: host}
data: {hardware_profile: small, oob: {type: ipmi, network: oob}}
---
schema: drydock/BaremetalNode/v1
metadata: {name: n1}
data:
  host_profile: host
  oob: {uuid: 4c4c4544-0051-3510-8052-b4c04f4a3732}
  addressing: [{network: oob, address: 192.0.2.1}]
---
schema: trueup/Backends/v1
metadata: {name: backends}
data:
  hardware:
    kind: ipmi
    ipmi: {credentials: {username: root, password: {env: 'BMC_{node}'}}, port: 6230, cipher_suite: 17, settling_time: 0}
";

/// The program: keeps power and boot device in files beside itself, and does what `mode` says.
const PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
[ "$IPMI_PASSWORD" = hunter22 ] || [ "$1" = -V ] || echo 'no password' >> "$here/calls"
mode=$(cat "$here/mode" 2> /dev/null)
fail() { echo "$1" >&2; exit 1; }
case $mode in
hang) exec sleep 600 ;;
flood) while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done ;;
fail:*) fail "Loading IANA PEN Registry...
${mode#fail:}
Error: Unable to establish IPMI v2 / RMCP+ session" ;;
esac
if [ -e "$here/suites" ]; then
case "$*" in
*' -C '*) suite=${*##* -C }; suite=${suite%% *} ;;
*) if [ -e "$here/best" ]; then suite=$(cat "$here/best"); echo "Using best available cipher suite $suite" >&2
   else suite=3; echo 'Unable to Get Channel Cipher Suites' >&2; fi ;;
esac
grep -qx "$suite" "$here/suites" || fail 'Error in open session response message : no matching cipher suite'
fi
case "$*" in
*' raw 0x06 0x37') [ -e "$here/guid" ] || fail 'Invalid command'; cat "$here/guid" ;;
*' fru print 0') [ -e "$here/fru" ] || fail 'Invalid command'; cat "$here/fru" ;;
*' power status') echo "Chassis Power is $(cat "$here/power")" ;;
*' power on') echo on > "$here/power"; echo 'Chassis Power Control: Up/On' ;;
*' power off') [ "$mode" = stuck ] || echo off > "$here/power"; echo 'Chassis Power Control: Down/Off' ;;
*' bootdev pxe options=efiboot') echo 'Force PXE' > "$here/boot"; echo 'Set Boot Device to pxe' ;;
*' bootparam get 5') echo "   - Boot Device Selector : $(cat "$here/boot")" ;;
*' sel time get') [ "$(cat "$here/log" 2> /dev/null)" != hangs ] || exec sleep 600; echo '11/28/2026 05:10:00' ;;
-v*' sel list last 10') echo 'SEL Record ID          : 0001' ;;
*' sel list last 10') cat "$here/log" ;;
*' mc info') echo 'IPMI Version              : 2.0' ;;
*' chassis status') echo "Main Power Fault     : $(cat "$here/fault" 2> /dev/null || echo false)" ;;
*' sol activate') echo "the console, for $IPMI_PASSWORD" ;;
-V) echo 'ipmitool version 1.8.19' ;;
*) fail 'Invalid command' ;;
esac
"#;

/// The answer of a controller whose machine is that of the document.
const GUID: &str = " 44 45 4c 4c 51 00 10 35 80 52 b4 c0 4f 4a 37 32\n";

#[derive(Debug)]
struct One;

impl Secrets for One {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        assert_eq!(*reference, Reference::Env(Arc::from("BMC_n1")));
        Ok(Secret::new("hunter22".to_owned()))
    }
}

/// Keeps what is noted.
#[derive(Default)]
struct Notes(Mutex<Vec<Arc<str>>>);

impl Listener for Notes {
    fn progress(&self, _: Arc<str>) {}

    fn note<'a>(&'a self, text: Arc<str>) -> Pending<'a, Result<(), ActError>> {
        self.0.lock().unwrap().push(text);
        Box::pin(async { Ok(()) })
    }
}

/// A machine with its controller.
struct Machine {
    folder: TempDir,
    ipmi: Ipmi,
    node: Arc<NodeDesign>,
    notes: Arc<Notes>,
}

impl Machine {
    fn new(goes_unerased: bool) -> Self {
        Self::of(SITE, goes_unerased)
    }

    fn of(text: &str, goes_unerased: bool) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ipmitool");
        std::fs::write(&path, PROGRAM).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let site = site(text);
        let program = Program {
            path: path.into(),
            limit: Duration::from_secs(30),
            search_path: std::env::var_os("PATH"),
            suites: Arc::default(),
        };
        let settings = Settings::read(&site.guards.backends.hardware).unwrap();
        let machine = Self {
            ipmi: Ipmi::new(
                settings,
                program,
                (Arc::new(One), Arc::default()),
                goes_unerased,
            ),
            node: site.design.nodes.into_values().next().unwrap(),
            notes: Arc::default(),
            folder,
        };
        machine.put("power", "off\n");
        machine.put("boot", "No override\n");
        machine.put("guid", GUID);
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn power(&self) -> String {
        std::fs::read_to_string(self.path("power")).unwrap()
    }

    /// The requests so far, without what every call has.
    fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        let identity = |line: &&str| !line.ends_with(" raw 0x06 0x37");
        let common = "-v -I lanplus -H 192.0.2.1 -p 6230 -U root -E -N 3 -R 4 -C 17 ";
        let request = |line: &str| line.strip_prefix(common).unwrap_or(line).to_owned();
        calls.lines().filter(identity).map(request).collect()
    }

    fn order(&self, kind: StepKind) -> Order {
        Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            run: RunId::from("R1"),
            step: Arc::new(Step {
                id: StepId {
                    kind,
                    group: None,
                    node: Some(self.node.name.clone()),
                    wave: None,
                },
                timeout: 60,
                effect: Effect::Reversible,
                standby: false,
                parameters: None,
                needs: Vec::new(),
            }),
            node: Some(self.node.clone()),
            notes: self.notes.0.lock().unwrap().clone(),
            reporter: Reporter::new(self.notes.clone()),
        }
    }

    async fn act(&self, kind: StepKind) -> Result<(), ActError> {
        self.ipmi.act(&self.order(kind)).await
    }

    async fn probe(&self, kind: StepKind) -> Probe {
        self.ipmi.probe(&self.order(kind)).await
    }

    async fn see(&self) -> ObservedNode {
        let nodes = [self.node.clone()];
        let mut seen = self.ipmi.observe(&nodes).await;
        *seen.remove(&self.node.name).unwrap()
    }
}

#[tokio::test]
async fn a_deploy_is_off_then_the_network_then_on_and_is_never_taken_for_done() {
    let machine = Machine::new(false);
    machine.put("power", "on\n");
    assert_eq!(machine.probe(StepKind::Deploy).await, Probe::NotBegun);
    machine.act(StepKind::Prepare).await.unwrap();
    machine.act(StepKind::Deploy).await.unwrap();
    assert_eq!(machine.power(), "on\n");
    let calls = machine.calls();
    let changes: Vec<&str> = calls
        .iter()
        .map(String::as_str)
        .filter(|call| !call.ends_with("status") && !call.contains("get") && *call != "mc info")
        .collect();
    let expected = [
        "chassis power off",
        "chassis bootdev pxe options=efiboot",
        "chassis power on",
    ];
    assert_eq!(changes, expected);
    assert!(matches!(
        machine.probe(StepKind::Deploy).await,
        Probe::Ambiguous(_)
    ));
    machine.put("power", "off\n");
    assert_eq!(machine.probe(StepKind::Deploy).await, Probe::NotBegun);
}

#[tokio::test]
async fn a_deploy_that_is_to_make_volumes_is_refused_before_anything_is_asked() {
    let machine = Machine::new(false);
    let mut order = machine.order(StepKind::Deploy);
    let volumes = crate::step::of_settings(&[(crate::design::VOLUMES, "RAID1 of 2 drives")]);
    let step = Arc::make_mut(&mut order.step);
    step.parameters = crate::step::Parameters::of(StepKind::Deploy, &volumes);
    let error = machine.ipmi.act(&order).await.unwrap_err().to_string();
    assert!(error.contains("makes no RAID volumes"), "{error}");
    assert!(machine.calls().is_empty());
}

#[tokio::test]
async fn power_is_a_level_that_is_requested_only_where_it_differs() {
    let machine = Machine::new(false);
    assert_eq!(machine.probe(StepKind::PowerOn).await, Probe::NotBegun);
    assert_eq!(machine.probe(StepKind::PowerOff).await, Probe::Done);
    machine.act(StepKind::PowerOff).await.unwrap();
    machine.act(StepKind::PowerOn).await.unwrap();
    machine.act(StepKind::PowerOn).await.unwrap();
    assert_eq!(machine.probe(StepKind::PowerOn).await, Probe::Done);
    let calls = machine.calls();
    let asked: Vec<_> = calls
        .iter()
        .filter(|call| !call.ends_with("status"))
        .collect();
    assert_eq!(asked, ["chassis power on"]);
}

#[tokio::test]
async fn nothing_is_destroyed_that_ought_to_be_erased() {
    let machine = Machine::new(false);
    machine.put("power", "on\n");
    let error = machine.act(StepKind::Destroy).await.unwrap_err();
    assert!(error.to_string().contains("`wipe: skip`"), "{error}");
    assert_eq!(machine.calls(), Vec::<String>::new());
    let machine = Machine::new(true);
    machine.put("power", "on\n");
    machine.act(StepKind::Destroy).await.unwrap();
    assert_eq!(machine.power(), "off\n");
    assert_eq!(machine.probe(StepKind::Destroy).await, Probe::Done);
}

#[tokio::test]
async fn a_machine_is_seen_by_its_power_and_what_ipmi_cannot_do_is_not_offered() {
    let machine = Machine::new(false);
    let seen = machine.see().await;
    assert_eq!(seen.power, Fact::Known(PowerState::Off));
    assert!(seen.kept_by_records);
    assert!(!seen.capabilities.contains(Capability::Wipe));
    assert!(
        !seen
            .capabilities
            .contains(Capability::WipeOperatingSystemDisk)
    );
    machine.put("mode", "fail:Get Auth Capabilities error");
    let seen = machine.see().await;
    assert!(!seen.kept_by_records && seen.capabilities.is_empty());
    let Fact::Unknown(reason) = seen.power else {
        panic!("{seen:?}")
    };
    assert_eq!(
        &*reason,
        "the controller at 192.0.2.1:6230 does not answer (`chassis power status`)"
    );
}

#[tokio::test]
async fn each_failure_says_what_it_is_and_whether_it_can_pass() {
    for (words, said, passes) in [
        (
            "> RAKP 2 HMAC is invalid",
            "refuses the password of account `root`",
            false,
        ),
        (
            "RAKP 2 message indicates an error : unauthorized name",
            "does not know the account `root`",
            false,
        ),
        (
            "Error in open session response message : invalid authentication algorithm",
            "set `cipher_suite`",
            false,
        ),
        (
            "RAKP 2 message indicates an error : insufficient resources for session",
            "has no session left",
            true,
        ),
        ("Get Auth Capabilities error", "does not answer", true),
        (
            "Set Chassis Power Control to Up/On failed: Node busy",
            "is busy",
            true,
        ),
        ("hunter22 \u{1b}[31mred\u{7}", "(secret) [31mred", true),
        ("", "does not answer, or", true),
    ] {
        let machine = Machine::new(false);
        machine.put("mode", &format!("fail:{words}"));
        let error = machine.act(StepKind::PowerOn).await.unwrap_err();
        let is_passing = matches!(error, ActError::Passing(_));
        assert_eq!(is_passing, passes, "{words}: {error}");
        let text = error.to_string();
        assert!(text.contains(said), "{words}: {text}");
        assert!(
            !text.contains("hunter22") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(
            machine
                .calls()
                .iter()
                .all(|call| !call.contains("hunter22"))
        );
        assert!(machine.calls().iter().all(|call| call != "no password"));
    }
}

#[tokio::test]
async fn a_program_that_hangs_floods_or_lies_is_ended() {
    let mut machine = Machine::new(false);
    machine.put("mode", "flood");
    let error = machine.act(StepKind::PowerOn).await.unwrap_err();
    assert!(error.to_string().contains("says more than"), "{error}");
    machine.put("mode", "");
    for power in ["ON", "on\nChassis Power is off", ""] {
        machine.put("power", power);
        let error = machine.act(StepKind::PowerOn).await.unwrap_err();
        assert!(
            error.to_string().contains("does not say its power"),
            "{error}"
        );
    }
    machine.put("fault", "true\n");
    let error = machine.act(StepKind::Prepare).await.unwrap_err();
    assert!(error.to_string().contains("`Main Power Fault`"), "{error}");
    machine.ipmi.program.limit = Duration::from_millis(300);
    machine.put("mode", "hang");
    let error = machine.act(StepKind::PowerOn).await.unwrap_err();
    assert!(error.to_string().contains("did not end"), "{error}");
}

#[tokio::test]
async fn a_site_without_the_program_is_told_how_to_get_it() {
    let mut machine = Machine::new(false);
    machine.act(StepKind::VerifySite).await.unwrap();
    machine.ipmi.program.path = machine.path("nothing").into();
    let error = machine.act(StepKind::VerifySite).await.unwrap_err();
    assert_eq!(error, ActError::Permanent(Arc::from(program::NOT_FOUND)));
    machine.act(StepKind::SetRetired).await.unwrap();
    machine.act(StepKind::UnsetMaintenance).await.unwrap();
}

#[test]
fn a_setting_that_does_not_fit_is_shown_in_its_place() {
    let wrong = SITE.replace("settling_time: 0", "settling_time: -1");
    let problem = Settings::read(&site(&wrong).guards.backends.hardware).unwrap_err();
    assert!(
        problem.message.contains("settling time"),
        "{}",
        problem.message
    );
}

#[tokio::test]
async fn no_step_reaches_a_machine_that_is_not_the_one_of_the_document() {
    let kinds = [
        StepKind::PowerOn,
        StepKind::PowerOff,
        StepKind::Prepare,
        StepKind::Deploy,
        StepKind::Destroy,
    ];
    let is_look = |call: &String| call.ends_with("power status") || call.ends_with("fru print 0");
    let machine = Machine::new(true);
    machine.put("guid", " 11 45 4c 4c 51 00 10 35 80 52 b4 c0 4f 4a 37 32\n");
    for kind in kinds {
        let error = machine.act(kind).await.unwrap_err();
        assert!(
            error.to_string().contains("another machine"),
            "{kind}: {error}"
        );
    }
    let seen = machine.see().await;
    assert!(
        matches!(&seen.proof, Proof::Refused(why) if why.contains("UUID")),
        "{seen:?}"
    );
    assert!(seen.power.known().is_none());
    // Without a GUID its serial number counts, and without either nothing proves it.
    machine.put("guid", " 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n");
    for kind in kinds {
        let error = machine.act(kind).await.unwrap_err();
        assert!(error.to_string().contains("unverified"), "{kind}: {error}");
    }
    machine.put("fru", " Product Serial        : S-77\n");
    assert!(matches!(machine.see().await.proof, Proof::Unverified(_)));
    assert!(machine.calls().iter().all(is_look), "{:?}", machine.calls());
    machine.ipmi.identities.allow_unverified(["n1"]);
    machine.act(StepKind::PowerOff).await.unwrap();
    let known = machine.ipmi.identities.known("n1").unwrap();
    assert_eq!(
        (known.serial.as_deref(), known.unverified),
        (Some("S-77"), true)
    );
    let noted = machine.notes.0.lock().unwrap().clone();
    assert_eq!(crate::identity::noted(&noted), Some(known));
    // What was taken once is compared ever after.
    machine.put("fru", " Product Serial        : S-78\n");
    let error = machine.act(StepKind::PowerOn).await.unwrap_err();
    assert!(error.to_string().contains("S-78, expected S-77"), "{error}");
}

#[tokio::test]
async fn a_child_gets_its_password_and_nothing_else_of_the_environment() {
    let machine = Machine::new(false);
    let path = machine.path("ipmitool");
    let dump = "#!/bin/sh\nenv > \"$(dirname \"$0\")/environment\"\necho 'Chassis Power is on'\n";
    std::fs::write(&path, dump).unwrap();
    machine.see().await;
    let environment = std::fs::read_to_string(machine.path("environment")).unwrap();
    let names: BTreeSet<&str> = environment
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    // The shell of this test sets some of its own.
    let allowed = [
        "IPMI_PASSWORD",
        "LC_ALL",
        "PATH",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    assert!(names.contains("IPMI_PASSWORD"), "{environment}");
    assert!(
        names.iter().all(|name| allowed.contains(name)),
        "{environment}"
    );
    assert!(std::env::vars().count() > names.len());
}

#[tokio::test]
async fn a_cipher_suite_that_worked_is_remembered_and_one_that_is_refused_is_left() {
    let suites_of = |machine: &Machine| {
        let calls = std::fs::read_to_string(machine.path("calls")).unwrap();
        let suite = |line: &str| Some(line.split_once(" -C ")?.1.split(' ').next()?.to_owned());
        calls.lines().map(suite).collect::<Vec<_>>()
    };
    let text = SITE.replace(", cipher_suite: 17", "");
    // What is offered; what the controller says is best; the suites of the calls.
    for (offered, best, first) in [
        ("3\n17\n", Some("17"), vec![None, Some("17")]),
        ("3\n", None, vec![None, Some("3")]),
        // It names one that it refuses.
        (
            "3\n",
            Some("17"),
            vec![None, Some("17"), Some("3"), Some("3")],
        ),
        ("17\n", None, vec![None, Some("17"), Some("17")]),
    ] {
        let machine = Machine::of(&text, false);
        machine.put("suites", offered);
        if let Some(best) = best {
            machine.put("best", best);
        }
        machine.act(StepKind::PowerOn).await.unwrap();
        let found = suites_of(&machine);
        let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found[..first.len()], first, "{offered:?} {best:?}");
        let last = first.last().unwrap();
        assert!(
            found[first.len()..].iter().all(|each| each == last),
            "{found:?}"
        );
    }
    // One that is not taken any more is left for another; if none is taken, that is the failure.
    let machine = Machine::of(&text, false);
    machine.put("suites", "17\n");
    machine.put("best", "17");
    machine.act(StepKind::PowerOn).await.unwrap();
    machine.put("suites", "3\n");
    machine.act(StepKind::PowerOff).await.unwrap();
    assert_eq!(suites_of(&machine).last().unwrap().as_deref(), Some("3"));
    machine.put("suites", "8\n");
    let error = machine.act(StepKind::PowerOn).await.unwrap_err();
    assert!(error.to_string().contains("set `cipher_suite`"), "{error}");
}

#[test]
fn suites_are_written_for_the_next_process_and_are_those_of_a_site() {
    let folder = TempDir::new().unwrap();
    let cache = || crate::cache::Cache::new(folder.path(), b"test");
    let (suites, address) = (Suites::of(&cache(), "one"), Arc::from("192.0.2.1"));
    suites.took(&address, 623, 17);
    suites.took(&address, 624, 3);
    suites.refused(&address, 624);
    suites.save();
    let again = Suites::of(&cache(), "one");
    assert_eq!(again.get(&address, 623), Some(17));
    assert_eq!(again.get(&address, 624), None);
    assert_eq!(Suites::of(&cache(), "two").get(&address, 623), None);
}

#[tokio::test]
async fn a_node_has_a_port_of_its_own_where_its_document_says_so() {
    let own = "oob: {port: 6240, uuid:";
    let machine = Machine::of(&SITE.replace("oob: {uuid:", own), false);
    machine.see().await;
    let calls = std::fs::read_to_string(machine.path("calls")).unwrap();
    assert!(
        calls.lines().all(|call| call.contains(" -p 6240 ")),
        "{calls}"
    );
    let machine = Machine::of(
        &SITE.replace("oob: {uuid:", "oob: {port: many, uuid:"),
        false,
    );
    let error = machine.act(StepKind::PowerOn).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`oob.port` of `n1` is no port: many"),
        "{error}"
    );
}

#[tokio::test]
async fn a_step_that_fails_ends_with_the_new_entries_of_the_event_log() {
    let machine = Machine::new(false);
    machine.put("fault", "true\n");
    let failure = async || {
        machine
            .act(StepKind::Prepare)
            .await
            .unwrap_err()
            .to_string()
    };
    machine.put(
        "log",
        "   1 | 11/28/2026 | 04:00:00 | Fan #0x30 | Lower Critical going low  | Asserted\n   \
            2 | Pre-Init  |0000000060| Power Supply #0x51 | Presence detected | Asserted\n   \
            3 | 11/28/26 | 05:10:00 UTC | Power Supply #0x51 | Failure detected \u{1b}[2J hunter22 | Asserted\n",
    );
    let said = failure().await;
    let logged = said
        .split_once("; event log of its controller: ")
        .unwrap()
        .1;
    assert_eq!(
        logged,
        "05:10:00 Power Supply #0x51: Failure detected \\u{1b}[2J … (Asserted)"
    );
    // Of many the last five.
    let many: String = (0..9)
        .map(|second| format!("{second} | 11/28/2026 | 05:10:0{second} | Fan | Low | Asserted\n"))
        .collect();
    machine.put("log", &many);
    let said = failure().await;
    assert_eq!(said.matches("Fan: Low").count(), 5, "{said}");
    assert!(
        !said.contains("05:10:03") && said.contains("05:10:08"),
        "{said}"
    );
    // A log that is empty, or that hangs, changes nothing about the failure.
    for log in ["", "hangs"] {
        machine.put("log", log);
        let said = failure().await;
        assert!(said.ends_with("reports `Main Power Fault`"), "{said}");
    }
    // A controller that refuses the account is not asked for it.
    machine.put("mode", "fail:RAKP 2 HMAC is invalid");
    let before = machine.calls().len();
    failure().await;
    let calls = machine.calls();
    assert!(
        !calls[before..].iter().any(|call| call.contains("sel")),
        "{calls:?}"
    );
}

#[tokio::test]
async fn a_console_is_shown_by_the_program_and_only_of_the_machine_that_is_meant() {
    let machine = Machine::new(false);
    machine.put("guid", " 11 45 4c 4c 51 00 10 35 80 52 b4 c0 4f 4a 37 32\n");
    let refusal = machine.ipmi.console_of(&machine.node).await.err().unwrap();
    assert!(refusal.to_string().contains("UUID"), "{refusal}");
    machine.put("guid", GUID);
    let console = machine.ipmi.console_of(&machine.node).await.ok().unwrap();
    assert_eq!(console.to_string(), "192.0.2.1:6230 (IPMI)");
    let running = console.start(std::process::Stdio::piped()).unwrap();
    let said = running.child.wait_with_output().unwrap().stdout;
    assert_eq!(said, b"the console, for hunter22\n");
    let call = machine.calls().last().unwrap().clone();
    let expected = "-I lanplus -H 192.0.2.1 -p 6230 -U root -E -N 3 -R 4 -C 17 sol activate";
    assert_eq!(call, expected);
}
