//! A plan over real Redfish that is divided among workers: each part is begun by one that is killed in the middle, and then given to two
//! at the same time. By the log of the controllers no machine is reset twice.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Peer, wait_until};
use crate::redfish::{DEFINITION, GENERAL, backends, nodes, start};
use crate::site::Site;

const COUNT: usize = 4;
const RUN: &str = "nightly";

/// The requests with one of these methods, by path, as the controllers have logged them.
fn requests(peer: &Peer, methods: &[&str]) -> BTreeMap<String, usize> {
    let log = std::fs::read_to_string(peer.path("log")).unwrap();
    let mut requests = BTreeMap::new();
    for line in log.lines() {
        for method in methods {
            if let Some((_, request)) = line.split_once(&format!("{method} /")) {
                let path = request.split(' ').next().unwrap();
                *requests.entry(format!("{method} /{path}")).or_default() += 1;
            }
        }
    }
    requests
}

/// The site of the controllers behind a port.
fn site(port: u16) -> Site {
    let more = "scheme: http, settling_time: 12, deploy: {boot_time: 1}";
    let backends = backends(port, more).replace("request_timeout: 30", "request_timeout: 2");
    Site::new(&[
        ("site-definition.yaml", DEFINITION),
        ("general.yaml", GENERAL),
        ("backends.yaml", &backends),
        ("nodes.yaml", &nodes(COUNT)),
    ])
}

/// Clones of a site for workers, beside a remote.
struct Workers {
    first: Site,
    clones: Vec<Site>,
    digest: String,
    _remote: TempDir,
}

impl Workers {
    /// A run that has begun.
    fn begun(first: Site) -> Self {
        let remote = TempDir::new().unwrap();
        let url = remote.path().to_str().unwrap();
        first.git(&["init", "--quiet", "--bare", "--initial-branch=main", url]);
        first.git(&["remote", "add", "origin", url]);
        first.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
        let clones = (0..3).map(|_| Site::clone_of(url)).collect();
        let saved = TempDir::new().unwrap();
        let plan = saved.path().join("site.plan");
        let plan = plan.to_str().unwrap();
        first.trueup(&["plan", "-o", plan], &[]).with(0);
        let shown = first
            .trueup(&["show", plan, "--format", "json"], &[])
            .with(0);
        let effect = shown.json()["effect"].as_str().unwrap().to_owned();
        let begin = ["run", "begin", plan, "--run", RUN, "--effect", &effect];
        let more = [
            "--nodes-per-part",
            "4",
            "--pushes-per-minute",
            "0",
            "--format",
            "json",
        ];
        let begun = first
            .trueup(&[&begin[..], &more].concat(), &[])
            .with(0)
            .json();
        Self {
            first,
            clones,
            digest: begun["plan_digest"].as_str().unwrap().to_owned(),
            _remote: remote,
        }
    }

    /// The parts that are left, in their order.
    fn left(&self) -> Vec<String> {
        let status = ["run", "status", RUN, "--format", "json"];
        let status = self.first.trueup(&status, &[]).with(0).json();
        let parts = status["parts"].as_array().unwrap().iter();
        let left = parts.filter(|part| part["state"] != "ended");
        let name = |part: &Value| part["part"].as_str().unwrap().to_owned();
        left.map(name).collect()
    }

    fn words<'a>(&'a self, part: &'a str) -> Vec<&'a str> {
        vec!["run", "part", RUN, part, "--plan-digest", &self.digest]
    }

    /// Starts a worker with a part.
    fn start(&self, clone: usize, part: &str) -> Child {
        self.clones[clone].start(&self.words(part), &[], Stdio::inherit())
    }

    /// Carries a part on to its end; if the progress of a machine is unknown, a person has found its new system, or
    /// that it was never reset.
    fn carry_on(&self, clone: usize, part: &str, peer: &Peer) {
        let ended = self.clones[clone].trueup(&self.words(part), &[]);
        if ended.code == 0 {
            return;
        }
        let ended = ended.with(8);
        let reset: Vec<String> = requests(peer, &["POST"]).into_keys().collect();
        let decided = ended.stderr.split("--decide ").skip(1).map(|asked| {
            let step = asked.split('=').next().unwrap();
            let id = format!("{:0>12}/", step.rsplit('-').next().unwrap());
            match reset.iter().any(|path| path.contains(&id)) {
                true => format!("--decide={step}=done"),
                false => format!("--decide={step}=not-begun"),
            }
        });
        let decided: Vec<String> = decided.collect();
        let words = [
            self.words(part),
            decided.iter().map(String::as_str).collect(),
        ]
        .concat();
        self.clones[clone].trueup(&words, &[]).with(0);
    }
}

#[test]
fn no_machine_is_reset_twice_by_workers_that_are_killed_or_have_the_same_part() {
    let (Some((alone, one)), Some((peer, other))) = (start(COUNT, "plain"), start(COUNT, "plain"))
    else {
        return;
    };
    let undisturbed = std::thread::spawn(move || {
        site(one).trueup(&["apply", "--yes"], &[]).with(0);
        requests(&alone, &["POST"])
    });
    let workers = Workers::begun(site(other));
    let mut killed = 0;
    for part in workers.left() {
        // One is killed when it has begun to set something, the next when it has reset a machine.
        for (clone, methods) in [(0, &["PATCH", "POST"][..]), (1, &["POST"])] {
            let before = requests(&peer, methods);
            let mut worker = workers.start(clone, &part);
            let mut code = None;
            wait_until("the part asks for a change or ends", || {
                code = worker.try_wait().unwrap();
                code.is_some() || requests(&peer, methods) != before
            });
            if code.is_none() {
                worker.kill().unwrap();
                worker.wait().unwrap();
                killed += 1;
            }
        }
        for mut worker in [1, 2].map(|clone| workers.start(clone, &part)) {
            let code = worker.wait().unwrap().code();
            // The other one has it, or was faster to take it; or it is unknown how far a machine is that was reset.
            assert!(matches!(code, Some(0 | 6 | 8)), "{part}: {code:?}");
        }
        if workers.left().contains(&part) {
            workers.carry_on(2, &part, &peer);
        }
    }
    assert!(killed >= 2, "only {killed} workers were killed");
    workers.first.trueup(&["run", "end", RUN], &[]).with(0);
    let expected = undisturbed.join().unwrap();
    assert!(expected.len() >= COUNT, "{expected:?}");
    // Where it boots from may be set again; a reset is not.
    assert_eq!(requests(&peer, &["POST"]), expected);
}
