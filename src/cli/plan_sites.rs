//! `trueup plan` for several sites: one report with the plan of each.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Runtime;

use super::context::Context;
use super::plan::{PlanCommand, detailed};
use super::sites;
use super::{Failure, FailureKind, exit, interrupted};
use crate::backend::BackendContext;
use crate::diagnostic::{Diagnostics, Sources};
use crate::observed::Observations;
use crate::plan::{Plan, Request};
use crate::report::sites::Plans;
use crate::repository::Repository;
use crate::run::{Committer, Connection, Timekeeper};
use crate::site::{At, Depth, Detail, Loader, Location, Site};
use crate::workflow::{
    Checkout, Client, Observed, Observing, PlanRequest, Planner, Revision, Scope, SiteOfMany,
    load_each,
};

/// The caller of the workflows of several sites: a message that each has is shown once.
struct OnceForAll<'c> {
    context: &'c Context,
    told: Mutex<BTreeSet<String>>,
}

impl Client for OnceForAll<'_> {
    fn tell(&self, text: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn clock(&self) -> Box<dyn Timekeeper + '_> {
        self.context.clock()
    }

    fn drive(&self, runtime: &Runtime, asks: Observing<'_>) -> Observations {
        self.context.drive(runtime, asks)
    }
}

/// What all sites are planned with.
struct Planning<'p> {
    client: OnceForAll<'p>,
    connection: Connection<'p>,
    request: &'p Request,
    plan_request: PlanRequest,
}

/// Plans several sites.
pub(super) fn run(
    context: &Context,
    command: &PlanCommand,
    request: &Request,
    scope: &Scope,
) -> Result<u8, Failure> {
    let arguments = &command.arguments;
    let planning_of_one = |what: &str| {
        let message = format!("{what} is about one site");
        Failure::new(FailureKind::Usage, message).hint("name the site with `--site`")
    };
    if request.action.is_targeted() {
        return Err(planning_of_one(&format!("`{}`", request.action)));
    }
    let form = command.view.form_of_several(context.printer.out);
    let form = form.ok_or_else(|| planning_of_one("a drawing of the steps"))?;
    let plan_request = arguments.plan_request(context);
    if let Observed::File(_) = plan_request.observed {
        return Err(planning_of_one("a file of observed state"));
    }
    let repository = context.repository()?;
    let found = sites::find(context, &repository, scope)?;
    let planning = Planning {
        client: OnceForAll {
            context,
            told: Mutex::default(),
        },
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
    load_each(
        &mut loader,
        revisions,
        settings,
        &mut |at, loaded, loader| {
            codes.insert(planning.one(&mut plans, loader, (at, &found[at]), loaded));
        },
    );
    let sources = loader.sources();
    context.printer.stream(|out| plans.write(out, sources))?;
    std::mem::forget(loader);
    Ok(exit::combined(&codes, command.detailed_exitcode))
}

/// The revision of each site, as one alone is planned.
fn revisions(
    planning: &Planning<'_>,
    command: &PlanCommand,
    sites: &[SiteOfMany<'_>],
) -> Vec<Revision> {
    if let Some(word) = &command.rev {
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
        let at =
            command
                .arguments
                .revision(context, checkout, connection, request, At::Worktree)?;
        Ok((at, checkout.location_at(at)?))
    });
    sites.collect()
}

impl Planning<'_> {
    /// Adds the plan of a site, or why there is none; the exit code that it has alone.
    fn one<'a>(
        &self,
        plans: &mut Plans,
        loader: &mut Loader<'a>,
        (position, site): (usize, &SiteOfMany<'a>),
        loaded: Result<Site, Failure>,
    ) -> u8 {
        let planned = match (loaded, &site.checkout) {
            (Ok(mut loaded), Ok(_)) if loaded.diagnostics.has_errors() => {
                plans.add_problems(position, std::mem::take(&mut loaded.diagnostics));
                return exit::code(&Failure::shown(FailureKind::Error));
            }
            (Ok(loaded), Ok(checkout)) => {
                let warnings = loaded.warnings;
                let plan = self.plan(checkout, loader, loaded);
                plan.and_then(|plan| {
                    plans.add(position, &plan, warnings)?;
                    Ok(detailed(&plan))
                })
            }
            (Err(failure), _) => Err(failure),
            (Ok(_), Err(failure)) => Err(failure.clone()),
        };
        planned.unwrap_or_else(|failure| {
            let code = exit::code(&failure);
            plans.add_failure(position, sites::failed(failure));
            code
        })
    }

    fn plan<'a>(
        &self,
        checkout: &Checkout<'a>,
        loader: &mut Loader<'a>,
        mut site: Site,
    ) -> Result<Plan, Failure> {
        let guards = checkout.guards()?.map(|protected| protected.guards);
        if let Some(guards) = &guards {
            site.take_guards(guards);
        }
        loader.set_guards(guards);
        let planner = Planner {
            client: &self.client,
            checkout,
            at: site.at,
            connection: &self.connection,
            request: self.request,
            plan_request: &self.plan_request,
        };
        let planned = planner.plan_of(loader, site);
        loader.set_guards(None);
        let mut plan = planned?.into_plan();
        plan.unfinished = interrupted::unfinished(checkout, &self.connection)?;
        Ok(plan)
    }
}
