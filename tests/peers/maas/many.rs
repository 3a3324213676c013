//! Many machines: how many requests each costs, and how much longer than MAAS itself they take.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use trueup::backend::Hardware;
use trueup::step::StepKind;

use super::lab::{Lab, PLATFORM, node};
use super::region::{Region, Version};

/// As many as a site has that is large, or some.
fn machines() -> usize {
    if super::takes_all() { 1000 } else { 150 }
}

#[tokio::test(start_paused = true)]
async fn many_machines_cost_few_requests_each_and_hardly_more_time_than_one() {
    many(Version::V34).await;
    if super::takes_all() {
        many(Version::V35).await;
    }
}

async fn many(version: Version) {
    let machines = machines();
    let ids: Vec<String> = (0..machines)
        .map(|number| format!("m{number:05}"))
        .collect();
    let region = Region::new(version);
    let region = ids
        .iter()
        .fold(region, |region, id| region.with(id, &format!("n-{id}"), 0));
    for (number, id) in ids.iter().enumerate() {
        region.change(id, |machine| {
            machine.set_macs(vec![format!(
                "52:54:00:01:{:02x}:{:02x}",
                number >> 8,
                number & 255
            )]);
            // The fewer parts, the shorter the lists.
            machine.parts.disks.truncate(1);
            machine.parts.interfaces.truncate(1);
        });
    }
    let document = |(number, id): (usize, &String)| {
        let mac = format!("52:54:00:01:{:02x}:{:02x}", number >> 8, number & 255);
        let (name, _) = node(&format!("n-{id}"), id, "");
        (
            name,
            format!("metadata: {{boot_mac: \"{mac}\", tags: [compute]}}, {PLATFORM}"),
        )
    };
    let documents: Vec<_> = ids.iter().enumerate().map(document).collect();
    let lab = Lab::of(region, "", &documents, "").await;
    let backends = lab.open();
    // Held time steps to the next timer whenever nothing can run; an answer of megabytes that is on its way must not
    // meet the end of its request by that.
    let _ticks = tokio::spawn(async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let times = lab.region.state().times;
    for (kind, ideal, most) in [
        (StepKind::Prepare, times.commission, 8.0),
        (StepKind::Deploy, times.deploy, 12.0),
        (StepKind::Destroy, times.erase + times.release, 8.0),
    ] {
        lab.region.state().requests.clear();
        let began = Instant::now();
        let steps = documents.iter().map(|(name, _)| {
            let (order, _) = lab.order(kind, Some(name), json!({}));
            let backends = Arc::clone(&backends);
            async move { backends.act(&order).await }
        });
        for ended in join_all(steps).await {
            ended.unwrap();
        }
        let took = began.elapsed();
        let requests = lab.region.state().requests.len() as f64 / machines as f64;
        println!(
            "{kind}: {requests:.2} requests a machine, {:.2} of the ideal",
            took.as_secs_f64() / ideal.as_secs_f64()
        );
        // A few are for all of them together.
        let most = most + 30.0 / machines as f64;
        assert!(requests <= most, "{kind}: {requests} requests a machine");
        assert!(took <= ideal.mul_f64(1.1), "{kind}: {took:?} of {ideal:?}");
    }
}
