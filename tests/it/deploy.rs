//! `deploy/`: the manifests agree with each other and with the image, a pod's user can work in its clone, and the
//! Debian package works once it is installed.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::accepted::example;
use super::serve::{Authority, Service, bytes, over_tls_as};
use super::skipped::skipped;

use crate::folder::folder;

/// The user of the image.
const USER: &str = "65532";

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The documents of a manifest.
fn manifest(name: &str) -> Vec<Value> {
    use serde::Deserialize as _;
    let text = file(name);
    let documents = serde_yaml::Deserializer::from_str(&text);
    documents
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

/// The specification of the pods.
fn pod() -> Value {
    manifest("deployment.yaml")[0]["spec"]["template"]["spec"].clone()
}

fn is_there(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout.trim_ascii() == b"0"
}

#[test]
fn the_manifests_name_each_other_and_the_user_of_the_image() {
    let (pod, site) = (pod(), manifest("site.yaml"));
    assert_eq!(pod["securityContext"]["runAsUser"].to_string(), USER);
    let image = file("Containerfile");
    assert!(image.contains(&format!("useradd --uid {USER} ")), "{image}");
    assert!(image.contains(&format!("USER {USER}:{USER}")), "{image}");
    for program in ["git", "openssh-client", "ipmitool", "ca-certificates"] {
        assert!(image.contains(&format!(" {program}")), "{program}");
    }
    let named = |kind: &str| {
        let found = site.iter().find(|document| document["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}"))
    };
    let (settings, secret) = (named("ConfigMap"), named("Secret"));
    for container in ["initContainers", "containers"] {
        let container = &pod[container][0];
        let from = &container["envFrom"][0]["configMapRef"]["name"];
        assert_eq!(from, &settings["metadata"]["name"]);
    }
    let volumes = pod["volumes"].as_array().unwrap();
    let git = volumes
        .iter()
        .find(|volume| volume["name"] == "git")
        .unwrap();
    assert_eq!(git["secret"]["secretName"], secret["metadata"]["name"]);
    let ssh = settings["data"]["GIT_SSH_COMMAND"].as_str().unwrap();
    for key in secret["stringData"].as_object().unwrap().keys() {
        assert!(ssh.contains(&format!("/etc/trueup/ssh/{key}")), "{ssh}");
    }
    let accounts = manifest("rbac.yaml");
    let account = accounts
        .iter()
        .find(|each| each["kind"] == "ServiceAccount");
    assert_eq!(
        account.unwrap()["metadata"]["name"],
        pod["serviceAccountName"]
    );
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    let words = arguments.iter().map(|word| word.as_str().unwrap());
    trueup::cli::command()
        .try_get_matches_from(["trueup"].into_iter().chain(words))
        .unwrap();
    for variable in settings["data"].as_object().unwrap().keys() {
        let flag = variable
            .strip_prefix("TRUEUP_")
            .map(|flag| flag.to_lowercase().replace('_', "-"));
        assert!(
            flag.is_none_or(|flag| trueup::cli::SETTABLE.contains(&&*flag)),
            "{variable}"
        );
    }
}

#[test]
fn the_context_of_the_image_has_what_a_build_needs_and_no_more() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ignored = std::fs::read_to_string(root.join(".dockerignore")).unwrap();
    let ignored: BTreeSet<&str> = ignored.lines().collect();
    for name in ["target", ".git"] {
        assert!(ignored.contains(name), "{name}");
    }
    for name in [
        "src",
        "schemas",
        "site-examples",
        "benches",
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
    ] {
        assert!(
            root.join(name).exists() && !ignored.contains(name),
            "{name}"
        );
    }
}

/// A command as the user of the image, with nothing of this process's environment.
fn user_command(home: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", USER, "--regid", USER, "--clear-groups"])
        .current_dir("/")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home)
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    command
}

/// Runs a script as that user.
fn as_user(script: &str, home: &Path, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = user_command(home, variables);
    let ended = command.args(["sh", "-c", script]).output().unwrap();
    let told = [ended.stdout, ended.stderr].concat();
    (ended.status.success(), String::from_utf8(told).unwrap())
}

/// What a pod finds: a volume, the program, and the repository of a site.
struct Pod {
    folder: TempDir,
    program: PathBuf,
    origin: PathBuf,
    volume: PathBuf,
    home: PathBuf,
}

impl Pod {
    fn new() -> Self {
        let fixture = example("edge");
        fixture.checkout.commit("The site");
        let folder = folder();
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(folder.path(), 0o755);
        let program = folder.path().join("trueup");
        std::fs::copy(env!("CARGO_BIN_EXE_trueup"), &program).unwrap();
        open(&program, 0o755);
        let origin = folder.path().join("origin.git");
        let cloned = Command::new("git")
            .args(["clone", "--quiet", "--bare"])
            .args([fixture.checkout.path(), &origin])
            .status();
        assert!(cloned.unwrap().success());
        let owned = Command::new("chown")
            .args(["-R", &format!("{USER}:{USER}")])
            .arg(&origin)
            .status();
        assert!(owned.unwrap().success());
        // A volume as kubelet makes an `emptyDir`: it belongs to root, and to the group of the pod.
        let volume = folder.path().join("site");
        std::fs::create_dir(&volume).unwrap();
        open(&volume, 0o2777);
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        Self {
            folder,
            program,
            origin,
            volume,
            home,
        }
    }

    fn variables(&self) -> [(&str, &str); 5] {
        [
            ("SITE_REPOSITORY", self.origin.to_str().unwrap()),
            ("GIT_COMMITTER_NAME", "trueup"),
            ("GIT_COMMITTER_EMAIL", "trueup@example.org"),
            ("TRUEUP_BACKENDS_FROM", "origin/main"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ]
    }
}

#[test]
fn a_pod_clones_into_its_volume_and_works_there() {
    if !is_root() || !is_there("setpriv", "--version") {
        return skipped("only root can work as another user, with setpriv of util-linux");
    }
    let place = Pod::new();
    let pod = pod();
    let (volume, home) = (place.volume.to_str().unwrap(), &place.home);
    let here = |text: &Value| {
        text.as_str()
            .unwrap()
            .replace("/site/", &format!("{volume}/"))
    };
    let clone = here(&pod["initContainers"][0]["command"][2]);
    let variables = place.variables();
    let url = variables[0].1;
    // The container may be started again over the volume that it has.
    for _ in 0..2 {
        let (done, told) = as_user(&clone, home, &variables);
        assert!(done, "{told}");
    }
    let work = here(&pod["containers"][0]["workingDir"]);
    for arguments in ["plan", "apply --yes", "log", "doctor"] {
        let script = format!("cd '{work}' && '{}' {arguments}", place.program.display());
        let (done, told) = as_user(&script, home, &variables);
        assert!(done, "{arguments}: {told}");
    }
    let script = format!("git -C '{url}' for-each-ref --format='%(refname)'");
    let (done, refs) = as_user(&script, home, &variables);
    assert!(done && refs.contains("refs/trueup/edge/state"), "{refs}");
}

/// The one document of a kind in the manifests of the service.
fn of_service(kind: &str) -> Value {
    let mut found = manifest("serve.yaml").into_iter();
    found
        .find(|document| document["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn the_manifests_of_the_service_name_each_other_and_its_settings() {
    let all = manifest("serve.yaml");
    let pod = of_service("Deployment")["spec"]["template"]["spec"].clone();
    assert_eq!(pod["securityContext"]["runAsUser"].to_string(), USER);
    let named = |kind: &str, name: &Value| {
        let mut documents = all.iter();
        documents.any(|each| each["kind"] == kind && each["metadata"]["name"] == *name)
    };
    assert!(named("ServiceAccount", &pod["serviceAccountName"]));
    // What the namespace enforces of its pods.
    let label = "pod-security.kubernetes.io/enforce";
    assert_eq!(
        of_service("Namespace")["metadata"]["labels"][label],
        "restricted"
    );
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    for container in [&pod["initContainers"][0], &pod["containers"][0]] {
        let from = &container["envFrom"][0]["configMapRef"]["name"];
        assert!(named("ConfigMap", from), "{from}");
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"]["drop"][0], "ALL");
        let mounts = container["volumeMounts"].as_array().unwrap();
        for mount in mounts {
            let mut volumes = pod["volumes"].as_array().unwrap().iter();
            assert!(
                volumes.any(|volume| volume["name"] == mount["name"]),
                "{mount}"
            );
        }
    }
    // What no document makes is made by the commands at its top.
    let text = file("serve.yaml");
    for volume in pod["volumes"].as_array().unwrap() {
        let secret = volume["secret"]["secretName"].as_str();
        let made = secret.is_none_or(|name| {
            text.contains(&format!("create secret generic {name} "))
                || text.contains(&format!("create secret tls {name} "))
        });
        assert!(made, "{volume}");
        let claim = &volume["persistentVolumeClaim"]["claimName"];
        assert!(claim.is_null() || named("PersistentVolumeClaim", claim));
        let settings = &volume["configMap"]["name"];
        assert!(settings.is_null() || named("ConfigMap", settings));
    }
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    let words: Vec<&str> = arguments
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    trueup::cli::command()
        .try_get_matches_from(["trueup"].iter().chain(&words))
        .unwrap();
    let port = &pod["containers"][0]["ports"][0];
    assert!(words.contains(&&*format!("0.0.0.0:{}", port["containerPort"])));
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = &pod["containers"][0][probe]["httpGet"];
        assert_eq!(
            (&get["port"], &get["scheme"]),
            (&port["name"], &"HTTPS".into())
        );
    }
    let service = of_service("Service");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], port["name"]);
    let labels = &of_service("Deployment")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(service["spec"]["selector"], *labels);
    assert_eq!(
        of_service("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *labels
    );
    // The rights are those that the documentation lists.
    let documented =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kubernetes.md"));
    let rights = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().map(|line| line.trim());
        let lines =
            lines.filter(|line| line.starts_with("- {apiGroups: ") && line.contains("verbs"));
        lines.map(str::to_owned).collect()
    };
    let mut documented = rights(&documented.unwrap());
    // Its namespace is there only beside medik8s, and elsewhere the manifest could not be applied with it.
    documented.retain(|right| !right.contains("[leases]"));
    assert_eq!(rights(&text), documented);
}

#[test]
fn the_service_of_the_manifests_starts_in_its_pod_and_answers_its_probes() {
    if !is_root() || !is_there("setpriv", "--version") {
        return skipped("only root can work as another user, with setpriv of util-linux");
    }
    let place = Pod::new();
    let pod = of_service("Deployment")["spec"]["template"]["spec"].clone();
    let settings = manifest("serve.yaml").into_iter();
    let settings =
        settings.filter_map(|each| Some(each["data"]["serve.yaml"].as_str()?.to_owned()));
    let folder = place.folder.path().to_str().unwrap();
    let here = |text: &str| {
        text.replace("/site/", &format!("{}/", place.volume.display()))
            .replace("/etc/trueup/", &format!("{folder}/"))
            .replace(":8443", ":0")
    };
    let authority = Authority::new();
    let (certificate, key) = authority.dns("trueup.trueup.svc");
    for (name, text) in [
        ("tls/tls.crt", certificate),
        ("tls/tls.key", key),
        ("serve/serve.yaml", here(&settings.collect::<String>())),
    ] {
        let path = place.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let variables = place.variables();
    let clone = here(pod["initContainers"][0]["command"][2].as_str().unwrap());
    let (done, told) = as_user(&clone, &place.home, &variables);
    assert!(done, "{told}");
    let container = &pod["containers"][0];
    let arguments = container["args"].as_array().unwrap();
    let arguments: Vec<String> = arguments
        .iter()
        .map(|word| here(word.as_str().unwrap()))
        .collect();
    let mut command = user_command(&place.home, &variables);
    command
        .arg(&place.program)
        .args(&arguments)
        .current_dir(here(
            container["workingDir"]
                .as_str()
                .unwrap()
                .trim_end_matches('/'),
        ));
    let mut service = Service::spawn(&mut command);
    let address = service.address().replace("0.0.0.0", "127.0.0.1");
    let ask = |path: &str| {
        let request = bytes("GET", path, &[], "");
        over_tls_as(
            &address,
            ("trueup.trueup.svc", &authority.pem),
            None,
            &request,
        )
        .unwrap()
        .code
    };
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert_eq!(ask(path), 200, "{probe}");
    }
    assert_eq!(ask("/api/v1/sites"), 401);
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
}

/// Makes the package of this build in a folder.
fn package(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = Command::new("sh")
        .args(["deploy/package", "dev", "--no-strip", "--output"])
        .arg(folder)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut files = std::fs::read_dir(folder).unwrap();
    files.next().unwrap().unwrap().path()
}

#[test]
fn the_debian_package_is_installed_and_runs() {
    // It builds the program once more.
    if std::env::var_os("TRUEUP_TEST_PACKAGE").is_none() {
        return;
    }
    if !is_there("cargo-deb", "--version") {
        return skipped("cargo-deb is not installed (`cargo install --locked cargo-deb`)");
    }
    if !is_root() || !is_there("dpkg", "--version") {
        return skipped("only root can install packages, with dpkg");
    }
    let folder = folder();
    let deb = package(&folder.path().join("made"));
    let fields = Command::new("dpkg-deb")
        .arg("--field")
        .arg(&deb)
        .output()
        .unwrap();
    let fields = String::from_utf8(fields.stdout).unwrap();
    assert!(fields.contains("Package: trueup"), "{fields}");
    let depends = fields
        .lines()
        .find(|line| line.starts_with("Depends: "))
        .unwrap();
    assert!(
        depends.contains("git") && depends.contains("libc6"),
        "{depends}"
    );
    assert!(fields.contains("Suggests: ipmitool"), "{fields}");
    // Into a folder of its own: this system's packages stay as they are.
    let root = folder.path().join("root");
    for part in [
        "var/lib/dpkg/updates",
        "var/lib/dpkg/info",
        "var/lib/dpkg/triggers",
    ] {
        std::fs::create_dir_all(root.join(part)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let installed = Command::new("dpkg")
        .arg(format!("--root={}", root.display()))
        .args([
            "--force-depends",
            "--force-not-root",
            "--log=/dev/null",
            "--install",
        ])
        .arg(&deb)
        .output()
        .unwrap();
    assert!(
        installed.status.success(),
        "{}",
        String::from_utf8_lossy(&installed.stderr)
    );
    for file in [
        "usr/share/man/man1/trueup.1.gz",
        "usr/share/man/man1/trueup-apply.1.gz",
        "usr/share/bash-completion/completions/trueup",
        "usr/share/fish/vendor_completions.d/trueup.fish",
        "usr/share/zsh/vendor-completions/_trueup",
        "usr/share/trueup/schemas/document.json",
        "usr/share/doc/trueup/copyright",
        "usr/share/doc/trueup/docs/plan-and-apply.md",
    ] {
        let found = root.join(file);
        let plain = root.join(file.trim_end_matches(".gz"));
        assert!(found.exists() || plain.exists(), "{file}");
    }
    let program = root.join("usr/bin/trueup");
    let site = folder.path().join("site");
    let run = |arguments: &[&str], here: &Path| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(here).env_clear();
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", folder.path());
        let ended = command.stdin(Stdio::null()).output().unwrap();
        assert!(
            ended.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
        String::from_utf8(ended.stdout).unwrap()
    };
    let version = run(&["--version"], folder.path());
    assert_eq!(
        version.trim(),
        format!("trueup {}", env!("CARGO_PKG_VERSION"))
    );
    run(&["init", site.to_str().unwrap()], folder.path());
    run(&["apply", "--yes"], &site);
    assert!(run(&["log"], &site).contains("succeeded"));
}
