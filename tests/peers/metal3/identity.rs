//! Hosts behind whose name is another machine than the document's: nothing of them is changed.

use std::collections::BTreeMap;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::counted::Counted;
use super::hosts::{boot_address, create, is_in};
use super::life::{ENVIRONMENT, Lab};

/// What was asked for that changes something. A question about one's own rights is asked with POST.
fn changes(counted: &Counted) -> Vec<String> {
    let mut asked = counted.take();
    asked.retain(|it| !it.starts_with("GET ") && !it.ends_with("/selfsubjectaccessreviews"));
    asked
}

/// Runs all that changes machines on m001 and m002, with all that may be allowed; returns what was said.
fn try_all(lab: &Lab) -> Vec<String> {
    let on =
        |words: &[&'static str]| [&["apply", "--yes", "--allow-unverified", "all"], words].concat();
    let update =
        |words: &[&'static str]| [on(&["--allow-intermediate-commits"]), words.to_vec()].concat();
    let nodes = ["m001", "m002"];
    let mut commands = vec![
        update(&[]),
        update(&["--adopt", "all"]),
        update(&["--allow-redeploy", "all", "--allow-destroy", "all"]),
    ];
    for node in nodes {
        for action in ["teardown", "redeploy", "provide", "clean"] {
            commands.push(on(&[action, node]));
        }
        commands.push(on(&["power", "off", node]));
        commands.push(on(&["power", "on", node]));
        commands.push(on(&["retire", node, "--reason", "old"]));
    }
    let run = |arguments: &Vec<&str>| {
        let ended = lab.site.trueup(arguments, ENVIRONMENT);
        // An update that finds nothing to do but for such machines says so, and ends well.
        let is_update = arguments.contains(&"--allow-intermediate-commits");
        assert!(is_update || ended.code != 0, "{arguments:?}: {ended:?}");
        let said = ended.stdout + &ended.stderr;
        assert!(
            said.contains("another machine than its"),
            "{arguments:?}: {said}"
        );
        said
    };
    commands.iter().map(run).collect()
}

#[tokio::test]
async fn no_change_reaches_a_host_that_is_another_machine_than_the_documents() {
    let Some((lab, counted)) = Lab::counted(2).await else {
        return;
    };
    lab.run(&["apply", "--yes"], 0);
    // Another image asks for a redeploy of both.
    lab.commit(2, "noble");
    // Each finds its machine by the address that the document of the other names.
    for (name, other) in [("m001", "m002"), ("m002", "m001")] {
        let spec = json!({"spec": {"bootMACAddress": boot_address(other)}});
        lab.management.patch(name, spec).await;
    }
    let hosts = async || {
        let (one, two) = (
            lab.management.host("m001").await,
            lab.management.host("m002").await,
        );
        [one, two].map(|host| (host["spec"].clone(), host["metadata"]["uid"].clone()))
    };
    let events = || ["m001", "m002"].map(|name| lab.management.operator.events(name));
    let before = (hosts().await, events());
    counted.take();
    let said = try_all(&lab);
    assert_eq!(changes(&counted), [""; 0]);
    let why = format!(
        "another machine than its document names: it has no interface {}, but {}",
        boot_address("m001"),
        boot_address("m002")
    );
    assert!(said[0].contains(&why), "{}", said[0]);
    assert_eq!((hosts().await, events()), before);
}

#[tokio::test]
async fn a_host_whose_hardware_or_object_was_exchanged_is_left_alone() {
    let Some((lab, counted)) = Lab::counted(2).await else {
        return;
    };
    lab.name_serial("m001", "SN-1");
    lab.name_serial("m002", "SN-2");
    let serials = [("m001", "SN-1"), ("m002", "SN-2")];
    let found = serials.map(|(name, serial)| (name.to_owned(), serial.to_owned()));
    let operator = &lab.management.operator;
    operator.tell(|it| it.serials = BTreeMap::from(found));
    let hosts = lab.management.hosts();
    for (name, _) in serials {
        create(&lab.management, name, json!({})).await;
        let is_there = is_in("available");
        lab.management.until(name, "available", is_there).await;
    }
    lab.run(&["apply", "--yes", "--allow-intermediate-commits"], 0);

    // Inspection finds the board that the document of the other names.
    let inspect = async |found: [(&str, &str); 2]| {
        for (name, serial) in found {
            let vendor = json!({"systemVendor": {"serialNumber": serial}});
            let status = Patch::Merge(json!({"status": {"hardware": vendor}}));
            let parameters = PatchParams::default();
            hosts
                .patch_status(name, &parameters, &status)
                .await
                .unwrap();
        }
    };
    inspect([("m001", "SN-2"), ("m002", "SN-1")]).await;
    counted.take();
    let said = try_all(&lab);
    assert_eq!(changes(&counted), [""; 0]);
    assert!(said[0].contains("its serial number is SN-2"), "{}", said[0]);

    // Deleted and made anew under its name: another object of Metal3's.
    inspect(serials).await;
    let gone = |host: &Value| host.is_null();
    hosts
        .delete("m001", &DeleteParams::default())
        .await
        .unwrap();
    lab.management.until("m001", "gone", gone).await;
    let anew = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "m001"}, "spec": {"online": false, "bootMACAddress": boot_address("m001"),
            "bmc": {"address": "redfish://10.1.0.2/redfish/v1/Systems/1",
                "credentialsName": "m001-account"}}});
    let anew = serde_json::from_value(anew).unwrap();
    hosts.create(&PostParams::default(), &anew).await.unwrap();
    let is_there = is_in("available");
    lab.management.until("m001", "available", is_there).await;
    counted.take();
    for arguments in [
        &["apply", "--yes", "redeploy", "m001"][..],
        &["apply", "--yes", "teardown", "m001"],
        &["apply", "--yes", "power", "on", "m001"],
    ] {
        let ended = lab.site.trueup(arguments, ENVIRONMENT);
        assert_ne!(ended.code, 0, "{arguments:?}: {ended:?}");
        let said = ended.stdout + &ended.stderr;
        let why = "another machine than its record names";
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(changes(&counted), [""; 0]);
}
