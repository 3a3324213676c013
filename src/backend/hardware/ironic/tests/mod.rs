//! The driver against a stand-in that answers as Ironic does, or as no server should.

mod answers;
mod raid;
mod service;
mod standin;
mod versions;

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::backend::http::tests::server::{Received, Reply, Server};
use crate::backend::{Hardware, NoSecrets, Pending, Reporter, Secret, SecretError};
use crate::design::{NodeName, RunId, SiteName, build};
use crate::diagnostic::Sources;
use crate::document::{LoadSettings, load};
use crate::guard::Guarded;
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::Fact;
use crate::step::{CleanStep, DeployStep, Parameters, Step, StepId, StepKind, of_settings};
use standin::{Makes, StandIn};

const RUN: &str = "01J00000000000000000000001";

fn design(text: &str) -> Guarded {
    let mut sources = Sources::new();
    let id = sources.add("site.yaml", text);
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let file = load(id, text, &settings);
    assert!(!file.diagnostics.has_errors(), "{:#?}", file.diagnostics);
    let documents: Vec<_> = file
        .documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    Guarded::under_one(&build(SiteName::from("test"), &documents).0)
}

fn site(url: &str, settings: &str, nodes: &[String], more: &str) -> Guarded {
    let backends = format!(
        "---\nschema: trueup/Backends/v1\nmetadata: {{name: b}}\ndata:\n  hardware: {{kind: ironic, ironic: {{endpoint: \"{url}\", {settings}}}}}\n{more}"
    );
    let machine = |node: &String| {
        format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {node}}}\ndata: {{metadata: {{rack: r}}}}\n"
        )
    };
    let machines: String = nodes.iter().map(machine).collect();
    design(&(backends + &machines))
}

fn open(design: &Guarded, secrets: Arc<dyn Secrets>) -> Result<Ironic, Error> {
    let context = BackendContext::trusting("unused".into(), secrets);
    // What proves a machine has tests of its own.
    let nodes = design.nodes.keys().map(NodeName::as_str);
    context.identities.allow_unverified(nodes);
    let written = design.guards().backends.data.as_ref().unwrap();
    Ironic::open(
        design,
        &design.guards().backends.hardware,
        written,
        &context,
    )
}

fn opened(url: &str, nodes: &[&str]) -> (Ironic, Guarded) {
    let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
    let design = site(url, "driver: fake-hardware", &nodes, "");
    (open(&design, Arc::new(NoSecrets)).unwrap(), design)
}

fn order(design: &Guarded, kind: StepKind, node: &str, parameters: Value) -> Order {
    Order {
        leaving: Arc::default(),
        soaked: Arc::default(),
        run: RunId::from(RUN),
        step: Arc::new(Step {
            id: StepId {
                kind,
                group: None,
                node: Some(NodeName::from(node)),
                wave: None,
            },
            timeout: 0,
            effect: kind.facts().effect,
            standby: false,
            parameters: Parameters::of(kind, &parameters),
            needs: Vec::new(),
        }),
        node: Some(design.nodes[&NodeName::from(node)].clone()),
        notes: Vec::new(),
        reporter: Reporter::default(),
    }
}

async fn act(
    ironic: &Ironic,
    design: &Guarded,
    kind: StepKind,
    node: &str,
) -> Result<(), ActError> {
    ironic.act(&order(design, kind, node, json!({}))).await
}

#[track_caller]
fn permanent(result: Result<(), ActError>) -> String {
    match result {
        Err(ActError::Permanent(text) | ActError::Refused(text)) => text.to_string(),
        other => panic!("not refused for good: {other:?}"),
    }
}

/// The requests that changed something, in order.
fn changes(server: &Server) -> Vec<String> {
    let lines = server.lines();
    lines
        .into_iter()
        .filter(|line| !line.starts_with("GET "))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_table_does_not_have_is_never_sent() {
    for (state, kind) in [
        ("active", StepKind::Provide),
        ("active", StepKind::Deploy),
        ("active", StepKind::Prepare),
        ("active", StepKind::Manage),
        ("available", StepKind::Clean),
        ("enroll", StepKind::Provide),
        ("clean failed", StepKind::Deploy),
        ("clean failed", StepKind::Prepare),
        ("clean hold", StepKind::PowerOn),
        ("deploy hold", StepKind::Destroy),
        ("rescue", StepKind::Prepare),
        ("service failed", StepKind::Prepare),
        ("dreaming", StepKind::Manage),
        ("dreaming", StepKind::PowerOn),
    ] {
        let stand_in = StandIn::new().with("n1", state);
        let server = stand_in.serve().await;
        let (ironic, design) = opened(&server.url, &["n1"]);
        permanent(act(&ironic, &design, kind, "n1").await);
        assert!(
            changes(&server).is_empty(),
            "{kind} while {state}: {:?}",
            changes(&server)
        );
    }
    // A retired or protected machine, and one in maintenance.
    for (state, flag, kind) in [
        ("manageable", "retired", StepKind::Provide),
        ("manageable", "retired", StepKind::Prepare),
        ("available", "retired", StepKind::Deploy),
        ("available", "retired", StepKind::Prepare),
        ("available", "maintenance", StepKind::Deploy),
        ("manageable", "maintenance", StepKind::Prepare),
    ] {
        let stand_in = StandIn::new().with("n1", state);
        stand_in.set("n1", flag, json!(true));
        let server = stand_in.serve().await;
        let (ironic, design) = opened(&server.url, &["n1"]);
        permanent(act(&ironic, &design, kind, "n1").await);
        assert!(
            changes(&server).is_empty(),
            "{kind} while {state} and {flag}"
        );
    }
    let stand_in = StandIn::new().with("n1", "active");
    stand_in.set("n1", "protected", json!(true));
    let server = stand_in.serve().await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    let text = permanent(act(&ironic, &design, StepKind::Destroy, "n1").await);
    assert!(text.contains("since it is protected"), "{text}");
    assert!(!changes(&server).iter().any(|line| line.starts_with("PUT")));
}

#[tokio::test(start_paused = true)]
async fn a_clean_step_that_ironic_leaves_out_is_noticed() {
    let stand_in = StandIn::new().with("n1", "manageable");
    stand_in.slow("n1");
    stand_in.set(
        "n1",
        "driver_internal_info",
        json!({"clean_steps": [{"interface": "bios", "step": "other"}]}),
    );
    let server = stand_in.serve().await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    let step = CleanStep::new("management", "reset");
    let parameters = json!({"clean_steps": [step]});
    match ironic
        .act(&order(&design, StepKind::Clean, "n1", parameters))
        .await
    {
        Err(ActError::Ambiguous(text)) => {
            assert!(
                text.ends_with("left out steps without saying so: management.reset"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Knows one secret.
#[derive(Debug)]
struct One;

impl Secrets for One {
    fn reveal(&self, _: &Reference) -> Result<Secret, SecretError> {
        Ok(Secret::new("s3cret-of-the-bmc".to_owned()))
    }
}

const RICH: &str = "---\nschema: drydock/Network/v1\nmetadata: {name: oob}\ndata: {cidr: 10.0.0.0/24}\n\
---\nschema: drydock/HardwareProfile/v1\nmetadata: {name: hw}\ndata: {boot_mode: uefi, device_aliases: {system: {address: '2:0.1.0', bus_type: scsi, dev_type: RAID}}}\n\
---\nschema: drydock/BootAction/v1\nmetadata: {name: files}\ndata: {assets: [{type: file, path: /etc/x, data: hello, permissions: '644'}]}\n\
---\nschema: drydock/BootAction/v1\nmetadata: {name: fetched}\ndata: {assets: [{type: unit, path: /etc/y, location: 'http://x/y'}]}\n\
---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: rich}\ndata:\n  hardware_profile: hw\n  \
oob: {type: redfish, network: oob, account: root}\n  platform: {image: noble, kernel: generic}\n  \
storage: {physical_devices: {system: {labels: {bootdrive: 'true'}}}}\n  \
addressing: [{network: oob, address: 10.0.0.7}]\n  metadata: {boot_mac: '52:54:00:AA:BB:0C'}\n";

#[tokio::test(start_paused = true)]
async fn a_prepare_that_has_moved_its_node_is_under_way_and_not_refused_for_that() {
    let stand_in = StandIn::new().with("a", "manageable");
    stand_in.set("a", "provision_updated_at", json!("2026-01-01T00:00:00"));
    let server = stand_in.serve().await;
    let (ironic, design) = opened(&server.url, &["a"]);
    let prepare = order(&design, StepKind::Prepare, "a", json!({}));
    let marked = |run: &str| {
        let marker = json!({"run": run, "step": prepare.step.id.to_string(), "before": null});
        stand_in.set("a", "extra", json!({"trueup": marker}));
    };
    marked("01J00000000000000000000009");
    assert_eq!(ironic.probe(&prepare).await, Probe::NotBegun);
    marked(RUN);
    let (ironic, _) = opened(&server.url, &["a"]);
    assert_eq!(ironic.probe(&prepare).await, Probe::UnderWay);
    ironic.act(&prepare).await.unwrap();
    assert_eq!(stand_in.state("a"), "available");
}

#[tokio::test(start_paused = true)]
async fn an_enrolment_that_was_interrupted_goes_on_in_that_run_and_in_another() {
    for (method, end) in [("PUT", "/traits"), ("GET", "/ports"), ("POST", "/ports")] {
        for run in [RUN, "01J00000000000000000000002"] {
            let stand_in = StandIn::new();
            let server = stand_in.serve().await;
            let settings =
                "driver: redfish, traits: [CUSTOM_SSD], controller: {password: {env: BMC}}";
            let design = site(&server.url, settings, &[], RICH);
            let open = || {
                let context = BackendContext::trusting("unused".into(), Arc::new(One));
                let written = design.guards().backends.data.as_ref().unwrap();
                let backend = &design.guards().backends.hardware;
                Ironic::open(&design, backend, written, &context).unwrap()
            };
            let ironic = open();
            stand_in.busy_at(Some((method, end)));
            let first = order(&design, StepKind::Prepare, "rich", json!({}));
            ironic.act(&first).await.unwrap_err();
            stand_in.busy_at(None);
            let nodes = [design.nodes["rich"].clone()];
            let later = open();
            let seen = later.observe(&nodes).await;
            let proof = &seen[&NodeName::from("rich")].proof;
            assert!(proof.is_proven(), "{method} {end}: {proof:?}");
            let again = Order {
                run: RunId::from(run),
                ..order(&design, StepKind::Prepare, "rich", json!({}))
            };
            while let Err(error) = later.act(&again).await {
                assert!(
                    matches!(error, ActError::Passing(_)),
                    "{method} {end}: {error:?}"
                );
            }
            let equipment = (json!(["CUSTOM_SSD"]), vec![json!("52:54:00:aa:bb:0c")]);
            assert_eq!(
                stand_in.equipment("rich"),
                equipment,
                "{method} {end} {run}"
            );
            assert_eq!(stand_in.state("rich"), "available");
        }
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn a_machine_is_enrolled_and_deployed_as_its_design_has_it_and_no_password_is_shown() {
    let settings = "driver: redfish, resource_class: metal, traits: [CUSTOM_SSD], interfaces: {deploy_interface: direct}, \
                    driver_info: {deploy_kernel: 'http://x/k'}, properties: {cpu_arch: x86_64}, \
                    controller: {password: {env: BMC}, port: 8443, verify: false}, \
                    image: {source: 'http://images/{image}.qcow2', checksum: 'http://images/{image}.sums'}";
    let stand_in = StandIn::new();
    let server = stand_in.serve().await;
    let design = site(&server.url, settings, &[], RICH);
    let ironic = open(&design, Arc::new(One)).unwrap();
    act(&ironic, &design, StepKind::Prepare, "rich")
        .await
        .unwrap();
    act(&ironic, &design, StepKind::Deploy, "rich")
        .await
        .unwrap();
    let body_of = |method: &str, path: &str| {
        let received = server.received.lock().unwrap();
        let found = received
            .iter()
            .find(|each| each.method == method && each.path.contains(path));
        found
            .unwrap_or_else(|| panic!("no {method} {path}"))
            .body
            .clone()
    };
    let mut enrolled = body_of("POST", "/v1/nodes");
    enrolled.as_object_mut().unwrap().remove("extra");
    assert_eq!(
        enrolled,
        json!({
            "name": "rich", "driver": "redfish", "resource_class": "metal", "deploy_interface": "direct",
            "properties": {"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"},
            "driver_info": {
                "redfish_address": "https://10.0.0.7:8443", "redfish_username": "root",
                "redfish_password": "s3cret-of-the-bmc", "redfish_verify_ca": false, "deploy_kernel": "http://x/k",
            },
        })
    );
    assert_eq!(body_of("PUT", "/traits"), json!({"traits": ["CUSTOM_SSD"]}));
    assert_eq!(body_of("POST", "/v1/ports")["address"], "52:54:00:aa:bb:0c");
    let node = stand_in.node("rich");
    assert_eq!(
        node["instance_info"],
        json!({"image_source": "http://images/noble.qcow2", "image_checksum": "http://images/noble.sums",
               "root_device": {"hctl": "2:0:1:0"}})
    );
    let deploy = {
        let received = server.received.lock().unwrap();
        let is_it = |each: &&Received| each.body["target"] == "active";
        received.iter().find(is_it).unwrap().body.clone()
    };
    assert_eq!(
        deploy["configdrive"],
        json!({"meta_data": {"name": "rich", "hostname": "rich"},
               "user_data": "#cloud-config\n{\"write_files\":[{\"content\":\"hello\",\"path\":\"/etc/x\",\"permissions\":\"0644\"}]}"})
    );
    assert_eq!(
        crate::backend::hardware::payload::not_carried(&design.nodes[&NodeName::from("rich")]),
        [Arc::from("fetched")]
    );

    // What the design runs in a deploy besides goes along.
    let step = |arguments: Option<&str>| DeployStep {
        interface: Arc::from("bios"),
        step: Arc::from("apply_configuration"),
        priority: 150,
        arguments: arguments.map(Arc::from),
    };
    let parameters = json!({"deploy_steps": [step(Some(r#"{"settings":[]}"#)), step(None)]});
    let stand_in = StandIn::new().with("rich", "available");
    let server = stand_in.serve().await;
    let design = site(&server.url, settings, &[], RICH);
    let ironic = open(&design, Arc::new(One)).unwrap();
    let order_of = || order(&design, StepKind::Deploy, "rich", parameters.clone());
    ironic.act(&order_of()).await.unwrap();
    let deploy = server
        .received
        .lock()
        .unwrap()
        .iter()
        .find(|each| each.body["target"] == "active")
        .unwrap()
        .body
        .clone();
    let expected = |args: Value| json!({"interface": "bios", "step": "apply_configuration", "priority": 150, "args": args});
    assert_eq!(
        deploy["deploy_steps"],
        json!([expected(json!({"settings": []})), expected(json!({}))])
    );
    // An Ironic that is too old for them is told nothing.
    let stand_in = StandIn::new().with("rich", "available").newest(68);
    let server = stand_in.serve().await;
    let design = site(&server.url, settings, &[], RICH);
    let ironic = open(&design, Arc::new(One)).unwrap();
    let text = permanent(
        ironic
            .act(&order(&design, StepKind::Deploy, "rich", parameters))
            .await,
    );
    assert!(
        text.contains("deploy steps (`platform.deploy_steps`) need 1.69"),
        "{text}"
    );
    assert!(changes(&server).is_empty(), "{:?}", changes(&server));

    // A server that repeats what it was told shows no secret.
    let stand_in = StandIn::new();
    let server = stand_in
        .serve_but(|received| {
            let words = received.body.to_string();
            (received.method == "POST").then(|| Reply::json(400, json!({"error_message": words})))
        })
        .await;
    let design = site(&server.url, settings, &[], RICH);
    let ironic = open(&design, Arc::new(One)).unwrap();
    let text = permanent(act(&ironic, &design, StepKind::Prepare, "rich").await);
    assert!(!text.contains("s3cret") && text.contains("400"), "{text}");
}

#[test]
fn settings_that_do_not_fit_are_told_with_their_place() {
    let error = |settings: &str, more: &str| {
        let nodes = ["n1".to_owned(), "n2".to_owned()];
        let design = site("http://x", settings, &nodes, more);
        match open(&design, Arc::new(NoSecrets)) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{settings} is taken"),
        }
    };
    for (settings, expected) in [
        (
            "request_timeout: 0",
            "a request is bounded by more than 0 and at most 3600 s",
        ),
        (
            "credentials: {username: a, password: {env: P}}, token: {env: T}",
            "an account and a token: Ironic takes one of them",
        ),
        (
            "token: {env: T}",
            "a secret of the backend `ironic` cannot be had: no secrets are to be had here",
        ),
        (
            "driver: redfish, driver_info: {redfish_password: x}",
            "`redfish_password` is a secret: give it by reference, as `controller.password`",
        ),
    ] {
        assert_eq!(error(settings, ""), expected);
    }
    assert_eq!(
        error("driver: d", "  names: {n1: {ironic: n2}}\n"),
        "`n1` and `n2` are both called `n2` in Ironic"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_found_by_its_other_name() {
    let stand_in = StandIn::new().with("metal-7", "manageable");
    let server = stand_in.serve().await;
    let design = site(
        &server.url,
        "verify: true",
        &["n1".to_owned()],
        "  names: {n1: {ironic: metal-7}}\n",
    );
    let ironic = open(&design, Arc::new(NoSecrets)).unwrap();
    act(&ironic, &design, StepKind::Provide, "n1")
        .await
        .unwrap();
    assert_eq!(stand_in.state("metal-7"), "available");
    // Without a driver no node is enrolled, and a missing name is an error.
    let design = site(&server.url, "verify: true", &["n2".to_owned()], "");
    let ironic = open(&design, Arc::new(NoSecrets)).unwrap();
    let text = permanent(act(&ironic, &design, StepKind::Prepare, "n2").await);
    assert!(text.contains("name no `driver` to enrol it with"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_share_one_list() {
    let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
    let mut stand_in = StandIn::new();
    for name in &names {
        stand_in = stand_in.with(name, "manageable");
    }
    let server = stand_in.serve().await;
    let design = site(&server.url, "verify: true", &names, "");
    let ironic = open(&design, Arc::new(NoSecrets)).unwrap();
    let acts = names
        .iter()
        .map(|name| act(&ironic, &design, StepKind::Provide, name));
    for result in futures_util::future::join_all(acts).await {
        result.unwrap();
    }
    let lines = server.lines();
    let lists = lines
        .iter()
        .filter(|line| line.starts_with("GET /v1/nodes?"))
        .count();
    let single = lines
        .iter()
        .filter(|line| line.starts_with("GET /v1/nodes/"))
        .count();
    assert!(lists <= 6, "{lists} lists");
    assert_eq!(single, 0, "the look before each verb is of a list, too");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_deployed_by_a_few_requests_of_its_own() {
    let names: Vec<String> = (0..50).map(|number| format!("n{number}")).collect();
    let mut stand_in = StandIn::new();
    for name in &names {
        stand_in = stand_in.with(name, "manageable");
    }
    let server = stand_in.serve().await;
    let settings = "driver: fake-hardware, image: {source: 'http://i/x', checksum: 'http://i/s'}";
    let design = site(&server.url, settings, &names, "");
    let ironic = open(&design, Arc::new(NoSecrets)).unwrap();
    for kind in [StepKind::Prepare, StepKind::Deploy] {
        let acts = names.iter().map(|name| {
            let (ironic, design) = (&ironic, &design);
            async move {
                // As a run does it: what the step relies on, whether it has begun, then the step.
                let order = order(design, kind, name, json!({}));
                ironic
                    .observe(std::slice::from_ref(order.node.as_ref().unwrap()))
                    .await;
                ironic.probe(&order).await;
                ironic.act(&order).await
            }
        });
        for result in futures_util::future::join_all(acts).await {
            result.unwrap();
        }
    }
    let lines = server.lines();
    let is_list = |line: &&String| line.starts_with("GET /v1/nodes?");
    let lists = lines.iter().filter(is_list).count();
    let own = lines.len() - lists;
    assert!(
        own <= 8 * names.len(),
        "{own} requests of {} machines",
        names.len()
    );
    assert!(lists <= 20, "{lists} lists");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_machines_are_seen_in_two_lists() {
    let names: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
    let mut stand_in = StandIn::new();
    for name in &names {
        stand_in = stand_in.with(name, "active");
    }
    let server = stand_in.serve().await;
    let design = site(&server.url, "verify: true", &names, "");
    let ironic = open(&design, Arc::new(NoSecrets)).unwrap();
    let nodes: Vec<_> = design.nodes.values().cloned().collect();
    let began = std::time::Instant::now();
    let seen = ironic.observe(&nodes).await;
    eprintln!(
        "1000 machines observed in {} ms",
        began.elapsed().as_millis()
    );
    assert_eq!(seen.len(), 1000);
    assert!(
        seen.values()
            .all(|node| node.provision == Fact::Known(ProvisionState::Active))
    );
    let lines = server.lines();
    assert_eq!(lines.len(), 2, "the version and one list: {lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_poll_does_not_end_a_wait() {
    let stand_in = StandIn::new().with("n1", "manageable");
    let failures = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = failures.clone();
    let server = stand_in
        .serve_but(move |received| {
            let is_list = received.path.starts_with("/v1/nodes?");
            let is_early = || count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 5;
            (is_list && is_early()).then(|| Reply::json(500, Value::Null))
        })
        .await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    act(&ironic, &design, StepKind::Provide, "n1")
        .await
        .unwrap();
    assert!(failures.load(std::sync::atomic::Ordering::SeqCst) >= 5);
}

#[tokio::test(start_paused = true)]
async fn no_step_reaches_a_node_of_ironic_that_is_not_the_one_of_the_record_or_the_document() {
    let kinds = [
        StepKind::Prepare,
        StepKind::Deploy,
        StepKind::Destroy,
        StepKind::Clean,
        StepKind::PowerOn,
        StepKind::PowerOff,
        StepKind::Manage,
        StepKind::Provide,
        StepKind::SetRetired,
        StepKind::SetMaintenance,
    ];
    let stand_in = StandIn::new().with("n1", "manageable");
    let server = stand_in.serve().await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    let other = Identity::default().in_provisioner("11111111-0000-4000-8000-000000000009");
    ironic.roster.identities.record([("n1", other)]);
    let nodes: Vec<_> = design.nodes.values().cloned().collect();
    let seen = ironic.observe(&nodes).await.into_values().next().unwrap();
    assert!(matches!(&seen.proof, Proof::Refused(why) if why.contains("provisioner id")));
    for kind in kinds {
        let text = permanent(act(&ironic, &design, kind, "n1").await);
        let other = "11111111-0000-4000-8000-000000000009";
        assert!(
            text.contains(&format!("expected {other}")),
            "{kind}: {text}"
        );
    }
    // Neither document nor record names anything.
    let context = BackendContext::trusting("unused".into(), Arc::new(NoSecrets));
    let written = design.guards().backends.data.as_ref().unwrap();
    let ironic = Ironic::open(
        &design,
        &design.guards().backends.hardware,
        written,
        &context,
    )
    .unwrap();
    for kind in kinds {
        let text = permanent(act(&ironic, &design, kind, "n1").await);
        assert!(text.contains("unverified"), "{kind}: {text}");
    }
    assert_eq!(changes(&server), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deploy_that_ends_with_the_machine_off_switches_it_on() {
    for stays_off in [false, true] {
        let stand_in = StandIn::new().with("n1", "available");
        stand_in.set("n1", "stays_off", json!(stays_off));
        let server = stand_in.serve().await;
        let (ironic, design) = opened(&server.url, &["n1"]);
        act(&ironic, &design, StepKind::Deploy, "n1").await.unwrap();
        let nodes: Vec<_> = design.nodes.values().cloned().collect();
        let seen = ironic.observe(&nodes).await.into_values().next().unwrap();
        assert_eq!(seen.power, Fact::Known(PowerState::On));
        let asked = changes(&server)
            .iter()
            .any(|line| line.contains("states/power"));
        assert_eq!(asked, stays_off, "{:?}", changes(&server));
    }
}

/// Keeps what a step notes.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<Arc<str>>>);

impl crate::backend::Listener for Notes {
    fn progress(&self, _: Arc<str>) {}

    fn note<'a>(&'a self, text: Arc<str>) -> Pending<'a, Result<(), ActError>> {
        self.0.lock().unwrap().push(text);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn cleaning_that_a_step_switched_off_is_restored_by_the_resumed_run() {
    for was in [json!(null), json!(true), json!(false)] {
        let fixture = StandIn::new().with("n04", "active");
        fixture.set("n04", "automated_clean", was.clone());
        fixture.slow("n04");
        let server = fixture.serve().await;
        let (ironic, design) = opened(&server.url, &["n04"]);
        let preserve = json!({"preserve_local_storage": true});
        let mut first = order(&design, StepKind::Destroy, "n04", preserve);
        let notes = Arc::new(Notes::default());
        first.reporter = Reporter::new(notes.clone());
        // The process dies while Ironic takes the instance away, with cleaning switched off.
        let is_asked = async {
            while fixture.state("n04") == "active" {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            ended = ironic.act(&first) => panic!("{was}: {ended:?}"),
            () = is_asked => {}
        }
        assert_eq!(fixture.node("n04")["automated_clean"], json!(false));
        fixture.end("n04");

        let mut second = first.clone();
        second.notes = notes.0.lock().unwrap().clone();
        let (ironic, _) = opened(&server.url, &["n04"]);
        if was != json!(false) {
            assert_ne!(ironic.probe(&second).await, Probe::Done, "{was}");
        }
        ironic.act(&second).await.unwrap();
        assert_eq!(fixture.node("n04")["automated_clean"], was);
        assert_eq!(ironic.probe(&second).await, Probe::Done, "{was}");
        let deletes = changes(&server)
            .iter()
            .filter(|line| line.contains("provision"))
            .count();
        assert_eq!(deletes, 1, "{:?}", changes(&server));
    }
}
