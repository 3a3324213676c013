//! The way to an API server of Kubernetes, whatever is kept there: nodes and pods, or hosts of Metal3.
//!
//! `Connection` is opened when it is first needed, `Server` sends requests that are bounded in time
//! and size, and [`ApiError`] holds the error and whether it can pass.

mod account;
mod call;
mod connect;
mod kubeconfig;
mod page;
mod review;
mod settings;
mod watch;

pub use call::ApiError;
pub(in crate::backend) use call::{MANAGER, OUTAGE, Server, again};
pub(in crate::backend) use connect::Connection;
pub(in crate::backend) use kubeconfig::kubeconfig_facts;
pub(in crate::backend) use page::or_empty;
pub(in crate::backend) use review::Review;
pub(in crate::backend) use settings::Settings;
pub(in crate::backend) use watch::{Event, Watch};
