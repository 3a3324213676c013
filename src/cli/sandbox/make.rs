//! A new sandbox: a clone apart from all remotes, with the records of the site, and machines as they were observed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};

use super::files::{MACHINES, copied};
use crate::backend::hardware::sim::{Seed, machines_of, seed};
use crate::backend::{Clock, clock};
use crate::cli::basis::{Basis, basis};
use crate::cli::client::simulated_sites;
use crate::cli::context::Context;
use crate::cli::init::outside_of_sites;
use crate::cli::planning::PlanArguments;
use crate::cli::revision::{ReadArguments, load_sound};
use crate::cli::{Failure, FailureKind};
use crate::design::{BackendKind, Guards, NodeDesign, NodeName, SiteName};
use crate::document::{Node, to_json};
use crate::observed::Observations;
use crate::record::{NodeRecord, Place, Store};
use crate::report::{Visible, counted};
use crate::repository::{CommitId, Repository};
use crate::reservation::Reservations;
use crate::run::Connection;
use crate::site::{At, Depth, Detail, Sandbox, SandboxSettings};
use crate::workflow::ReservationRef;

/// Machines that are named because they were not observed.
const NAMED: usize = 3;
/// The settings of a clone that a sandbox takes over: who works in it, and where trueup's refs are.
const SETTINGS: [&str; 3] = ["user.name", "user.email", "trueup.refPrefix"];

#[derive(Debug, Args)]
pub(in crate::cli) struct NewCommand {
    /// The folder of the sandbox: a new or an empty one
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    arguments: PlanArguments,
}

/// The origin of a sandbox.
pub(in crate::cli) struct Origin<'a> {
    pub(in crate::cli) repository: &'a Repository,
    pub(in crate::cli) site: &'a SiteName,
    /// The commit of its documents.
    pub(in crate::cli) commit: CommitId,
    /// The commit of its records; `None`: there are none.
    pub(in crate::cli) records: Option<CommitId>,
    /// Its machines that persons work on.
    pub(in crate::cli) reservations: &'a Reservations,
    /// The observed state; `None`: machines are as recorded.
    pub(in crate::cli) observations: Option<&'a Observations>,
    /// The file of a site that is simulated already.
    pub(in crate::cli) simulated: Option<PathBuf>,
}

/// Makes a sandbox of the site as it is committed and observed.
pub(super) fn new(
    context: &Context,
    repository: &Repository,
    command: &NewCommand,
) -> Result<(), Failure> {
    if Sandbox::of(repository)?.is_some() {
        let failure = Failure::new(FailureKind::Usage, "this clone is a sandbox already");
        return Err(failure.hint("`trueup try branch DIR` makes another one of it"));
    }
    free(&context.directory().join(&command.folder))?;
    let Basis {
        planned,
        site,
        commit,
        records,
        ..
    } = basis(context, repository, &[], &command.arguments)?;
    let simulated = match planned.hardware {
        Some(_) => simulated_file(repository, &site, planned.guarded.guards())?,
        None => None,
    };
    let origin = Origin {
        repository,
        site: &site,
        commit,
        records,
        reservations: &planned.reservations,
        observations: planned.observations.as_ref(),
        simulated,
    };
    make(context, &origin, &command.folder)
}

/// The file of the machines of a site, all of which are in one simulator.
fn simulated_file(
    repository: &Repository,
    site: &SiteName,
    guards: &Guards,
) -> Result<Option<PathBuf>, Failure> {
    let backends = &guards.backends;
    let is_one = backends.hardware.kind == BackendKind::Sim && backends.overrides.is_empty();
    if !is_one || clock(guards) != Clock::Virtual {
        return Ok(None);
    }
    let settings = backends.hardware.settings.as_ref();
    let named = settings.and_then(|settings| settings.get("state")?.as_str());
    let folder = simulated_sites(repository)?.join(site.as_str());
    let file = folder.join(named.unwrap_or(MACHINES));
    Ok(file.exists().then_some(file))
}

/// Refuses a folder that is in use.
pub(super) fn free(folder: &Path) -> Result<(), Failure> {
    let is_free = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if is_free {
        // Another repository cannot be a part of a site's folder.
        let existing = folder.ancestors().find(|folder| folder.is_dir());
        let around = existing.and_then(|folder| Repository::discover(folder).ok());
        return around.map_or(Ok(()), |around| outside_of_sites(&around, folder));
    }
    let message = format!("`{}` is not empty", folder.display());
    Err(Failure::new(FailureKind::Usage, message).hint("name a new folder, or an empty one"))
}

/// A folder beside the one that is wanted, which takes its place once all is in it.
pub(super) struct Draft {
    draft: tempfile::TempDir,
    folder: PathBuf,
}

impl Draft {
    pub(super) fn beside(folder: PathBuf) -> Result<Self, Failure> {
        free(&folder)?;
        let parent = folder.parent().unwrap_or(Path::new(".")).to_owned();
        let making = |error| {
            let shown = folder.display();
            Failure::error(format!("cannot make the sandbox `{shown}`: {error}"))
        };
        std::fs::create_dir_all(&parent).map_err(making)?;
        let mut name = tempfile::Builder::new();
        let draft = name.prefix(".trueup-try-").tempdir_in(&parent);
        let draft = draft.map_err(making)?;
        Ok(Self { draft, folder })
    }

    /// The folder of the clone.
    pub(super) fn clone(&self) -> PathBuf {
        self.draft.path().join("clone")
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        // An empty folder is taken; what came into it meanwhile is not.
        let _ = std::fs::remove_dir(&self.folder);
        std::fs::rename(self.clone(), &self.folder).map_err(|error| {
            let shown = self.folder.display();
            Failure::error(format!("cannot make the sandbox `{shown}`: {error}"))
        })
    }
}

/// Makes a sandbox in a new folder, and reports it.
pub(in crate::cli) fn make(
    context: &Context,
    origin: &Origin<'_>,
    folder: &Path,
) -> Result<(), Failure> {
    let draft = Draft::beside(context.directory().join(folder))?;
    let machines = filled(context, origin, &draft.clone())?;
    draft.finish()?;
    let shown = folder.display();
    context.printer.tell(&format!(
        "Made the sandbox `{shown}` of site `{}`, commit {}: {machines}.\n\
         Every backend in it is the simulator, and it has no remote.\n\n\
         Try it:\n  cd {shown}\n  trueup plan\n  trueup try fail NODE at deploy\n  trueup apply\n  trueup try undo",
        origin.site,
        origin.commit.short(),
    ));
    Ok(())
}

/// Clones what a sandbox is made of into a new folder, and makes it one; if its machines are from.
fn filled(context: &Context, origin: &Origin<'_>, clone: &Path) -> Result<String, Failure> {
    Repository::clone_apart(origin.repository.root(), clone, origin.commit)?;
    let inside = context.in_folder(clone, Some(origin.site.as_str()));
    let cloned = inside.repository()?;
    let place = Place::of(&cloned, origin.site, None)?;
    if let Some(records) = origin.records {
        cloned.update_ref(place.own(), None, records.0)?;
    }
    copy_refs(origin.repository, &cloned)?;
    copy_settings(origin.repository, &cloned)?;
    let state_ref = ReservationRef {
        repository: &cloned,
        connection: &Connection::Alone,
        site: origin.site,
    };
    state_ref.take_over(&inside, origin.reservations)?;
    let (nodes, guards) = documents(&inside, &cloned)?;
    let sandbox = Sandbox::create(&cloned)?;
    sandbox.write(origin.site, &settings_of(&guards))?;
    let store = Store::open(&cloned, origin.site)?;
    let records = store.nodes(&store.read()?)?;
    let file = simulated_sites(&cloned)?
        .join(origin.site.as_str())
        .join(MACHINES);
    match &origin.simulated {
        Some(simulated) => {
            copied(simulated, &file)?;
            Ok("its machines are those of the simulated site".to_owned())
        }
        None => seeded(origin, (&nodes, &guards), &records, &file),
    }
}

fn copy_settings(from: &Repository, to: &Repository) -> Result<(), Failure> {
    for key in SETTINGS {
        if let Some(value) = from.config(key)? {
            to.configure(key, &value)?;
        }
    }
    Ok(())
}

/// Copies a sandbox as it is: its refs, its machines and runs, its faults and its operations.
pub(super) fn copy(
    from: &Repository,
    sandbox: &Sandbox,
    head: CommitId,
    clone: &Path,
) -> Result<(), Failure> {
    Repository::clone_apart(from.root(), clone, head)?;
    let cloned = Repository::discover(clone)?;
    copy_settings(from, &cloned)?;
    copy_refs(from, &cloned)?;
    for (name, id) in from.refs(&from.ref_prefix()?)? {
        cloned.update_ref(&name, None, id)?;
    }
    let copy = Sandbox::create(&cloned)?;
    copied(sandbox.folder(), copy.folder())?;
    let files = from.common_dir().join("trueup");
    match files.is_dir() {
        true => copied(&files, &cloned.common_dir().join("trueup")),
        false => Ok(()),
    }
}

/// Tags, and branches of remotes as the clone knows them: nothing asks a remote.
fn copy_refs(from: &Repository, to: &Repository) -> Result<(), Failure> {
    for prefix in ["refs/tags", "refs/remotes"] {
        for (name, id) in from.refs(prefix)? {
            if to.read_ref(&name)?.is_none() {
                to.update_ref(&name, None, id)?;
            }
        }
    }
    Ok(())
}

type Nodes = BTreeMap<NodeName, std::sync::Arc<NodeDesign>>;

/// The machines and guards of the documents, as they are before the clone is a sandbox.
fn documents(
    inside: &Context,
    cloned: &Repository,
) -> Result<(Nodes, std::sync::Arc<Guards>), Failure> {
    let checkout = inside.checkout(cloned)?;
    let mut loader = checkout.loader()?;
    let settings = ReadArguments::default().settings(Depth::Typed, Detail::Designs);
    let at = At::Commit(checkout.head()?);
    let site = load_sound(inside, &mut loader, &checkout.location, at, settings)?;
    Ok((site.design.nodes.clone(), site.documented_guards))
}

/// The settings of a sandbox: if the documents have a simulator, its durations and pods, without its faults.
fn settings_of(guards: &Guards) -> SandboxSettings {
    let fields = |node: Option<&Node>, left_out: &[&str]| -> Map<String, Value> {
        let Some(Value::Object(mut fields)) = node.map(to_json) else {
            return Map::new();
        };
        fields.retain(|name, _| !left_out.contains(&name.as_str()));
        fields
    };
    let hardware = &guards.backends.hardware;
    let machines = hardware.settings.as_ref();
    let machines = machines.filter(|_| hardware.kind == BackendKind::Sim);
    let data = guards.backends.data.as_ref();
    let cluster = data.and_then(|data| data.at(&["clusters", "kubernetes"]));
    let simulated =
        cluster.filter(|cluster| cluster.get("kind").and_then(Node::as_str) == Some("sim"));
    let mut settings = SandboxSettings::default();
    settings.machines = fields(machines, &["state", "clock", "faults"]);
    settings.cluster = fields(simulated.and_then(|each| each.get("sim")), &["faults"]);
    settings.join = cluster.and_then(|cluster| cluster.get("join")).map(to_json);
    settings
}

/// Makes the simulated site of what was observed, and reports what was not.
fn seeded(
    origin: &Origin<'_>,
    (nodes, guards): (&Nodes, &Guards),
    records: &BTreeMap<NodeName, NodeRecord>,
    file: &Path,
) -> Result<String, Failure> {
    let left = records.keys().filter(|node| !nodes.contains_key(*node));
    let designed = nodes.iter().map(|(node, design)| (node, Some(&**design)));
    let all = designed.chain(left.map(|node| (node, None)));
    let seeds = all.map(|(node, design)| {
        let record = records.get(node);
        Seed {
            node,
            design,
            is_recorded: record.is_some_and(NodeRecord::has_system),
        }
    });
    let none = Observations::default();
    let observations = origin.observations.unwrap_or(&none);
    let (machines, assumed) = machines_of(seeds, observations, &guards.etcd_clusters);
    let count = machines.len();
    seed(file, machines).map_err(|error| Failure::error(error.to_string()))?;
    let observed = counted(count - assumed.len(), "machine", "machines");
    let more = assumed.len().saturating_sub(NAMED);
    let named = assumed.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|node| Visible(node.as_str()).to_string())
        .collect();
    Ok(match assumed.len() {
        0 => format!("{observed} as observed"),
        some => format!(
            "{observed} as observed, {} as recorded, since no state was observed: {}{}",
            counted(some, "machine", "machines"),
            named.join(", "),
            match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            }
        ),
    })
}
