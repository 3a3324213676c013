//! A client against services that do whatever a service can do wrong.

pub(crate) mod server;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::*;
use crate::backend::Secret;
use server::{Reply, Server};

fn quick() -> HttpLimits {
    HttpLimits {
        connect: Duration::from_millis(500),
        request: Duration::from_millis(600),
        body: 10_000,
        ..HttpLimits::default()
    }
}

fn client(trust: &Trust) -> Client {
    Client::new(trust, quick()).unwrap()
}

fn basic() -> Credentials {
    Credentials::Basic {
        username: "admin".into(),
        password: Secret::new("hunter2hunter2".to_owned()),
    }
}

/// Sends one request without a body; what it answered or how it failed, the port left out.
async fn ask(client: &Client, method: Method, url: &str, path: &str) -> (Class, String) {
    let endpoint = Endpoint::parse(url).unwrap();
    let credentials = basic();
    let request = Request::new("node `n04`", method, endpoint.resolve(path).unwrap())
        .credentials(Some(&credentials));
    let failure = client.send(&request).await.unwrap_err();
    let (_, port) = url.rsplit_once(':').unwrap();
    let port = format!(":{port}: ");
    (
        failure.class(),
        failure.to_string().replace(&port, ":PORT: "),
    )
}

fn raw(text: &str) -> Reply {
    Reply::Raw(text.as_bytes().to_vec())
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn whatever_goes_wrong_is_said_exactly_and_means_the_right_thing_for_both_kinds_of_request() {
    let server = Server::plain(|received| match received.path.as_str() {
        "/html" => raw("HTTP/1.1 500 X\r\ncontent-length: 54\r\n\r\n<html><head><TITLE>Web\r\n Server Error</TITLE></head>oh"),
        "/half" => raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"half\":"),
        "/half-refusal" => raw("HTTP/1.1 400 Bad Request\r\ncontent-length: 100\r\n\r\nno such th"),
        "/closed" => raw(""),
        "/garbage" => raw("SSH-2.0-OpenSSH_9.2\r\n"),
        "/endless" => Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\nx".to_vec()),
        "/announced" => raw("HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n{"),
        "/header" => Reply::Endless(b"HTTP/1.1 200 OK\r\nx: y".to_vec()),
        "/silent" => Reply::Silent,
        "/busy" => Reply::json(503, Value::Null),
        "/no" => Reply::json(501, Value::Null),
        "/forbidden" => raw("HTTP/1.1 401 X\r\n\r\nthe password hunter2hunter2 is \x1b[31mwrong\u{202e}"),
        "/elsewhere" => Reply::Json(307, vec![("location", "https://evil.example/x".to_owned())], Value::Null),
        "/other-port" => Reply::Json(302, vec![("location", "http://127.0.0.1:1/".to_owned())], Value::Null),
        "/nowhere" => Reply::json(301, Value::Null),
        "/round" => Reply::Json(307, vec![("location", "/round".to_owned())], Value::Null),
        "/turned" => Reply::Json(303, vec![("location", "/html".to_owned())], Value::Null),
        other => panic!("{other}"),
    })
    .await;
    let client = client(&Trust::default());
    use Class::{Ambiguous, Passing, Permanent};
    for (path, get, post, text) in [
        (
            "/html",
            Passing,
            Ambiguous,
            "500 Internal Server Error: a page `Web Server Error`",
        ),
        (
            "/half",
            Passing,
            Ambiguous,
            "the answer broke off after 8 bytes",
        ),
        (
            "/half-refusal",
            Permanent,
            Permanent,
            "400 Bad Request: `no such th`",
        ),
        (
            "/closed",
            Passing,
            Ambiguous,
            "the connection broke before an answer came: connection closed before message completed",
        ),
        (
            "/garbage",
            Passing,
            Ambiguous,
            "the connection broke before an answer came: invalid HTTP version parsed",
        ),
        (
            "/endless",
            Permanent,
            Ambiguous,
            "an answer of more than 10000 bytes",
        ),
        (
            "/announced",
            Permanent,
            Ambiguous,
            "an answer of more than 10000 bytes",
        ),
        (
            "/silent",
            Passing,
            Ambiguous,
            "no complete answer within 0.6 s",
        ),
        ("/busy", Passing, Passing, "503 Service Unavailable"),
        ("/no", Permanent, Permanent, "501 Not Implemented"),
        (
            "/forbidden",
            Permanent,
            Permanent,
            "401 Unauthorized: `the password … is \\u{1b}[31mwrong\\u{202e}`",
        ),
        (
            "/elsewhere",
            Permanent,
            Permanent,
            "a redirect to another host (https://evil.example), which is not followed",
        ),
        (
            "/other-port",
            Permanent,
            Permanent,
            "a redirect to another host (http://127.0.0.1:1), which is not followed",
        ),
        (
            "/nowhere",
            Permanent,
            Permanent,
            "301 Moved Permanently: a redirect to nowhere",
        ),
        ("/round", Permanent, Permanent, "more than 3 redirects"),
    ] {
        for (method, class) in [(Method::GET, get), (Method::POST, post)] {
            let expected = format!("node `n04`: 127.0.0.1:PORT: {method} {path}: {text}");
            let found = ask(&client, method, &server.url, path).await;
            assert_eq!(found, (class, expected));
        }
    }
    let (class, text) = ask(&client, Method::GET, &server.url, "/header").await;
    assert_eq!(class, Passing, "{text}");
    let (class, text) = ask(&client, Method::POST, &server.url, "/turned").await;
    assert_eq!(class, Permanent);
    assert!(text.ends_with("303 See Other: a redirect that would turn the request into another"));
}

#[tokio::test]
async fn a_success_is_one_for_its_status_however_its_body_goes_on() {
    let server = Server::plain(|received| match received.path.as_str() {
        "/announced" => raw("HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\nabc"),
        "/half" => raw("HTTP/1.1 202 Accepted\r\ncontent-length: 54\r\n\r\nabc"),
        _ => raw("HTTP/1.1 500 X\r\ncontent-length: 3\r\n\r\nabc"),
    })
    .await;
    let client = client(&Trust::default());
    let endpoint = Endpoint::parse(&server.url).unwrap();
    let send = async |path: &str| {
        let url = endpoint.resolve(path).unwrap();
        let request = Request::new("message", Method::POST, url).for_its_status();
        client.send(&request).await
    };
    for path in ["/announced", "/half"] {
        assert!(send(path).await.unwrap().status().is_success(), "{path}");
    }
    let refused = send("/no").await.unwrap_err();
    assert!(
        refused.text().ends_with("500 Internal Server Error: `abc`"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_host_that_is_not_there_can_come_back() {
    let client = client(&Trust::default());
    let (class, text) = ask(&client, Method::POST, "http://127.0.0.1:1", "/x").await;
    assert_eq!(class, Class::Passing);
    assert_eq!(
        text,
        "node `n04`: 127.0.0.1:PORT: POST /x: cannot be connected to: connection refused"
    );
}

#[tokio::test]
async fn certificates_are_believed_by_chain_by_fingerprint_or_when_told_to_believe_all() {
    let hello = |_: &server::Received| Reply::json(200, json!({"hello": true}));
    let server = Server::tls("127.0.0.1", hello).await;
    let misnamed = Server::tls("elsewhere.example", hello).await;
    let ca = |server: &Server| Trust {
        authorities: server.certificate.clone().map(Secret::new),
        ..Trust::default()
    };
    let pin = |server: &Server| Trust {
        fingerprints: vec![server.fingerprint.unwrap()],
        ..Trust::default()
    };
    let unverified = Trust {
        verify: false,
        ..Trust::default()
    };
    let both = Trust {
        verify: false,
        ..pin(&server)
    };
    let other = misnamed.fingerprint.unwrap();
    let not_pinned = format!("its fingerprint {other} is not among those given");
    for (trust, server, problem) in [
        (ca(&server), &server, None),
        (pin(&server), &server, None),
        (pin(&misnamed), &misnamed, None),
        (unverified, &misnamed, None),
        (both, &misnamed, None),
        (Trust::default(), &server, Some("")),
        (ca(&misnamed), &server, Some("")),
        (ca(&misnamed), &misnamed, Some("not valid for name")),
        (pin(&server), &misnamed, Some(not_pinned.as_str())),
    ] {
        let client = client(&trust);
        let endpoint = Endpoint::parse(&server.url).unwrap();
        let request = Request::new("node `n04`", Method::GET, endpoint.resolve("/").unwrap());
        match (client.send(&request).await, problem) {
            (Ok(_), None) => {}
            (Err(failure), Some(problem)) => {
                assert_eq!(failure.class(), Class::Permanent);
                let text = failure.text();
                assert!(
                    text.starts_with("its certificate is not trusted: "),
                    "{text}"
                );
                assert!(text.contains(problem), "{text}");
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }
    assert!(Trust::default().warning("node `n04`").is_none());
}

#[tokio::test]
async fn an_authority_that_is_its_own_server_is_believed_where_it_was_given_itself() {
    let hello = |_: &server::Received| Reply::json(200, json!({"hello": true}));
    let server = Server::authority("127.0.0.1", 2200, hello).await;
    let misnamed = Server::authority("elsewhere.example", 2200, hello).await;
    let expired = Server::authority("127.0.0.1", 2001, hello).await;
    let given = |server: &Server| Trust {
        authorities: server.certificate.clone().map(Secret::new),
        ..Trust::default()
    };
    for (trust, server, problem) in [
        (given(&server), &server, None),
        (Trust::default(), &server, Some("")),
        (given(&expired), &server, Some("")),
        (given(&misnamed), &misnamed, Some("not valid for name")),
        (given(&expired), &expired, Some("expired")),
    ] {
        let endpoint = Endpoint::parse(&server.url).unwrap();
        let request = Request::new("node `n04`", Method::GET, endpoint.resolve("/").unwrap());
        match (client(&trust).send(&request).await, problem) {
            (Ok(_), None) => {}
            (Err(failure), Some(problem)) => {
                let text = failure.text();
                assert!(text.contains(problem), "{text}");
                assert_eq!(failure.class(), Class::Permanent);
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn plain_http_where_tls_was_meant_is_no_connection_and_is_not_tried_again() {
    let server = Server::plain(|_| Reply::Raw(b"HTTP/1.1 400 X\r\n\r\n".to_vec())).await;
    let secure = server.url.replace("http:", "https:");
    let (class, text) = ask(&client(&Trust::default()), Method::GET, &secure, "/").await;
    assert!(text.contains("no TLS connection: "), "{class:?} {text}");
}

#[tokio::test]
async fn what_can_pass_is_tried_again_when_the_service_asks_for_it_and_only_then() {
    let server = Server::plain(|received| match received.path.as_str() {
        "/busy" => Reply::Json(429, vec![("retry-after", "0".to_owned())], Value::Null),
        _ => Reply::json(500, Value::Null),
    })
    .await;
    let client = client(&Trust::default());
    let endpoint = Endpoint::parse(&server.url).unwrap();
    for (method, path, attempts) in [
        (Method::POST, "/busy", 3),
        (Method::POST, "/broken", 3),
        (Method::GET, "/busy", 1),
    ] {
        let url = endpoint.resolve(path).unwrap();
        let request = Request::new("node `n04`", method, url).attempts(attempts);
        client.send(&request).await.unwrap_err();
    }
    let lines = server.lines();
    assert_eq!(
        lines,
        [
            "POST /busy",
            "POST /busy",
            "POST /busy",
            "POST /broken",
            "GET /busy"
        ]
    );
}

#[tokio::test]
async fn a_connection_is_used_again_and_no_host_is_asked_more_at_once_than_the_limit() {
    let server = Server::plain(|_| {
        let answer = Box::new(Reply::json(200, json!({})));
        Reply::Late(Duration::from_millis(20), answer)
    })
    .await;
    let client = client(&Trust::default());
    let endpoint = Endpoint::parse(&server.url).unwrap();
    let asked = (0..10).map(|_| async {
        let request = Request::new("node `n04`", Method::GET, endpoint.resolve("/").unwrap());
        client.send(&request).await.unwrap();
    });
    futures_util::future::join_all(asked).await;
    assert_eq!(*server.connections.lock().unwrap(), 2);
}

#[tokio::test]
async fn an_answer_is_read_up_to_the_end_of_its_first_value_and_else_says_what_it_is() {
    let server = Server::plain(|received| match received.path.as_str() {
        "/value" => raw("HTTP/1.1 200 OK\r\n\r\n{\"a\": 1}Grpc-Trailer: x"),
        "/page" => raw("HTTP/1.1 200 OK\r\n\r\n<html><title>Login</title>"),
        "/broken" => raw("HTTP/1.1 200 OK\r\n\r\n{\"a\": "),
        _ => raw("HTTP/1.1 200 OK\r\n\r\n"),
    })
    .await;
    let client = client(&Trust::default());
    let endpoint = Endpoint::parse(&server.url).unwrap();
    let mut found = Vec::new();
    for path in ["/value", "/page", "/broken", "/nothing"] {
        let request = Request::new("node `n04`", Method::GET, endpoint.resolve(path).unwrap());
        let answer = client.send(&request).await.unwrap();
        found.push(match answer.json::<Value>() {
            Ok(value) => value.to_string(),
            Err(failure) => failure.text().to_owned(),
        });
    }
    assert_eq!(
        found,
        [
            "{\"a\":1}",
            "no JSON but a page `Login`",
            "an answer that cannot be understood: EOF while parsing a value at line 1 column 6",
            "an empty answer",
        ]
    );
}

#[tokio::test]
async fn a_service_that_repeats_the_credentials_in_any_form_has_them_masked() {
    let server = Server::plain(|received| {
        let header = |name: &str| {
            let found = received.headers.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let repeated = format!(
            "<{}> <aHVudGVyMmh1bnRlcjI> <hunter2hunter2> <{}>",
            header("authorization"),
            "x".repeat(70)
        );
        match received.path.as_str() {
            // The cut that makes the words short must not leave half of it.
            "/cut" => raw(&format!(
                "HTTP/1.1 500 X\r\n\r\n{}{repeated}",
                "y".repeat(105)
            )),
            "/location" => Reply::Json(
                307,
                vec![("location", "//[hunter2hunter2".to_owned())],
                Value::Null,
            ),
            "/json" => Reply::json(200, json!(repeated)),
            "/title" => raw(&format!("HTTP/1.1 500 X\r\n\r\n<title>{repeated}</title>")),
            _ => raw(&format!("HTTP/1.1 401 X\r\n\r\n{repeated}")),
        }
    })
    .await;
    let client = client(&Trust::default());
    let endpoint = Endpoint::parse(&server.url).unwrap();
    let credentials = basic();
    for path in ["/cut", "/location", "/json", "/title", "/words"] {
        let request = Request::new("node `n04`", Method::GET, endpoint.resolve(path).unwrap())
            .credentials(Some(&credentials));
        let failure = match client.send(&request).await {
            Ok(answer) => answer.json::<Vec<u8>>().unwrap_err(),
            Err(failure) => failure,
        };
        let shown = format!("{failure} {failure:?} {:?}", failure.words());
        for form in ["hunter2", "aHVudGVy", "YWRtaW46"] {
            assert!(!shown.contains(form), "{path}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_secret_goes_where_it_is_meant_to_and_is_shown_nowhere() {
    let server = Server::plain(|received| {
        let all = json!({"headers": received.headers, "body": received.body});
        raw(&format!("HTTP/1.1 400 X\r\n\r\n{all}"))
    })
    .await;
    let client = client(&Trust::default());
    let endpoint = Endpoint::parse(&server.url).unwrap();
    let secret = Secret::new("s3cr3t".to_owned());
    let token = Credentials::Header {
        name: "x-auth-token",
        value: Secret::new("t0ken".to_owned()),
    };
    let request = Request::new("node `n04`", Method::POST, endpoint.resolve("/").unwrap())
        .json(&json!({"Password": secret.reveal()}))
        .hide(&secret)
        .credentials(Some(&token));
    let failure = client.send(&request).await.unwrap_err();
    let shown = format!("{failure} {failure:?} {token:?} {secret:?}");
    assert!(
        !shown.contains("s3cr3t") && !shown.contains("t0ken"),
        "{shown}"
    );
    let received = server.received.lock().unwrap();
    assert_eq!(received[0].headers["x-auth-token"], "t0ken");
    assert_eq!(received[0].headers["content-type"], "application/json");
    assert_eq!(received[0].body, json!({"Password": "s3cr3t"}));
}

#[test]
fn a_fingerprint_is_read_with_and_without_colons() {
    let plain = "ab".repeat(32);
    let colons = vec!["AB"; 32].join(":");
    assert_eq!(
        plain.parse::<Fingerprint>().unwrap(),
        colons.parse().unwrap()
    );
    assert_eq!(colons.parse::<Fingerprint>().unwrap().to_string(), plain);
    for text in ["", "ab", "zz", &"ab".repeat(33), &"a".repeat(63)] {
        assert!(text.parse::<Fingerprint>().is_err(), "{text}");
    }
}

#[test]
fn what_is_given_as_a_certificate_must_be_one() {
    let trust = Trust {
        authorities: Some(Secret::new("no certificate".to_owned())),
        ..Trust::default()
    };
    let error = Client::new(&trust, HttpLimits::default()).unwrap_err();
    assert_eq!(error.to_string(), "`ca` holds no certificate in PEM");
}

#[tokio::test]
async fn each_request_names_the_program_and_its_version() {
    let server = Server::plain(|_| Reply::json(200, json!({}))).await;
    let client = client(&Trust::default());
    let endpoint = Endpoint::parse(&server.url).unwrap();
    for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE] {
        let url = endpoint.resolve("x").unwrap();
        client
            .send(&Request::new("node `n04`", method, url))
            .await
            .unwrap();
    }
    let received = server.received.lock().unwrap();
    let agents: Vec<&str> = received
        .iter()
        .map(|each| &*each.headers["user-agent"])
        .collect();
    assert_eq!(agents, [concat!("trueup/", env!("CARGO_PKG_VERSION")); 4]);
}
