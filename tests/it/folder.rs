//! Folders of tests. Nothing in them has to survive, so that they are in memory if there is room: some file systems
//! look through all that was removed of late for each new file.

use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use tempfile::TempDir;

/// What a test needs at most, in bytes; containers often give less.
const ROOM: u64 = 2 << 30;

/// An empty folder, removed when it is dropped. It is where `TMPDIR` says, if that is set.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    match std::env::var_os("TMPDIR").is_none() && has_room(memory) {
        true => TempDir::new_in(memory).unwrap(),
        false => TempDir::new().unwrap(),
    }
}

/// Whether files of tests fit into a folder, programs among them.
fn has_room(folder: &Path) -> bool {
    let room = rustix::fs::statvfs(folder);
    room.is_ok_and(|room| {
        let runs_programs = !room.f_flag.contains(StatVfsMountFlags::NOEXEC);
        runs_programs && room.f_bavail.saturating_mul(room.f_frsize) >= ROOM
    })
}
