//! Requests that are too large, too slow, too many, or not what they seem.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use super::{Answer, Service, bytes, connect, deployed, exchange, on};

/// The raw bytes of a request, and the answer.
fn raw(service: &Service, request: &str) -> Answer {
    Answer::parse(&exchange(service.address(), request.as_bytes()))
}

#[test]
fn requests_that_two_readers_may_read_differently_are_refused() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let path = on("compute11", "drain");
    let smuggled = format!("POST {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let chunked = format!("0\r\n\r\n{smuggled}");
    let length = chunked.len();
    for (headers, code) in [
        (
            format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
            411,
        ),
        (
            format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
            411,
        ),
        ("Transfer-Encoding: chunked\r\n".to_owned(), 411),
        ("Transfer-Encoding: xchunked\r\n".to_owned(), 400),
        ("Transfer-Encoding : chunked\r\n".to_owned(), 400),
        ("Transfer-Encoding: chunked, identity\r\n".to_owned(), 400),
        ("Content-Length: 0\r\nContent-Length: 5\r\n".to_owned(), 400),
        ("Content-Length: +0\r\n".to_owned(), 400),
        ("Content-Length: 0x0\r\n".to_owned(), 400),
        ("A: b\r\n folded\r\n".to_owned(), 400),
        ("Host: other\r\n".to_owned(), 400),
    ] {
        let request = format!("POST /versions HTTP/1.1\r\nHost: x\r\n{headers}\r\n{chunked}");
        let text = exchange(service.address(), request.as_bytes());
        assert_eq!(Answer::parse(&text).code, code, "{headers:?}: {text}");
        // The rest of the bytes is no second request.
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{headers:?}: {text}");
    }
    let without_host = raw(&service, "GET /versions HTTP/1.1\r\n\r\n");
    assert_eq!(without_host.reason(), (400, "BadRequest".to_owned()));
    assert_eq!(service.get("/api/v1/actions").body, "[]\n");
}

#[test]
fn large_headers_and_bodies_are_refused() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let long = "a".repeat(20 << 10);
    let get = |headers: &str| {
        raw(
            &service,
            &format!("GET /versions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"),
        )
        .code
    };
    assert_eq!(get(""), 200);
    assert_eq!(get(&format!("A: {long}\r\n")), 431);
    assert_eq!(get(&"A: b\r\n".repeat(100)), 431);
    let many = raw(
        &service,
        &format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"),
    );
    assert!(matches!(many.code, 414 | 431), "{many:?}");
    let body = "x".repeat((1 << 20) + 1);
    let path = on("compute11", "remove-etcd");
    let answer = service.request("POST", &path, &[], &body);
    assert_eq!(answer.reason(), (413, "ContentTooLarge".to_owned()));
    // Announced and never sent, it is refused as well.
    let request = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
    assert_eq!(
        raw(&service, &request).reason(),
        (413, "ContentTooLarge".to_owned())
    );
}

#[test]
fn callers_who_are_slow_are_disconnected_and_hold_nobody_up() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let mut slow: Vec<_> = (0..200).map(|_| connect(service.address())).collect();
    for stream in &mut slow {
        stream
            .write_all(b"GET /versions HTTP/1.1\r\nHost: x\r\nA: ")
            .unwrap();
    }
    let mut idle = connect(service.address());
    assert_eq!(service.get("/versions").code, 200);
    let began = Instant::now();
    // A byte now and then keeps no connection.
    let mut dripping = slow.pop().unwrap();
    while began.elapsed() < Duration::from_secs(30) && dripping.write_all(b"a").is_ok() {
        std::thread::sleep(Duration::from_millis(200));
    }
    let took = began.elapsed();
    assert!((5..20).contains(&took.as_secs()), "{took:?}");
    for mut stream in slow {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        assert!(text.is_empty() || text.contains("408"), "{text}");
    }
    let mut text = String::new();
    let _ = idle.read_to_string(&mut text);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_caller_has_its_rate() {
    let fixture = deployed("");
    let config = fixture.checkout.outside().join("serve.yaml");
    std::fs::write(&config, "limits: {requests_per_second: 5}").unwrap();
    let service = Service::start(&fixture, &["--config", config.to_str().unwrap()]);
    let request = String::from_utf8(bytes("GET", "/versions", &[], "")).unwrap();
    let request = request.replace("Connection: close\r\n", "");
    let text = exchange(
        service.address(),
        (request.repeat(40) + &request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
            .as_bytes(),
    );
    let count = |code: &str| text.matches(&format!("HTTP/1.1 {code} ")).count();
    assert!(
        count("200") >= 5 && count("429") >= 20,
        "{} {}",
        count("200"),
        count("429")
    );
    assert!(text.contains("\"reason\":\"TooManyRequests\""), "{text}");
    // A probe has none: a busy service is not a dead one.
    let probe = request.replace("/versions", "/healthz");
    let text = exchange(
        service.address(),
        (probe.repeat(20) + &probe.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")).as_bytes(),
    );
    assert_eq!(text.matches("HTTP/1.1 200 ").count(), 21, "{text}");
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(service.get("/versions").code, 200);
}

#[test]
fn further_connections_wait_for_their_turn() {
    let fixture = deployed("");
    let config = fixture.checkout.outside().join("serve.yaml");
    std::fs::write(&config, "limits: {connections: 2}").unwrap();
    let service = Service::start(&fixture, &["--config", config.to_str().unwrap()]);
    let held: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = connect(service.address());
            stream.write_all(b"GET ").unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    std::thread::scope(|scope| {
        let third = scope.spawn(|| service.get("/versions"));
        std::thread::sleep(Duration::from_millis(500));
        assert!(!third.is_finished());
        drop(held);
        assert_eq!(third.join().unwrap().code, 200);
    });
}
