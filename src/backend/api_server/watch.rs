//! A watch of the objects of a collection from a version on: one stream of events, bounded in time and size.
//!
//! A watch is a way to hear soon; the truth is the list that follows it. So a stream that breaks, that
//! ends or that cannot be read is no error: the caller lists again.

use std::marker::PhantomData;

use http_body_util::BodyExt;
use kube::api::WatchParams;
use kube::client::Body;
use kube::core::request::Request as Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Duration, Instant, timeout, timeout_at};

use super::call::{ApiError, REQUEST, Server, read, refusal};
use crate::backend::masked::masked_json;

/// After how many seconds the server ends a watch, and what came is listed again.
const LENGTH: u32 = 120;

/// How much later than that the server may end it.
const GRACE: Duration = Duration::from_secs(15);

/// The biggest event, in bytes.
const LARGEST: usize = 16 << 20;

/// A change of an object.
#[derive(Debug)]
pub(in crate::backend) enum Event<T> {
    /// It is there, and so.
    There(Box<T>),
    /// It is gone.
    Gone(Box<T>),
}

#[derive(Deserialize)]
struct Line<T> {
    #[serde(rename = "type")]
    kind: String,
    object: T,
}

/// A stream of events.
#[derive(Debug)]
pub(in crate::backend) struct Watch<T> {
    body: Body,
    bytes: Vec<u8>,
    /// Where the search for the end of a line continues.
    searched: usize,
    /// The time by which the server ends it; silence after that is a dead connection.
    ends: Instant,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Watch<T> {
    /// Watches the objects of a collection from the version of a list on; `fields`: only those.
    pub(in crate::backend) async fn open(
        server: &Server,
        collection: &str,
        fields: Option<&str>,
        version: &str,
    ) -> Result<Self, ApiError> {
        let mut parameters = WatchParams::default().timeout(LENGTH).disable_bookmarks();
        parameters.field_selector = fields.map(str::to_owned);
        let request = Resource::new(collection).watch(&parameters, version);
        let opened = async {
            let (status, body) = server.begin(request).await?;
            match status.is_success() {
                true => Ok(body),
                false => Err(refusal(status, &read(body, LARGEST).await?)),
            }
        };
        let late = || ApiError::Unreachable("no watch in time".to_owned());
        let opened = timeout(REQUEST, opened).await;
        let opened = opened.unwrap_or_else(|_| Err(late()));
        opened.map(Self::of).map_err(|error| server.weigh(error))
    }

    fn of(body: Body) -> Self {
        Self {
            body,
            bytes: Vec::new(),
            searched: 0,
            ends: Instant::now() + Duration::from_secs(u64::from(LENGTH)) + GRACE,
            of: PhantomData,
        }
    }

    /// The next event; `None` if the stream has ended in whatever way. Nothing is lost when it is not
    /// waited for to the end.
    pub(in crate::backend) async fn next(&mut self) -> Option<Event<T>> {
        loop {
            while let Some(line) = self.line() {
                let line: Line<T> = serde_json::from_slice(&masked_json(&line)).ok()?;
                match &*line.kind {
                    "ADDED" | "MODIFIED" => return Some(Event::There(Box::new(line.object))),
                    "DELETED" => return Some(Event::Gone(Box::new(line.object))),
                    "BOOKMARK" => {}
                    _ => return None,
                }
            }
            let frame = timeout_at(self.ends, self.body.frame()).await.ok()??.ok()?;
            if let Ok(data) = frame.into_data() {
                self.bytes.extend_from_slice(&data);
            }
            if self.bytes.len() > LARGEST {
                return None;
            }
        }
    }

    /// The next whole line.
    fn line(&mut self) -> Option<Vec<u8>> {
        let found = self.bytes[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n');
        match found {
            Some(at) => {
                let rest = self.bytes.split_off(self.searched + at + 1);
                self.searched = 0;
                Some(std::mem::replace(&mut self.bytes, rest))
            }
            None => {
                self.searched = self.bytes.len();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::backend::api_server::or_empty;

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Pod {
        #[serde(deserialize_with = "or_empty")]
        metadata: Metadata,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        name: String,
    }

    async fn events(text: &str) -> Vec<String> {
        let mut watch = Watch::<Pod>::of(Body::from(text.as_bytes().to_vec()));
        let mut found = Vec::new();
        while let Some(event) = watch.next().await {
            found.push(match event {
                Event::There(pod) => format!("there {}", pod.metadata.name),
                Event::Gone(pod) => format!("gone {}", pod.metadata.name),
            });
        }
        found
    }

    #[tokio::test]
    async fn events_come_line_by_line_and_anything_else_ends_the_stream() {
        let one = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
        let two = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
        let three = r#"{"type":"DELETED","object":{"metadata":{"name":"b"}}}"#;
        let all = format!("{one}\n{two}\n{three}\n");
        assert_eq!(events(&all).await, ["there a", "gone b"]);
        let old = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}"#;
        assert_eq!(
            events(&format!("{one}\n{old}\n{three}\n")).await,
            ["there a"]
        );
        assert_eq!(events(&format!("{one}\n{{\"type\":")).await, ["there a"]);
        assert_eq!(
            events(&format!("{one}\n\u{0}\n{three}\n")).await,
            ["there a"]
        );
        assert!(events("").await.is_empty());
    }

    #[tokio::test]
    async fn a_watch_on_a_dead_connection_ends_though_it_is_asked_again_and_again() {
        let (listener, mut asked) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), 0);
        let address = listener.local_addr().unwrap();
        let _silent = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head).await.unwrap();
            std::future::pending::<()>().await;
        });
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let request = http::Request::get("/").body(Body::empty()).unwrap();
        let mut watch = Watch::<Pod>::of(client.send(request).await.unwrap().into_body());
        tokio::time::pause();
        // Each wait times out early, to check for other events.
        while timeout(Duration::from_secs(5), watch.next()).await.is_err() {
            asked += 1;
            assert!(asked < 100, "it never ends");
        }
    }
}
