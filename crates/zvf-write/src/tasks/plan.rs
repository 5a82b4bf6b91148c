//! The plan of all tasks.
//!
//! Not here: the folder that it is in (`folder`).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use zvf_format::num::index_u32;
use zvf_model::Kind;

use crate::Schema;

/// How a store is built by many processes.
///
/// ```
/// use zvf_format::grid::ChunkShape;
/// use zvf_metadata::Axis;
/// use zvf_model::Kind;
/// use zvf_write::{Schema, SlicePlan, TaskPlan};
///
/// let schema = Schema::new(Kind::Mesh, Axis::spatial(3).unwrap(), ChunkShape::new(&[1.0; 3])?)?;
/// let plan = TaskPlan::new(&schema, vec![SlicePlan::default(); 2], 3, "scan.ply".into());
/// let tasks: Vec<String> = plan.tasks().iter().map(ToString::to_string).collect();
/// assert_eq!(tasks.join(", "), "route 0, route 1, cells 0, cells 1, cells 2, join 0, join 1, \
///     links 0, links 1, links 2");
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskPlan {
    pub(super) version: u32,
    /// The slices of the input, in order.
    pub slices: Vec<SlicePlan>,
    /// The number of ranges into which the chunks are divided.
    pub shares: u32,
    joins: u32,
    links: bool,
    /// The caller's data for reading a slice again, and for recognising the same input.
    pub input: Json,
}

/// A part of the input.
///
/// ```
/// let slice = zvf_write::SlicePlan { vertices: 100, ..zvf_write::SlicePlan::default() };
/// assert_eq!(slice.elements, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlicePlan {
    /// Number of vertices.
    pub vertices: u64,
    /// Number of edges or faces.
    pub elements: u64,
    /// Number of trees of a skeleton without objects.
    pub trees: u64,
    /// Number of lines.
    pub lines: u64,
    /// Its location, in the caller's form.
    pub source: Json,
}

zvf_format::vocabulary! {
    /// The kind of a task.
    ///
    /// ```
    /// let names: Vec<_> = zvf_write::Phase::ALL.iter().map(|stage| stage.name()).collect();
    /// assert_eq!(names, ["route", "cells", "join", "links"]);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Phase {
        /// Reads a slice of the input.
        Route => "route",
        /// Writes vertices, fragments and attributes of a share of the chunks.
        Cells => "cells",
        /// Finds the ends of elements.
        Join => "join",
        /// Writes the links of a share of the chunks.
        Links => "links",
    }
    /// Returns its name.
    fn name;
}

/// One task.
///
/// ```
/// use zvf_write::{Phase, Task};
///
/// assert_eq!(Task { stage: Phase::Cells, number: 3 }.to_string(), "cells 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Its stage.
    pub stage: Phase,
    /// Its number within the stage.
    pub number: u32,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.stage.name(), self.number)
    }
}

impl TaskPlan {
    /// Returns a plan for a store of this schema, with this many shares of the chunks.
    pub fn new(schema: &Schema, slices: Vec<SlicePlan>, shares: u32, input: Json) -> Self {
        let kind: Kind = schema.kind();
        let joins = if kind.has_links() { index_u32(slices.len()) } else { kind.is_chain().into() };
        Self { version: VERSION, joins, links: joins > 0, shares: shares.max(1), slices, input }
    }

    /// Returns every task, in an order in which they can run.
    pub fn tasks(&self) -> Vec<Task> {
        let links = if self.links { self.shares } else { 0 };
        let counts = [index_u32(self.slices.len()), self.shares, self.joins, links];
        let stages = Phase::ALL.iter().copied().zip(counts);
        stages.flat_map(|(stage, n)| (0..n).map(move |number| Task { stage, number })).collect()
    }
}

/// The version of the file.
pub(super) const VERSION: u32 = 3;
