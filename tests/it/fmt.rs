//! The layout of documents: the examples have it, and nothing else of a checkout is written.

use std::path::Path;

use super::cli_adopt::next_to;
use super::fixture::Fixture;

/// Each YAML file below a folder but those of pipelines, which are no documents.
fn documents(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("pipelines") {
                documents(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn every_example_is_formatted() {
    let mut files = Vec::new();
    documents(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples"),
        &mut files,
    );
    assert!(files.len() > 50);
    let order = trueup::design::schema::key_order;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        match trueup::document::format(&text, &trueup::document::Limits::default(), &order) {
            Ok(formatted) => assert_eq!(formatted, text, "{}", file.display()),
            Err(left) => assert!(left.why.contains("anchor"), "{}: {left}", file.display()),
        }
    }
}

#[test]
fn documents_that_adopt_writes_are_formatted() {
    let fixture = Fixture::empty("control-plane");
    fixture.run(&["init", "--example", "control-plane"]).with(0);
    fixture.commit_and_apply("The site", &[]).with(0);
    let fresh = next_to(&fixture);
    fresh
        .run(&["adopt", "-o", "control-plane", "--from", "sim"])
        .with(0);
    let nodes = fresh.read("control-plane/nodes.yaml");
    assert!(nodes.contains("drydock/BaremetalNode/v1"), "{nodes}");
    fresh.run(&["fmt", "--check", "control-plane"]).with(0);
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link_and_a_link_is_no_file_of_its_own() {
    let fixture = Fixture::empty("control-plane");
    fixture.run(&["init"]).with(0);
    let outside = fixture.checkout.outside();
    let target = outside.join("target.yaml");
    let text = "metadata: {name: a}\nschema: drydock/Rack/v1\ndata: {}\n";
    std::fs::write(&target, text).unwrap();
    fixture.checkout.link("link.yaml", target.to_str().unwrap());
    fixture.checkout.link("folder", outside.to_str().unwrap());
    let named = fixture.run(&["fmt", "link.yaml"]).with(1);
    assert!(named.stderr.contains("is a link"), "{}", named.stderr);
    fixture.run(&["fmt", "folder/target.yaml"]).with(64);
    fixture.run(&["fmt", "."]);
    fixture.run(&["fmt"]);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), text);
}

#[test]
fn the_differences_of_encrypted_documents_are_not_shown() {
    let fixture = Fixture::empty("control-plane");
    fixture.run(&["init"]).with(0);
    let text = "schema: deckhand/Passphrase/v1\nmetadata:\n    name: p\n    storagePolicy: encrypted\ndata:   hunter2\n";
    fixture.checkout.write("secret.yaml", text);
    let ended = fixture
        .run(&["fmt", "--check", "--diff", "secret.yaml"])
        .with(1);
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    assert!(ended.stdout.contains("not shown"), "{}", ended.stdout);
    fixture.run(&["fmt", "--diff", "secret.yaml"]).with(0);
    let written = fixture.read("secret.yaml");
    assert!(written.ends_with("data: hunter2\n"), "{written}");
}
