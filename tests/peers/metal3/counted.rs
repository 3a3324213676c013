//! Counts what the program asks an API server for: stands before it, and passes everything on, up to a change at which the
//! program is to be killed.
//!
//! The program speaks to it in the clear, one request after the other on each connection; what the server
//! answers is not looked at.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// What was asked for, each as `VERB /path?query`.
type Requests = Arc<Mutex<Vec<String>>>;

/// A change of a Metal3 object that is answered no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Halt {
    /// Which one, from zero.
    pub(super) change: usize,
    /// The server gets it, and its answer is lost.
    pub(super) arrives: bool,
}

/// How far a halt is.
#[derive(Debug, Default)]
struct Halting {
    halt: Option<Halt>,
    /// Changes until then.
    seen: usize,
    /// Nothing more is passed on, in either direction.
    is_reached: bool,
}

impl Halting {
    /// Counts a request; the halt, if it is that of this request.
    fn on_request(&mut self, verb: &str, path: &str) -> Option<Halt> {
        if verb == "GET" || !path.starts_with("/apis/metal3.io/") {
            return None;
        }
        self.seen += 1;
        let halt = self.halt.filter(|halt| halt.change + 1 == self.seen)?;
        self.is_reached = true;
        Some(halt)
    }
}

/// Stands before an API server; ends when it is dropped.
pub(super) struct Counted {
    requests: Requests,
    halting: Arc<Mutex<Halting>>,
    _ends: oneshot::Sender<()>,
}

impl Counted {
    /// Before the server of a kubeconfig; gives a kubeconfig of its own.
    pub(super) fn before(kubeconfig: &Path) -> (Self, PathBuf) {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let document: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        let cluster = &document["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().unwrap().to_owned();
        let authority = cluster["certificate-authority"].as_str().unwrap();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority).unwrap() {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(tls));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Requests::default();
        let halting = Arc::<Mutex<Halting>>::default();
        let heard = (requests.clone(), halting.clone());
        let behind = server.replace("https://", "");
        let pass_all_on = async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((client, _)) = listener.accept().await {
                let (connector, behind, heard) = (connector.clone(), behind.clone(), heard.clone());
                tokio::spawn(pass_on(client, connector, behind, heard));
            }
        };
        // A thread of its own, since tests wait for the program without letting anything else run.
        let (ends, ended) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = pass_all_on => {}
                    _ = ended => {}
                }
            });
        });
        let path = kubeconfig.with_file_name("kubeconfig-counted");
        std::fs::write(&path, text.replace(&server, &format!("http://{address}"))).unwrap();
        let counted = Self {
            requests,
            halting,
            _ends: ends,
        };
        (counted, path)
    }

    /// Halts at a change, counted from now on; `None`: passes all on again.
    pub(super) fn halt_at(&self, halt: Option<Halt>) {
        *self.halting.lock().unwrap() = Halting {
            halt,
            ..Halting::default()
        };
    }

    /// Whether it has halted.
    pub(super) fn has_halted(&self) -> bool {
        self.halting.lock().unwrap().is_reached
    }

    /// What was asked for since the last time, without queries.
    pub(super) fn take(&self) -> Vec<String> {
        let asked = self.take_whole().into_iter();
        let path = |asked: String| asked.split('?').next().unwrap().to_owned();
        asked.map(path).collect()
    }

    /// What was asked for since the last time, with queries.
    pub(super) fn take_whole(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

/// Passes one connection on, and writes down each request; ends when either side does.
async fn pass_on(
    client: TcpStream,
    connector: TlsConnector,
    behind: String,
    (heard, halting): (Requests, Arc<Mutex<Halting>>),
) {
    let Ok(server) = TcpStream::connect(&behind).await else {
        return;
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let Ok(server) = connector.connect(name, server).await else {
        return;
    };
    let (from_server, mut to_server) = tokio::io::split(server);
    let (from_client, mut to_client) = client.into_split();
    let halted = halting.clone();
    let answers = async move {
        let (mut from_server, mut part) = (from_server, vec![0; 16 * 1024]);
        while let Ok(read @ 1..) = from_server.read(&mut part).await {
            if halted.lock().unwrap().is_reached {
                std::future::pending::<()>().await;
            }
            if to_client.write_all(&part[..read]).await.is_err() {
                return;
            }
        }
    };
    let asked = async move {
        let mut from_client = BufReader::new(from_client);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let start = head.len();
                match from_client.read_line(&mut head).await {
                    Ok(read) if read > 0 => {}
                    _ => return,
                }
                let line = head[start..].trim().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut words = head.split(' ');
            let (verb, path) = (words.next().unwrap(), words.next().unwrap());
            heard.lock().unwrap().push(format!("{verb} {path}"));
            let halt = halting.lock().unwrap().on_request(verb, path);
            let mut body = vec![0; length];
            if from_client.read_exact(&mut body).await.is_err() {
                return;
            }
            if halt.is_some_and(|halt| !halt.arrives) {
                std::future::pending::<()>().await;
            }
            let whole = [head.as_bytes(), &body].concat();
            if to_server.write_all(&whole).await.is_err() || to_server.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = answers => {}
        () = asked => {}
    }
}
