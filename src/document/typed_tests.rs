//! Types from values, and the places of what does not fit.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;
use crate::diagnostic::Sources;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Site {
    name: String,
    #[serde(default)]
    racks: Vec<Rack>,
    policy: Option<Policy>,
    #[serde(default)]
    labels: BTreeMap<String, Marked<String>>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Rack {
    units: u8,
    weight: Option<f64>,
    pair: Option<(i64, i64)>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    KeepAll,
    Wipe { disks: Vec<String> },
}

fn read(text: &str, secret: bool) -> Result<Site, (String, String, Option<String>)> {
    let mut sources = Sources::new();
    let id = sources.add("a.yaml", text);
    let mut node = load_values(id, text, &Limits::default()).0.remove(0);
    if secret {
        node.hide(&crate::document::SecretOrigin::in_file(None));
    }
    from_node(&node).map_err(|wrong| {
        let place = sources.place(wrong.mark);
        let place = format!("{}:{}", place.line, place.column);
        (place, wrong.message, wrong.hint)
    })
}

#[test]
fn what_fits_is_read() {
    let text = "name: n\nracks: [{units: 4, weight: 2, extra: [x]}, {units: 5, pair: [1, 2]}]\n\
                policy: {wipe: {disks: [sda]}}\nlabels:\n  a: b\n";
    let site = read(text, false).unwrap();
    assert_eq!(site.racks[0].weight, Some(2.0));
    assert_eq!(site.racks[1].pair, Some((1, 2)));
    assert_eq!(
        site.policy,
        Some(Policy::Wipe {
            disks: vec!["sda".to_owned()]
        })
    );
    assert_eq!(
        (site.labels["a"].mark.offset, &*site.labels["a"].value),
        (text.len() as u32 - 2, "b")
    );
    assert_eq!(
        read("{name: n, policy: keep-all}", false).unwrap().policy,
        Some(Policy::KeepAll)
    );
    assert_eq!(read("{name: n, policy: ~}", false).unwrap().policy, None);
}

#[test]
fn what_does_not_fit_is_named_with_its_place() {
    let table = [
        (
            "name: 5\n",
            "1:7",
            "expected a string, this is an integer",
            Some("put it in quotes"),
        ),
        (
            "name: 2001-01-01\n",
            "1:7",
            "expected a string, this is a date",
            Some("put it in quotes"),
        ),
        (
            "nme: x\n",
            "1:1",
            "`nme` is not known here",
            Some("did you mean `name`?"),
        ),
        ("labels: {}\n", "1:1", "`name` is missing", None),
        (
            "name: n\nracks:\n  - units: 300\n",
            "3:12",
            "expected u8, this is integer `300`",
            None,
        ),
        (
            "name: n\nracks:\n  - {weight: 1}\n",
            "3:5",
            "`units` is missing",
            None,
        ),
        (
            "name: n\nracks: {}\n",
            "2:8",
            "expected a sequence, this is a map",
            None,
        ),
        (
            "name: n\nracks: [{units: 1, pair: [1, 2, 3]}]\n",
            "2:26",
            "the list has 1 entries too many",
            None,
        ),
        (
            "name: n\npolicy: keep-al\n",
            "2:9",
            "`keep-al` is none of `keep-all`, `wipe`",
            Some("did you mean `keep-all`?"),
        ),
        (
            "name: n\npolicy: {wipe: {disks: [1]}}\n",
            "2:25",
            "expected a string, this is an integer",
            Some("put it in quotes"),
        ),
        (
            "name: n\nlabels:\n  a: yes\n",
            "3:6",
            "expected a string, this is a boolean",
            Some("put it in quotes"),
        ),
        (
            "name: n\nlabels:\n  1: x\n",
            "3:3",
            "expected a string, this is an integer",
            Some("put it in quotes"),
        ),
    ];
    for (text, place, message, hint) in table {
        let expected = (
            place.to_owned(),
            message.to_owned(),
            hint.map(str::to_owned),
        );
        assert_eq!(read(text, false), Err(expected), "{text}");
    }
}

#[test]
fn no_secret_is_in_a_message() {
    for text in [
        "hunter: 2\n",
        "name: n\npolicy: hunter2\n",
        "name: n\nracks: [{units: 7777}]\n",
    ] {
        let (_, message, hint) = read(text, true).unwrap_err();
        let said = format!("{message} {hint:?}");
        assert!(!said.contains("hunter") && !said.contains("7777"), "{said}");
    }
}
