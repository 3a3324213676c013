//! `trueup plan` for several sites: one report with the plan of each.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;

use super::action;
use super::context::Context;
use super::plan::{PlanCommand, detailed};
use super::planning::resolve;
use super::sites;
use super::{Failure, FailureKind, exit, interrupted};
use crate::backend::BackendContext;
use crate::diagnostic::{Diagnostics, Sources};
use crate::plan::{Plan, Request};
use crate::report::sites::{PlanForm, Plans};
use crate::repository::Repository;
use crate::run::{Committer, Connection, Timekeeper};
use crate::site::{At, Depth, Detail, Loader, Location, Site};
use crate::threads::{self, lock};
use crate::workflow::{
    Asking, Checkout, Client, Observed, Outlook, PlanRequest, Planner, Revision, Scope, SiteOfMany,
    load_each,
};

/// The caller of the workflows of several sites: a message that each has is shown once.
pub(super) struct OnceForAll<'c> {
    context: &'c Context,
    told: Mutex<BTreeSet<String>>,
}

impl<'c> OnceForAll<'c> {
    pub(super) fn new(context: &'c Context) -> Self {
        Self {
            context,
            told: Mutex::default(),
        }
    }
}

impl Client for OnceForAll<'_> {
    fn tell(&self, text: &str) {
        let mut told = lock(&self.told);
        if told.insert(text.to_owned()) {
            self.context.tell(text);
        }
    }

    fn show(&self, diagnostics: &Diagnostics, sources: &Sources) {
        self.context.show(diagnostics, sources);
    }

    fn backends(
        &self,
        checkout: &Checkout<'_>,
        location: &Location,
    ) -> Result<BackendContext, Failure> {
        self.context.backends(checkout, location)
    }

    fn actor(&self, repository: &Repository) -> Result<Committer, Failure> {
        self.context.actor(repository)
    }

    fn principals(&self) -> &[Arc<str>] {
        self.context.principals()
    }

    fn clock(&self) -> Box<dyn Timekeeper + '_> {
        self.context.clock()
    }

    fn drive(&self, runtime: &Runtime, asks: Asking<'_>) {
        self.context.drive(runtime, asks);
    }
}

/// The common inputs of all plans.
pub(super) struct Planning<'p> {
    pub(super) client: OnceForAll<'p>,
    pub(super) connection: Connection<'p>,
    pub(super) request: &'p Request,
    pub(super) plan_request: PlanRequest,
}

/// Plans several sites.
pub(super) fn run(context: &Context, command: &PlanCommand, scope: &Scope) -> Result<u8, Failure> {
    let arguments = &command.arguments;
    let Some(request) = &arguments.request(&command.words)? else {
        return Err(action::unknown(&command.words[0]));
    };
    let plan_request = arguments.plan_request(context);
    let form = form(context, command, request, &plan_request)?;
    let repository = context.repository()?;
    let found = sites::find(
        context,
        &repository,
        scope,
        command.rev.as_deref().unwrap_or("worktree"),
    )?;
    let planning = Planning {
        client: OnceForAll::new(context),
        connection: arguments.remote.lasting_connection(&repository)?,
        request,
        plan_request,
    };
    let revisions = revisions(&planning, command, &found);
    let mut loader = Loader::new(&repository);
    if let Some(head) = repository.head()? {
        let located = revisions.iter().flatten().map(|(_, location)| location);
        loader.list_all(located, At::Commit(head))?;
    }
    let settings = arguments.settings(Depth::Checked, Detail::Designs);
    let mut plans = Plans::new(found.iter().map(sites::reported), form);
    let mut codes = BTreeSet::new();
    let mut made = Vec::new();
    load_each(
        &mut loader,
        revisions,
        settings,
        &mut |at, loaded, loader| {
            match planning.one(loader, &found[at], loaded) {
                Ok((plan, outlook, warnings)) => made.push(Made {
                    position: at,
                    plan,
                    outlook,
                    warnings,
                }),
                Err(unplanned) => {
                    codes.insert(unplanned.add_to(&mut plans, at));
                }
            }
            if made.len() >= Loader::TOGETHER {
                write_down(&mut plans, &mut codes, std::mem::take(&mut made));
            }
        },
    );
    write_down(&mut plans, &mut codes, made);
    let sources = loader.sources();
    context.printer.stream(|out| plans.write(out, sources))?;
    std::mem::forget(loader);
    Ok(exit::combined(&codes, command.detailed_exitcode))
}

/// The form of the report, where what is asked for is about several sites.
fn form(
    context: &Context,
    command: &PlanCommand,
    request: &Request,
    plan_request: &PlanRequest,
) -> Result<PlanForm, Failure> {
    let of_one = |what: &str| {
        let message = format!("{what} is about one site");
        Failure::new(FailureKind::Usage, message).hint("name the site with `--site`")
    };
    if request.action.is_targeted() {
        return Err(of_one(&format!("`{}`", request.action)));
    }
    if let Observed::File(_) = plan_request.observed {
        return Err(of_one("a file of observed state"));
    }
    let form = command.view.form_of_several(context.printer.out);
    form.ok_or_else(|| of_one("a page or a drawing of the steps"))
}

/// The revision of each site, as one alone is planned.
fn revisions(
    planning: &Planning<'_>,
    command: &PlanCommand,
    sites: &[SiteOfMany<'_>],
) -> Vec<Revision> {
    let of_each_site = command
        .rev
        .as_deref()
        .filter(|word| Checkout::is_of_site(word));
    if let (Some(word), None) = (&command.rev, of_each_site) {
        return crate::workflow::revisions(sites, word);
    }
    let Planning {
        client,
        connection,
        request,
        ..
    } = planning;
    let sites = sites.iter().map(|site| {
        let checkout = site.checkout.as_ref().map_err(Clone::clone)?;
        let context = client.context;
        let arguments = &command.arguments;
        let at = match of_each_site {
            Some(word) => resolve(context, checkout, connection, word)?,
            None => arguments.revision(context, checkout, connection, request, At::Worktree)?,
        };
        Ok((at, checkout.location_at(at)?))
    });
    sites.collect()
}

/// A plan that is to be written down.
struct Made {
    position: usize,
    plan: Plan,
    outlook: Option<Outlook>,
    warnings: usize,
}

/// Adds the outlook of plans and writes them down, on two threads.
fn write_down(plans: &mut Plans, codes: &mut BTreeSet<u8>, mut made: Vec<Made>) {
    let written = &*plans;
    let write = |made: &mut [Made]| -> Vec<Result<String, Failure>> {
        let made = made.iter_mut();
        let texts = made.map(|each| {
            if let Some(outlook) = &each.outlook {
                outlook.add_to(&mut each.plan)?;
            }
            // Writing into memory does not fail.
            Ok(written.written(&each.plan).unwrap_or_default())
        });
        texts.collect()
    };
    let half = made.len() / 2;
    let (first, second) = made.split_at_mut(half);
    let (mut texts, others) = threads::both(|| write(first), || write(second));
    texts.extend(others);
    for (each, text) in made.iter().zip(texts) {
        codes.insert(match text {
            Ok(text) => {
                plans.add(each.position, &each.plan, each.warnings, text);
                detailed(&each.plan)
            }
            Err(failure) => Unplanned::Failure(failure).add_to(plans, each.position),
        });
    }
}

/// Why a site has no plan.
pub(super) enum Unplanned {
    Documents(Diagnostics),
    Failure(Failure),
}

impl Unplanned {
    /// Adds it to the report of the site at a position; the exit code that the site has alone.
    fn add_to(self, plans: &mut Plans, position: usize) -> u8 {
        match self {
            Self::Documents(problems) => {
                plans.add_problems(position, problems);
                exit::code(&Failure::reported(FailureKind::Error))
            }
            Self::Failure(failure) => {
                let code = exit::code(&failure);
                plans.add_failure(position, sites::failed(failure));
                code
            }
        }
    }
}

impl From<Failure> for Unplanned {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Planning<'_> {
    /// Makes the plan of a site: the plan, its outlook, and the number of warnings.
    pub(super) fn one<'a>(
        &self,
        loader: &mut Loader<'a>,
        site: &SiteOfMany<'a>,
        loaded: Result<Site, Failure>,
    ) -> Result<(Plan, Option<Outlook>, usize), Unplanned> {
        let mut loaded = loaded?;
        let checkout = site.checkout.as_ref().map_err(Clone::clone)?;
        if loaded.diagnostics.has_errors() {
            let problems = std::mem::take(&mut loaded.diagnostics);
            return Err(Unplanned::Documents(problems));
        }
        let warnings = loaded.warnings;
        let planner = Planner {
            client: &self.client,
            checkout,
            at: loaded.at,
            connection: &self.connection,
            request: self.request,
            plan_request: &self.plan_request,
        };
        let (mut plan, outlook) = planner.plan_of(loader, loaded)?;
        plan.unfinished = interrupted::unfinished(checkout, &self.connection)?;
        Ok((plan, outlook, warnings))
    }
}
