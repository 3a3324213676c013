//! The `trueup` program: hands its arguments to the library. Among them may be those of the process that evaluates rules,
//! which begins nothing else.

use std::process::ExitCode;

/// Documents are many small values, made on two threads: the system's allocator takes a quarter of the
/// time to load a site.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    trueup::rego::answer().unwrap_or_else(trueup::cli::main)
}
