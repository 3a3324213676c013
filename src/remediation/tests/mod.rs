//! Tests of the way of a failed machine: its table, its limits, its memory, and its safety.

mod limits;
mod memory;
mod model;
mod table;
