//! Remediation of a machine that MAAS moves: a real API server has its node, the stand-in its power.

use std::sync::Arc;
use std::time::Duration;

use trueup::backend::Hardware;
use trueup::design::NodeName;
use trueup::lifecycle::PowerState;
use trueup::observed::Fact;

use super::lab::{Lab as Steps, PLATFORM, node};
use super::region::{Region, Times, Version, mac_of};
use crate::remediation::{Lab, Power};

const REMEDIATE: [&str; 4] = ["apply", "remediate", "n1", "--yes"];

/// A deployed machine of MAAS's, and the region that has it.
async fn start(version: Version) -> Option<(Region, Lab)> {
    let region = Region::new(version).with("abc001", "n1", 4);
    region.state().times = Times::all(Duration::from_millis(500));
    let server = region.serve().await;
    let hardware = format!(
        "{{kind: maas, maas: {{endpoint: \"{}\", api_key: {{env: MAAS_API_KEY}}, request_timeout: 3}}}}\n  allow_plain_http: true",
        server.url
    );
    let of_node = format!(
        "{{type: redfish, network: oob}}\n  platform: {{image: noble}}\n  metadata: {{boot_mac: \"52:54:00:00:{}\"}}",
        mac_of("abc001")
    );
    let shown = region.clone();
    let is_on: Power = Arc::new(move || {
        let machine = shown.machine("abc001");
        (machine.status, machine.power) == (6, "on")
    });
    let lab = Lab::start(server, &hardware, &of_node, is_on).await?;
    Some((region, lab))
}

/// How often an operation had an effect on the machine.
fn count(region: &Region, operation: &str) -> usize {
    let effect = format!("{operation} abc001");
    let state = region.state();
    state.effects.iter().filter(|each| **each == effect).count()
}

/// Remediates, and kills the program as soon as an operation has had so many effects in all.
async fn killed_at(lab: &Lab, region: &Region, operation: &str, most: usize) {
    let mut killed = lab.begin(&REMEDIATE);
    for _ in 0..2400 {
        if count(region, operation) >= most {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(count(region, operation), most, "it was to be killed there");
}

#[tokio::test]
async fn a_machine_of_maas_is_remediated_and_locked_again_also_by_another_process() {
    let Some((region, lab)) = start(Version::V34).await else {
        return;
    };
    lab.remediated().await;
    let machine = region.machine("abc001");
    assert!(machine.locked, "{machine:?}");
    // Once to the end, and once with a death in between.
    assert_eq!(
        (count(&region, "power_off"), count(&region, "power_on")),
        (2, 2)
    );
    assert_eq!(
        (count(&region, "deploy"), count(&region, "release")),
        (1, 0)
    );
}

/// What a process leaves behind that dies while it has the machine unlocked is put right by the next one.
#[tokio::test]
async fn a_remediation_that_is_killed_around_each_change_of_maas_leaves_the_machine_on_and_locked()
{
    let every: &[_] = &["unlock", "power_off", "lock", "power_on"];
    let versions: &[Version] = match super::takes_all() {
        true => &super::life::VERSIONS,
        false => &[Version::V35],
    };
    for &version in versions {
        let Some((region, lab)) = start(version).await else {
            return;
        };
        let operations = match super::takes_all() {
            true => every,
            false => &every[..2],
        };
        for operation in operations {
            let old = lab.node().await;
            let before = ["power_off", "power_on"].map(|each| count(&region, each));
            killed_at(&lab, &region, operation, count(&region, operation) + 1).await;
            lab.trueup(&["apply", "--resume", "--yes"]).await.with(0);
            lab.is_healed(&old).await;
            assert!(region.machine("abc001").locked, "{version:?} {operation}");
            let after = ["power_off", "power_on"].map(|each| count(&region, each));
            assert_eq!(
                after,
                before.map(|count| count + 1),
                "{version:?} {operation}"
            );
        }
        let refused = region.state().refused.clone();
        let refused: Vec<_> = refused
            .iter()
            .filter(|line| !line.contains("tags/"))
            .collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

/// MAAS lists the power that it saw minutes ago. A node is released by what the controller itself reports.
#[tokio::test]
async fn a_machine_that_was_switched_on_behind_maas_s_back_is_switched_off_before_its_node_goes() {
    let Some((region, lab)) = start(Version::V35).await else {
        return;
    };
    let old = lab.node().await;
    killed_at(&lab, &region, "power_off", 1).await;
    assert_eq!(lab.node().await["metadata"]["uid"], old["metadata"]["uid"]);
    region.change("abc001", |machine| {
        machine.power = "on";
        machine.listed = Some("off");
    });
    lab.trueup(&["apply", "--resume", "--yes"]).await.with(0);
    lab.is_healed(&old).await;
    assert_eq!(
        (count(&region, "power_off"), count(&region, "power_on")),
        (2, 1)
    );
}

#[tokio::test]
async fn of_two_who_remediate_a_machine_of_maas_one_acts() {
    let Some((region, lab)) = start(Version::V34).await else {
        return;
    };
    let watched = lab
        .trueup(&["apply", "remediate", "--watch"])
        .await
        .with(64);
    assert!(
        watched
            .stderr
            .contains("no machine of this site is moved by it"),
        "{watched:?}"
    );
    let old = lab.node().await;
    let mut first = lab.begin(&REMEDIATE);
    while count(&region, "unlock") == 0 {
        assert!(first.try_wait().unwrap().is_none(), "it ended before");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let second = lab.trueup(&REMEDIATE).await;
    assert_ne!(second.code, 0, "{second:?}");
    let ended = tokio::task::spawn_blocking(move || first.wait());
    assert!(ended.await.unwrap().unwrap().success());
    lab.is_healed(&old).await;
    assert_eq!(
        (count(&region, "power_off"), count(&region, "power_on")),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn the_power_of_a_remediation_is_the_controller_s_and_not_what_maas_lists() {
    for version in super::life::VERSIONS {
        let region = Region::new(version).with("abc001", "n1", 6);
        let lab = Steps::of(region, "", &[node("n1", "abc001", PLATFORM)], "").await;
        let asked = async || {
            let node = lab.design.nodes[&NodeName::from("n1")].clone();
            lab.backends().controller_power(&node).await.unwrap()
        };
        for (power, listed) in [("on", "off"), ("off", "on")] {
            lab.region.change("abc001", |machine| {
                machine.power = power;
                machine.listed = Some(listed);
            });
            let expected = match power {
                "on" => PowerState::On,
                _ => PowerState::Off,
            };
            assert_eq!(asked().await, Fact::Known(expected));
        }
        lab.region
            .change("abc001", |machine| machine.is_dark = true);
        let why = Fact::Unknown("MAAS cannot reach its management controller".into());
        assert_eq!(asked().await, why);
        lab.region.state().machines.clear();
        assert!(matches!(asked().await, Fact::Unknown(why) if why.contains("has no machine `n1`")));
    }
}
