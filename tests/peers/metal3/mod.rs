//! A real API server with the real CRDs of Metal3 and Cluster API, and an operator of the tests' own.
//!
//! [`operator`] plays the baremetal-operator, [`world`] is the management cluster.

mod cases;
mod counted;
mod faults;
mod hosts;
mod identity;
mod lab;
mod life;
mod mended;
pub(crate) mod operator;
mod remediation;
mod rights;
mod rows;
mod stand_in;
mod watched;
mod world;

pub(crate) use lab::report;
pub(crate) use world::{Management, NAMESPACE};
