//! A collector that is dead, slow, refuses or closes connections: a warning, and nothing else.

use std::time::{Duration, Instant};

use super::{Behaviour, Collector, dead, run};
use crate::fixture::Fixture;

/// What a command may take longer because of a collector: the wait at its end, and what a busy machine adds.
const LONGER: Duration = Duration::from_secs(8);

#[test]
fn a_collector_that_does_not_take_the_spans_costs_a_warning_and_a_moment() {
    let stalls = Collector::that(Behaviour::Waits(Duration::from_secs(600)));
    let throttles = Collector::that(Behaviour::Refuses(503));
    let forbids = Collector::that(Behaviour::Refuses(403));
    let moves = Collector::that(Behaviour::Refuses(302));
    let closes = Collector::that(Behaviour::Closes);
    let garbles = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = std::io::Write::write_all(&mut stream, b"\0\xff\x1b[31mnothing\r\n\r\n");
            }
        });
        format!("http://{address}")
    };
    for (endpoint, why) in [
        (dead(), "onnection refused"),
        (stalls.endpoint(), "in time"),
        (throttles.endpoint(), "503"),
        (forbids.endpoint(), "403"),
        (moves.endpoint(), "302"),
        (closes.endpoint(), ""),
        (garbles, ""),
    ] {
        let fixture = Fixture::one_rack();
        let (userinfo, rest) = ("http://user:hunter2-user@", &endpoint["http://".len()..]);
        let endpoint = format!("{userinfo}{rest}");
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2-header"),
        ];
        let begun = Instant::now();
        let ended = run(&fixture, &["apply", "--yes", "-vvv"], &variables).with(0);
        let took = begun.elapsed();
        let ended = ended.saying(" spans were not exported: ").saying(why);
        assert_eq!(ended.stderr.matches("not exported").count(), 1, "{ended:?}");
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
        assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
        assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        let begun = Instant::now();
        Fixture::one_rack().run(&["apply", "--yes", "-vvv"]).with(0);
        let without = begun.elapsed();
        assert!(took < without + LONGER, "{endpoint}: {took:?}, {without:?}");
    }
}

#[test]
fn the_exit_code_and_the_output_of_a_command_are_its_own() {
    let endpoint = dead();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let fixture = Fixture::one_rack();
    for arguments in [
        &["plan", "--detailed-exitcode", "--format", "json"][..],
        &["show", "nothing"],
        &["validate", "--format", "json"],
    ] {
        let alone = fixture.run(arguments);
        let traced = run(&fixture, arguments, &variables);
        assert_eq!(traced.code, alone.code, "{arguments:?}");
        assert_eq!(traced.stdout, alone.stdout, "{arguments:?}");
    }
}

#[test]
fn spans_beyond_the_queue_are_lost_counted_and_told_once() {
    let fixture = Fixture::one_rack();
    let collector = Collector::that(Behaviour::Waits(Duration::from_millis(300)));
    let endpoint = collector.endpoint();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
    ];
    let ended = run(&fixture, &["apply", "--yes"], &variables).with(0);
    let warnings: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| line.contains("not exported"))
        .collect();
    let [warning] = &warnings[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(warning.contains("more than 4 spans wait"), "{warning}");
    let mut words = warning.split(' ');
    assert_eq!(words.next(), Some("warning:"));
    let lost: usize = words.next().unwrap().parse().unwrap();
    assert_eq!(words.next(), Some("of"));
    let ended: usize = words.next().unwrap().parse().unwrap();
    assert_eq!(collector.spans().len(), ended - lost);
    assert!(lost > 0 && lost < ended, "{warning}");
}

#[test]
fn spans_that_the_collector_rejects_are_told() {
    let fixture = Fixture::one_rack();
    let collector = Collector::that(Behaviour::Rejects(1));
    let endpoint = collector.endpoint();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let ended = run(&fixture, &["validate"], &variables).with(0);
    ended.saying("warning: 1 of 2 spans were not exported: the collector has rejected them");
}
