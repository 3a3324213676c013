//! The shapes in which controllers take one and the same request, and which of them is tried next.
//!
//! Controllers refuse properties, parameters and headers that others demand. An operation has a short list of
//! shapes; one that is refused for its shape ([`is_about_shape`]) is repeated in the next that differs in what the
//! refusal names. What was accepted is remembered for all controllers of the make ([`Remembered`]). A table of known
//! controllers (`quirks.json`, each row with its source) gives only the order: none is left out, none is added.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use serde::{Deserialize, Serialize};

use super::resource::Resource;
use crate::backend::http::{Failure, plain};
use crate::cache::{Cache, Key, Segment};
use crate::threads::lock;

/// Most shapes that are remembered from process to process.
const MOST: usize = 10_000;

/// The image is said to be inserted.
pub(super) const INSERTED: &str = "Inserted";
/// The image is said to be read-only.
pub(super) const WRITE_PROTECTED: &str = "WriteProtected";
/// The protocol of the image's address is said.
pub(super) const TRANSFER_PROTOCOL: &str = "TransferProtocolType";
/// The image is said to be streamed.
pub(super) const TRANSFER_METHOD: &str = "TransferMethod";
/// The drive is changed, in the place of an action.
pub(super) const PATCH: &str = "PATCH";
/// The way to boot is said with the source.
pub(super) const MODE: &str = "BootSourceOverrideMode";
/// The source counts until it is taken back.
pub(super) const CONTINUOUS: &str = "Continuous";
/// The change goes to the settings for the next boot.
pub(super) const SETTINGS: &str = "@Redfish.Settings";
/// The override is said to be off.
pub(super) const DISABLED: &str = "Disabled";
/// The source is said to be none.
pub(super) const NO_TARGET: &str = "None";
/// The source is said to be the disk.
pub(super) const DISK: &str = "Hdd";
/// The component of an update is said.
pub(super) const TARGETS: &str = "Targets";
/// The protocol by which an update is fetched is said.
pub(super) const UPDATE_PROTOCOL: &str = "TransferProtocol";
/// The time at which an update is applied is said.
pub(super) const APPLY_TIME: &str = "@Redfish.OperationApplyTime";
/// The version as it was read.
pub(super) const VERSION: &str = "If-Match";
/// The version without the mark of a weak one.
pub(super) const STRONG: &str = "If-Match (strong)";
/// Any version.
pub(super) const ANY_VERSION: &str = "If-Match: *";

/// Something that controllers take in several shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Operation {
    /// Inserting an image.
    Insert,
    /// Taking an image out.
    Eject,
    /// Setting from where a machine boots.
    Boot,
    /// Taking that back.
    BootAsUsual,
    /// The version that a change is for.
    Precondition,
    /// Updating firmware.
    Update,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Insert => "an inserted image",
            Self::Eject => "an ejected image",
            Self::Boot => "a boot override",
            Self::BootAsUsual => "a boot override that is taken back",
            Self::Precondition => "a change",
            Self::Update => "an update",
        })
    }
}

/// A shape of a request: the names of what it carries beyond what each carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape(Vec<&'static str>);

impl Shape {
    pub(super) fn of(names: &[&'static str]) -> Self {
        Self(names.to_vec())
    }

    /// Whether it carries something.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// It, and one name more.
    pub(super) fn with(&self, name: &'static str) -> Self {
        let mut names = self.0.clone();
        names.push(name);
        Self(names)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str("nothing more"),
            false => f.write_str(&self.0.join(", ")),
        }
    }
}

/// The maker, the model and the firmware of a machine: what its controller's habits depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Make {
    manufacturer: Arc<str>,
    model: Arc<str>,
    firmware: Arc<str>,
}

impl Make {
    /// The make that a system shows.
    pub(super) fn of(system: &Resource) -> Self {
        let text = |pointer: &str| Arc::from(plain(system.text(pointer).unwrap_or_default(), 80));
        Self {
            manufacturer: text("/Manufacturer"),
            model: text("/Model"),
            firmware: text("/BiosVersion"),
        }
    }
}

impl fmt::Display for Make {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.manufacturer, &self.model, &self.firmware];
        let parts: Vec<&str> = parts.map(|part| &**part).into_iter().collect();
        let shown: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        f.write_str(&shown.join(" "))
    }
}

/// Accepted shapes, by make. A file keeps them from process to process: it is not trusted, since it decides nothing but the
/// order in which shapes are tried.
#[derive(Debug)]
pub(super) struct Remembered {
    all: Mutex<HashMap<(Make, Operation), Shape>>,
    /// Whether there is more than in the file.
    is_new: AtomicBool,
    file: (Cache, Key),
}

impl Remembered {
    /// Returns the shapes that were accepted by the controllers of a site.
    pub(super) fn of(cache: Cache, site: &str) -> Self {
        let key = cache.key("controllers", [site.as_bytes()]);
        let segment = cache.read(&key);
        let written: Option<Vec<Written<'_>>> = segment.as_ref().and_then(Segment::decode);
        let all = written.into_iter().flatten().take(MOST);
        let all = all.filter_map(|(make, operation, names)| {
            let [manufacturer, model, firmware] = make.map(Arc::from);
            let make = Make {
                manufacturer,
                model,
                firmware,
            };
            let names: Option<Vec<&'static str>> = names.into_iter().map(own_name).collect();
            Some(((make, operation), Shape(names?)))
        });
        Self {
            all: Mutex::new(all.collect()),
            is_new: AtomicBool::new(false),
            file: (cache, key),
        }
    }

    /// The shape that was accepted last.
    pub(super) fn shape(&self, make: &Make, operation: Operation) -> Option<Shape> {
        lock(&self.all).get(&(make.clone(), operation)).cloned()
    }

    /// Remembers an accepted shape; whether it is another than before.
    pub(super) fn keep(&self, make: &Make, operation: Operation, shape: &Shape) -> bool {
        let before = lock(&self.all).insert((make.clone(), operation), shape.clone());
        let is_new = before.as_ref() != Some(shape);
        self.is_new.fetch_or(is_new, Ordering::Relaxed);
        is_new
    }

    /// Writes what is new into the file.
    pub(super) fn save(&self) {
        if !self.is_new.swap(false, Ordering::Relaxed) {
            return;
        }
        let all = lock(&self.all);
        let written: Vec<Written<'_>> = all
            .iter()
            .take(MOST)
            .map(|((make, operation), shape)| {
                let make = [&make.manufacturer, &make.model, &make.firmware];
                (make.map(|part| &**part), *operation, shape.0.clone())
            })
            .collect();
        let (cache, key) = &self.file;
        // What cannot be written costs the next process a request.
        cache.write(key, &written);
    }
}

/// A remembered shape as the file has it: the make, the operation, the names of the shape.
type Written<'a> = ([&'a str; 3], Operation, Vec<&'a str>);

/// The name of a part of a request, if it is one of ours.
fn own_name(name: &str) -> Option<&'static str> {
    const ALL: [&str; 16] = [
        INSERTED,
        WRITE_PROTECTED,
        TRANSFER_PROTOCOL,
        TRANSFER_METHOD,
        PATCH,
        MODE,
        CONTINUOUS,
        SETTINGS,
        DISABLED,
        NO_TARGET,
        DISK,
        VERSION,
        STRONG,
        TARGETS,
        UPDATE_PROTOCOL,
        APPLY_TIME,
    ];
    let mut all = ALL.into_iter().chain([ANY_VERSION]);
    all.find(|own| *own == name)
}

/// A row of the table of known controllers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quirk {
    /// By which the manufacturer begins.
    manufacturer: Box<str>,
    /// Some part of the model; absent: any.
    #[serde(default)]
    model: Box<str>,
    operation: Operation,
    /// The names of the shape that it takes.
    shape: Vec<Box<str>>,
    /// Where it was found; for readers.
    #[serde(rename = "source")]
    _source: Box<str>,
}

static QUIRKS: LazyLock<Vec<Quirk>> = LazyLock::new(|| {
    // A test reads the table.
    serde_json::from_str(include_str!("quirks.json")).unwrap_or_default()
});

impl Quirk {
    fn is_about(&self, make: &Make, operation: Operation) -> bool {
        let manufacturer = make.manufacturer.to_ascii_lowercase();
        let model = make.model.to_ascii_lowercase();
        self.operation == operation
            && manufacturer.starts_with(&*self.manufacturer.to_ascii_lowercase())
            && model.contains(&*self.model.to_ascii_lowercase())
    }

    fn is_shape(&self, shape: &Shape) -> bool {
        shape.0.len() == self.shape.len() && self.shape.iter().all(|name| shape.has(name))
    }
}

/// The shapes that are still to be tried, in order.
#[derive(Debug)]
pub(super) struct Shapes(VecDeque<Shape>);

impl Shapes {
    /// The shapes of an operation in the order in which a make is given them: what was accepted before, what the
    /// table knows, the others as they come.
    pub(super) fn of(
        all: Vec<Shape>,
        make: &Make,
        operation: Operation,
        accepted: Option<&Shape>,
    ) -> Self {
        let known = QUIRKS.iter().find(|quirk| quirk.is_about(make, operation));
        let mut all = all;
        all.sort_by_key(|shape| {
            let is_known = known.is_some_and(|quirk| quirk.is_shape(shape));
            match (accepted == Some(shape), is_known) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            }
        });
        Self(all.into())
    }

    /// The first of the shapes that are left.
    pub(super) fn next(&mut self) -> Option<Shape> {
        self.0.pop_front()
    }

    /// The shape to try after one was refused in these words: the first that differs in what they name, else the
    /// first that is left.
    pub(super) fn after(&mut self, refused: &Shape, words: &str) -> Option<Shape> {
        let words = words.to_ascii_lowercase();
        let differs = |shape: &Shape| {
            let names = shape.0.iter().chain(&refused.0);
            let mut named = names.filter(|name| is_named(&words, name));
            named.any(|name| shape.has(name) != refused.has(name))
        };
        let at = self.0.iter().position(differs).unwrap_or(0);
        self.0.remove(at)
    }
}

/// Whether words name what a shape carries.
fn is_named(words: &str, name: &str) -> bool {
    let also = match name {
        SETTINGS => "futurestate",
        CONTINUOUS => "bootsourceoverrideenabled",
        _ => "",
    };
    words.contains(&name.to_ascii_lowercase()) || (!also.is_empty() && words.contains(also))
}

/// Whether a refusal is about the shape of a request, so that nothing was done: what is no method, format or
/// implementation, and a bad request whose words name a part of it, or no cause at all.
pub(super) fn is_about_shape(failure: &Failure) -> bool {
    let words = failure.words().unwrap_or_default();
    match failure.status().map(|status| status.as_u16()) {
        Some(405 | 415 | 501) => true,
        Some(400 | 422) => names_a_part(words),
        _ => false,
    }
}

/// Whether a refusal is about the version that a change was for.
pub(super) fn is_about_version(failure: &Failure) -> bool {
    let words = failure.words().unwrap_or_default().to_ascii_lowercase();
    match failure.status().map(|status| status.as_u16()) {
        Some(412 | 428) => true,
        Some(400) => ["if-match", "etag", "precondition"]
            .iter()
            .any(|name| words.contains(name)),
        _ => false,
    }
}

/// Whether words name a part of a request, or no cause.
fn names_a_part(words: &str) -> bool {
    const PARTS: [&str; 10] = [
        "property",
        "properties",
        "parameter",
        "attribute",
        "header",
        "field",
        "value",
        "body",
        "support",
        "required",
    ];
    const NOTHING: [&str; 4] = [
        "general error",
        "generalerror",
        "extendedinfo",
        "extendederror",
    ];
    let words = words.to_ascii_lowercase();
    let says = |all: &[&str]| all.iter().any(|each| words.contains(each));
    words.trim().is_empty() || says(&PARTS) || says(&NOTHING) || names_a_property(&words)
}

fn names_a_property(words: &str) -> bool {
    let all = [
        INSERTED,
        WRITE_PROTECTED,
        TRANSFER_PROTOCOL,
        TRANSFER_METHOD,
        MODE,
        SETTINGS,
        TARGETS,
        APPLY_TIME,
    ];
    all.iter().any(|name| is_named(words, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserts() -> Vec<Shape> {
        vec![
            Shape::of(&[INSERTED, WRITE_PROTECTED]),
            Shape::of(&[]),
            Shape::of(&[INSERTED, WRITE_PROTECTED, TRANSFER_PROTOCOL]),
            Shape::of(&[TRANSFER_PROTOCOL]),
        ]
    }

    fn make(manufacturer: &str, model: &str) -> Make {
        Make {
            manufacturer: manufacturer.into(),
            model: model.into(),
            firmware: "1".into(),
        }
    }

    #[test]
    fn the_next_shape_is_without_what_was_refused_and_with_what_is_demanded() {
        for (words, expected) in [
            ("The property Inserted is not in the list.", vec![]),
            (
                "requires TransferProtocolType",
                vec![INSERTED, WRITE_PROTECTED, TRANSFER_PROTOCOL],
            ),
            ("A general error.", vec![]),
        ] {
            let mut shapes = Shapes::of(inserts(), &Make::default(), Operation::Insert, None);
            let first = shapes.next().unwrap();
            assert_eq!(first, inserts()[0]);
            assert_eq!(
                shapes.after(&first, words),
                Some(Shape(expected)),
                "{words}"
            );
        }
        let mut shapes = Shapes::of(
            vec![Shape::default()],
            &Make::default(),
            Operation::Eject,
            None,
        );
        let only = shapes.next().unwrap();
        assert_eq!(shapes.after(&only, ""), None);
    }

    #[test]
    fn what_was_accepted_goes_first_and_then_what_the_table_knows() {
        let first = |make: &Make, accepted: Option<&Shape>| {
            Shapes::of(inserts(), make, Operation::Insert, accepted)
                .next()
                .unwrap()
        };
        let known = make("Supermicro", "SYS-1");
        assert_eq!(first(&known, None), Shape::default());
        assert_eq!(first(&make("Other", "M"), None), inserts()[0]);
        assert_eq!(
            first(&make("HPE", "ProLiant DL380 Gen9"), None),
            Shape::default()
        );
        assert_eq!(
            first(&make("HPE", "ProLiant DL380 Gen10"), None),
            inserts()[0]
        );
        assert_eq!(first(&known, Some(&inserts()[3])), inserts()[3]);
        let remembered = Remembered::of(Cache::none(), "site");
        assert!(remembered.keep(&known, Operation::Insert, &inserts()[3]));
        assert!(!remembered.keep(&known, Operation::Insert, &inserts()[3]));
        assert_eq!(
            remembered.shape(&known, Operation::Insert),
            Some(inserts()[3].clone())
        );
        assert_eq!(remembered.shape(&known, Operation::Eject), None);
    }

    #[test]
    fn what_was_accepted_outlives_the_process_and_a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let of = |site: &str| Remembered::of(Cache::new(folder.path(), b"program"), site);
        let known = make("Supermicro", "SYS-1");
        let remembered = of("one");
        remembered.keep(&known, Operation::Insert, &inserts()[2]);
        remembered.save();
        assert_eq!(
            of("one").shape(&known, Operation::Insert),
            Some(inserts()[2].clone())
        );
        assert_eq!(of("other").shape(&known, Operation::Insert), None);
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[3] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
        assert_eq!(of("one").shape(&known, Operation::Insert), None);
        // A name that no request has is of another program.
        assert_eq!(own_name("Evil"), None);
        for shape in inserts() {
            assert!(shape.0.iter().all(|name| own_name(name) == Some(name)));
        }
    }

    #[test]
    fn each_row_of_the_table_has_a_source_and_a_shape_of_its_own() {
        let rows: Vec<Quirk> = serde_json::from_str(include_str!("quirks.json")).unwrap();
        assert!(!rows.is_empty());
        for (at, row) in rows.iter().enumerate() {
            assert!(row._source.starts_with("https://"), "{row:?}");
            let twice = |other: &Quirk| {
                (&other.manufacturer, &other.model, other.operation)
                    == (&row.manufacturer, &row.model, row.operation)
            };
            assert!(!rows[..at].iter().any(twice), "{row:?}");
        }
    }

    #[test]
    fn a_refusal_is_about_shape_only_where_its_words_name_a_part_or_nothing() {
        for (words, expected) in [
            (
                "The property Inserted is not in the list of valid properties.",
                true,
            ),
            ("", true),
            ("See @Message.ExtendedInfo", true),
            ("media in use", false),
            ("only when off", false),
        ] {
            assert_eq!(names_a_part(words), expected, "{words}");
        }
    }
}
