//! The buffer and its commit.

use super::super::{Service, deployed, on};
use super::{boot_action, document, error};
use crate::fixture::Fixture;

fn started() -> (Fixture, Service) {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    (fixture, service)
}

#[test]
fn the_modes_of_the_buffer_are_shipyard_s() {
    let (fixture, service) = started();
    let occupied = (409, "Invalid collection specified for buffer".to_owned());
    assert_eq!(service.put("one", "append", &document("one")).code, 201);
    assert_eq!(
        error(&service.put("two", "rejectoncontents", &document("two"))),
        occupied
    );
    assert_eq!(service.put("two", "append", &document("two")).code, 201);
    assert_eq!(
        error(&service.put("two", "append", &document("two-b"))),
        occupied
    );
    let created = || {
        let list = service.shipyard("/configdocs").json();
        let names: Vec<String> = list
            .as_array()
            .unwrap()
            .iter()
            .filter(|each| each["new_status"] == "created")
            .map(|each| each["collection_name"].as_str().unwrap().to_owned())
            .collect();
        names.join(" ")
    };
    assert_eq!(created(), "one two");
    assert_eq!(
        service.put("three", "replace", &document("three")).code,
        201
    );
    assert_eq!(created(), "three");
    assert_eq!(
        error(&service.put("three", "sometimes", &document("three"))).0,
        400
    );
    // The buffer is a branch, on what is committed.
    let parent = fixture
        .checkout
        .git(&["rev-parse", "trueup/one-rack/buffer^"]);
    assert_eq!(parent, fixture.checkout.git(&["rev-parse", "main"]));
    assert_eq!(fixture.checkout.git(&["status", "--porcelain"]), "");
    assert_eq!(service.commit("force=False&dryrun=False").code, 200);
    assert_eq!(fixture.checkout.git(&["status", "--porcelain"]), "");
    assert!(fixture.read("three.yaml").contains("name: three"));
    assert_eq!(fixture.checkout.git(&["branch", "--list", "trueup/*"]), "");
    let message = fixture.checkout.git(&["log", "-1", "--format=%B"]);
    let uid = rustix::process::getuid().as_raw();
    assert!(
        message.starts_with("Commit configdocs: three\n\n"),
        "{message}"
    );
    assert!(
        message.contains(&format!("Requested-by: uid {uid} (peer)\nRequest: 0")),
        "{message}"
    );
    // A collection is taken away by an empty one.
    let path = "/api/v1.0/configdocs/three?empty-collection=true";
    assert_eq!(service.post(path).code, 201);
    assert_eq!(service.commit("").code, 200);
    assert!(!fixture.checkout.path().join("three.yaml").exists());
}

#[test]
fn documents_that_cannot_be_taken_change_nothing() {
    let (fixture, service) = started();
    let unsuitable = (
        400,
        "Document(s) invalid syntax or otherwise unsuitable".to_owned(),
    );
    let guard = "---\nschema: trueup/Policy/v1\nmetadata: {name: other}\ndata: {}\n";
    let secret = document("hidden").replace("cleartext", "encrypted");
    for (collection, text) in [
        ("new", "---\nschema: [\n"),
        ("new", "---\nno: document\n"),
        ("new", guard),
        ("new", &secret),
        ("policy", &document("motd")),
        ("backends", &document("motd")),
        ("site-definition", &document("motd")),
        ("..%2f..%2fetc", &document("motd")),
        (".git", &document("motd")),
    ] {
        let answer = service.put(collection, "append", text);
        assert_eq!(error(&answer), unsuitable, "{collection} {text}");
    }
    let path = "/api/v1.0/configdocs/policy?empty-collection=true";
    assert_eq!(error(&service.post(path)), unsuitable);
    let empty = service.put("new", "append", "");
    assert_eq!(
        error(&empty),
        (400, "Content-Length is a required header".to_owned())
    );
    let unchanged = service.put("racks", "append", &fixture.read("racks.yaml"));
    assert_eq!(
        error(&unchanged),
        (400, "Collection not added to Shipyard buffer".to_owned())
    );
    let again = service.put("new", "append", &fixture.read("racks.yaml"));
    let title = "Documents may not exist in more than one collection";
    assert_eq!(error(&again), (409, title.to_owned()));
    assert_eq!(fixture.checkout.git(&["branch", "--list", "trueup/*"]), "");
    assert_eq!(error(&service.commit("")).0, 409);
}

#[test]
fn a_commit_whose_validation_fails_is_made_by_force_only() {
    let (fixture, service) = started();
    let before = fixture.checkout.git(&["rev-parse", "main"]);
    let wrong = boot_action("motd").replace("signaling: false", "signaling: 7");
    let answer = service.put("design", "append", &wrong);
    assert_eq!(answer.code, 201, "{answer:?}");
    let status = answer.json();
    assert_eq!(
        (&status["status"], &status["code"]),
        (&"Failure".into(), &"400 Bad Request".into())
    );
    let found = &status["details"]["messageList"][0];
    assert_eq!(
        (&found["kind"], &found["level"], &found["error"]),
        (&"ValidationMessage".into(), &"Error".into(), &true.into()),
        "{status}"
    );
    assert_eq!(found["documents"][0]["name"], "motd");
    assert!(
        found["diagnostic"]
            .as_str()
            .unwrap()
            .starts_with("design.yaml:"),
        "{found}"
    );
    let head = || fixture.checkout.git(&["rev-parse", "main"]);
    let message = |answer: &super::Answer| answer.json()["message"].as_str().unwrap().to_owned();
    let refused = service.commit("force=False&dryrun=False");
    assert_eq!(
        (refused.code, message(&refused)),
        (400, "Validations failed".to_owned())
    );
    let tried = service.commit("force=True&dryrun=True");
    assert_eq!(
        (tried.code, message(&tried)),
        (200, "Validations failed DRYRUN".to_owned())
    );
    assert_eq!(head(), before);
    let forced = service.commit("force=True&dryrun=False");
    assert_eq!(
        (forced.code, message(&forced)),
        (200, "Validations failed FORCED SUCCESS".to_owned())
    );
    assert_eq!(forced.json()["status"], "Failure");
    assert_ne!(head(), before);
    // What was forced is not deployed.
    let answer = service.ask_for("update_site", &serde_json::json!({}));
    assert_eq!(
        error(&answer),
        (400, "Document validation failed".to_owned())
    );
}

#[test]
fn git_and_the_buffer_keep_out_of_each_other_s_way() {
    let (fixture, service) = started();
    let racks = fixture.read("racks.yaml");
    assert_eq!(
        service
            .put("racks", "append", &format!("{racks}\n# by the buffer\n"))
            .code,
        201
    );
    // Another file changes in git: the buffer goes on top of it.
    fixture.checkout.write("motd.yaml", document("motd"));
    fixture.checkout.commit("By git");
    assert_eq!(service.put("more", "append", &document("more")).code, 201);
    // The same file changes in git.
    fixture
        .checkout
        .write("racks.yaml", format!("{racks}\n# by git\n"));
    let head = fixture.checkout.commit("By git, too").to_string();
    let answer = service.commit("");
    assert_eq!(
        error(&answer),
        (409, "The documents are being changed".to_owned()),
        "{answer:?}"
    );
    assert_eq!(fixture.checkout.git(&["rev-parse", "main"]), head);
    assert_eq!(
        service
            .put("racks", "replace", &format!("{racks}\n# by the buffer\n"))
            .code,
        201
    );
    // What is changed in the checkout without a commit is not overwritten.
    fixture
        .checkout
        .write("racks.yaml", format!("{racks}\n# by hand\n"));
    assert_eq!(error(&service.commit("")).0, 409);
    assert!(fixture.read("racks.yaml").contains("by hand"));
    fixture.checkout.git(&["checkout", "--", "racks.yaml"]);
    assert_eq!(service.commit("").code, 200);
    assert!(fixture.read("racks.yaml").contains("by the buffer"));
}

#[test]
fn a_buffer_that_was_pushed_brings_no_guards_and_no_other_files() {
    let (fixture, service) = started();
    let git = |arguments: &[&str]| fixture.checkout.git(arguments);
    git(&["switch", "--quiet", "-c", "trueup/one-rack/buffer"]);
    fixture.edit("policy.yaml", "---", "# weaker\n---");
    fixture.checkout.write("rules/deny.rego", "package none\n");
    fixture.checkout.commit("Something else");
    git(&["switch", "--quiet", "main"]);
    let answer = service.commit("force=True&dryrun=False");
    assert_eq!(error(&answer).0, 400, "{answer:?}");
    assert!(answer.body.contains("guards the site"), "{answer:?}");
    git(&["switch", "--quiet", "trueup/one-rack/buffer"]);
    git(&["checkout", "--quiet", "main", "--", "policy.yaml"]);
    fixture.checkout.write("motd.yaml", document("motd"));
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--amend", "-m", "Half of it"]);
    git(&["switch", "--quiet", "main"]);
    assert_eq!(service.commit("").code, 200);
    assert_eq!(
        git(&["show", "--name-only", "--format=", "main"]),
        "motd.yaml"
    );
}

#[test]
fn secrets_are_masked_unless_an_admin_wants_them() {
    let (fixture, service) = started();
    let secret = "---\nschema: deckhand/Passphrase/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: key\n  \
                  layeringDefinition: {abstract: false, layer: site}\n  storagePolicy: encrypted\ndata: hunter2-hunter2\n";
    fixture.checkout.write("keys.yaml", secret);
    fixture.checkout.commit("A secret");
    for path in [
        "/configdocs/keys?version=committed",
        "/renderedconfigdocs?version=committed",
    ] {
        let masked = service.shipyard(path);
        assert_eq!(masked.code, 200, "{masked:?}");
        assert!(
            masked.body.contains("name: key") && !masked.body.contains("hunter2"),
            "{path}"
        );
        let clear = service.shipyard(&format!("{path}&cleartext-secrets=true"));
        assert!(clear.body.contains("hunter2-hunter2"), "{path}");
    }
    let config = fixture.checkout.outside().join("viewer.yaml");
    std::fs::write(&config, "loopback: viewer").unwrap();
    let viewer = Service::start(
        &fixture,
        &[
            "--config",
            config.to_str().unwrap(),
            "--listen",
            "127.0.0.1:0",
        ],
    );
    for path in [
        "/configdocs/keys?version=committed",
        "/renderedconfigdocs?version=committed",
    ] {
        assert_eq!(viewer.shipyard(path).code, 200);
        let answer = viewer.shipyard(&format!("{path}&cleartext-secrets=true"));
        assert_eq!(error(&answer), (403, "Forbidden".to_owned()));
    }
}

#[test]
fn an_error_is_shipyard_s_status_to_the_letter() {
    let (_fixture, service) = started();
    let answer = service.shipyard("/actions/01HN0000000000000000000000");
    let body: serde_json::Value = answer.json();
    insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap(), @r#"
    {
      "apiVersion": "v1.0",
      "code": "404 Not Found",
      "details": {
        "errorCount": 1,
        "errorType": "ApiError",
        "messageList": [
          {
            "error": true,
            "message": "Unknown action 01HN0000000000000000000000"
          }
        ]
      },
      "kind": "status",
      "message": "Action not found",
      "metadata": {},
      "reason": "Unknown action 01HN0000000000000000000000",
      "retry": false,
      "status": "Failure"
    }
    "#);
    let taken = service.put("design", "append", &document("motd"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&taken.json()).unwrap(), @r#"
    {
      "apiVersion": "v1.0",
      "code": "201 Created",
      "details": {
        "errorCount": 0,
        "messageList": []
      },
      "kind": "Status",
      "message": "Validations succeeded",
      "metadata": {},
      "reason": "Validation",
      "status": "Success"
    }
    "#);
    // Promenade's keep their own form.
    assert_eq!(service.post(&on("nothing", "drain")).reason().0, 404);
}
