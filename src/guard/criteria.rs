//! Whether a group counts as successful (airship-deployment-grouping, "Success Criteria").
//!
//! Every criterion that is given must hold; none given means that nothing is checked. Percent is
//! compared as a fraction: 2 of 3 passes 66 and fails 67. A group without nodes counts as 100 % for
//! percent and as 0 nodes for the others. All criteria are monotone in the number of successful
//! nodes, so that what is possible and what is certain are the same question asked of another number.

use std::sync::Arc;

use crate::design::SuccessCriteria;

/// The verdict of the criteria on a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether all criteria that are given hold.
    pub passed: bool,
    /// Those that do not, in words (`2 of 4 nodes succeeded, at least 75 % wanted`).
    pub unmet: Vec<Arc<str>>,
}

/// Judges a group of `total` nodes of which `successful` succeeded.
#[must_use]
pub fn evaluate(criteria: &SuccessCriteria, total: usize, successful: usize) -> Verdict {
    let unmet: Vec<Arc<str>> = unmet(criteria, total, successful)
        .into_iter()
        .flatten()
        .map(|what| Arc::from(format!("{successful} of {total} nodes succeeded, {what}")))
        .collect();
    Verdict {
        passed: unmet.is_empty(),
        unmet,
    }
}

/// Whether the criteria can hold at the end, when at most `possible` of `total` nodes can succeed.
#[must_use]
pub fn can_still_hold(criteria: &SuccessCriteria, total: usize, possible: usize) -> bool {
    holds(criteria, total, possible)
}

/// Whether the criteria will hold whatever comes, when `sure` of `total` nodes have succeeded for good.
#[must_use]
pub fn is_certain(criteria: &SuccessCriteria, total: usize, sure: usize) -> bool {
    holds(criteria, total, sure)
}

/// How many of `total` nodes may fail while all criteria hold; 0 if they do not hold anyway.
#[must_use]
pub fn may_fail(criteria: &SuccessCriteria, total: usize) -> usize {
    let percent = criteria.percent_successful_nodes.map_or(0, |percent| {
        let wanted = (u128::from(percent) * total as u128).div_ceil(100);
        usize::try_from(wanted).unwrap_or(usize::MAX)
    });
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let minimum = criteria.minimum_successful_nodes.map_or(0, number);
    let may = criteria.maximum_failed_nodes.map_or(usize::MAX, number);
    total.saturating_sub(percent.max(minimum)).min(may)
}

fn holds(criteria: &SuccessCriteria, total: usize, successful: usize) -> bool {
    percent_holds(criteria, total, successful)
        && minimum_holds(criteria, successful)
        && maximum_holds(criteria, total, successful)
}

fn unmet(criteria: &SuccessCriteria, total: usize, successful: usize) -> [Option<String>; 3] {
    [
        criteria
            .percent_successful_nodes
            .filter(|_| !percent_holds(criteria, total, successful))
            .map(|percent| format!("at least {percent} % wanted")),
        criteria
            .minimum_successful_nodes
            .filter(|_| !minimum_holds(criteria, successful))
            .map(|minimum| format!("at least {minimum} wanted")),
        criteria
            .maximum_failed_nodes
            .filter(|_| !maximum_holds(criteria, total, successful))
            .map(|maximum| format!("at most {maximum} may fail")),
    ]
}

fn percent_holds(criteria: &SuccessCriteria, total: usize, successful: usize) -> bool {
    criteria.percent_successful_nodes.is_none_or(|percent| {
        total == 0 || successful as u128 * 100 >= u128::from(percent) * total as u128
    })
}

fn minimum_holds(criteria: &SuccessCriteria, successful: usize) -> bool {
    criteria
        .minimum_successful_nodes
        .is_none_or(|minimum| successful as u64 >= minimum)
}

fn maximum_holds(criteria: &SuccessCriteria, total: usize, successful: usize) -> bool {
    criteria
        .maximum_failed_nodes
        .is_none_or(|maximum| total.saturating_sub(successful) as u64 <= maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criteria(
        percent: Option<u32>,
        minimum: Option<u64>,
        maximum: Option<u64>,
    ) -> SuccessCriteria {
        SuccessCriteria {
            percent_successful_nodes: percent,
            minimum_successful_nodes: minimum,
            maximum_failed_nodes: maximum,
        }
    }

    #[test]
    fn criteria_mean_what_the_specification_says() {
        let table = [
            ("none given", criteria(None, None, None), 5, 0, true),
            ("75 % of 4", criteria(Some(75), None, None), 4, 3, true),
            ("75 % of 4", criteria(Some(75), None, None), 4, 2, false),
            ("not rounded", criteria(Some(66), None, None), 3, 2, true),
            ("not rounded", criteria(Some(67), None, None), 3, 2, false),
            (
                "empty, percent",
                criteria(Some(100), None, None),
                0,
                0,
                true,
            ),
            ("empty, minimum", criteria(None, Some(1), None), 0, 0, false),
            (
                "empty, minimum 0",
                criteria(None, Some(0), None),
                0,
                0,
                true,
            ),
            ("empty, maximum", criteria(None, None, Some(0)), 0, 0, true),
            ("minimum", criteria(None, Some(3), None), 4, 3, true),
            ("minimum", criteria(None, Some(3), None), 4, 2, false),
            ("maximum", criteria(None, None, Some(1)), 4, 3, true),
            ("maximum", criteria(None, None, Some(1)), 4, 2, false),
            (
                "all must hold",
                criteria(Some(50), Some(3), Some(9)),
                4,
                2,
                false,
            ),
        ];
        for (what, criteria, total, successful, passed) in table {
            let verdict = evaluate(&criteria, total, successful);
            assert_eq!(verdict.passed, passed, "{what}: {criteria:?}");
            assert_eq!(verdict.unmet.is_empty(), passed, "{what}");
            assert_eq!(can_still_hold(&criteria, total, successful), passed);
            assert_eq!(is_certain(&criteria, total, successful), passed);
        }
    }

    #[test]
    fn every_criterion_that_is_not_met_is_named() {
        let verdict = evaluate(&criteria(Some(90), Some(3), Some(1)), 4, 2);
        assert_eq!(
            verdict.unmet.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
            [
                "2 of 4 nodes succeeded, at least 90 % wanted",
                "2 of 4 nodes succeeded, at least 3 wanted",
                "2 of 4 nodes succeeded, at most 1 may fail",
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn another_success_never_makes_a_verdict_worse(
            percent in proptest::option::of(0u32..=100),
            minimum in proptest::option::of(0u64..12),
            maximum in proptest::option::of(0u64..12),
            total in 0usize..12,
            successful in 0usize..12,
        ) {
            let criteria = criteria(percent, minimum, maximum);
            let successful = successful.min(total);
            if successful < total && evaluate(&criteria, total, successful).passed {
                proptest::prop_assert!(evaluate(&criteria, total, successful + 1).passed);
            }
        }
    }
}
