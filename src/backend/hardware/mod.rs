//! The backends that move machines, and who of them moves which.
//!
//! [`choose`] reads the site's `trueup/Backends/v1` and gives one [`super::Hardware`] that sends each
//! order to the backend of its node. What a step passes through on any of them is in `driver`, what systems
//! with objects of their own share in `provisioner` and `follow`, power and other levels in `level`.

mod busy;
mod choose;
mod driver;
mod follow;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz {
    //! Parsers of the answers of services, for the fuzzers.
    pub use super::ironic::fuzz::answer as ironic;
    pub use super::maas::fuzz::answer as maas;
    pub use super::redfish::fuzz::answer as redfish;
}
mod images;
mod ipmi;
pub mod ironic;
mod level;
pub mod maas;
pub mod metal3;
mod payload;
mod poll;
mod proof;
mod provided;
mod provisioner;
mod raid;
mod ranges;
mod redfish;
mod service;
pub mod sim;
mod terms;
mod wanted;
mod written;

pub use choose::{choose, clock, declared_duration, longest_request};
pub use metal3::{LeaseSettings, WatchListener, Watched, Watcher};
pub use ranges::address_range;
pub use wanted::{WantedImage, WantedImages};
