//! `trueup schemas`, and the identity of the schemas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fixture::Fixture;

#[test]
fn schemas_are_written_and_refreshed() {
    let fixture = Fixture::empty("none");
    let told = fixture.run(&["schemas", "deep/.schemas"]).with(0).stderr;
    assert!(
        told.contains("$schema=deep/.schemas/document.json"),
        "{told}"
    );
    let folder = fixture.checkout.path().join("deep/.schemas");
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let names = |folder: &std::path::Path| -> BTreeSet<std::ffi::OsString> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(&folder), names(&own));
    for name in names(&own) {
        let read = |folder: &std::path::Path| std::fs::read(folder.join(&name)).unwrap();
        assert_eq!(read(&folder), read(&own), "{name:?}");
    }
    std::fs::write(folder.join("document.json"), "{}").unwrap();
    let told = fixture.run(&["schemas", "deep/.schemas"]).with(0).stderr;
    assert!(told.starts_with("Wrote 1 schema "), "{told}");
    assert_ne!(std::fs::read(folder.join("document.json")).unwrap(), b"{}");
}

#[test]
fn schemas_are_not_written_through_links_of_the_checkout() {
    let fixture = Fixture::empty("none");
    let victim = fixture.checkout.outside().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    std::fs::create_dir(fixture.checkout.path().join("s")).unwrap();
    fixture
        .checkout
        .link("s/document.json", victim.to_str().unwrap());
    fixture
        .run(&["schemas", "s"])
        .with(1)
        .saying("is a link in the checkout");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
}

#[test]
fn every_schema_has_an_id_by_which_the_others_find_it() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let mut ids = BTreeSet::new();
    let mut references = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        let id = schema["$id"].as_str().unwrap();
        assert_eq!(Some(id), path.file_name().unwrap().to_str());
        ids.insert(id.to_owned());
        let found = text.split("\"$ref\": \"").skip(1);
        let found = found.filter_map(|rest| rest.split(['"', '#']).next());
        references.extend(found.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    assert!(references.is_subset(&ids), "{references:?}");
}
