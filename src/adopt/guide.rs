//! `ADOPTED.md`: what was read, guessed and left out, and what only a person can answer.

use std::fmt::Write as _;

use super::{AdoptInput, Adopted, Machine};
use crate::diagnostic::counted;
use crate::identity::Kind;

/// Machines of a kind that are named one by one.
const NAMED: usize = 200;

/// A text from outside between backticks: on one line, without a backtick of its own.
pub(super) fn code(text: &str) -> String {
    let clean = |letter: char| match letter {
        '`' => '\'',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    let text: String = text.chars().take(300).map(clean).collect();
    format!("`{text}`")
}

/// A text from outside in a sentence.
fn plain(text: &str) -> String {
    let clean = |letter: char| match letter {
        '<' | '>' | '|' | '[' | ']' | '*' | '_' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => " ".to_owned(),
        letter => letter.to_string(),
    };
    text.chars().take(500).map(clean).collect()
}

/// The text of the file.
pub(super) fn guide(input: &AdoptInput<'_>, machines: &[Machine<'_>], adopted: &Adopted) -> String {
    let mut text = format!("# Adopted into site {}\n\n", code(input.site));
    let control = machines.iter().filter(|it| it.is_control_plane).count();
    let _ = writeln!(
        text,
        "{} of the backend {}: {control} of the control plane, {} with labels of a Kubernetes node. Nothing was \
         changed on them.\n",
        counted(machines.len(), "machine", "machines"),
        code(input.backend),
        machines.iter().filter(|it| !it.labels.is_empty()).count(),
    );
    text.push_str(
        "`trueup plan` shows them as adoptions. `trueup apply --adopt all` writes their records and changes no machine; \
         sections that were not compared are recorded as adopted, assumed.\n\n",
    );
    text.push_str("## Guessed\n\n| field | value | why |\n| --- | --- | --- |\n");
    if control > 0 {
        text.push_str(
            "| `metadata.tags` | `control-plane` | a label of the control plane on its node, or a member of etcd on it |\n",
        );
    }
    if control < machines.len() {
        let why = match control {
            0 => "no label of the control plane, and no member of etcd on it",
            _ => "neither of these",
        };
        let _ = writeln!(text, "| `metadata.tags` | `worker` | {why} |");
    }
    if !input.known.has_strategy && !machines.is_empty() {
        text.push_str(
            "| `strategy.yaml` | two groups at most | the control plane is critical and whole, of the workers nine in ten have to \
             succeed |\n",
        );
    }
    let by_serial = machines.iter().filter(|it| {
        it.found.listed.controller.is_some()
            && input.notes.about(it.name.as_str(), None, None).is_none()
    });
    if by_serial.count() > 0 {
        text.push_str(
            "| names of machines | serial numbers, else addresses | a controller has no name for its machine; a table with \
             `--machines FILE` names them |\n",
        );
    }
    if machines
        .iter()
        .any(|it| matches!(it.known_by, Some((Kind::Mac, _))))
    {
        text.push_str(
            "| `metadata.boot_mac` | the first MAC address | neither UUID nor serial number is shown, and which interface boots is not |\n",
        );
    }
    questions(adopted, &mut text);
    left_out(input, adopted, &mut text);
    text
}

fn questions(adopted: &Adopted, text: &mut String) {
    if adopted.questions.is_empty() {
        return;
    }
    text.push_str(
        "\n## Questions\n\nThese cannot be observed. The Adoption document lists those that a deploy needs as open: until the documents \
         fill them, or they are listed as `assumed` there, `trueup validate` names them, and no plan deploys these machines. An answer \
         changes no machine: the next plan shows it as an adoption.\n\n",
    );
    for question in &adopted.questions {
        let _ = writeln!(text, "- [ ] {question}");
    }
}

fn left_out(input: &AdoptInput<'_>, adopted: &Adopted, text: &mut String) {
    let alone = &input.inventory.nodes_alone;
    let clusters = &adopted.etcd_left_out;
    let rows = &adopted.unused_rows;
    if adopted.left_out.is_empty() && alone.is_empty() && clusters.is_empty() && rows.is_empty() {
        return;
    }
    text.push_str("\n## Left out\n\n");
    for (name, why) in adopted.left_out.iter().take(NAMED) {
        let _ = writeln!(text, "- machine {}: {}", code(name), plain(why));
    }
    if adopted.left_out.len() > NAMED {
        let _ = writeln!(
            text,
            "- … and {} more machines",
            adopted.left_out.len() - NAMED
        );
    }
    for (place, why) in rows.iter().take(NAMED) {
        let _ = writeln!(text, "- {}: {}", code(place), plain(why));
    }
    if rows.len() > NAMED {
        let _ = writeln!(text, "- … and {} more rows", rows.len() - NAMED);
    }
    for (name, why) in clusters {
        let _ = writeln!(
            text,
            "- etcd cluster {}: {}",
            code(name.as_str()),
            plain(why)
        );
    }
    for name in alone.iter().take(NAMED) {
        let _ = writeln!(
            text,
            "- Kubernetes node {}: no machine has its name",
            code(name.as_str())
        );
    }
    if alone.len() > NAMED {
        let _ = writeln!(
            text,
            "- … and {} more Kubernetes nodes",
            alone.len() - NAMED
        );
    }
}
