//! Errors that only writing makes.
//!
//! Faults of the caller (columns that do not match, a vertex outside the bounds, a tree with two
//! roots) have another class than those of the store and of the scratch folder. After any error
//! there is no store: nothing was visible yet.

use std::fmt::Display;

use zvf_error::{Error, Result, format_count};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_model::{BadCode, Kind, ObjectId};

/// Returns the error for an invalid setting.
pub(crate) fn setting_error(
    what: &'static str,
    expected: impl Display,
    found: impl Display,
) -> Error {
    Error::new(Class::InvalidArgument, what, expected, found).with_op("write")
}

/// Returns the error for a batch that this writer does not accept.
pub(crate) fn unfit_error(
    kind: Kind,
    what: impl Display,
    expected: impl Display,
    found: impl Display,
) -> Error {
    let what = format!("a batch of {kind}: {what}");
    Error::new(Class::InvalidArgument, what, expected, found).with_op("write")
}

/// Returns the error for output of a build step that another step cannot use. `task` is the step,
/// or the file that it wrote.
pub(crate) fn task_error(task: impl Display, expected: impl Display, found: impl Display) -> Error {
    Error::new(Class::CountMismatch, task.to_string(), expected, found).with_op("write")
}

/// Returns the error for a step that was started before the steps that it needs were done, or while
/// another process excludes it: it may succeed later. `task` is the step, or the folder that is in
/// use.
pub(crate) fn too_early_error(
    task: impl Display,
    expected: impl Display,
    found: impl Display,
) -> Error {
    Error::new(Class::Unavailable, task.to_string(), expected, found).with_op("write")
}

/// Returns the error for a code without a category of the attribute `name`.
pub(crate) fn code_error(name: impl Display, code: BadCode) -> Error {
    refuse(format!("{name}: {code}"))
}

/// Returns the error for vertices outside the declared bounds: how many of `total` in the batch,
/// and the number of the first, counted over all batches, and its position.
pub(crate) fn outside_error(points: u64, total: u64, first: u64, at: &[f64]) -> Error {
    let total = format_count(total, "vertex");
    let text = format!(
        "{points} of {total} lie outside the bounds, the first is vertex {first} at {at:?}; \
         leave them out, or let the bounds grow"
    );
    Error::custom(Class::OutOfBounds, text).with_op("write")
}

/// Returns the error for a skeleton object that is not a tree.
pub(crate) fn roots_error(object: ObjectId, roots: u64) -> Error {
    refuse(format!(
        "object {object} of a skeleton must be one tree, found {} without a parent",
        format_count(roots, "vertex")
    ))
}

/// Returns the error for an object with two kinds of geometry.
pub(crate) fn two_kinds_error(object: ObjectId, [one, other]: [Kind; 2]) -> Error {
    refuse(format!("object {object} is both a {one} and a {other}: ids are unique over all kinds"))
}

/// Returns the error for a skeleton vertex with two parents, or without a path to a root.
pub(crate) fn parent_error(vertex: u64, fault: &str) -> Error {
    refuse(format!("vertex {vertex} of a skeleton {fault}"))
}

/// Returns the error after [`WriteOptions::stop`](crate::WriteOptions::stop) was set.
pub(crate) fn stopped_error() -> Error {
    Error::custom(Class::Cancelled, "stopped before the store was complete")
}

fn refuse(text: String) -> Error {
    Error::custom(Class::InvalidArgument, text).with_op("write")
}

/// Written cells that are missing.
#[derive(Debug, thiserror::Error)]
#[error("{array}: expected every cell that was written, found {} not there", .chunks.len())]
pub(crate) struct LostCells {
    /// The array.
    pub(crate) array: String,
    /// The keys of their chunks.
    pub(crate) chunks: Vec<Box<str>>,
}

impl From<LostCells> for Error {
    fn from(error: LostCells) -> Self {
        Self::from_cause(Class::CountMismatch, error).with_op("write")
    }
}

/// Converts a count to 32 bits.
///
/// # Errors
///
/// `LimitExceeded` when it does not fit.
pub(crate) fn count_u32(what: &'static str, count: usize) -> Result<u32> {
    let (max, found) = (u64::from(u32::MAX), to_u64(count));
    u32::try_from(count).map_err(|_too_many| Error::limit(what, max, found))
}
