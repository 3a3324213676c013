//! The packages that the lab needs: those of Debian, and sushy-tools in an environment of Debian's Python.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::skipped::skipped;

/// The version of sushy-tools.
const SUSHY: &str = "sushy-tools==2.2.0";
/// Programs, all of packages of Debian.
const PROGRAMS: [&str; 9] = [
    "libvirtd",
    "virsh",
    "qemu-system-x86_64",
    "grub-mkimage",
    "xorriso",
    "busybox",
    "cpio",
    "setpriv",
    "apt-get",
];

/// What the lab is made with.
pub(crate) struct Packages {
    /// The Python that has libvirt and sushy-tools.
    pub(crate) python: PathBuf,
    /// Where the kernel of the guests is kept.
    pub(crate) kernels: PathBuf,
}

impl Packages {
    /// All that is needed; `None`, told as skipped, if it cannot be had.
    pub(crate) fn find() -> Option<Self> {
        if std::env::var_os("TRUEUP_TEST_LAB").is_none() {
            skipped("`TRUEUP_TEST_LAB` is not set");
            return None;
        }
        match Self::install() {
            Ok(found) => Some(found),
            Err(why) => {
                skipped(&format!("the packages that boot machines: {why}"));
                None
            }
        }
    }

    fn install() -> Result<Self, String> {
        let runs = |program: &str| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            let mut folders = std::env::split_paths(&paths).chain(["/usr/sbin".into()]);
            folders.any(|folder| folder.join(program).is_file())
        };
        let missing: Vec<&str> = PROGRAMS
            .into_iter()
            .filter(|program| !runs(program))
            .collect();
        if !missing.is_empty() {
            return Err(format!("there is no {}", missing.join(", ")));
        }
        if !Path::new("/usr/lib/grub/i386-pc/boot.img").exists() {
            return Err("there is no grub-pc-bin".to_owned());
        }
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from)
            .join("trueup-lab");
        fs::create_dir_all(&cache).map_err(|error| error.to_string())?;
        let turn = File::create(cache.join("turn")).map_err(|error| error.to_string())?;
        turn.lock().map_err(|error| error.to_string())?;
        let environment = cache.join("python");
        let python = environment.join("bin/python");
        // Debian's Python has Debian's libvirt.
        run(Command::new("/usr/bin/python3").args(["-c", "import libvirt"]))?;
        if !environment.join(SUSHY).exists() {
            let venv = ["-m", "venv", "--clear", "--system-site-packages"];
            run(Command::new("/usr/bin/python3")
                .args(venv)
                .arg(&environment))?;
            let pip = [
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                SUSHY,
            ];
            run(Command::new(&python).args(pip))?;
            File::create(environment.join(SUSHY)).map_err(|error| error.to_string())?;
        }
        let kernels = cache.join("kernel");
        Ok(Self { python, kernels })
    }

    /// Makes images.
    pub(crate) fn make(&self, folder: &Path, images: &[&str]) -> Option<()> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/image.sh");
        let mut command = Command::new(script);
        command.arg(folder).arg(&self.kernels).args(images);
        let made = run(&mut command);
        made.map_err(|why| skipped(&format!("the packages that boot machines: {why}")))
            .ok()
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command.stdin(Stdio::null()).output();
    match ended {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => Err(format!(
            "{name}: {}",
            String::from_utf8_lossy(&ended.stderr).trim()
        )),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
