//! The differences as a page: both values of each field in two columns, the words that differ marked, and the nodes that each document reaches.

use std::fmt::{self, Write};

use super::several_lines;
use crate::diagnostic::{Mark, Sources};
use crate::diff::{DocumentDiff, FieldDiff, Line, LineKind, Reached, lines};
use crate::document::Document;
use crate::report::counted;
use crate::report::escape::xml;
use crate::report::html::{OFFLINE, compared, page, parts};

/// Lines around each difference in a text of several lines.
const CONTEXT: usize = 3;
/// Nodes that are not folded.
const FEW_NODES: usize = 60;

/// The sides that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// Which site.
    pub site: &'a str,
    /// The base, as it was asked for.
    pub before: &'a str,
    /// The target, as it was asked for.
    pub after: &'a str,
    /// Whether rendered documents are compared.
    pub rendered: bool,
}

/// Writes the page.
///
/// # Errors
///
/// Only if `out` fails.
pub fn html(
    out: &mut dyn Write,
    diff: &DocumentDiff,
    sources: &Sources,
    reached: &Reached,
    sides: Compared<'_>,
) -> fmt::Result {
    let kind = if sides.rendered {
        "rendered documents"
    } else {
        "documents"
    };
    let title = format!("Differences of site {}", sides.site);
    page(out, OFFLINE, &title, |out| {
        writeln!(
            out,
            "<header class=\"top\"><p class=\"eyebrow\"><b>trueup</b> diff · site <b>{}</b> · {kind}</p>\n\
             <h1>{} changed, {} added, {} removed</h1>\n<p class=\"meta\"><code>{}</code> → <code>{}</code>, {} unchanged</p></header>\n<main id=\"main\">",
            xml(sides.site),
            counted(diff.changed.len(), "document", "documents"),
            diff.added.len(),
            diff.removed.len(),
            xml(sides.before),
            xml(sides.after),
            diff.unchanged
        )?;
        for changed in &diff.changed {
            open(out, ("k-change", "~"), &changed.after, sources, reached)?;
            fields(out, &changed.fields, sources)?;
            writeln!(out, "</article>")?;
        }
        for (look, documents) in [
            (("k-create", "+"), &diff.added),
            (("k-destroy", "-"), &diff.removed),
        ] {
            for present in documents {
                open(out, look, &present.document, sources, reached)?;
                writeln!(out, "</article>")?;
            }
        }
        writeln!(out, "</main>")
    })
}

fn open(
    out: &mut dyn Write,
    (class, sign): (&str, &str),
    document: &Document,
    sources: &Sources,
    reached: &Reached,
) -> fmt::Result {
    write!(
        out,
        "<article class=\"change {class}\"><h2><span class=\"sign\">{sign}</span> {}",
        xml(&document.id.to_string())
    )?;
    if let Some(layer) = &document.layer {
        write!(out, " <small>{}</small>", xml(layer))?;
    }
    writeln!(
        out,
        "</h2><p class=\"meta\">{}</p>",
        place(document.mark, sources)
    )?;
    let nodes = reached.by(&document.id);
    let count = nodes.len();
    if count == 0 {
        return Ok(());
    }
    let title = format!("Reaches {}", counted(count, "machine", "machines"));
    let names: Vec<String> = nodes.map(|node| xml(node.as_str())).collect();
    let names = names.join(", ");
    match count > FEW_NODES {
        true => writeln!(
            out,
            "<details><summary>{title}</summary><p class=\"names\">{names}</p></details>"
        ),
        false => writeln!(out, "<p class=\"names\">{title}: {names}</p>"),
    }
}

fn place(mark: Mark, sources: &Sources) -> String {
    let place = sources.place(mark);
    format!("<code>{}:{}</code>", xml(&place.path), place.line)
}

fn fields(out: &mut dyn Write, fields: &[FieldDiff], sources: &Sources) -> fmt::Result {
    writeln!(
        out,
        "<div class=\"wide\" role=\"group\" aria-label=\"Fields that differ\" tabindex=\"0\"><table class=\"fields\"><thead><tr>\
         <th scope=\"col\">Field</th><th scope=\"col\">Before</th><th scope=\"col\">After</th></tr></thead><tbody>"
    )?;
    for field in fields {
        let node = field.after.as_ref().or(field.before.as_ref());
        let place = node.map_or_else(String::new, |node| place(node.mark, sources));
        let moved = field.moved_from.as_ref().map_or_else(String::new, |from| {
            format!(" <small>moved from {}</small>", xml(from))
        });
        write!(
            out,
            "<tr><th scope=\"row\"><code>{}</code>{moved} <small>{place}</small></th>",
            xml(&field.path)
        )?;
        match several_lines(field) {
            Some((before, after)) => {
                let hunks = lines(before, after, CONTEXT);
                text(out, &hunks, LineKind::Removed)?;
                text(out, &hunks, LineKind::Added)?;
            }
            None => {
                let [before, after] = field.shown();
                compared(out, before.as_deref(), after.as_deref())?;
            }
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// One side of a text, its lines numbered; if the other side has more lines, blank ones keep both abreast.
fn text(out: &mut dyn Write, hunks: &[Vec<Line>], side: LineKind) -> fmt::Result {
    let mark = if side == LineKind::Removed {
        "del"
    } else {
        "ins"
    };
    out.write_str("<td class=\"lines\"><pre>")?;
    for (number, hunk) in hunks.iter().enumerate() {
        if number > 0 {
            out.write_str("<i class=\"none\">…</i>\n")?;
        }
        for run in
            hunk.chunk_by(|one, next| (one.kind == LineKind::Same) == (next.kind == LineKind::Same))
        {
            let own = |line: &&Line| line.kind == side || line.kind == LineKind::Same;
            let shown = run.iter().filter(own);
            let other = run
                .iter()
                .filter(|line| line.kind != side || line.kind == LineKind::Same);
            let blank = other.count().saturating_sub(shown.clone().count());
            for line in shown {
                let at = if side == LineKind::Removed {
                    line.before
                } else {
                    line.after
                };
                let at = at.map_or_else(String::new, |at| at.to_string());
                write!(out, "<i class=\"none\">{at:>4} </i>")?;
                let whole = line.kind != LineKind::Same && !line.parts.iter().any(|part| part.0);
                parts(out, line, mark, whole)?;
                out.write_str("\n")?;
            }
            for _ in 0..blank {
                out.write_str("\n")?;
            }
        }
    }
    out.write_str("</pre></td>")
}
