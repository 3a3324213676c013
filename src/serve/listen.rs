//! Connections: addresses, TLS, and bounds in number, size and time.
//!
//! A connection that sends its headers too slowly, or too many of them, is closed by the HTTP library; so is one that is
//! idle. Beyond the most connections at once further ones wait to be accepted; those of one address that have sent no
//! request yet are bounded besides.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Extension, Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::address::Address;
use super::certificate::{Names, names};
use super::error::Error;
use super::waiting::{Ticket, Waiting};

/// The pause after a connection could not be accepted: no file is free just now.
const PAUSE: Duration = Duration::from_millis(100);

/// How far connections go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at once.
    pub connections: usize,
    /// Most bytes of the headers of a request.
    pub header_bytes: usize,
    /// Most headers of a request.
    pub headers: usize,
    /// Until the headers of a request are complete, TLS included; also how long a connection may be idle.
    pub header_time: Duration,
    /// How long running requests are waited for after a stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            header_bytes: 16 << 10,
            headers: 64,
            header_time: Duration::from_secs(10),
            drain: Duration::from_secs(5),
        }
    }
}

/// The caller at the other end of a connection, as the system and TLS know it.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// A process of this machine.
    #[cfg(unix)]
    Unix {
        /// Its user.
        uid: u32,
    },
    /// A connection to a port.
    Tcp {
        /// The other end.
        address: SocketAddr,
        /// The names of its certificate, if it has one that was verified.
        certificate: Option<Arc<Names>>,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(unix)]
            Self::Unix { uid } => write!(f, "user id {uid}"),
            Self::Tcp { address, .. } => write!(f, "{address}"),
        }
    }
}

/// Whether a connection is `http` or `https`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheme(pub(super) &'static str);

enum Socket {
    #[cfg(unix)]
    Unix(UnixListener, Arc<Path>),
    Tcp(TcpListener),
}

/// An address that is bound.
pub struct Listener {
    socket: Socket,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Listens on an address; `is_shared`: processes of other users may connect to a Unix socket.
    ///
    /// # Errors
    ///
    /// It is in use, or must not be used.
    pub async fn bind(
        address: &Address,
        tls: Option<TlsAcceptor>,
        is_shared: bool,
    ) -> Result<Self, Error> {
        let cannot = |source| Error::Listen {
            address: Arc::from(address.to_string()),
            source,
        };
        let (socket, tls) = match address {
            Address::Tcp(address) => (
                Socket::Tcp(TcpListener::bind(address).await.map_err(cannot)?),
                tls,
            ),
            #[cfg(unix)]
            Address::Unix(path) => (unix(path, is_shared).await.map_err(cannot)?, None),
            #[cfg(not(unix))]
            Address::Unix(_) => {
                let _ = is_shared;
                return Err(cannot(std::io::ErrorKind::Unsupported.into()));
            }
        };
        Ok(Self { socket, tls })
    }

    /// The address, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.socket {
            #[cfg(unix)]
            Socket::Unix(_, path) => format!("unix:{}", path.display()),
            Socket::Tcp(socket) => socket
                .local_addr()
                .map_or_else(|error| error.to_string(), |address| address.to_string()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Socket::Unix(_, path) = &self.socket {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Binds a Unix socket; one that no process listens on any more is replaced.
#[cfg(unix)]
async fn unix(path: &Path, is_shared: bool) -> std::io::Result<Socket> {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && tokio::net::UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    let socket = UnixListener::bind(path)?;
    let mode = if is_shared { 0o666 } else { 0o600 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(Socket::Unix(socket, Arc::from(path)))
}

/// Answers on all listeners until `stop` becomes true, and then ends once the running requests have, or `limits.drain`
/// is over.
pub async fn answer(
    listeners: Vec<Listener>,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let places = Places {
        all: Arc::new(Semaphore::new(limits.connections)),
        waiting: Waiting::new(limits.connections),
    };
    let mut accepting = JoinSet::new();
    let (over, _) = watch::channel(());
    let over = Arc::new(over);
    for listener in listeners {
        let (router, places, stop) = (router.clone(), places.clone(), stop.clone());
        accepting.spawn(accept(listener, router, limits, places, stop, over.clone()));
    }
    stopped(&mut stop).await;
    while accepting.join_next().await.is_some() {}
    // Every connection holds a receiver of `over`.
    let _ = timeout(limits.drain, over.closed()).await;
}

/// The places of connections.
#[derive(Clone)]
struct Places {
    all: Arc<Semaphore>,
    waiting: Arc<Waiting>,
}

/// Waits until a stop is asked for.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender lives as long as the service.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn accept(
    listener: Listener,
    router: Router,
    limits: Limits,
    places: Places,
    mut stop: watch::Receiver<bool>,
    over: Arc<watch::Sender<()>>,
) {
    loop {
        let place = tokio::select! {
            place = places.all.clone().acquire_owned() => place,
            () = stopped(&mut stop) => return,
        };
        let accepted = tokio::select! {
            accepted = next(&listener) => accepted,
            () = stopped(&mut stop) => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                log::debug!("a connection was not accepted: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (router, tls, stop) = (router.clone(), listener.tls.clone(), stop.clone());
        let over = over.subscribe();
        let ticket = match &peer {
            Peer::Tcp { address, .. } => Some(Arc::new(places.waiting.enter(address.ip()))),
            #[cfg(unix)]
            Peer::Unix { .. } => None,
        };
        tokio::spawn(async move {
            let (_over, _place) = (over, place);
            let router = router.layer(middleware::from_fn_with_state(ticket.clone(), heard));
            let closed = async {
                match &ticket {
                    Some(ticket) => ticket.closed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = connection(stream, peer, tls, router, limits, stop) => {}
                () = closed => log::debug!("a connection was closed before its first request, for newer ones of its address"),
            }
        });
    }
}

/// Notes that a request has come: the connection waits for none any more.
async fn heard(
    State(ticket): State<Option<Arc<Ticket>>>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(ticket) = ticket {
        ticket.heard();
    }
    next.run(request).await
}

/// A stream of either kind of socket.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn next(listener: &Listener) -> std::io::Result<(Box<dyn Stream>, Peer)> {
    match &listener.socket {
        #[cfg(unix)]
        Socket::Unix(socket, _) => {
            let (stream, _) = socket.accept().await?;
            let uid = stream.peer_cred()?.uid();
            Ok((Box::new(stream), Peer::Unix { uid }))
        }
        Socket::Tcp(socket) => {
            let (stream, address) = socket.accept().await?;
            let peer = Peer::Tcp {
                address,
                certificate: None,
            };
            Ok((Box::new(stream), peer))
        }
    }
}

async fn connection(
    stream: Box<dyn Stream>,
    peer: Peer,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    stop: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        let router = router.layer(Extension(Scheme("http")));
        return requests(stream, peer, router, limits, stop).await;
    };
    let router = router.layer(Extension(Scheme("https")));
    match timeout(limits.header_time, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let certificate = certificates.and_then(|all| all.first()).map(names);
            let peer = match peer {
                Peer::Tcp { address, .. } => Peer::Tcp {
                    address,
                    certificate: certificate.map(Arc::new),
                },
                #[cfg(unix)]
                unix @ Peer::Unix { .. } => unix,
            };
            requests(stream, peer, router, limits, stop).await;
        }
        Ok(Err(error)) => log::debug!("{peer:?}: TLS: {error}"),
        Err(_) => log::debug!("{peer:?}: TLS: not ready in time"),
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.header_bytes)
        .max_headers(limits.headers)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        log::debug!("a connection ended: {error}");
    }
}
