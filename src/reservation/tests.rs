//! Files of reservations: read back as written, and refused in a sentence if they are none.

use super::*;

fn site() -> SiteName {
    SiteName::from("edge")
}

fn reserved(until: i64) -> Reservations {
    let reservation = Reservation::new(("Ada", "ada@example.org"), (0, until), " fan\nswap ");
    Reservations {
        nodes: [(NodeName::from("n1"), reservation)].into(),
    }
}

#[test]
fn what_is_written_is_read_again_and_holds_until_its_time() {
    let reservations = reserved(3600);
    let read = Reservations::read(&site(), &reservations.write(&site()).unwrap()).unwrap();
    assert_eq!(read, reservations);
    assert_eq!(
        read.of("n1").unwrap().to_string(),
        "reserved by Ada until 1970-01-01T01:00:00Z: fan swap"
    );
    assert!(read.clone().holding_at(3599).of("n1").is_some());
    assert!(read.holding_at(3600).of("n1").is_none());
}

#[test]
fn hostile_files_are_refused_with_a_sentence() {
    let good = String::from_utf8(reserved(60).write(&site()).unwrap()).unwrap();
    let long = "x".repeat(MOST_TEXT + 1);
    for (from, to, why) in [
        ("{", "[", "cannot be read"),
        ("\"edge\"", "\"east\"", "those of site `east`"),
        (
            "\"format_version\": 1",
            "\"format_version\": 2",
            "a newer trueup",
        ),
        ("\"n1\"", "\"../n1\"", "the name of a node `../n1`"),
        ("fan swap", long.as_str(), "too long"),
        ("fan swap", "\\u001b[2J", "control characters"),
        ("1970-01-01T00:01:00Z", "soon", "RFC 3339"),
        ("\"reason\"", "\"more\": 1, \"reason\"", "unknown field"),
    ] {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good, "{from}");
        let refused = Reservations::read(&site(), changed.as_bytes()).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}
