//! Machines that really boot: a BIOS, a disk, an installer, under qemu without KVM, behind sushy-tools and its libvirt
//! driver, which nobody here wrote.
//!
//! Stand-ins prove requests; these prove what is on the disks. Every request of the program passes a gate
//! ([`gate`]), which counts it and can kill the program at it. What the lab needs is in Debian and on PyPI; if it cannot be had, or
//! `TRUEUP_TEST_LAB` is not set, the tests are told as skipped. `TRUEUP_TEST_LAB=all` has the endings that an everyday run leaves out.

#[cfg(test)]
mod gate;
#[cfg(test)]
mod images;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod packages;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod site;
#[cfg(test)]
#[path = "../it/skipped.rs"]
mod skipped;
#[cfg(test)]
mod web;
