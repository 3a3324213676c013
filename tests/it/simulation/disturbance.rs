//! What happens around a process while it lives: somebody takes its run over, writes its records or sets the
//! clock, it sleeps, or a disk fails for a while.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use trueup::run::Timekeeper as _;

use super::death::Death;
use super::{Life, Moment, RunCommand, SITE, Stage};

/// What stands aside while a disk does not work.
const ASIDE: &str = "aside";

/// What a process may find broken for a while. Its journal is no part of it: a process that cannot write that
/// ends, as a [`Death`] in it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    /// No object of the repository can be read or written.
    Objects,
    /// No ref can be moved.
    Refs,
    /// Nothing can be written beside the journal.
    Run,
}

/// The process sleeps at an event for longer than a lock may stand still, and somebody else goes on with its
/// run, up to a death. Gives the life of the other, once there was one.
pub(super) fn taken_over(stage: &Stage, event: usize, death: Option<Death>) -> Receiver<Life> {
    let (sender, receiver) = channel();
    at(stage, event, move |stage| {
        stage.clock.pause(Duration::from_secs(11 * 60));
        let mut other = stage.alias();
        if stage.hub.is_some() {
            other.move_to((stage.clone + 1) % super::CLONES.len());
        }
        // Its time begins where that of the one that sleeps has come to.
        let time = stage.clock.now().saturating_sub(other.clock.now());
        other.clock.pause(time);
        let life = std::thread::spawn(move || {
            other.bury();
            other.live(&RunCommand::Resume(Default::default()), death)
        });
        let _ = sender.send(life.join().unwrap());
    });
    receiver
}

/// The process sleeps at an event, and nobody notices.
pub(super) fn suspended(stage: &Stage, event: usize, time: Duration) {
    at(stage, event, move |stage| stage.clock.pause(time));
}

/// Somebody sets the clock on the wall at an event.
pub(super) fn clock_is_set(stage: &Stage, event: usize, off: i64) {
    at(stage, event, move |stage| {
        stage.clock.off.store(off, Ordering::SeqCst);
    });
}

/// Somebody who does not have the lock writes the records at an event. Gives a word once that was done.
pub(super) fn records_are_moved(stage: &Stage, event: usize) -> Receiver<()> {
    let (sender, receiver) = channel();
    at(stage, event, move |stage| {
        let root = stage.folder.path().join(super::CLONES[stage.clone]);
        let handle = git2::Repository::open(root).unwrap();
        let name = format!("refs/trueup/{SITE}/state");
        let mut state = handle.find_reference(&name).unwrap();
        let tip = state.peel_to_commit().unwrap();
        let (author, tree) = (tip.author(), tip.tree().unwrap());
        let message = tip.message().unwrap();
        let moved = handle
            .commit(None, &author, &author, message, &tree, &[&tip])
            .unwrap();
        state.set_target(moved, "moved").unwrap();
        let _ = sender.send(());
    });
    receiver
}

/// A disk does not work from an event on, for some time.
pub(super) fn disk_fails(stage: &Stage, disk: Disk, event: usize, time: Duration) {
    at(stage, event, move |stage| {
        let path = match disk {
            Disk::Objects => stage.repository.common_dir().join("objects"),
            Disk::Refs => stage.repository.common_dir().join("trueup/.locks"),
            Disk::Run => match stage.lock() {
                Some(lock) => stage.run_files(&lock.holder.run.as_str().into()),
                None => return,
            },
        };
        if path.exists() {
            std::fs::rename(&path, path.with_extension(ASIDE)).unwrap();
        }
        std::fs::write(&path, "").unwrap();
        let whole_again = Moment::Time(stage.clock.now() + time);
        let mut elsewhere = stage.elsewhere.borrow_mut();
        elsewhere.push((whole_again, Box::new(mend)));
    });
}

/// Whatever was broken works again.
pub(super) fn mend(stage: &Stage) {
    let common = stage.repository.common_dir();
    let mut places: Vec<PathBuf> = vec![common.join("objects"), common.join("trueup/.locks")];
    let runs = std::fs::read_dir(common.join("trueup").join(SITE));
    places.extend(runs.into_iter().flatten().map(|run| run.unwrap().path()));
    for path in places {
        let aside = path.with_extension(ASIDE);
        if path.is_file() && (aside.is_dir() || path.ends_with(".locks")) {
            std::fs::remove_file(&path).unwrap();
        }
        if aside.is_dir() && !path.exists() {
            std::fs::rename(aside, path).unwrap();
        }
    }
}

fn at(stage: &Stage, event: usize, happens: impl FnOnce(&Stage) + Send + 'static) {
    let mut elsewhere = stage.elsewhere.borrow_mut();
    elsewhere.push((Moment::Event(event), Box::new(happens)));
}
