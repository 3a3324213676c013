//! The processes that take part in the time of a simulated site, in a folder beside its file.
//!
//! The file `times` has eight bytes for each participant: the time that it has arrived at, or [`ABSENT`]. It is read
//! and written under its advisory lock. The file that is called as the participant's number is locked by it
//! as long as it lives, and the kernel frees that lock however it ends: a place whose lock is free has no owner,
//! whatever its time is.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The time of a place without an owner, or of one that was left behind.
const ABSENT: u64 = u64::MAX;
/// The most processes at one site.
const MOST: usize = 1024;
/// The bytes of a time.
const WIDTH: usize = size_of::<u64>();

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
    /// Opens the folder; `None` where no process has ever taken part.
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

    /// Opens the folder, and makes it where it is missing.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            times: opened(&folder.join("times"))?,
        })
    }

    /// Takes a place: at the time of the slowest participant, and not before `own`. Gives that time, too.
    pub(super) fn join(&self, own: u64) -> io::Result<(Place, u64)> {
        self.locked(|times| {
            self.bury(times)?;
            let mut free = (0..MOST).map(|number| (number, self.hold(number)));
            let (number, held) = free
                .find_map(|(number, held)| match held {
                    Ok(held) => Some(Ok((number, held?))),
                    Err(error) => Some(Err(error)),
                })
                .unwrap_or_else(|| Err(io::Error::other("too many processes")))?;
            let at = slowest(times, None).map_or(own, |slowest| slowest.at.max(own));
            self.write(times, number, at)?;
            let place = Place {
                number,
                at,
                _held: held,
            };
            Ok((place, at))
        })
    }

    /// Notes that a participant has arrived at a time, and answers whether it may continue there.
    pub(super) fn arrive(&self, place: &mut Place, at: u64) -> io::Result<Turn> {
        self.locked(|times| {
            if times.get(place.number) != Some(&place.at) {
                return Ok(Turn::LeftBehind);
            }
            self.write(times, place.number, at)?;
            place.at = at;
            Ok(turn(times, place))
        })
    }

    /// Answers again whether a participant may continue at the time that it has arrived at.
    pub(super) fn turn(&self, place: &Place) -> io::Result<Turn> {
        self.times.lock_shared()?;
        let times = self.read();
        self.times.unlock()?;
        let times = times?;
        Ok(match times.get(place.number) {
            Some(at) if *at == place.at => turn(&times, place),
            _ => Turn::LeftBehind,
        })
    }

    /// Takes a participant in again that was left behind: at the time of the others, and not before `own`.
    pub(super) fn rejoin(&self, place: &mut Place, own: u64) -> io::Result<u64> {
        self.locked(|times| {
            let others = slowest(times, Some(place.number));
            let at = others.map_or(own, |slowest| slowest.at.max(own));
            self.write(times, place.number, at)?;
            place.at = at;
            Ok(at)
        })
    }

    /// Whether a participant was left behind.
    pub(super) fn left_behind(&self, place: &Place) -> io::Result<bool> {
        Ok(self.turn(place)? == Turn::LeftBehind)
    }

    /// The number of participants at a later time.
    pub(super) fn later_than(&self, place: &Place) -> io::Result<usize> {
        self.locked(|times| {
            self.bury(times)?;
            let later = times.iter().filter(|at| **at != ABSENT && **at > place.at);
            Ok(later.count())
        })
    }

    /// Gives a place up.
    pub(super) fn leave(&self, place: &Place) -> io::Result<()> {
        self.locked(|times| match times.get(place.number) == Some(&place.at) {
            true => self.write(times, place.number, ABSENT),
            false => Ok(()),
        })
    }

    /// Leaves a participant behind, if it is where it was; `only_dead`: only where its process is gone.
    pub(super) fn leave_behind(&self, slowest: Slowest, only_dead: bool) -> io::Result<()> {
        self.locked(|times| {
            let is_there = times.get(slowest.number) == Some(&slowest.at);
            if is_there && (!only_dead || self.hold(slowest.number)?.is_some()) {
                self.write(times, slowest.number, ABSENT)?;
            }
            Ok(())
        })
    }

    /// The time of the slowest participant that lives.
    pub(super) fn common(&self) -> io::Result<Option<u64>> {
        self.locked(|times| {
            self.bury(times)?;
            Ok(slowest(times, None).map(|slowest| slowest.at))
        })
    }

    /// Empties the places of processes that are gone.
    fn bury(&self, times: &mut [u64]) -> io::Result<()> {
        for number in 0..times.len() {
            if times[number] != ABSENT && self.hold(number)?.is_some() {
                self.write(times, number, ABSENT)?;
            }
        }
        Ok(())
    }

    /// Locks a place; `None` where its process lives.
    fn hold(&self, number: usize) -> io::Result<Option<File>> {
        let file = opened(&self.folder.join(number.to_string()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn locked<T>(&self, body: impl FnOnce(&mut [u64]) -> io::Result<T>) -> io::Result<T> {
        self.times.lock()?;
        let result = self.read().and_then(|mut times| body(&mut times));
        self.times.unlock()?;
        result
    }

    fn read(&self) -> io::Result<Vec<u64>> {
        let mut bytes = Vec::new();
        let mut reader = &self.times;
        reader.seek(SeekFrom::Start(0))?;
        reader.take((MOST * WIDTH) as u64).read_to_end(&mut bytes)?;
        let (times, _) = bytes.as_chunks::<WIDTH>();
        Ok(times.iter().map(|time| u64::from_le_bytes(*time)).collect())
    }

    /// Writes one time, behind those that are there where it is a new one.
    fn write(&self, times: &mut [u64], number: usize, at: u64) -> io::Result<()> {
        if let Some(time) = times.get_mut(number) {
            *time = at;
        }
        let missing = (times.len()..number).map(|_| ABSENT).chain([at]);
        let bytes: Vec<u8> = match times.len() > number {
            true => at.to_le_bytes().into(),
            false => missing.flat_map(u64::to_le_bytes).collect(),
        };
        let mut writer = &self.times;
        writer.seek(SeekFrom::Start((times.len().min(number) * WIDTH) as u64))?;
        writer.write_all(&bytes)
    }
}

/// Opens a file, and makes it where it is missing.
fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// The slowest participant besides one; the first of several.
fn slowest(times: &[u64], besides: Option<usize>) -> Option<Slowest> {
    let there = times.iter().enumerate();
    there
        .filter(|(number, at)| **at != ABSENT && Some(*number) != besides)
        .map(|(number, at)| Slowest { number, at: *at })
        .min_by_key(|slowest| slowest.at)
}

fn turn(times: &[u64], place: &Place) -> Turn {
    match slowest(times, Some(place.number)) {
        Some(slowest) if slowest.at < place.at => Turn::Waits(slowest),
        _ => Turn::Its,
    }
}
