//! Pages of HTML, each one file: nothing is loaded from anywhere, and no script runs but the one written with it.
//!
//! The content security policy in the page allows its style and its script by their digests and nothing else. No
//! attribute holds a style or a handler, so that text from a document could not bring one in even unescaped. The script
//! makes elements, never markup; the policy forbids the latter.

use std::fmt::{self, Write};

use data_encoding::BASE64;
use sha2::{Digest as _, Sha256};

use super::escape::xml;
use crate::diff::{Line, LineKind, lines};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The style and the script of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Style besides that of all pages.
    pub(crate) style: &'static str,
    /// The script.
    pub(crate) script: &'static str,
    /// Whether the script asks the service that the page comes from.
    pub(crate) connects: bool,
}

/// The look of plans, runs and differences, which are read without a network.
pub(super) const OFFLINE: Look = Look {
    style: "",
    script: SCRIPT,
    connects: false,
};

/// A name of a machine, kept on one line where it fits: browsers break at hyphens.
pub(in crate::report) fn node_name(name: &str) -> String {
    format!("<span class=\"n\">{}</span>", xml(name))
}

/// Writes a page with a title and a body.
///
/// # Errors
///
/// Only if `out` fails.
pub(crate) fn page(
    out: &mut dyn Write,
    look: Look,
    title: &str,
    body: impl FnOnce(&mut dyn Write) -> fmt::Result,
) -> fmt::Result {
    let policy = policy(look);
    let title = xml(title);
    let Look { style, script, .. } = look;
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"trueup\">\n<title>{title}</title>\n<style>{STYLE}{style}</style>\n\
         </head>\n<body>\n"
    )?;
    body(out)?;
    write!(out, "<script>{script}</script>\n</body>\n</html>\n")
}

/// The content security policy of a page.
fn policy(look: Look) -> String {
    let digest = |texts: &[&str]| {
        let mut hash = Sha256::new();
        texts.iter().for_each(|text| hash.update(text));
        BASE64.encode(&hash.finalize())
    };
    let connects = match look.connects {
        true => " connect-src 'self';",
        false => "",
    };
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}';{connects} base-uri 'none'; \
         form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        digest(&[STYLE, look.style]),
        digest(&[look.script])
    )
}

/// Two values as two cells, the words that differ marked.
pub(super) fn compared(
    out: &mut dyn Write,
    before: Option<&str>,
    after: Option<&str>,
) -> fmt::Result {
    let (Some(old), Some(new)) = (before, after) else {
        return [(before, "before", "del"), (after, "after", "ins")]
            .into_iter()
            .try_for_each(|(side, class, mark)| match side {
                Some(text) => {
                    let text = xml(text);
                    write!(
                        out,
                        "<td class=\"{class}\"><code><{mark}>{text}</{mark}></code></td>"
                    )
                }
                None => write!(out, "<td class=\"{class}\"><i class=\"none\">none</i></td>"),
            });
    };
    let hunks = lines(old, new, 0);
    for (kind, class, mark) in [
        (LineKind::Removed, "before", "del"),
        (LineKind::Added, "after", "ins"),
    ] {
        write!(out, "<td class=\"{class}\"><code>")?;
        let side = hunks.iter().flatten().filter(|line| line.kind == kind);
        let side: Vec<&Line> = side.collect();
        // If a value became another one altogether, no word of it is marked by itself.
        let whole = !side.iter().flat_map(|line| &line.parts).any(|part| part.0);
        for line in side {
            parts(out, line, mark, whole)?;
        }
        write!(out, "</code></td>")?;
    }
    Ok(())
}

/// The parts of a line, those that differ in an element of their own, or all of them.
pub(super) fn parts(out: &mut dyn Write, line: &Line, mark: &str, whole: bool) -> fmt::Result {
    for (differs, part) in &line.parts {
        let part = xml(part);
        match *differs || whole {
            true => write!(out, "<{mark}>{part}</{mark}>")?,
            false => out.write_str(&part)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
