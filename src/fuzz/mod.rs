//! The targets of the fuzzers: hostile bytes into everything that reads bytes.
//!
//! A function for each target; it panics when a promise is broken, and does nothing else. The targets of
//! `fuzz/` call them under libFuzzer; the tests here call them over the corpora of `fuzz/corpus`, and over
//! thousands of mutations of them, on any toolchain.

use std::sync::Arc;

use crate::diagnostic::{Diagnostics, Sources};
use crate::document::{
    self, Document, Limits, LoadSettings, Node, Value, write_canonical, write_yaml,
};
use crate::observed;
use crate::render::path::Path;
use crate::{backend, journal, plan, render, report};

/// Limits under which one case takes milliseconds, and that cases can reach.
fn limits() -> Limits {
    Limits {
        file_bytes: 64 << 10,
        depth: 50,
        values: 20_000,
        documents: 200,
        expanded_nodes: 20_000,
        problems: 100,
    }
}

/// Every place that a problem points at is a place in the text.
fn points_into(sources: &Sources, diagnostics: &Diagnostics) {
    for diagnostic in diagnostics.iter() {
        let Some(mark) = diagnostic.mark else {
            continue;
        };
        let text = sources.text(mark.source);
        assert!(
            text.is_char_boundary(mark.offset as usize),
            "{diagnostic:?}"
        );
        let place = sources.place(mark);
        assert!(place.line >= 1 && place.column >= 1, "{diagnostic:?}");
    }
}

/// Documents as a file holds them; `None` if the bytes are not text at all.
fn documents(data: &[u8]) -> Option<Vec<Arc<Document>>> {
    let settings = LoadSettings {
        limits: limits(),
        flat: data.first().is_some_and(|byte| byte % 2 == 0),
        rendered: data.first().is_some_and(|byte| byte % 3 == 0),
        blob: None,
    };
    let text = document::decode("fuzz.yaml", data, &settings.limits).ok()?;
    let mut sources = Sources::new();
    let source = sources.add("fuzz.yaml", text.clone());
    let file = document::load(source, &text, &settings);
    for (start, end) in &file.secret {
        sources.hide(source, *start, *end);
    }
    points_into(&sources, &file.diagnostics);
    Some(file.documents)
}

fn canonical(node: &Node) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_canonical(node, &mut bytes);
    bytes
}

/// YAML: read, written and read again it means the same.
pub fn document(data: &[u8]) {
    for document in documents(data).into_iter().flatten() {
        let mut written = String::new();
        write_yaml(&document.data, true, &mut written);
        let mut sources = Sources::new();
        let source = sources.add("again.yaml", written.as_str());
        let (again, problems) = document::load_values(source, &written, &Limits::default());
        assert!(!problems.has_errors(), "{written}\n{problems:?}");
        let [again] = again.as_slice() else {
            panic!("{} values in {written}", again.len());
        };
        assert_eq!(canonical(&document.data), canonical(again), "{written}");
    }
}

/// The path language: the first line is a path, what follows the value that it is used on.
pub fn path(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (path, value) = text.split_once('\n').unwrap_or((&text, ""));
    let Ok(path) = Path::parse(path) else { return };
    let mut sources = Sources::new();
    let source = sources.add("value.yaml", value);
    let (values, _) = document::load_values(source, value, &limits());
    let Some(node) = values.first() else { return };
    let all = path.all(node);
    let first = path.first(node);
    assert_eq!(all.is_empty(), first.is_none());
    assert!(all.is_empty() || path.absence(node).is_none());
    let mut changed = node.clone();
    if path
        .set(
            &mut changed,
            Node::new(Value::string("put"), node.mark),
            node.mark,
        )
        .is_ok()
    {
        let put = path.all(&changed);
        assert!(
            put.iter()
                .any(|found| found.to_node().as_str() == Some("put"))
        );
    }
    let mut changed = node.clone();
    let removed = path.remove(&mut changed);
    assert!(removed > 0 || canonical(&changed) == canonical(node));
}

/// Layering, substitution and replacement: the same documents in another order render to the same.
pub fn render(data: &[u8]) {
    let Some(mut documents) = documents(data) else {
        return;
    };
    let rendered = |documents: &[Arc<Document>]| {
        let rendering = render::render(documents, &render::RenderOptions::default());
        let texts = rendering.documents.iter().map(|rendered| {
            let mut text = format!("{} {}\n", rendered.id().schema, rendered.id().name);
            write_yaml(&rendered.data, true, &mut text);
            text
        });
        texts.collect::<Vec<_>>()
    };
    let forward = rendered(&documents);
    documents.reverse();
    assert_eq!(forward, rendered(&documents));
}

/// A saved plan: one that is read is written as the same plan again, and can be shown in every form.
pub fn saved_plan(data: &[u8]) {
    use plan::saved::SavedError::{Altered, AnotherEffect};
    let mut read = plan::saved::read(data);
    let mut text = String::from_utf8_lossy(data).into_owned();
    // A plan made by hand gets valid digests: of its effect, and of all of it.
    for _ in 0..3 {
        let Err(Altered { written, computed } | AnotherEffect { written, computed }) = &read else {
            break;
        };
        text = text.replace(&format!("\"{written}\""), &format!("\"{computed}\""));
        read = plan::saved::read(text.as_bytes());
    }
    let Ok(read) = read else { return };
    let again = plan::saved::read(&plan::saved::write(&read));
    assert_eq!(
        again.map(|plan| plan::saved::digest(&plan)).ok(),
        Some(plan::saved::digest(&read))
    );
    shown(&read);
}

/// A plan in every form: nothing in it drives a terminal, and a comment keeps to its size.
fn shown(plan: &plan::Plan) {
    let is_harmless =
        |text: &str| !text.contains(|it: char| it.is_control() && it != '\n' || it == '\u{202e}');
    let mut text = String::new();
    let folded = report::plan::View::default();
    let full = report::plan::View {
        full: true,
        steps: true,
        ..folded
    };
    for view in [folded, full] {
        report::plan::text(&mut text, plan, view).expect("a string takes any text");
    }
    report::plan::dot(&mut text, plan, 100).expect("a string takes any text");
    report::plan::mermaid(&mut text, plan, 100).expect("a string takes any text");
    report::plan::html(&mut text, plan, None).expect("a string takes any text");
    assert!(is_harmless(&text), "{text:?}");
    let comment = report::plan::Comment {
        max_bytes: 4096,
        digest: None,
    };
    let mut text = String::new();
    report::plan::markdown(&mut text, plan, &comment).expect("a string takes any text");
    assert!(
        text.len() <= comment.max_bytes && is_harmless(&text),
        "{text:?}"
    );
}

/// A journal: what is whole stays whole when what was torn is cut off.
pub fn journal(data: &[u8]) {
    whole_stays_whole(data);
    // With the checksums that they ought to have, any bytes reach the entries.
    let frames: Vec<&[u8]> = data.split(|byte| *byte == 0).collect();
    let sealed = journal::sealed(&frames);
    whole_stays_whole(&sealed);
    let Ok((entries, whole)) = journal::entries::<journal::Entry>(&sealed) else {
        return;
    };
    assert_eq!(whole, sealed.len());
    let before = journal::sealed(&frames[..frames.len() - 1]).len();
    let torn = journal::entries::<journal::Entry>(&sealed[..sealed.len() - 1]);
    assert!(torn.is_ok_and(|(torn, end)| end == before && entries.starts_with(&torn)));
    for entry in entries {
        let line = serde_json::to_vec(&entry).expect("an entry is written");
        assert_eq!(
            serde_json::from_slice::<journal::Entry>(&line).ok(),
            Some(entry)
        );
    }
}

fn whole_stays_whole(data: &[u8]) {
    let Ok((entries, whole)) = journal::entries::<journal::Entry>(data) else {
        return;
    };
    let again = journal::entries::<journal::Entry>(&data[..whole]);
    assert!(again.is_ok_and(|(again, end)| again == entries && end == whole));
}

/// A file of the observed state: refused, or what is read of it is what is written again.
pub fn observations(data: &[u8]) {
    let Ok(seen) = observed::read(data) else {
        return;
    };
    let mut written = Vec::new();
    observed::write(&seen, &mut written).expect("memory can be written");
    let again = observed::read(&*written);
    assert!(again.is_ok_and(|again| again == seen), "{seen:?}");
}

pub use backend::hardware::fuzz::{ironic, maas, redfish};

#[cfg(test)]
mod tests;
