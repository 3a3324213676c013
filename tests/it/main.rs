//! Integration tests, one binary for all.

#[cfg(test)]
mod document;
#[cfg(test)]
mod render_vectors;
#[cfg(test)]
mod shared;
