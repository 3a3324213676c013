//! HTTP for the stand-in: requests with forms, and answers that may be lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// A request as received.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) method: String,
    /// Without its query.
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) form: Vec<(String, String)>,
}

impl Received {
    /// The operation in its query, or the method.
    pub(super) fn operation(&self) -> Option<&str> {
        first(&self.query, "op")
    }

    /// A field of its form.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        first(&self.form, name)
    }

    /// All values of a field of its form.
    pub(super) fn fields(&self, name: &str) -> Vec<&str> {
        let pairs = self.form.iter().filter(|(key, _)| key == name);
        pairs.map(|(_, value)| value.as_str()).collect()
    }

    /// All values in its query.
    pub(super) fn asked(&self, name: &str) -> Vec<&str> {
        let pairs = self.query.iter().filter(|(key, _)| key == name);
        pairs.map(|(_, value)| value.as_str()).collect()
    }
}

fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let pair = pairs.iter().find(|(key, _)| key == name);
    pair.map(|(_, value)| value.as_str())
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

/// What becomes of a request.
pub(super) enum Reply {
    Answer(Answer),
    /// The connection is closed.
    Closed,
    /// Nothing comes, ever.
    Silent,
}

/// A running server; it ends when it is dropped.
pub(super) struct Server {
    pub(super) url: String,
    task: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) async fn start(
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/MAAS", listener.local_addr().unwrap());
        let handler = Arc::new(handler);
        let serve = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let handler = handler.clone();
                tokio::spawn(async move { one_connection(stream, &*handler).await });
            }
        };
        let task = tokio::spawn(serve).abort_handle();
        Self { url, task }
    }
}

async fn one_connection(stream: TcpStream, handler: &(impl Fn(&Received) -> Reply + Sync)) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    while let Some(received) = read(&mut from).await {
        match handler(&received) {
            Reply::Closed => return,
            Reply::Silent => std::future::pending().await,
            Reply::Answer(answer) => {
                if to.write_all(&written(&answer)).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn written(answer: &Answer) -> Vec<u8> {
    let headers = answer.headers.iter();
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = match answer.status {
        204 => String::new(),
        _ => format!("content-length: {}\r\n", answer.body.len()),
    };
    let Answer { status, body, .. } = answer;
    format!("HTTP/1.1 {status} X\r\n{length}{headers}\r\n{body}").into_bytes()
}

async fn read(from: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Option<Received> {
    let mut line = String::new();
    from.read_line(&mut line)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    from.read_exact(&mut body).await.ok()?;
    let kind = headers.get("content-type").cloned().unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Received {
        method,
        path: path.to_owned(),
        query: pairs(query),
        headers,
        form: match kind.split_once("boundary=") {
            Some((_, boundary)) => parts(&body, boundary.trim_matches('"')),
            None => pairs(&body),
        },
    })
}

/// Pairs of a query or of an urlencoded form.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                let digits = String::from_utf8_lossy(&digits).into_owned();
                u8::from_str_radix(&digits, 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The parts of a multipart form.
fn parts(body: &str, boundary: &str) -> Vec<(String, String)> {
    let mark = format!("--{boundary}");
    let part = |section: &str| {
        let (head, value) = section.split_once("\r\n\r\n")?;
        let (_, name) = head.split_once("name=\"")?;
        let (name, _) = name.split_once('"')?;
        // Clients of Python encode the whole part by base64.
        let value = value.strip_suffix("\r\n").unwrap_or(value);
        let is_encoded = head
            .to_ascii_lowercase()
            .contains("content-transfer-encoding: base64");
        let value = match is_encoded {
            true => {
                let packed: String = value.split_whitespace().collect();
                let bytes = data_encoding::BASE64.decode(packed.as_bytes()).ok()?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
            false => value.to_owned(),
        };
        Some((name.to_owned(), value))
    };
    body.split(&mark).filter_map(part).collect()
}
