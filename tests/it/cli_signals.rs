//! Signals while machines are observed: the sessions at their controllers are ended before the process ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::spawn;

use super::cli_trust;
use super::fixture::{Ended, wait_until};

/// A controller that opens and ends sessions, and answers nothing else.
#[derive(Clone)]
struct Controller {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Controller {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let own = heard.clone();
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = own.clone();
                spawn(move || answer(stream, &heard));
            }
        });
        Self { port, heard }
    }

    /// How often a request of this method was heard.
    fn heard(&self, method: &str) -> usize {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|each| *each == method).count()
    }
}

fn answer(mut stream: TcpStream, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim().to_ascii_lowercase();
            if let Some(size) = line.strip_prefix("content-length:") {
                length = size.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let sessions = "/redfish/v1/SessionService/Sessions";
        let (head, body) = match (method, path.trim_end_matches('/')) {
            ("GET", "/redfish/v1") => (
                "200 OK\r\ncontent-type: application/json".to_owned(),
                format!(r#"{{"Links": {{"Sessions": {{"@odata.id": "{sessions}"}}}}}}"#),
            ),
            ("POST", _) => {
                let number = heard.lock().unwrap().len();
                let head = format!(
                    "201 Created\r\nx-auth-token: secret-token-{number}\r\nlocation: {sessions}/{number}"
                );
                (head, "{}".to_owned())
            }
            ("DELETE", _) => ("204 No Content".to_owned(), String::new()),
            _ => {
                heard.lock().unwrap().push("unanswered".to_owned());
                // Until the client goes.
                let _ = reader.read(&mut [0]);
                return;
            }
        };
        heard.lock().unwrap().push(method.to_owned());
        let length = body.len();
        let text = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_signal_while_machines_are_observed_ends_their_sessions_and_then_the_process() {
    for (arguments, signal, code) in [
        (&["plan"], "TERM", 143),
        (&["status"], "INT", 130),
        (&["doctor"], "TERM", 143),
    ] {
        let controller = Controller::start();
        let fixture = cli_trust::site(&format!(
            "scheme: http, port: {}, networks: [127.20.0.0/16], credentials: {{username: admin, password: {{env: BMC}}}}, \
             image: 'http://127.0.0.1:1/{{node}}.iso'",
            controller.port
        ));
        cli_trust::with(&fixture, &["trust", "--yes"], &[("BMC", "pw")]).with(0);
        let mut command = fixture.command(arguments);
        let child = command.env("BMC", "pw").spawn().unwrap();
        wait_until("no machine is observed", || {
            let unanswered = controller.heard("unanswered");
            unanswered > 0 && unanswered == controller.heard("POST")
        });
        let sent = Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let ended: Ended = child.wait_with_output().unwrap().into();
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        let (opened, closed) = (controller.heard("POST"), controller.heard("DELETE"));
        assert_eq!(opened, closed, "{arguments:?}: {}", ended.stderr);
    }
}
