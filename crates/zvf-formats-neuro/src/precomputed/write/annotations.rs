//! Writer of annotations: points, lines and polylines with all their indexes.
//!
//! The longest side of a cell is halved until no cell has more than [`MAX_PER_CELL`] annotations.
//! An annotation is in each cell that its box intersects. The annotations of a cell are ordered by
//! a hash of their ids, which looks random to a viewer and is deterministic.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use zvf_error::Result;
use zvf_format::num::mix_bits;
use zvf_formats::{cannot_hold, count_u32, counted_loss, json_items};
use zvf_model::{Extent, Field, Kind, Value};
use zvf_precomputed::encode::encode_annotations;

use crate::precomputed::read::shards::Sharding;
use crate::precomputed::write::sharded::Index;
use crate::precomputed::write::{Folder, Loss, Objects, property_type, push_value};

pub(crate) fn write(
    folder: &Folder,
    sharding: Option<Sharding>,
    objects: &mut Objects,
    losses: &mut Vec<Loss>,
) -> Result<()> {
    let extra = Extra::find(objects)?;
    let kind = match objects.header.kind {
        Kind::PointCloud => match &extra {
            Some(extra) if extra.is_box => "AXIS_ALIGNED_BOUNDING_BOX",
            Some(_) => "ELLIPSOID",
            None => "POINT",
        },
        Kind::Line => "LINE",
        _ => "POLYLINE",
    };
    check_lengths(objects)?;
    let extra_field = extra.as_ref().map(|extra| extra.field);
    let properties = Property::from_fields(&objects.fields, extra_field);
    let related = parse_relationships(objects, losses);
    let mut records = BTreeMap::new();
    let mut by_id = Index::below(folder, "by_id", sharding);
    for (id, rows) in objects.rows.clone() {
        let mut record = Vec::new();
        if kind == "POLYLINE" {
            let count = count_u32(rows.len(), "precomputed", "vertices of a polyline")?;
            record.extend_from_slice(&count.to_le_bytes());
        }
        for row in &rows {
            objects.push_position(*row, &mut record);
        }
        if let Some(extra) = &extra {
            extra.push(objects, id, &mut record);
        }
        let object_row = objects.object_rows.get(&id).copied();
        for property in &properties {
            let field = &objects.fields[property.field];
            for at in property.values.clone() {
                match object_row {
                    Some(row) => push_value(field, row, at, &mut objects.lengths, &mut record),
                    None => {
                        objects.zero_values += 1;
                        record.extend(std::iter::repeat_n(0, property.size));
                    }
                }
            }
        }
        record.resize(record.len().next_multiple_of(4), 0);
        let mut single = record.clone();
        for ids in related.values().map(|by_id| by_id.get(&id).map_or(&[][..], Vec::as_slice)) {
            let count = count_u32(ids.len(), "precomputed", "related objects of one")?;
            single.extend_from_slice(&count.to_le_bytes());
            single.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        }
        by_id.push(id, &id.to_string(), single)?;
        records.insert(id, record);
    }
    let by_id = by_id.finish()?;
    let mut relationship_infos = Vec::new();
    for (number, (name, related_by_id)) in related.iter().enumerate() {
        let key = format!("rel_{number}");
        let mut by_related: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (id, ids) in related_by_id {
            for related in ids {
                by_related.entry(*related).or_default().push(*id);
            }
        }
        let mut index = Index::below(folder, &key, sharding);
        for (related, ids) in by_related {
            index.push(related, &related.to_string(), encode_list(&ids, &records))?;
        }
        let mut info = index.finish()?;
        info["id"] = name.as_str().into();
        relationship_infos.push(info);
    }
    let grid = Grid::new(objects, extra.as_ref());
    let (limit, mut spatial) = grid.write(Index::below(folder, "spatial0", sharding), &records)?;
    spatial["grid_shape"] = json!(grid.shape);
    spatial["chunk_size"] = json!(grid.chunk);
    spatial["limit"] = limit.into();
    let mut dimensions = Map::new();
    for (axis, name) in objects.header.axes.iter().enumerate() {
        let is_length = objects.lengths.is_known();
        let unit = objects.header.units.get(axis).and_then(Option::as_deref);
        let dimension = match unit {
            Some("second") => json!([1, "s"]),
            _ if is_length => json!([1e-9, "m"]),
            _ => json!([1, ""]),
        };
        dimensions.insert(name.clone(), dimension);
    }
    let info = json!({
        "@type": "neuroglancer_annotations_v1",
        "dimensions": dimensions,
        "lower_bound": grid.low,
        "upper_bound": grid.high,
        "annotation_type": kind,
        "properties": properties.iter().map(|p| p.describe(&objects.fields)).collect::<Vec<_>>(),
        "relationships": relationship_infos,
        "by_id": by_id,
        "spatial": [spatial],
    });
    folder.write_json("info", &info)
}

/// Checks that points have one vertex and lines two.
fn check_lengths(objects: &Objects) -> Result<()> {
    let length = match objects.header.kind {
        Kind::PointCloud => 1,
        Kind::Line => 2,
        _ => return Ok(()),
    };
    match objects.rows.iter().find(|(_, rows)| rows.len() != length) {
        None => Ok(()),
        Some((id, rows)) => {
            let what = format!("an annotation of {} vertices, object {id}", rows.len());
            let advice = "annotations are points or lines: leave objects out, or write polylines";
            Err(cannot_hold("precomputed", what, advice))
        }
    }
}

/// The attribute that turns a point into a box (its other corner) or an ellipsoid (its radii).
struct Extra {
    field: usize,
    is_box: bool,
}

impl Extra {
    fn find(objects: &Objects) -> Result<Option<Self>> {
        if objects.header.kind != Kind::PointCloud {
            return Ok(None);
        }
        let axes = objects.header.axes.len();
        let named = objects.fields.iter().position(|field| {
            let is_named = matches!(&*field.name, "upper_corner" | "radii");
            is_named && field.column.width() as usize == axes
        });
        let Some(field) = named else { return Ok(None) };
        let name = &*objects.fields[field].name;
        let mut ids = objects.rows.keys();
        if let Some(id) = ids.find(|id| !objects.object_rows.contains_key(*id)) {
            let what = format!("object {id}, which has no {name}");
            return Err(cannot_hold("precomputed", what, "leave the object or the column out"));
        }
        Ok(Some(Self { field, is_box: name == "upper_corner" }))
    }

    /// Returns a stored coordinate of the corner, or a stored radius.
    fn stored_coordinate(&self, objects: &Objects, id: u64, axis: usize) -> f64 {
        let row = objects.object_rows[&id]; // `find` checked all
        objects.lengths.round_coordinate(&objects.fields[self.field].column, row, axis)
    }

    fn push(&self, objects: &mut Objects, id: u64, to: &mut Vec<u8>) {
        for axis in 0..objects.header.axes.len() {
            let x = self.stored_coordinate(objects, id, axis);
            to.extend_from_slice(&objects.lengths.round_to_f32(x).to_le_bytes());
        }
    }

    /// Extends the box of an annotation.
    fn extend_box(&self, objects: &Objects, id: u64, bounds: &mut [Vec<f64>; 2]) {
        for axis in 0..objects.header.axes.len() {
            let x = self.stored_coordinate(objects, id, axis);
            let [low, high] = bounds;
            if self.is_box {
                (low[axis], high[axis]) = (low[axis].min(x), high[axis].max(x));
            } else {
                (low[axis], high[axis]) = (low[axis] - x.abs(), high[axis] + x.abs());
            }
        }
    }
}

/// A property of annotations, and its values in a column.
struct Property {
    field: usize,
    values: std::ops::Range<usize>,
    name: String,
    kind: &'static str,
    size: usize, // of one value
}

impl Property {
    /// Returns the properties of all columns but that of [`Extra`], the widest first.
    fn from_fields(fields: &[Field], extra_field: Option<usize>) -> Vec<Self> {
        let mut all = Vec::new();
        for (number, field) in fields.iter().enumerate() {
            if extra_field == Some(number) {
                continue;
            }
            let (kind, width) = (property_type(&field.column), field.column.width() as usize);
            let size = match kind {
                "uint8" | "int8" => 1,
                "uint16" | "int16" => 2,
                _ => 4,
            };
            let colour = match (kind, width) {
                ("uint8", 3) => Some("rgb"),
                ("uint8", 4) => Some("rgba"),
                _ => None,
            };
            let name = field.name.to_string();
            if let Some(kind) = colour {
                all.push(Self { field: number, values: 0..width, name, kind, size });
                continue;
            }
            for at in 0..width {
                let name = if width == 1 { name.clone() } else { format!("{name}_{at}") };
                all.push(Self { field: number, values: at..at + 1, name, kind, size });
            }
        }
        all.sort_by_key(|property| std::cmp::Reverse(property.size));
        all
    }

    /// Returns the entry of the property in `info`.
    fn describe(&self, fields: &[Field]) -> Json {
        let mut info = json!({"id": self.name, "type": self.kind});
        if let Some(categories) = &fields[self.field].categories {
            let labels = categories.values().iter().map(Value::to_string);
            info["enum_labels"] = labels.collect::<Vec<_>>().into();
            info["enum_values"] = (0..categories.values().len()).collect::<Vec<_>>().into();
        }
        info
    }
}

/// The related ids of each annotation.
type RelatedIds = BTreeMap<u64, Vec<u64>>;

/// Returns the groups whose names are a relationship and an id, by relationship.
fn parse_relationships(objects: &Objects, losses: &mut Vec<Loss>) -> BTreeMap<String, RelatedIds> {
    let mut all: BTreeMap<String, RelatedIds> = BTreeMap::new();
    let info = crate::precomputed::write::recorded_info(&objects.header);
    for name in json_items(&info["relationships"]) {
        if let Some(name) = name["id"].as_str() {
            all.entry(name.to_owned()).or_default();
        }
    }
    let mut lost = 0_u64;
    for group in &objects.groups {
        let name = group.name.as_deref().unwrap_or_default();
        let parsed =
            name.rsplit_once(':').and_then(|(name, id)| Some((name, id.parse::<u64>().ok()?)));
        let Some((name, related)) = parsed else {
            lost += 1;
            continue;
        };
        let by_id = all.entry(name.to_owned()).or_default();
        for id in group.members.iter().filter_map(|object| objects.ids.get(object)) {
            by_id.entry(*id).or_default().push(related);
        }
    }
    losses.extend(counted_loss(lost, "group", "dropped: not relationships with an id"));
    all
}

/// Encodes the records of `ids`, which are all there, and then the ids.
fn encode_list(ids: &[u64], records: &BTreeMap<u64, Vec<u8>>) -> Vec<u8> {
    let listed: Vec<(u64, &Vec<u8>)> = ids.iter().map(|id| (*id, &records[id])).collect();
    encode_annotations(&listed)
}

/// The cells of the spatial index.
struct Grid {
    low: Vec<f64>,
    high: Vec<f64>,
    shape: Vec<u64>,
    chunk: Vec<f64>,
    boxes: BTreeMap<u64, [Vec<f64>; 2]>,
}

impl Grid {
    fn new(objects: &Objects, extra: Option<&Extra>) -> Self {
        let axes = objects.header.axes.len();
        let nothing = [vec![f64::INFINITY; axes], vec![f64::NEG_INFINITY; axes]];
        let mut all = nothing.clone();
        let mut boxes = BTreeMap::new();
        for (id, rows) in &objects.rows {
            let mut bounds = nothing.clone();
            for row in rows {
                let [low, high] = &mut bounds;
                for (axis, (low, high)) in low.iter_mut().zip(high).enumerate() {
                    let x = objects.lengths.round_coordinate(objects.batch.positions(), *row, axis);
                    (*low, *high) = (low.min(x), high.max(x));
                }
            }
            if let Some(extra) = extra {
                extra.extend_box(objects, *id, &mut bounds);
            }
            all = Extent::union(all, bounds.clone());
            boxes.insert(*id, bounds);
        }
        let [mut low, mut high] = all;
        for (low, high) in low.iter_mut().zip(&mut high) {
            if !low.is_finite() || !high.is_finite() {
                (*low, *high) = (0.0, 1.0);
            }
            // The upper bound is exclusive.
            *high += ((*high - *low) * 1e-6).max(high.abs() * 1e-6).max(1e-3);
        }
        let mut grid = Self { shape: vec![1; axes], chunk: Vec::new(), low, high, boxes };
        grid.update_chunk_size();
        while grid.max_cell_length() > MAX_PER_CELL
            && grid.shape.iter().product::<u64>() < MAX_CELLS
        {
            let longer = |a: usize, b: usize| if grid.chunk[b] >= grid.chunk[a] { b } else { a };
            let longest = (1..axes).fold(0, longer);
            grid.shape[longest] *= 2;
            grid.update_chunk_size();
        }
        grid
    }

    fn update_chunk_size(&mut self) {
        let sizes = self.low.iter().zip(&self.high).zip(&self.shape);
        self.chunk = sizes.map(|((low, high), cells)| (high - low) / *cells as f64).collect();
    }

    /// Returns the annotations of each cell.
    fn cells(&self) -> BTreeMap<Vec<u64>, Vec<u64>> {
        let mut cells: BTreeMap<Vec<u64>, Vec<u64>> = BTreeMap::new();
        for (id, [low, high]) in &self.boxes {
            let place = |x: f64, axis: usize| {
                let cell = ((x - self.low[axis]) / self.chunk[axis]).floor().max(0.0);
                (cell as u64).min(self.shape[axis] - 1)
            };
            let mut open = vec![Vec::new()];
            for axis in 0..self.shape.len() {
                let range = place(low[axis], axis)..=place(high[axis], axis);
                open = open
                    .into_iter()
                    .flat_map(|cell: Vec<u64>| {
                        range.clone().map(move |at| [cell.as_slice(), &[at]].concat())
                    })
                    .collect();
            }
            for cell in open {
                cells.entry(cell).or_default().push(*id);
            }
        }
        cells
    }

    fn max_cell_length(&self) -> usize {
        self.cells().values().map(Vec::len).max().unwrap_or(0)
    }

    /// Writes all cells, and returns the size of the largest cell and the entry of the index in `info`.
    fn write(
        &self,
        mut index: Index<'_>,
        records: &BTreeMap<u64, Vec<u8>>,
    ) -> Result<(usize, Json)> {
        let mut limit = 1;
        for (cell, mut ids) in self.cells() {
            limit = limit.max(ids.len());
            ids.sort_by_key(|id| mix_bits(*id));
            let name: Vec<String> = cell.iter().map(u64::to_string).collect();
            let code = compressed_morton(&cell, &self.shape);
            index.push(code, &name.join("_"), encode_list(&ids, records))?;
        }
        Ok((limit, index.finish()?))
    }
}

/// Returns the compressed Morton code of a cell: the interleaved bits of its coordinates that the grid needs.
fn compressed_morton(cell: &[u64], shape: &[u64]) -> u64 {
    let (mut code, mut to) = (0, 0);
    for bit in 0..u64::BITS {
        for (at, cells) in cell.iter().zip(shape) {
            if (1_u64 << bit) < *cells && to < u64::BITS {
                code |= ((at >> bit) & 1) << to;
                to += 1;
            }
        }
    }
    code
}

/// Most annotations of a cell, unless the grid reaches [`MAX_CELLS`].
const MAX_PER_CELL: usize = 5000;
const MAX_CELLS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn morton_codes_have_only_the_bits_of_the_grid() {
        // Two bits of x, none of y, one of z: x0, z0, x1.
        assert_eq!(compressed_morton(&[3, 0, 1], &[4, 1, 2]), 0b111);
        assert_eq!(compressed_morton(&[2, 0, 0], &[4, 1, 2]), 0b100);
        assert_eq!(compressed_morton(&[0, 0, 1], &[4, 1, 2]), 0b010);
        assert_eq!(compressed_morton(&[2], &[3]), 0b10);
    }
}
