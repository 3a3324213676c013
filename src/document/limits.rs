//! How much one file may ask of the machine.
//!
//! Documents come from anybody who can open a pull request. Every limit is far above what a real
//! site needs, and has a diagnostic code of its own when it is reached.

/// Upper bounds for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in a file (`yaml-file-too-large`).
    pub file_bytes: usize,
    /// Lists and maps inside one another (`yaml-too-deep`).
    pub depth: usize,
    /// Documents in a file, broken ones counted (`yaml-too-many-documents`).
    pub documents: usize,
    /// Nodes that aliases stand for in a file, were they written out (`yaml-too-many-aliases`).
    /// Long texts count as one more node for each 64 bytes.
    pub expanded_nodes: usize,
    /// Errors, and also warnings, that are listed for a file (`yaml-too-many-problems`).
    pub problems: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 16 << 20,
            depth: 100,
            documents: 100_000,
            expanded_nodes: 1_000_000,
            problems: 1_000,
        }
    }
}

/// How files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadSettings {
    /// Upper bounds for each file.
    pub limits: Limits,
    /// Whether the site is a flat folder: `metadata.schema`, `metadata.layeringDefinition` and
    /// `metadata.storagePolicy` may then be left out (layer `site`, concrete, cleartext).
    pub flat: bool,
}
