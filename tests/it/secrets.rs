//! No secret is seen: every command in every format over a site full of marked secrets, as talkative as
//! it can be, and then everything that the runs left behind.
//!
//! The marks are in documents of their own, substituted into fields of nodes, profiles and boot actions, in
//! fields that are wrong, and behind references of the backends. What a document says in plain sight, without
//! `storagePolicy: encrypted`, is no secret, unless its field is one for a credential.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use trueup::plan::Action;

use super::fixture::{Ended, Fixture};
use super::telemetry::Collector;

use crate::folder::folder;

/// Commands that read no site.
const WITHOUT_A_SITE: [&str; 6] = ["init", "demo", "schemas", "actions", "completions", "man"];

thread_local! {
    /// Takes the spans of the commands of a test that has one.
    static COLLECTOR: RefCell<Option<Collector>> = const { RefCell::new(None) };
    /// The commands that were run by this test, each with its format if one was asked for.
    static RAN: RefCell<BTreeSet<(String, Option<String>)>> = const { RefCell::new(BTreeSet::new()) };
}

/// What every mark begins with.
const MARK: &str = "hunter2";

/// What each mark ends in, so that a finding says where it came from.
const PASSWORD: &str = "hunter2-password";

/// A site with secrets: BMC credentials, a kernel parameter, what a boot action writes.
fn site() -> Fixture {
    let fixture = Fixture::one_rack();
    fixture.checkout.write("secrets.yaml", documents(PASSWORD));
    fixture.edit(
        "host-profiles.yaml",
        "metadata: {name: base}\ndata:\n  hardware_profile: general-server\n  primary_network: oam\n  \
         oob: {type: redfish, network: oob, account: admin}\n",
        "metadata:\n  name: base\n  schema: metadata/Document/v1\n  storagePolicy: cleartext\n  \
         layeringDefinition: {layer: site, abstract: false}\n  substitutions:\n    \
         - {src: {schema: deckhand/Passphrase/v1, name: bmc, path: .}, dest: {path: .oob.credential}}\n    \
         - {src: {schema: deckhand/Passphrase/v1, name: kernel, path: .}, dest: {path: .platform.kernel_params.unlock}}\n\
         data:\n  hardware_profile: general-server\n  primary_network: oam\n  \
         oob: {type: redfish, network: oob, account: admin}\n",
    );
    fixture.edit(
        "host-profiles.yaml",
        "intel_iommu: \"on\"}",
        "intel_iommu: \"on\", inst.rootpw: hunter2-root, nfs: \"http://u:hunter2-nfs@h.example/x\"}",
    );
    fixture
}

fn documents(password: &str) -> String {
    let passphrase = |name: &str, data: &str| {
        // Real sites have passphrases in clear text, which are secret all the same.
        let policy = match name {
            "kernel" => "cleartext",
            _ => "encrypted",
        };
        format!(
            "---\nschema: deckhand/Passphrase/v1\nmetadata:\n  name: {name}\n  schema: metadata/Document/v1\n  \
             storagePolicy: {policy}\n  layeringDefinition: {{layer: site, abstract: false}}\ndata: {data}\n"
        )
    };
    [
        passphrase("bmc", password),
        passphrase("kernel", &format!("{password}-kernel")),
        passphrase("unused", &format!("{password}-unused")),
    ]
    .concat()
}

#[track_caller]
fn unseen(what: &str, text: &str) {
    if let Some(at) = text.find(MARK) {
        let from = text[..at].rfind('\n').map_or(0, |line| line + 1);
        let line = text[from..].lines().next().unwrap_or_default();
        panic!("{what} shows a secret: {line}");
    }
}

/// Runs a command, whatever it ends with, and looks at what it printed, and at what it sent to a collector of traces.
#[track_caller]
fn run(fixture: &Fixture, arguments: &[&str]) -> Ended {
    let mut command = fixture.command(&[arguments, &["-vvv"]].concat());
    traced(&mut command);
    let ended: Ended = command.output().unwrap().into();
    COLLECTOR.with_borrow(|collector| {
        if let Some(collector) = collector {
            unseen("a span", &collector.bodies());
        }
    });
    let format = arguments.iter().position(|each| *each == "--format");
    let format = format.map(|at| arguments[at + 1].to_owned());
    RAN.with_borrow_mut(|ran| ran.insert((arguments[0].to_owned(), format)));
    let what = arguments.join(" ");
    unseen(&what, &ended.stdout);
    unseen(&what, &ended.stderr);
    assert!(
        !ended.stderr.contains("panicked"),
        "{what}: {}",
        ended.stderr
    );
    ended
}

/// Has the commands of this test send their spans to a collector.
fn with_traces() {
    COLLECTOR.replace(Some(Collector::start()));
}

/// Has a command send its spans to the collector of the test, which asks for a credential.
fn traced(command: &mut std::process::Command) {
    COLLECTOR.with_borrow(|collector| {
        let endpoint = collector.as_ref().map(Collector::endpoint);
        command.envs(endpoint.map(|endpoint| ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)));
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2-header");
    });
}

/// No span has a secret; `has_steps`: there are spans of steps.
fn spans_show_nothing(has_steps: bool) {
    let collector = COLLECTOR.take().unwrap();
    let credential = "authorization: hunter2-header";
    for head in collector.heads() {
        assert!(head.contains(credential), "{head}");
        let rest = head.replace(credential, "");
        unseen("a request to the collector", &rest);
    }
    unseen("a span", &collector.bodies());
    let spans = collector.spans();
    let has = |attribute| {
        let mut spans = spans.iter();
        spans.any(|span| span.attributes.contains_key(attribute))
    };
    assert!(has("process.exit.code"));
    assert!(has("trueup.step") || !has_steps);
}

/// Every command was run, and in every format that it has.
fn everything_was_run() {
    let ran = RAN.take();
    for command in trueup::cli::command().get_subcommands() {
        let name = command.get_name();
        if WITHOUT_A_SITE.contains(&name) {
            continue;
        }
        assert!(ran.iter().any(|(ran, _)| ran == name), "`{name}`");
        let format = command
            .get_arguments()
            .find(|argument| argument.get_long() == Some("format"));
        for value in format.into_iter().flat_map(clap::Arg::get_possible_values) {
            let wanted = (name.to_owned(), Some(value.get_name().to_owned()));
            assert!(ran.contains(&wanted), "{wanted:?}");
        }
    }
}

/// A plan of every action on a machine.
fn plan_every_action(fixture: &Fixture) {
    for action in Action::ALL
        .into_iter()
        .filter(|action| action.is_targeted())
    {
        let mut arguments = vec!["plan"];
        let (words, flags): (Vec<&str>, Vec<&str>) = action
            .as_str()
            .split(' ')
            .partition(|word| !word.starts_with('-'));
        arguments.extend(words);
        if action != Action::CheckEtcd {
            arguments.push("compute11");
        }
        arguments.extend(flags);
        if matches!(action, Action::Retire | Action::SetMaintenance) {
            arguments.extend(["--reason", "a fan"]);
        }
        let ended = run(fixture, &arguments);
        assert_ne!(ended.code, 64, "{arguments:?}: {}", ended.stderr);
    }
}

/// A rule that denies a plan by all that it is of.
fn judge(fixture: &Fixture) {
    let rule = "package main\nimport rego.v1\ndeny contains json.marshal(input)\n";
    fixture.checkout.write("policies/all.rego", rule);
    for format in ["text", "json"] {
        let judged = run(
            fixture,
            &["policy", "test", "saved.plan", "--format", format],
        );
        judged.with(4);
    }
    let folder = fixture.checkout.path().join("policies");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Brings what is committed to the site by a rollout.
fn roll_out(fixture: &Fixture) {
    let rollout = "---\nschema: trueup/Rollout/v1\nmetadata: {name: fleet}\ndata:\n  phases: [{rest: true}]\n";
    fixture.checkout.write("rollouts/fleet.yaml", rollout);
    fixture.checkout.commit("A rollout");
    for words in [
        &["plan", "fleet"][..],
        &["plan", "fleet", "--format", "json"],
        &["next", "fleet"],
        &["status", "fleet"],
        &["status", "fleet", "--format", "json"],
        &["explain", "fleet", "one-rack"],
        &["pause", "fleet", "--reason", "a storm"],
        &["resume", "fleet"],
        &["abort", "fleet", "--reason", "no more"],
    ] {
        let ended = run(fixture, &[&["rollout"], words].concat());
        assert!(
            ![1, 64].contains(&ended.code),
            "{words:?}: {}",
            ended.stderr
        );
    }
}

/// Writes the saved plan as a DAG.
fn export(fixture: &Fixture) {
    let folder = fixture.checkout.outside().join("dags");
    let out = folder.to_str().unwrap();
    run(fixture, &["export", "airflow", "saved.plan", "-o", out]).with(0);
    run(fixture, &["export", "airflow", "--all-sites", "-o", out]).with(0);
    run(
        fixture,
        &["export", "airflow", "--rollout", "fleet", "-o", out],
    )
    .with(0);
    assert_eq!(files_below(folder, &|_| false).len(), 4);
}

/// Signs the saved plan, by rules of another branch.
fn approve(fixture: &Fixture) {
    let (git, keys) = (
        |arguments: &[&str]| fixture.checkout.git(arguments),
        folder(),
    );
    let key = keys.path().join("key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f"])
        .arg(&key)
        .status();
    assert!(made.unwrap().success());
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    git(&["checkout", "--quiet", "-b", "rules"]);
    let policy = fixture.read("policy.yaml");
    let rules = "data:\n  approvals: {any: 1, allowed_signers: allowed_signers}\n";
    fixture
        .checkout
        .write("policy.yaml", policy.replacen("data:\n", rules, 1));
    fixture
        .checkout
        .write("allowed_signers", format!("ada@example.org {public}"));
    git(&["add", "policy.yaml", "allowed_signers"]);
    git(&["commit", "--quiet", "-m", "Rules"]);
    git(&["checkout", "--quiet", "main"]);
    let key = key.to_str().unwrap();
    let approve = ["approve", "saved.plan", "--yes", "--key", key];
    let rules = ["--backends-from", "refs/heads/rules"];
    run(fixture, &[&approve[..], &rules].concat()).with(0);
    let approvals = git(&["for-each-ref", "refs/trueup/one-rack/approvals"]);
    let commit = approvals.split(' ').next().unwrap();
    let statement = git(&["show", &format!("{commit}:approval")]);
    unseen("the approval", &statement);
}

/// Publishes a comment, for which there is no forge.
fn comment(fixture: &Fixture) {
    fixture.checkout.write("plan.md", "a plan");
    run(
        fixture,
        &["comment", "--on", "github", "--change", "1", "plan.md"],
    );
    std::fs::remove_file(fixture.checkout.path().join("plan.md")).unwrap();
}

/// Asks the service for everything, and has it act.
#[cfg(unix)]
fn serve(fixture: &Fixture) {
    let mut command = fixture.command(&["serve", "-v", "-vv"]);
    traced(&mut command);
    let mut service = super::serve::Service::spawn(&mut command);
    for path in [
        "/api/v1.0/etcd-cluster-health-statuses?design_ref=committed",
        "/api/v1/actions",
        "/metrics",
        "/nothing",
    ] {
        let answer = service.get(path);
        unseen(path, &(answer.head + &answer.body));
    }
    for operation in ["drain", "clear-labels", "remove-etcd", "decommission"] {
        let answer = service.post(&format!("/api/v1.0/nodes/compute11/{operation}"));
        unseen(operation, &(answer.head + &answer.body));
    }
    let log = service.log();
    unseen("the log of the service", &log);
    assert!(!log.contains("panicked"), "{log}");
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    RAN.with_borrow_mut(|ran| ran.insert(("serve".to_owned(), None)));
}

/// The formats of a plan.
const PLAN_FORMATS: [&str; 7] = [
    "text", "json", "markdown", "dot", "mermaid", "html", "gitlab",
];

/// Every command that reads a site, in every format.
fn read_in_every_way(fixture: &Fixture) {
    for format in ["text", "json", "github", "sarif", "junit", "codequality"] {
        run(fixture, &["validate", "--format", format]);
    }
    for format in ["yaml", "json"] {
        run(fixture, &["fmt", "--check", "--diff"]);
        let ended = run(fixture, &["render", "--format", format]);
        assert!(ended.code != 64, "{}", ended.stderr);
    }
    for format in PLAN_FORMATS {
        let ended = run(fixture, &["plan", "--full", "--steps", "--format", format]);
        assert!(ended.code != 64, "{}", ended.stderr);
        run(
            fixture,
            &["plan", "--allow-redeploy", "all", "--format", format],
        );
    }
    for format in ["text", "json", "html"] {
        run(fixture, &["diff", "--format", format]);
        run(fixture, &["diff", "--rendered", "--format", format]);
    }
    run(fixture, &["hardware", "learn", "compute11"]);
    run(fixture, &["console", "compute11"]);
    let listen = ["--listen", "127.0.0.1:0"];
    run(
        fixture,
        &[&["images", "serve", "none"][..], &listen].concat(),
    );
    for format in ["text", "json"] {
        run(fixture, &["nodes", "--format", format]);
        run(fixture, &["log", "--format", format]);
        run(fixture, &["status", "--format", format]);
        run(fixture, &["etcd", "--format", format]);
        run(fixture, &["doctor", "--format", format]);
        for word in [
            "compute11",
            "compute12",
            "rule-secret",
            "drydock/HostProfile.oob",
        ] {
            run(fixture, &["explain", word, "--format", format]);
        }
        run(fixture, &["nodes", "--clean-steps", "--format", format]);
        run(fixture, &["apply", "--format", format]);
        run(
            fixture,
            &["plan", "redeploy", "compute11", "--format", format],
        );
        run(
            fixture,
            &["plan", "remediate", "compute11", "--format", format],
        );
    }
    let bundle = run(fixture, &["bundle", "-o", "site.bundle"]);
    if bundle.code == 0 {
        unseen("the bundle", &fixture.read("site.bundle"));
    }
    run(fixture, &["replay", "site.bundle"]);
    let sandbox = folder();
    let sandbox = sandbox.path().join("sandbox");
    run(fixture, &["try", "new", sandbox.to_str().unwrap()]);
    let _ = std::fs::remove_file(fixture.checkout.path().join("site.bundle"));
    run(fixture, &["nodes", "--format", "names"]);
    for format in ["text", "json", "names"] {
        run(fixture, &["sites", "--format", format]);
    }
    // What was seen, and a plan that is made of it in the short way, from what is kept of the documents.
    run(fixture, &["adopt"]);
    run(fixture, &["plan", "--to", "HEAD"]);
    run(fixture, &["plan", "--save-observed", "seen.json"]);
    if fixture.checkout.path().join("seen.json").exists() {
        unseen("the snapshot", &fixture.read("seen.json"));
    }
    for _ in 0..2 {
        run(fixture, &["plan", "--observed", "seen.json"]);
        run(
            fixture,
            &["plan", "--observed", "seen.json", "--format", "json"],
        );
    }
    std::fs::remove_file(fixture.checkout.path().join("seen.json")).ok();
}

/// All files that trueup wrote, and every object of the records and tags. Returns the number of records' files.
fn look_at_what_was_left(fixture: &Fixture) -> usize {
    let is_design = |path: &Path| path == fixture.checkout.path();
    // Of the checkout only its own folder: the rest is the design, if the secrets are.
    for path in files_below(fixture.checkout.path().join(".git/trueup"), &|_| false)
        .into_iter()
        .chain(files_below(
            fixture.checkout.outside().to_owned(),
            &is_design,
        ))
    {
        let text = plain(std::fs::read(&path).unwrap());
        unseen(&path.display().to_string(), &text);
    }
    let refs = fixture.checkout.git(&[
        "for-each-ref",
        "--format=%(refname)",
        "refs/trueup",
        "refs/tags",
    ]);
    let mut blobs = 0;
    for name in refs.lines() {
        if name.starts_with("refs/tags/") {
            // The tag itself: what it points at is the design, if the secrets are.
            unseen(name, &fixture.checkout.git(&["cat-file", "tag", name]));
            continue;
        }
        let objects = fixture.checkout.git(&["rev-list", "--objects", name]);
        for line in objects.lines() {
            let id = line.split(' ').next().unwrap();
            if fixture.checkout.git(&["cat-file", "-t", id]).trim() == "blob" {
                blobs += 1;
                unseen(line, &content(fixture.checkout.path(), id));
            }
        }
    }
    blobs
}

/// The content of a blob, taken apart if it is compressed.
fn content(folder: &Path, id: &str) -> String {
    let output = std::process::Command::new("git")
        .args(["cat-file", "blob", id])
        .current_dir(folder)
        .output()
        .unwrap();
    plain(output.stdout)
}

/// Bytes as text, taken apart if they are compressed.
fn plain(bytes: Vec<u8>) -> String {
    let mut plain = Vec::new();
    let decoded = flate2::read::ZlibDecoder::new(&*bytes).read_to_end(&mut plain);
    let plain = if decoded.is_ok() { plain } else { bytes };
    String::from_utf8_lossy(&plain).into_owned()
}

/// The files below a folder, without those below folders that are left out.
fn files_below(folder: PathBuf, is_left_out: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if is_left_out(&path) => {}
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files
}

/// Shows the parts of the saved plan, and exports it.
fn divide(fixture: &Fixture) {
    for format in ["text", "json"] {
        run(fixture, &["run", "parts", "saved.plan", "--format", format]).with(0);
    }
    export(fixture);
}

#[test]
fn no_worker_shows_a_secret_and_none_leaves_one_behind() {
    with_traces();
    let fixture = site();
    fixture.checkout.commit("Secrets");
    run(&fixture, &["plan", "-o", "saved.plan"]).with(0);
    for format in ["text", "json"] {
        let begin = [
            "run",
            "begin",
            "saved.plan",
            "--run",
            "r",
            "--format",
            format,
        ];
        run(
            &fixture,
            &[&begin[..], &["--nodes-per-part", "50"]].concat(),
        )
        .with(0);
        run(&fixture, &["run", "status", "r", "--format", format]).with(0);
    }
    let status = run(&fixture, &["run", "status", "r", "--format", "json"]).json();
    for (number, part) in status["parts"].as_array().unwrap().iter().enumerate() {
        let format = ["text", "json"][number % 2];
        let part = part["part"].as_str().unwrap();
        run(&fixture, &["run", "part", "r", part, "--format", format]).with(0);
    }
    run(&fixture, &["run", "end", "r", "--format", "json"]).with(0);
    assert!(look_at_what_was_left(&fixture) > 2, "there are records");
    spans_show_nothing(true);
}

/// Runs commands that have nothing to act on.
fn fail(fixture: &Fixture, run_id: &str) {
    let ended = run(fixture, &["migrate"]);
    assert_ne!(ended.code, 0, "there is no remote");
    for command in ["abort", "unlock"] {
        let ended = run(fixture, &[command, run_id]);
        assert_ne!(ended.code, 0, "nothing was interrupted");
    }
}

#[test]
fn no_command_and_no_format_shows_a_secret_and_no_run_leaves_one_behind() {
    with_traces();
    let fixture = site();
    assert!(
        fixture
            .run(&["render", "--show-secrets"])
            .with(0)
            .stdout
            .contains(PASSWORD),
        "the marks are where they would be found"
    );
    read_in_every_way(&fixture);
    fixture.checkout.commit("Secrets");
    run(
        &fixture,
        &[
            "apply",
            "--yes",
            "--format",
            "json",
            "--allow-intermediate-commits",
        ],
    )
    .with(0);
    read_in_every_way(&fixture);

    // The secret changes behind its reference, and an image with it: only the image is shown.
    fixture
        .checkout
        .write("secrets.yaml", documents("hunter2-another"));
    fixture.edit("host-profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    read_in_every_way(&fixture);
    fixture.checkout.commit("Another password");
    let plan = run(
        &fixture,
        &[
            "plan",
            "--allow-redeploy",
            "all",
            "--skip-blocked",
            "-o",
            "saved.plan",
        ],
    );
    assert!(plan.stdout.contains("platform.image"), "{}", plan.stdout);
    unseen("the saved plan", &fixture.read("saved.plan"));
    run(&fixture, &["show", "saved.plan", "--format", "json"]).with(0);
    divide(&fixture);
    judge(&fixture);
    approve(&fixture);
    comment(&fixture);
    run(
        &fixture,
        &[
            "apply",
            "saved.plan",
            "--allow-redeploy",
            "all",
            "--skip-blocked",
        ],
    )
    .with(0);
    for action in [
        &["maintenance", "compute11", "--reason", "a fan"][..],
        &["maintenance", "compute11", "--unset"],
        &["redeploy", "compute11"],
        &["power", "off", "compute11"],
        &["power", "on", "compute11"],
        &["remediate", "compute11"],
    ] {
        run(
            &fixture,
            &[&["apply"], action, &["--yes", "--format", "json"]].concat(),
        );
    }
    let reserve = ["reserve", "compute11", "--until", "1h", "--reason", "fan"];
    run(&fixture, &reserve).with(0);
    run(&fixture, &["release", "compute11"]).with(0);
    let log = run(&fixture, &["log", "--format", "json"]).json();
    let last = log["runs"][0]["run"].as_str().map(str::to_owned);
    let run_id = last.expect("the log lists the runs");
    for format in PLAN_FORMATS {
        run(&fixture, &["show", &run_id, "--plan", "--format", format]).with(0);
    }
    run(&fixture, &["show", &run_id]).with(0);
    run(&fixture, &["show", &run_id, "--full"]).with(0);
    plan_every_action(&fixture);
    roll_out(&fixture);
    run(&fixture, &["accept", "compute11", "--identity", "--yes"]);
    for format in ["text", "json"] {
        run(&fixture, &["trust", "--list", "--format", format]).with(0);
    }
    fail(&fixture, &run_id);
    #[cfg(unix)]
    serve(&fixture);
    assert!(
        look_at_what_was_left(&fixture) > 2,
        "the records are there to be looked at"
    );
    everything_was_run();
    spans_show_nothing(true);
}

#[test]
fn a_secret_in_a_field_that_is_wrong_is_not_shown_with_its_error() {
    for (old, new) in [
        // Substituted into a field that wants a number, one that must be a reference, one that is a path.
        (".platform.kernel_params.unlock", ".interfaces.boot.slaves"),
        (
            ".platform.kernel_params.unlock",
            ".storage.physical_devices",
        ),
        (".oob.credential", ".oob.network"),
        (".oob.credential", ".oob.type"),
        (".oob.credential", ".primary_network"),
        (".oob.credential", ".hardware_profile"),
    ] {
        let fixture = site();
        fixture.edit("host-profiles.yaml", old, new);
        let ended = run(&fixture, &["validate"]);
        assert_ne!(ended.code, 0, "{new} is wrong now: {}", ended.stdout);
        for format in ["json", "github", "sarif", "junit", "codequality"] {
            run(&fixture, &["validate", "--format", format]);
        }
        run(&fixture, &["plan"]);
        run(&fixture, &["render"]);
    }
    // A line of a secret document that cannot be parsed, and one with a stray key.
    for broken in [
        "data: [hunter2-list",
        "data: hunter2-a\n  hunter2-b: c",
        "dta: hunter2-stray",
    ] {
        let fixture = site();
        let text =
            documents(PASSWORD).replace(&format!("data: {PASSWORD}\n"), &format!("{broken}\n"));
        fixture.checkout.write("secrets.yaml", text);
        let ended = run(&fixture, &["validate"]);
        assert_eq!(ended.code, 1, "{broken}");
    }
}

#[test]
fn a_credential_that_was_written_as_it_is_is_masked_like_any_secret() {
    let fixture = Fixture::one_rack();
    let literal = |name: &str| format!("hunter2-{name}");
    fixture.edit(
        "host-profiles.yaml",
        "oob: {type: redfish, network: oob, account: admin}",
        &format!(
            "oob: {{type: redfish, network: oob, account: admin, credential: {}}}",
            literal("credential")
        ),
    );
    fixture.checkout.write(
        "backends.yaml",
        format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: redfish\n    \
             redfish:\n      port: 1\n      credentials:\n        username: admin\n        password: {}\n",
            literal("password")
        ),
    );
    read_in_every_way(&fixture);
    fixture.checkout.commit("Literal credentials");
    fixture.edit("host-profiles.yaml", "hunter2-credential", "hunter2-other");
    read_in_every_way(&fixture);
    // Beside an error, in a text that is no YAML, below its key.
    for broken in [
        "password: hunter2: x",
        "password: [hunter2",
        "passwrd: 1\n        password: |\n          hunter2",
        "passwrd: 1, password: hunter2",
        "token: \"hunter2",
    ] {
        fixture.checkout.write(
            "backends.yaml",
            format!(
                "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: redfish\n    \
                 redfish:\n      credentials:\n        {broken}\n"
            ),
        );
        fixture.checkout.git(&["add", "."]);
        assert_eq!(run(&fixture, &["validate"]).code, 1, "{broken}");
        read_in_every_way(&fixture);
    }
}

#[test]
fn a_secret_is_no_label_tag_or_rack_of_a_node() {
    for to in [".metadata.owner_data.token", "'.metadata.tags[0]'"] {
        let fixture = site();
        fixture.edit("host-profiles.yaml", ".platform.kernel_params.unlock", to);
        let ended = run(&fixture, &["validate"]).with(1);
        assert!(
            ended.stdout.contains("rule-secret"),
            "{to}: {}",
            ended.stdout
        );
        read_in_every_way(&fixture);
    }
}

/// A cluster and a retirement, for secrets in their fields.
const MORE: &str = "---
schema: promenade/EtcdClusters/v1
metadata: {name: etcd-clusters}
data:
  clusters:
    - name: kubernetes-etcd
      members:
        - {node: control01, name: control01, peer_url: \"https://10.60.1.11:2380\", client_url: \"https://10.60.1.11:2379\"}
      credentials: {ca: {file: ca.pem}}
---
schema: trueup/NodeRetirement/v1
metadata: {name: retirement}
data:
  retirements: [{node_names: [compute11], reason: worn out}]
";

/// Where a secret is refused: the file, the name of the document, the field.
const EXPOSED: [(&str, &str, &str); 17] = [
    ("host-profiles.yaml", "compute", ".platform.image"),
    ("host-profiles.yaml", "compute", ".platform.kernel"),
    ("host-profiles.yaml", "compute", ".metadata.rack"),
    ("nodes/compute.yaml", "compute11", ".platform.image"),
    ("nodes/compute.yaml", "compute11", ".addressing[0].address"),
    ("nodes/compute.yaml", "compute11", ".host_profile"),
    ("nodes/compute.yaml", "compute11", ".metadata.boot_mac"),
    ("strategy.yaml", "deployment-strategy", ".groups[0].name"),
    (
        "strategy.yaml",
        "deployment-strategy",
        ".groups[0].depends_on[0]",
    ),
    ("more.yaml", "etcd-clusters", ".clusters[0].name"),
    ("more.yaml", "etcd-clusters", ".clusters[0].members[0].name"),
    (
        "more.yaml",
        "etcd-clusters",
        ".clusters[0].members[0].client_url",
    ),
    (
        "more.yaml",
        "etcd-clusters",
        ".clusters[0].credentials.ca.file",
    ),
    ("more.yaml", "retirement", ".retirements[0].reason"),
    ("policy.yaml", "policy", ".max_unavailable.by_tag.x"),
    (
        "backends.yaml",
        "backends",
        ".clusters.kubernetes.kubeconfig.file",
    ),
    ("backends.yaml", "backends", ".hardware.redfish.networks[0]"),
];

#[test]
fn a_secret_is_in_no_field_that_is_printed_recorded_or_a_name() {
    let fixture = site();
    fixture.checkout.write("more.yaml", MORE);
    fixture.checkout.git(&["add", "."]);
    fixture.checkout.git(&["commit", "-qm", "More documents"]);
    for (file, name, field) in EXPOSED {
        let plain = format!("metadata: {{name: {name}}}\n");
        let taking = format!(
            "metadata:\n  name: {name}\n  schema: metadata/Document/v1\n  storagePolicy: cleartext\n  \
             layeringDefinition: {{layer: site, abstract: false}}\n  substitutions:\n    \
             - {{src: {{schema: deckhand/Passphrase/v1, name: unused, path: .}}, dest: {{path: '{field}'}}}}\n"
        );
        let before = fixture.read(file);
        fixture.edit(file, &plain, &taking);
        let ended = run(&fixture, &["validate"]).with(1);
        assert!(
            ended.stdout.contains("rule-secret"),
            "{name} {field}: {}",
            ended.stdout
        );
        for arguments in [
            &["plan", "--format", "json"][..],
            &["plan", "--offline", "--observed", "none", "--steps"],
            &["nodes"],
            &["nodes", "--format", "json"],
            &["etcd", "--format", "json"],
            &["status", "--format", "json"],
            &["trust"],
        ] {
            run(&fixture, arguments);
        }
        fixture.checkout.write(file, before);
    }
}

#[test]
fn secrets_behind_references_are_never_shown_whatever_they_are_needed_for() {
    with_traces();
    let fixture = site();
    fixture.checkout.write("password", "hunter2-file\n");
    let references = [
        "{env: TRUEUP_TEST_PASSWORD}",
        "{file: password}",
        "{exec: [echo, hunter2-printed]}",
        "{exec: [sh, -c, 'echo hunter2-exec; exit 3']}",
        "{file: hidden/nowhere}",
    ];
    for reference in references {
        fixture.checkout.write(
            "backends.yaml",
            format!(
                "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: redfish\n    \
                 redfish:\n      networks: [127.0.0.0/8]\n      port: 1\n      credentials: {{username: admin, password: {reference}}}\n"
            ),
        );
        for arguments in [
            &["validate"][..],
            &["trust", "--yes"],
            &["plan"],
            &["plan", "--format", "json"],
            &["nodes", "--clean-steps"],
        ] {
            let mut command = fixture.command(&[arguments, &["-vvv"]].concat());
            command.env("TRUEUP_TEST_PASSWORD", "hunter2-environment");
            traced(&mut command);
            let ended: Ended = command.output().unwrap().into();
            // What the document itself says is in plain sight.
            let said = [ended.stdout, ended.stderr]
                .concat()
                .replace("echo hunter2-exec", "")
                .replace("[\"echo\",\"hunter2-printed\"]", "");
            unseen(&format!("{arguments:?} with {reference}"), &said);
        }
    }
    spans_show_nothing(false);
}

/// Answers every request of every connection with what it was sent: its credentials as they came, decoded, and
/// in the forms of other formats.
fn echo() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut bytes = [0; 8192];
            let read = stream.read(&mut bytes).unwrap_or(0);
            let request = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let (status, body) = echoed(&request);
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: ");
            let answer = format!("{head}{}\r\nconnection: close\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

/// A Redfish system whose every text is what was sent, or a refusal in the form that the path's service has.
fn echoed(request: &str) -> (&'static str, String) {
    let header = request.lines().find_map(|line| {
        line.split_once(':')
            .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    });
    let sent = header.map_or("", |(_, value)| value.trim());
    let carried = sent.rsplit(' ').next().unwrap_or_default();
    let decoded = data_encoding::BASE64
        .decode(carried.as_bytes())
        .unwrap_or_default();
    let decoded = String::from_utf8_lossy(&decoded).into_owned();
    let password = decoded
        .split_once(':')
        .map_or(carried, |(_, password)| password);
    let escaped = password.replace('/', "%2F").replace('ü', "%C3%BC");
    let encoded = data_encoding::BASE64.encode(password.as_bytes());
    let hex = data_encoding::HEXLOWER.encode(password.as_bytes());
    let words = format!("{sent} | {decoded} | {password} | {encoded} | {escaped} | {hex}");
    let path = request.split(' ').nth(1).unwrap_or_default();
    let body = match path.trim_end_matches('/') {
        "/redfish/v1" => serde_json::json!({
            "@odata.id": "/redfish/v1/", "RedfishVersion": "1.6.0", "Name": words,
            "Systems": {"@odata.id": "/redfish/v1/Systems"}
        }),
        "/redfish/v1/Systems" => serde_json::json!({
            "@odata.id": path, "Members": [{"@odata.id": "/redfish/v1/Systems/1"}]
        }),
        "/redfish/v1/Systems/1" => serde_json::json!({
            "@odata.id": path, "Id": password, "UUID": password, "SerialNumber": carried, "SKU": words,
            "Model": words, "Manufacturer": words, "PowerState": "On", "BiosVersion": password,
            "Status": {"State": words, "Health": words}, "Boot": {"BootSourceOverrideTarget": words}
        }),
        _ => {
            let body = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": password, "code": 403,
                "message": words, "error": {"code": "Base.1.0.GeneralError", "message": words},
            });
            return ("403 Forbidden", body.to_string());
        }
    };
    ("200 OK", body.to_string())
}

/// An `ipmitool` that prints its password wherever a controller could have it.
const IPMITOOL: &str = r#"#!/bin/sh
encoded=$(printf %s "$IPMI_PASSWORD" | base64)
case "$*" in
-V) echo 'ipmitool version 1.8.19' ;;
*'raw 0x06 0x37') echo 'Invalid command' >&2; exit 1 ;;
*'fru print 0') echo " Product Serial        : $IPMI_PASSWORD"; echo " Product Name : $encoded" ;;
*' power status') echo 'Chassis Power is on' ;;
*' mc info') echo "IPMI Version : 2.0 $IPMI_PASSWORD" ;;
*) echo "denied $IPMI_PASSWORD $encoded"; echo "denied $IPMI_PASSWORD $encoded admin:$IPMI_PASSWORD" >&2; exit 1 ;;
esac
"#;

#[test]
fn what_a_service_repeats_of_its_credentials_is_not_shown() {
    with_traces();
    let port = echo();
    let fixture = Fixture::one_rack();
    fixture.on_loopback();
    let tools = fixture.checkout.outside().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let ipmitool = tools.join("ipmitool");
    std::fs::write(&ipmitool, IPMITOOL).unwrap();
    std::fs::set_permissions(&ipmitool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let kubeconfig = |user: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
             contexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        )
    };
    let hardware = [
        format!(
            "redfish\n    redfish: {{port: {port}, scheme: http, networks: [127.0.0.0/8], CREDENTIALS}}\n"
        ),
        "ipmi\n    ipmi: {networks: [127.0.0.0/8], CREDENTIALS}\n".to_owned(),
        format!(
            "ironic\n    ironic: {{endpoint: 'http://127.0.0.1:{port}', networks: [127.0.0.0/8], CREDENTIALS}}\n"
        ),
    ];
    let users = [
        "{token: hunter2-token}",
        "{username: admin, password: hunter2-basic}",
    ];
    for (kind, user) in hardware.iter().zip(users.iter().cycle()) {
        let kind = kind.replace(
            "CREDENTIALS",
            "credentials: {username: root, password: {env: TRUEUP_TEST_PASSWORD}}",
        );
        fixture.checkout.write("kubeconfig", kubeconfig(user));
        fixture.checkout.write(
            "backends.yaml",
            format!(
                "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: {kind}  \
                 clusters: {{kubernetes: {{kubeconfig: {{file: kubeconfig}}}}}}\n"
            ),
        );
        fixture.checkout.commit("Another service");
        run(&fixture, &["trust", "--yes"]).with(0);
        for arguments in [
            &["status"][..],
            &["status", "--format", "json"],
            &["plan", "--save-observed", "observed.json"],
            &["plan", "--format", "json"],
            &["nodes", "--clean-steps"],
            &[
                "apply",
                "--yes",
                "--adopt",
                "all",
                "--allow-intermediate-commits",
                "--allow-unverified",
                "all",
            ],
        ] {
            let mut command = fixture.command(&[arguments, &["-vvv"]].concat());
            command
                .env("TRUEUP_TEST_PASSWORD", "hunter2-sent/ü")
                .env("PATH", &path);
            traced(&mut command);
            let ended: Ended = command.output().unwrap().into();
            let said = [ended.stdout, ended.stderr].concat();
            unseen(&format!("{arguments:?} with {kind}"), &said);
        }
        unseen("the file of observations", &fixture.read("observed.json"));
        look_at_what_was_left(&fixture);
    }
    spans_show_nothing(false);
}

/// The digests of sections in all that was ever recorded.
fn recorded_digests(fixture: &Fixture) -> BTreeSet<String> {
    let git = |arguments: &[&str]| fixture.checkout.git(arguments);
    let listed = git(&["rev-list", "--objects", "--glob=refs/trueup/*"]);
    let ids = listed.lines().filter_map(|line| line.split(' ').next());
    let digest = regex::Regex::new("\"[a-z-]+\": ?\"[0-9a-f]{64}\"").unwrap();
    let sections = trueup::design::Section::ALL.map(|section| format!("\"{section}\":"));
    let mut found = BTreeSet::new();
    for id in ids {
        if git(&["cat-file", "-t", id]).trim() != "blob" {
            continue;
        }
        let text = git(&["cat-file", "blob", id]);
        let digests = digest.find_iter(&text).map(|found| found.as_str());
        let of_sections = digests.filter(|text| sections.iter().any(|name| text.starts_with(name)));
        found.extend(of_sections.map(str::to_owned));
    }
    found
}

#[test]
fn no_digest_in_a_record_or_plan_depends_on_the_value_of_a_secret() {
    let recorded = |password: &str| {
        let fixture = site();
        fixture.checkout.write("secrets.yaml", documents(password));
        fixture.commit_and_apply("Site", &[]).with(0);
        recorded_digests(&fixture)
    };
    let digests = recorded(PASSWORD);
    let of = |section: &str| digests.iter().any(|text| text.contains(section));
    assert!(of("out-of-band") && of("operating-system"), "{digests:?}");
    assert_eq!(digests, recorded("hunter2-of-tomorrow"));
}

#[test]
fn a_secret_that_is_rotated_under_its_reference_changes_nothing() {
    let fixture = site();
    fixture.checkout.commit("Site");
    let effect = || {
        let plan = fixture.run(&["plan", "--format", "json"]);
        plan.with(0).json()["effect"].clone()
    };
    let rotate = |password: &str| {
        fixture.checkout.write("secrets.yaml", documents(password));
        fixture.checkout.git(&["commit", "-qam", "Rotate"]);
    };
    let before = effect();
    rotate("hunter2-of-today");
    assert_eq!(effect(), before);
    fixture.run(&["apply", "--yes"]).with(0);
    rotate("hunter2-of-tomorrow");
    assert!(fixture.planned(&[]).is_empty());
    // Another reference is a change.
    fixture.edit(
        "host-profiles.yaml",
        "name: kernel, path: .}",
        "name: unused, path: .}",
    );
    let planned = fixture.planned(&[]);
    assert!(!planned.is_empty());
    assert!(
        planned.values().all(|kind| kind == "redeploy"),
        "{planned:?}"
    );
}

/// A boot action with a secret that is written in it.
fn inline(secret: &str) -> String {
    format!(
        "---\nschema: drydock/BootAction/v1\nmetadata:\n  name: join\n  schema: metadata/Document/v1\n  \
         storagePolicy: encrypted\n  layeringDefinition: {{layer: site, abstract: false}}\ndata:\n  signaling: false\n  \
         assets:\n    - {{path: /etc/join, type: file, permissions: '600', data_pipeline: [utf8_decode], data: {secret}}}\n"
    )
}

#[test]
fn an_edit_beside_a_secret_redeploys_nothing_and_an_edit_of_it_does() {
    let fixture = site();
    let write = |text: String| {
        fixture.checkout.write("join.yaml", text);
        fixture.checkout.git(&["add", "--all"]);
        fixture.checkout.git(&["commit", "-qm", "Edit"]);
    };
    write(inline("hunter2-token"));
    fixture.run(&["apply", "--yes"]).with(0);
    write(format!("# A token.\n{}", inline("hunter2-token")));
    let planned = fixture.planned(&[]);
    assert!(!planned.is_empty());
    assert!(planned.values().all(|kind| kind == "record"), "{planned:?}");
    fixture.run(&["apply", "--yes"]).with(0);
    assert!(fixture.planned(&[]).is_empty());
    write(inline("hunter2-other"));
    let planned = fixture.planned(&[]);
    assert!(
        planned.values().all(|kind| kind == "redeploy"),
        "{planned:?}"
    );
    assert!(!planned.is_empty());
}
