//! A table of machines in CSV: names, racks and tags for machines that are found by an address, a serial number, a UUID
//! or a MAC address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::design::node_name_problem;
use crate::identity::{self, Identity};

/// The columns, of which each row needs `name` and one by which a machine is found; `name` may be that.
pub const COLUMNS: [&str; 7] = ["name", "address", "serial", "uuid", "mac", "rack", "tags"];

/// Most rows of a table.
const MOST: usize = 200_000;

/// Facts that a table has about a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Its name.
    pub name: Arc<str>,
    /// The address of its controller.
    pub address: Option<Arc<str>>,
    /// The values by which it is found.
    pub identity: Identity,
    /// Its rack.
    pub rack: Option<Arc<str>>,
    /// Its tags.
    pub tags: BTreeSet<Arc<str>>,
}

/// The rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    all: Vec<Note>,
    by_value: HashMap<Arc<str>, usize>,
    /// Entries of a list that can be about no machine, with the reason.
    left_out: Vec<(String, String)>,
}

/// A problem of a table, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct NoteProblem {
    /// The line, or the entry as the list names it.
    place: String,
    message: String,
}

impl NoteProblem {
    pub(super) fn of(place: &str, message: String) -> Self {
        Self {
            place: place.to_owned(),
            message,
        }
    }

    fn in_line(line: usize, message: String) -> Self {
        Self::of(&format!("line {line}"), message)
    }
}

impl Notes {
    /// Reads a table.
    ///
    /// # Errors
    ///
    /// All problems at once.
    pub fn read(text: &str) -> Result<Self, Vec<NoteProblem>> {
        let mut problems = Vec::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().enumerate();
        let (columns, separator) = match lines.next() {
            Some((_, line)) => match columns(line, separator(line)) {
                Ok(columns) => (columns, separator(line)),
                Err(message) => return Err(vec![NoteProblem::in_line(1, message)]),
            },
            None => {
                let message = "the table is empty; its first line names its columns".to_owned();
                return Err(vec![NoteProblem::in_line(1, message)]);
            }
        };
        let mut notes = Self::default();
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let added = match notes.all.len() < MOST {
                true => row(line, &columns, separator).and_then(|note| notes.add(note)),
                false => Err(format!("the table has more than {MOST} rows")),
            };
            let is_full = notes.all.len() >= MOST;
            if let Err(message) = added {
                problems.push(NoteProblem::in_line(number + 1, message));
                if is_full {
                    break;
                }
            }
        }
        match problems.is_empty() {
            true => Ok(notes),
            false => Err(problems),
        }
    }

    /// Adds a row; each value tells one machine from all others.
    pub(super) fn add(&mut self, note: Note) -> Result<(), String> {
        let values = keys(&note.name, note.address.as_deref(), Some(&note.identity));
        for value in &values {
            if self.by_value.contains_key(value) {
                return Err(format!("`{value}` is in a row above, too"));
            }
        }
        for value in values {
            self.by_value.insert(value, self.all.len());
        }
        self.all.push(note);
        Ok(())
    }

    /// The row about a machine, by its name, the address of its controller or its identity; `None` if no row, or more than
    /// one, is about it.
    #[must_use]
    pub fn about(
        &self,
        name: &str,
        address: Option<&str>,
        identity: Option<&Identity>,
    ) -> Option<&Note> {
        let found: BTreeSet<usize> = keys(name, address, identity)
            .iter()
            .filter_map(|value| self.by_value.get(value).copied())
            .collect();
        match found.len() {
            1 => found.first().map(|at| &self.all[*at]),
            _ => None,
        }
    }

    /// Leaves an entry out, by its place in the list.
    pub(super) fn leave_out(&mut self, place: &str, why: String) {
        self.left_out.push((place.to_owned(), why));
    }

    /// The entries that can be about no machine, each with the reason.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, &str)> {
        let left_out = self.left_out.iter();
        left_out.map(|(place, why)| (place.as_str(), why.as_str()))
    }

    /// Names of rows, in their order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.all.iter().map(|note| &note.name)
    }
}

/// The values by which a machine is found.
fn keys(name: &str, address: Option<&str>, identity: Option<&Identity>) -> BTreeSet<Arc<str>> {
    let identity = identity.into_iter().flat_map(Identity::values);
    let identity = identity.map(|(_, value)| Arc::from(value.to_ascii_lowercase()));
    let address = address.map(|address| Arc::from(address.to_ascii_lowercase()));
    let mut all: BTreeSet<Arc<str>> = identity.chain(address).collect();
    all.insert(Arc::from(name));
    all
}

/// The separator of the values: the first one of the line that names the columns.
fn separator(line: &str) -> char {
    let is_separator = |letter: &char| matches!(letter, ',' | ';' | '\t');
    line.chars().find(is_separator).unwrap_or(',')
}

/// The columns of a table by their positions.
fn columns(line: &str, separator: char) -> Result<BTreeMap<usize, &'static str>, String> {
    let mut found: BTreeMap<usize, &'static str> = BTreeMap::new();
    for (at, name) in cells(line, separator)?.into_iter().enumerate() {
        let name = name.trim().to_ascii_lowercase();
        let Some(known) = COLUMNS.into_iter().find(|known| *known == name) else {
            let known = COLUMNS.join(", ");
            return Err(format!("`{name}` is no column; there are {known}"));
        };
        if found.values().any(|other| *other == known) {
            return Err(format!("the column `{known}` is twice in it"));
        }
        found.insert(at, known);
    }
    match found.values().any(|name| *name == "name") {
        true => Ok(found),
        false => Err("the table has no column `name`".to_owned()),
    }
}

fn row(
    line: &str,
    columns: &BTreeMap<usize, &'static str>,
    separator: char,
) -> Result<Note, String> {
    let cells = cells(line, separator)?;
    if cells.len() > columns.len() {
        let (cells, columns) = (cells.len(), columns.len());
        return Err(format!("{cells} values for {columns} columns"));
    }
    let cell = |wanted: &str| {
        let (at, _) = columns.iter().find(|(_, name)| **name == wanted)?;
        let text = cells.get(*at)?.trim();
        (!text.is_empty()).then_some(text)
    };
    let Some(name) = cell("name") else {
        return Err("it has no name".to_owned());
    };
    if let Some(problem) = node_name_problem(name) {
        return Err(format!("`{name}` cannot be the name of a node: {problem}"));
    }
    let refused = |what: &str, text: Option<&str>, known: bool| match text {
        Some(text) if !known => Err(format!("`{text}` is no {what} that identifies a machine")),
        _ => Ok(()),
    };
    let (uuid, serial, mac) = (cell("uuid"), cell("serial"), cell("mac"));
    let identity = Identity::of(uuid, serial).with_macs(mac);
    refused("UUID", uuid, identity.uuid.is_some())?;
    refused("serial number", serial, identity.serial.is_some())?;
    refused("MAC address", mac, mac.and_then(identity::mac).is_some())?;
    let tags = cell("tags").unwrap_or_default();
    Ok(Note {
        name: Arc::from(name),
        address: cell("address").map(Arc::from),
        identity,
        rack: cell("rack").map(Arc::from),
        tags: tags.split_whitespace().map(Arc::from).collect(),
    })
}

/// The values of a line, which may be in double quotes.
fn cells(line: &str, separator: char) -> Result<Vec<String>, String> {
    let mut cells = vec![String::new()];
    let (mut letters, mut quoted) = (line.chars().peekable(), false);
    while let Some(letter) = letters.next() {
        let Some(cell) = cells.last_mut() else { break };
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => quoted = !quoted,
            letter if letter == separator && !quoted => cells.push(String::new()),
            letter => cell.push(letter),
        }
    }
    match quoted {
        false => Ok(cells),
        true => Err("a value in quotes has no end on its line".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_found_by_each_of_its_values_and_by_no_shared_one() {
        let table =
            "name,address,serial,rack,tags\nn1,10.0.0.1,ABC123,r1,\"a b\"\nn2,10.0.0.2,,r2,\n";
        let notes = Notes::read(table).unwrap();
        let found = |name: &str, address: Option<&str>, serial: Option<&str>| {
            let identity = Identity::of(None, serial);
            let note = notes.about(name, address, Some(&identity));
            note.map(|note| note.name.to_string())
        };
        assert_eq!(found("x", Some("10.0.0.1"), None).as_deref(), Some("n1"));
        assert_eq!(found("x", None, Some("abc123")).as_deref(), Some("n1"));
        assert_eq!(found("n2", None, None).as_deref(), Some("n2"));
        assert_eq!(found("x", None, None), None);
        // Two rows are about it: neither is taken.
        assert_eq!(found("n2", Some("10.0.0.1"), None), None);
        let note = notes.about("n1", None, None).unwrap();
        assert_eq!(note.rack.as_deref(), Some("r1"));
        assert_eq!(
            note.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(),
            ["a", "b"]
        );
    }

    #[test]
    fn values_are_parted_as_the_names_of_the_columns_are() {
        let table = "name,rack,tags\nn1,hall 4;cage 2,\n";
        let rack = |table: &str| {
            let notes = Notes::read(table).unwrap();
            notes.about("n1", None, None).unwrap().rack.clone().unwrap()
        };
        assert_eq!(&*rack(table), "hall 4;cage 2");
        assert_eq!(&*rack("name;rack\nn1;1,5\n"), "1,5");
        let problems = Notes::read("name\nall\n").unwrap_err();
        assert!(
            problems[0].message.contains("must not be called"),
            "{problems:?}"
        );
    }

    #[test]
    fn all_problems_are_reported_at_once_with_their_lines() {
        let table = "name,mac,serial\nn1,zz,\n,,\n\nn 2,,\nn3,,S1\nn4,,S1\nn5,\"a\n,,,,\n";
        let problems = Notes::read(table).unwrap_err();
        let places: Vec<&str> = problems.iter().map(|it| it.place.as_str()).collect();
        let lines = [2, 3, 5, 7, 8, 9].map(|line| format!("line {line}"));
        assert_eq!(places, lines, "{problems:#?}");
        for bad in ["", "serial\nx\n", "name,name\n", "name,colour\n"] {
            assert_eq!(Notes::read(bad).unwrap_err()[0].place, "line 1", "{bad}");
        }
    }
}
