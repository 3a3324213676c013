//! Where secrets come from: the environment, files, and programs that print them.
//!
//! A reference is all that a document holds; what it names is read here, once for each, and goes only to
//! the backend that asked. Errors never contain the value of a secret. Everything is bounded in
//! size, programs also in time, and nothing that a change of the design can change is followed or run: a
//! link in the checkout, a program in it, another file than the one that the trusted revision has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{Read, Write as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::backend::{Plugin, Secret, SecretError, Secrets};
use crate::design::Reference;
use crate::repository::{CommitId, Links, Repository, read_file};
use crate::threads::lock;

use super::environment;
use super::secret_store::{ProgramSlots, SecretSlots};
use super::slots::{LONGEST, Slots, text};

/// How long a program may take to print a secret: long enough to unlock a key by hand.
const LONGEST_PROGRAM: Duration = Duration::from_secs(60);

/// Links that lead to a file, at most: as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The secrets that this process can reach.
#[derive(Debug)]
pub(super) struct ProcessSecrets {
    /// The root of the checkout without links.
    root: PathBuf,
    /// The revision from which files of the checkout are taken, if one is trusted.
    trusted: Option<(Repository, CommitId)>,
    limit: Duration,
    known: Mutex<BTreeMap<Reference, Result<Secret, SecretError>>>,
    passed_on: Mutex<BTreeSet<String>>,
}

impl ProcessSecrets {
    /// `root`: the root of the repository, to which relative paths are relative.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
            trusted: None,
            limit: LONGEST_PROGRAM,
            known: Mutex::default(),
            passed_on: Mutex::default(),
        }
    }

    /// Takes files of the checkout from a revision.
    pub(super) fn at(mut self, repository: Repository, commit: CommitId) -> Self {
        self.trusted = Some((repository, commit));
        self
    }

    fn read(&self, reference: &Reference) -> Result<Vec<u8>, String> {
        match reference {
            Reference::Env(name) => match std::env::var_os(&**name) {
                Some(value) => Ok(value.into_encoded_bytes()),
                None => Err(format!("the environment variable `{name}` is not set")),
            },
            Reference::File(path) => self
                .read_file(path)
                .map_err(|error| format!("`{path}` cannot be read: {error}")),
            Reference::Exec(words) => self.run(words, None),
            Reference::Store(words) => self.program(words).current(),
        }
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, String> {
        let path = self.root.join(path);
        if let Some((repository, commit)) = &self.trusted
            && let Some(inside) = self.below_root(&path)
        {
            if let Some(bytes) = at_revision(repository, *commit, &inside)? {
                return Ok(bytes);
            }
            if let Some(other) = self.other_repository(&path) {
                return Err(format!(
                    "it lies in another repository, `{}`, where a change of the design may lead; name a file \
                     outside of the checkout",
                    other.display()
                ));
            }
            let head = repository.head().map_err(|error| error.to_string())?;
            if let Some(head) = head
                && at_revision(repository, head, &inside)?.is_some()
            {
                return Err(
                    "the trusted revision does not have it, so it is not read from this one"
                        .to_owned(),
                );
            }
        }
        let file = self.resolve(&path)?;
        read_file(&file, LONGEST, Links::Refused).map_err(|error| error.to_string())
    }

    /// The slots of a secret that can be replaced: those of a file outside of the checkout, or of a program.
    fn slots<'s>(&'s self, reference: &'s Reference) -> Result<SecretSlots<'s>, String> {
        let path = match reference {
            Reference::File(path) => path,
            Reference::Store(words) => {
                self.command(words)?;
                return Ok(SecretSlots::Program(self.program(words)));
            }
            Reference::Env(_) | Reference::Exec(_) => {
                return Err("only a `file` or a `store` has a slot for a new secret".to_owned());
            }
        };
        let file = self.resolve(&self.root.join(&**path))?;
        match self.below_root(&file) {
            Some(_) => Err(format!(
                "`{path}` lies in the checkout, where no secret is written"
            )),
            None => Ok(SecretSlots::File(Slots::of(file))),
        }
    }

    /// The slots of a program.
    fn program<'s>(&'s self, words: &'s [Arc<str>]) -> ProgramSlots<'s> {
        ProgramSlots::of(words, Box::new(|words, input| self.run(words, input)))
    }

    /// The repository inside the checkout, such as a submodule, in which a path lies.
    fn other_repository(&self, path: &Path) -> Option<PathBuf> {
        let folders = path.ancestors().skip(1);
        let mut inside = folders.take_while(|folder| *folder != self.root);
        let other = inside.find(|folder| folder.join(".git").symlink_metadata().is_ok());
        other.map(Path::to_owned)
    }

    /// The path of a file relative to the root, if it is spelled as one below it.
    fn below_root(&self, path: &Path) -> Option<String> {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    plain.pop();
                }
                Component::CurDir => {}
                part => plain.push(part),
            }
        }
        let below = plain.strip_prefix(&self.root).ok()?;
        below.to_str().map(str::to_owned)
    }

    /// Follows the links of a path, except those that lie in the checkout: a change of the design
    /// could make them lead to any file.
    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        let text = |error: std::io::Error| error.to_string();
        let mut parts: VecDeque<_> = path
            .components()
            .map(|part| part.as_os_str().to_owned())
            .collect();
        let (mut resolved, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = parts.pop_front() {
            if part == ".." {
                resolved.pop();
                continue;
            }
            let next = resolved.join(&part);
            let found = next.symlink_metadata().map_err(text)?;
            if !found.is_symlink() {
                resolved = next;
                continue;
            }
            if resolved.starts_with(&self.root) {
                return Err(format!(
                    "`{}` is a link in the checkout, where every change of the design can change it; name the \
                     file that it leads to",
                    next.display()
                ));
            }
            links += 1;
            if links > MOST_LINKS {
                return Err("it is behind too many links".to_owned());
            }
            let target = next.read_link().map_err(text)?;
            if target.is_absolute() {
                resolved = PathBuf::from("/");
            }
            for part in target.components().rev() {
                parts.push_front(part.as_os_str().to_owned());
            }
        }
        Ok(resolved)
    }

    /// Runs a program; `input`: what it reads.
    fn run(&self, words: &[Arc<str>], input: Option<&Secret>) -> Result<Vec<u8>, String> {
        let passed_on = self.passed_on();
        let mut command = self.command(words)?;
        command
            .envs(environment::for_program(&self.root, &passed_on))
            .stdin(if input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            });
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        output_of(command, (&words[0], input), self.limit)
    }

    fn passed_on(&self) -> BTreeSet<String> {
        let all = self.passed_on.lock();
        all.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A program outside of the checkout, with nothing of the environment yet.
    fn command(&self, words: &[Arc<str>]) -> Result<Command, String> {
        let Some((program, arguments)) = words.split_first() else {
            return Err("no program is named".to_owned());
        };
        if let Some(word) = words.iter().find(|word| self.is_path_in_checkout(word)) {
            return Err(format!(
                "`{word}` lies in the checkout, where every change of the design can change it, so `{program}` \
                 is not run; keep the program outside, or name it without a path"
            ));
        }
        if program.contains('/') && !program.starts_with('/') {
            return Err(format!(
                "`{program}` is a relative path; name the program with its whole path, or without one"
            ));
        }
        let mut command = Command::new(&**program);
        command
            .args(arguments.iter().map(|word| &**word))
            .current_dir("/")
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        Ok(command)
    }
}

/// The bytes of a file of a commit, within the limit.
fn at_revision(
    repository: &Repository,
    commit: CommitId,
    path: &str,
) -> Result<Option<Vec<u8>>, String> {
    let found = repository
        .file_at(commit, path)
        .map_err(|error| error.to_string())?;
    match found {
        Some(bytes) if bytes.len() as u64 > LONGEST => Err(too_long()),
        found => Ok(found),
    }
}

fn too_long() -> String {
    format!("it has more than {LONGEST} bytes")
}

/// The output of a program, within the limits; it is ended with all that it started if it exceeds them.
fn output_of(
    mut command: Command,
    (program, input): (&str, Option<&Secret>),
    limit: Duration,
) -> Result<Vec<u8>, String> {
    let began = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|error| format!("`{program}` cannot be run: {error}"))?;
    let (sender, printed) = mpsc::channel();
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        let line = format!("{}\n", input.reveal());
        // One that does not read it must not hold this process up; it fails by its own exit code.
        std::thread::spawn(move || drop(stdin.write_all(line.as_bytes())));
    }
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(LONGEST + 1).read_to_end(&mut bytes);
            let _ = sender.send(read.map(|_| bytes));
        });
    }
    let end = |child: &mut std::process::Child| {
        if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
    };
    let printed = match printed.recv_timeout(limit) {
        Ok(Ok(bytes)) if bytes.len() as u64 <= LONGEST => bytes,
        Ok(Ok(_)) => {
            end(&mut child);
            return Err(format!("`{program}` printed more than {LONGEST} bytes"));
        }
        Ok(Err(error)) => {
            end(&mut child);
            return Err(format!("the output of `{program}` cannot be read: {error}"));
        }
        Err(_) => {
            end(&mut child);
            return Err(format!(
                "`{program}` did not end within {} s",
                limit.as_secs_f64()
            ));
        }
    };
    // It has closed its output; one that stays on all the same is ended, too.
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if began.elapsed() >= limit {
            end(&mut child);
            return Err(format!(
                "`{program}` did not end within {} s",
                limit.as_secs_f64()
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = child
        .wait()
        .map_err(|error| format!("`{program}`: {error}"))?;
    ::log::info!(
        "a secret of `{program}`: {status}, in {:.1?}",
        began.elapsed()
    );
    match status.success() {
        true => Ok(printed),
        false => Err(format!("`{program}` failed: {status}")),
    }
}

impl Secrets for ProcessSecrets {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        let known = |all: &Mutex<BTreeMap<_, Result<Secret, SecretError>>>| {
            let all = lock(all);
            all.get(reference).cloned()
        };
        match known(&self.known) {
            Some(known) => known,
            None => self.reveal_again(reference),
        }
    }

    fn reveal_again(&self, reference: &Reference) -> Result<Secret, SecretError> {
        let found = self.read(reference).and_then(text).map_err(SecretError);
        let mut known = lock(&self.known);
        known.insert(reference.clone(), found.clone());
        found
    }

    fn cannot_be_replaced(&self, reference: &Reference) -> Option<String> {
        self.slots(reference).err()
    }

    fn pending(&self, reference: &Reference) -> Result<Option<Secret>, SecretError> {
        let Ok(slots) = self.slots(reference) else {
            return Ok(None);
        };
        slots.pending().map_err(SecretError)
    }

    fn stage(&self, reference: &Reference, length: usize) -> Result<Secret, SecretError> {
        let staged = || self.slots(reference)?.stage(length);
        staged().map_err(SecretError)
    }

    fn promote(&self, reference: &Reference) -> Result<(), SecretError> {
        let promoted = || self.slots(reference)?.promote();
        promoted().map_err(SecretError)?;
        self.reveal_again(reference).map(drop)
    }

    fn drop_pending(&self, reference: &Reference) -> Result<(), SecretError> {
        let dropped = || self.slots(reference)?.drop_pending();
        dropped().map_err(SecretError)
    }

    fn path(&self, reference: &Reference) -> Option<PathBuf> {
        match reference {
            Reference::File(path) => Some(self.root.join(&**path)),
            Reference::Env(_) | Reference::Exec(_) | Reference::Store(_) => None,
        }
    }

    fn path_in_checkout(&self, reference: &Reference) -> Option<String> {
        self.below_root(&self.path(reference)?)
    }

    fn is_path_in_checkout(&self, word: &str) -> bool {
        let here = std::env::current_dir().unwrap_or_else(|_| self.root.clone());
        let inside = |path: PathBuf| {
            let real = path.canonicalize();
            path.is_file()
                && (self.below_root(&path).is_some()
                    || real.is_ok_and(|real| real.starts_with(&self.root)))
        };
        // A line for a shell may hold the path of one.
        let names_it = self.root.to_str().is_some_and(|root| word.contains(root));
        names_it || inside(self.root.join(word)) || inside(here.join(word))
    }

    fn pass_on(&self, variables: &[Arc<str>]) {
        let mut all = lock(&self.passed_on);
        all.extend(variables.iter().map(|name| name.to_string()));
    }

    fn run_plugin(&self, plugin: &Plugin) -> Result<Secret, SecretError> {
        let run = || {
            let mut command = self.command(&plugin.words)?;
            let stdin = match plugin.is_interactive {
                true => Stdio::inherit(),
                false => Stdio::null(),
            };
            command
                .envs(environment::for_plugin(&self.root, &self.passed_on()))
                .envs(plugin.variables.iter().cloned())
                .env("PATH", environment::search_path(&self.root))
                .stdin(stdin);
            // Only programs of the terminal's own group may read from it.
            if !plugin.is_interactive {
                std::os::unix::process::CommandExt::process_group(&mut command, 0);
            }
            output_of(command, (&plugin.words[0], None), self.limit).and_then(text)
        };
        run().map_err(SecretError)
    }

    fn search_path(&self) -> Option<OsString> {
        Some(environment::search_path(&self.root))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(words: &[&str]) -> Reference {
        Reference::Exec(words.iter().copied().map(Arc::from).collect())
    }

    #[test]
    fn each_kind_of_reference_gives_its_secret_or_says_why_not_without_showing_it() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let outside = outside.path().canonicalize().unwrap().join("token");
        let outside = outside.to_str().unwrap();
        std::fs::write(outside, "s3cret\n").unwrap();
        std::fs::write(folder.path().join("password"), "s3cret\n").unwrap();
        std::fs::write(folder.path().join("empty"), "\n").unwrap();
        std::fs::write(folder.path().join("bytes"), b"s3cret\xff").unwrap();
        std::fs::write(folder.path().join("large"), vec![b'x'; 2 << 20]).unwrap();
        std::os::unix::fs::symlink(outside, folder.path().join("link")).unwrap();
        let mut secrets = ProcessSecrets::new(folder.path());
        secrets.limit = Duration::from_secs(20);
        let table = [
            (Reference::File("password".into()), Ok("s3cret")),
            (Reference::File(outside.into()), Ok("s3cret")),
            (exec(&["cat", outside]), Ok("s3cret")),
            (exec(&["cat", "password"]), Err("lies in the checkout")),
            (exec(&["./password"]), Err("lies in the checkout")),
            (exec(&["./elsewhere"]), Err("is a relative path")),
            (
                Reference::File("link".into()),
                Err("is a link in the checkout"),
            ),
            (
                Reference::File("large".into()),
                Err("too large: 2097152 bytes"),
            ),
            (
                Reference::File("/dev/zero".into()),
                Err("not a regular file"),
            ),
            (Reference::File("empty".into()), Err("the secret is empty")),
            (
                Reference::File("bytes".into()),
                Err("the secret is no text"),
            ),
            (
                Reference::File("nowhere".into()),
                Err("`nowhere` cannot be read"),
            ),
            (exec(&["false"]), Err("`false` failed: exit status: 1")),
            (
                exec(&["no-such-program"]),
                Err("`no-such-program` cannot be run"),
            ),
            (
                exec(&["cat", "/dev/zero"]),
                Err("printed more than 1048576 bytes"),
            ),
            (
                Reference::Env("TRUEUP_NO_SUCH_VARIABLE".into()),
                Err("`TRUEUP_NO_SUCH_VARIABLE` is not set"),
            ),
        ];
        for (reference, expected) in table {
            let found = secrets.reveal(&reference);
            assert!(!format!("{found:?}{secrets:?}").contains("s3cret"));
            match (found, expected) {
                (Ok(secret), Ok(expected)) => assert_eq!(secret.reveal(), expected),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (found, expected) => panic!("{reference:?}: {found:?} is not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mut secrets = ProcessSecrets::new(folder.path());
        secrets.limit = Duration::from_millis(300);
        let pid = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 600 & echo $! > {}; wait", pid.path().display());
        let error = secrets.reveal(&exec(&["sh", "-c", &script])).unwrap_err();
        assert!(
            error.to_string().contains("did not end within 0.3 s"),
            "{error}"
        );
        let pid = std::fs::read_to_string(pid.path()).unwrap();
        let is_alive = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.is_ok_and(|stat| !stat.contains(") Z"))
        };
        // The signal was sent; the kernel takes the process away when it comes to it.
        let began = Instant::now();
        while is_alive() {
            assert!(began.elapsed() < Duration::from_secs(30), "it still runs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_gets_the_usual_variables_and_those_that_the_site_passes_on() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = ProcessSecrets::new(folder.path());
        let names = |secrets: &ProcessSecrets| {
            let printed = secrets.reveal_again(&exec(&["env"])).unwrap();
            let lines = printed
                .reveal()
                .lines()
                .map(|line| line.split('=').next().unwrap().to_owned());
            lines.collect::<BTreeSet<String>>()
        };
        // Cargo sets it for every test.
        let variable = "CARGO_MANIFEST_DIR";
        let before = names(&secrets);
        assert!(
            before.contains("PATH") && !before.contains(variable),
            "{before:?}"
        );
        secrets.pass_on(&[Arc::from(variable)]);
        assert!(names(&secrets).contains(variable));
    }

    #[test]
    fn a_program_keeps_two_slots_and_gets_a_new_secret_by_its_standard_input() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = ProcessSecrets::new(Path::new("/nowhere"));
        let place = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("n1"), "old\n").unwrap();
        let script = r#"cd "$0"; echo "$*" >> calls
            case $2 in
            current) cat "$1";;
            pending) cat "$1.next" 2> /dev/null || true;;
            stage) cat > "$1.draft"; mv "$1.draft" "$1.next";;
            promote) mv "$1.next" "$1";;
            drop) rm -f "$1.next";;
            *) exit 1;;
            esac"#;
        let store = |script: &str| {
            let words = ["sh", "-c", script, place, "n1"];
            Reference::Store(words.into_iter().map(Arc::from).collect())
        };
        let reference = store(script);
        assert_eq!(secrets.cannot_be_replaced(&reference), None);
        assert_eq!(secrets.reveal(&reference).unwrap().reveal(), "old");
        assert_eq!(secrets.pending(&reference), Ok(None));
        let staged = secrets.stage(&reference, 20).unwrap();
        assert_eq!(secrets.pending(&reference), Ok(Some(staged.clone())));
        assert_eq!(secrets.reveal_again(&reference).unwrap().reveal(), "old");
        secrets.promote(&reference).unwrap();
        assert_eq!(secrets.reveal(&reference), Ok(staged.clone()));
        assert_eq!(secrets.pending(&reference), Ok(None));
        secrets.stage(&reference, 20).unwrap();
        secrets.drop_pending(&reference).unwrap();
        assert_eq!(secrets.pending(&reference), Ok(None));
        let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
        assert!(!calls.contains(staged.reveal()), "{calls}");
        // One that drops what it is given, or fails, has no pending secret that could be set.
        for broken in ["cat > /dev/null", "exit 1"] {
            assert!(secrets.stage(&store(broken), 20).is_err(), "{broken}");
        }
        let inside = ProcessSecrets::new(folder.path());
        let why = inside.cannot_be_replaced(&reference).unwrap();
        assert!(why.contains("lies in the checkout"), "{why}");
    }
}
