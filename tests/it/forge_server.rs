//! A stand-in of the comment APIs of GitHub (GraphQL) and GitLab (REST), over real HTTP on loopback.
//!
//! It keeps comments and issues, checks the token, and pages its lists. A test can answer any request in its place.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// The token that is accepted.
pub(crate) const TOKEN: &str = "forge-token-0123456789";
/// The account of the token.
pub(crate) const OWN: &str = "pipeline";

/// A request as received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) token: String,
    pub(crate) body: Value,
}

impl Received {
    /// A word of the operation: the mutation or field of GraphQL, or method and last part of the path.
    pub(crate) fn act(&self) -> String {
        let query = self.body["query"].as_str().unwrap_or_default();
        let acts = [
            "addComment",
            "updateIssueComment",
            "minimizeComment",
            "createIssue",
            "updateIssue",
            "closeIssue",
        ];
        if let Some(act) = acts.iter().find(|act| query.contains(&format!("{act}("))) {
            return (*act).to_owned();
        }
        if !query.is_empty() {
            return "list".to_owned();
        }
        let path = self.path.split('?').next().unwrap();
        format!("{} {}", self.method, path.rsplit('/').next().unwrap())
    }
}

/// A comment, a note or an issue.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: u64,
    pub(crate) author: String,
    pub(crate) title: String,
    pub(crate) body: String,
    /// Minimized, or closed.
    pub(crate) is_hidden: bool,
    pub(crate) is_issue: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) items: Vec<Item>,
    pub(crate) received: Vec<Received>,
    /// The head of every change.
    pub(crate) head: String,
    /// Entries of a page; GitHub's may be fewer than asked for.
    pub(crate) page: usize,
}

impl State {
    pub(crate) fn add(&mut self, author: &str, body: &str, title: Option<&str>) -> Item {
        let item = Item {
            id: self.items.len() as u64 + 1,
            author: author.to_owned(),
            title: title.unwrap_or_default().to_owned(),
            body: body.to_owned(),
            is_hidden: false,
            is_issue: title.is_some(),
        };
        self.items.push(item.clone());
        item
    }
}

/// Answers a request in the place of the stand-in: bytes as they are.
pub(crate) type Script = dyn FnMut(&Received, &mut State) -> Option<Vec<u8>> + Send;

/// A running stand-in; it ends when dropped.
pub(crate) struct ForgeServer {
    pub(crate) port: u16,
    pub(crate) state: Arc<Mutex<State>>,
    script: Arc<Mutex<Option<Box<Script>>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ForgeServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ForgeServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State {
            page: 100,
            ..State::default()
        }));
        let script: Arc<Mutex<Option<Box<Script>>>> = Arc::default();
        let ends = Arc::new(AtomicBool::new(false));
        let (shared, asked, ended) = (state.clone(), script.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                let (state, script) = (shared.clone(), asked.clone());
                // A connection that is broken off is its client's matter.
                std::thread::spawn(move || stream.ok().and_then(|s| serve(s, &state, &script)));
            }
        });
        Self {
            port,
            state,
            script,
            ends,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Answers requests in the place of the stand-in, until it returns `None`.
    pub(crate) fn script(
        &self,
        script: impl FnMut(&Received, &mut State) -> Option<Vec<u8>> + Send + 'static,
    ) {
        *self.script.lock().unwrap() = Some(Box::new(script));
    }

    /// Adds an entry that was there before.
    pub(crate) fn has(&self, author: &str, body: &str) -> u64 {
        self.state.lock().unwrap().add(author, body, None).id
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        self.state.lock().unwrap().items.clone()
    }

    /// The operations that were asked for, in their order.
    pub(crate) fn acts(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state.received.iter().map(Received::act).collect()
    }
}

/// An answer as bytes.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let mut text = format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    text.push_str("\r\n");
    text.push_str(&body);
    text.into_bytes()
}

fn received(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut token) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => token = value.trim_start_matches("Bearer ").to_owned(),
            "private-token" => token = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Received {
        method,
        path,
        token,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

fn serve(
    mut stream: TcpStream,
    state: &Mutex<State>,
    script: &Mutex<Option<Box<Script>>>,
) -> Option<()> {
    let request = received(&stream)?;
    let bytes = {
        let mut script = script.lock().unwrap();
        let mut state = state.lock().unwrap();
        state.received.push(request.clone());
        let scripted = script
            .as_mut()
            .and_then(|script| script(&request, &mut state));
        scripted.unwrap_or_else(|| respond(&request, &mut state))
    };
    stream.write_all(&bytes).ok()
}

/// What the service does with a request.
pub(crate) fn respond(request: &Received, state: &mut State) -> Vec<u8> {
    if request.token != TOKEN {
        return answer(401, &[], &json!({"message": "Bad credentials"}));
    }
    match request.path.as_str() {
        "/graphql" | "/api/graphql" => graphql(request, state),
        _ => rest(request, state),
    }
}

fn graphql(request: &Received, state: &mut State) -> Vec<u8> {
    let variables = &request.body["variables"];
    let text = |name: &str| variables[name].as_str().unwrap_or_default().to_owned();
    let made = |item: &Item| json!({"id": format!("N{}", item.id), "url": url(item)});
    let ok = |done: Value| answer(200, &[], &json!({"data": {"done": done}}));
    let find = |state: &mut State, edit: &dyn Fn(&mut Item)| {
        let id = variables["id"].as_str().unwrap_or_default();
        let found = state
            .items
            .iter_mut()
            .find(|item| format!("N{}", item.id) == id);
        // An account without rights on it may do nothing to another's entry.
        let found = found.filter(|item| item.author == OWN);
        found.map(|item| {
            edit(item);
            item.clone()
        })
    };
    let act = request.act();
    let item = match act.as_str() {
        "list" => return listed(request, state),
        "addComment" => {
            let item = state.add(OWN, &text("body"), None);
            return ok(json!({"commentEdge": {"node": made(&item)}}));
        }
        "createIssue" => {
            let item = state.add(OWN, &text("body"), Some(&text("title")));
            return ok(json!({"issue": made(&item)}));
        }
        "updateIssueComment" | "updateIssue" => find(state, &|item| item.body = text("body")),
        _ => find(state, &|item| item.is_hidden = true),
    };
    match item {
        None => answer(
            200,
            &[],
            &json!({"data": {"done": null}, "errors": [{"type": "FORBIDDEN", "message": "Resource not accessible by integration"}]}),
        ),
        Some(item) if act == "updateIssueComment" => ok(json!({"issueComment": made(&item)})),
        Some(_) if act == "minimizeComment" => {
            ok(json!({"minimizedComment": {"isMinimized": true}}))
        }
        Some(item) => ok(json!({"issue": made(&item)})),
    }
}

fn url(item: &Item) -> String {
    match item.is_issue {
        true => format!("https://github.example/site/edge/issues/{}", item.id),
        false => format!(
            "https://github.example/site/edge/pull/7#issuecomment-{}",
            item.id
        ),
    }
}

fn listed(request: &Received, state: &State) -> Vec<u8> {
    let variables = &request.body["variables"];
    let is_change = variables["number"].is_u64();
    let after = variables["after"]
        .as_str()
        .map_or(0, |after| after.parse().unwrap());
    let all = state.items.iter();
    let all: Vec<&Item> = all
        .filter(|item| item.is_issue != is_change && (is_change || !item.is_hidden))
        .collect();
    let nodes: Vec<Value> = all
        .iter()
        .skip(after)
        .take(state.page)
        .map(|item| {
            json!({"id": format!("N{}", item.id), "url": url(item), "body": item.body,
                "viewerDidAuthor": item.author == OWN, "isMinimized": item.is_hidden,
                "author": {"login": item.author}})
        })
        .collect();
    let end = after + nodes.len();
    let list = json!({"nodes": nodes,
        "pageInfo": {"hasNextPage": end < all.len(), "endCursor": end.to_string()}});
    let is_here = variables["owner"] == "site" && variables["name"] == "edge";
    let repository = match (is_here, is_change) {
        (false, _) => Value::Null,
        (true, false) => json!({"id": "R1", "list": list}),
        (true, true) if variables["number"] != 7 => json!({"pullRequest": null}),
        (true, true) => {
            json!({"pullRequest": {"id": "P7", "headRefOid": state.head, "list": list}})
        }
    };
    answer(200, &[], &json!({"data": {"repository": repository}}))
}

fn rest(request: &Received, state: &mut State) -> Vec<u8> {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let parts: Vec<&str> = path.trim_start_matches("/api/v4/").split('/').collect();
    let number = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(key, _)| *key == name);
        value.map_or(1, |(_, value)| value.parse::<usize>().unwrap())
    };
    let lost = answer(404, &[], &json!({"message": "404 Not found"}));
    let is_issue = parts.get(2) == Some(&"issues");
    let id = |at: usize| parts.get(at).and_then(|id| id.parse::<u64>().ok());
    match (request.method.as_str(), parts.as_slice()) {
        ("GET", ["user"]) => answer(200, &[], &json!({"id": 40, "username": OWN})),
        ("GET", ["projects", "3", "merge_requests", "7"]) => {
            answer(200, &[], &json!({"iid": 7, "sha": state.head}))
        }
        (
            "GET",
            ["projects", "3", "merge_requests", "7", "notes"] | ["projects", "3", "issues"],
        ) => {
            let (page, most) = (number("page"), number("per_page"));
            let all = state.items.iter();
            let all = all.filter(|item| item.is_issue == is_issue && !(is_issue && item.is_hidden));
            let shown: Vec<Value> = all.skip((page - 1) * most).take(most).map(noted).collect();
            answer(200, &[], &Value::Array(shown))
        }
        ("POST", ["projects", "3", "merge_requests", "7", "notes"]) => {
            let body = request.body["body"].as_str().unwrap_or_default();
            answer(201, &[], &noted(&state.add(OWN, body, None)))
        }
        ("POST", ["projects", "3", "issues"]) => {
            let text = |name: &str| request.body[name].as_str().unwrap_or_default();
            let item = state.add(OWN, text("description"), Some(text("title")));
            answer(201, &[], &noted(&item))
        }
        ("PUT", ["projects", "3", ..]) => {
            let id = if is_issue { id(3) } else { id(5) };
            let found = state.items.iter_mut().find(|item| Some(item.id) == id);
            let Some(item) = found.filter(|item| item.author == OWN) else {
                return answer(403, &[], &json!({"message": "403 Forbidden"}));
            };
            let body = ["body", "description"].map(|name| request.body[name].as_str());
            if let Some(body) = body.into_iter().flatten().next() {
                item.body = body.to_owned();
            }
            item.is_hidden |= request.body["state_event"] == "close";
            answer(200, &[], &noted(item))
        }
        _ => lost,
    }
}

fn noted(item: &Item) -> Value {
    let author = json!({"id": if item.author == OWN { 40 } else { 41 }, "username": item.author});
    match item.is_issue {
        true => json!({"id": item.id + 1_000, "iid": item.id, "title": item.title,
            "description": item.body, "author": author,
            "web_url": format!("https://gitlab.example/site/edge/-/issues/{}", item.id)}),
        false => json!({"id": item.id, "body": item.body, "author": author, "system": false}),
    }
}
