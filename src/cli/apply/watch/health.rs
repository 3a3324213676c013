//! The health of a watcher: `/healthz`, `/readyz` and `/metrics`, over plain HTTP.
//!
//! A request is one line that is read with a bound in time and size; everything else of it is passed over.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Shared;

/// Connections at the same time.
const AT_ONCE: usize = 16;

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// The longest beginning of a request that is read, in bytes.
const LONGEST: usize = 8 << 10;

/// Listens on an address.
pub(super) async fn bind(address: &str) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers, for ever.
pub(super) async fn answer(listener: Option<TcpListener>, shared: Arc<Shared>) {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No file is free just now.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            // Who asked may be gone.
            let _ = timeout(REQUEST, one(stream, &shared)).await;
            drop(place);
        });
    }
}

async fn one(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST {
        let read = stream.read(&mut part).await?;
        if read == 0 {
            break;
        }
        request.extend_from_slice(&part[..read]);
    }
    let line = request
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, path) = (words.next(), words.next().unwrap_or_default());
    let (status, body) = match (method, path.split('?').next().unwrap_or_default()) {
        (Some("GET"), "/healthz") if shared.is_alive() => ("200 OK", "ok\n".to_owned()),
        (Some("GET"), "/healthz") => (
            "503 Service Unavailable",
            "nothing was heard of the Lease\n".to_owned(),
        ),
        // A watcher that waits for the Lease is ready to take over.
        (Some("GET"), "/readyz") if shared.has_heard() => ("200 OK", "ok\n".to_owned()),
        (Some("GET"), "/readyz") => (
            "503 Service Unavailable",
            "the Lease was not read yet\n".to_owned(),
        ),
        (Some("GET"), "/metrics") => ("200 OK", shared.metrics.text()),
        (Some("GET"), _) => ("404 Not Found", "there is nothing here\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
