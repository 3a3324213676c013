//! The HTTP service: requests in, workflows called, Airship's status objects out.
//!
//! It has no planner and no state of its own: git holds the records, the lock and the approvals, so that two servers on
//! clones of one remote are as safe as two command lines. Each action is carried out on a thread of its own, by the same
//! workflow as the command's, and ends whether or not its caller waits for it. The process gives what only a process has:
//! settings, clocks and the checkout of the site ([`Host`]).

mod actions;
mod address;
mod answer;
mod authenticate;
mod call;
mod certificate;
mod deckhand;
mod design_ref;
mod error;
mod exposition;
mod followed;
mod form;
mod guard;
mod health;
mod host;
mod images;
mod keystone;
mod listen;
mod metrics;
mod oidc;
mod own;
mod page;
mod policy;
mod promenade;
mod query;
mod rate;
mod reference;
mod resume;
mod rights;
mod server;
mod settings;
mod shared;
mod shipyard;
mod spans;
mod subject;
mod waiting;
mod work;

pub use address::Address;
pub use error::Error;
pub use exposition::{Exposition, MetricKind};
pub use health::{Vitals, health};
pub use host::{Host, ServiceClock};
pub use images::{ImageFolder, ImageServer};
pub use listen::{Limits, Listener, answer};
pub use own::openapi;
pub use policy::Role;
pub use rights::Rights;
pub use server::Server;
pub use settings::{Files, ImageSettings, Settings};
