//! A stand-in that breaks one rule is noticed: what the tests of the backend claim does not hold on it.

use serde_json::json;
use trueup::observed::Fact;
use trueup::step::StepKind;

use super::lab::{Lab, reason};
use super::life::VERSIONS;
use super::placed::{NETWORKS, PARTS};
use super::region::{Region, Wrong};

/// Drives a machine through its life, and gives the first claim that does not hold.
async fn claims(version: super::region::Version, wrong: Option<Wrong>) -> Result<(), String> {
    let settings = "power_type: manual, networks: [127.0.0.0/8]";
    let nodes = [super::lab::node("n1", "abc001", PARTS)];
    let lab = Lab::of(Region::new(version), settings, &nodes, NETWORKS).await;
    lab.region.state().wrong = wrong;
    let drive = async |kind| {
        let driven = lab.drive(kind, "n1", json!({})).await;
        driven.map_err(|failure| format!("{kind}: {failure:?}"))
    };
    let claim = |holds: bool, what: &str| holds.then_some(()).ok_or_else(|| what.to_owned());
    drive(StepKind::Prepare).await?;
    // It is created with manual power: what switches it is chosen by a person.
    lab.region.change("new001", |machine| {
        machine.power_type = "redfish".to_owned()
    });
    let effects = lab.region.state().effects.clone();
    let commissions = effects
        .iter()
        .filter(|each| *each == "commission new001")
        .count();
    let requests = lab.region.state().requests.clone();
    let is_asked = requests.iter().any(|each| each.ends_with("?op=commission"));
    claim(
        commissions == 1 && is_asked,
        "it is commissioned once, when that is asked for",
    )?;
    claim(
        lab.region.machine("new001").parts.groups.len() == 1,
        "its disks are laid out",
    )?;
    drive(StepKind::Deploy).await?;
    let machine = lab.region.machine("new001");
    claim(machine.locked, "it is locked")?;
    claim(machine.power == "on", "it runs")?;
    claim(
        machine.series == "noble",
        "it is deployed with what was sent",
    )?;
    claim(machine.tags.contains("compute"), "it has its tags")?;
    claim(
        machine.owner_data.contains_key("trueup-run"),
        "it has its owner data",
    )?;
    drive(StepKind::PowerOff).await?;
    claim(
        lab.region.machine("new001").power == "off",
        "it is switched",
    )?;
    let retired = lab.drive(StepKind::SetRetired, "n1", reason("old")).await;
    retired.map_err(|failure| format!("{failure:?}"))?;
    claim(lab.seen("n1").await.retired.is_some(), "it is retired")?;
    drive(StepKind::UnsetRetired).await?;
    drive(StepKind::Destroy).await?;
    let machine = lab.region.machine("new001");
    claim(machine.status == 4 && !machine.is_dirty, "it is erased")?;
    let forget = json!({"forget": true});
    let left = lab.drive(StepKind::Destroy, "n1", forget).await;
    left.map_err(|failure| format!("{failure:?}"))?;
    claim(lab.region.state().machines.is_empty(), "it has left")?;
    let is_enrolled =
        lab.seen("n1").await.provision != Fact::Known(trueup::lifecycle::ProvisionState::Available);
    claim(is_enrolled, "it is not available")
}

#[tokio::test(start_paused = true)]
async fn every_rule_that_is_broken_is_noticed_and_none_without() {
    for version in VERSIONS {
        assert_eq!(claims(version, None).await, Ok(()), "{version:?}");
        // Put right by the backend itself.
        let is_off = claims(version, Some(Wrong::DeploysOff)).await;
        assert_eq!(is_off, Ok(()), "{version:?}");
        for wrong in Wrong::ALL {
            let noticed = claims(version, Some(wrong)).await;
            assert!(noticed.is_err(), "{version:?}: {wrong:?} is not noticed");
        }
    }
}
