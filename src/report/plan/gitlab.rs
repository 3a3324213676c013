//! The plan as the counts that GitLab shows in a merge request.

use std::fmt::{self, Write};

use serde::Serialize;

use crate::plan::{ChangeKind, Plan};
use crate::report::json;

/// The largest number that GitLab takes.
const MOST: usize = 999_999;

#[derive(Serialize)]
struct Counts {
    create: usize,
    update: usize,
    delete: usize,
}

/// Writes the report: machines that are created, changed in place and taken away, as far as they are carried out. As in
/// the plans that the report was made for, a machine that is torn down and built again is deleted and created.
///
/// # Errors
///
/// Only if `out` fails.
pub fn gitlab(out: &mut dyn Write, plan: &Plan) -> fmt::Result {
    let mut counts = Counts {
        create: 0,
        update: 0,
        delete: 0,
    };
    for (kind, number) in &plan.summary.changes {
        match kind {
            ChangeKind::Create => counts.create += number,
            ChangeKind::Destroy => counts.delete += number,
            ChangeKind::Redeploy => {
                counts.create += number;
                counts.delete += number;
            }
            ChangeKind::Accept
            | ChangeKind::Adopt
            | ChangeKind::AwaitReady
            | ChangeKind::Record
            | ChangeKind::Rename
            | ChangeKind::Relabel
            | ChangeKind::Service
            | ChangeKind::Retire
            | ChangeKind::Unretire
            | ChangeKind::Operation
            | ChangeKind::Drift => counts.update += number,
            ChangeKind::Unknown | ChangeKind::None => {}
        }
    }
    let Counts {
        create,
        update,
        delete,
    } = counts;
    let counts = Counts {
        create: create.min(MOST),
        update: update.min(MOST),
        delete: delete.min(MOST),
    };
    json::pretty(out, &counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plan::tests::plan;

    fn written(plan: &Plan) -> serde_json::Value {
        let mut text = String::new();
        gitlab(&mut text, plan).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn machines_are_counted_and_no_number_has_more_than_six_digits() {
        let mut plan = plan();
        let wanted = serde_json::json!({"create": 3, "update": 1, "delete": 2});
        assert_eq!(written(&plan), wanted);
        plan.summary.changes.insert(ChangeKind::Redeploy, 2_000_000);
        let wanted = serde_json::json!({"create": 999_999, "update": 1, "delete": 999_999});
        assert_eq!(written(&plan), wanted);
    }
}
