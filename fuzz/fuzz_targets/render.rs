//! Runs [`trueup::fuzz::render`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::render(data));
