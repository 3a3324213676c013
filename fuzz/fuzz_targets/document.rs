//! Runs [`trueup::fuzz::document`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::document(data));
