//! The life of machines on Metal3, as a user leads it: the program, a site, and who is in the way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::counted::Counted;
use super::operator::Failure;
use super::{Management, NAMESPACE};
use crate::amount::number;
use crate::kubernetes::Fixture;
use crate::site::Site;

/// The rights that the documentation lists.
const RIGHTS: &str = include_str!("../../../docs/metal3.md");

/// What nobody may ever see.
const PASSWORD: &str = "correct horse battery staple";

pub(super) const ENVIRONMENT: &[(&str, &str)] = &[("BMC_PASSWORD", PASSWORD)];

/// A management cluster and a site whose machines it has.
pub(super) struct Lab {
    pub(super) management: Management,
    pub(super) site: Site,
    /// What the site's documents name.
    kubeconfig: PathBuf,
}

impl Lab {
    pub(super) async fn start(nodes: usize) -> Option<Self> {
        let management = Management::start().await?;
        grant(&management, |_| true).await;
        let kubeconfig = limited_path(&management);
        Some(Self::of(management, nodes, &kubeconfig))
    }

    /// The same, with all that the program asks the management cluster for counted.
    pub(super) async fn counted(nodes: usize) -> Option<(Self, Counted)> {
        let management = Management::start().await?;
        grant(&management, |_| true).await;
        let (counted, kubeconfig) = Counted::before(&limited_path(&management));
        Some((Self::of(management, nodes, &kubeconfig), counted))
    }

    fn of(management: Management, nodes: usize, kubeconfig: &Path) -> Self {
        let files = documents(nodes, &hardware(kubeconfig), "jammy");
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, &**text)).collect();
        let site = Site::new(&files);
        Self {
            management,
            site,
            kubeconfig: kubeconfig.to_owned(),
        }
    }

    /// Runs the program; nothing that it says holds a password.
    pub(super) fn run(&self, arguments: &[&str], code: i32) -> String {
        let ended = self.site.trueup(arguments, ENVIRONMENT).with(code);
        let said = ended.stdout + &ended.stderr;
        assert!(!said.contains(PASSWORD), "{said}");
        said
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.site.trueup(arguments, ENVIRONMENT).with(0).json()
    }

    pub(super) fn commit(&self, nodes: usize, image: &str) {
        let files = documents(nodes, &hardware(&self.kubeconfig), image);
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, &**text)).collect();
        self.site.commit(&files);
    }

    /// Lets the document of a node name the serial number of its machine.
    pub(super) fn name_serial(&self, node: &str, serial: &str) {
        let path = self.site.path().join("machines.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let head = format!("name: {node}}}\ndata:\n");
        assert!(text.contains(&head), "{text}");
        let named = format!("{head}  oob: {{serial: {serial}}}\n");
        let text = text.replace(&head, &named);
        self.site.commit(&[("machines.yaml", &*text)]);
    }

    /// How many machines are in which state.
    pub(super) fn states(&self) -> BTreeMap<String, usize> {
        let status = self.json(&["status", "--format", "json"]);
        let mut states = BTreeMap::new();
        for node in status["nodes"].as_array().unwrap() {
            let state = &node["observed"]["provision"]["known"];
            let state = state.as_str().unwrap_or("unknown").to_owned();
            *states.entry(state).or_default() += 1;
        }
        states
    }

    /// Begins a run that goes on beside the test.
    pub(super) fn begin(&self, arguments: &[&str]) -> std::process::Child {
        self.site.start(arguments, ENVIRONMENT, Stdio::piped())
    }
}

/// Gives trueup's user the rights that the documentation lists, as far as `keeps` leaves their verbs.
pub(super) async fn grant(management: &Management, keeps: impl Fn(&str) -> bool) {
    let blocks = RIGHTS.split("```yaml\n");
    let manifest = blocks.filter_map(|block| block.split("```").next());
    let manifest = manifest
        .into_iter()
        .find(|text| text.contains("kind: Role\n"));
    for document in manifest.unwrap().split("---\n") {
        let mut object: Value = serde_yaml::from_str(document).unwrap();
        for rule in object["rules"].as_array_mut().into_iter().flatten() {
            let resource = rule["resources"][0].as_str().unwrap().to_owned();
            let verbs = rule["verbs"].as_array_mut().unwrap();
            verbs.retain(|verb| keeps(&format!("{} {resource}", verb.as_str().unwrap())));
        }
        management.fixture.create(&object).await;
    }
    let kubeconfig = std::fs::read_to_string(management.fixture.kubeconfig()).unwrap();
    let admin = "{token: admin-token}";
    let limited = kubeconfig.replace(admin, "{token: admin-token, as: trueup-metal3}");
    std::fs::write(limited_path(management), limited).unwrap();
}

pub(super) fn limited_path(management: &Management) -> std::path::PathBuf {
    management.fixture.kubeconfig().with_file_name("limited")
}

/// A Backends document whose machines are this management cluster's.
fn hardware(kubeconfig: &Path) -> String {
    format!(
        "  hardware:\n    kind: metal3\n    metal3:\n      cluster: management\n      networks: [10.0.0.0/8]\n      namespace: {NAMESPACE}\n      \
         settling_time: 0.5\n      credentials: {{password: {{env: BMC_PASSWORD}}}}\n      \
         image: {{source: 'https://images.example/{{image}}.qcow2', checksum: abc, checksum_type: sha256}}\n  \
         clusters:\n    management: {{kubeconfig: {{file: \"{}\"}}}}\n",
        kubeconfig.display()
    )
}

/// A site of machines that differs from a simulated one by its Backends document only.
fn documents(nodes: usize, hardware: &str, image: &str) -> Vec<(&'static str, String)> {
    let backends =
        format!("schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n{hardware}");
    let profiles = format!(
        "---\nschema: drydock/Network/v1\nmetadata: {{name: oob}}\ndata: {{cidr: 10.1.0.0/16}}\n\
         ---\nschema: drydock/HardwareProfile/v1\nmetadata: {{name: server}}\ndata: {{vendor: Example, boot_mode: uefi}}\n\
         ---\nschema: drydock/HostProfile/v1\nmetadata: {{name: base}}\ndata:\n  hardware_profile: server\n  \
         oob: {{type: redfish, network: oob, account: root}}\n  platform: {{image: {image}, kernel: generic}}\n  \
         storage: {{physical_devices: {{sda: {{labels: {{bootdrive: 'true'}}, partitions: [{{name: root, size: '>20g', \
         filesystem: {{mountpoint: /, fstype: ext4}}}}]}}}}}}\n\
         ---\nschema: drydock/Rack/v1\nmetadata: {{name: r1}}\ndata: {{}}\n"
    );
    let machine = |number: usize| {
        format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: m{number:03}}}\ndata:\n  host_profile: base\n  \
             metadata: {{rack: r1, boot_mac: '52:54:00:00:{:02x}:{:02x}'}}\n  \
             addressing: [{{network: oob, address: 10.1.{}.{}}}]\n",
            number / 256,
            number % 256,
            number / 250,
            number % 250 + 1
        )
    };
    let definition =
        "schema: pegleg/SiteDefinition/v1\nmetadata: {name: lab}\ndata: {site_type: lab}\n";
    vec![
        ("backends.yaml", backends),
        ("site-definition.yaml", definition.to_owned()),
        ("profiles.yaml", profiles),
        ("machines.yaml", (1..=nodes).map(machine).collect()),
    ]
}

fn image_of(host: &Value) -> &Value {
    &host["status"]["provisioning"]["image"]["url"]
}

#[tokio::test]
async fn machines_live_on_metal3_with_the_rights_that_are_documented() {
    let Some(lab) = Lab::start(3).await else {
        return;
    };
    let operator = &lab.management.operator;
    let changes = |site: &Site| {
        let plan = site
            .trueup(&["plan", "--format", "json"], ENVIRONMENT)
            .with(0);
        let count = |field: &str| plan.json()[field].as_array().map_or(0, Vec::len);
        (count("steps"), count("changes"))
    };
    let simulated = documents(3, "  hardware: {kind: sim}\n", "jammy");
    let simulated: Vec<_> = simulated
        .iter()
        .map(|(path, text)| (*path, &**text))
        .collect();
    assert_eq!(changes(&lab.site), changes(&Site::new(&simulated)));

    lab.run(&["apply", "--yes"], 0);
    assert_eq!(lab.states(), BTreeMap::from([("active".to_owned(), 3)]));
    lab.run(&["plan", "--detailed-exitcode"], 0);
    let host = lab.management.host("m001").await;
    let spec = &host["spec"];
    assert_eq!(
        spec["bmc"]["address"],
        "redfish://10.1.0.2/redfish/v1/Systems/1"
    );
    assert_eq!(spec["bootMACAddress"], "52:54:00:00:00:01");
    assert_eq!(spec["bootMode"], "UEFI");
    assert_eq!(spec["rootDeviceHints"], json!({"deviceName": "/dev/sda"}));
    assert_eq!(spec["automatedCleaningMode"], "metadata");
    assert_eq!(spec["consumerRef"]["kind"], "Site");
    assert_eq!(image_of(&host), "https://images.example/jammy.qcow2");
    assert_eq!(spec["image"]["checksumType"], "sha256");
    let expected = [
        "register",
        "inspect",
        "provision https://images.example/jammy.qcow2",
    ];
    assert_eq!(operator.events("m001"), expected);

    // Another image is a redeploy, blocked until somebody allows it: nothing is wiped by surprise.
    lab.commit(3, "noble");
    let said = lab.run(&["plan"], 0);
    assert!(said.contains("--allow-redeploy m001"), "{said}");
    lab.run(&["apply", "--yes"], 4);
    assert_eq!(operator.events("m001"), expected);
    let allowed = [
        "apply",
        "--yes",
        "--allow-redeploy",
        "m001",
        "--skip-blocked",
    ];
    lab.run(&allowed, 0);
    let host = lab.management.host("m001").await;
    assert_eq!(image_of(&host), "https://images.example/noble.qcow2");
    let all = operator.events("m001");
    let count = |what: &str| all.iter().filter(|event| *event == what).count();
    assert_eq!((count("deprovision"), count("clean")), (1, 1), "{all:?}");
    let jammy = lab.management.host("m002").await;
    assert_eq!(image_of(&jammy), "https://images.example/jammy.qcow2");

    // Power, though the operator shows what is wanted before it is so.
    lab.run(&["apply", "--yes", "power", "off", "m002"], 0);
    assert!(!operator.is_on("m002"));
    lab.run(&["apply", "--yes", "power", "on", "m002"], 0);
    assert!(operator.is_on("m002"));

    // Clean steps cannot be run on demand, and the plan says so.
    let said = lab.run(&["plan", "clean", "m002"], 0);
    assert!(
        said.contains("blocked") || said.contains("refused"),
        "{said}"
    );

    // Retired, kept, shown with its reason; torn down it ends managed, never available.
    lab.run(&["apply", "--yes", "retire", "m002", "--reason", "old"], 0);
    let host = lab.management.host("m002").await;
    assert_eq!(host["metadata"]["labels"]["trueup.dev/retired"], "true");
    let said = lab.run(&["nodes", "--retired"], 0);
    assert!(said.contains("m002"), "{said}");
    lab.run(&["apply", "--yes", "teardown", "m002"], 0);
    assert!(!operator.is_on("m002"));
    let state = |states: &BTreeMap<String, usize>, name: &str| states.get(name).copied();
    assert_eq!(state(&lab.states(), "manageable"), Some(1));

    // What leaves the design leaves the management cluster.
    lab.commit(2, "noble");
    let allowed = ["--allow-destroy", "m003", "--allow-intermediate-commits"];
    lab.run(&[&["apply", "--yes"], &allowed[..]].concat(), 0);
    assert!(lab.management.host("m003").await.is_null());
    let events = operator.events("m003");
    assert_eq!(
        events.last().map(String::as_str),
        Some("delete"),
        "{events:?}"
    );
}

#[tokio::test]
async fn the_example_site_runs_on_metal3_where_only_its_backends_document_differs() {
    let Some(management) = Management::start().await else {
        return;
    };
    grant(&management, |_| true).await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/one-rack");
    let mut files = Vec::new();
    read(&folder, &folder, &mut files);
    for (path, text) in &mut files {
        if path == "backends.yaml" {
            *text = format!(
                "schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n{}",
                hardware(&limited_path(&management))
            );
        }
    }
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let site = Site::new(&files);
    let apply = ["apply", "--yes", "--allow-unverified", "all"];
    site.trueup(&apply, ENVIRONMENT).with(0);
    let status = site
        .trueup(&["status", "--format", "json"], ENVIRONMENT)
        .with(0)
        .json();
    let nodes = status["nodes"].as_array().unwrap();
    let is_active = |node: &&Value| node["observed"]["provision"]["known"] == "active";
    assert_eq!(
        (nodes.len(), nodes.iter().filter(is_active).count()),
        (13, 13)
    );
    let host = management.host("control01").await;
    assert_eq!(host["spec"]["rootDeviceHints"], json!({"hctl": "0:2:0:0"}));
}

fn read(root: &std::path::Path, folder: &std::path::Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read(root, &path, files);
        } else {
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// 100 machines; as many as `TRUEUP_TEST_METAL3_NODES` says where it is set.
#[tokio::test]
async fn a_hundred_machines_come_up() {
    let nodes = number("TRUEUP_TEST_METAL3_NODES").unwrap_or(100);
    let Some(lab) = Lab::start(nodes).await else {
        return;
    };
    let before = requests(&lab.management.fixture).await;
    let began = std::time::Instant::now();
    lab.run(&["apply", "--yes", "--parallelism", "64"], 0);
    let took = began.elapsed().as_secs_f64();
    let after = requests(&lab.management.fixture).await;
    let more = |verb: &str| after.get(verb).unwrap_or(&0) - before.get(verb).unwrap_or(&0);
    let grown: Vec<String> = after
        .keys()
        .filter(|key| key.ends_with(" baremetalhosts") || key.ends_with(" secrets"))
        .map(|key| format!("{key} {}", more(key)))
        .collect();
    eprintln!("the server was asked: {}", grown.join(", "));
    eprintln!("{nodes} machines deployed on Metal3 in {took:.0} s");
    assert_eq!(lab.states(), BTreeMap::from([("active".to_owned(), nodes)]));
    assert_eq!(more("POST baremetalhosts"), nodes as u64);
    assert_eq!(more("PATCH secrets"), 2 * nodes as u64);
    // One of trueup's, and the operator's finalizer.
    assert_eq!(more("PATCH baremetalhosts"), 2 * nodes as u64);
}

/// What the server was asked for so far, by verb and resource.
async fn requests(fixture: &Fixture) -> BTreeMap<String, u64> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = fixture.client.request_text(request).await.unwrap();
    let mut requests = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{"))
    {
        let label = |name: &str| {
            let rest = line.split(&format!("{name}=\"")).nth(1).unwrap_or_default();
            rest.split('"').next().unwrap_or_default()
        };
        if line.contains("subresource=\"status\"") {
            continue;
        }
        let verb = label("verb").replace("APPLY", "PATCH");
        let key = format!("{verb} {}", label("resource"));
        let count = line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        *requests.entry(key).or_default() += count as u64;
    }
    requests
}

#[tokio::test]
async fn a_run_that_is_killed_is_resumed_and_wipes_nothing_twice() {
    let Some(lab) = Lab::start(6).await else {
        return;
    };
    lab.management
        .operator
        .tell(|it| it.delay = Duration::from_millis(800));
    let mut run = lab.begin(&["apply", "--yes", "--parallelism", "6"]);
    let begins = |host: &Value| host["spec"]["image"]["url"].is_string();
    lab.management.until("m003", "being deployed", begins).await;
    run.kill().unwrap();
    run.wait().unwrap();
    lab.run(&["apply", "--resume"], 0);
    assert_eq!(lab.states(), BTreeMap::from([("active".to_owned(), 6)]));
    for number in 1..=6 {
        let events = lab.management.operator.events(&format!("m{number:03}"));
        assert_eq!(events.len(), 3, "{events:?}");
    }
}

/// Whether a host has come to where a run is to be killed.
type Point<'p> = &'p dyn Fn(&Value) -> bool;

/// The Secrets of a machine.
async fn secrets(lab: &Lab, machine: &str) -> Vec<String> {
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(lab.management.fixture.client.clone(), NAMESPACE);
    let all = secrets.list(&kube::api::ListParams::default()).await;
    let names = all.unwrap().items.into_iter();
    names
        .filter_map(|each| each.metadata.name)
        .filter(|name| name.starts_with(machine))
        .collect()
}

#[tokio::test]
async fn a_teardown_whose_host_goes_unobserved_leaves_no_secret_behind() {
    let Some(lab) = Lab::start(2).await else {
        return;
    };
    lab.run(&["apply", "--yes"], 0);
    lab.commit(1, "jammy");
    lab.management
        .operator
        .tell(|it| it.delay = Duration::from_millis(1500));
    let mut run = lab.begin(&["apply", "--yes", "--allow-destroy", "m002"]);
    let is_going = |host: &Value| host["metadata"]["deletionTimestamp"].is_string();
    lab.management.until("m002", "going", is_going).await;
    run.kill().unwrap();
    run.wait().unwrap();
    lab.management.until("m002", "gone", Value::is_null).await;
    assert!(!secrets(&lab, "m002").await.is_empty());
    lab.run(&["apply", "--resume"], 0);
    let left = secrets(&lab, "m002").await;
    assert!(left.is_empty(), "{left:?}");
    lab.run(&["plan", "--detailed-exitcode"], 0);
}

#[tokio::test]
async fn a_teardown_that_is_killed_at_every_point_is_resumed_and_ends_with_the_host() {
    let Some(lab) = Lab::start(2).await else {
        return;
    };
    lab.run(&["apply", "--yes"], 0);
    lab.commit(1, "jammy");
    lab.management
        .operator
        .tell(|it| it.delay = Duration::from_millis(900));
    let state = |host: &Value| {
        let state = &host["status"]["provisioning"]["state"];
        state.as_str().unwrap_or_default().to_owned()
    };
    let is_begun = |host: &Value| host["spec"]["image"].is_null();
    let is_wiped = |host: &Value| state(host) == "deprovisioning";
    let is_free = |host: &Value| is_begun(host) && state(host) == "available";
    let is_going = |host: &Value| host["metadata"]["deletionTimestamp"].is_string();
    let points: [(&str, Point<'_>); 5] = [
        ("begun", &is_begun),
        ("being wiped", &is_wiped),
        ("free", &is_free),
        ("going", &is_going),
        ("gone", &Value::is_null),
    ];
    let mut command = vec!["apply", "--yes", "--allow-destroy", "m002"];
    for (what, point) in points {
        let mut run = lab.begin(&command);
        lab.management.until("m002", what, point).await;
        run.kill().unwrap();
        run.wait().unwrap();
        command = vec!["apply", "--resume"];
    }
    // It may have seen the end of it before it was killed.
    let _ = lab.site.trueup(&command, ENVIRONMENT);
    lab.run(&["plan", "--detailed-exitcode"], 0);
    assert_eq!(lab.states(), BTreeMap::from([("active".to_owned(), 1)]));
    let events = lab.management.operator.events("m002");
    let count = |what: &str| events.iter().filter(|event| *event == what).count();
    assert_eq!((count("clean"), count("delete")), (1, 1), "{events:?}");
    let left = secrets(&lab, "m002").await;
    assert!(left.is_empty(), "{left:?}");
    let others = lab.management.operator.events("m001");
    assert!(
        !others.iter().any(|event| event == "deprovision"),
        "{others:?}"
    );
}

#[tokio::test]
async fn an_api_server_that_goes_away_in_the_middle_is_waited_for() {
    let Some(lab) = Lab::start(4).await else {
        return;
    };
    lab.management
        .operator
        .tell(|it| it.delay = Duration::from_millis(1500));
    let run = lab.begin(&["apply", "--yes"]);
    let registers = |host: &Value| host["status"]["provisioning"]["state"].is_string();
    lab.management
        .until("m002", "being prepared", registers)
        .await;
    lab.management.fixture.kill();
    tokio::time::sleep(Duration::from_secs(4)).await;
    lab.management.fixture.revive().await;
    let ended = tokio::task::spawn_blocking(move || run.wait_with_output().unwrap());
    let ended = ended.await.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert_eq!(lab.states(), BTreeMap::from([("active".to_owned(), 4)]));
}

#[tokio::test]
async fn a_host_that_stays_in_error_fails_its_step_with_the_operators_words_and_no_other() {
    let Some(lab) = Lab::start(3).await else {
        return;
    };
    let fails = |host: &str, state: &str, kind, message| {
        let failure = Failure {
            kind,
            message,
            times: None,
        };
        let key = (host.to_owned(), state.to_owned());
        let operator = &lab.management.operator;
        operator.tell(|it| it.failures = BTreeMap::from([(key, failure)]));
    };
    let failing = |words: &[&str]| {
        let ended = lab.site.trueup(&["apply", "--yes"], ENVIRONMENT);
        let said = ended.stdout + &ended.stderr;
        assert_ne!(ended.code, 0, "{said}");
        for text in words {
            assert!(said.contains(text), "`{text}` is not said:\n{said}");
        }
    };
    fails(
        "m001",
        "registering",
        "registration error",
        "bad credentials",
    );
    failing(&[
        "node `m001` (host metal3/m001)",
        "registration error: bad credentials",
    ]);
    assert_eq!(lab.states().get("available"), Some(&2));

    // A deploy that is given up leaves nothing behind that would come up by itself.
    fails(
        "m002",
        "provisioning",
        "provisioning error",
        "no such image",
    );
    let is_available = |host: &Value| host["status"]["provisioning"]["state"] == "available";
    lab.management
        .until("m001", "available", is_available)
        .await;
    failing(&["provisioning error: no such image"]);
    assert_eq!(lab.states().get("active"), Some(&2));
    lab.management.operator.tell(|it| it.failures.clear());
    let is_free = |host: &Value| {
        let status = &host["status"];
        status["provisioning"]["state"] == "available" && host["spec"]["image"].is_null()
    };
    lab.management.until("m002", "available", is_free).await;
    assert!(!lab.management.operator.is_on("m002"));

    // Once it is mended, the same command brings the rest up.
    lab.run(&["apply", "--yes"], 0);
    assert_eq!(lab.states(), BTreeMap::from([("active".to_owned(), 3)]));
}

#[tokio::test]
async fn each_right_that_is_documented_is_needed() {
    let Some(lab) = Lab::start(1).await else {
        return;
    };
    let roles: kube::Api<k8s_openapi::api::rbac::v1::Role> =
        kube::Api::namespaced(lab.management.fixture.client.clone(), NAMESPACE);
    let whole = roles.get("trueup-metal3").await.unwrap().rules.unwrap();
    let set = async |rules: &Vec<k8s_openapi::api::rbac::v1::PolicyRule>| {
        let patch = kube::api::Patch::Merge(json!({ "rules": rules }));
        let parameters = kube::api::PatchParams::default();
        roles
            .patch("trueup-metal3", &parameters, &patch)
            .await
            .unwrap();
        // The server hears of it through a watch of its own.
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    for (rule, verb) in [
        (1, "create"),
        (1, "patch"),
        (0, "get"),
        (0, "list"),
        (0, "create"),
        (0, "patch"),
    ] {
        let mut less = whole.clone();
        less[rule].verbs.retain(|each| each != verb);
        set(&less).await;
        let ended = lab.site.trueup(&["apply", "--yes"], ENVIRONMENT);
        let said = ended.stdout + &ended.stderr;
        assert_ne!(
            ended.code, 0,
            "{verb} of {:?}:\n{said}",
            less[rule].resources
        );
        assert!(said.contains("docs/metal3.md"), "{verb}:\n{said}");
        assert_eq!(
            lab.management
                .operator
                .events("m001")
                .iter()
                .filter(|it| it.starts_with("provision"))
                .count(),
            0
        );
    }
    // Without `watch` the hosts are listed again and again, and the run says why.
    let mut less = whole.clone();
    less[0].verbs.retain(|each| each != "watch");
    set(&less).await;
    let said = lab.run(&["apply", "--yes"], 0);
    assert!(
        said.contains("cannot watch resource \"baremetalhosts\""),
        "{said}"
    );
    // `delete` is for what has left the design.
    lab.commit(0, "jammy");
    let leave = ["apply", "--yes", "--allow-destroy", "m001"];
    for (rule, resource) in [(0, "baremetalhosts"), (1, "secrets")] {
        let mut less = whole.clone();
        less[rule].verbs.retain(|each| each != "delete");
        set(&less).await;
        let ended = lab.site.trueup(&leave, ENVIRONMENT);
        let said = ended.stdout + &ended.stderr;
        let refusal = format!("cannot delete resource \"{resource}\"");
        assert!(ended.code != 0 && said.contains(&refusal), "{said}");
    }
}

#[tokio::test]
async fn what_others_hold_is_left_to_them_and_named() {
    let Some(lab) = Lab::start(3).await else {
        return;
    };
    lab.run(&["apply", "--yes"], 0);
    let annotate = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let paused = "baremetalhost.metal3.io/paused";
    lab.management
        .patch("m001", annotate(paused, json!("metal3.io/capm3")))
        .await;
    let claim = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "Metal3Machine", "namespace": NAMESPACE, "name": "worker-7"});
    lab.management
        .patch("m002", json!({"spec": {"consumerRef": claim}}))
        .await;
    let held = "reboot.metal3.io/somebody";
    lab.management
        .patch("m003", annotate(held, json!("{\"mode\":\"hard\"}")))
        .await;
    let is_off = |host: &Value| host["status"]["poweredOn"] == json!(false);
    lab.management.until("m003", "off", is_off).await;

    let said = lab.run(&["plan", "teardown", "m001"], 0);
    assert!(said.contains("metal3.io/capm3"), "{said}");
    let said = lab.run(&["plan", "teardown", "m002"], 0);
    assert!(said.contains("since it is protected"), "{said}");
    let ended = lab
        .site
        .trueup(&["apply", "--yes", "power", "on", "m003"], ENVIRONMENT);
    assert_ne!(ended.code, 0);
    let said = ended.stdout + &ended.stderr;
    assert!(
        said.contains("powered off by reboot.metal3.io/somebody"),
        "{said}"
    );
    for host in ["m001", "m002", "m003"] {
        let events = lab.management.operator.events(host);
        assert!(
            !events.iter().any(|event| event == "deprovision"),
            "{events:?}"
        );
    }
}

#[tokio::test]
async fn a_thousand_hosts_are_seen_by_two_requests() {
    let Some(lab) = Lab::start(1000).await else {
        return;
    };
    let hosts = lab.management.hosts();
    let numbers = futures_util::stream::iter(1..=1000);
    futures_util::StreamExt::for_each_concurrent(numbers, 16, |number| {
        let hosts = &hosts;
        async move {
            let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "metadata": {"name": format!("m{number:03}"), "annotations": {"baremetalhost.metal3.io/paused": "test"}},
                "spec": {"online": false}});
            let host = serde_json::from_value(host).unwrap();
            hosts.create(&kube::api::PostParams::default(), &host).await.unwrap();
        }
    })
    .await;
    let Lab {
        management, site, ..
    } = lab;
    let Management { operator, fixture } = management;
    // So that nobody else asks; what it had asked for is answered first.
    drop(operator);
    let mut before = requests(&fixture).await;
    let mut quiet = 0;
    while quiet < 5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = requests(&fixture).await;
        let lists = |seen: &BTreeMap<String, u64>| seen.get("LIST baremetalhosts").copied();
        quiet = match lists(&now) == lists(&before) {
            true => quiet + 1,
            false => 0,
        };
        before = now;
    }
    let status = site
        .trueup(&["status", "--format", "json"], ENVIRONMENT)
        .with(0)
        .json();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 1000);
    let after = requests(&fixture).await;
    let more = |key: &str| after.get(key).unwrap_or(&0) - before.get(key).unwrap_or(&0);
    // This server counts a look at one object as a list.
    eprintln!(
        "1000 hosts seen by {} requests",
        more("LIST baremetalhosts")
    );
    assert_eq!(more("LIST baremetalhosts"), 2);
}
