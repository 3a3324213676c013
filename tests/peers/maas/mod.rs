//! A stand-in for MAAS, what judges it, and the backend against it.

mod answers;
mod client;
mod describe;
mod faults;
mod harm;
mod judged;
mod lab;
mod life;
mod many;
mod parts;
mod placed;
mod program;
mod refusals;
mod region;
mod rules;
mod serve;
mod shown;
mod wrong;
