//! The plan of the checks of one level's cells, computed once from the documents.

use zvf_error::Result;
use zvf_format::grid::{Bins, ChunkShape};
use zvf_format::num::{index_u32, to_u64};
use zvf_metadata::arrays::{ArrayAttributes as _, Vertices};
use zvf_metadata::{CellEncoding, Dtype, DtypeKind, GeometryType, Token};
use zvf_model::open::column;

use super::values::Positions;
use crate::array::ChunkArray;
use crate::finding::Finding;
use crate::findings::Findings;
use crate::level::LevelState;
use crate::rules::{C, M};
use crate::validation::Validation;

/// The plan of the checks of the cells of a level.
pub(crate) struct Plan {
    /// Empty findings with the settings of the run.
    pub(crate) fresh: Findings,
    pub(crate) vertices: String,
    pub(crate) fragments: String,
    /// Whether the array of fragments exists.
    pub(crate) has_fragments: bool,
    /// The storage of rows; `None` if cells cannot be decoded.
    pub(crate) positions: Option<Positions>,
    /// Whether cells are encoded in a way that hides their rows.
    pub(crate) opaque: bool,
    /// Whether cells are Draco streams, which are decoded as a check.
    pub(crate) is_draco: bool,
    /// Whether the level lists its chunks.
    pub(crate) recorded: bool,
    /// Whether fragments are declared to tile.
    pub(crate) tile: bool,
    pub(crate) chunk: Vec<f64>,
    /// Bins that fragments may correspond to.
    pub(crate) bins: Option<Bins>,
    /// Whether points are compared with the bins of their fragments.
    pub(crate) in_bins: bool,
    pub(crate) bounds: [Vec<f64>; 2],
    pub(crate) vertex_columns: Vec<ColumnPlan>,
    pub(crate) fragment_columns: Vec<ColumnPlan>,
    /// Whether the rows of fragments are kept.
    pub(crate) keeps_ends: bool,
}

/// One attribute.
pub(crate) struct ColumnPlan {
    pub(crate) path: String,
    pub(crate) dtype: Dtype,
    /// Values per row, as declared.
    pub(crate) width: u64,
    /// Whether the document states the width.
    pub(crate) named: bool,
    /// The number of categories, and the code for missing values.
    pub(crate) categories: Option<(u64, Option<i64>)>,
    /// Whether the column is the owner column of fragments.
    pub(crate) owner: bool,
    /// Whether the column has the segments of fragments.
    pub(crate) segment: bool,
}

impl Plan {
    pub(crate) fn new(run: &mut Validation, level: &mut LevelState) -> Result<Option<Self>> {
        let Some(vertices) = level.vertices.clone() else { return Ok(None) };
        let fragments = level.fragments.as_ref().map(|array| array.path.clone());
        let root = run.store.root().clone();
        let axes = root.axes().len();
        let positions = positions(run, level, &vertices, axes);
        let chunk = level.node.meta().effective_chunk_shape(&root).to_vec();
        let points = level.is_only(&[GeometryType::PointCloud]) && !level.has_objects();
        let bins = bins(level, &root, &chunk).filter(|bins| points && bins.count() > 1);
        let kinds = level.known_kinds();
        let along = [
            GeometryType::Line,
            GeometryType::Polyline,
            GeometryType::Streamline,
            GeometryType::Skeleton,
        ];
        let mut plans = |columns: &[ChunkArray]| -> Result<Vec<ColumnPlan>> {
            columns.iter().filter_map(|column| plan(run, column).transpose()).collect()
        };
        let vertex_columns = plans(&level.vertex_columns)?;
        let fragment_columns = plans(&level.fragment_columns)?;
        Ok(Some(Self {
            fresh: run.found.new_empty(),
            vertices: vertices.path.clone(),
            has_fragments: fragments.is_some(),
            fragments: fragments.unwrap_or_else(|| level.path("vertex_fragments")),
            positions,
            opaque: level.opaque,
            is_draco: level.is_draco,
            recorded: vertices.recorded,
            tile: level.node.meta().fragments_tile,
            // Only the finest level is known to be written bin by bin.
            in_bins: level.node.number() == 0 && run.options.wants(C[7]),
            chunk,
            bins,
            // An offset is added to positions and bounds alike.
            bounds: root.zarr_vectors.bounds.clone(),
            vertex_columns,
            fragment_columns,
            keeps_ends: kinds.iter().any(|kind| along.contains(kind))
                || level.node.meta().fragment_link_groups
                || level.has_vertex_counts,
        }))
    }

    /// Returns the `arrays` that have a plan.
    pub(crate) fn planned_arrays<'a>(
        columns: &[ColumnPlan],
        arrays: &'a [ChunkArray],
    ) -> Vec<&'a ChunkArray> {
        arrays.iter().filter(|array| columns.iter().any(|plan| plan.path == array.path)).collect()
    }
}

/// Checks M20, C30: how rows are stored.
fn positions(
    run: &mut Validation,
    level: &mut LevelState,
    vertices: &ChunkArray,
    axes: usize,
) -> Option<Positions> {
    let doc = Vertices::parse(vertices.cells.attributes().clone());
    let doc = match doc.and_then(|doc| Ok((doc.dtype()?, doc.encoding))) {
        Ok(doc) => doc,
        Err(error) => {
            run.add(Finding::from_metadata(M[20], &vertices.path, &error));
            level.opaque = true;
            return None;
        }
    };
    match doc.1 {
        None | Some(Token::Known(CellEncoding::Raw)) => {
            Some(Positions { dtype: doc.0, axes: index_u32(axes) })
        }
        Some(Token::Known(CellEncoding::Draco)) => {
            (level.opaque, level.is_draco) = (true, true);
            None
        }
        Some(other) => {
            level.opaque = true;
            run.add(C[30].at(&vertices.path).expects("encoding", "raw", other.as_str()));
            None
        }
    }
}

fn bins(level: &LevelState, root: &zvf_metadata::Root, chunk: &[f64]) -> Option<Bins> {
    let bin = level.node.meta().effective_bin_shape(root, &level.name)?;
    Bins::new(&ChunkShape::new(chunk).ok()?, &bin).ok()
}

/// Checks M20: the type of an attribute.
fn plan(run: &mut Validation, array: &ChunkArray) -> Result<Option<ColumnPlan>> {
    let take = &mut |fault, error| run.collect(fault, &array.path, error);
    let Some((doc, dtype, width)) = column(array.cells.attributes(), take)? else {
        return Ok(None);
    };
    if doc.dtype.is_none() {
        let finding = M[20].at(&array.path);
        run.add(finding.expects("dtype", "an element type", "nothing: read as float32").warning());
    }
    let categories = doc.dictionary.as_ref().map(|d| (to_u64(d.categories.len()), d.missing));
    Ok(Some(ColumnPlan {
        dtype,
        width,
        named: doc.channel_names.as_ref().is_some_and(|names| !names.is_empty()) || width != 1,
        categories,
        owner: array.path.ends_with("/fragment_attributes/object_id") && dtype == Dtype::INT64,
        segment: array.path.ends_with("/fragment_attributes/segment_id")
            && (dtype.kind, dtype.size, width) == (DtypeKind::UInt, 8, 1),
        path: array.path.clone(),
    }))
}
