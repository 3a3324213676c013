//! Signed runs: in git's own format, by every kind of key, without a question, and whatever happens to the key.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::super::cli_interrupted::wait_for_effect;
use super::super::fixture::{Ended, Fixture};
use super::super::git::Checkout;
use super::{POLICY, Team};

pub(super) const STATE: &str = "refs/trueup/edge/state";

impl Team {
    /// Lets git sign with a key of a person.
    pub(super) fn sign_as(&self, site: &Fixture, name: &str) {
        self.sign_by(site, self.key(name).to_str().unwrap());
    }

    pub(super) fn sign_by(&self, site: &Fixture, key: &str) {
        site.checkout.git(&["config", "gpg.format", "ssh"]);
        site.checkout.git(&["config", "user.signingkey", key]);
    }

    /// A site whose rule that runs are signed is applied, by Ada.
    pub(super) fn signed() -> Self {
        let team = Self::new();
        team.sign_as(&team.site, "ada");
        let policy = POLICY.replace("\ndata: {", "\ndata: {signed_runs: required, ");
        team.site.checkout.write("policy.yaml", policy);
        team.site.commit_and_apply("Signed runs", &[]).with(0);
        team.site.checkout.git(&["push", "--quiet"]);
        team
    }

    /// The verdict on the signature of the newest run.
    pub(super) fn signature(&self) -> serde_json::Value {
        let shown = self.site.run(&["log", "--format", "json", "-n", "1"]);
        shown.with(0).json()["runs"][0]["signature"].clone()
    }

    /// Runs a command of git that verifies, with the allowed signers of the site; whether it is content.
    pub(super) fn git_verifies(&self, arguments: &[&str]) -> bool {
        let signers = self.site.checkout.path().join("allowed_signers");
        let mut command = Command::new("git");
        command.arg("-C").arg(self.origin.path());
        command.args(["-c", "gpg.format=ssh", "-c"]);
        command.arg(format!("gpg.ssh.allowedSignersFile={}", signers.display()));
        command.args(arguments).stdout(Stdio::null());
        command.stderr(Stdio::null()).status().unwrap().success()
    }
}

/// An agent with one key in it, which ends with this.
pub(super) struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    /// Starts an agent, gives it a key, and removes the private key from the disk.
    pub(super) fn with(team: &Team, name: &str) -> Self {
        let socket = team.keys.path().join("agent");
        let child = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let agent = Self { child, socket };
        while !agent.socket.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let key = team.key(name);
        let added = Command::new("ssh-add")
            .arg(&key)
            .env("SSH_AUTH_SOCK", &agent.socket)
            .stderr(Stdio::null())
            .status();
        assert!(added.unwrap().success());
        std::fs::rename(&key, key.with_extension("away")).unwrap();
        agent
    }

    pub(super) fn command(&self, site: &Fixture, arguments: &[&str]) -> Command {
        let mut command = site.command(arguments);
        command.env("SSH_AUTH_SOCK", &self.socket);
        command
    }

    fn run(&self, site: &Fixture, arguments: &[&str]) -> Ended {
        self.command(site, arguments).output().unwrap().into()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn git_and_ssh_keygen_alone_verify_the_records_and_the_tag_of_a_run() {
    let team = Team::new();
    team.sign_as(&team.site, "ada");
    let before = team.origin.git(&["rev-parse", STATE]);
    team.site.checkout.write("README", "More words");
    team.site.checkout.write("allowed_signers", {
        let lines = super::PEOPLE.map(|name| team.signer(name, name));
        lines.concat() + "# more\n"
    });
    team.site.commit_and_apply("Signed", &[]).with(0);
    let range = format!("{}..{STATE}", before.trim());
    let commits = team.origin.git(&["rev-list", &range]);
    assert!(commits.lines().count() >= 2, "{commits}");
    for commit in commits.lines() {
        assert!(team.git_verifies(&["verify-commit", commit]), "{commit}");
    }
    assert!(!team.git_verifies(&["verify-commit", before.trim()]));
    let tags = "refs/tags/site-action-success/edge";
    let tags = team
        .origin
        .git(&["for-each-ref", "--format=%(refname:short)", tags]);
    let verified: Vec<bool> = tags
        .lines()
        .map(|tag| team.git_verifies(&["verify-tag", tag]))
        .collect();
    assert_eq!(verified, [false, true], "{tags}");
    // By ssh-keygen alone.
    let object = team.origin.git(&["cat-file", "commit", STATE]) + "\n";
    let (headers, message) = object.split_once("\n\n").unwrap();
    let (rest, signature) = headers.split_once("\ngpgsig ").unwrap();
    let folder = team.keys.path();
    std::fs::write(folder.join("text"), format!("{rest}\n\n{message}")).unwrap();
    let signature = signature.replace("\n ", "\n") + "\n";
    std::fs::write(folder.join("text.sig"), signature).unwrap();
    let verified = |principal: &str| {
        let mut command = Command::new("ssh-keygen");
        command.args([
            "-Y", "verify", "-n", "git", "-s", "text.sig", "-I", principal,
        ]);
        let signers = team.site.checkout.path().join("allowed_signers");
        command.arg("-f").arg(signers).current_dir(folder);
        command.stdin(std::fs::File::open(folder.join("text")).unwrap());
        command.output().unwrap().status.success()
    };
    assert!(verified("ada@example.org"), "{object}");
    assert!(!verified("bob@example.org"));
    assert!(message.contains("\nsite: edge\nrepository: "), "{message}");
    // And trueup says so.
    let text = team.site.run(&["log"]).with(0).stdout;
    assert!(text.contains("SIGNED BY"), "{text}");
    assert_eq!(team.signature()["by"], "ada@example.org");
    let shown = team.site.run(&["show"]).with(0).stdout;
    assert!(
        shown.contains("signed    ada@example.org, verified"),
        "{shown}"
    );
    let json = team.site.run(&["show", "--format", "json"]).with(0).json();
    assert_eq!(json["run"]["signature"]["verdict"], "good");
    let html = team.site.run(&["show", "--format", "html"]).with(0).stdout;
    assert!(
        html.contains("signed by ada@example.org, verified"),
        "{html}"
    );
}

#[test]
fn a_run_is_signed_with_a_key_of_the_agent_alone() {
    let team = Team::new();
    let public = std::fs::read_to_string(team.key("ada").with_extension("pub")).unwrap();
    let public = public.trim().to_owned();
    let agent = Agent::with(&team, "ada");
    let file = team.key("ada-2").with_file_name("ada.pub");
    for (position, key) in [
        format!("key::{public}"),
        public.clone(),
        file.to_str().unwrap().to_owned(),
    ]
    .iter()
    .enumerate()
    {
        team.sign_by(&team.site, key);
        let words = ["power", ["off", "on", "off"][position], "edge-1"];
        agent
            .run(&team.site, &[&["apply", "--yes"][..], &words].concat())
            .with(0);
        assert_eq!(team.signature()["verdict"], "good", "{key}");
    }
    // An approval, too.
    let plan = team.plan(&super::REDEPLOY);
    team.sign_by(&team.site, &format!("key::{public}"));
    agent
        .run(&team.site, &["approve", &plan, "--yes"])
        .with(0)
        .saying("as ada@example.org");
    // Without the agent nothing begins.
    drop(agent);
    let before = team.origin.git(&["rev-parse", STATE]);
    team.site
        .run(&["apply", "--yes", "power", "on", "edge-1"])
        .with(1)
        .saying("the run cannot be signed")
        .saying("ssh-add");
    assert_eq!(team.origin.git(&["rev-parse", STATE]), before);
}

#[test]
fn a_key_that_asks_for_a_passphrase_is_an_error_before_the_run_begins() {
    let team = Team::new();
    let locked = team.keys.path().join("locked");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "secret", "-f"])
        .arg(&locked)
        .status();
    assert!(made.unwrap().success());
    team.sign_by(&team.site, locked.to_str().unwrap());
    let before = team.origin.git(&["for-each-ref"]);
    let arguments = ["apply", "--yes", "power", "off", "edge-1"];
    let mut command = team.site.command(&arguments);
    // Whatever window there is to ask in.
    let asked = team.keys.path().join("asked");
    let window = team.keys.path().join("window");
    let script = format!("#!/bin/sh\ntouch {}\necho secret\n", asked.display());
    std::fs::write(&window, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&window, mode).unwrap();
    command.env("SSH_ASKPASS", &window).env("DISPLAY", ":0");
    let ended: Ended = command.output().unwrap().into();
    ended
        .with(1)
        .saying("the run cannot be signed")
        .saying("`git config trueup.signRuns false` leaves the signature away");
    assert!(!asked.exists(), "a window asked for the passphrase");
    assert_eq!(team.origin.git(&["for-each-ref"]), before);
    assert_eq!(team.site.effects("powered-off"), 0);
    // As the error says.
    team.site
        .checkout
        .git(&["config", "trueup.signRuns", "false"]);
    team.site.run(&arguments).with(0);
    assert_eq!(team.signature()["verdict"], "unsigned");
}

#[test]
fn the_command_that_names_a_key_is_run_from_the_users_own_configuration_only() {
    let team = Team::new();
    let public = team.key("ada").with_extension("pub");
    let agent = Agent::with(&team, "ada");
    let command = team.keys.path().join("name-key");
    let ran = team.keys.path().join("ran");
    let script = format!(
        "#!/bin/sh\ntouch {}\ncat {}\n",
        ran.display(),
        public.display()
    );
    std::fs::write(&command, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&command, mode).unwrap();
    let git = |arguments: &[&str]| team.site.checkout.git(arguments);
    git(&["config", "gpg.format", "ssh"]);
    let key = "gpg.ssh.defaultKeyCommand";
    git(&["config", key, command.to_str().unwrap()]);
    let apply = |state: &str| agent.run(&team.site, &["apply", "--yes", "power", state, "edge-1"]);
    apply("off").with(0);
    assert!(!ran.exists(), "a command of the repository was run");
    assert_eq!(team.signature()["verdict"], "unsigned");
    git(&["config", "--unset", key]);
    let own = format!(
        "[gpg \"ssh\"]\n\tdefaultKeyCommand = {}\n",
        command.display()
    );
    std::fs::write(team.site.checkout.outside().join(".gitconfig"), own).unwrap();
    apply("on").with(0);
    assert!(ran.exists());
    assert_eq!(team.signature()["verdict"], "good");
}

#[test]
fn records_that_cannot_be_signed_any_more_are_published_without_and_signed_later() {
    let team = Team::signed();
    team.site
        .simulator("{clock: real, durations: {power: 2}, faults: []}");
    team.site.commit_and_apply("In real time", &[]).with(0);
    let agent = Agent::with(&team, "ada");
    let public = team.key("ada-2").with_file_name("ada.pub");
    team.sign_by(&team.site, public.to_str().unwrap());
    let words = [
        "apply",
        "--yes",
        "power",
        "off",
        "edge-1",
        "edge-2",
        "--parallelism=1",
    ];
    let run = agent.command(&team.site, &words).spawn().unwrap();
    wait_for_effect(&team.site, "edge-1 powered-off");
    drop(agent);
    let ended: Ended = run.wait_with_output().unwrap().into();
    ended
        .with(0)
        .saying("are written without a signature")
        .saying("`trueup log --sign` signs them");
    assert_eq!(team.site.effects("powered-off"), 2);
    assert_eq!(team.signature()["verdict"], "unsigned");
    let state = Checkout::clone_of(&team.origin.url(), &[]);
    state.git(&["fetch", "--quiet", "origin", &format!("{STATE}:{STATE}")]);
    let lock = team.origin.git(&["for-each-ref", "refs/trueup/edge/lock"]);
    assert_eq!(lock, "", "the run has ended, and its lock is released");
    // Nothing is planned from them, until an allowed signer vouches for them.
    team.site
        .run(&["plan", "power", "on", "edge-1"])
        .with(4)
        .saying("they are not signed")
        .saying("trueup log --sign");
    team.site
        .run(&["status"])
        .with(0)
        .saying("warning: site `edge` takes signed runs only");
    team.sign_as(&team.site, "mallory");
    team.site
        .run(&["log", "--sign"])
        .with(4)
        .saying("is not one of the allowed signers");
    team.sign_as(&team.site, "bob");
    team.site
        .run(&["log", "--sign"])
        .with(0)
        .saying("The records are signed up to run");
    assert_eq!(team.signature()["by"], "bob@example.org");
    team.site.run(&["plan", "power", "on", "edge-1"]).with(0);
}
