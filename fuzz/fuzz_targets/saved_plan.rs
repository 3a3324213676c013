//! Runs [`trueup::fuzz::saved_plan`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::saved_plan(data));
