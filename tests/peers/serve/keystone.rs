//! Tokens of a real Keystone: valid, expired, revoked, unknown, and of another project.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Answer, Service, bytes};
use crate::harness::{Peer, wait_until};
use crate::site::Site;

/// How long tokens are valid, in seconds.
const VALID: u64 = 12;

/// The example site of one rack, on a simulator without faults, deployed.
pub(crate) fn deployed() -> Site {
    let mut files = Vec::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/one-rack");
    read(&example, &example, &mut files);
    for (path, text) in &mut files {
        if path == "backends.yaml" {
            "---\nschema: trueup/Backends/v1\nmetadata: {name: backends}\ndata: {hardware: {kind: sim}}\n"
                .clone_into(text);
        }
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let site = Site::new(&files);
    site.trueup(&["apply", "--yes"], &[]).with(0);
    site
}

fn read(folder: &Path, root: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            read(&path, root, files);
        } else {
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            files.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
}

/// A Keystone, and the service that asks it.
struct Cloud {
    peer: Peer,
    site: Site,
    service: Service,
}

impl Cloud {
    fn start(valid: u64) -> Option<Self> {
        let peer = Peer::start_own("keystone-up.sh", |ports| {
            vec![ports.at(0).to_string(), valid.to_string()]
        })?;
        let site = deployed();
        let config = peer.path("serve.yaml");
        let text = format!(
            "keystone:\n  url: {}\n  project: Default/service\n  roles: {{admin: admin, operator: operator, admin_ucp_viewer: viewer}}\n",
            peer.said()
        );
        std::fs::write(&config, text).unwrap();
        let config = config.to_str().unwrap();
        let arguments = ["serve", "-v", "--config", config, "--listen", "127.0.0.1:0"];
        let service = Service::spawn(&mut site.program(&arguments));
        Some(Self {
            peer,
            site,
            service,
        })
    }

    /// Sends a request to Keystone.
    fn keystone(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> String {
        let address = self
            .peer
            .said()
            .trim_start_matches("http://")
            .trim_end_matches("/v3");
        let mut stream = TcpStream::connect(address).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(token.map(|token| ("X-Auth-Token", token)));
        headers.extend(token.map(|token| ("X-Subject-Token", token)));
        let path = format!("/v3{path}");
        let request = bytes(method, &path, &headers, &body);
        stream.write_all(&request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A token of a user, scoped to a project; without one: unscoped.
    fn token(&self, user: &str, project: Option<&str>) -> String {
        let user = json!({"name": user, "domain": {"name": "Default"}, "password": "secret"});
        let mut auth = json!({"identity": {"methods": ["password"], "password": {"user": user}}});
        if let Some(project) = project {
            auth["scope"] = json!({"project": {"name": project, "domain": {"name": "Default"}}});
        }
        let body = json!({ "auth": auth });
        let answer = self.keystone("POST", "/auth/tokens", None, Some(&body));
        let line = answer
            .lines()
            .find_map(|line| line.strip_prefix("X-Subject-Token: "));
        line.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn ask(&self, method: &str, path: &str, token: &str) -> Answer {
        self.service
            .request(method, path, &[("X-Auth-Token", token)], "")
    }

    fn code(&self, token: &str) -> u16 {
        self.ask("GET", "/api/v1/actions", token).code
    }
}

#[test]
fn a_token_counts_by_its_project_and_roles_until_it_expires_or_is_revoked() {
    let Some(cloud) = Cloud::start(VALID) else {
        return;
    };
    let matrix = [
        ("GET", "/api/v1/actions", [200, 200, 200]),
        ("POST", "/api/v1.0/nodes/nothing/drain", [404, 404, 403]),
        (
            "POST",
            "/api/v1.0/nodes/nothing/decommission",
            [404, 403, 403],
        ),
    ];
    for (position, user) in ["alice", "olga", "victor"].into_iter().enumerate() {
        for (method, path, codes) in matrix {
            let token = cloud.token(user, Some("service"));
            let answer = cloud.ask(method, path, &token);
            assert_eq!(answer.code, codes[position], "{user} {path}: {answer:?}");
        }
    }
    // Roles elsewhere, no scope, or a role that means nothing here.
    assert_eq!(cloud.code(&cloud.token("mallory", Some("other"))), 403);
    assert_eq!(cloud.code(&cloud.token("alice", None)), 403);
    assert_eq!(cloud.code(&cloud.token("nina", Some("service"))), 403);
    for unknown in ["x", "gAAAAABm", &"a".repeat(4000)] {
        let answer = cloud.ask("GET", "/api/v1/actions", unknown);
        assert_eq!(
            answer.reason(),
            (401, "Unauthenticated".to_owned()),
            "{unknown}"
        );
    }
    assert_eq!(cloud.service.get("/api/v1/actions").code, 401);
    // A run in the name of its caller, whose token expires in the middle of its life.
    let token = cloud.token("olga", Some("service"));
    let drained = cloud.ask("POST", "/api/v1.0/nodes/compute11/drain", &token);
    assert_eq!(drained.reason(), (200, "Success".to_owned()), "{drained:?}");
    let runs = cloud
        .site
        .trueup(&["log", "--format", "json"], &[])
        .with(0)
        .json();
    let request = &runs["runs"][0]["requested"];
    assert_eq!(
        (&request["subject"], &request["by"]),
        (&"Default/olga".into(), &"keystone".into())
    );
    assert_eq!(cloud.code(&token), 200);
    std::thread::sleep(Duration::from_secs(VALID));
    assert_eq!(cloud.code(&token), 401);
    assert!(!cloud.service.log().contains(&token));
    // Keystone gone: nobody is let in, and that is no fault of theirs.
    let token = cloud.token("alice", Some("service"));
    cloud.peer.kill("pid");
    assert_eq!(cloud.code(&token), 503);
}

#[test]
fn a_revoked_token_counts_for_seconds_at_most() {
    let Some(cloud) = Cloud::start(3600) else {
        return;
    };
    let token = cloud.token("alice", Some("service"));
    assert_eq!(cloud.code(&token), 200);
    let revoked = cloud.keystone("DELETE", "/auth/tokens", Some(&token), None);
    assert!(revoked.contains(" 204 "), "{revoked}");
    wait_until("the token is refused", || cloud.code(&token) == 401);
    let other = cloud.token("alice", Some("service"));
    cloud.keystone("DELETE", "/auth/tokens", Some(&other), None);
    assert_eq!(cloud.code(&other), 401);
}
