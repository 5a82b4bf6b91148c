//! One chunk as arrays: what is drawn of it, and what is needed to say what a pixel is.
//!
//! ```text
//! origin     the corner of the chunk; positions are relative to it, so that f32 keeps a millimetre of a UTM coordinate
//! vertices   position, object slot, stored row           one each
//! segments   two vertices each: steps of chains, edges    with the steps into other chunks (see bridges)
//! faces      three vertices each
//! ```

/// The slot of a vertex that belongs to no object.
pub const NO_OBJECT: u32 = u32::MAX;

/// What is drawn of one chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What positions are relative to.
    pub origin: [f64; 3],
    /// Three numbers a vertex.
    pub positions: Vec<f32>,
    /// How many of the vertices belong to the chunk; ghosts follow.
    pub own_vertices: u32,
    /// How many vertices of the chunk passed, before it was thinned.
    pub stored_vertices: u32,
    /// The object of each vertex, as a place in `ids`; [`NO_OBJECT`] without.
    pub slots: Vec<u32>,
    /// The objects of the chunk.
    pub ids: Vec<i64>,
    /// The row of each vertex in its chunk, as stored.
    pub rows: Vec<u32>,
    /// Two vertices each.
    pub segments: Vec<u32>,
    /// Three vertices each.
    pub faces: Vec<u32>,
    /// Faces at vertices of the chunk that other chunks draw: normals need them.
    pub rim: Vec<u32>,
    /// The chunk of each ghost, by its position along each axis of space.
    pub ghost_cells: Vec<i32>,
    /// Attributes, in the order asked for.
    pub attributes: Vec<Attribute>,
    /// Whether every link could be found: without a listing only those are whose ends lie at most one chunk apart, and
    /// of a fragment of a chain only the first 2^24 rows are joined.
    pub is_complete: bool,
    /// What could not be read of links, and of chunks that elements and steps end in.
    pub faults: Vec<serde_json::Value>,
}

/// The values of one attribute of the vertices of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name, as asked for.
    pub name: String,
    /// Values of a vertex.
    pub width: u32,
    /// The values; codes where there are categories, NaN where there is none.
    pub values: Vec<f32>,
}

/// Returns the nearest f32: what is drawn needs no more.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the meaning")]
pub(crate) fn to_f32(x: f64) -> f32 {
    x as f32
}
