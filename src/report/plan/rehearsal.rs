//! The rehearsal of a plan, in lines.

use std::fmt::{self, Write};

use super::words::{at_most, rounded};
use crate::plan::{Plan, Rehearsal};
use crate::report::counted;
use crate::report::escape::visible;

/// Writes the rehearsal of a plan; nothing if it was not rehearsed.
pub fn write(out: &mut dyn Write, plan: &Plan) -> fmt::Result {
    let Some((heading, lines)) = lines(plan) else {
        return Ok(());
    };
    writeln!(out, "{heading}")?;
    for line in lines {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// The heading and the lines; `None` if it was not rehearsed.
pub(super) fn lines(plan: &Plan) -> Option<(String, Vec<String>)> {
    let rehearsal = plan.rehearsal.as_ref()?;
    let Rehearsal {
        runs, first_seed, ..
    } = rehearsal;
    let heading = format!(
        "Rehearsal: {}, in which {} of 100 attempts of steps go wrong",
        match runs {
            1 => format!("1 simulated run (seed {first_seed})"),
            _ => {
                let last = first_seed.saturating_add(*runs as u64 - 1);
                format!("{runs} simulated runs (seeds {first_seed} to {last})")
            }
        },
        rehearsal.faults
    );
    let mut lines = vec![match (rehearsal.failed, runs) {
        (0, 1) => "it does not fail".to_owned(),
        (_, 1) => "it fails".to_owned(),
        (0, _) => "none fails".to_owned(),
        (failed, _) => format!(
            "{} {}",
            counted(failed, "fails", "fail"),
            share(failed, *runs)
        ),
    }];
    for group in &rehearsal.groups {
        let Some(seed) = group.seed else {
            continue;
        };
        lines.push(format!(
            "group {}{}: does not succeed in {} {}, first with seed {seed}",
            visible(group.group.as_str()),
            if group.critical { " (critical)" } else { "" },
            counted(group.failed, "run", "runs"),
            share(group.failed, *runs)
        ));
    }
    for cluster in &rehearsal.etcd {
        let short = match cluster.left_short {
            0 => String::new(),
            count => format!(
                "; {} with fewer than the plan leaves",
                counted(count, "run ends", "runs end")
            ),
        };
        lines.push(format!(
            "etcd \"{}\": {} → {} members at worst (seed {}){short}",
            visible(cluster.cluster.as_str()),
            cluster.now,
            cluster.fewest,
            cluster.seed
        ));
    }
    if rehearsal.most_away > 0 {
        lines.push(format!(
            "at most {} out of service at the same time (seed {})",
            counted(rehearsal.most_away, "machine", "machines"),
            rehearsal.most_away_seed
        ));
    }
    lines.push(match runs {
        1 => format!("takes {}", at_most(rehearsal.longest)),
        _ => format!(
            "half of them take less than {}, the longest {} (seed {})",
            rounded(rehearsal.median),
            at_most(rehearsal.longest),
            rehearsal.longest_seed
        ),
    });
    if let Some(worst) = &rehearsal.worst {
        let steps: Vec<String> = worst.failures.iter().map(|step| visible(step)).collect();
        let more = match worst.more {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        // If nothing fails, the plan itself leaves them so, as its warnings tell.
        let failed = match steps.is_empty() {
            true => String::new(),
            false => format!(": {}{more}", steps.join("; ")),
        };
        lines.push(format!(
            "worst: seed {} leaves {} undone{failed}",
            worst.seed,
            counted(worst.undone, "machine", "machines"),
        ));
    }
    Some((heading, lines))
}

/// A share of the runs in percent, never 0 % of what happened.
fn share(part: usize, whole: usize) -> String {
    match (part * 100 + whole / 2) / whole.max(1) {
        0 => "(under 1 %)".to_owned(),
        percent => format!("({percent} %)"),
    }
}
