//! Runs [`trueup::fuzz::journal`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::journal(data));
