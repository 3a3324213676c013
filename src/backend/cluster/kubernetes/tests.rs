//! The backend before a server that answers what a test says: what no real one does when it is wanted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use kube::api::ListParams;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::NODES;
use super::budget::BudgetVersion;
use super::discovery;
use super::evict::{Answer, evict};
use super::object::Node;
use super::shutdown;
use crate::backend::api_server::{ApiError, Server};
use crate::observed::PodName;

/// Answers in order, and what they were asked with.
#[derive(Clone, Default)]
struct Canned {
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    /// A server that gives these answers, one a request.
    async fn server(answers: &[(u16, Value)]) -> (Server, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let canned = Self::default();
        let answers = answers.iter().map(|(status, body)| match body {
            Value::String(text) => (*status, text.clone()),
            body => (*status, body.to_string()),
        });
        canned.answers.lock().unwrap().extend(answers);
        let all = canned.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(all.clone().serve(stream));
            }
        });
        let mut config = Config::new(format!("http://{address}").parse().unwrap());
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        (Server::new(client, Arc::from("kubernetes"), None), canned)
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        let mut chunk = [0_u8; 4096];
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.parse().ok())?
                });
                body.len() >= length.unwrap_or(0)
            });
            if whole {
                bytes.clear();
                self.requests.lock().unwrap().push(text);
                let answer = self.answers.lock().unwrap().pop_front();
                let (status, body) = answer.unwrap_or((500, "no more answers".to_owned()));
                let head = format!(
                    "HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(body.as_bytes()).await;
                continue;
            }
            match stream.read(&mut chunk).await {
                Ok(count) if count > 0 => bytes.extend_from_slice(&chunk[..count]),
                _ => return,
            }
        }
    }

    /// The first lines of what was asked for.
    fn asked(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let lines = requests
            .iter()
            .map(|text| text.lines().next().unwrap_or_default().to_owned());
        lines.collect()
    }
}

fn page(names: &[&str], next: &str) -> Value {
    let items: Vec<_> = names
        .iter()
        .map(|name| json!({"metadata": {"name": name}}))
        .collect();
    json!({"kind": "NodeList", "metadata": {"continue": next, "resourceVersion": "7"}, "items": items})
}

async fn names(server: &Server) -> Result<Vec<Arc<str>>, ApiError> {
    let take = |names: &mut Vec<_>, node: Node| names.push(node.metadata.name);
    let list = server
        .list(NODES, &ListParams::default(), Vec::new, take)
        .await;
    list.map(|(names, _)| names)
}

fn gone() -> (u16, Value) {
    (
        410,
        json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}),
    )
}

#[tokio::test]
async fn a_list_that_the_server_forgot_is_begun_anew_and_not_for_ever() {
    let first = (200, page(&["a", "b"], "more"));
    let answers = [
        first.clone(),
        gone(),
        (200, page(&["b"], "rest")),
        (200, page(&["c"], "")),
    ];
    let (server, canned) = Canned::server(&answers).await;
    let found = names(&server).await.unwrap();
    assert_eq!(
        found.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["b", "c"]
    );
    let asked = canned.asked();
    assert_eq!(asked[0], "GET /api/v1/nodes?&limit=500 HTTP/1.1");
    assert_eq!(
        asked[1],
        "GET /api/v1/nodes?&limit=500&continue=more HTTP/1.1"
    );
    assert_eq!(asked[2], asked[0]);

    let answers: Vec<_> = std::iter::repeat_n([first, gone()], 9).flatten().collect();
    let (server, canned) = Canned::server(&answers).await;
    let error = names(&server).await.unwrap_err();
    assert_eq!(error.code(), Some(410));
    assert_eq!(canned.asked().len(), 10);
}

#[tokio::test]
async fn a_list_without_an_end_and_what_is_no_list_are_errors() {
    let round = (200, page(&["a"], "more"));
    let (server, _) = Canned::server(&[round.clone(), round.clone(), round]).await;
    let error = names(&server).await.unwrap_err();
    assert!(error.to_string().contains("comes round"), "{error}");

    let pages = (0..100).map(|number| (200, page(&[], &number.to_string())));
    let (server, canned) = Canned::server(&pages.collect::<Vec<_>>()).await;
    let error = names(&server).await.unwrap_err();
    assert!(
        error.to_string().contains("no end within 64 pages"),
        "{error}"
    );
    assert_eq!(canned.asked().len(), 64);

    let (server, _) = Canned::server(&[(200, json!("<html>not here</html>"))]).await;
    assert!(matches!(names(&server).await, Err(ApiError::Unreadable(_))));
    let null = (200, json!({"metadata": null, "items": null}));
    let (server, _) = Canned::server(&[null]).await;
    assert!(names(&server).await.unwrap().is_empty());

    let (server, _) = Canned::server(&[(502, json!("<html>bad gateway</html>"))]).await;
    let error = names(&server).await.unwrap_err();
    assert!(error.passes());
    assert!(error.to_string().contains("502"), "{error}");
}

#[tokio::test]
async fn evictions_and_budgets_are_asked_for_in_the_version_that_the_server_has() {
    let core = |version: &str| {
        let eviction = json!({"name": "pods/eviction", "group": "policy", "version": version});
        (200, json!({"resources": [{"name": "pods"}, eviction]}))
    };
    let policy = |versions: &[&str]| {
        let versions: Vec<_> = versions
            .iter()
            .map(|version| json!({"version": version}))
            .collect();
        (200, json!({"name": "policy", "versions": versions}))
    };
    // 1.20, 1.21 (budgets first), 1.22 to 1.24, since 1.25.
    for (eviction, budgets, expected) in [
        (
            "v1beta1",
            &["v1beta1"][..],
            ("policy/v1beta1", BudgetVersion::V1Beta1),
        ),
        (
            "v1beta1",
            &["v1", "v1beta1"],
            ("policy/v1beta1", BudgetVersion::V1),
        ),
        ("v1", &["v1", "v1beta1"], ("policy/v1", BudgetVersion::V1)),
        ("v1", &["v1"], ("policy/v1", BudgetVersion::V1)),
    ] {
        let (server, _) = Canned::server(&[core(eviction), policy(budgets)]).await;
        let eviction = discovery::eviction(&server).await.unwrap();
        let budgets = discovery::budgets(&server).await.unwrap();
        assert_eq!((&*eviction, budgets), expected);
    }
}

#[tokio::test]
async fn an_eviction_names_the_pod_by_its_uid_and_its_time_to_end() {
    let (server, canned) = Canned::server(&[(201, json!({"kind": "Status"}))]).await;
    let pod = PodName {
        namespace: Arc::from("web"),
        name: Arc::from("front-1"),
        uid: Arc::from("u-1"),
    };
    let answer = evict(&server, "policy/v1", &pod, 1800).await.unwrap();
    assert_eq!(answer, Answer::Accepted);
    let request = canned.requests.lock().unwrap()[0].clone();
    assert!(
        request.starts_with("POST /api/v1/namespaces/web/pods/front-1/eviction?"),
        "{request}"
    );
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let expected = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "front-1", "namespace": "web"},
        "deleteOptions": {"gracePeriodSeconds": 1800, "preconditions": {"uid": "u-1"}}});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_server_that_hides_the_daemon_set_is_an_error_and_not_taken_for_one_without() {
    let forbidden = (
        403,
        json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}),
    );
    let missing = (
        404,
        json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
    );
    let (server, _) = Canned::server(&[forbidden, missing]).await;
    let error = shutdown::is_applied(&server, "a:1").await.unwrap_err();
    assert!(!error.passes());
    assert!(error.to_string().contains("docs/kubernetes.md"), "{error}");
    assert!(!shutdown::is_applied(&server, "a:1").await.unwrap());
}
