//! Runs [`trueup::fuzz::observations`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::observations(data));
