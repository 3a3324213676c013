//! Images for the controllers of a site: the files of a folder, with ranges, for the addresses of the controllers alone.
//!
//! Controllers bring no proof of who they are, so that their addresses decide. A file is the one that a document names
//! if its path is that of the document's address; if the document knows its SHA-256 or its size, another file is
//! not given out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};
use data_encoding::HEXLOWER;
use futures_util::StreamExt as _;
use http::header::{IF_RANGE, RANGE};
use http::{Method, StatusCode};
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::services::ServeFile;
use tower_http::services::fs::ServeFileSystemResponseBody;

use super::Error;
use super::address::Address;
use super::certificate::acceptor;
use super::guard::panicked;
use super::host::Host;
use super::listen::{Limits, Listener, Peer, answer};
use super::settings::Files;
use crate::backend::{WantedImage, WantedImages};
use crate::report::{Visible, counted};
use crate::repository::CommitId;
use crate::run::Stop;
use crate::threads::lock;
use crate::workflow::{Failure, wanted_images};

/// How long the documents are taken for what they were without a look.
const FRESH: Duration = Duration::from_secs(2);

/// How much is read of a file at once, in bytes.
const CHUNK: usize = 1 << 18;

/// Answers to an address about a file that are remembered as told.
const TOLD: usize = 10_000;

/// Images that are listed by their names if something is wrong with them.
const LISTED: usize = 5;

/// A folder of images.
pub struct ImageFolder {
    host: Arc<dyn Host>,
    /// Without links.
    root: PathBuf,
    /// The path at which the folder is, in the addresses of documents.
    prefix: &'static str,
    /// The addresses that may fetch them besides the controllers.
    allowed: Vec<IpNet>,
    named: Mutex<Option<Named>>,
    checked: Mutex<HashMap<PathBuf, Arc<Mutex<Option<Checked>>>>>,
    told: Mutex<HashSet<(IpAddr, PathBuf, &'static str)>>,
}

/// The images that the documents of a commit name.
struct Named {
    commit: CommitId,
    looked: Instant,
    images: Arc<NamedImages>,
}

struct NamedImages {
    /// Several addresses may have one path; a file has to be the one that each of them means.
    by_path: BTreeMap<PathBuf, Vec<(Arc<str>, WantedImage)>>,
    /// Addresses that no file here can have.
    elsewhere: Vec<(Arc<str>, WantedImage)>,
    clients: Vec<IpNet>,
}

impl NamedImages {
    /// Whether an address is that of a controller, of this machine, or one of those that are allowed besides.
    fn admits(&self, client: IpAddr, allowed: &[IpNet]) -> bool {
        let mut ranges = self.clients.iter().chain(allowed);
        client.is_loopback() || ranges.any(|range| range.contains(&client))
    }
}

/// A file as it was when its digest was taken.
struct Checked {
    state: FileState,
    digest: Arc<str>,
}

/// By what a file is known to be the same as before: any write and any exchange of it changes that.
#[derive(PartialEq, Eq)]
struct FileState {
    length: u64,
    #[cfg(unix)]
    changed: (u64, i64, i64),
    #[cfg(not(unix))]
    changed: Option<std::time::SystemTime>,
}

impl FileState {
    fn of(found: &Metadata) -> Self {
        #[cfg(unix)]
        let changed = {
            use std::os::unix::fs::MetadataExt as _;
            (found.ino(), found.ctime(), found.ctime_nsec())
        };
        #[cfg(not(unix))]
        let changed = found.modified().ok();
        Self {
            length: found.len(),
            changed,
        }
    }
}

/// A file that may be given out, as it was when that was decided. It is open: whatever its path leads to later, these are
/// the bytes that are sent.
struct Released {
    file: PathBuf,
    opened: File,
    state: FileState,
}

impl Released {
    /// Whether it is the same file still, and its path leads to it.
    fn is_same(&self) -> bool {
        let states = [self.file.metadata(), self.opened.metadata()];
        let is_same =
            |now: std::io::Result<Metadata>| now.is_ok_and(|now| FileState::of(&now) == self.state);
        states.into_iter().all(is_same)
    }
}

/// A path to an open file: if the system has one, it leads to that file and no other.
fn path_of(opened: &File, file: &Path) -> PathBuf {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        if path.exists() {
            return path;
        }
    }
    let _ = opened;
    file.to_owned()
}

/// Where an open file is, all links followed.
fn place_of(opened: &File, file: &Path) -> std::io::Result<PathBuf> {
    path_of(opened, file).canonicalize()
}

/// Why a file is not given out.
enum Withheld {
    /// No document names it, or there is none.
    NotFound,
    /// It is a link out of the folder.
    Outside,
    /// It is another one than the documents name.
    Other(String),
    Failed(String),
}

impl ImageFolder {
    /// A folder that is at a path of the service, for the controllers and further addresses.
    ///
    /// # Errors
    ///
    /// It is no folder.
    pub fn open(
        host: Arc<dyn Host>,
        folder: &Path,
        prefix: &'static str,
        allowed: Vec<IpNet>,
    ) -> Result<Self, Error> {
        let refused = |why: &dyn std::fmt::Display| {
            Error::Images(format!(
                "the folder of images `{}`: {why}",
                folder.display()
            ))
        };
        let root = folder.canonicalize().map_err(|error| refused(&error))?;
        if !root.is_dir() {
            return Err(refused(&"it is no folder"));
        }
        Ok(Self {
            host,
            root,
            prefix,
            allowed,
            named: Mutex::default(),
            checked: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// The routes of its files.
    pub(super) fn routes(self: Arc<Self>) -> Router {
        Router::new().fallback(image).with_state(self)
    }

    /// The images that the committed documents name now. If those cannot be read, the last ones that could hold on.
    fn named(&self) -> Result<Arc<NamedImages>, Failure> {
        let mut named = lock(&self.named);
        if let Some(named) = &*named
            && named.looked.elapsed() < FRESH
        {
            return Ok(named.images.clone());
        }
        let read = self.read(named.as_ref());
        let read = match (read, named.as_ref()) {
            (Err(failure), Some(known)) => {
                log::warn!("the documents cannot be read anew: {failure}");
                Ok((known.commit, known.images.clone()))
            }
            (read, _) => read,
        };
        let (commit, images) = read?;
        *named = Some(Named {
            commit,
            looked: Instant::now(),
            images: images.clone(),
        });
        Ok(images)
    }

    fn read(&self, known: Option<&Named>) -> Result<(CommitId, Arc<NamedImages>), Failure> {
        let repository = self.host.repository()?;
        let checkout = self.host.checkout(&repository)?;
        let commit = checkout.head()?;
        if let Some(known) = known.filter(|known| known.commit == commit) {
            return Ok((commit, known.images.clone()));
        }
        match (wanted_images(self.host.client(), &checkout, commit), known) {
            (Ok(wanted), _) => Ok((commit, Arc::new(self.by_path(wanted)))),
            (Err(failure), None) => Err(failure),
            // Told once, and not read again until another commit is there.
            (Err(failure), Some(known)) => {
                let text = "warning: the images are those of the commit before";
                let why = failure.words();
                self.host.client().tell(&format!("{text}: {why}"));
                Ok((commit, known.images.clone()))
            }
        }
    }

    fn by_path(&self, wanted: WantedImages) -> NamedImages {
        let mut named = NamedImages {
            by_path: BTreeMap::new(),
            elsewhere: Vec::new(),
            clients: wanted.clients,
        };
        for (url, image) in wanted.images {
            let path = url.parse::<http::Uri>().ok();
            let path = path.and_then(|url| relative(url.path().strip_prefix(self.prefix)?));
            match path {
                Some(path) => named.by_path.entry(path).or_default().push((url, image)),
                None => named.elsewhere.push((url, image)),
            }
        }
        named
    }

    /// Compares the folder with the documents; what a person should know of it, a line each.
    ///
    /// # Errors
    ///
    /// The documents cannot be read.
    pub fn survey(&self) -> Result<Vec<String>, Failure> {
        let named = self.named()?;
        let mut wrong = Vec::new();
        let mut proven = 0;
        let missing = |(url, image): &(Arc<str>, WantedImage)| {
            let nodes = counted(image.nodes, "node", "nodes");
            let url = Visible(url);
            format!("{url} is not here, for {nodes}, such as {}", image.node)
        };
        wrong.extend(named.elsewhere.iter().map(missing));
        let mut all = named.elsewhere.len();
        for (path, entries) in &named.by_path {
            all += entries.len();
            match self.file(path, &named) {
                Ok(_) => {
                    let is_proven = |entry: &&(Arc<str>, WantedImage)| entry.1.sha256.is_some();
                    proven += entries.iter().filter(is_proven).count();
                }
                Err(Withheld::NotFound) => wrong.extend(entries.iter().map(missing)),
                Err(Withheld::Outside) => {
                    let why = format!("{} leads out of the folder", path.display());
                    wrong.extend(entries.iter().map(|_| why.clone()));
                }
                Err(Withheld::Other(why) | Withheld::Failed(why)) => {
                    wrong.extend(entries.iter().map(|_| why.clone()));
                }
            }
        }
        let mut lines = vec![format!(
            "{} of the documents, {} in {}, {proven} proven by their digests",
            counted(all, "image", "images"),
            all - wrong.len(),
            self.root.display(),
        )];
        let more = wrong.len().saturating_sub(LISTED);
        lines.extend(
            wrong
                .into_iter()
                .take(LISTED)
                .map(|why| format!("warning: {why}")),
        );
        if more > 0 {
            lines.push(format!("warning: and {more} more"));
        }
        let clients: Vec<String> = named
            .clients
            .iter()
            .chain(&self.allowed)
            .map(ToString::to_string)
            .collect();
        lines.push(match &clients[..] {
            [] => "warning: the documents name no addresses of controllers, so that only loopback is answered (`--allow`, or `images.allow` of a service, names others)".to_owned(),
            clients => format!("answers {} and loopback", clients.join(", ")),
        });
        Ok(lines)
    }

    /// The file at a path, if it may be given out: a document names it, and means this one.
    fn file(&self, path: &Path, named: &NamedImages) -> Result<Released, Withheld> {
        let entries = named.by_path.get(path).ok_or(Withheld::NotFound)?;
        let file = self.root.join(path);
        let seen = file.metadata().map_err(|_| Withheld::NotFound)?;
        if !seen.is_file() {
            // To open a pipe would wait for its other end.
            return Err(Withheld::NotFound);
        }
        // What is judged from here on is what was opened: a link that changes meanwhile leads nowhere else.
        let opened = File::open(&file).map_err(|_| Withheld::NotFound)?;
        let found = opened.metadata().map_err(|_| Withheld::NotFound)?;
        let real = place_of(&opened, &file).map_err(|_| Withheld::NotFound)?;
        if !real.starts_with(&self.root) {
            return Err(Withheld::Outside);
        }
        if !found.is_file() {
            return Err(Withheld::NotFound);
        }
        for (url, image) in entries {
            self.compare((path, &real), (&opened, &found), url, image)?;
        }
        Ok(Released {
            file: real,
            opened,
            state: FileState::of(&found),
        })
    }

    /// Compares a file with what a document says of it.
    fn compare(
        &self,
        (path, real): (&Path, &Path),
        (opened, found): (&File, &Metadata),
        url: &str,
        image: &WantedImage,
    ) -> Result<(), Withheld> {
        let other = |why: String| {
            let (path, url) = (path.display(), Visible(url));
            Err(Withheld::Other(format!(
                "{path} is another file than {url} of the documents: {why}"
            )))
        };
        if let Some(size) = image.size.filter(|size| *size != found.len()) {
            return other(format!("it has {} bytes, and not {size}", found.len()));
        }
        let Some(wanted) = &image.sha256 else {
            return Ok(());
        };
        let digest = self.digest(real, (opened, found));
        let digest = digest.map_err(|error| {
            Withheld::Failed(format!("{} cannot be read: {error}", path.display()))
        })?;
        match digest == *wanted {
            true => Ok(()),
            false => other(format!("its SHA-256 is {digest}, and not {wanted}")),
        }
    }

    /// The SHA-256 of a file, taken once for as long as the file is the same.
    fn digest(
        &self,
        file: &Path,
        (opened, found): (&File, &Metadata),
    ) -> std::io::Result<Arc<str>> {
        let known = lock(&self.checked)
            .entry(file.to_owned())
            .or_default()
            .clone();
        let mut known = lock(&known);
        let state = FileState::of(found);
        if let Some(known) = known.as_ref().filter(|known| known.state == state) {
            return Ok(known.digest.clone());
        }
        let (mut source, mut hasher) = (File::open(path_of(opened, file))?, Sha256::new());
        let mut chunk = vec![0; CHUNK];
        loop {
            match source.read(&mut chunk)? {
                0 => break,
                read => hasher.update(&chunk[..read]),
            }
        }
        let digest: Arc<str> = Arc::from(HEXLOWER.encode(&hasher.finalize()));
        *known = Some(Checked {
            state,
            digest: digest.clone(),
        });
        Ok(digest)
    }

    /// Whether a request may have a file.
    fn judge(&self, client: IpAddr, asked: &str) -> Result<Released, (StatusCode, String)> {
        let file = relative(asked);
        let path = file.as_deref().unwrap_or(Path::new(asked));
        let named = self.named().map_err(|failure| {
            log::warn!("no image is given out: {failure}");
            let text = "the documents of the site cannot be read".to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        if !named.admits(client, &self.allowed) {
            self.report_once(
                client,
                path,
                "is refused, which is no controller of the site:",
            );
            let text = "images are for the controllers of the site alone".to_owned();
            return Err((StatusCode::FORBIDDEN, text));
        }
        let found = file.as_deref().ok_or(Withheld::NotFound);
        match found.and_then(|file| self.file(file, &named)) {
            Ok(released) => {
                self.report_once(client, path, "fetches");
                Ok(released)
            }
            Err(Withheld::NotFound | Withheld::Outside) => {
                self.report_once(
                    client,
                    path,
                    "asks for what no document names, or is not here:",
                );
                Err((StatusCode::NOT_FOUND, "there is no such image".to_owned()))
            }
            Err(Withheld::Other(why)) => {
                self.report_once(
                    client,
                    path,
                    "is refused, since it is another file than the documents name:",
                );
                Err((StatusCode::CONFLICT, why))
            }
            Err(Withheld::Failed(why)) => {
                log::warn!("{why}");
                Err((
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the file cannot be read".to_owned(),
                ))
            }
        }
    }

    /// Reports the first request of an address for a file.
    fn report_once(&self, client: IpAddr, path: &Path, does: &'static str) {
        let mut told = lock(&self.told);
        if told.len() >= TOLD {
            told.clear();
        }
        if told.insert((client, path.to_owned(), does)) {
            let path = path.to_string_lossy();
            let path = Visible(&path);
            self.host.client().tell(&format!("{client} {does} {path}"));
        }
    }
}

/// The path of a file in the folder, by that of an address; none: it can be no file's.
fn relative(path: &str) -> Option<PathBuf> {
    let path = percent_decode_str(path).decode_utf8().ok()?;
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    let path = path.trim_start_matches('/');
    path.split('/').all(is_plain).then(|| PathBuf::from(path))
}

async fn image(
    State(folder): State<Arc<ImageFolder>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
) -> Response {
    let client = match peer {
        Peer::Tcp { address, .. } => address.ip().to_canonical(),
        #[cfg(unix)]
        Peer::Unix { .. } => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    };
    let (path, images) = (request.uri().path().to_owned(), folder.clone());
    let judged = tokio::task::spawn_blocking(move || images.judge(client, &path)).await;
    let released = match judged {
        Ok(Ok(released)) => released,
        Ok(Err((status, why))) => return (status, why + "\n").into_response(),
        Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    if !is_range_of(&request, released.state.length) {
        request.headers_mut().remove(RANGE);
    }
    let kind = mime_guess::from_path(request.uri().path()).first_or_octet_stream();
    let path = path_of(&released.opened, &released.file);
    match ServeFile::new_with_mime(path, &kind)
        .try_call(request)
        .await
    {
        Ok(answer) => answer
            .map(|body| unchanged(body, released, folder))
            .into_response(),
        Err(error) => {
            log::warn!("an image cannot be read: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Whether a request is one for a range of a file. Any other `Range` is left out of account (RFC 9110, 13.1.5 and 14.2): of
/// several, of another unit, longer than the file or than a number, or only if the file is one that is not known here.
fn is_range_of(request: &Request, length: u64) -> bool {
    let headers = request.headers();
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let range = range.and_then(|range| range.split_once('='));
    let Some((unit, range)) = range.filter(|_| !headers.contains_key(IF_RANGE)) else {
        return false;
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let is_within = match range.split_once('-') {
        Some(("", last)) => number(last).is_some_and(|last| last <= length),
        Some((first, "")) => number(first).is_some(),
        // One that ends before it begins is invalid, and not one that cannot be met.
        Some((first, last)) => number(first).is_some_and(|first| number(last) >= Some(first)),
        None => false,
    };
    unit == "bytes" && is_within && !range.contains(',') && *request.method() == Method::GET
}

/// The bytes of a file, for as long as it is the one that was released: if it is changed meanwhile, the answer breaks off.
fn unchanged(
    body: ServeFileSystemResponseBody,
    released: Released,
    folder: Arc<ImageFolder>,
) -> Body {
    let chunks = Body::new(body).into_data_stream();
    Body::from_stream(chunks.map(move |chunk| {
        // Behind the reading of the chunk, and before it is sent.
        if released.is_same() {
            return chunk;
        }
        let file = released.file.display();
        let text = format!("{file} was changed while it was sent: the answer is broken off");
        folder.host.client().tell(&Visible(&text).to_string());
        Err(axum::Error::new("the file was changed while it was sent"))
    }))
}

/// A server of images alone.
pub struct ImageServer {
    folder: Arc<ImageFolder>,
    listeners: Vec<Listener>,
}

impl ImageServer {
    /// Listens on addresses; `identity`: the certificate and the key of TLS.
    ///
    /// # Errors
    ///
    /// The certificate cannot be used, or an address cannot be listened on.
    pub async fn bind(
        folder: ImageFolder,
        identity: Option<(Vec<u8>, Vec<u8>)>,
        addresses: &[Address],
    ) -> Result<Self, Error> {
        let files = Files {
            identity,
            ..Files::default()
        };
        let tls = acceptor(&files)?;
        let mut listeners = Vec::with_capacity(addresses.len());
        for address in addresses {
            listeners.push(Listener::bind(address, tls.clone(), true).await?);
        }
        Ok(Self {
            folder: Arc::new(folder),
            listeners,
        })
    }

    /// The addresses that it listens on, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// Answers until a stop is asked for.
    pub async fn run(self, mut stop: Stop) {
        let router = self.folder.routes();
        let router = router.layer(CatchPanicLayer::custom(panicked));
        let (over, is_over) = watch::channel(false);
        let ending = async move {
            stop.asked().await;
            over.send_replace(true);
        };
        tokio::join!(
            answer(self.listeners, router, Limits::default(), is_over),
            ending
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controllers_this_machine_and_who_is_allowed_are_answered() {
        let ranges = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let named = NamedImages {
            by_path: BTreeMap::new(),
            elsewhere: Vec::new(),
            clients: ranges(&["10.60.0.0/22", "fd00:60::/64"]),
        };
        let allowed = ranges(&["192.0.2.7/32"]);
        for (client, expected) in [
            ("10.60.3.255", true),
            ("10.60.4.1", false),
            ("fd00:60::9", true),
            ("fd00:61::9", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("127.0.0.1", true),
            ("::1", true),
        ] {
            assert_eq!(
                named.admits(client.parse().unwrap(), &allowed),
                expected,
                "{client}"
            );
        }
    }

    #[test]
    fn a_path_leads_to_a_file_of_the_folder_or_to_none() {
        for (path, file) in [
            ("/iso/n1.iso", "iso/n1.iso"),
            ("/a%20b.iso", "a b.iso"),
            ("/a+b", "a+b"),
        ] {
            assert_eq!(relative(path), Some(PathBuf::from(file)), "{path}");
        }
        for path in [
            "",
            "/",
            "/iso/",
            "/../x",
            "/iso/../../x",
            "/%2e%2e/x",
            "/iso/%2e%2e%2fx",
            "/a//b",
            "/./a",
            "/a%00b",
            "/a%5cb",
            "/%ff",
        ] {
            assert_eq!(relative(path), None, "{path}");
        }
    }
}
