//! Who may call the service, and what each may do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::{Answer, Service, bytes, deployed, on};
use crate::fixture::Fixture;

/// Operations, and the least role that each needs, as a number.
const MATRIX: [(&str, &str, usize); 46] = [
    (
        "GET",
        "/api/v1.0/etcd-cluster-health-statuses?design_ref=committed",
        0,
    ),
    ("GET", "/api/v1/actions", 0),
    ("GET", "/", 0),
    ("GET", "/nodes", 0),
    ("GET", "/runs/01JB0000000000000000000000", 0),
    ("GET", "/api/v1/openapi.json", 0),
    ("GET", "/api/v1/sites", 0),
    ("GET", "/api/v1/status", 0),
    ("GET", "/api/v1/nodes", 0),
    ("GET", "/api/v1/nodes/nothing", 0),
    ("GET", "/api/v1/drift", 0),
    ("GET", "/api/v1/drift?observed=now", 1),
    ("GET", "/api/v1/plans", 0),
    ("GET", "/api/v1/plans/01JB0000000000000000000000", 0),
    ("POST", "/api/v1/plans", 1),
    ("POST", "/api/v1/plans/01JB0000000000000000000000/apply", 2),
    (
        "GET",
        "/api/v1/plans/01JB0000000000000000000000/explanation",
        0,
    ),
    (
        "GET",
        "/api/v1/runs/01JB0000000000000000000000/explanation",
        0,
    ),
    ("GET", "/api/v1/runs", 0),
    ("GET", "/api/v1/runs/01JB0000000000000000000000", 0),
    ("GET", "/api/v1/runs/01JB0000000000000000000000/progress", 0),
    ("GET", "/api/v1/runs/01JB0000000000000000000000/events", 0),
    ("POST", "/api/v1.0/nodes/nothing/drain", 1),
    ("POST", "/api/v1.0/nodes/nothing/clear-labels", 1),
    ("POST", "/api/v1.0/nodes/nothing/remove-etcd", 2),
    ("POST", "/api/v1.0/nodes/nothing/shutdown-kubelet", 2),
    ("POST", "/api/v1.0/nodes/nothing/remove-from-cluster", 2),
    ("POST", "/api/v1.0/nodes/nothing/decommission", 2),
    ("GET", "/api/v1.0/actions", 0),
    ("POST", "/api/v1.0/actions", 1),
    ("GET", "/api/v1.0/actions/01JB0000000000000000000000", 0),
    (
        "GET",
        "/api/v1.0/actions/01JB0000000000000000000000/validations/x",
        0,
    ),
    (
        "GET",
        "/api/v1.0/actions/01JB0000000000000000000000/steps/plan",
        0,
    ),
    (
        "GET",
        "/api/v1.0/actions/01JB0000000000000000000000/steps/plan/logs",
        0,
    ),
    (
        "POST",
        "/api/v1.0/actions/01JB0000000000000000000000/control/stop",
        2,
    ),
    ("GET", "/api/v1.0/notedetails/01JB0000000000000000000000", 0),
    ("GET", "/api/v1.0/workflows", 0),
    ("GET", "/api/v1.0/workflows/x__y", 0),
    ("GET", "/api/v1.0/site_statuses", 0),
    ("GET", "/api/v1.0/configdocs", 0),
    ("GET", "/api/v1.0/configdocs/racks?version=committed", 0),
    (
        "GET",
        "/api/v1.0/configdocs/racks?version=committed&cleartext-secrets=true",
        2,
    ),
    ("POST", "/api/v1.0/configdocs/racks", 2),
    ("POST", "/api/v1.0/commitconfigdocs", 2),
    ("GET", "/api/v1.0/renderedconfigdocs?version=committed", 0),
    (
        "GET",
        "/api/v1.0/renderedconfigdocs?version=committed&cleartext-secrets=true",
        2,
    ),
];

/// Shipyard's actions, and the least role that each needs.
const ACTIONS: [(&str, usize); 6] = [
    ("deploy_site", 2),
    ("update_site", 2),
    ("update_software", 2),
    ("redeploy_server", 2),
    ("relabel_nodes", 1),
    ("test_site", 1),
];

/// The code of a refusal and its word, which Promenade's status object has as its reason, and Shipyard's as its message.
#[track_caller]
fn why(path: &str, answer: &Answer) -> (u16, String) {
    let shipyard = [
        "actions",
        "configdocs",
        "workflows",
        "notedetails",
        "site_statuses",
    ];
    let below = path.strip_prefix("/api/v1.0/");
    match below.is_some_and(|path| {
        shipyard.iter().any(|name| path.starts_with(name)) || path.contains("configdocs")
    }) {
        true => {
            let body = answer.json();
            assert!(
                body["code"]
                    .as_str()
                    .unwrap()
                    .starts_with(&answer.code.to_string())
            );
            (answer.code, body["message"].as_str().unwrap().to_owned())
        }
        false => answer.reason(),
    }
}

const ROLES: [&str; 3] = ["viewer", "operator", "admin"];

/// Writes a file outside of the checkout.
fn outside(fixture: &Fixture, name: &str, text: &str) -> PathBuf {
    let path = fixture.checkout.outside().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn start(fixture: &Fixture, config: &str, listen: &str) -> Service {
    let config = outside(fixture, "serve.yaml", config);
    Service::start(
        fixture,
        &["--config", config.to_str().unwrap(), "--listen", listen],
    )
}

#[test]
fn each_role_does_what_it_may_and_no_more() {
    let fixture = deployed("");
    let uid = rustix::process::getuid().as_raw();
    let socket = fixture.checkout.outside().join("s");
    for (position, role) in ROLES.into_iter().enumerate() {
        for (config, listen) in [
            (format!("loopback: {role}"), "127.0.0.1:0".to_owned()),
            (
                format!("peers: {{{uid}: {role}}}"),
                format!("unix:{}", socket.display()),
            ),
        ] {
            let service = start(&fixture, &config, &listen);
            for (method, path, least) in MATRIX {
                let answer = service.request(method, path, &[("X-Roles", "admin")], "");
                let is_refused = answer.code == 403;
                assert_eq!(is_refused, position < least, "{role} {path}: {answer:?}");
                if is_refused {
                    assert_eq!(why(path, &answer), (403, "Forbidden".to_owned()));
                }
                assert_ne!(answer.code, 401, "{role} {path}: {answer:?}");
            }
        }
    }
}

#[test]
fn each_action_of_shipyard_s_has_a_least_role_of_its_own() {
    let fixture = deployed("");
    for (position, role) in ROLES.into_iter().enumerate() {
        let service = start(&fixture, &format!("loopback: {role}"), "127.0.0.1:0");
        for (name, least) in ACTIONS {
            // Parameters that would be refused: nothing is begun.
            let body =
                format!("{{\"name\": \"{name}\", \"parameters\": {{\"continue-on-fail\": 7}}}}");
            let answer = service.request("POST", "/api/v1.0/actions", &[], &body);
            let code = if position < least { 403 } else { 400 };
            assert_eq!(answer.code, code, "{role} {name}: {answer:?}");
        }
    }
}

#[test]
fn certificates_have_the_roles_of_their_names_at_every_endpoint() {
    let fixture = deployed("");
    let own = Authority::new();
    let (certificate, key) = own.dns("localhost");
    for (name, text) in [
        ("server.pem", &certificate),
        ("server.key", &key),
        ("ca.pem", &own.pem),
    ] {
        outside(&fixture, name, text);
    }
    let config = "tls: {certificate: server.pem, key: server.key, client_ca: ca.pem}\n\
                  certificates: {'dns:viewer.example': viewer, 'dns:operator.example': operator, 'dns:admin.example': admin}\n\
                  limits: {requests_per_second: 1000}\n";
    let service = start(&fixture, config, "127.0.0.1:0");
    for (position, role) in ROLES.into_iter().enumerate() {
        let identity = own.dns(&format!("{role}.example"));
        for (method, path, least) in MATRIX {
            let request = bytes(method, path, &[], "");
            let answer = over_tls(service.address(), &own.pem, Some(&identity), &request).unwrap();
            assert_eq!(
                answer.code == 403,
                position < least,
                "{role} {path}: {answer:?}"
            );
        }
    }
}

#[test]
fn whoever_is_not_known_is_refused_and_may_ask_for_health() {
    let fixture = deployed("");
    let uid = rustix::process::getuid().as_raw() + 1;
    let socket = format!("unix:{}", fixture.checkout.outside().join("s").display());
    let limits = "limits: {requests_per_second: 1000}";
    let service = start(
        &fixture,
        &format!("peers: {{{uid}: admin}}\n{limits}\n"),
        &socket,
    );
    let forged = [
        ("X-Identity-Status", "Confirmed"),
        ("X-Roles", "admin"),
        ("X-User-Name", "root"),
    ];
    for (method, path, _) in MATRIX.into_iter().chain([("GET", "/metrics", 0)]) {
        let answer = service.request(method, path, &forged, "");
        let wanted = (401, "Unauthenticated".to_owned());
        assert_eq!(why(path, &answer), wanted, "{path}");
        assert!(answer.header("www-authenticate").is_some());
    }
    for token in [
        ("X-Auth-Token", "x"),
        ("Authorization", "Bearer x"),
        ("Authorization", "Basic cm9vdDo="),
    ] {
        assert_eq!(
            service.request("GET", "/api/v1/actions", &[token], "").code,
            401
        );
    }
    assert_eq!(
        (service.get("/healthz").code, service.get("/readyz").code),
        (200, 200)
    );
}

#[test]
fn a_page_of_another_site_sends_nothing_through_a_browser() {
    let fixture = deployed("");
    let service = start(&fixture, "loopback: admin", "127.0.0.1:0");
    let path = on("compute11", "drain");
    for headers in [
        [("Origin", "http://evil.example")],
        [("Sec-Fetch-Site", "cross-site")],
    ] {
        let answer = service.request("POST", &path, &headers, "");
        assert_eq!(
            answer.reason(),
            (403, "Forbidden".to_owned()),
            "{headers:?}"
        );
    }
    // A name of its own that leads here.
    let request = "GET /api/v1/actions HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let answer = Answer::parse(&super::exchange(service.address(), request.as_bytes()));
    assert_eq!(answer.reason(), (401, "Unauthenticated".to_owned()));
    assert_eq!(service.get("/api/v1/actions").body, "[]\n");
}

#[test]
fn a_service_never_listens_openly() {
    let fixture = deployed("");
    let serve = |arguments: &[&str]| fixture.run(&[&["serve"], arguments].concat());
    serve(&["--listen", "127.0.0.1:0"])
        .with(64)
        .saying("no caller of `127.0.0.1:0` can be authenticated");
    for address in ["0.0.0.0:0", "[::]:0"] {
        serve(&["--listen", address])
            .with(64)
            .saying("TLS is not configured");
    }
    serve(&["--listen", "example.org:80"])
        .with(64)
        .saying("neither a Unix socket nor");
    for (config, words) in [
        ("loopback: admin", "TLS is not configured"),
        (
            "tls: {certificate: c, key: k}\nloopback: admin",
            "no authentication is configured",
        ),
        ("peer: {}", "unknown field `peer`"),
        ("peers: {x: admin}", "peers"),
    ] {
        outside(&fixture, "c", "");
        outside(&fixture, "k", "");
        let path = outside(&fixture, "serve.yaml", config);
        serve(&["--config", path.to_str().unwrap(), "--listen", "0.0.0.0:0"])
            .with(64)
            .saying(words);
    }
    fixture.checkout.write("serve.yaml", "loopback: admin");
    serve(&["--config", "serve.yaml", "--listen", "127.0.0.1:0"])
        .with(64)
        .saying("lie in the checkout");
    serve(&["--config", "/nothing.yaml"])
        .with(1)
        .saying("cannot be read");
}

/// Certificates for a service and its callers.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(parameters, key),
            pem,
        }
    }

    /// A certificate with its key.
    fn issue(&self, names: Vec<SanType>) -> (String, String) {
        self.issue_with(names, |_| {})
    }

    /// The same with something else about it.
    fn issue_with(
        &self,
        names: Vec<SanType>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.subject_alt_names = names;
        change(&mut parameters);
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn dns(&self, name: &str) -> (String, String) {
        self.issue(vec![SanType::DnsName(name.try_into().unwrap())])
    }

    /// Answers requests over TLS under a name, one on each connection; the port.
    pub(super) fn serve_once_each(
        &self,
        name: &str,
        answer: impl Fn(&str) -> Vec<u8> + Send + 'static,
    ) -> u16 {
        let (certificate, key) = self.dns(name);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let session = rustls::ServerConnection::new(config.clone()).unwrap();
                let mut stream = rustls::StreamOwned::new(session, socket.unwrap());
                let mut read = [0; 4096];
                // A client that does not trust the certificate sends nothing.
                let Ok(length) = stream.read(&mut read) else {
                    continue;
                };
                let head = String::from_utf8_lossy(&read[..length]).into_owned();
                let _ = stream.write_all(&answer(&head));
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        port
    }
}

/// Sends a request over TLS; `None`: the connection came to nothing.
fn over_tls(
    address: &str,
    ca: &str,
    identity: Option<&(String, String)>,
    request: &[u8],
) -> Option<Answer> {
    over_tls_as(address, ("localhost", ca), identity, request)
}

/// The same to a service of another name.
pub(crate) fn over_tls_as(
    address: &str,
    (name, ca): (&str, &str),
    identity: Option<&(String, String)>,
    request: &[u8],
) -> Option<Answer> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream.write_all(request).ok()?;
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read);
    let text = String::from_utf8(read).unwrap();
    (!text.is_empty()).then(|| Answer::parse(&text))
}

#[test]
fn a_certificate_proves_its_holder() {
    let fixture = deployed("");
    let (own, other) = (Authority::new(), Authority::new());
    let (certificate, key) = own.dns("localhost");
    for (name, text) in [
        ("server.pem", &certificate),
        ("server.key", &key),
        ("ca.pem", &own.pem),
    ] {
        outside(&fixture, name, text);
    }
    let config = "tls: {certificate: server.pem, key: server.key, client_ca: ca.pem}\n\
                  certificates: {'dns:ship.example': operator, 'uri:spiffe://site/watch': viewer}\n";
    // Any address: there is TLS, and callers are authenticated.
    let service = start(&fixture, config, "0.0.0.0:0");
    let address = service.address().replace("0.0.0.0", "127.0.0.1");
    let ask = |identity: Option<&(String, String)>, method: &str, path: &str| {
        let answer = over_tls(&address, &own.pem, identity, &bytes(method, path, &[], ""));
        answer.map(|answer| answer.code)
    };
    let ship = own.dns("ship.example");
    let uri = own.issue(vec![SanType::URI(
        "spiffe://site/watch".try_into().unwrap(),
    )]);
    let drain = on("nothing", "drain");
    assert_eq!(ask(Some(&ship), "POST", &drain), Some(404));
    assert_eq!(
        ask(Some(&ship), "POST", &on("nothing", "decommission")),
        Some(403)
    );
    assert_eq!(ask(Some(&uri), "GET", "/api/v1/actions"), Some(200));
    assert_eq!(ask(Some(&uri), "POST", &drain), Some(403));
    assert_eq!(
        ask(Some(&own.dns("stranger.example")), "GET", "/api/v1/actions"),
        Some(401)
    );
    // Without a certificate a probe is answered, and nothing else is.
    assert_eq!(ask(None, "GET", "/healthz"), Some(200));
    assert_eq!(ask(None, "GET", "/api/v1/actions"), Some(401));
    assert_eq!(ask(None, "POST", &drain), Some(401));
    // With one of another authority the connection comes to nothing.
    assert_eq!(
        ask(Some(&other.dns("ship.example")), "GET", "/healthz"),
        None
    );
    // Nor does anything but TLS.
    let plain = super::exchange(&address, &bytes("GET", "/healthz", &[], ""));
    assert!(!plain.contains("HTTP/1.1 2"), "{plain}");
    let recorded = fixture.run(&["log", "--format", "json"]).with(0).json();
    assert!(recorded["runs"][0]["requested"].is_null());
}

#[test]
fn a_certificate_counts_in_its_time_and_for_its_use() {
    let fixture = deployed("");
    let own = Authority::new();
    let (certificate, key) = own.dns("localhost");
    for (name, text) in [
        ("server.pem", &certificate),
        ("server.key", &key),
        ("ca.pem", &own.pem),
    ] {
        outside(&fixture, name, text);
    }
    let config = "tls: {certificate: server.pem, key: server.key, client_ca: ca.pem}\n\
                  certificates: {'dns:ship.example': admin}\n";
    let service = start(&fixture, config, "127.0.0.1:0");
    let ask = |identity: &(String, String)| {
        let request = bytes("GET", "/api/v1/actions", &[], "");
        let answer = over_tls(service.address(), &own.pem, Some(identity), &request);
        answer.map(|answer| answer.code)
    };
    let ship = || vec![SanType::DnsName("ship.example".try_into().unwrap())];
    let with = |change: &dyn Fn(&mut CertificateParams)| own.issue_with(ship(), change);
    let for_use = |usage: ExtendedKeyUsagePurpose| {
        with(&move |parameters| parameters.extended_key_usages = vec![usage.clone()])
    };
    assert_eq!(ask(&with(&|_| {})), Some(200));
    assert_eq!(
        ask(&for_use(ExtendedKeyUsagePurpose::ClientAuth)),
        Some(200)
    );
    for (what, identity) in [
        (
            "expired",
            with(&|each| each.not_after = rcgen::date_time_ymd(2020, 1, 1)),
        ),
        (
            "not valid yet",
            with(&|each| each.not_before = rcgen::date_time_ymd(2999, 1, 1)),
        ),
        ("of a server", for_use(ExtendedKeyUsagePurpose::ServerAuth)),
        (
            "of a program",
            for_use(ExtendedKeyUsagePurpose::CodeSigning),
        ),
        (
            "of an authority",
            with(&|each| each.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
        ),
    ] {
        assert_eq!(ask(&identity), None, "{what}");
    }
    // A name that only looks like the one that is known.
    for name in ["*.example", "ship.example.evil.example", "SHIP.example.org"] {
        let other = own.dns(name);
        assert_eq!(ask(&other), Some(401), "{name}");
    }
    // The common name is no name.
    let common = own.issue_with(Vec::new(), |each| {
        each.distinguished_name
            .push(DnType::CommonName, "ship.example");
    });
    assert_eq!(ask(&common), Some(401));
}
