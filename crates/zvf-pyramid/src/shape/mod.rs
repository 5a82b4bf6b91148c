//! Coarsens geometry batch by batch: pure functions, without a store.
//!
//! ```text
//! points      one for each cell that has any, or a random part of them        points
//! chains      fewer vertices of each, none farther than a tolerance           chain
//! graphs      what is connected inside a cell becomes one vertex            contract
//! skeletons   the same, or fewer vertices between roots, forks and tips       contract, tree
//! meshes      the same, or edges collapsed where that costs least             contract, collapse, mesh
//! ```
//!
//! Objects are never merged, and every vertex of the finer batch has a parent in the coarser one.
//! The objects of graphs, skeletons and meshes can each be coarsened separately ([`objects`]).

mod canonical;
pub(crate) mod chain;
pub(crate) mod collapse;
pub(crate) mod contract;
mod hausdorff;
pub(crate) mod largest_error;
pub(crate) mod lattice;
mod mesh;
mod net;
pub(crate) mod objects;
pub(crate) mod points;
mod quadric;
mod queue;
mod surface;
pub(crate) mod tree;
mod triangle;
mod walk;

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::{Batch, Column, Elements, Field};

use self::largest_error::LargestError;
use crate::batches::count_elements;
use crate::clusters::{Clusters, weights};
use crate::columns::{Points, counts, distance_sq, gather};
use crate::rows::row_number;
use crate::rule::Aggregation;

/// A coarser batch.
#[derive(Debug)]
pub(crate) struct Coarsened {
    pub(crate) batch: Batch,
    /// The parent of each vertex of the finer batch; [`NONE`](crate::rows::NONE) if it has none.
    pub(crate) vertex_map: Vec<u32>,
    /// The largest distance of the finer geometry from it; with its place, for methods that look at
    /// one place at a time.
    pub(crate) farthest: LargestError,
}

impl Coarsened {
    /// Returns the batch unchanged.
    pub(crate) fn from_batch(batch: Batch) -> Self {
        let vertex_map = (0..row_number(batch.len())).collect();
        Self { batch, vertex_map, farthest: LargestError::default() }
    }

    /// Returns the number of edges or faces.
    pub(crate) fn elements(&self) -> u64 {
        count_elements(&self.batch)
    }
}

/// The aggregation rules of attributes.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Rules by the names of attributes.
    pub(crate) named: Vec<(String, Aggregation)>,
    /// The attribute that records how many vertices of level 0 a vertex represents.
    pub(crate) weight: String,
}

impl Rules {
    fn rule_for(&self, field: &Field, merged: bool) -> Aggregation {
        let named = self.named.iter().find(|(name, _)| *name == *field.name);
        named.map_or_else(|| Aggregation::default_for(field, merged), |(_, rule)| *rule)
    }

    /// Returns the weights of the vertices of `batch`; `None` if each represents one.
    pub(crate) fn weights(&self, batch: &Batch) -> Option<Vec<u64>> {
        weights(batch.field(&self.weight))
    }

    /// Returns the attributes of clusters of vertices; for merged vertices, also their weights.
    fn vertex_fields(
        &self,
        batch: &Batch,
        clusters: &Clusters,
        merged: bool,
    ) -> Result<Vec<Field>> {
        let weights = self.weights(batch);
        let mut fields = Vec::new();
        for field in batch.fields().iter().filter(|field| *field.name != *self.weight) {
            fields.extend(clusters.field(
                field,
                self.rule_for(field, merged),
                weights.as_deref(),
            )?);
        }
        if merged || weights.is_some() {
            let column = counts(&clusters.weights(weights.as_deref())?)?;
            fields.push(Field::new(self.weight.as_str(), column));
        }
        Ok(fields)
    }

    /// Returns the attributes of clusters of edges or faces.
    fn element_fields(&self, elements: &Elements, clusters: &Clusters) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        for field in elements.fields() {
            fields.extend(clusters.field(field, self.rule_for(field, true), None)?);
        }
        Ok(fields)
    }
}

/// Merges each cluster of vertices of `batch` into one vertex, without elements.
fn merge_batch(
    batch: &Batch,
    clusters: &Clusters,
    positions: Column,
    rules: &Rules,
    is_merged: bool,
) -> Result<Batch> {
    let head =
        |objects: &[_]| clusters.heads().iter().map(|row| objects[usize_from_u32(*row)]).collect();
    let fields = rules.vertex_fields(batch, clusters, is_merged)?;
    let merged = Batch::new(batch.kind(), positions).with_fields(fields)?;
    let Some(objects) = batch.vertex_objects() else { return Ok(merged) };
    Ok(merged.with_vertex_objects(head(objects))?)
}

/// Merges each of `count` clusters of vertices into one at their weighted mean, without elements.
fn merge_to_means(
    batch: &Batch,
    at: &Points,
    (vertex_map, count): (Vec<u32>, usize),
    rules: &Rules,
) -> Result<Coarsened> {
    let clusters = Clusters::new(&vertex_map, count);
    let centers = clusters.centers(at, rules.weights(batch).as_deref());
    let farthest = clusters.largest_error(at, &centers);
    let positions = centers.to_column(batch.positions())?;
    let batch = merge_batch(batch, &clusters, positions, rules, true)?;
    Ok(Coarsened { batch, vertex_map, farthest })
}

/// Keeps the vertices `heads`. Each represents the vertices that `vertex_map` assigns to it. The
/// result has no elements.
fn keep_heads(
    batch: &Batch,
    heads: Vec<u32>,
    vertex_map: Vec<u32>,
    rules: &Rules,
) -> Result<Coarsened> {
    let positions = gather(batch.positions(), &heads);
    let clusters = Clusters::new(&vertex_map, heads.len()).with_heads(heads);
    let batch = merge_batch(batch, &clusters, positions, rules, false)?;
    Ok(Coarsened { batch, vertex_map, farthest: LargestError::default() })
}

/// A segment to which the distances of many points are measured.
#[derive(Clone, Copy, Debug)]
struct Segment<'a> {
    from: &'a [f64],
    to: &'a [f64],
    length: f64, // squared
}

impl<'a> Segment<'a> {
    fn new(from: &'a [f64], to: &'a [f64]) -> Self {
        Self { from, to, length: distance_sq(from, to) }
    }

    /// Returns the squared distance of a point from it.
    fn distance_sq(&self, at: &[f64]) -> f64 {
        let ends = || self.from.iter().zip(self.to);
        let along: f64 = at.iter().zip(ends()).map(|(x, (a, b))| (x - a) * (b - a)).sum();
        let share = if self.length > 0.0 { (along / self.length).clamp(0.0, 1.0) } else { 0.0 };
        let nearest = ends().map(|(a, b)| a + (b - a) * share);
        at.iter().zip(nearest).map(|(x, near)| (x - near) * (x - near)).sum()
    }
}
