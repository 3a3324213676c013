//! A real kube-apiserver with its controllers, and trueup's Kubernetes backend before it.
//!
//! There is no kubelet and no scheduler: [`World`] plays both. The backend is a user with exactly the
//! rights that `docs/kubernetes.md` lists, so that every test here is also one of those rights.

mod drain;
mod look;
mod measure;
mod nodes;
mod remedy;
mod world;

pub(crate) use world::{World, parameters, until};
