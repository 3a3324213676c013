//! A service on a clone whose site is applied in another one: it tells what the remote knows.

use super::Service;
use crate::accepted::example;
use crate::cli_interrupted::shared;
use crate::fixture::{Fixture, wait_until};
use crate::git::Checkout;

#[test]
fn runs_of_another_clone_are_told_as_they_are() {
    let site = example("edge");
    site.simulator("{clock: real, durations: {prepare: 8, deploy: 0.1}, faults: []}");
    site.checkout.commit("In real time");
    let (site, origin) = shared(site);
    let other = Fixture::of(Checkout::clone_of(&origin.url(), &[]), site.site());
    let service = Service::start(&other, &[]);
    let outcome = || service.get("/api/v1/runs").json()[0]["outcome"].clone();
    let differs = || {
        let status = service.get("/api/v1/status").json();
        status["nodes"][0]["differs"].clone()
    };
    assert_eq!(differs(), serde_json::json!(["no record"]));
    let run = site.start(&["apply", "--yes"]);
    wait_until("the run is known", || outcome() != serde_json::Value::Null);
    assert_eq!(outcome(), "running");
    let page = service.get("/").body;
    assert!(!page.contains("interrupted, and"), "{page}");
    assert!(run.wait_with_output().unwrap().status.success());
    wait_until("its end is known", || outcome() == "succeeded");
    assert_eq!(differs(), serde_json::json!([]));
}
