//! The `trueup` program: hands its arguments to the library.

fn main() {}
