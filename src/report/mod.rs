//! Output for people and programs: diagnostics, plans, diffs, events and runs as text and in formats for machines.
//!
//! Values in, text out. Nothing here opens a file, inspects the terminal or reads the environment: the caller
//! calls hands in where to write and the [`Palette`] to write with. Everything that comes out of a
//! document, a commit or a machine is taken as hostile: [`Visible`] makes control characters harmless on a
//! terminal, and each format escapes what has a meaning in it. Each function is linear in what it writes.

pub mod airflow;
pub mod airship;
mod anonymous;
pub mod diagnostics;
pub mod diff;
pub mod doctor;
mod escape;
pub mod etcd;
pub mod explain;
mod hinted;
mod html;
pub mod json;
mod natural;
mod palette;
pub mod plan;
pub mod rollout;
pub mod run;
pub mod sites;
mod table;
mod unfinished;
mod wrap;

pub use crate::diagnostic::{counted, short_id, some_names};
pub use anonymous::anonymous;
pub use escape::{Visible, names};
pub(crate) use escape::{html_sentence, xml};
pub use hinted::{OfSite, of_site};
pub(crate) use html::{Look, page};
pub use natural::natural;
pub use palette::{Painted, Palette, Role};
pub use unfinished::{named, unfinished, ways_out, ways_out_text};
pub use wrap::Wrapped;
