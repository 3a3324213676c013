//! Workers of one host if the remote's host counts pushes: they publish their parts in one push, and each for itself if that
//! cannot be.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;

use tempfile::TempDir;

use super::Site;
use crate::accepted::example;
use crate::fixture::wait_until;

/// Enough pushes that no worker waits for its turn, and a part for each node.
const COUNTED: [&str; 4] = ["--pushes-per-minute", "60", "--nodes-per-part", "1"];

/// A run of workers whose pushes are counted, with all parts before the first that several can take carried out.
struct Counted {
    site: Site,
    /// The parts that can be carried out at the same time.
    parts: Vec<String>,
    /// What goes with the boot, if the workers meet.
    runtime: TempDir,
}

impl Counted {
    /// One of the parts is carried out, so that the workers have a place.
    fn begun(clones: usize) -> Self {
        let fixture = example("edge");
        fixture.checkout.commit("The site");
        let mut site = Site::planned(fixture, clones);
        let begun = site.begin(&COUNTED).with(0).json();
        let digest = begun["plan_digest"].as_str().unwrap();
        digest.clone_into(&mut site.digest);
        let hook = site.origin.path().join("hooks/pre-receive");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, "#!/bin/sh\necho push >> pushes\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        let all = site.parts();
        let is_prepare = |part: &String| part.contains("prepare-");
        let mut together = all.windows(3);
        let first = together.position(|three| three.iter().all(is_prepare));
        let first = first.unwrap_or_else(|| panic!("no group of three parts: {all:?}"));
        for part in &all[..first] {
            site.carry_out(0, part).with(0);
        }
        let counted = Self {
            parts: all[first..first + 3].to_vec(),
            site,
            runtime: tempfile::tempdir().unwrap(),
        };
        counted.carry_out(0, counted.runtime.path());
        counted
    }

    fn pushes(&self) -> usize {
        let told = fs::read_to_string(self.site.origin.path().join("pushes"));
        told.unwrap_or_default().lines().count()
    }

    /// Begins to carry out a part in a clone, with a folder for what goes with the boot.
    fn start(&self, clone: usize, part: usize, runtime: &Path) -> Child {
        let mut command = self.site.clones[clone].command(&self.site.part(&self.parts[part]));
        command.env("XDG_RUNTIME_DIR", runtime).spawn().unwrap()
    }

    /// Carries out a part in the first clone.
    fn carry_out(&self, part: usize, runtime: &Path) {
        assert!(self.start(0, part, runtime).wait().unwrap().success());
    }

    fn has_ended(&self, part: usize) -> bool {
        self.site.state(&self.parts[part]) == "ended"
    }

    fn place(&self) -> PathBuf {
        let mut found = fs::read_dir(self.runtime.path().join("trueup")).unwrap();
        found.next().unwrap().unwrap().path()
    }

    /// The second and the third part begin to be carried out, each in a clone of its own, while another worker has the lock and
    /// makes no push; both wait.
    fn two_wait(&self) -> (File, [Child; 2]) {
        let lock = File::create(self.place().join("lock")).unwrap();
        lock.lock().unwrap();
        let workers = [1, 2].map(|at| self.start(at, at, self.runtime.path()));
        wait_until("both wait", || requests(&self.place()) == 2);
        (lock, workers)
    }
}

fn requests(place: &Path) -> usize {
    let all = fs::read_dir(place).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".request")).count()
}

#[test]
fn workers_that_publish_at_the_same_time_do_so_in_one_push() {
    let counted = Counted::begun(3);
    let before = counted.pushes();
    let (lock, workers) = counted.two_wait();
    drop(lock);
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    assert!(counted.has_ended(1) && counted.has_ended(2));
    let pushes = counted.pushes() - before;
    assert!(pushes < 4, "{pushes} pushes");
    assert_eq!(requests(&counted.place()), 0);
}

#[test]
fn a_worker_that_waits_for_a_push_is_not_lost_with_the_one_that_makes_it() {
    let counted = Counted::begun(3);
    let (lock, [mut killed, mut waiting]) = counted.two_wait();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!counted.has_ended(2));
    drop(lock);
    assert!(waiting.wait().unwrap().success());
    assert!(counted.has_ended(2));
    let left = requests(&counted.place());
    assert_eq!(left, 0, "one of a process that is gone is removed");
    assert!(!counted.has_ended(1));
    counted.carry_out(1, counted.runtime.path());
    assert!(counted.has_ended(1));
}

#[test]
fn no_other_ref_is_pushed_for_who_asks_and_no_folder_of_others_is_used() {
    let counted = Counted::begun(1);
    let place = counted.place();
    let old = counted.site.origin.git(&["rev-parse", "main"]);
    let new = counted.site.origin.git(&["rev-parse", "main^{tree}"]);
    let objects = counted.site.origin.path().join("objects");
    let refs = counted.site.refs();
    let pushes = refs.iter().find(|name| name.ends_with("/pushes")).unwrap();
    let nested = pushes.replace("/pushes", "/a/b");
    let mut asked = Vec::new();
    for (number, name) in ["refs/heads/main", pushes, &nested].into_iter().enumerate() {
        let path = place.join(format!("{number}.request"));
        let request =
            serde_json::json!({ "objects": objects, "name": name, "old": old, "new": new });
        fs::write(&path, request.to_string()).unwrap();
        let file = File::open(&path).unwrap();
        file.lock().unwrap();
        asked.push(file);
    }
    fs::write(place.join("9.request"), "no request").unwrap();
    counted.carry_out(1, counted.runtime.path());
    assert_eq!(counted.site.origin.git(&["rev-parse", "main"]), old);
    assert!(!counted.site.refs().contains(&nested));
    assert_eq!(requests(&place), asked.len(), "these are not answered");
    // A folder that is gone is made again.
    fs::remove_dir_all(counted.runtime.path().join("trueup")).unwrap();
    counted.carry_out(1, counted.runtime.path());
    // If others may write, each worker pushes for itself.
    let shared = tempfile::tempdir().unwrap();
    let folder = shared.path().join("trueup");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    counted.carry_out(2, shared.path());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
