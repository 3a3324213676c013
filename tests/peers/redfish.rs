//! Plain Redfish against sushy-tools' emulator: it shows what was set seconds later, never says `Once`,
//! closes every connection, and loses a request that it has answered.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};
use trueup::backend::{
    ActError, BackendContext, Backends, Hardware as _, Order, Probe, Reporter, Secret, SecretError,
    Secrets, choose,
};
use trueup::design::{HardwareSetting, NodeDesign, Reference, RunId, SiteName, build};
use trueup::diagnostic::Sources;
use trueup::document::{LoadSettings, load};
use trueup::guard::Guarded;
use trueup::lifecycle::PowerState;
use trueup::observed::Fact;
use trueup::step::{Effect, Step, StepId, StepKind};

use crate::harness::{Peer, given};
use crate::site::Site;

/// The secrets of the emulator.
#[derive(Debug)]
struct Known {
    certificate: String,
}

impl Secrets for Known {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        match reference {
            Reference::Env(name) if &**name == "BMC_PASSWORD" => {
                Ok(Secret::new("password".to_owned()))
            }
            Reference::Env(name) if &**name == "BMC_WRONG" => Ok(Secret::new("wrong".to_owned())),
            Reference::Env(_) => Ok(Secret::new(self.certificate.clone())),
            other => Err(SecretError(format!("{other:?}"))),
        }
    }
}

/// Starts an emulator; its port.
pub(crate) fn start(count: usize, mode: &str) -> Option<(Peer, u16)> {
    let peer = Peer::start("sushy-up.sh", |ports| {
        vec![count.to_string(), ports.at(0).to_string(), mode.to_owned()]
    })?;
    let port = peer.ports().at(0);
    Some((peer, port))
}

pub(crate) fn uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// The documents of a site of so many nodes.
pub(crate) fn nodes(count: usize) -> String {
    let nodes = (1..=count).map(|number| {
        let uuid = uuid(number);
        format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: node-{number:04}}}\ndata:\n  host_profile: worker\n  \
             oob: {{type: redfish, address: 127.0.0.1, system: {uuid}, uuid: {uuid}}}\n  metadata: {{boot_mac: '00:5c:52:00:00:{number:02x}', tags: [all]}}\n"
        )
    });
    nodes.collect()
}

pub(crate) fn backends(port: u16, more: &str) -> String {
    format!(
        "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: redfish\n    \
         redfish: {{port: {port}, networks: [127.0.0.0/8, localhost], request_timeout: 30, {more}}}\n"
    )
}

/// The definition of a site, and what its machines have in common.
pub(crate) const DEFINITION: &str =
    "---\nschema: pegleg/SiteDefinition/v1\nmetadata: {name: lab}\ndata: {}\n";
pub(crate) const GENERAL: &str = "---\nschema: shipyard/DeploymentStrategy/v1\nmetadata: {name: deployment-strategy}\ndata:\n  groups:\n    \
        - {name: all, critical: true, depends_on: [], selectors: [{node_tags: [all]}], success_criteria: {percent_successful_nodes: 100}}\n\
        ---\nschema: drydock/HardwareProfile/v1\nmetadata: {name: emulated}\ndata: {vendor: Sushy}\n\
        ---\nschema: drydock/HostProfile/v1\nmetadata: {name: worker}\ndata:\n  hardware_profile: emulated\n  platform: {image: ubuntu}\n  \
        storage: {physical_devices: {sda: {partitions: [{name: root, size: 30g, bootable: true, filesystem: {mountpoint: /, fstype: ext4}}]}}}\n\
        ---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {wipe: skip}\n";

/// A site as a backend sees it.
struct Machines {
    backends: Arc<Backends>,
    nodes: Vec<Arc<NodeDesign>>,
    runtime: tokio::runtime::Runtime,
}

impl Machines {
    fn open(text: &str, certificate: String) -> Self {
        let mut sources = Sources::new();
        let id = sources.add("site.yaml", text);
        let settings = LoadSettings {
            flat: true,
            ..LoadSettings::default()
        };
        let documents = load(id, text, &settings).documents;
        let inputs: Vec<_> = documents
            .iter()
            .map(|document| (&**document, &document.data))
            .collect();
        let (design, _) = build(SiteName::from("test"), &inputs);
        let context = BackendContext::trusting(
            "simulated-site.json".into(),
            Arc::new(Known { certificate }),
        );
        let backends = choose(&Guarded::under_one(&design), &context)
            .unwrap_or_else(|error| panic!("{error}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            backends,
            nodes: design.nodes.values().cloned().collect(),
            runtime,
        }
    }

    fn order(&self, kind: StepKind, at: usize) -> Order {
        let node = self.nodes[at].clone();
        Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            run: RunId::from("run"),
            step: Arc::new(Step {
                id: StepId {
                    kind,
                    group: None,
                    node: Some(node.name.clone()),
                    wave: None,
                },
                timeout: 120,
                effect: Effect::Destructive,
                standby: false,
                parameters: None,
                needs: Vec::new(),
            }),
            node: Some(node),
            notes: Vec::new(),
            reporter: Reporter::default(),
        }
    }

    fn act(&self, kind: StepKind, at: usize) -> Result<(), ActError> {
        self.runtime
            .block_on(self.backends.act(&self.order(kind, at)))
    }

    /// Brings a value true.
    fn service(&self, name: &str, value: &str) -> Result<(), ActError> {
        let mut order = self.order(StepKind::Service, 0);
        let setting = HardwareSetting {
            name: Arc::from(name),
            before: None,
            value: Arc::from(value),
        };
        let step = Arc::make_mut(&mut order.step);
        step.parameters = given(StepKind::Service, &json!({"settings": [setting]}));
        self.runtime.block_on(self.backends.act(&order))
    }

    fn probe(&self, kind: StepKind, at: usize) -> Probe {
        self.runtime
            .block_on(self.backends.probe(&self.order(kind, at)))
    }

    /// Power of each node, in their order.
    fn power(&self) -> Vec<Fact<PowerState>> {
        let seen = self.runtime.block_on(self.backends.observe(&self.nodes));
        seen.into_values().map(|node| node.power).collect()
    }
}

/// One request without TLS; the code and the body of its answer.
pub(crate) fn request(
    port: u16,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let broken = || std::io::Error::other(format!("this is no answer: `{answer}`"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.ok_or_else(broken)?, body.to_owned()))
}

/// The body of the answer to a request that is carried out.
pub(crate) fn ask(port: u16, method: &str, path: &str, body: &Value) -> Value {
    let (code, answer) = request(port, method, path, "", body).unwrap();
    assert!(
        (200..300).contains(&code),
        "{method} {path}: {code} {answer}"
    );
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

fn reset(port: u16, number: usize, kind: &str) {
    let path = format!(
        "/redfish/v1/Systems/{}/Actions/ComputerSystem.Reset",
        uuid(number)
    );
    ask(port, "POST", &path, &json!({"ResetType": kind}));
}

#[test]
fn power_boot_override_and_images_are_believed_when_they_are_seen_and_a_late_request_does_not_win()
{
    let Some((_peer, port)) = start(3, "plain") else {
        return;
    };
    // The emulator shows a change up to 11 seconds late.
    let more = "scheme: http, settling_time: 12, shutdown_time: 30";
    let machines = Machines::open(&(backends(port, more) + &nodes(3)), String::new());
    let off = Fact::Known(PowerState::Off);
    assert_eq!(machines.power(), [off.clone(), off.clone(), off.clone()]);

    // On is still to come when off is asked for: a controller that says that it is off already is not believed.
    // It has come when the other machine is on, which takes longer.
    reset(port, 1, "On");
    machines.act(StepKind::PowerOff, 0).unwrap();

    machines.act(StepKind::Prepare, 1).unwrap();
    machines.act(StepKind::PowerOn, 1).unwrap();
    assert_eq!(machines.probe(StepKind::PowerOn, 1), Probe::Done);
    assert_eq!(machines.probe(StepKind::PowerOff, 1), Probe::NotBegun);
    assert_eq!(
        machines.power(),
        [off.clone(), Fact::Known(PowerState::On), off]
    );
}

#[test]
fn secure_boot_is_set_with_one_restart_and_what_the_emulator_cannot_update_is_no_success() {
    let Some((peer, port)) = start(1, "plain") else {
        return;
    };
    let general = "scheme: http, settling_time: 0.5, deploy: {boot_time: 2}";
    let hardware = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata:\n  mode: enforce\n  boot: {secure_boot: true}\n  \
        bios: {ProcTurboMode: Disabled}\n  firmware: {bios: {version: 9.9.9, image: {url: 'http://127.0.0.1:1/bios.bin'}}}\n";
    let text = backends(port, general) + &nodes(1) + hardware;
    let machines = Machines::open(&text, String::new());
    machines.act(StepKind::PowerOn, 0).unwrap();
    let system = format!("/redfish/v1/Systems/{}", uuid(1));
    let secure_boot = || ask(port, "GET", &format!("{system}/SecureBoot"), &Value::Null);
    assert_eq!(secure_boot()["SecureBootEnable"], false);
    machines.service("boot.secure_boot", "true").unwrap();
    assert_eq!(secure_boot()["SecureBootCurrentBoot"], "Enabled");
    assert_eq!(machines.power(), [Fact::Known(PowerState::On)]);
    let log = std::fs::read_to_string(peer.path("log")).unwrap();
    let resets = log.matches("POST /redfish/v1/Systems/").count();
    assert!(resets >= 3, "{resets}: on, off, on");
    // Its machines have neither attributes of a BIOS nor versions.
    for (name, value) in [
        ("bios.ProcTurboMode", "Disabled"),
        ("firmware.bios", "9.9.9"),
    ] {
        let error = machines.service(name, value).unwrap_err();
        assert!(!error.to_string().is_empty(), "{name}");
        assert_eq!(machines.power(), [Fact::Known(PowerState::On)]);
    }
}

#[test]
fn a_machine_is_deployed_from_the_network_or_from_an_image_by_what_can_be_had() {
    let Some((_peer, port)) = start(2, "plain") else {
        return;
    };
    let images = TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!(
        "http://127.0.0.1:{}/{{node}}.iso",
        images.local_addr().unwrap().port()
    );
    std::thread::spawn(move || {
        for mut stream in images.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nimage");
        }
    });
    let general = "scheme: http, settling_time: 1";
    let network = format!("{general}, deploy: {{boot_time: 1}}");
    let machines = Machines::open(&(backends(port, &network) + &nodes(1)), String::new());
    machines.act(StepKind::Deploy, 0).unwrap();
    assert_eq!(machines.power(), [Fact::Known(PowerState::On)]);

    let by_image = format!("{general}, image: '{image}', deploy: {{port: {port}}}");
    let text = backends(port, &by_image) + &nodes(2);
    let text = text.replace("address: 127.0.0.1, system", "address: localhost, system");
    let machines = Machines::open(&text, String::new());
    // Which address the new system has is not known: nothing is begun.
    let error = machines.act(StepKind::Deploy, 1).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no fixed address on its primary network"),
        "{error}"
    );
    let by_image = format!("{general}, image: '{image}', deploy: {{boot_time: 1}}");
    let machines = Machines::open(&(backends(port, &by_image) + &nodes(2)), String::new());
    machines.act(StepKind::Deploy, 1).unwrap();
    let media = format!("/redfish/v1/Systems/{}/VirtualMedia/Cd", uuid(2));
    let media = ask(port, "GET", &media, &Value::Null);
    assert_eq!(media["Inserted"], true);
    assert!(
        media["Image"].as_str().unwrap().ends_with("/node-0002.iso"),
        "{media}"
    );
}

#[test]
fn a_wrong_password_and_an_untrusted_certificate_are_told_from_each_other() {
    let Some((peer, port)) = start(2, "tlsauth") else {
        return;
    };
    let certificate = std::fs::read_to_string(peer.path("tls.crt")).unwrap();
    let open = |more: &str| {
        let machines = Machines::open(&(backends(port, more) + &nodes(1)), certificate.clone());
        machines.power().remove(0)
    };
    let account =
        |password: &str| format!("credentials: {{username: admin, password: {{env: {password}}}}}");
    let good = open(&format!("{}, ca: {{env: CA}}", account("BMC_PASSWORD")));
    assert_eq!(good, Fact::Known(PowerState::Off));
    let unverified = open(&format!("{}, verify: false", account("BMC_PASSWORD")));
    assert_eq!(unverified, Fact::Known(PowerState::Off));
    for (more, problem) in [
        (
            format!("{}, ca: {{env: CA}}", account("BMC_WRONG")),
            "401 Unauthorized: Incorrect username or …",
        ),
        (
            "ca: {env: CA}".to_owned(),
            "401 Unauthorized: Authorization required",
        ),
        (account("BMC_PASSWORD"), "its certificate is not trusted"),
        (
            format!("{}, scheme: http", account("BMC_PASSWORD")),
            "before an answer came",
        ),
    ] {
        let Fact::Unknown(reason) = open(&more) else {
            panic!("{more}");
        };
        assert!(
            reason.contains(problem) && reason.contains("node `node-0001`: 127.0.0.1:"),
            "{reason}"
        );
    }
}

#[test]
fn a_site_of_fifty_machines_is_brought_up_and_torn_down_over_tls() {
    const COUNT: usize = 50;
    let Some((peer, port)) = start(COUNT, "tlsauth") else {
        return;
    };
    let certificate = std::fs::read_to_string(peer.path("tls.crt")).unwrap();
    let more = "settling_time: 1, credentials: {username: admin, password: {env: BMC_PASSWORD}}, ca: {file: bmc-ca.pem}, \
                deploy: {boot_time: 1}";
    let backends = backends(port, more);
    let documents = nodes(COUNT);
    let site = Site::new(&[
        ("site-definition.yaml", DEFINITION),
        ("general.yaml", GENERAL),
        ("backends.yaml", &backends),
        ("nodes.yaml", &documents),
        ("bmc-ca.pem", &certificate),
    ]);
    let environment = [("BMC_PASSWORD", "password")];
    let begun = std::time::Instant::now();
    site.trueup(&["apply", "--yes", "--parallelism", "50"], &environment)
        .with(0);
    eprintln!("{COUNT} machines up in {:?}", begun.elapsed());
    let by_reference = backends.replace("file: bmc-ca.pem", "env: CA");
    let machines = Machines::open(&(by_reference + &documents), certificate);
    let on = Fact::Known(PowerState::On);
    assert!(machines.power().iter().all(|power| *power == on));
    let plan = site.trueup(&["plan", "--detailed-exitcode", "-vvv"], &environment);
    let requests = plan.stderr.matches(": GET /redfish/v1/").count();
    assert!(requests >= COUNT, "{}", plan.stderr);
    for hidden in ["admin", "YWRtaW46cGFzc3dvcmQ="] {
        assert!(!plan.stderr.contains(hidden), "{}", plan.stderr);
    }

    site.commit(&[("nodes.yaml", &nodes(1))]);
    let begun = std::time::Instant::now();
    let down = [
        "apply",
        "--yes",
        "--parallelism",
        "50",
        "--allow-destroy",
        "all",
    ];
    site.trueup(&down, &environment).with(0);
    eprintln!("{} machines down in {:?}", COUNT - 1, begun.elapsed());
    let power = machines.power();
    let off = Fact::Known(PowerState::Off);
    assert_eq!(power[0], on);
    assert!(power[1..].iter().all(|power| *power == off), "{power:?}");
}

#[test]
fn no_step_reaches_a_system_of_the_emulator_that_is_not_the_one_of_the_document() {
    let Some((_peer, port)) = start(3, "plain") else {
        return;
    };
    // The documents of two machines point to each other's systems.
    let (first, second) = (uuid(1), uuid(2));
    let swapped = nodes(2)
        .replace(&format!("system: {first},"), "system: SECOND,")
        .replace(&format!("system: {second},"), &format!("system: {first},"))
        .replace("SECOND", &second);
    let settings = backends(port, "scheme: http, settling_time: 0.5");
    let machines = Machines::open(&(settings.clone() + &swapped), String::new());
    for at in [0, 1] {
        for kind in [
            StepKind::PowerOn,
            StepKind::PowerOff,
            StepKind::Prepare,
            StepKind::Deploy,
            StepKind::Destroy,
        ] {
            let error = machines.act(kind, at).unwrap_err().to_string();
            assert!(error.contains("another machine"), "{kind}: {error}");
        }
    }
    assert!(machines.power().iter().all(|power| power.known().is_none()));
    let states = |number: usize| {
        let path = format!("/redfish/v1/Systems/{}", uuid(number));
        ask(port, "GET", &path, &Value::Null)["PowerState"].clone()
    };
    assert_eq!([states(1), states(2)], [json!("Off"), json!("Off")]);

    // With MAC addresses alone, first contact is proven or refused by them.
    let by_mac = |text: &str| {
        let own = |number: usize| format!(", uuid: {}}}", uuid(number));
        text.replace(&own(1), "}").replace(&own(2), "}")
    };
    let machines = Machines::open(&(settings.clone() + &by_mac(&swapped)), String::new());
    let error = machines.act(StepKind::PowerOn, 0).unwrap_err().to_string();
    assert!(
        error.contains("it has no interface 00:5c:52:00:00:01"),
        "{error}"
    );
    let machines = Machines::open(&(settings + &by_mac(&nodes(2))), String::new());
    assert!(machines.power().iter().all(|power| power.known().is_some()));
    machines.act(StepKind::PowerOn, 0).unwrap();
    assert_eq!(states(2), json!("Off"));
}
