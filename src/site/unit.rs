//! A unit: a file of machines that nothing depends on, of which only the designs are wanted.

use std::ops::Range;
use std::sync::Arc;

use super::SiteFile;
use crate::design::NodeDesign;
use crate::diagnostic::{Diagnostic, Mark, Severity, SourceId};

/// A problem, as far as it is told from others.
pub(super) type Finding = (&'static str, Severity, Mark);

pub(super) fn finding(diagnostic: &Diagnostic) -> Option<Finding> {
    Some((diagnostic.code.0, diagnostic.severity, diagnostic.mark?))
}

/// Where the designs of a unit are.
pub(super) enum Designs {
    /// Among those that are kept, by their positions.
    CachedSite(Range<usize>),
    /// Here.
    Made(Vec<Arc<NodeDesign>>),
}

/// A file of machines.
pub(super) struct Unit {
    /// Its position among the files of the site.
    pub(super) position: usize,
    pub(super) file: SiteFile,
    pub(super) warnings: u32,
    /// The source of its marks.
    pub(super) source: SourceId,
    pub(super) designs: Designs,
}

impl Unit {
    /// Which of the machines that are kept are in it.
    pub(super) fn rows(&self) -> Option<Range<usize>> {
        match &self.designs {
            Designs::CachedSite(rows) => Some(rows.clone()),
            Designs::Made(_) => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.designs {
            Designs::CachedSite(rows) => rows.len(),
            Designs::Made(made) => made.len(),
        }
    }
}
