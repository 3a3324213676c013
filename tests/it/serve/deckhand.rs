//! Design references that lead to a Deckhand, which is a thread of the test; so is the Keystone of its tokens.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::attack::bomb;
use super::callers::Authority;
use super::{Answer, Service, deployed, on};
use crate::fixture::Fixture;

/// The token of an administrator.
const TOKEN: &str = "gAAAAABtoken-of-alice";

const HEALTH: &str = "/api/v1.0/etcd-cluster-health-statuses";

/// What a stand-in answers: its heads are those of requests.
struct StandIn {
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    /// Answers each request with the bytes that `answer` gives for its path; none: it never ends.
    fn start(answer: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let (kept, answer) = (heads.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, kept, answer) = (stream.unwrap(), kept.clone(), answer.clone());
                std::thread::spawn(move || {
                    let mut read = [0; 16 << 10];
                    let length = stream.read(&mut read).unwrap_or(0);
                    let head = String::from_utf8_lossy(&read[..length]).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    kept.lock().unwrap().push(head.to_lowercase());
                    match answer(&path) {
                        Some(bytes) => drop(stream.write_all(&bytes)),
                        None => drip(&mut stream),
                    }
                });
            }
        });
        Self { address, heads }
    }

    fn asked(&self) -> usize {
        self.heads.lock().unwrap().len()
    }
}

/// Begins an answer, of which a byte comes now and then.
fn drip(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n");
    while stream.write_all(b"#").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Option<Vec<u8>> {
    let length = body.len();
    Some(
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
        )
        .into_bytes(),
    )
}

/// A Keystone that knows one token.
fn keystone() -> StandIn {
    StandIn::start(|_| {
        let domain = json!({"id": "default", "name": "Default"});
        let token = json!({"token": {
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "user": {"id": "u", "name": "alice", "domain": domain},
            "project": {"id": "p", "name": "service", "domain": domain},
            "roles": [{"id": "r", "name": "admin"}],
        }});
        answer("200 OK", "", &token.to_string())
    })
}

/// Starts a service that takes references to these hosts.
fn start(fixture: &Fixture, keystone: &StandIn, hosts: &[&str], more: &str) -> Service {
    let config = fixture.checkout.outside().join("serve.yaml");
    let hosts = serde_json::to_string(hosts).unwrap();
    let text = format!(
        "keystone: {{url: 'http://{}/v3', project: Default/service}}\nloopback: admin\n\
         deckhand: {{hosts: {hosts}{more}}}\nlimits: {{requests_per_second: 1000}}\n",
        keystone.address
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    Service::start(fixture, &["--config", config, "--listen", "127.0.0.1:0"])
}

/// The reference to a revision of a stand-in.
fn reference(origin: &str, revision: &str) -> String {
    format!("deckhand+{origin}/api/v1.0/revisions/{revision}/rendered-documents")
}

/// Posts an operation with a reference.
fn post(service: &Service, path: &str, href: &str) -> Answer {
    let body = json!({"rel": "design", "href": href, "type": "application/x-yaml"}).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("X-Auth-Token", TOKEN),
    ];
    service.request("POST", path, &headers, &body)
}

fn health(service: &Service, href: &str) -> Answer {
    let href = href.replace(':', "%3A").replace('+', "%2B");
    let path = format!("{HEALTH}?design_ref={href}");
    service.request("GET", &path, &[("X-Auth-Token", TOKEN)], "")
}

/// The documents of a site as Deckhand gives them out: with what it has stored beside each, and the layering and
/// substitutions that are done.
fn rendered(fixture: &Fixture) -> String {
    let text = fixture.run(&["render", "--rev", "HEAD"]).with(0).stdout;
    let documents = text.split("---\n").filter(|text| !text.trim().is_empty());
    let documents = documents
        .enumerate()
        .map(|(id, text)| format!("---\nid: {id}\nstatus: {{bucket: site, revision: 1}}\n{text}"));
    let layered = "---\nid: 900\nstatus: {bucket: site, revision: 1}\nschema: deckhand/Passphrase/v1\nmetadata:\n  \
                   schema: metadata/Document/v1\n  name: taken\n  storagePolicy: cleartext\n  layeringDefinition:\n    \
                   abstract: false\n    layer: cruise\n    parentSelector: {name: gone}\n    \
                   actions: [{method: merge, path: .gone}]\n  substitutions:\n  - src: {schema: deckhand/Passphrase/v1, \
                   name: gone, path: .}\n    dest: {path: .x}\ndata: hello\n\
                   ---\nid: 901\nstatus: {bucket: site, revision: 1}\nschema: deckhand/LayeringPolicy/v1\nmetadata: \
                   {schema: metadata/Control/v1, name: layering-policy}\ndata: {layerOrder: [global, cruise]}\n";
    documents.collect::<Vec<_>>().concat() + layered
}

fn newest(fixture: &Fixture) -> Value {
    fixture.run(&["log", "--format", "json"]).with(0).json()["runs"][0]["run"].clone()
}

/// The documents of revisions, of which the first has those of the site.
fn sets(fixture: &Fixture) -> Vec<(&'static str, String)> {
    let whole = rendered(fixture);
    let others = "---\nschema: trueup/Backends/v1\nmetadata: {name: backends}\ndata: {hardware: {kind: redfish}, \
                  allow_plain_http: true}\n---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {protected_nodes: \
                  {selectors: [{names: [compute11]}]}}\n";
    let without = |text: &str, schema: &str| {
        let documents = text
            .split("---\n")
            .filter(|document| !document.contains(schema));
        documents
            .map(|document| format!("---\n{document}"))
            .collect::<String>()
    };
    let guards = without(&without(&whole, "trueup/Backends/v1"), "trueup/Policy/v1") + others;
    let sets = vec![
        ("1", whole.clone()),
        ("2", guards),
        ("3", without(&whole, "name: compute11\n")),
        (
            "4",
            whole.replace("https://10.20.2.12:2379", "https://10.66.6.6:2379"),
        ),
        ("5", whole.replace("name: kubernetes\n", "name: other\n")),
        ("6", without(&whole, "promenade/EtcdClusters/v1")),
        (
            "7",
            whole
                .replace("node: control03", "node: compute12")
                .replace("https://10.20.2.14:", "https://10.20.2.16:"),
        ),
    ];
    for (revision, text) in sets.iter().skip(1) {
        assert_ne!(*text, whole, "{revision}");
    }
    sets
}

#[test]
fn documents_of_deckhand_are_held_against_the_design_that_is_committed() {
    let fixture = deployed("");
    let sets = sets(&fixture);
    let deckhand = StandIn::start(move |path| {
        let number = path.split('/').nth(4).unwrap_or_default();
        match sets.iter().find(|(revision, _)| *revision == number) {
            Some((_, text)) => answer("200 OK", "Content-Type: application/x-yaml\r\n", text),
            None => answer("404 Not Found", "", "kind: Status\nmessage: unknown\n"),
        }
    });
    let origin = format!("http://{}", deckhand.address);
    let keystone = keystone();
    let service = start(&fixture, &keystone, &[&origin], "");
    let of = |revision: &str| reference(&origin, revision);
    let reasons = |node: &str, operation: &str, revision: &str| {
        post(&service, &on(node, operation), &of(revision)).reason()
    };
    let before = newest(&fixture);
    for (operation, node, revision, code, reason) in [
        // No such node, no such revision.
        ("remove-etcd", "compute11", "3", 404, "NotFound"),
        ("decommission", "compute11", "3", 404, "NotFound"),
        ("remove-etcd", "compute11", "9", 400, "BadRequest"),
        (
            "decommission",
            "compute11",
            "9",
            500,
            "DisassociateStepFailure",
        ),
        // Other members, other clusters, no clusters.
        ("remove-etcd", "control01", "4", 409, "Conflict"),
        ("decommission", "control01", "4", 409, "Conflict"),
        ("remove-etcd", "control01", "5", 409, "Conflict"),
        ("remove-etcd", "control01", "6", 409, "Conflict"),
        ("remove-etcd", "compute12", "7", 409, "Conflict"),
    ] {
        let wanted = (code, reason.to_owned());
        assert_eq!(
            reasons(node, operation, revision),
            wanted,
            "{operation} {node} {revision}"
        );
    }
    assert_eq!(newest(&fixture), before, "nothing has begun");
    let healthy = health(&service, &of("1"));
    assert_eq!(healthy.reason(), (200, "Success".to_owned()), "{healthy:?}");
    let messages = healthy.json()["details"]["messageList"].clone();
    assert_eq!(
        (&messages[0]["message"], &messages[0]["name"]),
        (&"Healthy".into(), &"kubernetes".into())
    );
    for (revision, code, reason) in [
        ("4", 409, "Conflict"),
        ("5", 404, "NotFound"),
        ("6", 404, "NotFound"),
        ("9", 400, "BadRequest"),
    ] {
        let answer = health(&service, &of(revision));
        assert_eq!(
            answer.reason(),
            (code, reason.to_owned()),
            "{revision}: {answer:?}"
        );
    }
    // Its Backends and its Policy are nothing here, and where the node is in no cluster, these do not count.
    let success = (200, "Success".to_owned());
    assert_eq!(reasons("control01", "remove-etcd", "1"), success);
    assert_eq!(reasons("compute11", "decommission", "2"), success);
    assert_eq!(reasons("compute12", "remove-etcd", "6"), success);
    let heads = deckhand.heads.lock().unwrap();
    assert!(heads.iter().all(|head| {
        let token = format!("x-auth-token: {}\r\n", TOKEN.to_lowercase());
        head.starts_with("get /api/v1.0/revisions/") && head.contains(&token)
    }));
    assert!(!service.log().contains(TOKEN));
    let records = fixture.run(&["log", "--format", "json"]).with(0).stdout;
    assert!(!records.contains(TOKEN));
}

const SECRET: &str = "hunter2hunter2";

/// The answers of a Deckhand that wants more than it is asked for; `target`: where it leads to.
fn hostile(path: &str, target: &str) -> Option<Vec<u8>> {
    match path.split('/').nth(4).unwrap_or_default() {
        "301" => answer(
            "301 Moved Permanently",
            &format!("Location: {target}\r\n"),
            "",
        ),
        "401" => answer("401 Unauthorized", "", "no"),
        "500" => answer("500 Internal Server Error", "", "broken"),
        "1" => None,
        "2" => Some(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec()),
        "3" => answer("200 OK", "", &"# a comment that is long\n".repeat(800_000)),
        "4" => answer("200 OK", "", "<html><body>Sign in</body></html>"),
        "5" => answer("200 OK", "", &("[".repeat(100_000) + "\n")),
        "6" => answer("200 OK", "", &bomb()),
        "7" => {
            let broken = format!(
                "schema: deckhand/Passphrase/v1\nmetadata: {{name: p, storagePolicy: encrypted}}\ndata: {SECRET}\n---\n\
                 schema: drydock/BaremetalNode/v1\nmetadata: {{name: p, storagePolicy: encrypted}}\ndata: {{x: {SECRET}\n"
            );
            answer("200 OK", "", &broken)
        }
        "8" => Some(b"garbage".to_vec()),
        _ => answer("404 Not Found", "", ""),
    }
}

#[test]
fn only_listed_hosts_are_asked() {
    let fixture = deployed("");
    let elsewhere = StandIn::start(|_| answer("200 OK", "", "a: b\n"));
    let target = format!(
        "http://{}/api/v1.0/revisions/1/rendered-documents",
        elsewhere.address
    );
    let deckhand = StandIn::start(move |path| hostile(path, &target));
    let keystone = keystone();
    let origin = format!("http://{}", deckhand.address);
    let service = start(&fixture, &keystone, &[&origin], ", timeout: 2");
    let path = on("compute11", "remove-etcd");
    let other = format!("http://{}", elsewhere.address);
    let https = format!("https://{}", deckhand.address);
    for refused in [
        reference(&other, "1"),
        reference(&https, "1"),
        reference("http://127.0.0.1", "1"),
        reference(&origin, "x"),
        reference(&origin, "1?a=b"),
        reference(&origin.replace("http://", "http://a:b@"), "1"),
        format!("deckhand+{origin}/v3/auth/tokens"),
        "deckhand+file:///etc/passwd".to_owned(),
    ] {
        let answer = post(&service, &path, &refused);
        assert_eq!(
            answer.reason(),
            (400, "BadRequest".to_owned()),
            "{refused}: {answer:?}"
        );
        let answer = health(&service, &refused.replace('?', "%3F").replace('=', "%3D"));
        assert_eq!(
            answer.reason(),
            (400, "BadRequest".to_owned()),
            "{refused}: {answer:?}"
        );
    }
    assert_eq!((deckhand.asked(), elsewhere.asked()), (0, 0));
    // No token: it would be asked in no name.
    let body = json!({"href": reference(&origin, "404")}).to_string();
    let answer = service.request(
        "POST",
        &path,
        &[("Content-Type", "application/json")],
        &body,
    );
    assert_eq!(answer.reason(), (400, "BadRequest".to_owned()));
    assert!(answer.body.contains("X-Auth-Token"), "{answer:?}");
    assert_eq!(deckhand.asked(), 0);
    // Plans are made of this repository only.
    let order = json!({"revision": reference(&origin, "404")}).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("X-Auth-Token", TOKEN),
    ];
    assert_eq!(
        service
            .request("POST", "/api/v1/plans", &headers, &order)
            .code,
        400
    );
}

#[test]
fn answers_of_a_deckhand_are_bounded_and_lead_nowhere() {
    let fixture = deployed("");
    let elsewhere = StandIn::start(|_| answer("200 OK", "", "a: b\n"));
    let target = format!(
        "http://{}/api/v1.0/revisions/1/rendered-documents",
        elsewhere.address
    );
    let deckhand = StandIn::start(move |path| hostile(path, &target));
    let keystone = keystone();
    let origin = format!("http://{}", deckhand.address);
    let service = start(&fixture, &keystone, &[&origin], ", timeout: 2");
    let before = newest(&fixture);
    let path = on("compute11", "remove-etcd");
    for (revision, code, reason) in [
        ("301", 500, "RemoveEtcdError"),
        ("401", 400, "BadRequest"),
        ("404", 400, "BadRequest"),
        ("500", 500, "RemoveEtcdError"),
        ("1", 500, "RemoveEtcdError"),
        ("2", 500, "RemoveEtcdError"),
        ("3", 500, "RemoveEtcdError"),
        ("4", 500, "RemoveEtcdError"),
        ("5", 500, "RemoveEtcdError"),
        ("6", 500, "RemoveEtcdError"),
        ("7", 500, "RemoveEtcdError"),
        ("8", 500, "RemoveEtcdError"),
    ] {
        let began = Instant::now();
        let answer = post(&service, &path, &reference(&origin, revision));
        assert_eq!(
            answer.reason(),
            (code, reason.to_owned()),
            "{revision}: {answer:?}"
        );
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{revision}: {:?}",
            began.elapsed()
        );
        assert!(!answer.body.contains(SECRET), "{answer:?}");
        assert!(
            answer.body.len() < 8 << 10,
            "{revision}: {}",
            answer.body.len()
        );
        if reason == "RemoveEtcdError" {
            let answer = health(&service, &reference(&origin, revision));
            assert_eq!(
                answer.reason(),
                (500, "EtcdNotAccessible".to_owned()),
                "{revision}"
            );
        }
    }
    assert_eq!(elsewhere.asked(), 0, "a redirect was followed");
    assert_eq!(newest(&fixture), before);
    let log = service.log();
    assert!(!log.contains(SECRET) && !log.contains(TOKEN));
}

#[test]
fn the_certificate_of_a_deckhand_is_verified() {
    let fixture = deployed("");
    let text = rendered(&fixture);
    let (own, other) = (Authority::new(), Authority::new());
    let port = own.serve_once_each("localhost", move |_| answer("200 OK", "", &text).unwrap());
    let keystone = keystone();
    let origin = format!("https://localhost:{port}");
    let path = on("control01", "remove-etcd");
    for (authority, code) in [(&other, 500), (&own, 200)] {
        let ca = fixture.checkout.outside().join("deckhand.pem");
        std::fs::write(&ca, &authority.pem).unwrap();
        let service = start(&fixture, &keystone, &[&origin], ", ca: deckhand.pem");
        let answer = post(&service, &path, &reference(&origin, "1"));
        assert_eq!(answer.code, code, "{answer:?}");
    }
}
