//! The operator of the tests' own does what is known of the real one.

use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::operator::Failure;
use super::{Management, NAMESPACE};

async fn create(management: &Management, name: &str, spec: Value) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{name}-bmc"), "namespace": NAMESPACE},
        "stringData": {"username": "a", "password": "b"}});
    management.fixture.create(&secret).await;
    let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name}, "spec": {"online": true,
            "bmc": {"address": "redfish://10.0.0.1/x", "credentialsName": format!("{name}-bmc")}}});
    for (key, value) in spec.as_object().unwrap() {
        host["spec"][key] = value.clone();
    }
    let host = serde_json::from_value(host).unwrap();
    let parameters = PostParams::default();
    management.hosts().create(&parameters, &host).await.unwrap();
}

fn is_in(state: &str) -> impl Fn(&Value) -> bool {
    let state = json!(state);
    move |host| host["status"]["provisioning"]["state"] == state
}

fn shows(on: bool) -> impl Fn(&Value) -> bool {
    move |host| host["status"]["poweredOn"] == json!(on)
}

#[tokio::test]
async fn a_host_is_provisioned_wiped_by_another_image_powered_off_and_deleted() {
    let Some(management) = Management::start().await else {
        return;
    };
    let (operator, image) = (
        &management.operator,
        |url: &str| json!({"spec": {"image": {"url": url}}}),
    );
    create(&management, "n1", json!({"image": {"url": "http://one"}})).await;
    let provisioned = is_in("provisioned");
    management.until("n1", "provisioned", &provisioned).await;
    let is_two = |host: &Value| {
        host["status"]["provisioning"]["image"]["url"] == "http://two" && provisioned(host)
    };
    management.patch("n1", image("http://two")).await;
    management
        .until("n1", "provisioned with the other", is_two)
        .await;
    let events = operator.events("n1");
    let expected = [
        "register",
        "inspect",
        "provision http://one",
        "deprovision",
        "clean",
        "provision http://two",
    ];
    assert_eq!(events, expected);

    let annotate = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let key = "reboot.metal3.io/somebody";
    management
        .patch("n1", annotate(key, json!("{\"mode\":\"hard\"}")))
        .await;
    management.until("n1", "off", shows(false)).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!operator.is_on("n1"), "it is held off");
    assert!(!management.host("n1").await["metadata"]["annotations"][key].is_null());
    management.patch("n1", annotate(key, Value::Null)).await;
    management.until("n1", "on", shows(true)).await;

    let bare = "reboot.metal3.io";
    management.patch("n1", annotate(bare, json!(""))).await;
    let is_cleared = |host: &Value| host["metadata"]["annotations"][bare].is_null();
    management
        .until("n1", "rid of the bare key", is_cleared)
        .await;
    management.until("n1", "on", shows(true)).await;
    let mut powered = operator.events("n1").split_off(expected.len());
    powered.retain(|event| event.starts_with("power"));
    assert_eq!(powered, ["power off", "power on", "power off", "power on"]);

    let parameters = kube::api::DeleteParams::default();
    management.hosts().delete("n1", &parameters).await.unwrap();
    management.until("n1", "gone", Value::is_null).await;
}

#[tokio::test]
async fn what_fails_is_tried_again_and_counted() {
    let Some(management) = Management::start().await else {
        return;
    };
    let failure = Failure {
        kind: "provisioning error",
        message: "no space",
        times: Some(2),
    };
    let key = ("n1".to_owned(), "provisioning".to_owned());
    management
        .operator
        .tell(|behaviour| behaviour.failures.extend([(key, failure)]));
    create(&management, "n1", json!({"image": {"url": "http://one"}})).await;
    let failed_twice = |host: &Value| host["status"]["provisioningFailCount"] == 2;
    management.until("n1", "failed twice", failed_twice).await;
    assert_eq!(
        management.host("n1").await["status"]["errorMessage"],
        "no space"
    );
    management
        .until("n1", "provisioned in the end", is_in("provisioned"))
        .await;
    assert_eq!(management.host("n1").await["status"]["errorCount"], 0);
}

#[tokio::test]
async fn the_server_writes_each_object_whole_when_many_lists_are_asked_for_at_the_same_time() {
    let Some(management) = Management::start().await else {
        return;
    };
    management
        .operator
        .tell(|behaviour| behaviour.asleep = true);
    let there = &management;
    let numbers = futures_util::stream::iter(0..200);
    let bring_up =
        |number: u32| async move { create(there, &format!("n{number}"), json!({})).await };
    numbers.for_each_concurrent(8, bring_up).await;
    let (hosts, all) = (management.hosts(), ListParams::default());
    let lists = futures_util::stream::iter(0..400).map(|_| hosts.list(&all));
    let lists: Vec<_> = lists.buffer_unordered(16).collect().await;
    for list in lists {
        let list = list.unwrap();
        let is_whole = |host: &kube::core::DynamicObject| {
            host.metadata.name.is_some() && host.data["spec"]["bmc"]["address"].is_string()
        };
        assert_eq!(list.items.iter().filter(|host| is_whole(host)).count(), 200);
    }
}
