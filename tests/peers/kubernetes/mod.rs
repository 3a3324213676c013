//! A real kube-apiserver with its controllers, and trueup's Kubernetes backend before it.
//!
//! There is no kubelet and no scheduler: [`Fixture`] plays both. The backend is a user with exactly the
//! rights that `docs/kubernetes.md` lists, so that every test here is also one of those rights.

mod drain;
mod fixture;
mod look;
mod maintainers;
mod measure;
mod nodes;
mod remedy;
mod requests;

pub(crate) use fixture::{Fixture, parameters, until};
