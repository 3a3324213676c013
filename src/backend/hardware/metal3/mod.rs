//! Machines that Metal3 moves: BareMetalHosts in a management cluster, driven by the baremetal-operator.

mod management;
pub mod resource;
mod settings;

pub use management::{HOST_API, Management};
pub use settings::{Controller, Image, Inspect, Scheme, Settings};

#[cfg(test)]
mod tests;
