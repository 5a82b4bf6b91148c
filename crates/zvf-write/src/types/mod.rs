//! The vertex order and the fragments of each kind.
//!
//! ```text
//! kind                     a fragment is                          rows in it
//! point_cloud              a bin of a chunk, empty ones too       as given
//! point_cloud, objects     an object in a chunk                   as given
//! line, polyline, streamline   a run of an object in one chunk    as given
//! graph, mesh              an object in a chunk                   as given
//! skeleton                 an object in a chunk                   depth first from the root
//! ```

pub(crate) mod chain;
pub(crate) mod tree;
