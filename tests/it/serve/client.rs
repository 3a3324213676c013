//! A service that a test starts, and requests to it, byte by byte if that matters.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service, killed when it is dropped.
pub(crate) struct Service {
    child: Child,
    /// The addresses that it listens on.
    pub(crate) addresses: Vec<String>,
    log: Arc<Mutex<String>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// An answer as it was read from a connection.
    pub(crate) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Self {
            code: code.unwrap_or(0),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code and the reason of its status object, which both places of the code agree on.
    #[track_caller]
    pub(crate) fn reason(&self) -> (u16, String) {
        let status = self.json();
        assert_eq!(status["kind"], "Status", "{self:?}");
        assert_eq!(status["apiVersion"], "v1.0", "{self:?}");
        assert_eq!(status["code"], self.code, "{self:?}");
        let success = if self.code < 400 {
            "Success"
        } else {
            "Failure"
        };
        assert_eq!(status["status"], success, "{self:?}");
        let errors = status["details"]["messageList"].as_array().unwrap();
        let errors = errors.iter().filter(|message| message["error"] == true);
        assert_eq!(status["details"]["errorCount"], errors.count(), "{self:?}");
        (self.code, status["reason"].as_str().unwrap().to_owned())
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A connection of either kind.
pub(crate) trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// Connects to an address as the service names it.
pub(crate) fn connect(address: &str) -> Box<dyn Stream> {
    match address.strip_prefix("unix:") {
        Some(path) => {
            let stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            Box::new(stream)
        }
        None => {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            Box::new(stream)
        }
    }
}

/// Sends bytes and reads until the service closes the connection.
pub(crate) fn exchange(address: &str, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    // The service may have closed the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read);
    String::from_utf8_lossy(&read).into_owned()
}

/// A request as bytes, after whose answer the connection ends.
pub(crate) fn bytes(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let lines = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let lines: Vec<String> = lines.collect();
    let length = match body {
        "" => String::new(),
        body => format!("Content-Length: {}\r\n", body.len()),
    };
    let lines = lines.concat();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{lines}{length}\r\n{body}"
    )
    .into_bytes()
}

impl Service {
    /// Starts a service and waits until it listens on as many addresses as it was given.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let given = command.get_args().filter(|word| *word == "--listen");
        let wanted = given.count().max(1);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let mut addresses = Vec::new();
        while addresses.len() < wanted {
            let mut line = String::new();
            if err.read_line(&mut line).unwrap() == 0 {
                panic!("the service has ended: {}", log.lock().unwrap());
            }
            if let Some(address) = line.trim().strip_prefix("listening on ") {
                addresses.push(address.to_owned());
            }
            log.lock().unwrap().push_str(&line);
        }
        let kept = log.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            while err.read_line(&mut line).is_ok_and(|read| read > 0) {
                kept.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Self {
            child,
            addresses,
            log,
        }
    }

    /// The address of the first listener.
    pub(crate) fn address(&self) -> &str {
        &self.addresses[0]
    }

    /// All that it wrote on standard error.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let answer = exchange(self.address(), &bytes(method, path, headers, body));
        Answer::parse(&answer)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str) -> Answer {
        self.request("POST", path, &[], "")
    }

    /// Begins an action without waiting for it; its address.
    #[track_caller]
    pub(crate) fn post_async(&self, path: &str) -> String {
        let answer = self.request("POST", path, &[("Prefer", "respond-async")], "");
        assert_eq!(answer.reason(), (202, "Accepted".to_owned()));
        answer.json()["details"]["action"]["url"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Waits until it has ended; its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
