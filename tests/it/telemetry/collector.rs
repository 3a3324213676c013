//! A collector of a test: takes OTLP over HTTP, well or badly, and keeps the spans.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use data_encoding::HEXLOWER;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use prost::Message as _;

/// How a collector answers.
#[derive(Clone)]
pub(crate) enum Behaviour {
    /// It takes the spans.
    Takes,
    /// It takes all spans but so many.
    Rejects(i64),
    /// It refuses them with a status.
    Refuses(u16),
    /// It takes them after a while.
    Waits(Duration),
    /// It closes the connection instead.
    Closes,
    /// It takes them, over TLS.
    Encrypts(Arc<rustls::ServerConfig>),
}

/// A span as it came.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: i32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) events: Vec<(String, BTreeMap<String, String>)>,
    /// Whether it failed, and why.
    pub(crate) failure: Option<String>,
    pub(crate) state: String,
    pub(crate) resource: Arc<BTreeMap<String, String>>,
}

impl Span {
    #[track_caller]
    pub(crate) fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.get(name);
        found.unwrap_or_else(|| panic!("no `{name}`: {self:?}"))
    }
}

#[derive(Default)]
struct Heard {
    spans: Vec<Span>,
    /// The head of each request, lower case but for the values.
    heads: Vec<String>,
    /// All bodies, unpacked.
    bodies: Vec<u8>,
}

/// A collector on loopback, which lives as long as the test.
pub(crate) struct Collector {
    address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::that(Behaviour::Takes)
    }

    pub(crate) fn that(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let keeping = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (behaviour, heard) = (behaviour.clone(), keeping.clone());
                std::thread::spawn(move || take(stream, &behaviour, &heard));
            }
        });
        Self { address, heard }
    }

    /// The address for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The spans that came.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.heard.lock().unwrap().spans.clone()
    }

    /// The heads of the requests that came.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heard.lock().unwrap().heads.clone()
    }

    /// All bodies that came, as text.
    pub(crate) fn bodies(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap().bodies).into_owned()
    }

    /// The spans of a name.
    pub(crate) fn named(&self, name: &str) -> Vec<Span> {
        let spans = self.spans().into_iter();
        spans.filter(|span| span.name == name).collect()
    }

    /// The only span of a name.
    #[track_caller]
    pub(crate) fn one(&self, name: &str) -> Span {
        let found = self.named(name);
        assert_eq!(found.len(), 1, "`{name}`: {:?}", self.names());
        found.into_iter().next().unwrap()
    }

    /// The names of all spans, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.spans().into_iter().map(|span| span.name).collect();
        names.sort();
        names
    }
}

/// An address of loopback at which nothing listens.
pub(crate) fn dead() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn take(stream: TcpStream, behaviour: &Behaviour, heard: &Mutex<Heard>) {
    if let Behaviour::Encrypts(config) = behaviour {
        let connection = rustls::ServerConnection::new(config.clone()).unwrap();
        return answer(
            rustls::StreamOwned::new(connection, stream),
            behaviour,
            heard,
        );
    }
    answer(stream, behaviour, heard);
}

fn answer(stream: impl Read + Write, behaviour: &Behaviour, heard: &Mutex<Heard>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).is_err() {
        return;
    }
    let (mut code, mut response) = (200, ExportTraceServiceResponse::default());
    match behaviour {
        Behaviour::Takes | Behaviour::Encrypts(_) => {}
        Behaviour::Rejects(rejected_spans) => {
            response.partial_success = Some(ExportTracePartialSuccess {
                rejected_spans: *rejected_spans,
                error_message: "some".to_owned(),
            });
        }
        Behaviour::Refuses(status) => code = *status,
        Behaviour::Waits(time) => std::thread::sleep(*time),
        Behaviour::Closes => return,
    }
    heard.lock().unwrap().keep(head, &body);
    let response = response.encode_to_vec();
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
        response.len()
    );
    let mut stream = stream.into_inner();
    // The client may be gone.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&response);
    let _ = stream.flush();
}

impl Heard {
    fn keep(&mut self, head: String, body: &[u8]) {
        let is_packed = head.to_lowercase().contains("content-encoding: gzip");
        let mut plain = Vec::new();
        let body = match is_packed {
            true => {
                let mut reader = flate2::read::GzDecoder::new(body);
                reader.read_to_end(&mut plain).unwrap();
                &plain
            }
            false => body,
        };
        self.bodies.extend_from_slice(body);
        self.heads.push(head);
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        for of_resource in request.resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            let resource = Arc::new(texts(resource.attributes));
            let spans = of_resource.scope_spans.into_iter();
            for span in spans.flat_map(|scope| scope.spans) {
                let status = span.status.unwrap_or_default();
                self.spans.push(Span {
                    trace: HEXLOWER.encode(&span.trace_id),
                    id: HEXLOWER.encode(&span.span_id),
                    parent: HEXLOWER.encode(&span.parent_span_id),
                    name: span.name,
                    kind: span.kind,
                    start: span.start_time_unix_nano,
                    end: span.end_time_unix_nano,
                    attributes: texts(span.attributes),
                    events: span.events.into_iter().map(event).collect(),
                    failure: (status.code == 2).then_some(status.message),
                    state: span.trace_state,
                    resource: resource.clone(),
                });
            }
        }
    }
}

fn event(event: Event) -> (String, BTreeMap<String, String>) {
    (event.name, texts(event.attributes))
}

/// Attributes, each value as text.
fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(is) => is.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes
        .into_iter()
        .filter_map(|pair| Some((pair.key, text(pair.value?.value?))))
        .collect()
}
