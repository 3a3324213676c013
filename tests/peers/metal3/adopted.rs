//! A site that runs on Metal3 is adopted: documents, an empty plan, and nothing but reads.

use serde_json::json;

use super::Management;
use super::counted::Counted;
use super::hosts::{create, is_in};
use super::life::{ENVIRONMENT, grant, limited_path};
use crate::adopt::adopted_whole;
use crate::site::Site;

#[tokio::test]
async fn hosts_in_use_are_adopted_from_metal3_and_nothing_is_changed_there() {
    let Some(management) = Management::start().await else {
        return;
    };
    grant(&management, |_| true).await;
    let names = ["m001", "m002", "m003"];
    for name in names {
        let image = json!({"url": "https://images.example/jammy.qcow2", "checksum": "abc", "checksumType": "sha256"});
        create(&management, name, json!({"online": true, "image": image})).await;
    }
    create(&management, "m009", json!({})).await;
    for name in names {
        management
            .until(name, "provisioned", is_in("provisioned"))
            .await;
    }
    management
        .until("m009", "available", is_in("available"))
        .await;
    let (counted, kubeconfig) = Counted::before(&limited_path(&management));

    let site = Site::new(&[("README", "")]);
    let reference = format!("file:{}", kubeconfig.display());
    let from = [
        "adopt",
        "-o",
        "lab",
        "--from",
        "metal3",
        "--kubeconfig",
        &reference,
    ];
    let refused = site.trueup(&from, ENVIRONMENT).with(4);
    assert!(refused.stderr.contains("trueup trust"), "{refused:?}");
    assert_eq!(counted.take(), Vec::<String>::new());
    let adopted = adopted_whole(&site, &["adopt", "-o", "lab"], ENVIRONMENT);
    let left_out = "machine m009: its provision state is available";
    assert!(adopted.contains(left_out), "{adopted}");
    let text = std::fs::read_to_string(site.path().join("lab/nodes.yaml")).unwrap();
    assert!(text.contains("boot_mac: '52:54:00:00:00:01'"), "{text}");
    assert!(!text.contains("password: b"), "{text}");
    let asked = counted.take();
    let changing: Vec<&String> = asked
        .iter()
        .filter(|line| !line.starts_with("GET "))
        .collect();
    assert!(!asked.is_empty() && changing.is_empty(), "{changing:?}");
}
