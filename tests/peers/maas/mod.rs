//! A stand-in for MAAS, what judges it, and the backend against it.

mod answers;
mod faults;
mod judged;
mod lab;
mod life;
mod many;
mod refusals;
mod region;
mod rules;
mod serve;
mod wrong;
