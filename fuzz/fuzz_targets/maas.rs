//! Runs [`trueup::fuzz::maas`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trueup::fuzz::maas(data));
