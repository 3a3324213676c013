//! Runs [`trueup::fuzz::path`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::path(data));
