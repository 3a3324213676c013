//! The way back to a revision of the past, and what does not return with it, for people.

use crate::plan::{WayBack, WayBackLoss};
use crate::report::{counted, short_id, some_names};

/// Losses that are listed if not everything is.
pub(super) const MOST: usize = 20;

/// The lines of a way back, with so many losses at most.
#[must_use]
pub fn way_back(way: &WayBack, most: usize) -> Vec<String> {
    let target = short_id(&way.target);
    let mut lines = vec![match (way.was_applied, way.undone.len()) {
        (true, 0) => format!("{target} is what was applied last."),
        (true, count) => {
            let runs = some_names(way.undone.iter().map(|run| run.as_str()));
            let count = counted(count, "run", "runs");
            format!("Going back to {target} undoes {count}: {runs}.")
        }
        (false, _) => format!("No run applied {target}: the losses below are of all runs."),
    }];
    let (done, ahead): (Vec<_>, Vec<_>) = way.losses.iter().partition(|loss| loss.run.is_some());
    for (title, losses) in [
        ("Gone already, and not brought back by any of it:", done),
        ("Lost by going back:", ahead),
    ] {
        if losses.is_empty() {
            continue;
        }
        lines.push(title.to_owned());
        lines.extend(losses.iter().take(most).map(|loss| line(loss)));
        if losses.len() > most {
            let more = losses.len() - most;
            lines.push(format!("  … and {more} more, all in `--format json`"));
        }
    }
    if way.losses.is_empty() {
        lines.push("Nothing is lost that trueup knows of.".to_owned());
    }
    if !way.shared_with.is_empty() {
        let sites = counted(way.shared_with.len(), "other site", "other sites");
        let names = some_names(way.shared_with.iter().map(|name| &**name));
        lines.push(format!("Files that go back are of {sites}, too: {names}."));
    }
    if !way.kept.is_empty() {
        let kept = way.kept.join(", ");
        lines.push(format!(
            "Guards stay as they are (`--with-guards` takes them back, too): {kept}."
        ));
    }
    lines
}

fn line(loss: &WayBackLoss) -> String {
    let by = match (&loss.run, &loss.at) {
        (Some(run), Some(at)) => format!(" (run {run}, {at})"),
        (Some(run), None) => format!(" (run {run})"),
        (None, _) => String::new(),
    };
    format!("  {}: {}{by}", loss.node, loss.what)
}
