//! Runs [`trueup::fuzz::ironic`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::ironic(data));
