//! `trueup bundle` and `trueup replay`: the same plan again, the differences of another one, and hostile bundles.

use serde_json::Value;

use super::accepted::example;
use super::fixture::Fixture;

/// A site that was applied, and has a change that is committed since.
fn changed() -> Fixture {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("The image");
    fixture
}

fn edited(fixture: &Fixture, edit: impl FnOnce(&mut Value)) {
    let mut bundle: Value = serde_json::from_str(&fixture.read("site.bundle")).unwrap();
    edit(&mut bundle);
    fixture.checkout.write("edited.bundle", bundle.to_string());
}

#[test]
fn a_plan_is_made_again_byte_for_byte_after_the_site_has_moved_on() {
    let fixture = changed();
    let flags = ["--allow-redeploy", "group:workers", "--skip-blocked"];
    let bundle = ["bundle", "-o", "site.bundle"];
    let all: Vec<&str> = bundle.into_iter().chain(flags).collect();
    fixture
        .run(&all)
        .with(0)
        .saying("trueup replay site.bundle");
    let replay = |file: &str| fixture.run(&["replay", file]);
    let same = replay("site.bundle").with(0).stdout;
    assert!(same.contains("byte for byte"), "{same}");
    // Records, documents, machines and what is checked out are others now.
    let apply = ["apply", "--yes"];
    let all: Vec<&str> = apply.into_iter().chain(flags).collect();
    fixture.run(&all).with(0);
    fixture.edit("profiles.yaml", "ubuntu-26.04", "ubuntu-28.04");
    fixture.checkout.commit("Another image");
    let (before, tags) = (fixture.ledger(), fixture.tags());
    replay("site.bundle").with(0);
    assert_eq!((fixture.ledger(), fixture.tags()), (before, tags));
    // An action on nodes, and a site that was not observed.
    fixture
        .run(&["bundle", "drain", "edge-1", "-o", "drain.bundle"])
        .with(0);
    replay("drain.bundle").with(0);
    fixture
        .run(&["bundle", "--observed", "none", "-o", "none.bundle"])
        .with(0);
    replay("none.bundle").with(0);
}

#[test]
fn a_plan_that_differs_is_an_error_that_names_where() {
    let fixture = changed();
    fixture.run(&["bundle", "-o", "site.bundle"]).with(0);
    fixture
        .run(&["bundle", "--observed", "none", "-o", "none.bundle"])
        .with(0);
    let none: Value = serde_json::from_str(&fixture.read("none.bundle")).unwrap();
    edited(&fixture, |bundle| {
        bundle.as_object_mut().unwrap().remove("observed");
        bundle["trueup"] = "0.0.9".into();
    });
    let ended = fixture.run(&["replay", "edited.bundle"]).with(1);
    ended.saying("another one than that of trueup 0.0.9");
    // It is that of the records alone.
    edited(&fixture, |bundle| {
        bundle.as_object_mut().unwrap().remove("observed");
        bundle["plan"] = none["plan"].clone();
    });
    fixture.run(&["replay", "edited.bundle"]).with(0);
}

#[test]
fn a_bundle_is_taken_as_hostile() {
    let fixture = changed();
    fixture.run(&["bundle", "-o", "site.bundle"]).with(0);
    let refused = |words: &str, edit: &dyn Fn(&mut Value)| {
        edited(&fixture, edit);
        let ended = fixture
            .run(&["replay", "edited.bundle"])
            .with(1)
            .saying(words);
        assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
    };
    refused("its form has version 2", &|bundle| {
        bundle["format_version"] = 2.into()
    });
    refused("is no commit", &|bundle| {
        bundle["commit"] = "--upload-pack=\u{1b}x".into()
    });
    refused("is no commit", &|bundle| bundle["records"] = "HEAD".into());
    refused("does not have the commit", &|bundle| {
        bundle["commit"] = "1".repeat(40).into()
    });
    refused("cannot be used", &|bundle| bundle["more"] = true.into());
    refused("cannot be used", &|bundle| bundle["plan"] = "{}".into());
    refused("of another site", &|bundle| {
        bundle["site"] = "../../other".into()
    });
    refused("snapshot", &|bundle| {
        bundle["observed"] = "no snapshot".into()
    });
    fixture.checkout.write("edited.bundle", "[".repeat(100_000));
    fixture
        .run(&["replay", "edited.bundle"])
        .with(1)
        .saying("cannot be used");
    fixture
        .run(&["replay", "none.bundle"])
        .with(1)
        .saying("cannot be used");
}
