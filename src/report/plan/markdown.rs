//! The plan as the comment of a pull request, never longer than the host allows.
//!
//! First a marker, so that a pipeline finds its comment again and updates it in place; then the summary
//! and everything destructive, outside any fold; then a fold a group. What does not fit is left out at whole
//! nodes, details first, with a line that lists the omissions. Values from documents are shown so that
//! they mean nothing to markdown: no fence, no mention, no reference, no HTML.

use std::fmt::{self, Write};

use super::fold::{self, Piece};
use super::forecast;
use super::outline::{self, Alike, OutlinePart, Stage, gather_by, outline, visible_changes};
use super::way_back::{MOST, way_back};
use super::{rehearsal, summary, words};
use crate::plan::{Change, Plan};
use crate::report::escape::{markdown_code, markdown_text, visible};
use crate::report::{counted, unfinished};

/// GitHub's limit on a comment.
pub const DEFAULT_MAX_BYTES: usize = 65_536;

/// Fewer bytes than this hold no comment that says anything.
const LEAST_BYTES: usize = 1_024;
/// Bytes reserved for the lines that list omissions.
const RESERVE: usize = 512;
/// Machines that are named on a line: longer lines are not read, and hide the lines behind them.
const MOST_NAMES: usize = 200;
/// Lines of machines that are wiped or taken away, before they are counted only.
const MOST_LINES: usize = 40;
/// Most steps of which the comment has a picture.
const MOST_DRAWN_PHASES: usize = 60;
/// Most commits that are listed.
const MOST_COMMITS: usize = 10;

/// The parameters of the comment besides the plan.
#[derive(Clone, Copy, Debug)]
pub struct Comment<'a> {
    /// Most bytes; below 1,024 it is cut hard.
    pub max_bytes: usize,
    /// The digest of the saved plan, if it was saved.
    pub digest: Option<&'a str>,
}

impl Default for Comment<'_> {
    fn default() -> Self {
        Self {
            max_bytes: DEFAULT_MAX_BYTES,
            digest: None,
        }
    }
}

/// The first line of the comment for a site, by which a pipeline finds it.
#[must_use]
pub fn marker(site: &str) -> String {
    let mut name = String::new();
    for byte in site.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    format!("<!-- trueup:plan site={name} -->")
}

/// Writes the comment.
///
/// # Errors
///
/// Only if `out` fails.
pub fn markdown(out: &mut dyn Write, plan: &Plan, comment: &Comment<'_>) -> fmt::Result {
    let mut page = Page {
        text: String::new(),
        most: comment.max_bytes,
    };
    head(&mut page.text, plan, comment);
    let foot = foot(plan, comment);
    // The destructive part is whole: each kind with its count, and as many names as can be.
    let space = page.space().saturating_sub(foot.len() + RESERVE);
    destructive(&mut page.text, plan, space);
    let space = page.space().saturating_sub(foot.len() + RESERVE);
    blocked_and_warnings(&mut page.text, plan, space);
    expected(&mut page, plan, foot.len());
    rehearsed(&mut page, plan, foot.len());
    covers(&mut page, plan, foot.len());
    details(&mut page, plan, foot.len());
    picture(&mut page, plan, foot.len());
    page.text.push_str(&foot);
    out.write_str(page.finish())
}

/// The expected effects on workloads of the nodes, as far as there is space.
fn expected(page: &mut Page, plan: &Plan, reserved: usize) {
    let lines = forecast::lines(plan, false);
    let all = lines.len();
    let mut lines = lines
        .iter()
        .map(|line| format!("- {}\n", markdown_text(line)));
    let mut text = String::from("\n**Forecast**\n\n");
    let space = page.space().saturating_sub(reserved + RESERVE);
    let mut shown = 0;
    for line in &mut lines {
        if text.len() + line.len() > space {
            break;
        }
        text.push_str(&line);
        shown += 1;
    }
    if shown < all {
        let _ = writeln!(text, "- … and {} more", all - shown);
    }
    if shown > 0 {
        page.text.push_str(&text);
    }
}

/// The rehearsal, if all of it has space.
fn rehearsed(page: &mut Page, plan: &Plan, reserved: usize) {
    let Some((title, lines)) = rehearsal::lines(plan) else {
        return;
    };
    let mut text = format!("\n**{}**\n\n", markdown_text(&title));
    for line in lines {
        let _ = writeln!(text, "- {}", markdown_text(&line));
    }
    if text.len() <= page.space().saturating_sub(reserved + RESERVE) {
        page.text.push_str(&text);
    }
}

/// The parts that an approval covers, of as many nodes as there is space for.
fn covers(page: &mut Page, plan: &Plan, reserved: usize) {
    let Some(covers) = words::covers(plan, MOST_NAMES) else {
        return;
    };
    let end = "\n</details>\n";
    let mut text = format!(
        "\n<details><summary>{}</summary>\n\n",
        markdown_text(&covers.title)
    );
    let space = page.space().saturating_sub(reserved + RESERVE + end.len());
    let mut more = covers.more;
    for (name, parts) in &covers.parts {
        let mut item = format!("- **{}**\n", markdown_text(name));
        for part in parts {
            let _ = writeln!(item, "  - {}", markdown_text(part));
        }
        match text.len() + item.len() > space {
            true => more += 1,
            false => text.push_str(&item),
        }
    }
    if more > 0 {
        let _ = writeln!(text, "- … and {more} more");
    }
    if text.len() <= space {
        page.text.push_str(&text);
        page.text.push_str(end);
    }
}

/// A text that must not grow beyond a number of bytes.
struct Page {
    text: String,
    most: usize,
}

impl Page {
    fn space(&self) -> usize {
        self.most.saturating_sub(self.text.len())
    }

    /// The text; cut hard where even what must be there is more than allowed.
    fn finish(&self) -> &str {
        let mut end = self.most.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.text[..end]
    }
}

fn head(out: &mut String, plan: &Plan, comment: &Comment<'_>) {
    out.push_str(&marker(plan.site.as_str()));
    let _ = writeln!(
        out,
        "\n### Plan for {}: {}\n",
        markdown_code(plan.site.as_str()),
        markdown_text(plan.request.action.as_str())
    );
    for notice in &plan.notices {
        let _ = writeln!(out, "> **Warning:** {}\n", markdown_text(notice));
    }
    if let Some(run) = &plan.unfinished {
        let _ = writeln!(out, "> **Warning:** {}\n", markdown_text(&unfinished(run)));
    }
    if let Some(refusal) = words::refusal(plan) {
        let _ = writeln!(out, "> **{}**\n", markdown_text(&refusal));
    }
    for line in summary(plan) {
        let _ = writeln!(out, "**{}**\n", markdown_text(&line));
    }
    if let Some(flags) = words::flags(plan) {
        let _ = writeln!(out, "{}\n", markdown_text(&flags));
    }
    let guards = words::guards(plan);
    if !guards.is_empty() {
        out.push_str("Guards:\n\n");
        for (line, is_weaker) in &guards {
            let line = markdown_text(line);
            let _ = match is_weaker {
                true => writeln!(out, "- **{line}**"),
                false => writeln!(out, "- {line}"),
            };
        }
        out.push('\n');
    }
    for part in words::history(plan) {
        let _ = writeln!(out, "{}\n", markdown_text(&part.title));
        for commit in part.commits.iter().take(MOST_COMMITS) {
            let id = markdown_code(&words::short(&commit.commit));
            let _ = writeln!(out, "- {id} {}", markdown_text(&commit.subject));
        }
        let more = part.commits.len().saturating_sub(MOST_COMMITS);
        if more > 0 {
            let _ = writeln!(out, "- … and {more} more");
        }
        if !part.commits.is_empty() {
            out.push('\n');
        }
    }
    for line in plan.way_back.iter().flat_map(|way| way_back(way, MOST)) {
        let (indent, line) = match line.strip_prefix("  ") {
            Some(line) => ("- ", line),
            None => ("", line.as_str()),
        };
        let _ = writeln!(out, "{indent}{}", markdown_text(line));
    }
    if plan.way_back.is_some() {
        out.push('\n');
    }
    let (target, base) = words::revisions(plan);
    let _ = write!(
        out,
        "{} → {}, as of {}",
        markdown_code(&base),
        markdown_code(&target),
        markdown_text(&plan.options.as_of)
    );
    if let Some(digest) = comment.digest {
        let _ = write!(out, ", plan {}", markdown_code(&words::short(digest)));
    }
    if !plan.is_empty() {
        let _ = write!(out, ", effect {}", markdown_code(&words::effect(plan)));
    }
    out.push('\n');
}

fn foot(plan: &Plan, comment: &Comment<'_>) -> String {
    let mut text =
        "\nThe plan holds until the documents, the last site action or the machines that it is about change.\n"
            .to_owned();
    if comment.digest.is_some() && !plan.is_blocked() {
        text.push_str("Apply the saved plan to carry out exactly this.\n");
    }
    text
}

/// Everything that destroys data or takes a machine away, alike changes together.
fn destructive(out: &mut String, plan: &Plan, space: usize) {
    let all = gather_by(
        visible_changes(plan).filter(|change| change.wipes_or_takes_away()),
        |change| {
            let headline = words::headline(change);
            format!("{:?}{}{headline}", change.kind, change.blocked.is_some())
        },
    );
    if all.is_empty() {
        return;
    }
    let nodes: usize = all.iter().map(|alike| alike.changes.len()).sum();
    let blocked: usize = all
        .iter()
        .filter(|alike| alike.first().is_some_and(|first| first.blocked.is_some()))
        .map(|alike| alike.changes.len())
        .sum();
    let of_them = if blocked > 0 {
        format!(" ({blocked} of them blocked)")
    } else {
        String::new()
    };
    let _ = writeln!(
        out,
        "\n> [!CAUTION]\n> **{} or taken away{of_them}:**",
        counted(nodes, "machine is wiped", "machines are wiped")
    );
    let start = out.len();
    let mut lines = 0;
    let mut left: Vec<&Change> = Vec::new();
    for alike in &all {
        let Some(first) = alike.first() else {
            continue;
        };
        let tail = if first.blocked.is_some() {
            " (BLOCKED)"
        } else {
            ""
        };
        let head = format!(
            "> - {} **{}**{tail}: ",
            markdown_code(first.kind.sign()),
            markdown_text(&words::headline(first))
        );
        let used = out.len() - start;
        let budget = space.saturating_sub(used + head.len());
        if lines == MOST_LINES || budget < 64 {
            left.extend(&alike.changes);
            continue;
        }
        lines += 1;
        out.push_str(&head);
        names(out, alike, budget.min(space / 2));
        out.push('\n');
        let why = words::causes(alike.changes.iter().copied());
        if !why.is_empty() && out.len() - start + why.len() + 64 < space {
            let _ = writeln!(out, ">   because {}", markdown_text(&why));
        }
    }
    if !left.is_empty() {
        let _ = writeln!(out, "> - and more: {}", fold::sum(left.into_iter()));
    }
}

/// The names of the nodes as far as there is space, and the number of the others.
fn names(out: &mut String, alike: &Alike<'_>, space: usize) {
    let start = out.len();
    for (index, change) in alike.changes.iter().enumerate() {
        let name = markdown_code(change.node.as_str());
        // Space for the line that gives the number of the others.
        if index == MOST_NAMES || out.len() - start + name.len() + 40 > space {
            let rest = alike.changes.len() - index;
            let and = if index == 0 { "" } else { " and " };
            let _ = write!(out, "{and}{}", counted(rest, "node more", "nodes more"));
            return;
        }
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(&name);
    }
}

fn blocked_and_warnings(out: &mut String, plan: &Plan, space: usize) {
    let start = out.len();
    let blocked = outline::blocked(plan);
    let mut left = 0;
    if plan.is_denied() {
        out.push_str("\n**Denied**\n");
    }
    for verdict in &plan.policies.denied {
        let _ = writeln!(out, "- {}", markdown_text(&words::verdict(verdict)));
    }
    if !plan.approvals.is_empty() {
        let from = markdown_text(&plan.approvals.rules_from);
        let _ = writeln!(out, "\n**Approvals** by the rules of {from}");
    }
    for (line, is_open) in words::approvals(plan) {
        let mark = if is_open { "✗" } else { "✓" };
        let _ = writeln!(out, "- {mark} {}", markdown_text(&line));
    }
    if !blocked.is_empty() {
        out.push_str("\n**Blocked**\n");
    }
    for alike in &blocked {
        let Some((first, block)) = alike
            .first()
            .and_then(|first| Some((first, first.blocked.as_ref()?)))
        else {
            continue;
        };
        let mut line = format!(
            "- {} {} {}",
            markdown_code(first.kind.sign()),
            markdown_text(&words::verb(first)),
            words::names(alike.changes.iter().copied(), 8, markdown_code)
        );
        let reason = block.reason_for(alike.changes.len());
        let _ = write!(line, ": {}", markdown_text(&reason));
        if let Some(way) = block.way_out(alike.changes.len()) {
            let _ = write!(line, "; {}", markdown_text(&way));
        }
        line.push('\n');
        if out.len() - start + line.len() > space {
            left += alike.changes.len();
        } else {
            out.push_str(&line);
        }
    }
    if left > 0 {
        let _ = writeln!(out, "- and {} more", counted(left, "node", "nodes"));
    }
    let mut left = 0;
    let warned = plan.policies.warned.iter().map(words::verdict);
    let warnings = warned.chain(plan.warnings.iter().map(|warning| warning.to_string()));
    for (index, warning) in warnings.enumerate() {
        let head = if index == 0 { "\n" } else { "" };
        let line = format!("{head}⚠ {}\n", markdown_text(&warning));
        if out.len() - start + line.len() > space {
            left += 1;
        } else {
            out.push_str(&line);
        }
    }
    if left > 0 {
        let _ = writeln!(
            out,
            "\n⚠ and {}",
            counted(left, "more warning", "more warnings")
        );
    }
}

/// A fold a stage, whole nodes as far as there is space.
fn details(page: &mut Page, plan: &Plan, foot: usize) {
    let mut left_nodes = 0;
    let mut left_stages = 0;
    let parts = outline(plan);
    let (stages, others) = fold::stages(&parts, false);
    for fold::Shown { part, like } in &stages {
        if stage(page, part, foot) {
            folded(page, like, " like this", foot);
        } else {
            let all = like.iter().copied().chain([*part]);
            left_nodes += all.map(|part| part.nodes).sum::<usize>();
            left_stages += 1;
        }
    }
    folded(page, &others, "", foot);
    if left_stages > 0 {
        let _ = writeln!(
            page.text,
            "\nLeft out for length: {} with {}; the whole plan is in the text and JSON formats.",
            counted(left_stages, "fold", "folds"),
            counted(left_nodes, "node", "nodes")
        );
    }
}

/// The fold of one stage; whether there was space for its first changes.
fn stage(page: &mut Page, part: &OutlinePart<'_>, foot: usize) -> bool {
    let title = match &part.stage {
        Stage::Group(group) => format!("Group {} ({})", group.name, words::about(group)),
        Stage::Asked => "As asked".to_owned(),
        Stage::Outside => "In no group".to_owned(),
        Stage::Left => "No longer in the design".to_owned(),
    };
    let changes = counted(part.nodes, "change", "changes");
    let open = format!(
        "\n<details><summary>{}: {changes}</summary>\n\n",
        markdown_text(&title)
    );
    let pieces = fold::pieces(part, false);
    let lumps: Vec<String> = pieces.iter().map(lump).collect();
    // A fence is longer than any run of backticks in it.
    let longest = lumps.iter().map(|lump| backticks(lump)).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    let frame = open.len() + 2 * fence.len() + 96;
    let mut space = page.space().saturating_sub(foot + RESERVE);
    if space < frame + lumps.first().map_or(0, String::len) {
        return false;
    }
    space -= frame;
    page.text.push_str(&open);
    let _ = writeln!(page.text, "{fence}diff");
    let mut left_here = 0;
    for (piece, lump) in pieces.iter().zip(&lumps) {
        if left_here == 0 && lump.len() <= space {
            space -= lump.len();
            page.text.push_str(lump);
        } else {
            left_here += piece.changes().len();
        }
    }
    let _ = writeln!(page.text, "{fence}");
    if left_here > 0 {
        let nodes = counted(left_here, "node is", "nodes are");
        let _ = writeln!(page.text, "{nodes} left out here for length.");
    }
    page.text.push_str("\n</details>\n");
    true
}

/// Groups that have no fold of their own, as far as there is space.
fn folded(page: &mut Page, parts: &[&OutlinePart<'_>], what: &str, foot: usize) {
    if parts.is_empty() {
        return;
    }
    let line = fold::said_of(parts, what, 8);
    let line = format!("\n… and {}\n", markdown_text(&line));
    if line.len() <= page.space().saturating_sub(foot + RESERVE / 2) {
        page.text.push_str(&line);
    }
}

/// Changes that are alike, as lines of a diff: the sign is in the first column.
fn lump(piece: &Piece<'_, '_>) -> String {
    let mut text = String::new();
    let changes = piece.changes();
    let Some(first) = changes.first() else {
        return text;
    };
    let what = match piece {
        Piece::Alike(_) => None,
        Piece::SameFields(_) => Some("more with the same fields"),
        Piece::Others(_) => Some("more"),
    };
    if let Some(what) = what {
        let names = words::names(changes.iter().copied(), 8, visible);
        let sum = fold::sum(changes.iter().copied());
        let _ = writeln!(text, "    … and {} {what}, {sum}: {names}", changes.len());
        return text;
    }
    // The highlighter knows `+`, `-` and `!`.
    let sign = match first.kind.sign() {
        "-/+" | "-" => "-",
        "+" => "+",
        _ => "!",
    };
    let names = words::names(changes.iter().copied(), 8, visible);
    let blocked = if first.blocked.is_some() {
        " BLOCKED"
    } else {
        ""
    };
    let _ = writeln!(text, "{sign} {names}: {}{blocked}", words::headline(first));
    for reason in &first.reasons {
        let _ = writeln!(text, "    {}", visible(reason));
    }
    for line in words::cleaning(first) {
        let _ = writeln!(text, "    {line}");
    }
    fields(&mut text, first);
    text
}

fn fields(text: &mut String, change: &Change) {
    let shown = &change.fields[..change.fields.len().min(words::MOST_FIELDS)];
    for (index, field) in shown.iter().enumerate() {
        let before = words::value(field.before.as_deref());
        let after = words::value(field.after.as_deref());
        let path = visible(&field.path);
        let _ = writeln!(text, "    {} {path}: {before} → {after}", field.section);
        if let Some(accepted) = &field.accepted {
            let _ = writeln!(text, "      accepted {}", visible(accepted));
        }
        let next = shown.get(index + 1);
        if !field.chain.is_empty() && next.is_none_or(|next| next.chain != field.chain) {
            let _ = writeln!(text, "      because {}", words::chain(&field.chain));
        }
    }
    if shown.len() < change.fields.len() {
        let more = change.fields.len() - shown.len();
        let _ = writeln!(
            text,
            "    … and {}",
            counted(more, "more field", "more fields")
        );
    }
}

/// The longest run of backticks.
fn backticks(text: &str) -> usize {
    text.split(|character| character != '`')
        .map(str::len)
        .max()
        .unwrap_or(0)
}

/// The graph, folded by phase, if it is small and there is space for it.
fn picture(page: &mut Page, plan: &Plan, foot: usize) {
    if plan.steps.is_empty() || super::graph::phases(&plan.steps).len() > MOST_DRAWN_PHASES {
        return;
    }
    let mut graph = String::new();
    if super::mermaid(&mut graph, plan, 24).is_err() {
        return;
    }
    let text = format!(
        "\n<details><summary>Order of the steps</summary>\n\n```mermaid\n{graph}```\n\n</details>\n"
    );
    if page.most >= LEAST_BYTES && text.len() + foot <= page.space() {
        page.text.push_str(&text);
    }
}
