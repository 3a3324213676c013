//! How time passes for the backends of a site.

/// How time passes for the backends of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// As it does.
    Real,
    /// It jumps to the next deadline that a task waits for: the runtime is to be started paused. Only
    /// where all backends are simulators with a virtual clock, the cluster among them.
    Virtual,
}
