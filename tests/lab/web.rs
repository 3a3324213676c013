//! HTTP/1.1 as far as the lab needs it: one request on each connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::spawn;

/// A request.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// All lines of its head, as they came.
    pub(crate) head: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|size| *size > 0)?;
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let mut words = head.first()?.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut request = Self {
            method,
            path,
            head,
            body: Vec::new(),
        };
        let length = request.header("content-length");
        let length = length.and_then(|length| length.parse().ok());
        request.body.resize(length.unwrap_or(0), 0);
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// A header of it.
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        let mut fields = self.head.iter().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim())
    }

    /// Whether it changes something.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(&*self.method, "GET" | "HEAD")
    }
}

/// Answers each request on a free port of this machine, which it gives, until the process ends.
pub(crate) fn serve(answer: impl Fn(Request) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            spawn(move || {
                if let Some(request) = Request::read(&stream) {
                    // A client that has gone needs no answer.
                    drop(stream.write_all(&answer(request)));
                }
            });
        }
    });
    address
}

/// An answer of these bytes.
pub(crate) fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let mut all = head.into_bytes();
    all.extend_from_slice(body);
    all
}

/// Sends a request on to another server, and gives all that it answers.
pub(crate) fn forward(request: &Request, to: SocketAddr) -> Vec<u8> {
    let sent = || {
        let mut stream = TcpStream::connect(to)?;
        let own = |line: &&String| !line.to_ascii_lowercase().starts_with("connection:");
        for line in request.head.iter().filter(own) {
            write!(stream, "{line}\r\n")?;
        }
        stream.write_all(b"Connection: close\r\n\r\n")?;
        stream.write_all(&request.body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    sent().unwrap_or_else(|error| answer("502 Bad Gateway", error.to_string().as_bytes()))
}

/// Reads a resource.
pub(crate) fn get(from: SocketAddr, path: &str) -> serde_json::Value {
    let request = Request {
        method: "GET".to_owned(),
        path: path.to_owned(),
        head: vec![format!("GET {path} HTTP/1.1"), "Host: localhost".to_owned()],
        body: Vec::new(),
    };
    let answer = forward(&request, from);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    serde_json::from_slice(&answer[end.unwrap() + 4..]).unwrap()
}
