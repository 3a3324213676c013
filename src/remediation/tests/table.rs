//! The table row by row: as a person writes it down, and beside the specification's if it is at hand.

use std::path::Path;

use crate::remediation::{Facts, TABLE, TableAction, action};

/// The rows that act, written by hand: node, needs remediation, powered on, reboot annotation; `-` is either.
const ACTING: [(&str, TableAction); 4] = [
    ("-110", TableAction::AddRebootAnnotation),
    ("1101", TableAction::DeleteNode),
    ("0101", TableAction::RemoveNeedsRemediation),
    ("-001", TableAction::RemoveRebootAnnotation),
];

fn fits(pattern: &str, facts: Facts) -> bool {
    let digits = facts.to_string();
    let mut pairs = pattern.chars().zip(digits.chars());
    pairs.all(|(wanted, digit)| wanted == '-' || wanted == digit)
}

#[test]
fn the_table_has_each_row_once_and_at_its_own_number() {
    for (number, row) in TABLE.iter().enumerate() {
        assert_eq!(usize::from(row.facts.number()), number);
        assert_eq!(Facts::of_number(row.facts.number()), row.facts);
    }
}

#[test]
fn six_rows_act_and_all_others_are_nothing() {
    let mut acting = 0;
    for number in 0..16 {
        let facts = Facts::of_number(number);
        let expected = ACTING.iter().find(|(pattern, _)| fits(pattern, facts));
        let expected = expected.map_or(TableAction::Nothing, |(_, action)| *action);
        assert_eq!(action(facts), expected, "row {facts}");
        acting += usize::from(expected != TableAction::Nothing);
    }
    assert_eq!(acting, 6);
}

#[test]
fn a_node_is_deleted_in_one_row_in_which_the_host_is_off_and_held() {
    let deleting: Vec<_> = TABLE
        .iter()
        .filter(|row| row.action == TableAction::DeleteNode)
        .collect();
    assert_eq!(deleting.len(), 1);
    let facts = deleting[0].facts;
    assert!(!facts.powered_on && facts.reboot_annotation && facts.needs_remediation);
}

#[test]
fn the_table_is_the_specifications() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/data/metal3/remediation-truth-table.csv"
    );
    let Ok(text) = std::fs::read_to_string(Path::new(path)) else {
        crate::skipped::skipped(&format!("there is no {path}"));
        return;
    };
    let mut rows = 0;
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        let mut fields = line.split(',').map(str::trim);
        let mut number = 0;
        for _ in 0..4 {
            number = number << 1 | fields.next().unwrap().parse::<u8>().unwrap();
        }
        let facts = Facts::of_number(number);
        assert_eq!(
            action(facts).as_str(),
            fields.next().unwrap(),
            "row {facts}"
        );
        rows += 1;
    }
    assert_eq!(rows, 15, "the specification leaves one row out");
}
