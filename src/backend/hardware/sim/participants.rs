//! The processes that take part in the time of a simulated site, in a folder beside its file.
//!
//! The file `times` has sixteen bytes for each participant: the time that it has arrived at, and the one at which the
//! others have left it behind, each as the number above it; 0: none. No lock is taken to read or write them, since a process
//! may be stopped (SIGSTOP) at any instant, and would keep it: the first is written by the participant alone, the second
//! by the others, and each side reads the other's after it has written its own, so that one of them sees both.
//!
//! The file that is called as the participant's number is locked by it as long as it lives, and the kernel frees that lock
//! however it ends: a place whose lock is free has no owner, whatever its time is, and who holds the lock may empty it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The most processes at one site.
const MOST: usize = 1024;
/// The bytes of a place: its time, and that at which it was left behind.
const WIDTH: usize = 2 * size_of::<u64>();

/// The folder of the participants of a site.
#[derive(Debug)]
pub(super) struct Participants {
    folder: PathBuf,
    times: File,
}

/// One of the participants: this process.
#[derive(Debug)]
pub(super) struct Place {
    number: usize,
    /// The time that this process has written last.
    at: u64,
    /// Locked as long as this process takes part.
    _held: File,
}

impl Place {
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

/// The times that are written of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    at: Option<u64>,
    left: Option<u64>,
}

impl Written {
    fn of(bytes: &[u8; WIDTH]) -> Self {
        let (numbers, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
        let number = |index: usize| u64::from_le_bytes(numbers[index]).checked_sub(1);
        Self {
            at: number(0),
            left: number(1),
        }
    }

    /// The time of a participant that the others have not left behind.
    fn present(self) -> Option<u64> {
        self.at.filter(|_| self.left != self.at)
    }
}

fn bytes_of(time: Option<u64>) -> [u8; size_of::<u64>()] {
    time.map_or(0, |time| time.saturating_add(1)).to_le_bytes()
}

/// A participant that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slowest {
    number: usize,
    at: u64,
}

/// The answer to a participant that has arrived at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// No other is behind it.
    Its,
    /// Another one is.
    Waits(Slowest),
    /// It was left behind by the others.
    LeftBehind,
}

impl Participants {
    /// Opens the folder; `None` if no process has ever taken part.
    pub(super) fn open(folder: &Path) -> io::Result<Option<Self>> {
        match OpenOptions::new()
            .read(true)
            .write(true)
            .open(folder.join("times"))
        {
            Ok(times) => Ok(Some(Self {
                folder: folder.to_owned(),
                times,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the folder, and makes it if it is missing.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            times: opened(&folder.join("times"))?,
        })
    }

    /// Takes a place: at the time of the slowest participant, and not before `own`. Gives that time, too.
    pub(super) fn join(&self, own: u64) -> io::Result<(Place, u64)> {
        self.bury()?;
        for number in 0..MOST {
            if let Some(held) = self.hold(number)? {
                let mut place = Place {
                    number,
                    at: own,
                    _held: held,
                };
                let at = self.rejoin(&mut place, own)?;
                return Ok((place, at));
            }
        }
        Err(io::Error::other("too many processes"))
    }

    /// Notes that a participant has arrived at a time, and answers whether it may continue there.
    pub(super) fn arrive(&self, place: &mut Place, at: u64) -> io::Result<Turn> {
        if self.left_behind(place)? {
            return Ok(Turn::LeftBehind);
        }
        let before = std::mem::replace(&mut place.at, at);
        self.times
            .write_all_at(&bytes_of(Some(at)), offset(place.number))?;
        let times = self.read()?;
        // Meanwhile the others may have left it behind where it was.
        match times.get(place.number) {
            Some(written) if written.left != Some(before) => Ok(turn(&times, place)),
            _ => Ok(Turn::LeftBehind),
        }
    }

    /// Answers again whether a participant may continue at the time that it has arrived at.
    pub(super) fn turn(&self, place: &Place) -> io::Result<Turn> {
        Ok(turn(&self.read()?, place))
    }

    /// Takes a participant in again that was left behind: at the time of the others, and not before `own`.
    pub(super) fn rejoin(&self, place: &mut Place, own: u64) -> io::Result<u64> {
        let others = |times: &[Written]| slowest(times, Some(place.number)).map(|other| other.at);
        let mut at = others(&self.read()?).map_or(own, |other| other.max(own));
        self.write(place.number, Some(at))?;
        // From here on the others wait for it; before, they may have continued.
        if let Some(later) = others(&self.read()?).filter(|other| *other > at) {
            at = later;
            self.write(place.number, Some(at))?;
        }
        place.at = at;
        Ok(at)
    }

    /// Whether a participant was left behind.
    pub(super) fn left_behind(&self, place: &Place) -> io::Result<bool> {
        Ok(self.turn(place)? == Turn::LeftBehind)
    }

    /// The number of participants at a later time.
    pub(super) fn later_than(&self, place: &Place) -> io::Result<usize> {
        self.bury()?;
        let times = self.read()?.into_iter().filter_map(Written::present);
        Ok(times.filter(|at| *at > place.at).count())
    }

    /// Gives a place up.
    pub(super) fn leave(&self, place: &Place) -> io::Result<()> {
        self.write(place.number, None)
    }

    /// Leaves a participant behind, if it is where it was; `only_dead`: only if its process is gone.
    pub(super) fn leave_behind(&self, slowest: Slowest, only_dead: bool) -> io::Result<()> {
        if self.emptied(slowest.number)? || only_dead {
            return Ok(());
        }
        let left = offset(slowest.number) + size_of::<u64>() as u64;
        self.times.write_all_at(&bytes_of(Some(slowest.at)), left)
    }

    /// The time of the slowest participant that lives.
    pub(super) fn common(&self) -> io::Result<Option<u64>> {
        self.bury()?;
        Ok(slowest(&self.read()?, None).map(|slowest| slowest.at))
    }

    /// Empties the places of processes that are gone.
    fn bury(&self) -> io::Result<()> {
        for (number, written) in self.read()?.into_iter().enumerate() {
            if written.at.is_some() {
                self.emptied(number)?;
            }
        }
        Ok(())
    }

    /// Whether the process of a place was gone; the place is empty then.
    fn emptied(&self, number: usize) -> io::Result<bool> {
        let Some(held) = self.hold(number)? else {
            return Ok(false);
        };
        self.write(number, None)?;
        drop(held);
        Ok(true)
    }

    /// Locks a place; `None` if its process lives.
    fn hold(&self, number: usize) -> io::Result<Option<File>> {
        let file = opened(&self.folder.join(number.to_string()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// The times of all places: read twice the same, so that no number is read while it is written.
    fn read(&self) -> io::Result<Vec<Written>> {
        let mut before = self.bytes()?;
        loop {
            let bytes = self.bytes()?;
            if bytes == before {
                let (places, _) = bytes.as_chunks::<WIDTH>();
                return Ok(places.iter().map(Written::of).collect());
            }
            before = bytes;
        }
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; MOST * WIDTH];
        let mut read = 0;
        loop {
            match self.times.read_at(&mut bytes[read..], read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Writes the time of a place, at which no other has left it behind.
    fn write(&self, number: usize, at: Option<u64>) -> io::Result<()> {
        let bytes = [bytes_of(at), bytes_of(None)].concat();
        self.times.write_all_at(&bytes, offset(number))
    }
}

/// Where a place is written in the file.
fn offset(number: usize) -> u64 {
    (number * WIDTH) as u64
}

/// Opens a file, and makes it if it is missing.
fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// The slowest participant besides one; the first of several.
fn slowest(times: &[Written], besides: Option<usize>) -> Option<Slowest> {
    let there = times.iter().enumerate();
    there
        .filter(|(number, _)| Some(*number) != besides)
        .filter_map(|(number, written)| Some((number, written.present()?)))
        .map(|(number, at)| Slowest { number, at })
        .min_by_key(|slowest| slowest.at)
}

fn turn(times: &[Written], place: &Place) -> Turn {
    let is_there = |written: &Written| written.present() == Some(place.at);
    match slowest(times, Some(place.number)) {
        _ if !times.get(place.number).is_some_and(is_there) => Turn::LeftBehind,
        Some(slowest) if slowest.at < place.at => Turn::Waits(slowest),
        _ => Turn::Its,
    }
}
