//! SWC: trees of neurons, one node a line.
//!
//! ```text
//! # comments, anywhere
//! id type x y z radius parent    parent -1: the node is a root
//! ```
//!
//! Numbers are `float32` if that keeps all digits of each, otherwise `float64`.
//!
//! Every tree is an object, numbered in the order of the roots. Edges go from a node to its parent. A batch holds complete
//! trees, so that edges are in the batch of their nodes. Nodes may come in any order, so all of them are kept in memory;
//! [`ReadOptions::memory`] bounds how many. A file with a missing parent or a cycle is refused.

use std::collections::HashMap;
use std::ops::Range;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::saturating_usize;
use zvf_formats::{
    ByteFault, Bytes, FLOAT64, FilePlace, FileReader, INT32, Lines, ReadOptions, Spot, Values,
    default_axes, narrow_column, parse_f64, quote_start, slice_batch, survives_float32,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::{ElementHeader, Header, Piece};
use zvf_model::{Batch, Elements, Field, Kind, ObjectId};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let kind = options.kind.unwrap_or(Kind::Skeleton);
    let spot = Spot::new("SWC", "the file");
    if !matches!(kind, Kind::Skeleton | Kind::Graph | Kind::PointCloud) {
        return spot.refuse(Class::Unsupported, "skeleton, graph or point_cloud", kind.to_string());
    }
    let dtype = options.positions.unwrap_or(FLOAT64);
    let expected = "a type of floats for positions";
    spot.ensure(dtype.kind == DtypeKind::Float, Class::Unsupported, expected, dtype)?;
    let mut nodes = Nodes::new(dtype);
    let mut lines = Lines::new_lossy(bytes);
    nodes.read(&mut lines, options.memory)?;
    let parents = nodes.find_parents(&lines)?;
    let owners = nodes.find_owners(&parents, &lines)?;
    let (mut positions, mut radii) = (nodes.positions.take()?, nodes.radii.take()?);
    if options.positions.is_none() && !nodes.needs_float64 {
        (positions, radii) = (narrow_column(&positions)?, narrow_column(&radii)?);
    }
    let cuts = find_cuts(&owners);
    let batch = Batch::new(kind, positions)
        .with_field(Field::new("radius", radii))?
        .with_field(Field::new("type", nodes.types.take()?))?
        .with_vertex_objects(owners)?;
    let header = Header {
        elements: kind.has_links().then(|| ElementHeader { width: Some(2), fields: Vec::new() }),
        vertices: u64::try_from(batch.len()).ok(),
        left_out: nodes.list_left_out(),
        ..Header::from_batch(&batch, default_axes(3)).with_unit("micrometer")
    };
    let batch_rows = options.batch_rows.max(1);
    let mut pieces = Pieces { batch, parents, cuts, at: 0, batch_rows };
    Ok(FileReader::from_steps(header, move || {
        pieces.next_rows().map(|rows| pieces.make_piece(rows)).transpose()
    }))
}

/// Finds the rows at which the nodes can be cut without cutting a tree. The last cut is the number of nodes.
fn find_cuts(owners: &[Option<ObjectId>]) -> Vec<usize> {
    let mut last = HashMap::new();
    for (row, owner) in owners.iter().enumerate() {
        last.insert(*owner, row);
    }
    let mut last_open = 0_usize; // last row of the trees so far
    let mut cuts = Vec::new();
    for (row, owner) in owners.iter().enumerate() {
        last_open = last_open.max(last[owner]);
        if row == last_open {
            cuts.push(row + 1);
        }
    }
    cuts
}

/// Nodes in the order of the file.
struct Nodes {
    positions: Values,
    radii: Values,
    types: Values,
    rows: HashMap<i64, usize>, // row of each id
    parents: Vec<Option<i64>>, // id of the parent of each row
    lines: Vec<u64>,
    has_extra_values: bool, // a line has more than seven values
    needs_float64: bool,    // a number that float32 does not keep
}

impl Nodes {
    fn new(positions: Dtype) -> Self {
        Self {
            positions: Values::new(positions, 3),
            radii: Values::new(if positions == FLOAT64 { FLOAT64 } else { Dtype::FLOAT32 }, 1),
            types: Values::new(INT32, 1),
            rows: HashMap::new(),
            parents: Vec::new(),
            lines: Vec::new(),
            has_extra_values: false,
            needs_float64: false,
        }
    }

    fn read(&mut self, lines: &mut Lines, memory: u64) -> Result<()> {
        let max_nodes = saturating_usize(memory / NODE_BYTES);
        let mut number = 0_u64;
        while let Some(line) = lines.next()? {
            number += 1;
            let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
            if words.first().is_none_or(|word| word.starts_with('#')) {
                continue;
            }
            if let Err(fault) = self.push_node(&words, number) {
                return Err(line_error(fault, lines.bytes(), number));
            }
            if self.parents.len() > max_nodes {
                let expected = format!("at most {max_nodes} nodes, for the memory allowed");
                let spot = lines.here().hint("allow more memory");
                return spot.refuse(Class::LimitExceeded, expected, "more");
            }
        }
        Ok(())
    }

    /// Parses a node and adds it.
    fn push_node(&mut self, words: &[&str], line: u64) -> Result<(), BadNode> {
        let [id, kind, x, y, z, radius, parent, extra @ ..] = words else {
            let found = format_args!("{} values", words.len());
            return Err((None, ByteFault::new(Class::CountMismatch, COLUMNS, found)));
        };
        let parse_integer = |word: &str, column| {
            word.parse::<i64>().map_err(|_no_number| bad_value(column, "a whole number", word))
        };
        let id = parse_integer(id, "id")?;
        let parent = parse_integer(parent, "parent")?;
        if id < 0 {
            return Err(bad_node("id", Class::Negative, "0 or more", &id.to_string()));
        }
        if !self.types.push_text(kind) {
            return Err(bad_value("type", "a whole number of 32 bits", kind));
        }
        for (word, column) in [(x, "x"), (y, "y"), (z, "z")] {
            let finite = parse_f64(word).is_some_and(f64::is_finite);
            if !finite || !self.positions.push_text(word) {
                return Err(bad_value(column, "a number", word));
            }
        }
        if !self.radii.push_text(radius) {
            return Err(bad_value("radius", "a number", radius));
        }
        self.needs_float64 |= ![x, y, z, radius].into_iter().all(|word| survives_float32(word));
        if self.rows.insert(id, self.parents.len()).is_some() {
            let expected = "another id for each node";
            return Err(bad_node("id", Class::Duplicate, expected, &id.to_string()));
        }
        self.has_extra_values |= !extra.is_empty();
        self.parents.push((parent != ROOT).then_some(parent));
        self.lines.push(line);
        Ok(())
    }

    /// Returns the row of the parent of each node.
    fn find_parents(&self, lines: &Lines) -> Result<Vec<Option<usize>>> {
        let row = |(row, parent): (usize, &Option<i64>)| match parent {
            None => Ok(None),
            Some(id) => self.rows.get(id).copied().map(Some).ok_or_else(|| {
                let expected = "the id of a node, or -1";
                let bad = bad_node("parent", Class::OutOfBounds, expected, &id.to_string());
                line_error(bad, lines.bytes(), self.lines[row])
            }),
        };
        self.parents.iter().enumerate().map(row).collect()
    }

    /// Returns the tree of each node, numbered in the order of the roots.
    fn find_owners(
        &self,
        parents: &[Option<usize>],
        lines: &Lines,
    ) -> Result<Vec<Option<ObjectId>>> {
        let mut owners: Vec<Option<ObjectId>> = vec![None; parents.len()];
        let mut trees = 0_i64;
        for (owner, parent) in owners.iter_mut().zip(parents) {
            if parent.is_none() {
                *owner = Some(ObjectId(trees));
                trees += 1;
            }
        }
        let mut path = Vec::new(); // from `start` towards the root, nodes without an owner
        for start in 0..parents.len() {
            let mut node = start;
            let owner = loop {
                if let Some(owner) = owners[node] {
                    break owner;
                }
                path.push(node);
                match parents[node].filter(|_| path.len() <= parents.len()) {
                    Some(up) => node = up,
                    None => {
                        let expected = "a way up to a root";
                        let bad = bad_node("parent", Class::BadShape, expected, "a circle");
                        return Err(line_error(bad, lines.bytes(), self.lines[start]));
                    }
                }
            };
            path.drain(..).for_each(|node| owners[node] = Some(owner));
        }
        Ok(owners)
    }

    fn list_left_out(&self) -> Vec<String> {
        let note = self.has_extra_values.then(|| "values after the seventh of a line".to_owned());
        note.into_iter().collect()
    }
}

/// An error in a line, without its number: the column, if it is in one.
type BadNode = (Option<&'static str>, ByteFault);

fn bad_value(column: &'static str, expected: &'static str, found: &str) -> BadNode {
    bad_node(column, Class::Encoding, expected, found)
}

fn bad_node(column: &'static str, class: Class, expected: &str, found: &str) -> BadNode {
    (Some(column), ByteFault::new(class, expected, quote_start(found)))
}

/// Adds the number of the line.
fn line_error((column, fault): BadNode, bytes: &Bytes, line: u64) -> Error {
    let place = match column {
        Some(column) => FilePlace::Column { line, column: column.to_owned() },
        None => FilePlace::Line(line),
    };
    bytes.spot(place).fault(fault)
}

/// Cuts the trees into batches.
struct Pieces {
    batch: Batch,                // of all nodes
    parents: Vec<Option<usize>>, // by row
    cuts: Vec<usize>,            // ascending; the last is the number of nodes
    at: usize,                   // nodes in batches so far
    batch_rows: usize,
}

impl Pieces {
    fn next_rows(&mut self) -> Option<Range<usize>> {
        let max_end = self.at.saturating_add(self.batch_rows); // a saturated end is past the last node
        let within = self.cuts.partition_point(|cut| *cut <= max_end).checked_sub(1);
        let within = within.and_then(|at| self.cuts.get(at)).filter(|cut| **cut > self.at);
        // A tree that is larger than a batch is not cut.
        let next = || self.cuts.get(self.cuts.partition_point(|cut| *cut <= self.at));
        let end = within.or_else(next).copied()?;
        Some(std::mem::replace(&mut self.at, end)..end)
    }

    fn make_piece(&self, rows: Range<usize>) -> Result<Piece> {
        let batch = slice_batch(&self.batch, rows.clone())?;
        if !batch.kind().has_links() {
            return Ok(Piece::Vertices(batch));
        }
        let parents = (0..).zip(&self.parents[rows.clone()]);
        let edges =
            parents.filter_map(|(row, parent)| Some([row, (*parent)?.checked_sub(rows.start)?]));
        let edges = Elements::new(2, edges.flatten().collect())?;
        Ok(Piece::Vertices(batch.with_elements(edges)?))
    }
}

/// The parent of a root.
const ROOT: i64 = -1;
/// Memory of a node while the file is read: values, entry in the map of ids, line, parent.
const NODE_BYTES: u64 = 192;
const COLUMNS: &str = "id, type, x, y, z, radius and parent";

#[cfg(test)]
mod tests;
