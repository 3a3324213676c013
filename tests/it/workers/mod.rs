//! A run that is divided among workers, as their commands carry it out: each in a clone of its own, beside a bare
//! remote, at one simulated site.

mod broken_off;
mod contracts;
mod equal;
mod one_push;

use std::path::PathBuf;

use serde_json::Value;

use crate::cli_interrupted::shared;
use crate::fixture::{Ended, Fixture};
use crate::git::{Checkout, Origin};

/// The name that the engine gives the run.
const NAME: &str = "manual__2026-11-23T20:00:00+00:00";

/// A site with a saved plan, and clones for its workers.
struct Site {
    /// The clone that plans and begins.
    first: Fixture,
    clones: Vec<Fixture>,
    origin: Origin,
    plan: PathBuf,
    effect: String,
    /// The digest of the plan that the run began with.
    digest: String,
}

impl Site {
    /// A site whose run has not begun.
    fn planned(fixture: Fixture, clones: usize) -> Self {
        let (first, origin) = shared(fixture);
        let plan = first.checkout.outside().join("site.plan");
        let machines = first.checkout.path().join(".git/trueup");
        let clone = || {
            let clone = Fixture::of(Checkout::clone_of(&origin.url(), &[]), first.site());
            let machines = machines.to_str().unwrap();
            clone
                .checkout
                .git(&["config", "trueup.simulatedSites", machines]);
            clone
        };
        let mut site = Self {
            clones: (0..clones).map(|_| clone()).collect(),
            first,
            origin,
            plan,
            effect: String::new(),
            digest: String::new(),
        };
        site.plan(&[]);
        site
    }

    /// Saves a plan in the place of the one before.
    fn plan(&mut self, flags: &[&str]) {
        let path = self.plan.to_str().unwrap();
        let planned = [&["plan", "-o", path], flags].concat();
        self.first.run(&planned).with(0);
        let shown = self.first.run(&["show", path, "--format", "json"]).with(0);
        self.effect = shown.json()["effect"].as_str().unwrap().to_owned();
    }

    /// A site whose run has begun.
    fn begun(fixture: Fixture, clones: usize) -> Self {
        let mut site = Self::planned(fixture, clones);
        let begun = site.begin(&[]).with(0).json();
        begun["plan_digest"]
            .as_str()
            .unwrap()
            .clone_into(&mut site.digest);
        site
    }

    fn begin(&self, more: &[&str]) -> Ended {
        let mut arguments = vec!["run", "begin", self.plan.to_str().unwrap(), "--run", NAME];
        arguments.extend(["--effect", &self.effect, "--format", "json"]);
        for default in [["--nodes-per-part", "2"], ["--pushes-per-minute", "0"]] {
            if !more.contains(&default[0]) {
                arguments.extend(default);
            }
        }
        arguments.extend(more);
        self.first.run(&arguments)
    }

    /// The parts, in an order in which they can be carried out.
    fn parts(&self) -> Vec<String> {
        let parts = self.status()["parts"].as_array().unwrap().clone();
        let names = parts
            .iter()
            .map(|part| part["part"].as_str().unwrap().to_owned());
        names.collect()
    }

    fn status(&self) -> Value {
        self.first
            .run(&["run", "status", NAME, "--format", "json"])
            .with(0)
            .json()
    }

    fn state(&self, part: &str) -> Value {
        let status = self.status();
        let parts = status["parts"].as_array().unwrap();
        let found = parts.iter().find(|each| each["part"] == part);
        found.unwrap_or_else(|| panic!("{part}: {status}"))["state"].clone()
    }

    /// The command of a part, as a worker gives it.
    fn part<'a>(&'a self, part: &'a str) -> Vec<&'a str> {
        vec!["run", "part", NAME, part, "--plan-digest", &self.digest]
    }

    /// Carries out a part in a clone.
    fn carry_out(&self, clone: usize, part: &str) -> Ended {
        self.clones[clone].run(&self.part(part))
    }

    /// Carries out all parts one after the other, in clones by turns, with the exit code of each.
    fn carry_out_all(&self) -> Vec<(String, i32)> {
        let parts = self.parts().into_iter().enumerate();
        let ended = parts.map(|(number, part)| {
            let ended = self.carry_out(number % self.clones.len(), &part);
            assert!(matches!(ended.code, 0 | 7 | 99), "{part}: {ended:?}");
            (part, ended.code)
        });
        ended.collect()
    }

    fn end(&self) -> Ended {
        self.clones[0].run(&["run", "end", NAME])
    }

    /// The refs of the remote, without their values.
    fn refs(&self) -> Vec<String> {
        let refs = self.origin.git(&["for-each-ref", "--format=%(refname)"]);
        refs.lines().map(str::to_owned).collect()
    }
}
