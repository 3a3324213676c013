//! The etcd clusters of a site: how healthy each is, who is in it, what it can still lose.

use std::fmt::{self, Write};

use serde::Serialize;

use super::airship::{Message, MessageKind, Status};
use super::table::{Cell, Table};
use super::{Palette, Role, Visible};
use crate::design::EtcdCluster;
use crate::guard::quorum::{self, Health, Member};
use crate::observed::EtcdSeen;
use crate::step::FailureReason;

/// A cluster of the design, and its observed state.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Its design.
    pub cluster: &'a EtcdCluster,
    /// The observed state.
    pub seen: &'a EtcdSeen,
}

impl Row<'_> {
    fn health(&self) -> Health {
        quorum::health(self.cluster, self.seen, None)
    }
}

/// Writes each cluster as a line and a table of its members.
///
/// # Errors
///
/// Only if `out` fails.
pub fn text(out: &mut dyn Write, rows: &[Row<'_>], palette: Palette) -> fmt::Result {
    if rows.is_empty() {
        return writeln!(out, "The site has no etcd clusters.");
    }
    for (position, row) in rows.iter().enumerate() {
        if position > 0 {
            writeln!(out)?;
        }
        let health = row.health();
        let role = match health {
            Health::Healthy => Role::Success,
            Health::Unhealthy => Role::Warning,
            Health::Inaccessible | Health::Invalid => Role::Error,
        };
        let name = Visible(row.cluster.name.as_str());
        let word = palette.paint(role, health.as_str());
        let spare = match quorum::can_lose(row.cluster, row.seen) {
            0 => "it can lose no member".to_owned(),
            1 => "it can lose 1 member".to_owned(),
            more => format!("it can lose {more} members"),
        };
        writeln!(
            out,
            "{}: {word}; {spare}",
            palette.paint(Role::Strong, &name.to_string())
        )?;
        table(row).write(out, palette)?;
    }
    Ok(())
}

fn table(row: &Row<'_>) -> Table {
    let mut table = Table::new(&[
        "MEMBER", "NODE", "ROLE", "VERSION", "DB SIZE", "LAG", "ALARMS", "STATE",
    ]);
    for line in lines(row) {
        table.row(vec![
            Cell::in_role(Role::Strong, &line.name),
            Cell::or_none(line.node),
            Cell::or_none(line.role),
            Cell::or_none(line.version),
            Cell::or_none(line.db_size.map(size)),
            Cell::or_none(line.raft_lag.map(|lag| lag.to_string())),
            match line.alarms.is_empty() {
                true => Cell::none(),
                false => Cell::in_role(Role::Error, line.alarms.join(", ")),
            },
            match line.problem {
                Some(problem) => Cell::in_role(Role::Warning, problem),
                None => Cell::new("healthy"),
            },
        ]);
    }
    table
}

/// Bytes in the unit that fits, with one digit behind the point.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// One member, as a line of the table and as JSON.
#[derive(Serialize)]
struct Line<'a> {
    name: String,
    node: Option<&'a str>,
    id: Option<&'a str>,
    role: Option<&'static str>,
    version: Option<&'a str>,
    db_size: Option<u64>,
    raft_lag: Option<u64>,
    alarms: Vec<&'a str>,
    healthy: bool,
    problem: Option<String>,
}

/// One cluster as JSON.
#[derive(Serialize)]
struct Cluster<'a> {
    name: &'a str,
    health: &'static str,
    can_lose: usize,
    minimum_healthy: usize,
    members: Vec<Line<'a>>,
}

fn lines<'a>(row: &Row<'a>) -> Vec<Line<'a>> {
    let members = quorum::members(row.cluster, row.seen);
    let answers = || members.iter().filter_map(|member| member.answer);
    let newest = answers().map(|answer| answer.raft_index).max();
    let alarms: std::collections::BTreeSet<_> =
        answers().flat_map(|answer| &answer.alarms).collect();
    let lines = members.iter().map(|member| {
        let id = member.live.map(|live| &*live.id);
        Line {
            name: name(member),
            node: member.designed.map(|designed| designed.node.as_str()),
            id,
            role: role(member),
            version: member.answer.map(|answer| &*answer.version),
            db_size: member.answer.map(|answer| answer.db_size),
            raft_lag: member
                .answer
                .zip(newest)
                .map(|(answer, newest)| newest.saturating_sub(answer.raft_applied)),
            alarms: alarms
                .iter()
                .filter(|alarm| Some(&*alarm.member) == id)
                .map(|alarm| &*alarm.kind)
                .collect(),
            healthy: member.problem.is_none(),
            problem: member.problem.clone(),
        }
    });
    lines.collect()
}

fn name(member: &Member<'_>) -> String {
    match (member.designed, member.live) {
        (Some(designed), _) => designed.name.to_string(),
        (None, Some(live)) if live.name.is_empty() => format!("id {}", live.id),
        (None, live) => live.map_or_else(String::new, |live| live.name.to_string()),
    }
}

fn role(member: &Member<'_>) -> Option<&'static str> {
    let live = member.live?;
    let leads = member
        .answer
        .is_some_and(|answer| answer.leader.as_ref() == Some(&live.id));
    Some(match (live.learner, leads) {
        (true, _) => "learner",
        (false, true) => "leader",
        (false, false) => "voter",
    })
}

/// The status object of the specification ("Promenade Check etcd"): a message for each cluster.
#[must_use]
pub fn status(rows: &[Row<'_>]) -> Status {
    let invalid = rows.iter().filter(|row| row.health() == Health::Invalid);
    let invalid: Vec<&str> = invalid.map(|row| row.cluster.name.as_str()).collect();
    let (reason, message) = match (rows.len(), &*invalid) {
        (0, _) => (
            FailureReason::Success,
            "The site has no etcd clusters".to_owned(),
        ),
        (_, []) => (
            FailureReason::Success,
            "The etcd clusters were asked".to_owned(),
        ),
        (_, names) => (
            FailureReason::EtcdNotAccessible,
            format!("invalid answers from etcd cluster {}", names.join(", ")),
        ),
    };
    let messages = rows.iter().map(|row| {
        let health = row.health();
        Message {
            message: health.as_str().to_owned(),
            error: health.is_error(),
            kind: MessageKind::HealthMessage,
            name: Some(row.cluster.name.to_string()),
        }
    });
    Status {
        reason: reason.into(),
        message,
        messages: messages.collect(),
    }
}

/// Writes [`status`] as JSON, with `details.clusters`: each cluster and its members.
///
/// # Errors
///
/// It cannot be written as JSON; it always can.
pub fn json(rows: &[Row<'_>]) -> Result<String, fmt::Error> {
    let clusters: Vec<_> = rows
        .iter()
        .map(|row| Cluster {
            name: row.cluster.name.as_str(),
            health: row.health().as_str(),
            can_lose: quorum::can_lose(row.cluster, row.seen),
            minimum_healthy: row.cluster.minimum_healthy,
            members: lines(row),
        })
        .collect();
    status(rows).to_json_with("clusters", &clusters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_told_in_the_unit_that_fits() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (20_480, "20.0 KiB"),
            (1_572_864, "1.5 MiB"),
            (2_147_483_648, "2.0 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
