//! Runs [`trueup::fuzz::redfish`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::redfish(data));
