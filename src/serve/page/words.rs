//! Small parts of pages: navigation, times, states, links.

use std::fmt::{self, Write};

use crate::report::{short_id, xml};

/// The bar at the top of each page.
pub(super) fn navigation(out: &mut dyn Write) -> fmt::Result {
    writeln!(
        out,
        "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<nav class=\"top\" aria-label=\"Service\">\
         <a class=\"brand\" href=\"/\">trueup</a><a href=\"/nodes\">Nodes</a><a href=\"/#drift\">Drift</a><a href=\"/#plans\">Plans</a>\
         <a href=\"/#runs\">Runs</a><a href=\"/#sites\">Sites</a><a href=\"/api/v1/openapi.json\">API</a></nav>"
    )
}

/// A time, RFC 3339, to the minute.
pub(super) fn time(time: &str) -> String {
    let shown = match (time.get(..10), time.get(11..16)) {
        (Some(day), Some(minute)) => format!("{day} {minute}"),
        _ => time.to_owned(),
    };
    format!("<time datetime=\"{}\">{}</time>", xml(time), xml(&shown))
}

/// The state of a node; `None`: nothing was recorded.
pub(super) fn phase(phase: Option<&str>) -> String {
    let phase = phase.unwrap_or("not-started");
    let class = match phase {
        "deployed" => "pill go",
        "failed" => "pill stop",
        "unknown" => "pill warn",
        _ => "pill",
    };
    format!(
        "<span class=\"{class}\">{}</span>",
        xml(&phase.replace('-', " "))
    )
}

/// The outcome of a run.
pub(super) fn outcome(outcome: &str) -> String {
    let class = match outcome {
        "succeeded" => "pill go",
        "failed" | "abandoned" => "pill stop",
        "running" => "pill",
        _ => "pill warn",
    };
    let words = outcome.replace('-', " ");
    format!("<span class=\"{class}\">{}</span>", xml(&words))
}

/// The outcome of an action as a sentence.
pub(super) fn sentence(action: &str, outcome: &str) -> String {
    let verb = match outcome {
        "running" => "is running",
        "interrupted" => "was interrupted",
        "abandoned" => "was aborted",
        "succeeded-with-failures" => "succeeded with failures",
        other => other,
    };
    xml(&format!("{action} {verb}"))
}

/// The beginning of a commit's id or a digest.
pub(super) fn short(id: &str) -> String {
    format!("<code>{}</code>", xml(short_id(id)))
}
