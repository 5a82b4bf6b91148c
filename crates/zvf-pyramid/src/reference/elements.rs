//! Edges and faces of a full level: those of level 0, between the bins of their ends.
//!
//! An edge with both ends in one bin is dropped, and so is a face with two corners in one; of equal
//! ones the first is kept with its direction. Edges and faces of dropped objects are dropped as
//! well. In skeletons, an edge that would close a cycle is also dropped, and each tree has the root
//! of the first object in it.

use std::collections::VecDeque;

use zvf_error::Result;
use zvf_format::key::Delta;
use zvf_format::link::LinkStorage;
use zvf_format::num::{index_u32, usize_from_u32};
use zvf_metadata::Object;
use zvf_model::{Elements, Kind, LevelId, LevelReader};
use zvf_query::{Query, Reader};
use zvf_store::Store;

use super::coarsen::{NONE, ReferenceLevel};
use super::read::read_attributes;
use crate::batches::{gather_fields, split_off_places};
use crate::error::unsupported_error;
use crate::levels::is_explicit;
use crate::rows::{Buckets, chunk_of_place, lookup, row_number, row_of_place};
use crate::shape::Rules;
use crate::shape::contract::{UnionFind, map_elements};

/// The edges or faces of level 0, and the current rows of their ends.
pub(super) struct SourceElements {
    kind: Kind,
    elements: Elements, // of rows of level 0
    at: Vec<u32>,       // of each row of level 0: the row of the last level
    alive: Vec<bool>,   // of each object
    offsets: Vec<usize>,
    references: Vec<u32>,      // object by object, as in the level itself
    pub(super) directed: bool, // whether the order of the ends has a meaning
    pub(super) stored: LinkStorage,
    described: Vec<(String, Object)>, // the attributes of edges or faces
}

impl SourceElements {
    /// Reads those of level 0; none where its kind has none.
    pub(super) async fn read(
        store: &Store,
        reader: &LevelReader,
        level: &ReferenceLevel,
    ) -> Result<Option<Self>> {
        let kind = reader.kinds().first().copied().filter(|kind| kind.has_links());
        let (Some(kind), Some(links)) = (kind, reader.links(Delta::SAME).await?) else {
            return Ok(None);
        };
        let query = Query::all().at_level(LevelId(0)).with_places().uncached();
        let batch = Reader::new(store.clone()).run(&query).await?.batch;
        let (batch, places) = split_off_places(batch)?;
        let Some(elements) = batch.elements() else { return Ok(None) };
        let implied = kind == Kind::Skeleton && !is_explicit(reader);
        let rows = elements.rows().iter().map(|row| row_of(level, &places, *row));
        let mut level_elements = Elements::new(elements.width(), rows.collect::<Result<_, _>>()?)?;
        let mut described_fields = Vec::new();
        // Edges that the order of the vertices implies have no attributes.
        for field in elements.fields().iter().filter(|_| !implied) {
            let family = format!("0/link_attributes/{}/0", field.name);
            if let Some(segment) = store.nodes().children(&family).await?.names.first() {
                let attributes = read_attributes(store, &format!("{family}/{segment}")).await?;
                described_fields.push((field.name.to_string(), attributes));
                level_elements = level_elements.with_field(field.clone())?;
            }
        }
        Ok(Some(Self {
            kind,
            elements: level_elements,
            at: (0..index_u32(level.rows())).collect(),
            alive: vec![true; level.objects()],
            offsets: level.offsets.clone(),
            references: level.references.clone(),
            // In streamed skeletons either end may come first; here it is the child.
            directed: links.policy().is_directed() && kind != Kind::Skeleton,
            stored: links.policy().store(),
            described: described_fields,
        }))
    }

    /// Returns the metadata of an attribute.
    pub(super) fn attributes_of(&self, name: &str) -> Object {
        let field = self.described.iter().find(|(field_name, _)| field_name == name);
        field.map(|(_, attributes)| attributes.clone()).unwrap_or_default() // each is described
    }

    /// Moves to the next level, which has the objects `kept_objects`; `parents` maps the rows of
    /// the last one to its rows.
    pub(super) fn follow(&mut self, kept_objects: &[usize], parents: &[u32]) {
        self.at.iter_mut().for_each(|at| *at = lookup(parents, *at));
        let mut alive = vec![false; self.alive.len()];
        kept_objects.iter().for_each(|object| alive[*object] = self.alive[*object]);
        self.alive = alive;
    }

    /// Returns the edges or faces of the current level, by its rows.
    pub(super) fn elements_at(&self, level: &ReferenceLevel) -> Result<Elements> {
        let mut row_map = vec![NONE; self.at.len()];
        let spans = self.offsets.iter().zip(self.offsets.iter().skip(1));
        for ((start, end), _) in spans.zip(&self.alive).filter(|(_, alive)| **alive) {
            for row in &self.references[*start..*end] {
                let row = usize_from_u32(*row);
                row_map[row] = self.at[row];
            }
        }
        let trees = self.kind == Kind::Skeleton;
        let rules = Rules { named: Vec::new(), weight: String::new() };
        let made = map_elements(&self.elements, &row_map, self.directed || trees, &rules)?;
        if trees { forest(&made, level.rows(), &self.roots(&row_map)) } else { Ok(made) }
    }

    /// Returns the rows of the level that contain roots of level 0, in the order of level 0.
    fn roots(&self, row_map: &[u32]) -> Vec<u32> {
        let mut rooted = vec![true; row_map.len()];
        self.elements.iter().for_each(|edge| rooted[edge[0]] = false);
        let roots = row_map.iter().zip(rooted).filter(|(row, rooted)| *rooted && **row != NONE);
        roots.map(|(row, _)| *row).collect()
    }
}

/// Returns the row of the level for row `row` of a query result, by the places of its rows.
fn row_of(level: &ReferenceLevel, places: &[u64], row: usize) -> Result<usize> {
    let chunk = usize_from_u32(chunk_of_place(places[row]));
    let span = level.starts.get(chunk).zip(level.starts.get(chunk + 1));
    let at = span.and_then(|(start, end)| {
        let at = start.checked_add(usize_from_u32(row_of_place(places[row])))?;
        (at < *end).then_some(at)
    });
    at.ok_or_else(|| {
        let what = "the end of an edge or face";
        unsupported_error(what, "a vertex of the level", format!("row {row}"))
    })
}

/// Returns the edges that form trees of `rows` vertices, each from a child to its parent; the root
/// of a tree is the first of `roots` in it.
fn forest(edges: &Elements, rows: usize, roots: &[u32]) -> Result<Elements> {
    let mut pieces = UnionFind::new(rows);
    let mut tree_edges = Vec::new();
    for (number, edge) in (0_u32..).zip(edges.rows().as_chunks::<2>().0) {
        let [a, b] = *edge;
        if pieces.find(a) == pieces.find(b) {
            continue;
        }
        pieces.union(a, b);
        tree_edges.push((number, [a, b]));
    }
    let ends = tree_edges.iter().map(|(_, ends)| ends.map(row_number));
    let near = Buckets::new(rows, ends.flat_map(|[a, b]| [(a, b), (b, a)]));
    let parents = parents_from(&near, roots);
    let ends = tree_edges.iter().flat_map(|(_, [a, b])| {
        if usize_from_u32(parents[*a]) == *b { [*a, *b] } else { [*b, *a] }
    });
    let numbers: Vec<u32> = tree_edges.iter().map(|(number, _)| *number).collect();
    let fields = gather_fields(edges.fields(), &numbers);
    Ok(Elements::new(2, ends.collect())?.with_fields(fields)?)
}

/// Returns the parent of each vertex, given its neighbours; breadth first from `roots`, then from
/// vertices that these do not reach.
fn parents_from(near: &Buckets<u32>, roots: &[u32]) -> Vec<u32> {
    let mut parents = vec![NONE; near.len()];
    let mut seen = vec![false; near.len()];
    let mut open = VecDeque::new();
    for root in roots.iter().copied().chain(0..row_number(near.len())) {
        if !std::mem::replace(&mut seen[usize_from_u32(root)], true) {
            open.push_back(root);
        }
        while let Some(row) = open.pop_front() {
            for next in near.get(usize_from_u32(row)) {
                let at = usize_from_u32(*next);
                if !std::mem::replace(&mut seen[at], true) {
                    parents[at] = row;
                    open.push_back(*next);
                }
            }
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forest_has_no_rings_and_one_parent_for_each_vertex() {
        // A cycle of three with a tail, and a separate edge.
        let edges = Elements::new(2, vec![1, 0, 2, 1, 0, 2, 3, 2, 5, 4]).unwrap();
        let result = forest(&edges, 6, &[2, 5]).unwrap();
        assert_eq!(result.rows(), [0, 1, 1, 2, 3, 2, 4, 5]);
        let result = forest(&edges, 6, &[]).unwrap();
        assert_eq!(result.rows(), [1, 0, 2, 1, 3, 2, 5, 4]);
    }
}
