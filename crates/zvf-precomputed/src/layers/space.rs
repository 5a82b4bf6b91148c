//! Axes and units of a store in the terms of these formats.
//!
//! Annotations have any number of axes, each with a scale and a unit; skeletons and meshes have
//! three, in nanometres, and a transform. Positions stay in the unit of the store, so that they
//! keep their bits; lengths without a unit are not scaled.

use serde_json::{Map, Value as Json, json};
use zvf_error::Result;
use zvf_format::num::{saturating_floor_i64, trunc_u64};
use zvf_model::{Column, Kind, LevelReader};
use zvf_store::Store;

use super::error::unsupported_error;

/// The contents of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerForm {
    /// Annotations with their indexes.
    Annotations,
    /// Skeletons by segment.
    Skeletons,
    /// Meshes of several resolutions by segment.
    Meshes,
    /// Meshes of one resolution by segment.
    LegacyMeshes,
}

/// A folder of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerSummary {
    /// The name of the folder.
    pub name: String,
    /// The geometry in it.
    pub kind: Kind,
    /// The contents of the folder.
    pub form: LayerForm,
}

/// The axes of a store.
#[derive(Debug)]
pub(crate) struct Space {
    axes: Vec<(String, Option<String>)>,
    offset: Vec<f64>,
    low: Vec<f64>,
    high: Vec<f64>,
}

impl Space {
    pub(crate) fn new(store: &Store) -> Self {
        let root = store.root();
        let axes: Vec<_> =
            root.axes().iter().map(|axis| (axis.name.clone(), axis.unit.clone())).collect();
        let offset = root.zarr_vectors.coordinate_offset.clone();
        let offset = offset.filter(|offset| offset.len() == axes.len());
        let [low, high] = root.zarr_vectors.bounds.clone();
        Self { offset: offset.unwrap_or_else(|| vec![0.0; axes.len()]), axes, low, high }
    }

    pub(crate) fn rank(&self) -> usize {
        self.axes.len()
    }

    /// Returns scale and unit of an axis: metres or seconds if the unit of the store is a length or
    /// a time.
    fn scale(&self, axis: usize) -> (f64, &'static str) {
        let unit = self.axes.get(axis).and_then(|(_, unit)| unit.as_deref());
        unit.and_then(|unit| UNITS.iter().find(|(name, ..)| *name == unit))
            .map_or((1.0, ""), |(_, scale, base)| (*scale, *base))
    }

    /// Returns the axes of annotations.
    pub(crate) fn dimensions(&self) -> Json {
        let entry = |(at, (name, _)): (usize, &(String, _))| {
            let (scale, unit) = self.scale(at);
            (name.clone(), json!([scale, unit]))
        };
        Json::Object(self.axes.iter().enumerate().map(entry).collect::<Map<_, _>>())
    }

    /// Returns the axes in which a viewer shows skeletons and meshes.
    pub(crate) fn view_dimensions(&self) -> Json {
        let names = self.axes.iter().take(3).enumerate();
        let entry = |(at, (name, _)): (usize, &(String, _))| {
            (name.clone(), json!([self.nanometers(at) / 1e9, "m"]))
        };
        Json::Object(names.map(entry).collect::<Map<_, _>>())
    }

    /// Returns the number of nanometres per unit of an axis; 1 if it has no unit.
    fn nanometers(&self, axis: usize) -> f64 {
        match self.scale(axis) {
            // 1e-6 * 1e9 must be 1000 exactly, so it is rounded.
            (scale, "m") if scale >= 1e-9 => (scale * 1e9).round(),
            (scale, "m") => scale * 1e9,
            _ => 1.0,
        }
    }

    /// Returns the transform of skeletons and meshes: by rows, three numbers and an offset.
    ///
    /// # Errors
    ///
    /// When there are more axes than three.
    pub(crate) fn transform(&self) -> Result<Vec<f64>> {
        if self.rank() > 3 {
            let what =
                format!("skeletons and meshes have three axes, and this store has {}", self.rank());
            return Err(unsupported_error(what));
        }
        let mut rows = vec![0.0; 12];
        for axis in 0..3 {
            let scale = self.nanometers(axis);
            let offset = self.offset.get(axis).copied().unwrap_or(0.0) * scale; // a flat store has no third axis
            rows[5 * axis] = scale;
            rows[4 * axis + 3] = offset;
        }
        Ok(rows)
    }

    /// Returns the `info` of a volume without images, whose meshes and skeletons are in the sibling
    /// folders; `None` if there are neither, or more than three axes.
    ///
    /// # Errors
    ///
    /// When the bounds are so large that not every integer there has an exact float.
    pub(crate) fn volume(&self, layers: &[LayerSummary]) -> Result<Option<Json>> {
        let find = |form| layers.iter().find(|layer| layer.form == form).map(|layer| &layer.name);
        let (mesh, skeletons) = (find(LayerForm::Meshes), find(LayerForm::Skeletons));
        if self.rank() > 3 || (mesh.is_none() && skeletons.is_none()) {
            return Ok(None);
        }
        let (mut start, mut size, mut scale) = ([0.0; 3], [1.0; 3], [1.0; 3]);
        for (axis, (low, high)) in self.low.iter().zip(&self.high).enumerate().take(3) {
            let offset = self.offset.get(axis).copied().unwrap_or(0.0); // there are as many as axes
            start[axis] = (low + offset).floor();
            size[axis] = ((high + offset).ceil() - start[axis]).max(1.0);
            scale[axis] = self.nanometers(axis);
            if !(start[axis].abs() <= MAX_VOXEL && size[axis] <= MAX_VOXEL) {
                let what = format!(
                    "a volume has voxels within 2^53, axis {axis} begins at {low} and ends at {high}"
                );
                return Err(unsupported_error(what));
            }
        }
        let mut info = json!({
            "@type": "neuroglancer_multiscale_volume",
            "type": "segmentation", "data_type": "uint64", "num_channels": 1,
            "scales": [{"key": "none", "encoding": "raw", "resolution": scale, "chunk_sizes": [[64, 64, 64]],
                "size": size.map(trunc_u64), "voxel_offset": start.map(saturating_floor_i64)}],
        });
        for (name, folder) in [("mesh", mesh), ("skeletons", skeletons)] {
            if let Some(folder) = folder {
                info[name] = folder.as_str().into();
            }
        }
        Ok(Some(info))
    }

    /// Returns the offset that is added to stored positions of annotations.
    pub(crate) fn offset(&self) -> &[f64] {
        &self.offset
    }

    /// Returns the centre and the largest extent of the store, in its unit.
    pub(crate) fn view(&self) -> (Vec<f64>, f64) {
        let sides = self.low.iter().zip(&self.high);
        let extent = sides.clone().map(|(low, high)| high - low).fold(0.0, f64::max);
        let offset = |at: usize| self.offset.get(at).copied().unwrap_or(0.0);
        let middle = sides.enumerate().map(|(at, (low, high))| (low + high) / 2.0 + offset(at));
        (middle.collect(), if extent.is_finite() && extent > 0.0 { extent } else { 1.0 })
    }
}

/// Returns a coordinate of a vertex; a missing axis is 0.
pub(crate) fn coordinate(positions: &Column, row: usize, axis: usize) -> f64 {
    positions.float(row, axis).unwrap_or(0.0)
}

/// Returns the number of a chunk or cell along an axis. It must be small enough that viewers, which
/// compute with floats, can add two of them exactly.
///
/// # Errors
///
/// When it is larger; vertex coordinates cannot distinguish such chunks.
pub(crate) fn check_place(place: i128) -> Result<i64> {
    let found = i64::try_from(place).ok().filter(|place| place.unsigned_abs() <= MAX_PLACE);
    found.ok_or_else(|| {
        let what = format!("chunks and cells have numbers within 2^52, and one has {place}");
        unsupported_error(what)
    })
}

/// Returns whether `cells` cells from number `low` on can be halved: their numbers then stay within
/// the limit.
pub(crate) fn can_halve(low: i64, cells: u64) -> bool {
    let high = i128::from(low) + i128::from(cells);
    [low.into(), high].into_iter().all(|place: i128| check_place(2 * place).is_ok())
}

/// Returns whether a grid of this shape has a cell.
pub(crate) fn has_cell(shape: &[u64], cell: &[u64]) -> bool {
    cell.len() == shape.len() && cell.iter().zip(shape).all(|(at, cells)| at < cells)
}

/// Returns the size of a chunk of a level.
pub(crate) fn chunk_sizes(level: &LevelReader) -> Vec<f64> {
    level.chunk_shape().sizes().to_vec()
}

/// The largest number of a chunk or cell: half of the range in which floats represent every
/// integer.
const MAX_PLACE: u64 = 1 << 52;
/// The range in which floats represent every integer: 2^53.
const MAX_VOXEL: f64 = 9_007_199_254_740_992.0;

/// Units that viewers support, with their scale and base.
const UNITS: &[(&str, f64, &str)] = &[
    ("meter", 1.0, "m"),
    ("decimeter", 1e-1, "m"),
    ("centimeter", 1e-2, "m"),
    ("millimeter", 1e-3, "m"),
    ("micrometer", 1e-6, "m"),
    ("nanometer", 1e-9, "m"),
    ("angstrom", 1e-10, "m"),
    ("picometer", 1e-12, "m"),
    ("kilometer", 1e3, "m"),
    ("m", 1.0, "m"),
    ("cm", 1e-2, "m"),
    ("mm", 1e-3, "m"),
    ("um", 1e-6, "m"),
    ("nm", 1e-9, "m"),
    ("km", 1e3, "m"),
    ("second", 1.0, "s"),
    ("millisecond", 1e-3, "s"),
    ("microsecond", 1e-6, "s"),
    ("s", 1.0, "s"),
    ("ms", 1e-3, "s"),
];

#[cfg(test)]
mod tests {
    use zvf_model::Kind;

    use super::*;

    #[test]
    fn numbers_of_cells_are_floats_after_halving_too() {
        let max = 1_i64 << 52;
        assert_eq!([max, -max].map(|place| check_place(place.into()).unwrap()), [max, -max]);
        let error = check_place(i128::from(max) + 1).unwrap_err().to_string();
        assert_eq!(
            error,
            "Unsupported, chunks and cells have numbers within 2^52, and one has 4503599627370497"
        );
        assert!(check_place(i128::MIN).is_err());
        assert!(can_halve(-max / 2, max.cast_unsigned()));
        for (low, cells) in [(-max / 2 - 1, 1), (0, max.cast_unsigned() / 2 + 1), (0, u64::MAX)] {
            assert!(!can_halve(low, cells), "{low} {cells}");
        }
    }

    #[test]
    fn a_volume_has_the_bounds_of_the_store_or_is_refused() {
        let mesh = LayerSummary { name: "mesh".into(), kind: Kind::Mesh, form: LayerForm::Meshes };
        let volume = |low: f64, high: f64| {
            let axes = ["x", "y", "z"].map(|name| (name.to_owned(), Some("nm".to_owned())));
            let (offset, low, high) = (vec![0.0; 3], vec![low; 3], vec![high; 3]);
            Space { axes: axes.into(), offset, low, high }.volume(std::slice::from_ref(&mesh))
        };
        let info = volume(-2.5, 4.5).unwrap().unwrap();
        let scale = &info["scales"][0];
        assert_eq!(
            (&scale["voxel_offset"], &scale["size"]),
            (&json!([-3, -3, -3]), &json!([8, 8, 8]))
        );
        for (low, high) in [(-1e300, 1.0), (0.0, 1e300), (f64::NAN, 1.0)] {
            let error = volume(low, high).unwrap_err();
            assert_eq!(error.class(), zvf_format::Class::Unsupported, "{error}");
        }
    }
}
