//! The plan of all tasks.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::num::index_u32;
use zvf_model::Kind;

use super::folder::{PLAN, write_new};
use super::path_exists;
use crate::Schema;
use crate::error::task_error;

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
    version: u32,
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
    /// let names: Vec<_> = zvf_write::Stage::ALL.iter().map(|stage| stage.name()).collect();
    /// assert_eq!(names, ["route", "cells", "join", "links"]);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage {
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
/// use zvf_write::{Stage, Task};
///
/// assert_eq!(Task { stage: Stage::Cells, number: 3 }.to_string(), "cells 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Its stage.
    pub stage: Stage,
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
    #[must_use]
    pub fn new(schema: &Schema, slices: Vec<SlicePlan>, shares: u32, input: Json) -> Self {
        let kind: Kind = schema.kind();
        let joins = if kind.has_links() { index_u32(slices.len()) } else { kind.is_chain().into() };
        Self { version: VERSION, joins, links: joins > 0, shares: shares.max(1), slices, input }
    }

    /// Returns every task, in an order in which they can run.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let links = if self.links { self.shares } else { 0 };
        let counts = [index_u32(self.slices.len()), self.shares, self.joins, links];
        let stages = Stage::ALL.iter().copied().zip(counts);
        stages.flat_map(|(stage, n)| (0..n).map(move |number| Task { stage, number })).collect()
    }

    /// Writes the plan into `folder`, which is created. If the same plan already exists, returns
    /// `false`, and its finished tasks stay finished.
    ///
    /// # Errors
    ///
    /// When another plan or foreign files exist, or the folder cannot be written.
    pub fn create(&self, folder: &Path) -> Result<bool> {
        if let Some(stored_plan) = Self::read(folder)? {
            if stored_plan == *self {
                return Ok(false);
            }
            let expected = "no other plan; remove the folder to begin anew";
            let found = "one for other input or other settings";
            return Err(task_error(folder.display(), expected, found));
        }
        super::folder::make(folder)?;
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::scratch(error.into()))?;
        write_new(&folder.join(PLAN), &text, true)?;
        Ok(true)
    }

    /// Reads the plan in `folder`, if there is one.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or belongs to another version of this program.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(PLAN);
        if !path_exists(&path)? {
            return Ok(None);
        }
        let text = fs::read(&path).map_err(Error::scratch)?;
        let unfit = |found: String| {
            let expected = format!("a plan of version {VERSION}");
            task_error(path.display(), expected, found)
        };
        let plan: Self = serde_json::from_slice(&text).map_err(|error| unfit(error.to_string()))?;
        if plan.version != VERSION {
            return Err(unfit(format!("version {}", plan.version)));
        }
        Ok(Some(plan))
    }

    /// Returns whether a process was killed while it removed the plan in `folder`. A new plan does
    /// not reuse anything.
    ///
    /// # Errors
    ///
    /// When the folder cannot be examined.
    pub fn is_half_removed(folder: &Path) -> Result<bool> {
        super::folder::is_half_removed(folder)
    }

    /// Removes a plan and the files of its tasks: the plan first, so that nothing can be resumed
    /// after a kill. Foreign files stay, and so does the folder then.
    ///
    /// # Errors
    ///
    /// When something cannot be removed.
    pub fn remove(folder: &Path) -> Result<()> {
        super::folder::remove(folder)
    }
}

const VERSION: u32 = 3;
