//! What was built.

use std::fmt;

/// One level that was built.
///
/// ```
/// use zvf_pyramid::LevelReport;
///
/// let report = LevelReport { level: 1, vertices: 12, objects: 3, elements: 0, bytes: 0, error: Some(0.5) };
/// assert_eq!(report.to_string(), "level 1: 12 vertices, 3 objects, within 0.5");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelReport {
    /// Its number.
    pub level: u32,
    /// Its vertices.
    pub vertices: u64,
    /// Objects that have vertices there.
    pub objects: u64,
    /// Edges or faces.
    pub elements: u64,
    /// What it takes where it is stored, links to other levels not counted; 0 where nobody looked.
    pub bytes: u64,
    /// How far its geometry may lie from that of level 0, in world units, where that is known: of the
    /// objects that it has.
    pub error: Option<f64>,
}

impl fmt::Display for LevelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, vertices, objects, elements, error, .. } = self;
        write!(f, "level {level}: {vertices} vertices")?;
        if *elements > 0 {
            write!(f, ", {elements} edges or faces")?;
        }
        if *objects > 0 {
            write!(f, ", {objects} objects")?;
        }
        error.map_or(Ok(()), |error| write!(f, ", within {error}"))
    }
}
