//! `trueup adopt`: documents out of what runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use ipnet::IpNet;

use super::context::Context;
use super::init::outside_of_sites;
use super::secrets::ProcessSecrets;
use super::{Failure, FailureKind, value};
use crate::adopt::{AdoptInput, Adopted, AirshipSite, Notes, adopt, airship_site, read_notes};
use crate::backend::Secrets as _;
use crate::design::{ClusterName, Reference, name_problem};
use crate::diagnostic::in_shell;
use crate::document::inline_text;
use crate::observed::InventoryMachine;
use crate::report::{Visible, counted};
use crate::repository::{Links, read_file};
use crate::site::{At, Depth, Detail, Outside, Sandbox, Settings, is_layered};
use crate::workflow::{self, AdoptionSite, Checkout, Client, EtcdSeed, Shipyard};

/// The file that marks a folder as a site, and the one that names its backends.
const DEFINITION: &str = "site-definition.yaml";
const BACKENDS: &str = "backends.yaml";

/// The largest table of machines, in bytes.
const LARGEST_TABLE: u64 = 64 << 20;

/// `trueup adopt`.
#[derive(Debug, Args)]
pub(super) struct AdoptCommand {
    /// The folder of the site, written if it is new
    #[arg(short = 'o', long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
    /// Backend whose machines are adopted, if no Backends document names one yet
    #[arg(long, value_enum, value_name = "KIND")]
    from: Option<Source>,
    /// Address of Ironic or MAAS
    #[arg(long, value_name = "URL", requires = "from")]
    url: Option<String>,
    /// Shipyard of the Airship that runs the site, with the version of its API: `https://shipyard:9000/api/v1.0`
    #[arg(long, value_name = "URL", requires = "token")]
    shipyard: Option<String>,
    /// Where the Keystone token for Shipyard is: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "shipyard", value_parser = reference)]
    token: Option<Reference>,
    /// Address range in which controllers are looked for
    #[arg(long, value_name = "CIDR", requires = "from", value_parser = value::network)]
    range: Vec<IpNet>,
    /// Account of the controllers, or of Ironic
    #[arg(long, value_name = "NAME", requires = "credentials")]
    username: Option<String>,
    /// Where the password, token or API key is: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "from", value_parser = reference)]
    credentials: Option<Reference>,
    /// Where the certificates to trust are: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "from", value_parser = reference)]
    ca: Option<Reference>,
    /// Read the nodes and labels of Kubernetes by a kubeconfig: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "from", value_parser = reference)]
    kubeconfig: Option<Reference>,
    /// Etcd cluster, by a name and the address of one member
    #[arg(long, value_name = "NAME=URL", value_parser = seed)]
    etcd: Vec<(ClusterName, Arc<str>)>,
    /// Certificates to trust of etcd: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "etcd", value_parser = reference)]
    etcd_ca: Option<Reference>,
    /// Certificate of an etcd client: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "etcd_key", value_parser = reference)]
    etcd_cert: Option<Reference>,
    /// Key of an etcd client: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "etcd_cert", value_parser = reference)]
    etcd_key: Option<Reference>,
    /// Names, racks and tags: a table in CSV, whose first line names its columns, NetBox's devices in JSON, or a Terraform state
    #[arg(long, value_name = "FILE")]
    machines: Option<PathBuf>,
}

/// The backends that list machines, or whose controllers are found by their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Source {
    /// Controllers at the addresses of `--range`
    Redfish,
    /// Nodes of Ironic
    Ironic,
    /// Machines of MAAS
    Maas,
    /// Machines of the MAAS of an Airship, with the documents that it applied last
    Airship,
    /// BareMetalHosts of the cluster of `--kubeconfig`
    Metal3,
    /// Machines of the simulator
    Sim,
}

/// A reference to a secret, as a flag names it.
fn reference(text: &str) -> Result<Reference, String> {
    match text.split_once(':') {
        Some(("env", name)) if !name.is_empty() => Ok(Reference::Env(Arc::from(name))),
        Some(("file", path)) if !path.is_empty() => Ok(Reference::File(Arc::from(path))),
        _ => Err("a secret is given by reference: `env:NAME` or `file:PATH`".to_owned()),
    }
}

fn seed(text: &str) -> Result<(ClusterName, Arc<str>), String> {
    let form = "of the form `NAME=URL`, such as `kubernetes=https://10.0.0.1:2379`";
    let (name, url) = text.split_once('=').ok_or(form)?;
    match name_problem(name) {
        Some(problem) => Err(format!("the name of the cluster {problem}")),
        None if !url.contains("://") => Err(form.to_owned()),
        None => Ok((ClusterName::from(name), Arc::from(url))),
    }
}

/// The command that continues once what it would contact is trusted.
fn continues(command: &AdoptCommand) -> String {
    let folder = command.into.display().to_string();
    let words = in_shell(["trueup", "adopt", "-o", &folder]);
    let same = match (command.etcd.is_empty(), command.machines.is_none()) {
        (true, true) => "",
        (false, true) => ", with the same `--etcd`,",
        (true, false) => ", with the same `--machines`,",
        (false, false) => ", with the same `--etcd` and `--machines`,",
    };
    format!("then `{words}`{same} continues")
}

pub(super) fn run(context: &mut Context, command: &AdoptCommand) -> Result<u8, Failure> {
    let notes = match &command.machines {
        Some(path) => table(&context.directory().join(path))?,
        None => Notes::default(),
    };
    let folder = context.directory().join(&command.into);
    if command.names_backends() {
        apart(context, &folder)?;
    }
    begin(context, command, &folder)?;
    let context = context.in_folder(&folder, None);
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let credentials = etcd_credentials(command);
    let seeds = command.etcd.iter().map(|(name, url)| EtcdSeed {
        name: name.clone(),
        client_url: url.clone(),
        credentials: credentials.clone(),
    });
    let seeds: Vec<EtcdSeed> = seeds.collect();
    let found = workflow::found(&context, &checkout, &seeds);
    let found = found.map_err(|failure| match failure.kind {
        FailureKind::Guard => failure.hint(continues(command)),
        _ => failure,
    })?;
    let named = command.etcd.iter();
    let named = named.map(|(name, _)| (name.clone(), credentials.clone()));
    let adopted = adopt(&AdoptInput {
        site: checkout.location.site.as_str(),
        backend: found.backend,
        inventory: &found.inventory,
        known: &found.known,
        notes: &notes,
        credentials: &named.collect(),
    });
    let names = write(&folder, &adopted.files)?;
    tell(&context, &found, &adopted, &names);
    if names.is_empty() {
        // That no machine was new is known only if one was observed.
        let machines = &found.inventory.machines;
        let is_blind = machines.iter().all(InventoryMachine::is_unobserved);
        return Ok(u8::from(is_blind && !machines.is_empty()));
    }
    check(&context, &checkout)
}

impl AdoptCommand {
    /// Whether its flags name what it reaches, besides the backends of the documents.
    fn names_backends(&self) -> bool {
        self.from.is_some_and(|source| source != Source::Sim) || !self.etcd.is_empty()
    }
}

/// Refuses a folder in a sandbox.
fn apart(context: &Context, folder: &Path) -> Result<(), Failure> {
    let existing = folder.ancestors().find(|folder| folder.is_dir());
    let context = context.in_folder(existing.unwrap_or(folder), None);
    match context.repository() {
        Ok(repository) => Ok(Sandbox::refuse(&repository, Outside::Named)?),
        // A new repository is made.
        Err(_) => Ok(()),
    }
}

/// Reads the table of machines.
fn table(path: &Path) -> Result<Notes, Failure> {
    let refused = |why: String| Failure::error(format!("`{}`: {why}", path.display()));
    let bytes = read_file(path, LARGEST_TABLE, Links::Followed);
    let bytes = bytes.map_err(|error| refused(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8".to_owned()))?;
    read_notes(&text).map_err(|problems| {
        let count = counted(problems.len(), "problem", "problems");
        refused(format!("{count} in the table"))
            .details(problems.iter().map(ToString::to_string))
            .hint(format!(
                "columns of a table in CSV: {}",
                crate::adopt::COLUMNS.join(", ")
            ))
    })
}

fn etcd_credentials(command: &AdoptCommand) -> BTreeMap<Arc<str>, Reference> {
    let given = [
        ("ca", &command.etcd_ca),
        ("cert", &command.etcd_cert),
        ("key", &command.etcd_key),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, reference)| Some((Arc::from(name), reference.clone()?)));
    given.collect()
}

/// Writes the definition of a new site, and the document of its backends.
fn begin(context: &Context, command: &AdoptCommand, folder: &Path) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    let definition = folder.join(DEFINITION);
    let (has_site, has_backends) = (definition.exists(), folder.join(BACKENDS).exists());
    let Some(source) = command.from else {
        if has_site {
            return Ok(());
        }
        let message = format!("`{}` has no {DEFINITION}", folder.display());
        return Err(
            usage(message).hint("`--from KIND` writes one; `-o DIR` names the folder of a site")
        );
    };
    if has_backends {
        let message = format!(
            "`{}` has a {BACKENDS}, which names the backend",
            folder.display()
        );
        return Err(usage(message).hint("leave `--from` out, or edit the document"));
    }
    let backends = backends(command, source)?;
    let canonical = folder.canonicalize();
    let name = canonical.as_deref().unwrap_or(folder).file_name();
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    if let Some(problem) = name_problem(&name) {
        return Err(usage(format!(
            "the folder's name, `{name}`, {problem}: it becomes the name of the site"
        )));
    }
    let existing = folder.ancestors().find(|folder| folder.is_dir());
    let repository = context
        .in_folder(existing.unwrap_or(folder), None)
        .repository()
        .map_err(|failure| {
            failure.hint("`git init` makes a repository; documents are read from one")
        })?;
    repository.need_worktree()?;
    outside_of_sites(&repository, folder)?;
    let below = folder.strip_prefix(repository.root());
    if below.is_ok_and(|below| is_layered(&below.to_string_lossy())) {
        let message = format!(
            "`{}` is the folder of a site in layers (`site/NAME`), and adopted documents are in none",
            folder.display()
        );
        return Err(usage(message).hint("name a folder that is not below `site/`: `-o NAME`"));
    }
    let of_airship = match source {
        Source::Airship => {
            let root = repository.root();
            airship(context, command, (root, folder), &name)?.files
        }
        _ => Vec::new(),
    };
    std::fs::create_dir_all(folder).map_err(|error| not_written(folder, &error))?;
    let mut files = vec![(BACKENDS, backends)];
    files.extend(of_airship);
    if !has_site {
        let text = format!(
            "---\nschema: pegleg/SiteDefinition/v1\nmetadata: {{name: {}}}\ndata: {{}}\n",
            inline_text(&name)
        );
        files.push((DEFINITION, text));
    }
    let names = write(folder, &files)?;
    context
        .printer
        .tell(&format!("Wrote {}.", in_words(&names)));
    Ok(())
}

/// The documents that Airship applied last, of a site that has none yet.
fn airship(
    context: &Context,
    command: &AdoptCommand,
    (root, folder): (&Path, &Path),
    name: &str,
) -> Result<AirshipSite, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    if folder.join(DEFINITION).exists() {
        let message = format!("`{}` has documents already", folder.display());
        return Err(usage(message).hint("name a new folder: `-o NAME`"));
    }
    let (Some(url), Some(token)) = (&command.shipyard, &command.token) else {
        let message = "`--from airship` needs `--shipyard URL --token REF`".to_owned();
        return Err(usage(message));
    };
    let secrets = ProcessSecrets::new(root);
    let reveal = |reference: &Reference| {
        let secret = secrets.reveal(reference);
        secret.map_err(|error| Failure::error(error.to_string()))
    };
    let shipyard = Shipyard {
        url: Arc::from(url.as_str()),
        token: reveal(token)?,
        authorities: command.ca.as_ref().map(reveal).transpose()?,
    };
    let answers = workflow::ask_shipyard(context, &shipyard)?;
    let site = airship_site(name, &answers).map_err(|problems| {
        Failure::error("the documents of Shipyard cannot be used:").details(problems)
    })?;
    let (documents, fields) = (site.documents, site.secrets.len());
    let mut text = format!(
        "Took over {} of revision {}",
        counted(documents, "document", "documents"),
        Visible(&answers.revision)
    );
    if fields > 0 {
        let fields = counted(fields, "field with a secret is", "fields with secrets are");
        let _ = write!(text, "; {fields} left out");
    }
    for (name, why) in &site.left_out {
        let _ = write!(text, "\n  left out: {}: {why}", Visible(name));
    }
    context.printer.tell(&text);
    Ok(site)
}

/// The document of the backends.
fn backends(command: &AdoptCommand, source: Source) -> Result<String, Failure> {
    let needs = |flag: &str| {
        let message = format!("`--from {}` needs `{flag}`", name_of(source));
        Failure::new(FailureKind::Usage, message)
    };
    let by = |reference: &Reference| {
        let (kind, value) = reference.kind_and_value();
        format!("{{{kind}: {}}}", inline_text(&value))
    };
    let mut settings: Vec<(&str, String)> = Vec::new();
    let credentials = command.credentials.as_ref();
    let account = credentials.map(|reference| {
        let username = inline_text(command.username.as_deref().unwrap_or_default());
        format!("{{username: {username}, password: {}}}", by(reference))
    });
    let url = || command.url.as_deref().ok_or_else(|| needs("--url URL"));
    let given = [
        ("--url", command.url.is_some()),
        ("--range", !command.range.is_empty()),
        ("--username", command.username.is_some()),
        ("--credentials", credentials.is_some()),
        ("--shipyard", command.shipyard.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
    if let Some((flag, _)) = given.find(|(flag, _)| !takes(source).contains(flag)) {
        let message = format!("`--from {}` takes no `{flag}`", name_of(source));
        return Err(Failure::new(FailureKind::Usage, message));
    }
    match source {
        Source::Sim => settings.push(("clock", "virtual".to_owned())),
        Source::Redfish => {
            if command.range.is_empty() {
                return Err(needs("--range CIDR"));
            }
            if command.username.is_none() {
                return Err(needs("--username NAME --credentials REF"));
            }
            let ranges = command.range.iter();
            let ranges: Vec<String> = ranges
                .map(|range| inline_text(&range.to_string()))
                .collect();
            settings.push(("networks", format!("[{}]", ranges.join(", "))));
            settings.extend(account.map(|account| ("credentials", account)));
        }
        Source::Ironic => {
            settings.push(("endpoint", inline_text(url()?)));
            match (&command.username, account) {
                (Some(_), Some(account)) => settings.push(("credentials", account)),
                (_, _) => settings.extend(credentials.map(|token| ("token", by(token)))),
            }
        }
        Source::Maas | Source::Airship => {
            settings.push(("endpoint", inline_text(url()?)));
            let key = credentials.ok_or_else(|| needs("--credentials REF"))?;
            settings.push(("api_key", by(key)));
        }
        Source::Metal3 => {
            if command.kubeconfig.is_none() {
                return Err(needs("--kubeconfig REF"));
            }
            settings.push(("cluster", "management".to_owned()));
            settings.push(("create", "false".to_owned()));
        }
    }
    settings.extend(command.ca.as_ref().map(|ca| ("ca", by(ca))));
    let mut text = format!(
        "# What is asked, and how. `trueup trust` shows it, and records that it is trusted.\n---\nschema: \
         trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: {kind}\n    {kind}:\n",
        kind = match source {
            // What Airship drives: Drydock has no machines of its own.
            Source::Airship => "maas",
            source => name_of(source),
        }
    );
    for (key, value) in settings {
        let _ = writeln!(text, "      {key}: {value}");
    }
    let cluster = match source {
        Source::Metal3 => "management",
        Source::Sim | Source::Redfish | Source::Ironic | Source::Maas | Source::Airship => {
            "kubernetes"
        }
    };
    if let Some(kubeconfig) = &command.kubeconfig {
        let _ = write!(
            text,
            "  clusters:\n    {cluster}:\n      kind: kubernetes\n      kubeconfig: {}\n",
            by(kubeconfig)
        );
    }
    Ok(text)
}

/// The flags of an endpoint that a source takes.
fn takes(source: Source) -> &'static [&'static str] {
    match source {
        Source::Sim | Source::Metal3 => &[],
        Source::Redfish => &["--range", "--username", "--credentials"],
        Source::Ironic => &["--url", "--username", "--credentials"],
        Source::Maas => &["--url", "--credentials"],
        Source::Airship => &["--url", "--credentials", "--shipyard"],
    }
}

fn name_of(source: Source) -> &'static str {
    match source {
        Source::Redfish => "redfish",
        Source::Ironic => "ironic",
        Source::Maas => "maas",
        Source::Airship => "airship",
        Source::Metal3 => "metal3",
        Source::Sim => "sim",
    }
}

fn in_words(names: &[String]) -> String {
    match names.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::error(format!(
        "`{}` could not be written: {error}",
        path.display()
    ))
}

/// Creates files, each under the next free name, by which the others tell of it; their names.
fn write(folder: &Path, files: &[(&str, String)]) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = files
        .iter()
        .map(|(wanted, _)| free_name(folder, wanted))
        .collect();
    for ((wanted, text), name) in files.iter().zip(&names) {
        let path = folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut file = file.map_err(|error| not_written(&path, &error))?;
        let mut text = text.clone();
        for ((other, _), name) in files.iter().zip(&names) {
            // Of a document, only the comment above it names files.
            let end = match wanted.ends_with(".md") {
                true => text.len(),
                false => text.find("---").unwrap_or_default(),
            };
            let told = text[..end].replace(other, name);
            text.replace_range(..end, &told);
        }
        let written = io::Write::write_all(&mut file, text.as_bytes());
        written.map_err(|error| not_written(&path, &error))?;
    }
    Ok(names)
}

/// The name, or the first one with a number that no file has.
fn free_name(folder: &Path, wanted: &str) -> String {
    let (stem, end) = wanted.rsplit_once('.').unwrap_or((wanted, ""));
    let mut name = wanted.to_owned();
    let mut number = 2;
    while folder.join(&name).symlink_metadata().is_ok() {
        name = format!("{stem}-{number}.{end}");
        number += 1;
    }
    name
}

/// Reports what was written and what was not.
fn tell(context: &Context, found: &AdoptionSite, adopted: &Adopted, names: &[String]) {
    let mut text = match names.is_empty() {
        true => "Nothing new was found; no machine was added.".to_owned(),
        false => format!(
            "Wrote {} with {} and {}.",
            names.join(", "),
            counted(adopted.nodes.len(), "machine", "machines"),
            counted(adopted.etcd.len(), "etcd cluster", "etcd clusters"),
        ),
    };
    if adopted.known > 0 {
        let known = counted(adopted.known, "machine is", "machines are");
        let _ = write!(text, "\n{known} described already.");
    }
    let left_out = adopted.left_out.iter();
    let left_out = left_out.map(|(name, why)| format!("\n  machine {name}: {why}"));
    let clusters = adopted.etcd_left_out.iter();
    let clusters = clusters.map(|(name, why)| format!("\n  etcd cluster {name}: {why}"));
    let alone = found.inventory.nodes_alone.iter();
    let alone = alone.map(|name| format!("\n  Kubernetes node {name}: no machine has its name"));
    let rows = adopted.unused_rows.iter();
    let rows = rows.map(|(place, why)| format!("\n  {}: {}", Visible(place), Visible(why)));
    let all: Vec<String> = rows.chain(left_out).chain(clusters).chain(alone).collect();
    if !all.is_empty() {
        text.push_str("\nLeft out:");
        text.extend(all.iter().take(20).map(String::as_str));
        if all.len() > 20 {
            let _ = write!(text, "\n  … and {} more", all.len() - 20);
        }
    }
    if !names.is_empty() {
        text.push_str(
            "\n\nReview the files, commit them, and see the adoptions:\n  git add . && git commit",
        );
        // The members are asked from now on, and are not trusted yet.
        if !adopted.etcd.is_empty() && found.backend != "sim" {
            text.push_str("\n  trueup trust");
        }
        text.push_str("\n  trueup plan\n  trueup apply --adopt all");
    }
    Client::tell(context, &text);
}

/// Validates the site with its new files; its problems are shown.
fn check(context: &Context, checkout: &Checkout<'_>) -> Result<u8, Failure> {
    let mut loader = checkout.loader()?;
    let settings = Settings {
        depth: Depth::Checked,
        detail: Detail::Documents,
        accept: workflow::AS_APPLIED.accept,
    };
    let site = loader.load(&checkout.location, At::Worktree, settings)?;
    workflow::refuse_errors(context, &loader, settings.depth, site)?;
    Ok(0)
}
