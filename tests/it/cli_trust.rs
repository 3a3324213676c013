//! `trueup trust`, and what is not contacted, run or read before it: a stand-in for a controller listens,
//! programs leave a trace if they run.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::fixture::{Ended, Fixture};

use crate::folder::folder;

/// A listener that has the root of a Redfish service and nothing below it, and notes what it was sent.
pub(super) struct Controller {
    pub(super) port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Controller {
    pub(super) fn start() -> Self {
        Self::with_headers(String::new)
    }

    /// One that sends more headers, each with its line end.
    pub(super) fn with_headers(headers: impl Fn() -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = heard.clone();
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let at = stream.local_addr().unwrap().ip();
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).unwrap_or(0);
                let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                let root =
                    r#"{"@odata.id":"/redfish/v1/","Systems":{"@odata.id":"/redfish/v1/Systems"}}"#;
                let (status, body) = match text.starts_with("GET /redfish/v1/ ") {
                    true => ("200 OK", root),
                    false => ("503 Service Unavailable", ""),
                };
                notes.lock().unwrap().push(format!("{at} {text}"));
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{}connection: close\r\n\r\n{body}",
                    body.len(),
                    headers()
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, heard }
    }

    pub(super) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// A site whose controllers are on loopback, moved by plain Redfish with these settings.
pub(super) fn site(settings: &str) -> Fixture {
    let fixture = Fixture::one_rack();
    fixture.on_loopback();
    backends(&fixture, settings, "");
    fixture.checkout.commit("Real machines");
    fixture
}

pub(super) fn backends(fixture: &Fixture, settings: &str, more: &str) {
    fixture.checkout.write(
        "backends.yaml",
        format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: redfish\n    \
             redfish: {{{settings}}}\n{more}"
        ),
    );
}

pub(super) fn with(fixture: &Fixture, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = fixture.command(arguments);
    command.envs(variables.iter().copied());
    command.output().unwrap().into()
}

/// The commands that contact backends.
const CONTACTING: [&[&str]; 5] = [
    &["plan"],
    &["plan", "power", "off", "compute11"],
    &["status"],
    &["nodes", "--clean-steps"],
    &["apply", "--yes"],
];

/// The commands that never do.
const SAFE: [&[&str]; 6] = [
    &["validate"],
    &["render"],
    &["diff"],
    &["nodes"],
    &["plan", "--observed", "none"],
    &["status", "--observed", "none", "--offline"],
];

#[test]
fn nothing_is_run_read_or_contacted_before_it_is_trusted() {
    let controller = Controller::start();
    let trace = folder();
    let trace = trace.path().join("ran");
    let script = format!("touch {}; echo hunter2", trace.display());
    let fixture = site(&format!(
        "networks: [127.0.0.0/8], scheme: http, port: {}, credentials: {{username: admin, password: {{exec: [sh, -c, '{script}']}}}}",
        controller.port
    ));
    for arguments in CONTACTING {
        let ended = fixture.run(arguments).with(4);
        assert!(
            ended.stderr.contains("that are not trusted: ")
                && ended
                    .stderr
                    .contains("hardware.redfish.credentials.password: program [\"sh\",\"-c\",")
                && ended.stderr.contains("`trueup trust`")
                && ended.stderr.contains("--backends-from"),
            "{arguments:?}: {}",
            ended.stderr
        );
        // What a saved or supplied observation is for.
        assert!(ended.stdout.is_empty(), "{arguments:?}: {}", ended.stdout);
    }
    for arguments in SAFE {
        fixture.run(arguments).with(0);
    }
    assert!(!trace.exists(), "a program was run");
    assert_eq!(controller.heard(), Vec::<String>::new());

    fixture.run(&["trust"]).with(4);
    fixture.run(&["plan"]).with(4);
    assert!(!trace.exists(), "`trust` ran a program");
    let ended = fixture.run(&["trust", "--yes"]).with(0);
    assert!(
        ended
            .stdout
            .contains("hardware.redfish.networks: 127.0.0.0/8"),
        "{}",
        ended.stdout
    );
    assert!(!trace.exists(), "`trust` ran a program");
    fixture.run(&["status"]).with(0);
    assert!(trace.exists(), "the program is trusted now");
    let heard = controller.heard();
    assert!(
        heard.iter().any(|text| text.contains("GET /redfish/v1/")),
        "{heard:?}"
    );

    let listed = fixture
        .run(&["trust", "--list", "--format", "json"])
        .with(0)
        .json();
    assert_eq!(listed[0]["site"], "one-rack");
    fixture.run(&["trust", "--revoke"]).with(0);
    fixture.run(&["status"]).with(4);
}

#[test]
fn trust_is_asked_for_again_where_the_reach_changes_and_only_there() {
    let controller = Controller::start();
    let base = format!("scheme: http, port: {}", controller.port);
    let account = "credentials: {username: admin, password: {env: BMC_PASSWORD}}";
    let fixture = site(&format!("networks: [127.0.0.0/8], {base}, {account}"));
    fixture.run(&["trust", "--yes"]).with(0);
    // A rotated password, another waiting time, another node: nothing new is reached.
    let password = [("BMC_PASSWORD", "one")];
    with(&fixture, &["status"], &password).with(0);
    with(&fixture, &["status"], &[("BMC_PASSWORD", "other")]).with(0);
    backends(
        &fixture,
        &format!("networks: [127.0.0.0/8], {base}, request_timeout: 7, {account}"),
        "",
    );
    with(&fixture, &["status"], &password).with(0);

    for (settings, more, named) in [
        (
            format!(
                "networks: [127.0.0.0/8], {base}, credentials: {{username: admin, password: {{env: GITHUB_TOKEN}}}}"
            ),
            "",
            "hardware.redfish.credentials.password: environment variable GITHUB_TOKEN",
        ),
        (
            format!("networks: [127.0.0.0/8, 192.0.2.0/24], {base}, {account}"),
            "",
            "hardware.redfish.networks: 192.0.2.0/24",
        ),
        (
            format!("{base}, {account}"),
            "",
            "less than was trusted before",
        ),
        (
            format!("networks: [127.0.0.0/8], {base}, verify: false, {account}"),
            "",
            "hardware.redfish.verify: false",
        ),
        (
            format!("networks: [127.0.0.0/8], {base}, {account}"),
            "  allow_plain_http: true\n",
            "allow_plain_http: true",
        ),
        (
            format!("networks: [127.0.0.0/8], {base}, {account}"),
            "  clusters: {kubernetes: {kubeconfig: {file: /etc/passwd}}}\n",
            "clusters.kubernetes.kubeconfig: file /etc/passwd",
        ),
    ] {
        backends(&fixture, &settings, more);
        let ended = with(&fixture, &["status"], &password).with(4);
        assert!(ended.stderr.contains(named), "{named}: {}", ended.stderr);
        assert!(
            !ended.stderr.contains("BMC_PASSWORD"),
            "it is known: {}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("root:"), "{}", ended.stderr);
    }
}

#[test]
fn the_trust_file_is_outside_of_the_checkout_and_a_broken_one_trusts_nothing() {
    let fixture = site("networks: [127.0.0.0/8], port: 1");
    let inside = fixture.checkout.path().join("trust.json");
    for inside in [inside.to_str().unwrap(), "trust.json"] {
        let ended = with(
            &fixture,
            &["trust", "--yes"],
            &[("TRUEUP_TRUST_FILE", inside)],
        )
        .with(1);
        assert!(
            ended.stderr.contains("lies in the checkout"),
            "{}",
            ended.stderr
        );
        let ended = with(&fixture, &["status"], &[("TRUEUP_TRUST_FILE", inside)]).with(4);
        assert!(
            ended.stderr.contains("lies in the checkout"),
            "{}",
            ended.stderr
        );
    }
    // A folder that leads into the checkout is inside, too.
    let link = fixture.checkout.outside().join("link");
    std::os::unix::fs::symlink(fixture.checkout.path(), &link).unwrap();
    let through = link.join("trust.json");
    let variables = [("TRUEUP_TRUST_FILE", through.to_str().unwrap())];
    with(&fixture, &["trust", "--yes"], &variables).with(1);

    let outside = fixture.checkout.outside().join("mine.json");
    let variables = [("TRUEUP_TRUST_FILE", outside.to_str().unwrap())];
    with(&fixture, &["trust", "--yes"], &variables).with(0);
    with(&fixture, &["status"], &variables).with(0);
    fixture.run(&["status"]).with(4);
    let mode = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&outside, mode).unwrap();
    };
    mode(0o666);
    let ended = with(&fixture, &["status"], &variables).with(4);
    assert!(
        ended.stderr.contains("it is writable for all users"),
        "{}",
        ended.stderr
    );
    mode(0o644);
    with(&fixture, &["status"], &variables).with(0);
    for broken in ["", "{}", "{\"version\":2,\"trusted\":[]}", "[]"] {
        std::fs::write(&outside, broken).unwrap();
        let ended = with(&fixture, &["status"], &variables).with(4);
        assert!(
            ended.stderr.contains("cannot be used"),
            "{broken}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_controller_outside_the_ranges_is_not_contacted_and_the_others_are() {
    let controller = Controller::start();
    let fixture = site(&format!(
        "networks: [127.20.0.11/32], scheme: http, port: {}, credentials: {{username: admin, password: {{env: BMC_PASSWORD}}}}",
        controller.port
    ));
    fixture.run(&["trust", "--yes"]).with(0);
    let ended = with(
        &fixture,
        &["plan", "--full"],
        &[("BMC_PASSWORD", "hunter2")],
    )
    .with(0);
    assert!(
        ended
            .stdout
            .contains("lies outside `hardware.redfish.networks`")
            && ended.stdout.contains("add `127.20.0.12/32`"),
        "{}",
        ended.stdout
    );
    let heard = controller.heard();
    assert!(!heard.is_empty());
    assert!(
        heard.iter().all(|text| text.starts_with("127.20.0.11 ")),
        "{heard:?}"
    );

    // Without ranges only addresses that were applied before; none was.
    let heard = controller.heard().len();
    backends(
        &fixture,
        &format!(
            "scheme: http, port: {}, credentials: {{username: admin, password: {{env: BMC_PASSWORD}}}}",
            controller.port
        ),
        "",
    );
    fixture.run(&["trust", "--yes"]).with(0);
    let ended = with(
        &fixture,
        &["plan", "--full"],
        &[("BMC_PASSWORD", "hunter2")],
    )
    .with(0);
    assert!(
        ended
            .stdout
            .contains("is not in the design that was applied last")
            && ended
                .stdout
                .contains("`hardware.redfish.networks: [127.20.0.0/24]`"),
        "{}",
        ended.stdout
    );
    assert_eq!(controller.heard().len(), heard);
}

#[test]
fn a_password_does_not_go_over_plain_http_beyond_this_machine() {
    let fixture = Fixture::one_rack();
    let settings = "networks: [10.20.0.0/24], scheme: http, port: 1, credentials: {username: admin, password: {env: BMC_PASSWORD}}";
    backends(&fixture, settings, "");
    fixture.checkout.commit("Real machines");
    fixture.run(&["trust", "--yes"]).with(0);
    let ended = with(
        &fixture,
        &["plan", "--full"],
        &[("BMC_PASSWORD", "hunter2")],
    )
    .with(0);
    assert!(
        ended.stdout.contains("are not sent over plain HTTP")
            && ended.stdout.contains("allow_plain_http: true"),
        "{}",
        ended.stdout
    );
    // A proxy beyond it reads a token, wherever the server is.
    let through = kubeconfig(1, "{token: hunter2-token}");
    let through = through.replace("{server:", "{proxy-url: 'http://192.0.2.2:1', server:");
    fixture.checkout.write("kubeconfig", through);
    let cluster = "  clusters: {kubernetes: {kubeconfig: {file: kubeconfig}}}\n";
    backends(&fixture, "networks: [10.20.0.0/24], port: 1", cluster);
    fixture.run(&["trust", "--yes"]).with(0);
    let ended = fixture.run(&["status", "--format", "json"]).with(0);
    assert!(
        ended.stdout.contains("not sent over plain HTTP"),
        "{}",
        ended.stdout
    );
    // Allowed by the document, every plan says it first.
    fixture.on_loopback();
    backends(
        &fixture,
        &settings.replace("10.20.0.0", "127.20.0.0"),
        "  allow_plain_http: true\n",
    );
    let ended = fixture.run(&["plan", "--observed", "none"]).with(0);
    let second = ended.stdout.lines().nth(1).unwrap_or_default();
    assert!(
        second.starts_with("warning: credentials may be sent over plain HTTP"),
        "{}",
        ended.stdout
    );
    let markdown = fixture
        .run(&["plan", "--observed", "none", "--format", "markdown"])
        .with(0);
    assert!(
        markdown
            .stdout
            .contains("> **Warning:** credentials may be sent"),
        "{}",
        markdown.stdout
    );
}

#[test]
fn guards_from_a_protected_revision_count_whatever_a_change_says() {
    let controller = Controller::start();
    let settings = format!(
        "networks: [127.0.0.0/8], scheme: http, port: {}, credentials: {{username: admin, password: {{env: BMC_PASSWORD}}}}",
        controller.port
    );
    let fixture = site(&settings);
    let git = |arguments: &[&str]| fixture.checkout.git(arguments);
    git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    // The change: a program for a password, and a policy that protects nothing.
    let trace = fixture.checkout.outside().join("ran");
    backends(
        &fixture,
        &settings.replace(
            "{env: BMC_PASSWORD}",
            &format!("{{exec: [touch, {}]}}", trace.display()),
        ),
        "",
    );
    fixture.checkout.write(
        "policy.yaml",
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {}\n",
    );
    fixture.checkout.commit("Change the guards");
    // Names that could stand before the branch that is meant.
    git(&["tag", "origin/main"]);
    git(&["branch", "protected"]);
    git(&["tag", "refs/remotes/origin/main"]);

    let password = [("BMC_PASSWORD", "hunter2")];
    with(&fixture, &["plan"], &password).with(4);
    let ended = with(
        &fixture,
        &["plan", "--backends-from", "origin/main"],
        &password,
    )
    .with(0);
    assert!(
        ended.stdout.lines().nth(1).unwrap_or_default().starts_with(
            "warning: this revision changes documents that guard the site: trueup/Backends/v1 `backends`, trueup/Policy/v1 `"
        ),
        "{}",
        ended.stdout
    );
    assert!(!trace.exists(), "the program of the change was run");
    assert!(!controller.heard().is_empty());
    // A pipeline checks the protected branch out, and plans the change beside it.
    git(&["branch", "change"]);
    git(&["switch", "--quiet", "--detach", "protected~"]);
    let beside = [
        "plan",
        "--rev",
        "refs/heads/change",
        "--backends-from",
        "origin/main",
    ];
    let ended = with(&fixture, &beside, &password).with(0);
    assert!(
        ended.stdout.contains(
            "this revision changes documents that guard the site: trueup/Backends/v1 `backends`"
        ),
        "{}",
        ended.stdout
    );
    git(&["switch", "--quiet", "change"]);
    let variables = [
        password[0],
        ("TRUEUP_BACKENDS_FROM", "refs/remotes/origin/main"),
    ];
    with(&fixture, &["status"], &variables).with(0);
    let commit = git(&["rev-parse", "HEAD~"]);
    with(
        &fixture,
        &["status", "--backends-from", commit.trim()],
        &password,
    )
    .with(0);
    for unknown in [
        "protected",
        "main",
        "HEAD",
        "origin/nowhere",
        "refs/remotes/origin/main^",
        "HEAD~1",
    ] {
        let ended = with(&fixture, &["plan", "--backends-from", unknown], &password).with(1);
        assert!(
            ended.stderr.contains("--backends-from"),
            "{unknown}: {}",
            ended.stderr
        );
    }
    assert!(!trace.exists());
}

#[test]
fn files_of_the_checkout_come_from_the_protected_revision() {
    let controller = Controller::start();
    let settings = format!(
        "networks: [127.0.0.0/8], scheme: http, port: {}, credentials: {{username: admin, password: {{file: bmc-password}}}}",
        controller.port
    );
    let fixture = site(&settings);
    fixture.checkout.write("bmc-password", "from-main\n");
    fixture.checkout.commit("A password");
    fixture
        .checkout
        .git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    fixture
        .checkout
        .write("bmc-password", "hunter2-of-the-change\n");
    fixture.checkout.commit("Another password");
    let ended = fixture
        .run(&["status", "--backends-from", "origin/main"])
        .with(0);
    assert!(!format!("{ended:?}").contains("hunter2"));
    // `admin:from-main` and `admin:hunter2…`, by HTTP Basic.
    let heard = controller.heard().concat();
    assert!(
        heard.to_lowercase().contains("basic ywrtaw46znjvbs1tywlu"),
        "{heard}"
    );
    assert!(!heard.contains("YWRtaW46aHVudGVyMi"), "{heard}");
    // A file that the protected revision does not have is not taken from the change.
    fixture
        .checkout
        .git(&["update-ref", "refs/remotes/origin/main", "HEAD~2"]);
    let count = controller.heard().len();
    backends(&fixture, &settings, "");
    let ended = fixture
        .run(&["plan", "--full", "--backends-from", "origin/main"])
        .with(0);
    assert!(
        ended
            .stdout
            .contains("the trusted revision does not have it"),
        "{}",
        ended.stdout
    );
    let later = controller.heard();
    assert!(
        later[count..]
            .iter()
            .all(|text| !text.to_lowercase().contains("authorization")),
        "{later:?}"
    );
}

const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
    contexts: [{name: here, context: {cluster: c, user: u}}]\n\
    clusters: [{name: c, cluster: {server: 'SERVER'}}]\nusers: [{name: u, user: USER}]\n";

pub(super) fn kubeconfig(port: u16, user: &str) -> String {
    let server = format!("http://127.0.0.1:{port}");
    KUBECONFIG.replace("SERVER", &server).replace("USER", user)
}

#[test]
fn a_kubeconfig_is_trusted_for_where_it_leads_and_its_tokens_may_be_rotated() {
    let controller = Controller::start();
    let fixture = site("networks: [127.0.0.0/8], port: 1");
    backends(
        &fixture,
        "networks: [127.0.0.0/8], port: 1",
        "  clusters: {kubernetes: {kubeconfig: {file: kubeconfig}}}\n",
    );
    let write = |user: &str| {
        fixture
            .checkout
            .write("kubeconfig", kubeconfig(controller.port, user));
    };
    write("{token: hunter2-one}");
    fixture.run(&["status"]).with(4);
    let ended = fixture.run(&["trust", "--yes"]).with(0);
    assert!(
        ended
            .stdout
            .contains("clusters.kubernetes.kubeconfig → cluster.server: http://127.0.0.1:"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    fixture.run(&["status"]).with(0);
    assert!(controller.heard().concat().contains("hunter2-one"));
    write("{token: hunter2-other}");
    fixture.run(&["status"]).with(0);
    assert!(controller.heard().concat().contains("hunter2-other"));

    let heard = controller.heard().len();
    let trace = fixture.checkout.outside().join("ran");
    for (user, named) in [
        (
            format!(
                "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: [{}], interactiveMode: Never}}}}",
                trace.display()
            ),
            "user.exec.command: touch",
        ),
        (
            "{tokenFile: /etc/hostname}".to_owned(),
            "user.tokenFile: /etc/hostname",
        ),
    ] {
        write(&user);
        let ended = fixture.run(&["status"]).with(4);
        assert!(ended.stderr.contains(named), "{named}: {}", ended.stderr);
    }
    // What Kubernetes has removed is refused, trusted or not: it runs a program, too.
    write("{auth-provider: {name: gcp, config: {cmd-path: /bin/sh}}}");
    let ended = fixture.run(&["status", "--format", "json"]).with(0);
    assert!(ended.stdout.contains("auth-provider"), "{}", ended.stdout);
    fixture
        .checkout
        .write("kubeconfig", kubeconfig(controller.port + 1, "{token: x}"));
    fixture.run(&["status"]).with(4);
    assert_eq!(controller.heard().len(), heard);
    assert!(!trace.exists());
}

#[test]
fn a_program_of_a_kubeconfig_that_lies_in_the_checkout_is_not_run() {
    let controller = Controller::start();
    let fixture = site("networks: [127.0.0.0/8], port: 1");
    backends(
        &fixture,
        "networks: [127.0.0.0/8], port: 1",
        "  clusters: {kubernetes: {kubeconfig: {file: kubeconfig}}}\n",
    );
    let trace = fixture.checkout.outside().join("ran");
    fixture
        .checkout
        .write("login", format!("#!/bin/sh\ntouch {}\n", trace.display()));
    let login = fixture.checkout.path().join("login");
    std::fs::set_permissions(&login, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (command, argument) in [
        ("./login", "x"),
        (login.to_str().unwrap(), "x"),
        ("sh", "login"),
    ] {
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}, args: [{argument}], interactiveMode: Never}}}}"
        );
        fixture
            .checkout
            .write("kubeconfig", kubeconfig(controller.port, &user));
        fixture.run(&["trust", "--yes"]).with(0);
        fixture.run(&["status"]);
        assert!(!trace.exists(), "{command} {argument} was run");
    }
    assert_eq!(controller.heard(), Vec::<String>::new());
}

#[test]
fn the_content_of_what_is_no_kubeconfig_is_not_quoted() {
    let controller = Controller::start();
    let fixture = site("networks: [127.0.0.0/8], port: 1");
    let secret = fixture.checkout.outside().join("secret");
    std::fs::write(&secret, "hunter2-file: [\nhunter2: x: y\n").unwrap();
    for reference in [
        "{env: PIPELINE_TOKEN}".to_owned(),
        format!("{{file: {}}}", secret.display()),
        "{file: ../../../../../../etc/passwd}".to_owned(),
        "{file: /dev/zero}".to_owned(),
        format!("{{exec: [cat, {}]}}", secret.display()),
    ] {
        backends(
            &fixture,
            "networks: [127.0.0.0/8], port: 1",
            &format!("  clusters: {{kubernetes: {{kubeconfig: {reference}}}}}\n"),
        );
        let variables = [("PIPELINE_TOKEN", "hunter2-token: [\n  x")];
        let is_quiet = |arguments: &[&str]| {
            let ended = with(&fixture, &[arguments, &["-vvv"]].concat(), &variables);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(
                !said.contains("hunter2") && !said.contains("root:x"),
                "{reference}: {said}"
            );
            assert!(!said.contains("panicked"), "{said}");
        };
        is_quiet(&["trust", "--yes"]);
        // At the same time: each waits for controllers that do not answer.
        std::thread::scope(|scope| {
            for arguments in [&["status"][..], &["plan"], &["drain", "x"]] {
                scope.spawn(move || is_quiet(arguments));
            }
        });
    }
    assert_eq!(controller.heard(), Vec::<String>::new());
}

/// A program in a folder of its own that writes its environment to a file and then does `then`.
fn spy(fixture: &Fixture, name: &str, then: &str) -> (PathBuf, PathBuf) {
    let folder = fixture.checkout.outside().join("spies");
    std::fs::create_dir_all(&folder).unwrap();
    let (program, told) = (
        folder.join(name),
        folder.join(format!("{name}.environment")),
    );
    std::fs::write(
        &program,
        format!("#!/bin/sh\nenv >> {}\n{then}\n", told.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, told)
}

pub(super) fn path_with(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[test]
fn programs_get_what_they_need_of_the_environment() {
    let fixture = site(
        "networks: [127.0.0.0/8], port: 1, credentials: {username: admin, password: {exec: [bmc-password]}}",
    );
    let bare = folder();
    let remote = bare.path().to_str().unwrap();
    fixture.checkout.git(&["init", "--quiet", "--bare", remote]);
    fixture.checkout.git(&["remote", "add", "origin", remote]);
    fixture.checkout.git(&[
        "config",
        "credential.helper",
        "!f() { echo password=$DEPLOY_TOKEN; }; f",
    ]);
    fixture
        .checkout
        .git(&["config", "--add", "trueup.gitEnvironment", "VENDOR_TOKEN"]);
    let git = std::process::Command::new("sh")
        .args(["-c", "command -v git"])
        .output()
        .unwrap();
    let git = String::from_utf8(git.stdout).unwrap();
    let (folder, of_git) = spy(&fixture, "git", &format!("exec {} \"$@\"", git.trim()));
    let (_, of_program) = spy(&fixture, "bmc-password", "echo hunter2");
    let path = path_with(&folder);
    fixture.run(&["trust", "--yes"]).with(0);
    let variables = [
        ("PATH", &*path),
        ("BMC_PASSWORD", "hunter2-bmc"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2-cloud"),
        ("DEPLOY_TOKEN", "for-git"),
        ("VENDOR_TOKEN", "for-git-too"),
    ];
    with(&fixture, &["status"], &variables).with(0);
    let told = std::fs::read_to_string(of_git).unwrap();
    assert!(
        told.contains("DEPLOY_TOKEN=for-git") && told.contains("VENDOR_TOKEN=for-git-too"),
        "{told}"
    );
    assert!(
        told.contains("GIT_CONFIG_NOSYSTEM=1") && !told.contains("hunter2"),
        "{told}"
    );
    let told = std::fs::read_to_string(of_program).unwrap();
    assert!(told.contains("PATH=") && told.contains("HOME="), "{told}");
    assert!(
        !told.contains("hunter2") && !told.contains("for-git"),
        "{told}"
    );
}

#[test]
fn the_simulator_needs_no_trust() {
    let fixture = Fixture::one_rack();
    let ended = fixture.run(&["trust"]).with(0);
    assert!(ended.stderr.contains("need no trust"), "{}", ended.stderr);
    fixture.run(&["apply", "--yes"]).with(0);
    assert!(
        !fixture
            .checkout
            .outside()
            .join(".config/trueup/trust.json")
            .exists()
    );
}

#[test]
fn processes_that_trust_at_the_same_time_lose_nothing_and_undo_no_revocation() {
    const PROCESSES: usize = 8;
    let folder = folder();
    let file = folder.path().join("deep/trust.json");
    let sites: Vec<Fixture> = (0..PROCESSES)
        .map(|_| site("networks: [127.0.0.0/8], scheme: http, port: 1"))
        .collect();
    let all_at_once = |words: &dyn Fn(usize) -> &'static [&'static str]| {
        let children: Vec<_> = sites
            .iter()
            .enumerate()
            .map(|(number, fixture)| {
                let mut command = fixture.command(words(number));
                command.env("TRUEUP_TRUST_FILE", &file);
                command.stdout(std::process::Stdio::null());
                command.stderr(std::process::Stdio::null());
                command.spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let written: serde_json::Value = serde_json::from_str(&text).unwrap();
        written["trusted"].as_array().unwrap().len()
    };
    for _ in 0..4 {
        assert_eq!(all_at_once(&|_| &["trust", "--yes"]), PROCESSES);
        // Half of them revoke, and the others write the same trust again, by way of ending and renewing it.
        let half = |number: usize| match number % 2 {
            0 => &["trust", "--revoke"][..],
            _ => &["trust", "--yes"],
        };
        assert_eq!(all_at_once(&half), PROCESSES / 2);
        assert_eq!(all_at_once(&|_| &["trust", "--revoke"]), 0);
        let mixed = |number: usize| match number {
            0 => &["trust", "--revoke"][..],
            _ => &["trust", "--yes"],
        };
        assert_eq!(all_at_once(&mixed), PROCESSES - 1);
    }
    let left: Vec<_> = std::fs::read_dir(file.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn backends_with_an_error_are_not_trusted_before_it_is_mended() {
    let settings = "scheme: http, port: 1, networks: [127.20.0.0/16]";
    let fixture = site(&format!("{settings}, setling_time: 3"));
    fixture
        .run(&["trust", "--yes"])
        .with(1)
        .saying("has an unknown field `setling_time`");
    let listed = fixture.run(&["trust", "--list"]).with(0);
    assert!(!listed.stdout.contains("setling"), "{listed:?}");
}

#[test]
fn a_machine_that_does_not_fit_the_others_keeps_no_backend_from_being_trusted() {
    let fixture = site("scheme: http, port: 1, networks: [127.20.0.0/16]");
    let clusters = "schema: promenade/EtcdClusters/v1\nmetadata: {name: etcd}\ndata:\n  clusters:\n  - name: main\n    \
                    members: [{node: gone, name: m1, peer_url: 'http://127.20.0.9:2380', client_url: 'http://127.20.0.9:2379'}]\n";
    fixture
        .checkout
        .write("etcd.yaml", format!("---\n{clusters}"));
    fixture.run(&["validate"]).with(1);
    fixture
        .run(&["trust", "--yes"])
        .with(0)
        .saying("warning: 1 error in the documents; `trueup validate` shows them");
    let listed = fixture.run(&["trust", "--list"]).with(0);
    assert!(listed.stdout.contains("127.20.0.9:2379"), "{listed:?}");
}
