//! The machines: a libvirtd of their own, their disks, and sushy-tools before them.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::images::Images;
use crate::packages::Packages;
use crate::web;

/// The unprivileged account that machines run as.
const NOBODY: u32 = 65534;
/// The place on a disk behind every image, if the guests count.
const COUNTS: u64 = 64 << 20;
/// How long anything may take to come about.
const TIME: Duration = Duration::from_secs(180);

/// What is on the disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// How often an installer ran.
    pub(crate) installs: usize,
    /// The image that was installed last.
    pub(crate) image: String,
    /// How often that was booted from the disk.
    pub(crate) boots: usize,
}

/// The lab.
pub(crate) struct Machines {
    folder: TempDir,
    pub(crate) images: Images,
    pub(crate) redfish: SocketAddr,
    children: Vec<Child>,
    names: Vec<String>,
}

impl Machines {
    /// Starts a lab of so many machines, all off and with empty disks; `None`, told as skipped, if it cannot be had.
    pub(crate) fn start(count: usize, images: &[&str]) -> Option<Self> {
        let packages = Packages::find()?;
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let served = folder.path().join("images");
        fs::create_dir(&served).unwrap();
        packages.make(&served, images)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let redfish = port.and_then(|port| port.local_addr()).unwrap();
        let mut machines = Self {
            images: Images::serve(&served),
            folder,
            redfish,
            children: Vec::new(),
            names: (1..=count).map(|number| format!("n{number}")).collect(),
        };
        machines.start_libvirt();
        for number in 1..=count {
            machines.define(number);
        }
        machines.start_redfish(&packages);
        Some(machines)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A folder of the unprivileged account.
    fn own_folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        give_away(&path);
        path
    }

    fn uri(&self) -> String {
        let socket = self.path("run/libvirt/libvirt-sock");
        format!("qemu+unix:///session?socket={}", socket.display())
    }

    fn start_libvirt(&mut self) {
        let run = self.own_folder("run");
        let config = self.own_folder("config");
        let (home, pool) = (self.own_folder("home"), self.own_folder("pool"));
        let own = self.own_folder("config/libvirt");
        let qemu = "stdio_handler = \"file\"\nsecurity_driver = \"none\"\nremember_owner = 0\n";
        fs::write(own.join("qemu.conf"), qemu).unwrap();
        let daemon = self.path("libvirtd.conf");
        fs::write(
            &daemon,
            "auth_unix_rw = \"none\"\nauth_unix_ro = \"none\"\n",
        )
        .unwrap();
        // As an unprivileged account, a session's daemon: nothing of the machine's own libvirt is touched.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if is_root() {
            let account = NOBODY.to_string();
            command.args(["--reuid", &account, "--regid", &account, "--clear-groups"]);
        }
        command.args(["/usr/sbin/libvirtd", "--config"]).arg(daemon);
        command.env("HOME", &home).env("XDG_RUNTIME_DIR", &run);
        command
            .env("XDG_CONFIG_HOME", &config)
            .env("XDG_CACHE_HOME", &home);
        self.spawn(command, "libvirtd");
        let socket = self.path("run/libvirt/libvirt-sock");
        wait_until("libvirtd listens", || socket.exists());
        let pool_file = self.path("pool.xml");
        let text = format!(
            "<pool type='dir'><name>default</name><target><path>{}</path></target></pool>",
            pool.display()
        );
        fs::write(&pool_file, text).unwrap();
        self.virsh(&["pool-create", pool_file.to_str().unwrap()]);
    }

    fn define(&self, number: usize) {
        let name = format!("n{number}");
        let disk = self.path(&format!("{name}.img"));
        File::create(&disk).unwrap().set_len(32 << 30).unwrap();
        give_away(&disk);
        let console = self.own_folder("consoles").join(&name);
        let [high, low] = self.images.port().to_be_bytes();
        let text = include_str!("machine.xml")
            .replace("{name}", &name)
            .replace("{uuid}", &uuid(number))
            .replace("{mac}", &mac(high, low, number))
            .replace("{disk}", disk.to_str().unwrap())
            .replace("{console}", console.to_str().unwrap());
        let file = self.path(&format!("{name}.xml"));
        fs::write(&file, text).unwrap();
        self.virsh(&["define", file.to_str().unwrap()]);
    }

    fn start_redfish(&mut self, packages: &Packages) {
        let (uri, state) = (self.uri(), self.own_folder("state"));
        let settings = format!(
            "SUSHY_EMULATOR_LIBVIRT_URI = '{uri}'\nSUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\n\
             SUSHY_EMULATOR_LISTEN_PORT = {}\nSUSHY_EMULATOR_STATE_DIR = '{}'\n",
            self.redfish.port(),
            state.display()
        );
        let file = self.path("redfish.py");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(&packages.python)
            .args(["-c", "from sushy_tools.emulator.main import main; main()"])
            .arg("--config")
            .arg(&file);
        self.spawn(command, "redfish");
        let redfish = self.redfish;
        wait_until("the controllers answer", || {
            TcpStream::connect(redfish).is_ok()
        });
    }

    fn spawn(&mut self, mut command: Command, name: &str) {
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap());
        self.children.push(command.stderr(log).spawn().unwrap());
    }

    fn virsh(&self, arguments: &[&str]) -> String {
        let uri = self.uri();
        let command = Command::new("virsh")
            .args(["-q", "-c", &uri])
            .args(arguments)
            .output();
        let ended = command.unwrap();
        let log = || fs::read_to_string(self.path("libvirtd.log")).unwrap_or_default();
        assert!(ended.status.success(), "{ended:?}\n{}", log());
        String::from_utf8(ended.stdout).unwrap()
    }

    /// What is on a disk, read on the host.
    pub(crate) fn disk(&self, node: &str) -> Disk {
        let file = File::open(self.path(&format!("{node}.img"))).unwrap();
        let field = |at: u64| {
            let mut sector = [0; 512];
            file.read_exact_at(&mut sector, COUNTS + at * 512).unwrap();
            let text = String::from_utf8_lossy(&sector);
            text.trim_matches(['\0', ' ', '\n']).to_owned()
        };
        Disk {
            installs: field(0).parse().unwrap_or(0),
            image: field(1),
            boots: field(2).parse().unwrap_or(0),
        }
    }

    /// Waits until a machine has come up so often.
    pub(crate) fn await_up(&self, node: &str, by: &str, times: usize) {
        let what = format!("{node} comes up by its {by} for the {times}. time");
        wait_until(&what, || self.images.ups(node, by) >= times);
    }

    /// From where its controller has a machine boot, and whether an image is inserted.
    pub(crate) fn boots_from(&self, node: &str) -> (String, bool) {
        let system = format!("/redfish/v1/Systems/{}", uuid(node[1..].parse().unwrap()));
        let read = |path: &str| web::get(self.redfish, path);
        let drive = read(&format!("{system}/VirtualMedia/Cd"));
        let target = read(&system)["Boot"]["BootSourceOverrideTarget"].clone();
        (
            target.as_str().unwrap_or_default().to_owned(),
            drive["Inserted"].as_bool().unwrap_or(false),
        )
    }

    /// The last lines of a console, for messages.
    pub(crate) fn console(&self, node: &str) -> String {
        let path = self.path("consoles").join(node);
        let text = fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("lab:"))
            .collect();
        lines.join("\n")
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let uri = self.uri();
        for name in &self.names {
            let ended = Command::new("virsh")
                .args(["-q", "-c", &uri, "destroy", name])
                .output();
            drop(ended);
        }
        for child in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// The UUID of a machine.
pub(crate) fn uuid(number: usize) -> String {
    format!("6f1a4e2c-0000-4000-8000-{number:012}")
}

/// The address of its card, in which a guest finds the server's port and its own number.
fn mac(high: u8, low: u8, number: usize) -> String {
    format!("52:54:00:{high:02x}:{low:02x}:{number:02x}")
}

impl Machines {
    pub(crate) fn mac(&self, number: usize) -> String {
        let [high, low] = self.images.port().to_be_bytes();
        mac(high, low, number)
    }
}

fn is_root() -> bool {
    // The owner of one's own process.
    let own = fs::metadata("/proc/self").unwrap();
    std::os::unix::fs::MetadataExt::uid(&own) == 0
}

fn give_away(path: &Path) {
    if is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIME, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
