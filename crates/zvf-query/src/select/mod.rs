//! Selection of rows: pure functions without I/O.
//!
//! ```text
//! candidates   keys of chunks, and the box of a region      which chunks can matter
//! runs         the fragments of a chunk, and bins           which rows of it, in which order
//! inside       positions, and a region                      which of these rows are in it
//! chain        the rows of one object               how it lies to a region, and what of it is inside
//! faces        edges and faces                     cut at the boundary
//! bits         verdicts on rows                      joined a word at a time, and runs of them
//! selection    the rows of a plan, and whose they are
//! pieces       the rows that are left                       gathered into columns, each byte copied once
//! answer_memory                                             where the columns lie
//! ```

pub(crate) mod answer_memory;
pub(crate) mod bits;
pub(crate) mod candidates;
pub(crate) mod chain;
pub(crate) mod faces;
pub(crate) mod inside;
pub(crate) mod loaded_rows;
pub(crate) mod pieces;
pub(crate) mod runs;
pub(crate) mod selection;
