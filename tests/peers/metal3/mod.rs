//! A real API server with the real CRDs of Metal3 and Cluster API, and an operator of the tests' own.
//!
//! [`operator`] plays the baremetal-operator, [`fixture`] is the management cluster.

mod adopted;
mod cases;
mod counted;
mod faults;
mod fixture;
mod hosts;
mod identity;
mod lab;
mod life;
pub(crate) mod mended;
pub(crate) mod operator;
mod remediation;
mod rights;
mod rows;
mod serviced;
mod stand_in;
mod watched;

pub(crate) use fixture::{Management, NAMESPACE};
pub(crate) use lab::report;
