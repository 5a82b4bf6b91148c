//! Clusters of vertices that are merged, and the values of the merged vertices.
//!
//! A cluster has a head: its fixed vertex if it has one, otherwise the first. Columns are computed
//! cluster by cluster, on all cores.

use std::cmp::Reverse;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zvf_error::Result;
use zvf_format::num::{f64_from_u64, saturating_usize, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, Field, Value, push_number};

use crate::columns::{Points, counts, distance_sq, gather};
use crate::error::{setting_error, unsupported_error};
use crate::rows::{Buckets, NONE, row_number};
use crate::rule::Aggregation;
use crate::shape::largest_error::{ErrorLocation, LargestError, compare_points};

/// Vertices, grouped by cluster.
#[derive(Clone, Debug)]
pub(crate) struct Clusters {
    members: Buckets<u32>, // the rows of each
    heads: Vec<u32>,       // one a cluster
}

impl Clusters {
    /// Builds `count` clusters from the cluster of each row. Rows with [`NONE`] are in no cluster;
    /// every cluster has at least one row.
    pub(crate) fn new(cluster_of_row: &[u32], count: usize) -> Self {
        let in_clusters = (0_u32..).zip(cluster_of_row).filter(|(_, cluster)| **cluster != NONE);
        let members = Buckets::new(count, in_clusters.map(|(row, cluster)| (*cluster, row)));
        let heads = (0..count).map(|cluster| members.get(cluster)[0]).collect();
        Self { members, heads }
    }

    /// Returns the same clusters with these vertices as heads.
    pub(crate) fn with_heads(self, heads: Vec<u32>) -> Self {
        Self { heads, ..self }
    }

    /// Returns the head of each cluster.
    pub(crate) fn heads(&self) -> &[u32] {
        &self.heads
    }

    /// Returns the rows of each cluster.
    fn par_members(&self) -> impl IndexedParallelIterator<Item = &[u32]> {
        (0..self.members.len()).into_par_iter().map(|cluster| self.members.get(cluster))
    }

    /// Returns how many vertices of level 0 each cluster represents.
    pub(crate) fn weights(&self, weights: Option<&[u64]>) -> Result<Vec<u64>> {
        let weight = |rows: &[u32]| {
            let mut row_weights = rows.iter().map(|row| weight_of(weights, *row));
            row_weights.try_fold(0_u64, u64::checked_add).ok_or_else(|| {
                let (what, expected) = ("vertices that one stands for", "fewer than 2^64");
                unsupported_error(what, expected, "more")
            })
        };
        self.par_members().map(weight).collect()
    }

    /// Returns the mean position of each cluster.
    pub(crate) fn centers(&self, at: &Points, weights: Option<&[u64]>) -> Points {
        let axes = at.axes;
        let mut centers = vec![0.0; self.heads.len() * axes];
        let clusters = centers.par_chunks_exact_mut(axes.max(1)).zip(self.par_members());
        clusters.for_each(|(sums, rows)| {
            let mut weight = 0.0;
            for row in rows {
                let row_weight = f64_from_u64(weight_of(weights, *row));
                let from = at.point(*row);
                sums.iter_mut().zip(from).for_each(|(sum, x)| *sum += x * row_weight);
                weight += row_weight;
            }
            let means = sums.iter_mut().enumerate();
            means.for_each(|(axis, sum)| *sum = clamp_mean(*sum / weight, at, rows, axis));
        });
        Points { axes, values: centers }
    }

    /// Returns the largest distance between a vertex and the vertex that represents it, and that
    /// vertex.
    pub(crate) fn largest_error(&self, from: &Points, to: &Points) -> LargestError {
        let centers = to.values.par_chunks_exact(to.axes.max(1));
        let errors = self.par_members().zip(centers).map(|(rows, center)| {
            rows.iter().fold((0.0, [].as_slice()), |max, row| {
                let at = from.point(*row);
                max_error(max, (distance_sq(at, center).sqrt(), at))
            })
        });
        let (error, at) = errors.reduce(|| (0.0, [].as_slice()), max_error);
        LargestError { error, at: (error > 0.0).then(|| ErrorLocation::Vertex(at.to_vec())) }
    }

    /// Aggregates a vertex attribute to the clusters; `None` when it is dropped.
    pub(crate) fn field(
        &self,
        field: &Field,
        rule: Aggregation,
        weights: Option<&[u64]>,
    ) -> Result<Option<Field>> {
        rule.check(field)?;
        let column = &field.column;
        let dtype = column.dtype();
        let is_float = dtype.kind == DtypeKind::Float;
        let kind = if dtype.kind == DtypeKind::Bool { DtypeKind::UInt } else { dtype.kind };
        let wide = Dtype { kind, size: 8, ..dtype };
        let column = match rule {
            Aggregation::Drop => return Ok(None),
            Aggregation::First => gather(column, &self.heads),
            Aggregation::Mode => self.modes(column),
            Aggregation::Count => {
                let counts = counts(&self.weights(weights)?)?;
                let mut counted = field.with_column(counts);
                (counted.categories, counted.unit) = (None, None);
                return Ok(Some(counted));
            }
            Aggregation::Mean => {
                self.floats(column, dtype, weights, |found| found.sum / found.weight)?
            }
            Aggregation::Sum if is_float => self.floats(column, wide, None, |found| found.sum)?,
            Aggregation::Min if is_float => self.floats(column, dtype, None, |found| found.min)?,
            Aggregation::Max if is_float => self.floats(column, dtype, None, |found| found.max)?,
            Aggregation::Sum => self.integers(field, wide, |values| values.sum())?,
            Aggregation::Min => self.integers(field, dtype, |values| values.min().unwrap_or(0))?,
            Aggregation::Max => self.integers(field, dtype, |values| values.max().unwrap_or(0))?,
        };
        Ok(Some(field.with_column(column)))
    }

    /// Returns the most frequent value of each cluster; ties go to the first.
    fn modes(&self, column: &Column) -> Column {
        let rows: Vec<u32> = self.par_members().map(|rows| find_mode(column, rows)).collect();
        gather(column, &rows)
    }

    /// Aggregates the numbers of each cluster as floats; NaN where there are none.
    fn floats(
        &self,
        column: &Column,
        target: Dtype,
        weights: Option<&[u64]>,
        aggregate: fn(&Found) -> f64,
    ) -> Result<Column> {
        let (width, values) = (usize_from_u32(column.width()), column.floats());
        let cluster_bytes = |rows: &[u32]| {
            let mut bytes = Vec::with_capacity(width * 8);
            for c in 0..width {
                let mut found =
                    Found { sum: 0.0, weight: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };
                for row in rows {
                    let x = values[usize_from_u32(*row) * width + c];
                    if !x.is_nan() {
                        let weight = f64_from_u64(weight_of(weights, *row));
                        found.sum += x * weight;
                        found.weight += weight;
                        (found.min, found.max) = (found.min.min(x), found.max.max(x));
                    }
                }
                let value = if found.weight <= 0.0 { f64::NAN } else { aggregate(&found) };
                push_number(&mut bytes, target, value);
            }
            bytes
        };
        let bytes: Vec<u8> = self.par_members().flat_map_iter(cluster_bytes).collect();
        Ok(Column::new(target, column.width(), bytes.into())?)
    }

    /// Aggregates integers exactly; a sum that overflows 64 bits is refused.
    fn integers(
        &self,
        field: &Field,
        target: Dtype,
        aggregate: fn(&mut dyn Iterator<Item = i128>) -> i128,
    ) -> Result<Column> {
        let column = &field.column;
        let size = saturating_usize(target.size); // 8 bytes at most
        let is_signed = column.dtype().kind == DtypeKind::Int;
        let max = if is_signed { i64::MAX.into() } else { u64::MAX.into() };
        let min = if is_signed { i64::MIN.into() } else { 0 };
        let cluster_bytes = |rows: &[u32]| {
            let mut bytes = Vec::new();
            for c in 0..usize_from_u32(column.width()) {
                let value = |row: &u32| to_i128(&column.value(usize_from_u32(*row), c));
                // Every cluster has a row, and there are fewer than 2^32 values of 64 bits.
                let x = aggregate(&mut rows.iter().map(value));
                if !(min..=max).contains(&x) {
                    let expected = "a sum that fits in 64 bits: take mean, min or max";
                    let found = format!("{x} for {}", field.name);
                    return Err(setting_error("rule of an attribute", expected, found));
                }
                bytes.extend(x.to_le_bytes().iter().take(size));
            }
            Ok(bytes)
        };
        let bytes: Vec<Vec<u8>> =
            self.par_members().map(cluster_bytes).collect::<Result<_, _>>()?;
        Ok(Column::new(target, column.width(), bytes.concat().into())?)
    }
}

/// The sum, the weight and the range of the numbers of a cluster.
struct Found {
    sum: f64,
    weight: f64,
    min: f64,
    max: f64,
}

/// Limits a mean to the range of its rows on an axis, because rounding must not move it out: a grid
/// cell must contain the mean of its vertices.
fn clamp_mean(mean: f64, at: &Points, rows: &[u32], axis: usize) -> f64 {
    let values = rows.iter().map(|row| at.values[usize_from_u32(*row) * at.axes + axis]);
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if mean < low {
        low
    } else if mean > high {
        high
    } else {
        mean
    }
}

/// Returns the larger of two errors; of equal ones, the one at the lower position.
fn max_error<'a>(a: (f64, &'a [f64]), b: (f64, &'a [f64])) -> (f64, &'a [f64]) {
    let lower = || b.1.is_empty() || !a.1.is_empty() && compare_points(a.1, b.1).is_le();
    if a.0 > b.0 || a.0 == b.0 && lower() { a } else { b }
}

/// Returns the first row with the most frequent value.
fn find_mode(column: &Column, rows: &[u32]) -> u32 {
    let mut values: Vec<(&[u8], u32)> =
        rows.iter().map(|row| (column.row(usize_from_u32(*row)), *row)).collect();
    values.sort_unstable();
    let alike = values.chunk_by(|(a, _), (b, _)| a == b);
    let mode = alike.max_by_key(|alike| (alike.len(), Reverse(alike[0].1)));
    mode.expect("a cluster has a row")[0].1
}

fn to_i128(value: &Value) -> i128 {
    match value {
        Value::Int(n) => (*n).into(),
        Value::UInt(n) => (*n).into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Null | Value::Float(_) | Value::Text(_) => 0,
    }
}

/// Returns the weight of a row, which is 1 without weights.
fn weight_of(weights: Option<&[u64]>, row: u32) -> u64 {
    weights.map_or(1, |weights| weights[usize_from_u32(row)])
}

/// Numbers equal keys alike, in the order of first appearance.
#[derive(Debug)]
pub(crate) struct Numbers<K> {
    numbers: FxHashMap<K, u32>,
}

impl<K: std::hash::Hash + Eq> Numbers<K> {
    pub(crate) fn new() -> Self {
        Self { numbers: FxHashMap::default() }
    }

    /// Returns the number of `key`.
    pub(crate) fn intern(&mut self, key: K) -> u32 {
        let next = row_number(self.numbers.len());
        *self.numbers.entry(key).or_insert(next)
    }

    /// Returns how many distinct keys there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// Returns how many vertices of level 0 each vertex represents, from the attribute that records it.
pub(crate) fn weights(field: Option<&Field>) -> Option<Vec<u64>> {
    let column = &field?.column;
    if let Some(weights) = column.as_slice::<u64>() {
        return Some(weights.to_vec());
    }
    let weight = |row| match column.value(row, 0) {
        Value::UInt(n) => n,
        Value::Int(n) => u64::try_from(n).unwrap_or(0), // less than nothing is nothing
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => 1,
    };
    Some((0..column.len()).map(weight).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(dtype: &str, width: u32, values: &[f64]) -> Field {
        let column =
            crate::columns::column(dtype.parse::<Dtype>().unwrap(), width, values).unwrap();
        Field::new("a", column)
    }

    fn aggregate(field: &Field, rule: Aggregation, weights: Option<&[u64]>) -> Vec<f64> {
        let clusters = Clusters::new(&[1, 0, 1, NONE, 1], 2);
        clusters.field(field, rule, weights).unwrap().unwrap().column.floats()
    }

    #[test]
    fn rules_aggregate_integers_and_floats() {
        let ints = field("int8", 1, &[100.0, 7.0, 100.0, 9.0, -3.0]);
        let floats = field("float32", 1, &[1.0, f64::NAN, 2.0, 9.0, 6.0]);
        for (rule, integer, real) in [
            (Aggregation::Sum, [7.0, 197.0], [f64::NAN, 9.0]),
            (Aggregation::Min, [7.0, -3.0], [f64::NAN, 1.0]),
            (Aggregation::Max, [7.0, 100.0], [f64::NAN, 6.0]),
            (Aggregation::Mode, [7.0, 100.0], [f64::NAN, 1.0]),
            (Aggregation::First, [7.0, 100.0], [f64::NAN, 1.0]),
            (Aggregation::Mean, [7.0, 66.0], [f64::NAN, 3.0]),
            (Aggregation::Count, [1.0, 3.0], [1.0, 3.0]),
        ] {
            assert_eq!(aggregate(&ints, rule, None), integer, "{rule}");
            let actual = aggregate(&floats, rule, None);
            let bits = |values: [f64; 2]| values.map(f64::to_bits);
            assert_eq!(bits([actual[0], actual[1]]), bits(real), "{rule}");
        }
        assert!(Clusters::new(&[0], 1).field(&ints, Aggregation::Drop, None).unwrap().is_none());
    }

    #[test]
    fn mode_takes_the_first_of_the_most_frequent_values() {
        let values: Vec<f64> = (0..60).map(|i| f64::from(i % 20)).collect();
        for (appended, expected) in [(vec![], 0.0), (vec![19.0], 19.0), (vec![7.0, 3.0], 3.0)] {
            let field = field("int16", 1, &[values.clone(), appended].concat());
            let clusters = Clusters::new(&vec![0; field.column.len()], 1);
            let mode = clusters.field(&field, Aggregation::Mode, None).unwrap().unwrap();
            assert_eq!(mode.column.floats(), [expected]);
        }
    }

    #[test]
    fn means_and_counts_are_weighted() {
        let weights = [1, 1, 3, 1, 4];
        let floats = field("float64", 1, &[1.0, 5.0, 2.0, 9.0, 6.0]);
        assert_eq!(aggregate(&floats, Aggregation::Mean, Some(&weights)), [5.0, 31.0 / 8.0]);
        assert_eq!(aggregate(&floats, Aggregation::Count, Some(&weights)), [1.0, 8.0]);
        assert_eq!(aggregate(&floats, Aggregation::Sum, Some(&weights)), [5.0, 9.0]);
        let clusters = Clusters::new(&[0, 0], 1);
        let points = |values: &[f64]| Points { axes: 2, values: values.to_vec() };
        let centers = clusters.centers(&points(&[0.0, 0.0, 4.0, 8.0]), Some(&[3, 1]));
        assert_eq!(centers.values, [1.0, 2.0]);
        let farthest = clusters.largest_error(&points(&[0.0, 0.0, 3.0, 4.0]), &points(&[0.0, 0.0]));
        assert_eq!(farthest.to_json(), serde_json::json!({"error": 5.0, "vertex": [3.0, 4.0]}));
    }

    #[test]
    fn wide_columns_are_aggregated_per_value_and_by_head() {
        let pairs = field("float32", 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let clusters = Clusters::new(&[0, 0, 0], 1).with_heads(vec![2]);
        let values = |rule| clusters.field(&pairs, rule, None).unwrap().unwrap().column.floats();
        assert_eq!(
            (values(Aggregation::Mean), values(Aggregation::First)),
            (vec![3.0, 4.0], vec![5.0, 6.0])
        );
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        let error = Clusters::new(&[0, 0], 1).weights(Some(&[u64::MAX, 1])).unwrap_err();
        let expected = "vertices that one stands for: expected fewer than 2^64, found more";
        assert_eq!(error.sentence(), expected);
    }

    #[test]
    fn sums_that_do_not_fit_are_refused() {
        let bytes: Vec<u8> = [i64::MAX, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
        let integers = Field::new("id", Column::new(Dtype::INT64, 1, bytes.into()).unwrap());
        let clusters = Clusters::new(&[0, 0], 1);
        assert_eq!(
            clusters.field(&integers, Aggregation::Sum, None).unwrap_err().sentence(),
            "rule of an attribute: expected a sum that fits in 64 bits: take mean, min or max, found \
             9223372036854775808 for id"
        );
        let max = clusters.field(&integers, Aggregation::Max, None).unwrap().unwrap();
        assert_eq!(max.column.value(0, 0), Value::Int(i64::MAX));
    }

    #[test]
    fn means_of_text_are_refused() {
        let text =
            Column::new("<U1".parse::<Dtype>().unwrap(), 1, vec![97, 0, 0, 0].into()).unwrap();
        let text = Field::new("label", text);
        let error = Clusters::new(&[0], 1).field(&text, Aggregation::Mean, None).unwrap_err();
        assert_eq!(
            error.sentence(),
            "rule of an attribute: expected mode, count, first or drop for values that are not numbers, found \
             mean for label"
        );
    }
}
