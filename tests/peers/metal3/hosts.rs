//! Hosts that somebody else has made, and disks that are to be kept.

use std::collections::BTreeMap;

use kube::api::PostParams;
use serde_json::{Value, json};

use super::life::{ENVIRONMENT, Lab};
use super::operator::Failure;
use super::{Management, NAMESPACE};

/// The address from which the document of a node (`m002`) says that it boots.
pub(super) fn boot_address(name: &str) -> String {
    format!("52:54:00:00:00:{}", &name[2..])
}

/// A host as another tool makes it, with an account of its own.
pub(super) async fn create(management: &Management, name: &str, more: Value) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{name}-account"), "namespace": NAMESPACE},
        "stringData": {"username": "a", "password": "b"}});
    management.fixture.create(&secret).await;
    let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "labels": {"team": "blue"}}, "spec": {"online": false,
            "bootMACAddress": boot_address(name), "description": "rack 7",
            "bmc": {"address": "redfish://10.1.0.3/redfish/v1/Systems/1",
                "credentialsName": format!("{name}-account")}}});
    for (key, value) in more.as_object().unwrap() {
        host["spec"][key] = value.clone();
    }
    let host = serde_json::from_value(host).unwrap();
    let parameters = PostParams::default();
    management.hosts().create(&parameters, &host).await.unwrap();
}

pub(super) fn is_in(state: &str) -> impl Fn(&Value) -> bool {
    let state = json!(state);
    move |host| host["status"]["provisioning"]["state"] == state
}

#[tokio::test]
async fn a_host_that_is_there_is_adopted_and_outlives_its_machine() {
    const OTHER: &str = "52:54:00:ff:ff:ff";
    let Some(lab) = Lab::start(2).await else {
        return;
    };
    // It has the interface that the document names, though its host was given another one to boot from.
    let interfaces = vec![boot_address("m002"), OTHER.to_owned()];
    let operator = &lab.management.operator;
    operator.tell(|it| it.interfaces = BTreeMap::from([("m002".to_owned(), interfaces)]));
    create(&lab.management, "m002", json!({"bootMACAddress": OTHER})).await;
    lab.management
        .until("m002", "available", is_in("available"))
        .await;
    let before = lab.management.host("m002").await;
    lab.run(&["apply", "--yes"], 0);
    let host = lab.management.host("m002").await;
    assert_eq!(host["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(host["metadata"]["labels"]["team"], "blue");
    assert_eq!(host["spec"]["description"], "rack 7");
    // What cannot be changed once it is set stays.
    assert_eq!(host["spec"]["bootMACAddress"], OTHER);
    assert_eq!(host["spec"]["bmc"]["credentialsName"], "m002-bmc");
    assert!(is_in("provisioned")(&host));

    lab.commit(1, "jammy");
    lab.run(&["apply", "--yes", "--allow-destroy", "m002"], 0);
    let host = lab.management.host("m002").await;
    assert!(is_in("available")(&host), "{host:#}");
    assert!(!lab.management.operator.is_on("m002"));
}

#[tokio::test]
async fn a_system_of_another_client_is_never_deployed_over() {
    let Some(lab) = Lab::start(1).await else {
        return;
    };
    let external = json!({"externallyProvisioned": true, "online": true});
    create(&lab.management, "m001", external).await;
    let is_there = is_in("externally provisioned");
    let is_on = |host: &Value| is_there(host) && host["status"]["poweredOn"] == json!(true);
    lab.management.until("m001", "seen and on", is_on).await;
    let said = lab.run(&["apply", "--yes"], 4);
    assert!(said.contains("--adopt m001"), "{said}");
    lab.run(&["apply", "--yes", "--adopt", "m001"], 0);
    lab.run(&["plan", "--detailed-exitcode"], 0);
    let host = lab.management.host("m001").await;
    assert!(is_there(&host) && host["spec"]["externallyProvisioned"] == json!(true));
    assert_eq!(
        lab.management.operator.events("m001"),
        ["register", "power on"]
    );
}

#[tokio::test]
async fn preserved_storage_is_cleaned_neither_by_the_teardown_nor_by_a_deploy_that_fails() {
    let Some(lab) = Lab::start(1).await else {
        return;
    };
    lab.run(&["apply", "--yes"], 0);
    let redeploy = [
        "apply",
        "--yes",
        "redeploy",
        "m001",
        "--preserve-local-storage",
    ];
    lab.run(&redeploy, 0);
    let host = lab.management.host("m001").await;
    assert_eq!(host["spec"]["automatedCleaningMode"], "metadata");
    assert!(host["metadata"]["annotations"]["trueup.dev/preserved"].is_null());

    let failure = Failure {
        kind: "provisioning error",
        message: "no such image",
        times: None,
    };
    let key = ("m001".to_owned(), "provisioning".to_owned());
    let operator = &lab.management.operator;
    operator.tell(|it| it.failures = BTreeMap::from([(key, failure)]));
    let ended = lab.site.trueup(&redeploy, ENVIRONMENT);
    assert_ne!(ended.code, 0, "{ended:?}");
    let host = lab.management.host("m001").await;
    assert_eq!(host["spec"]["automatedCleaningMode"], "disabled");
    operator.tell(|it| it.failures.clear());
    let is_free = |host: &Value| is_in("available")(host) && host["spec"]["image"].is_null();
    lab.management.until("m001", "available", is_free).await;
    lab.run(&["apply", "--yes"], 0);
    let events = operator.events("m001");
    let count = |what: &str| events.iter().filter(|event| *event == what).count();
    assert!(count("deprovision") >= 2, "{events:?}");
    assert_eq!(count("clean"), 0, "{events:?}");
    let host = lab.management.host("m001").await;
    assert_eq!(host["spec"]["automatedCleaningMode"], "metadata");
}
