//! The remote and the lock, against a bare repository in a folder.

use std::sync::Barrier;
use std::time::Duration;

use trueup::repository::{
    CommitId, Error, Holder, Lock, NewLock, ProgramTimeout, PushOutcome, RefUpdate, Repository,
    Selection, Signature,
};

use crate::git::{Checkout, Origin};

const STATE: &str = "refs/trueup/one/state";
const TAG: &str = "refs/tags/site-action-success/one/R1";
const TIMEOUT: ProgramTimeout = ProgramTimeout::Unattended(Duration::from_secs(60));

/// An origin with three commits on `main`, and a clone of it.
fn origin_and_clone() -> (Origin, Checkout, Vec<CommitId>) {
    let origin = Origin::new();
    let seed = Checkout::new();
    let commits = (0..3)
        .map(|number| {
            seed.write("site/a.yaml", format!("a: {number}\n"));
            seed.commit(&number.to_string())
        })
        .collect();
    seed.git(&["push", "--quiet", &origin.url(), "main"]);
    let clone = Checkout::clone_of(&origin.url(), &[]);
    (origin, clone, commits)
}

fn update(name: &str, old: Option<CommitId>, new: Option<CommitId>) -> RefUpdate {
    RefUpdate {
        name: name.to_owned(),
        old: old.map(|id| id.0),
        new: new.map(|id| id.0),
    }
}

fn holder(run: &str) -> Holder {
    Holder::this_process("ada", run, "2026-01-01T00:00:00Z")
}

fn new_lock<'a>(holder: &'a Holder, nonce: &'a str) -> NewLock<'a> {
    NewLock {
        site: "one",
        holder,
        plan: b"{\"steps\":[]}",
        nonce,
        author: Signature {
            name: "Ada".to_owned(),
            email: "ada@example.org".to_owned(),
            seconds: 1_700_000_000,
        },
    }
}

#[test]
fn what_is_pushed_with_a_lease_arrives_whole_or_not_at_all() {
    let (origin, clone, commits) = origin_and_clone();
    let repository = clone.open();
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    let [one, two, three] = commits[..] else {
        panic!()
    };
    assert!(remote.ls_remote(&[STATE]).unwrap().is_empty());
    let first = [update(STATE, None, Some(one)), update(TAG, None, Some(one))];
    assert_eq!(remote.push(&first).unwrap(), PushOutcome::Published);
    assert_eq!(
        remote.push(&first).unwrap(),
        PushOutcome::Published,
        "repeated"
    );
    assert_eq!(remote.ls_remote(&["refs/trueup/*"]).unwrap()[STATE], one.0);

    // The state is another one by now: nothing of the push arrives.
    let other = "refs/tags/site-action-failure/one/R2";
    let late = [
        update(other, None, Some(two)),
        update(STATE, Some(two), Some(three)),
    ];
    assert_eq!(
        remote.push(&late).unwrap(),
        PushOutcome::LostRace {
            name: STATE.to_owned(),
            expected: Some(two.0),
            found: Some(one.0)
        }
    );
    assert!(remote.ls_remote(&[other]).unwrap().is_empty());

    // Backwards is no question of fast-forward, only of the lease.
    let back = [update(STATE, Some(one), Some(three))];
    assert_eq!(remote.push(&back).unwrap(), PushOutcome::Published);
    let back = [update(STATE, Some(three), Some(one))];
    assert_eq!(remote.push(&back).unwrap(), PushOutcome::Published);

    // A deletion of what is gone already is done, and does not keep the rest back.
    origin.git(&["update-ref", "-d", TAG]);
    let rest = [
        update(TAG, Some(one), None),
        update(STATE, Some(one), Some(two)),
    ];
    assert_eq!(remote.push(&rest).unwrap(), PushOutcome::Published);
    assert_eq!(
        remote
            .ls_remote(&[STATE, TAG])
            .unwrap()
            .into_values()
            .collect::<Vec<_>>(),
        [two.0]
    );
    origin.git(&["fsck"]);
}

#[test]
fn a_remote_without_atomic_pushes_takes_the_refs_one_by_one() {
    let (origin, clone, commits) = origin_and_clone();
    origin.git(&["config", "receive.advertiseAtomic", "false"]);
    let repository = clone.open();
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    let both = [
        update(STATE, None, Some(commits[0])),
        update(TAG, None, Some(commits[0])),
    ];
    assert_eq!(remote.push(&both).unwrap(), PushOutcome::Published);
    assert_eq!(remote.ls_remote(&[STATE, TAG]).unwrap().len(), 2);
    let lost = [
        update(STATE, Some(commits[0]), Some(commits[1])),
        update(TAG, None, Some(commits[1])),
    ];
    assert!(
        matches!(remote.push(&lost).unwrap(), PushOutcome::LostRace { name, .. } if name == TAG)
    );
}

#[test]
fn a_ref_that_the_remote_does_not_take_is_refused_and_not_a_lost_race() {
    let (origin, clone, commits) = origin_and_clone();
    let hook = origin.path().join("hooks/update");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(
        &hook,
        "#!/bin/sh\ncase $1 in refs/trueup/*) echo not this namespace >&2; exit 1;; esac\n",
    )
    .unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let repository = clone.open();
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    let error = remote
        .push(&[update(STATE, None, Some(commits[0]))])
        .unwrap_err();
    let Error::Refused { name, message, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(name, STATE);
    assert!(message.contains("not this namespace"), "{message}");
    assert!(error.hint().unwrap().contains("trueup.refPrefix"));
}

#[test]
fn a_remote_that_is_not_there_is_unreachable_and_its_password_is_not_shown() {
    let (_origin, clone, commits) = origin_and_clone();
    clone.git(&["remote", "set-url", "origin", "file:///nowhere/at/all"]);
    let repository = clone.open();
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    for error in [
        remote.ls_remote(&[STATE]).unwrap_err(),
        remote.fetch(&[(STATE, STATE)]).unwrap_err(),
        remote
            .push(&[update(STATE, None, Some(commits[0]))])
            .unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert!(error.hint().unwrap().contains("--offline"));
    }
    clone.git(&[
        "remote",
        "set-url",
        "origin",
        "http://ada:s3cret@127.0.0.1:9/x.git",
    ]);
    let error = remote.ls_remote(&[STATE]).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    for wrong in ["--upload-pack=x", "nobody", "file:///nowhere"] {
        let error = repository.remote(wrong, TIMEOUT).unwrap_err();
        assert!(matches!(error, Error::UnknownRemote { .. }), "{error:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_remote_that_hangs_times_out() {
    let (_origin, clone, _) = origin_and_clone();
    clone.git(&["config", "remote.origin.uploadpack", "sleep 600 #"]);
    let repository = clone.open();
    let timeout = ProgramTimeout::Unattended(Duration::from_millis(200));
    let remote = repository.remote("origin", timeout).unwrap();
    let error = remote.ls_remote(&[STATE]).unwrap_err();
    assert!(matches!(error, Error::GitTimeout { .. }), "{error:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_remote_that_hangs_takes_one_time_limit_a_command_and_leaves_no_process() {
    for timeout in [
        ProgramTimeout::Unattended(Duration::from_millis(500)),
        ProgramTimeout::Attended(Duration::from_millis(500)),
    ] {
        let (_origin, clone, commits) = origin_and_clone();
        let started = clone.outside().join("started");
        // A child of a child, that would go on alone.
        let hang = format!(
            "sh -c 'sleep 600 & echo $! >> {}; wait' #",
            started.display()
        );
        for program in ["uploadpack", "receivepack"] {
            clone.git(&["config", &format!("remote.origin.{program}"), &hang]);
        }
        let repository = clone.open();
        let processes = || -> Vec<String> {
            let lines = std::fs::read_to_string(&started).unwrap();
            lines.lines().map(str::to_owned).collect()
        };
        let is_alive = |process: &String| {
            let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
            status.is_ok_and(|status| !status.contains(") Z "))
        };
        let remote = repository.remote("origin", timeout).unwrap();
        for question in 0..3 {
            let error = match question {
                0 => remote.ls_remote(&[STATE]).map(drop),
                1 => remote.fetch(&[(STATE, "refs/x")]),
                _ => remote
                    .push(&[update(STATE, None, Some(commits[0]))])
                    .map(drop),
            };
            let error = error.unwrap_err();
            assert!(matches!(error, Error::GitTimeout { .. }), "{error:?}");
        }
        assert_eq!(
            processes().len(),
            1,
            "the remote was asked once: {timeout:?}"
        );
        let lasting = repository.remote("origin", timeout).unwrap().lasting();
        for _ in 0..2 {
            let error = lasting.ls_remote(&[STATE]).unwrap_err();
            assert!(matches!(error, Error::GitTimeout { .. }), "{error:?}");
        }
        let processes = processes();
        assert_eq!(
            processes.len(),
            3,
            "a run that lasts asks again: {timeout:?}"
        );
        crate::fixture::wait_until("a process is left", || !processes.iter().any(is_alive));
    }
}

#[test]
fn state_and_base_are_fetched_into_a_clone_that_has_neither() {
    let (_origin, writer, commits) = origin_and_clone();
    let repository = writer.open();
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    writer.git(&["checkout", "--quiet", "--detach"]);
    writer.write("x", "1");
    let state = writer.commit("state");
    remote.push(&[update(STATE, None, Some(state))]).unwrap();

    let reader = Checkout::clone_of(&remote_url(&writer), &["--depth=1"]);
    let repository = reader.open();
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    let here = "refs/trueup-remotes/origin/one/state";
    assert_eq!(repository.read_ref(here).unwrap(), None);
    remote.fetch(&[(STATE, here)]).unwrap();
    assert_eq!(repository.read_ref(here).unwrap(), Some(state.0));
    assert_eq!(repository.file_at(state, "x").unwrap().unwrap(), b"1");
    assert!(matches!(
        remote.fetch(&[("refs/trueup/two/state", here)]),
        Err(Error::Unreachable { .. })
    ));
    assert_eq!(reader.git(&["tag"]), "", "nothing else is fetched");
    assert_eq!(commits.len(), 3);
}

#[test]
fn a_commit_that_came_without_its_files_is_fetched() {
    let (origin, clone, _) = origin_and_clone();
    let other = Checkout::clone_of(&origin.url(), &[]);
    other.write("site/b/c.yaml", "c: 1\n");
    let commit = other.commit("More");
    other.git(&["push", "--quiet", "origin", "HEAD:main"]);
    // As a fetch leaves it that was killed, or is under way in another process: the commit, and some of what it leads to.
    let tree = |path: &str| other.git(&["rev-parse", &format!("{commit}:{path}")]);
    let objects = [
        commit.to_string(),
        tree(""),
        tree("site"),
        tree("site/b"),
        tree("site/b/c.yaml"),
    ];
    let repository = clone.open();
    for some in 1..objects.len() {
        for object in &objects[..some] {
            let object = object.trim();
            let name = format!(".git/objects/{}/{}", &object[..2], &object[2..]);
            std::fs::create_dir_all(clone.path().join(&name).parent().unwrap()).unwrap();
            std::fs::copy(other.path().join(&name), clone.path().join(&name)).unwrap();
        }
        assert!(!repository.has(commit.0).unwrap(), "{some}");
    }
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    remote.fetch_commit(commit).unwrap();
    assert!(repository.has(commit.0).unwrap());
    // Of many files, too, whether git answers for them or not.
    for number in 0..300 {
        other.write(&format!("site/many/{number}.yaml"), number.to_string());
    }
    let many = other.commit("Many");
    assert!(other.open().has(many.0).unwrap());
    other.git(&["checkout", "--quiet", "--detach", "HEAD~1"]);
    assert!(other.open().has(many.0).unwrap());
    let lost = other.git(&["rev-parse", &format!("{many}:site/many/7.yaml")]);
    let lost = lost.trim();
    let object = format!(".git/objects/{}/{}", &lost[..2], &lost[2..]);
    std::fs::remove_file(other.path().join(object)).unwrap();
    assert!(!other.open().has(many.0).unwrap());
}

fn remote_url(clone: &Checkout) -> String {
    clone.git(&["remote", "get-url", "origin"])
}

#[test]
fn a_shallow_clone_says_so_and_can_be_deepened() {
    let (origin, _, commits) = origin_and_clone();
    let shallow = Checkout::clone_of(&origin.url(), &["--depth=1"]);
    let repository = shallow.open();
    let selection = Selection::everything();
    let head = repository.head().unwrap().unwrap();
    assert!(repository.is_shallow().unwrap());
    for error in [
        repository
            .commits_touching(Some(commits[0]), head, &selection)
            .unwrap_err(),
        repository
            .commits_touching(None, head, &selection)
            .unwrap_err(),
        repository.is_ancestor(commits[0], head).unwrap_err(),
        repository
            .is_on_first_parent_line(commits[0], head)
            .unwrap_err(),
        repository.summary(commits[0]).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Shallow { .. }), "{error:?}");
        assert!(error.hint().unwrap().contains("git fetch --unshallow"));
    }
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    remote.deepen(commits[0], head).unwrap();
    let between = repository
        .commits_touching(Some(commits[0]), head, &selection)
        .unwrap();
    assert_eq!(between.len(), 1);
    assert_eq!(between[0].id, commits[1]);
}

#[test]
fn a_partial_clone_says_what_was_left_out_and_the_way_out_works() {
    let (origin, _, commits) = origin_and_clone();
    let partial = Checkout::clone_of(&origin.url(), &["--filter=blob:none", "--no-checkout"]);
    let error = match Repository::discover(partial.path()) {
        Ok(repository) => {
            let tree = repository
                .tree_at(commits[0], &Selection::everything())
                .unwrap();
            repository.read(&tree.entries[0], 100).unwrap_err()
        }
        Err(error) => error,
    };
    assert!(matches!(error, Error::PartialClone { .. }), "{error:?}");
    let hint = error.hint().unwrap();
    for command in hint.split('`').nth(1).unwrap().split("; ") {
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        partial.git(&arguments);
    }
    let repository = partial.open();
    let tree = repository
        .tree_at(commits[0], &Selection::everything())
        .unwrap();
    assert_eq!(
        repository.read(&tree.entries[0], 100).unwrap().bytes,
        b"a: 0\n"
    );
}

#[test]
fn a_lock_without_a_remote_is_taken_renewed_and_released() {
    let checkout = Checkout::new();
    let repository = checkout.open();
    let (mine, theirs) = (holder("R1"), holder("R2"));
    let lock = repository
        .acquire_lock(&new_lock(&mine, "1"), None)
        .unwrap();
    assert_eq!(repository.read_lock("one").unwrap().as_ref(), Some(&lock));
    assert_eq!(repository.lock_plan(&lock).unwrap(), b"{\"steps\":[]}");
    let error = repository
        .acquire_lock(&new_lock(&theirs, "2"), None)
        .unwrap_err();
    assert!(
        matches!(&error, Error::Locked { holder, .. } if holder.run == "R1"),
        "{error:?}"
    );
    assert!(error.to_string().contains("held by ada on"), "{error}");
    assert_eq!(repository.read_lock("two").unwrap(), None, "another site");

    let renewed = repository
        .move_lock(lock.id, &new_lock(&mine, "3"), None)
        .unwrap();
    assert_ne!(renewed.id, lock.id);
    for error in [
        repository
            .move_lock(lock.id, &new_lock(&mine, "4"), None)
            .unwrap_err(),
        repository.release_lock("one", lock.id, None).unwrap_err(),
    ] {
        assert!(matches!(error, Error::RefMoved { .. }), "{error:?}");
    }
    repository.release_lock("one", renewed.id, None).unwrap();
    assert_eq!(repository.read_lock("one").unwrap(), None);
    repository
        .acquire_lock(&new_lock(&theirs, "5"), None)
        .unwrap();
    checkout.git(&["fsck", "--strict"]);
}

#[test]
fn of_two_clones_that_race_for_the_lock_exactly_one_gets_it() {
    let (origin, first, _) = origin_and_clone();
    let second = Checkout::clone_of(&origin.url(), &[]);
    let repositories = [first.open(), second.open()];
    for round in 0..100 {
        let barrier = Barrier::new(2);
        let results: Vec<Result<Lock, Error>> = std::thread::scope(|scope| {
            let racers: Vec<_> = repositories
                .iter()
                .enumerate()
                .map(|(index, repository)| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let remote = repository.remote("origin", TIMEOUT).unwrap();
                        let holder = holder(&format!("R{index}"));
                        let nonce = format!("{round}-{index}");
                        barrier.wait();
                        repository.acquire_lock(&new_lock(&holder, &nonce), Some(&remote))
                    })
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect()
        });
        let winner = results
            .iter()
            .position(Result::is_ok)
            .expect("nobody got it");
        let loser = 1 - winner;
        let lock = results[winner].as_ref().unwrap();
        match &results[loser] {
            Err(Error::Locked { holder, .. }) => assert_eq!(holder.run, format!("R{winner}")),
            other => panic!("round {round}: {other:?}"),
        }
        assert_eq!(
            repositories[loser].read_lock("one").unwrap(),
            None,
            "nothing is left"
        );
        let remote = repositories[loser].remote("origin", TIMEOUT).unwrap();
        let seen = repositories[loser]
            .read_remote_lock("one", &remote)
            .unwrap();
        assert_eq!(seen.as_ref(), Some(lock));
        let remote = repositories[winner].remote("origin", TIMEOUT).unwrap();
        repositories[winner]
            .release_lock("one", lock.id, Some(&remote))
            .unwrap();
    }
    assert_eq!(origin.git(&["for-each-ref", "refs/trueup"]), "");
}

#[test]
fn a_lock_is_taken_over_in_another_clone_and_its_old_holder_notices() {
    let (origin, first, _) = origin_and_clone();
    let second = Checkout::clone_of(&origin.url(), &[]);
    let (here, there) = (first.open(), second.open());
    let remote = here.remote("origin", TIMEOUT).unwrap();
    let other_remote = there.remote("origin", TIMEOUT).unwrap();
    let mine = holder("R1");
    let lock = here
        .acquire_lock(&new_lock(&mine, "1"), Some(&remote))
        .unwrap();
    let lock = here
        .move_lock(lock.id, &new_lock(&mine, "2"), Some(&remote))
        .unwrap();

    let seen = there
        .read_remote_lock("one", &other_remote)
        .unwrap()
        .unwrap();
    assert_eq!(seen, lock);
    assert_eq!(there.lock_plan(&seen).unwrap(), b"{\"steps\":[]}");
    let taken = there
        .move_lock(seen.id, &new_lock(&mine, "3"), Some(&other_remote))
        .unwrap();
    assert_eq!(there.read_lock("one").unwrap().as_ref(), Some(&taken));
    let error = here
        .move_lock(lock.id, &new_lock(&mine, "4"), Some(&remote))
        .unwrap_err();
    assert!(matches!(error, Error::RefMoved { .. }), "{error:?}");
    there
        .release_lock("one", taken.id, Some(&other_remote))
        .unwrap();

    // The remote decides: what the old holder left in its clone keeps nobody out, and is replaced.
    assert_eq!(here.read_lock("one").unwrap().as_ref(), Some(&lock));
    let lock = here
        .acquire_lock(&new_lock(&mine, "5"), Some(&remote))
        .unwrap();
    assert_eq!(here.read_lock("one").unwrap().as_ref(), Some(&lock));
    // There and back, whatever either clone has left of it.
    let mut seen = lock;
    for (nonce, repository, remote) in [
        ("6", &there, &other_remote),
        ("7", &here, &remote),
        ("8", &there, &other_remote),
    ] {
        seen = repository
            .move_lock(seen.id, &new_lock(&mine, nonce), Some(remote))
            .unwrap();
    }
    here.release_lock("one", seen.id, Some(&remote)).unwrap();
    assert_eq!(there.read_remote_lock("one", &other_remote).unwrap(), None);
}

#[test]
fn a_lock_that_a_dead_process_left_in_this_clone_alone_is_replaced() {
    let (_origin, clone, _) = origin_and_clone();
    let repository = clone.open();
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    let me = holder("R2");
    if me.process_start.is_none() || me.boot_id.is_none() {
        return;
    }
    let dead = Holder {
        process_start: me.process_start.map(|start| start + 1),
        ..holder("R1")
    };
    // Killed after the ref was created here and before it was pushed.
    let left = repository
        .acquire_lock(&new_lock(&dead, "1"), None)
        .unwrap();
    let error = repository
        .acquire_lock(&new_lock(&me, "2"), None)
        .unwrap_err();
    assert!(
        matches!(error, Error::Locked { .. }),
        "without a remote it counts: {error:?}"
    );
    let lock = repository
        .acquire_lock(&new_lock(&me, "3"), Some(&remote))
        .unwrap();
    assert_ne!(lock.id, left.id);
    // The same, but the remote has it: then it is that run's until it is resumed or unlocked.
    repository
        .release_lock("one", lock.id, Some(&remote))
        .unwrap();
    repository
        .acquire_lock(&new_lock(&dead, "4"), Some(&remote))
        .unwrap();
    let error = repository
        .acquire_lock(&new_lock(&me, "5"), Some(&remote))
        .unwrap_err();
    assert!(
        matches!(&error, Error::Locked { holder, .. } if holder.run == "R1"),
        "{error:?}"
    );
}

#[test]
fn what_was_answered_a_moment_ago_is_asked_again_once_something_was_sent() {
    let (origin, clone, commits) = origin_and_clone();
    let repository = clone.open().with_answers();
    let remote = repository.remote("origin", TIMEOUT).unwrap();
    assert!(remote.ls_remote(&["refs/trueup/*"]).unwrap().is_empty());
    let pushed = remote.push(&[update(STATE, None, Some(commits[0]))]);
    assert_eq!(pushed.unwrap(), PushOutcome::Published);
    let found = remote.ls_remote(&[STATE]).unwrap();
    assert_eq!(found.get(STATE), Some(&commits[0].0));
    // A push that loses its race tells so by the refs of now.
    origin.git(&["update-ref", STATE, &commits[1].to_string()]);
    let lost = remote.push(&[update(STATE, Some(commits[0]), Some(commits[2]))]);
    let lost = lost.unwrap();
    assert!(
        matches!(&lost, PushOutcome::LostRace { found, .. } if *found == Some(commits[1].0)),
        "{lost:?}"
    );
}

#[test]
fn a_command_asks_once_for_what_it_reads_first() {
    let site = crate::accepted::example("edge");
    site.checkout.commit("A site");
    let (site, _origin) = crate::cli_interrupted::shared(site);
    let trace = site.checkout.outside().join("trace");
    let asked = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        let ended = command.env("GIT_TRACE", &trace).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let text = std::fs::read_to_string(&trace).unwrap_or_default();
        let _ = std::fs::remove_file(&trace);
        text.matches("built-in: git ls-remote").count()
    };
    // Of an apply: before the lock is taken, after that, and with the records.
    for (arguments, times) in [
        (&["plan"][..], 1),
        (&["apply", "--yes"], 3),
        (&["status"], 1),
        (&["explain", "edge-1"], 1),
    ] {
        let found = asked(arguments);
        assert!(found <= times, "{arguments:?}: {found}");
    }
}
