//! Errors in encoding an object.

use zvf_draco::DracoError;
use zvf_error::Error;
use zvf_format::Class;

/// An error in encoding a mesh.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MultiLodError {
    /// A coordinate, or the size of the grid, is not finite as `f32`.
    #[error("a vertex at {0}, which is no place")]
    NoPlace(f64),
    /// A face names a missing vertex.
    #[error("a face names the vertex {0}, which is not there")]
    NoVertex(u32),
    /// A cell of the octree is too far from the corner of the grid, which is stored as `f32`.
    #[error("a cell of number {0}, more than 2^21; ask for a coarser level, as in mesh@2")]
    FarCell(i64),
    /// A fragment cannot be encoded.
    #[error("a fragment cannot be encoded")]
    Fragment(#[from] DracoError),
    /// A fragment exceeds the size that the manifest can state.
    #[error("a fragment or a list of {0}, more than 2^32")]
    TooLarge(usize),
    /// Cells of the octree cut the faces into too many pieces.
    #[error("more than {0} pieces of faces; ask for a coarser level, as in mesh@2")]
    TooManyPieces(usize),
}

impl From<MultiLodError> for Error {
    fn from(error: MultiLodError) -> Self {
        let text = "the mesh cannot be encoded";
        Self::custom(Class::Unsupported, text).with_op("convert").because(error)
    }
}

/// The error for more vertices or edges than an object can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} vertices or edges, more than 2^32")]
pub struct TooMany(pub(super) usize);

impl From<TooMany> for Error {
    fn from(error: TooMany) -> Self {
        let text = "the object has too many parts";
        Self::custom(Class::LimitExceeded, text).with_op("convert").because(error)
    }
}
