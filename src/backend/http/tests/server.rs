//! A service of the tests' own that answers as it is told, also as no good service would.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedKey, IsCa, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::backend::http::Fingerprint;

/// A request as received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl Received {
    /// `METHOD path`.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// An answer to send.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A status, headers and JSON (nothing for null).
    Json(u16, Vec<(&'static str, String)>, Value),
    /// Bytes as they are; then the connection is closed.
    Raw(Vec<u8>),
    /// Bytes as they are, and then the last of them for ever.
    Endless(Vec<u8>),
    /// After a time.
    Late(Duration, Box<Self>),
    /// Never.
    Silent,
}

impl Reply {
    pub(crate) fn json(status: u16, value: Value) -> Self {
        Self::Json(status, Vec::new(), value)
    }
}

type Handler = dyn Fn(&Received) -> Reply + Send + Sync;

/// A certificate and its key.
type Made = CertifiedKey<rcgen::KeyPair>;

/// A running service; it ends when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    /// Its certificate as PEM, if it speaks TLS.
    pub(crate) certificate: Option<String>,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// All that came in.
    pub(crate) received: Arc<Mutex<Vec<Received>>>,
    /// How many connections were made.
    pub(crate) connections: Arc<Mutex<usize>>,
    /// How many requests came in.
    count: Arc<watch::Sender<usize>>,
    task: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts without TLS.
    pub(crate) async fn plain(
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(Arc::new(handler), None).await
    }

    /// Starts with TLS, with a certificate for this name.
    pub(crate) async fn tls(
        name: &str,
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let made = generate_simple_self_signed([name.to_owned()]).unwrap();
        Self::start(Arc::new(handler), Some(made)).await
    }

    /// Starts with TLS, as an authority that is its own server, as controllers sign their own; `until`:
    /// the year in which that ends.
    pub(crate) async fn authority(
        name: &str,
        until: i32,
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
        let signing_key = rcgen::KeyPair::generate().unwrap();
        let cert = parameters.self_signed(&signing_key).unwrap();
        let made = CertifiedKey { cert, signing_key };
        Self::start(Arc::new(handler), Some(made)).await
    }

    /// Starts without TLS on all addresses of this machine; its URL has none of them.
    pub(crate) async fn everywhere(
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start_at("0.0.0.0:0", Arc::new(handler), None).await
    }

    async fn start(handler: Arc<Handler>, made: Option<Made>) -> Self {
        Self::start_at("127.0.0.1:0", handler, made).await
    }

    #[expect(clippy::excessive_nesting, reason = "a server in one expression")]
    async fn start_at(at: &str, handler: Arc<Handler>, made: Option<Made>) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = made.as_ref().map(acceptor);
        let received = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let (log, counter) = (received.clone(), connections.clone());
        let count = Arc::new(watch::Sender::new(0));
        let counted = count.clone();
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                *counter.lock().unwrap() += 1;
                let (handler, log, acceptor) = (handler.clone(), log.clone(), acceptor.clone());
                let handler = {
                    let counted = counted.clone();
                    move |received: &Received| {
                        counted.send_modify(|count| *count += 1);
                        handler(received)
                    }
                };
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, &handler, &log).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream, &handler, &log).await;
                            }
                        }
                    }
                });
            }
        });
        let scheme = if made.is_some() { "https" } else { "http" };
        Self {
            url: format!("{scheme}://{address}"),
            certificate: made.as_ref().map(|made| made.cert.pem()),
            fingerprint: made.as_ref().map(|made| Fingerprint::of(made.cert.der())),
            received,
            connections,
            count,
            task: task.abort_handle(),
        }
    }

    /// Waits until so many requests have come in.
    pub(crate) async fn has_received(&self, count: usize) {
        let mut counted = self.count.subscribe();
        counted.wait_for(|came| *came >= count).await.unwrap();
    }

    /// The lines of all that came in.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.received
            .lock()
            .unwrap()
            .iter()
            .map(Received::line)
            .collect()
    }
}

fn acceptor(made: &Made) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: &Handler,
    log: &Mutex<Vec<Received>>,
) {
    let mut stream = BufReader::new(stream);
    loop {
        let Some(received) = read(&mut stream).await else {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return;
        };
        log.lock().unwrap().push(received.clone());
        let mut reply = handler(&received);
        while let Reply::Late(time, then) = reply {
            tokio::time::sleep(time).await;
            reply = *then;
        }
        let bytes = match reply {
            Reply::Json(status, headers, value) => written(status, &headers, &value),
            Reply::Raw(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
            Reply::Endless(bytes) => {
                let last = vec![*bytes.last().unwrap(); 1 << 16];
                let _ = stream.write_all(&bytes).await;
                while stream.write_all(&last).await.is_ok() {}
                return;
            }
            Reply::Late(..) | Reply::Silent => std::future::pending().await,
        };
        if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

fn written(status: u16, headers: &[(&str, String)], value: &Value) -> Vec<u8> {
    let body = match value {
        Value::Null => String::new(),
        value => value.to_string(),
    };
    let length = match status {
        204 => String::new(),
        _ => format!("content-length: {}\r\n", body.len()),
    };
    let headers: String = headers
        .iter()
        .map(|(name, value)| [name, ": ", value, "\r\n"].concat())
        .collect();
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{length}{headers}");
    format!("{head}\r\n{body}").into_bytes()
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
        if !head[0].is_ascii_alphabetic() {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length");
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(Received {
        method,
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}
