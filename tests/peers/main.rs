//! Tests against real counterparts on loopback, one binary for all, one module a counterpart.
//!
//! Each test starts its own counterpart in a temporary folder on free ports and stops it when it ends.
//! If one cannot be started the test is told as skipped and passes; with `TRUEUP_TEST_PEERS=required`
//! in the environment it fails instead.

#[cfg(test)]
mod adopt;
#[cfg(test)]
mod airflow;
#[cfg(test)]
#[path = "../it/amount.rs"]
mod amount;
#[cfg(test)]
mod browser;
#[cfg(test)]
#[path = "../it/dice.rs"]
mod dice;
#[cfg(test)]
mod etcd;
#[cfg(test)]
#[path = "../it/forge_server.rs"]
#[expect(
    dead_code,
    reason = "answers in the place of the stand-in are for tests of the command"
)]
mod forge_server;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod ipmi;
#[cfg(test)]
mod ironic;
#[cfg(test)]
mod ironic_account;
#[cfg(test)]
mod ironic_service;
#[cfg(test)]
mod ironic_steps;
#[cfg(test)]
mod kubernetes;
#[cfg(test)]
mod maas;
#[cfg(test)]
mod metal3;
#[cfg(test)]
mod pipelines;
#[cfg(test)]
mod redfish;
#[cfg(test)]
mod redfish_parts;
#[cfg(test)]
mod remediation;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod site;
#[cfg(test)]
#[path = "../it/skipped.rs"]
mod skipped;
#[cfg(test)]
mod telemetry;
