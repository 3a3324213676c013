//! `trueup serve`: the HTTP service of a site.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::apply::process::{ProcessClock, listen, random};
use super::apply::resume_interrupted;
use super::context::Context;
use super::planning::{PlanArguments, RemoteArguments};
use super::signals;
use super::value::duration;
use super::{Failure, FailureKind};
use crate::repository::{Links, Repository, read_file};
use crate::run::{Connection, Stop, StopHandle};
use crate::serve::{Address, Files, Host, ImageFolder, Server, ServiceClock, Settings};
use crate::site::{Outside, Sandbox};
use crate::workflow::{Checkout, Client, PlanRequest};

/// The largest file of settings, certificates or keys, in bytes.
const LARGEST: u64 = 1 << 20;

/// How long running steps are waited for after the first request to stop, in seconds.
const STOP_GRACE: u64 = 5;

#[derive(Debug, Args)]
pub(super) struct ServeCommand {
    /// Where requests are answered: `unix:PATH`, or an address with its port; may be repeated [default: a socket in the
    /// repository's git folder]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Settings of the service: TLS, who may call it, limits
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Resume the run that was interrupted, if there is one
    #[arg(long)]
    resume_interrupted: bool,
    /// Time to wait for running steps after SIGTERM, in seconds or such as `5m` [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    stop_grace: Option<u64>,
    #[command(flatten)]
    remote: RemoteArguments,
}

pub(super) fn run(context: &mut Context, command: &ServeCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    checkout.check_protected()?;
    let addresses = match &command.listen[..] {
        [] => vec![own_socket(&repository, &checkout)?],
        listed => addresses(listed)?,
    };
    let (settings, files) = settings(context, command, &repository)?;
    if settings.asks_services() {
        Sandbox::refuse(&repository, Outside::Services)?;
    }
    let host = ProcessHost {
        context: context.clone(),
        remote: command.remote.clone(),
        stop_grace: command.stop_grace.unwrap_or(STOP_GRACE),
    };
    let printer = context.printer;
    in_good_order(async |stop| {
        let uid = rustix::process::getuid().as_raw();
        let server = Server::bind(Arc::new(host), &settings, &files, &addresses, uid).await;
        let server = server.map_err(|error| refused(&error))?;
        match server.images().map(ImageFolder::survey) {
            None => {}
            Some(Ok(lines)) => lines.iter().for_each(|line| printer.tell(line)),
            // The rest of the service can be used.
            Some(Err(failure)) => printer.tell(&format!("warning: no image is served: {failure}")),
        }
        match server.words_of_no_machine().await {
            Ok(words) => words.iter().for_each(|word| {
                let text = "a role of the settings is bound to";
                printer.tell(&format!(
                    "warning: {text} `{word}`, which means no machine of the committed design"
                ));
            }),
            Err(failure) => {
                let text = "warning: what the roles of the settings are bound to is not known";
                printer.tell(&format!("{text}: {failure}"));
            }
        }
        for address in server.addresses() {
            printer.tell(&format!("listening on {address}"));
        }
        if command.resume_interrupted {
            server.resume_interrupted();
        }
        server.run(stop).await;
        Ok(0)
    })
}

/// Runs a service, which ends in good order, whatever it asks backends just then.
pub(super) fn in_good_order(
    work: impl AsyncFnOnce(Stop) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::error(format!("the runtime could not be started: {error}")))?;
    let _signals = signals::Handler::new();
    runtime.block_on(async {
        let stop = Stop::new();
        let signals = tokio::spawn(listen(stop.handle()));
        let ended = work(stop).await;
        signals.abort();
        ended
    })
}

pub(super) fn refused(error: &crate::serve::Error) -> Failure {
    let kind = match error {
        crate::serve::Error::Listen { .. } => FailureKind::Error,
        _ => FailureKind::Usage,
    };
    Failure::from_error(kind, error, error.hint().map(str::to_owned))
}

/// The socket beside the site's own files in the git folder.
fn own_socket(repository: &Repository, checkout: &Checkout<'_>) -> Result<Address, Failure> {
    let site = checkout.location.site.as_str();
    let folder = repository.common_dir().join("trueup").join(site);
    std::fs::create_dir_all(&folder)?;
    Ok(Address::Unix(folder.join("serve.sock")))
}

/// The addresses that were given.
pub(super) fn addresses(listed: &[String]) -> Result<Vec<Address>, Failure> {
    let parsed = listed.iter().map(|address| address.parse());
    let parsed: Result<Vec<Address>, crate::serve::Error> = parsed.collect();
    parsed.map_err(|error| refused(&error))
}

/// The settings and the files that they name. They decide which callers may act, so that they never lie if a change of the design
/// could write them.
fn settings(
    context: &Context,
    command: &ServeCommand,
    repository: &Repository,
) -> Result<(Settings, Files), Failure> {
    let Some(given) = &command.config else {
        return Ok((Settings::default(), Files::default()));
    };
    let path = context.directory().join(given);
    let root = repository.root();
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let real = path
        .canonicalize()
        .map_err(|error| unreadable(&path, &error))?;
    if real.starts_with(root) {
        let message = format!(
            "the settings of the service `{}` lie in the checkout, where a change of the design could write them",
            path.display()
        );
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let text = String::from_utf8(read(&path)?)
        .map_err(|_| Failure::error(format!("`{}` is no text", path.display())))?;
    let mut settings = Settings::parse(&text).map_err(|error| {
        let failure = refused(&error);
        let message = format!("`{}`: {}", path.display(), failure.message);
        Failure { message, ..failure }
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    if let Some(images) = &mut settings.images {
        images.folder = folder.join(&images.folder);
    }
    let mut files = Files::default();
    if let Some(tls) = &settings.tls {
        let certificate = read(&folder.join(&tls.certificate))?;
        files.identity = Some((certificate, read(&folder.join(&tls.key))?));
        let authorities = tls.client_ca.as_ref();
        files.client_ca = authorities
            .map(|path| read(&folder.join(path)))
            .transpose()?;
    }
    let authorities = settings.deckhand.as_ref();
    let authorities = authorities.and_then(|deckhand| deckhand.ca.as_ref());
    files.deckhand_ca = authorities
        .map(|path| read(&folder.join(path)))
        .transpose()?;
    Ok((settings, files))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_file(path, LARGEST, Links::Followed).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::error(format!("`{}` cannot be read: {error}", path.display()))
}

/// This process, as the service knows it.
pub(super) struct ProcessHost {
    context: Context,
    remote: RemoteArguments,
    stop_grace: u64,
}

impl ProcessHost {
    /// One without flags.
    pub(super) fn unattended(context: &Context) -> Self {
        Self {
            context: context.clone(),
            remote: RemoteArguments::default(),
            stop_grace: STOP_GRACE,
        }
    }
}

impl Host for ProcessHost {
    fn client(&self) -> &dyn Client {
        &self.context
    }

    fn repository(&self) -> Result<Repository, Failure> {
        self.context.repository()
    }

    fn checkout<'a>(&self, repository: &'a Repository) -> Result<Checkout<'a>, Failure> {
        self.context.checkout(repository)
    }

    fn connection<'a>(&self, repository: &'a Repository) -> Result<Connection<'a>, Failure> {
        self.remote.lasting_connection(repository)
    }

    fn clock(&self, stop: Option<Stop>) -> Box<dyn ServiceClock + '_> {
        Box::new(ProcessClock::new(self.context.printer).stopped_by(stop))
    }

    fn seconds(&self) -> u64 {
        u64::try_from(self.context.now().as_second()).unwrap_or_default()
    }

    fn random(&self) -> u128 {
        random()
    }

    fn plan_request(&self) -> PlanRequest {
        PlanArguments::default().plan_request(&self.context)
    }

    fn stop_grace(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.stop_grace))
    }

    fn resume(&self, begins: Arc<dyn Fn(StopHandle) + Send + Sync>) -> Result<(), Failure> {
        resume_interrupted(&self.context, &self.remote, self.stop_grace, begins)
    }

    fn has_protected_guards(&self) -> bool {
        self.context.backends_from.is_some()
    }
}
