//! The time of a simulated site, read and held from outside: by tests, and where a demonstration needs a moment.

use std::path::Path;
use std::time::Duration;

use super::clock::SiteClock;
use super::participants::{Participants, Place};
use super::world::{StateError, World, io_error};

/// The time of a simulated site, held: processes that take part wait at the first deadline behind it, until this is dropped,
/// or for as long as they wait at most.
#[derive(Debug)]
pub struct HeldTime {
    participants: Participants,
    place: Place,
}

impl HeldTime {
    /// Holds the time of the site in a file as it is now.
    ///
    /// # Errors
    ///
    /// A file of the site cannot be read or written.
    pub fn of(file: &Path) -> Result<Self, StateError> {
        let time = SiteClock::shared(file);
        let now = World::open(file, time)?.view()?.now;
        let holding = || io_error("hold the time of the site");
        let participants =
            Participants::create(&file.with_added_extension("clock")).map_err(holding())?;
        let (place, _) = participants.join(now).map_err(holding())?;
        Ok(Self {
            participants,
            place,
        })
    }

    /// The number of participants that wait.
    ///
    /// # Errors
    ///
    /// Their file cannot be read.
    pub fn waiting(&self) -> Result<usize, StateError> {
        let behind = self.participants.later_than(&self.place);
        behind.map_err(io_error("read the times of the processes at the site"))
    }
}

impl Drop for HeldTime {
    fn drop(&mut self) {
        // If it cannot be written, its free lock tells the others.
        let _ = self.participants.leave(&self.place);
    }
}

/// Lets the time of the site in a file pass, with all that ends meanwhile.
///
/// # Errors
///
/// The file is no simulated site, or cannot be written.
pub fn advance_time(file: &Path, by: Duration) -> Result<(), StateError> {
    let mut world = World::open(file, SiteClock::shared(file))?;
    let mut change = world.change()?;
    let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    let Some(node) = change.machines().map(|(node, _)| node).min().cloned() else {
        return Ok(());
    };
    // No process that opens the file later is at a time before that at which something was observed.
    change.now = change.now.saturating_add(by);
    change.see(&node)?;
    change.commit()
}

/// The time of the site in a file, since its beginning.
///
/// # Errors
///
/// The file is no simulated site.
pub fn site_time(file: &Path) -> Result<Duration, StateError> {
    let mut world = World::open(file, SiteClock::shared(file))?;
    Ok(Duration::from_millis(world.view()?.now))
}
