//! A site that runs in Ironic, or on controllers alone, is adopted: documents, an empty plan, and nothing but reads.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::ironic::Lab;
use crate::redfish;
use crate::site::Site;

/// Enrols a machine, and brings it into use or leaves it available.
async fn machine(lab: &Lab, name: &str, mac: &str, is_used: bool) {
    let body = json!({
        "name": name, "driver": "fake-hardware", "automated_clean": false, "network_interface": "noop",
    });
    let node = lab.api(Method::POST, "nodes", body).await.unwrap();
    let port = json!({"node_uuid": node["uuid"], "address": mac});
    lab.api(Method::POST, "ports", port).await.unwrap();
    lab.drive(name, json!("manage"), "manageable").await;
    lab.drive(name, json!("provide"), "available").await;
    if is_used {
        lab.drive(name, json!("active"), "active").await;
    }
}

/// All nodes with all that Ironic shows of them.
async fn nodes(lab: &Lab) -> Value {
    let mut nodes = lab
        .api(Method::GET, "nodes/detail", Value::Null)
        .await
        .unwrap();
    for node in nodes["nodes"].as_array_mut().unwrap() {
        // The conductor's own heartbeat, whoever asks or does not.
        node["driver_internal_info"] = Value::Null;
    }
    nodes
}

/// Adopts the three machines of a site, and sees them through: a plan of adoptions, none after them, and a second adoption
/// that adds nothing. Returns what the first one told.
pub(crate) fn adopted_whole(site: &Site, adopt: &[&str], environment: &[(&str, &str)]) -> String {
    let adopted = site.trueup(adopt, environment).with(0).stderr;
    assert!(adopted.contains("with 3 machines"), "{adopted}");
    site.git(&["add", "."]);
    site.git(&["commit", "-qm", "Adopt what runs"]);
    let plan = site.trueup(&["plan", "--format", "json"], environment);
    let plan = plan.with(0).json();
    let changes = plan["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 3, "{plan}");
    assert!(
        changes.iter().all(|change| change["kind"] == "adopt"),
        "{plan}"
    );
    let apply = ["apply", "--yes", "--adopt", "all"];
    site.trueup(&apply, environment).with(0);
    site.trueup(&["plan", "--detailed-exitcode"], environment)
        .with(0);
    let again = site.trueup(adopt, environment).with(0).stderr;
    assert!(again.contains("no machine was added"), "{again}");
    adopted
}

#[tokio::test]
async fn machines_in_use_are_adopted_from_ironic_and_nothing_is_changed_there() {
    let Some(lab) = Lab::start("0") else { return };
    for (number, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
        machine(&lab, name, &format!("52:54:00:00:00:0{number}"), true).await;
    }
    machine(&lab, "idle", "52:54:00:00:00:09", false).await;
    let before = nodes(&lab).await;

    let site = Site::new(&[("README", "")]);
    let url = lab.url();
    let from = [
        "adopt",
        "-o",
        "lab",
        "--from",
        "ironic",
        "--url",
        url.as_str(),
    ];
    let refused = site.trueup(&from, &[]).with(4);
    assert!(
        refused.stderr.contains("trueup trust"),
        "{}",
        refused.stderr
    );
    let adopted = adopted_whole(&site, &["adopt", "-o", "lab"], &[]);
    assert!(adopted.contains("machine idle: its provision state is available"));
    let text = std::fs::read_to_string(site.path().join("lab/nodes.yaml")).unwrap();
    assert!(text.contains("boot_mac: '52:54:00:00:00:01'"), "{text}");
    assert_eq!(nodes(&lab).await, before);
}

/// Stands before an emulator at another address, as a machine with a UUID of its own, and keeps the first line of each
/// request: the emulator closes every connection behind its answer.
fn stand_before(address: &str, port: u16, behind: u16, heard: &Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((address, port)).unwrap();
    let last: usize = address.rsplit('.').next().unwrap().parse().unwrap();
    let (there, here) = (redfish::uuid(1), redfish::uuid(last));
    let heard = heard.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (heard, there, here) = (heard.clone(), there.clone(), here.clone());
            std::thread::spawn(move || {
                let mut client = client;
                let mut server = TcpStream::connect(("127.0.0.1", behind))?;
                let mut first = [0; 4096];
                let length = client.read(&mut first)?;
                let text = String::from_utf8_lossy(&first[..length]).into_owned();
                heard
                    .lock()
                    .unwrap()
                    .push(text.lines().next().unwrap_or_default().to_owned());
                server.write_all(text.replace(&here, &there).as_bytes())?;
                let mut answer = String::new();
                server.read_to_string(&mut answer)?;
                client.write_all(answer.replace(&there, &here).as_bytes())?;
                client.shutdown(Shutdown::Both)
            });
        }
    });
}

#[test]
fn machines_are_adopted_by_a_range_of_controllers_and_nothing_is_changed_there() {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let free = TcpListener::bind("127.0.0.9:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut emulators = Vec::new();
    for address in ["127.0.0.9", "127.0.0.10", "127.0.0.12"] {
        let Some((peer, behind)) = redfish::start(1, "plain") else {
            return;
        };
        let system = format!("/redfish/v1/Systems/{}", redfish::uuid(1));
        let reset = format!("{system}/Actions/ComputerSystem.Reset");
        redfish::ask(behind, "POST", &reset, &json!({"ResetType": "On"}));
        let is_on = || redfish::ask(behind, "GET", &system, &Value::Null)["PowerState"] == "On";
        while !is_on() {
            std::thread::sleep(Duration::from_millis(100));
        }
        stand_before(address, port, behind, &heard);
        emulators.push(peer);
    }

    let settings = redfish::backends(port, "scheme: http, settling_time: 1");
    let settings = settings.replace("127.0.0.0/8, localhost", "127.0.0.8/29");
    let site = Site::new(&[
        ("site-definition.yaml", redfish::DEFINITION),
        ("backends.yaml", &settings),
    ]);
    adopted_whole(&site, &["adopt"], &[]);
    let heard = heard.lock().unwrap();
    let others: Vec<&String> = heard
        .iter()
        .filter(|line| !line.starts_with("GET "))
        .collect();
    assert!(heard.len() > 10 && others.is_empty(), "{others:?}");
}
