//! `trueup init`: a small site that works, in a git repository of its own.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::design::{name_problem, schema};
use crate::diagnostic::SourceId;
use crate::document::{Limits, load_values};
use crate::report::Visible;
use crate::repository::{Repository, Signature, replace_file};
use crate::site::{At, locate_all, site_around};

use super::apply::actor;
use super::context::Context;
use super::{Failure, FailureKind};

/// An example: its files, and what its first commit says.
pub(super) struct Example {
    pub(super) name: &'static str,
    summary: &'static str,
    message: &'static str,
    pub(super) files: &'static [(&'static str, &'static str)],
}

/// All of them, from the one with most kinds of documents on.
pub(super) const ALL: [&Example; 4] = [&REDFISH, &CONTROL_PLANE, &MAAS, &EDGE];

/// Three machines, as they stand in `site-examples/edge`.
pub(super) const EDGE: Example = Example {
    name: "edge",
    summary: "three simulated machines",
    message: "Describe a site of three machines",
    files: &[
        (
            "backends.yaml",
            include_str!("../../site-examples/edge/backends.yaml"),
        ),
        (
            "networks.yaml",
            include_str!("../../site-examples/edge/networks.yaml"),
        ),
        (
            "nodes.yaml",
            include_str!("../../site-examples/edge/nodes.yaml"),
        ),
        (
            "profiles.yaml",
            include_str!("../../site-examples/edge/profiles.yaml"),
        ),
        (
            "site-definition.yaml",
            include_str!("../../site-examples/edge/site-definition.yaml"),
        ),
        (
            "strategy.yaml",
            include_str!("../../site-examples/edge/strategy.yaml"),
        ),
    ],
};

/// A control plane with etcd and two workers, as they stand in `site-examples/control-plane`.
pub(super) const CONTROL_PLANE: Example = Example {
    name: "control-plane",
    summary: "a simulated control plane of three machines with etcd, and two workers",
    message: "Describe a control plane of three machines and two workers",
    files: &[
        (
            "backends.yaml",
            include_str!("../../site-examples/control-plane/backends.yaml"),
        ),
        (
            "etcd.yaml",
            include_str!("../../site-examples/control-plane/etcd.yaml"),
        ),
        (
            "networks.yaml",
            include_str!("../../site-examples/control-plane/networks.yaml"),
        ),
        (
            "nodes.yaml",
            include_str!("../../site-examples/control-plane/nodes.yaml"),
        ),
        (
            "profiles.yaml",
            include_str!("../../site-examples/control-plane/profiles.yaml"),
        ),
        (
            "site-definition.yaml",
            include_str!("../../site-examples/control-plane/site-definition.yaml"),
        ),
        (
            "strategy.yaml",
            include_str!("../../site-examples/control-plane/strategy.yaml"),
        ),
    ],
};

/// Three racks of machines with Redfish controllers, as they stand in `site-examples/redfish`.
const REDFISH: Example = Example {
    name: "redfish",
    summary: "nine machines with Redfish controllers, whose README.md tells what to replace",
    message: "Describe a site of Redfish machines",
    files: &[
        (
            "README.md",
            include_str!("../../site-examples/redfish/README.md"),
        ),
        (
            "backends.yaml",
            include_str!("../../site-examples/redfish/backends.yaml"),
        ),
        (
            "networks.yaml",
            include_str!("../../site-examples/redfish/networks.yaml"),
        ),
        (
            "nodes.yaml",
            include_str!("../../site-examples/redfish/nodes.yaml"),
        ),
        (
            "policy.yaml",
            include_str!("../../site-examples/redfish/policy.yaml"),
        ),
        (
            "profiles.yaml",
            include_str!("../../site-examples/redfish/profiles.yaml"),
        ),
        (
            "racks.yaml",
            include_str!("../../site-examples/redfish/racks.yaml"),
        ),
        (
            "site-definition.yaml",
            include_str!("../../site-examples/redfish/site-definition.yaml"),
        ),
        (
            "strategy.yaml",
            include_str!("../../site-examples/redfish/strategy.yaml"),
        ),
    ],
};

/// Two racks of machines in MAAS, as they stand in `site-examples/maas`.
const MAAS: Example = Example {
    name: "maas",
    summary: "four machines in MAAS, whose README.md tells what to replace",
    message: "Describe a site of machines in MAAS",
    files: &[
        (
            "README.md",
            include_str!("../../site-examples/maas/README.md"),
        ),
        (
            "backends.yaml",
            include_str!("../../site-examples/maas/backends.yaml"),
        ),
        (
            "networks.yaml",
            include_str!("../../site-examples/maas/networks.yaml"),
        ),
        (
            "nodes.yaml",
            include_str!("../../site-examples/maas/nodes.yaml"),
        ),
        (
            "policy.yaml",
            include_str!("../../site-examples/maas/policy.yaml"),
        ),
        (
            "profiles.yaml",
            include_str!("../../site-examples/maas/profiles.yaml"),
        ),
        (
            "racks.yaml",
            include_str!("../../site-examples/maas/racks.yaml"),
        ),
        (
            "site-definition.yaml",
            include_str!("../../site-examples/maas/site-definition.yaml"),
        ),
        (
            "strategy.yaml",
            include_str!("../../site-examples/maas/strategy.yaml"),
        ),
    ],
};

/// Where the schemas are for the example, and where `init` writes them: a hidden folder, which no site
/// reads.
const SCHEMAS_OF_EXAMPLE: &str = "../../schemas/";
const SCHEMAS: &str = ".schemas/";

/// The file in which an example names itself.
const SITE_DEFINITION: &str = "site-definition.yaml";

/// The files of a checkout that are no part of a site: each belongs to one moment, and may name all that the site has.
const IGNORED: &str = "# Saved plans, observed states and bundles: each belongs to one moment.\n\
                       *.plan\n*.observed\n*.bundle\n";

#[derive(Debug, Args)]
pub(super) struct InitCommand {
    /// The site: an empty or new folder, whose name the site gets [default: the current folder, and the example's name]
    #[arg(value_name = "NAME")]
    folder: Option<PathBuf>,
    /// Site to write
    #[arg(long, value_enum, value_name = "NAME", default_value_t = ExampleName::Edge)]
    example: ExampleName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExampleName {
    /// Three machines.
    Edge,
    /// A control plane with etcd, and two workers.
    ControlPlane,
    /// Racks of machines with Redfish controllers: networks, credentials, fingerprints, an image server.
    Redfish,
    /// Machines in MAAS: its key, creation, tests, erasure.
    Maas,
}

impl ExampleName {
    fn example(self) -> &'static Example {
        match self {
            Self::Edge => &EDGE,
            Self::ControlPlane => &CONTROL_PLANE,
            Self::Redfish => &REDFISH,
            Self::Maas => &MAAS,
        }
    }
}

pub(super) fn run(context: &mut Context, command: &InitCommand) -> Result<u8, Failure> {
    let example = command.example.example();
    let site = site_name(context, command.folder.as_deref(), example)?;
    let folder = command.folder.as_deref().unwrap_or(Path::new("."));
    let folder = context.directory().join(folder);
    // A repository inside another one would be an accident.
    let existing = folder.ancestors().find(|folder| folder.is_dir());
    let around = existing.and_then(|folder| Repository::discover(folder).ok());
    let (committed, next) = match around {
        Some(around) => {
            // Its folder is git's own.
            around.need_worktree()?;
            outside_of_sites(&around, &folder)?;
            if !folder.join(SITE_DEFINITION).exists() {
                unused_name(&around, &site)?;
            }
            write_files(&folder, example, &site)?;
            ("in the repository around it", "  git add . && git commit\n")
        }
        None => {
            write_named(context, &folder, example, &site)?;
            ("committed to git", "")
        }
    };
    // The commands are for the shell, which `-C` has not moved.
    let here = std::env::current_dir()
        .and_then(|here| here.canonicalize())
        .ok();
    let is_here = here.is_some() && folder.canonicalize().ok() == here;
    let shown = here
        .as_deref()
        .and_then(|here| folder.strip_prefix(here).ok());
    let shown = match is_here {
        true => Path::new("."),
        false => shown.unwrap_or(&folder),
    };
    context.printer.tell(&format!(
        "Wrote the site `{site}` to {}: {}, {committed}.\n\nTry it:\n{}{next}  trueup validate\n{}",
        shown.display(),
        example.summary,
        match is_here {
            true => String::new(),
            false => format!("  cd {}\n", shown.display()),
        },
        match command.example {
            ExampleName::Edge | ExampleName::ControlPlane => "  trueup plan\n  trueup apply",
            // There are no such machines yet.
            ExampleName::Redfish | ExampleName::Maas => "  trueup plan --observed none",
        }
    ));
    Ok(0)
}

/// Refuses a folder inside that of a site, all of whose YAML files are the site's: it could not be loaded any more.
pub(super) fn outside_of_sites(repository: &Repository, folder: &Path) -> Result<(), Failure> {
    let Some(around) = site_around(repository, folder) else {
        return Ok(());
    };
    let message = format!(
        "`{}` would be among the files of site `{}` (`{}`), which could not be loaded any more",
        folder.display(),
        Visible(&around.name),
        Visible(&around.definition)
    );
    Err(Failure::new(FailureKind::Usage, message)
        .hint("name a folder outside of that site's folder, such as one beside the repository"))
}

/// Refuses the name of a site that the repository has already.
fn unused_name(repository: &Repository, site: &str) -> Result<(), Failure> {
    let found = locate_all(repository, At::Worktree).unwrap_or_default();
    let Some(other) = found.iter().find(|other| other.name == site) else {
        return Ok(());
    };
    let message = format!(
        "there is a site `{site}` in this repository: `{}`",
        Visible(&other.definition)
    );
    Err(Failure::new(FailureKind::Usage, message)
        .hint("`trueup init NAME` makes a folder whose name the site gets"))
}

/// The name of the site: that of its folder, if one is given.
fn site_name(
    context: &Context,
    folder: Option<&Path>,
    example: &Example,
) -> Result<String, Failure> {
    let Some(folder) = folder.filter(|folder| *folder != Path::new(".")) else {
        return Ok(example.name.to_owned());
    };
    // A path such as `..` ends with no name; the folder that it leads to has one.
    let whole = context.directory().join(folder).canonicalize();
    let name = folder
        .file_name()
        .or_else(|| whole.as_deref().ok()?.file_name());
    let name = name.unwrap_or_default().to_string_lossy();
    match name_problem(&name) {
        None => Ok(name.into_owned()),
        Some(problem) => {
            let message = format!(
                "`{}` cannot be the name of a site: it {problem}",
                Visible(&name)
            );
            Err(Failure::new(FailureKind::Usage, message)
                .hint("name a folder by letters, digits, `-`, `_` and `.`; the site gets its name"))
        }
    }
}

/// Writes an example and commits it.
pub(super) fn write_site(
    context: &Context,
    folder: &Path,
    example: &Example,
) -> Result<Repository, Failure> {
    write_named(context, folder, example, example.name)
}

/// Writes an example as the site of another name, and commits it.
fn write_named(
    context: &Context,
    folder: &Path,
    example: &Example,
    site: &str,
) -> Result<Repository, Failure> {
    write_files(folder, example, site)?;
    let repository = Repository::init(folder)?;
    commit(context, &repository, example.message)?;
    Ok(repository)
}

/// Writes the files of an example into a new or empty folder.
fn write_files(folder: &Path, example: &Example, site: &str) -> Result<(), Failure> {
    let writing = |path: &Path, error: std::io::Error| {
        Failure::error(format!(
            "`{}` could not be written: {error}",
            path.display()
        ))
    };
    std::fs::create_dir_all(folder).map_err(|error| writing(folder, error))?;
    let mut entries = std::fs::read_dir(folder).map_err(|error| writing(folder, error))?;
    // A repository without files is as good as an empty folder.
    let is_file = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.map_or(true, |entry| entry.file_name() != ".git")
    };
    if entries.any(is_file) {
        return Err(Failure::new(
            FailureKind::Usage,
            format!("`{}` is not empty", folder.display()),
        )
        .hint("name a folder that is empty or not there yet"));
    }
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        replace_file(&path, |out| out.write_all(text.as_bytes()))
            .map_err(|error| writing(&path, error))
    };
    for (name, text) in example.files {
        let text = text.replace(SCHEMAS_OF_EXAMPLE, SCHEMAS);
        match *name == SITE_DEFINITION {
            true => write(
                name,
                &text.replace(
                    &format!("metadata: {{name: {}}}", example.name),
                    &format!("metadata: {{name: {}}}", as_text(site)),
                ),
            )?,
            false => write(name, &text)?,
        }
    }
    write(".gitignore", IGNORED)?;
    let schemas = folder.join(SCHEMAS);
    std::fs::create_dir(&schemas).map_err(|error| writing(&schemas, error))?;
    for (name, text) in schema::files() {
        write(&format!("{SCHEMAS}{name}"), text)?;
    }
    Ok(())
}

/// Commits all that is in the worktree.
pub(super) fn commit(
    context: &Context,
    repository: &Repository,
    message: &str,
) -> Result<(), Failure> {
    let actor = actor(repository)?;
    let author = Signature {
        name: actor.name,
        email: actor.email,
        seconds: context.now().as_second(),
    };
    repository.commit_worktree(&author, message)?;
    Ok(())
}

/// A name as it is written in YAML: in quotes where it would be read as a number, a date or a truth.
fn as_text(name: &str) -> String {
    let (values, _) = load_values(SourceId(0), name, &Limits::default());
    let is_text = values.iter().any(|value| value.as_str() == Some(name));
    match is_text {
        true => name.to_owned(),
        false => format!("\"{name}\""),
    }
}
