//! Reader of brain surfaces and values for their vertices: GIFTI and `FreeSurfer`.
//!
//! ```text
//! a file     point sets with faces, or values for the vertices of another file, or both
//! a folder   surfaces of both hemispheres, each an object (left 0, right 1), with the values that fit them
//! ```
//!
//! The first surface of a hemisphere (white, midthickness, pial, or else by name) provides
//! positions and faces; others with the same faces become attributes `coords_NAME`. Values join by
//! hemisphere and must have as many rows as there are vertices. Labels become categories.
//! `zv_join_key` is hemisphere << 32 | vertex of the file, since chunks reorder vertices.
//!
//! Values without a surface have one row per vertex, with the vertex number as the only axis; a
//! label has the positions of its vertices, which are objects of one group.
//!
//! Matrices between spaces, metadata, keys and colours of labels go to the header record `surface`; no matrix is
//! applied.

pub(crate) mod freesurfer;
pub(crate) mod gifti;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_i64, saturating_usize, to_u64};
use zvf_formats::{
    BOOL, Bytes, FileReader, ReadOptions, Spot, WholeFile, WholeGeometry, cannot_hold,
    missing_number, number_column, read_failed,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::Group;
use zvf_model::{Column, Field, Kind, ObjectId};

/// Reads a file, or the files of a folder whose names satisfy `is_member`, and joins them.
fn open_files(
    bytes: Bytes,
    options: &ReadOptions,
    format: &'static str,
    is_member: impl Fn(&str) -> bool,
    parse: impl Fn(&WholeFile) -> Result<SurfaceFile>,
) -> Result<FileReader> {
    let read = |bytes| parse(&WholeFile::read(bytes, options)?);
    let files = match bytes.path().filter(|_| bytes.is_folder()) {
        Some(folder) => {
            let open = |path: &PathBuf| {
                let mut bytes = Bytes::open(path)?;
                bytes.set_format(format);
                read(bytes)
            };
            list_folder(folder, is_member)?.iter().map(open).collect::<Result<_>>()?
        }
        None => vec![read(bytes)?],
    };
    join_files(files, format)?.into_reader(format, options)
}

/// The contents of one file.
#[derive(Debug, Default)]
pub(crate) struct SurfaceFile {
    /// The name of the file, for messages.
    place: String,
    /// The name of the surface or of the values: `white`, `thickness`.
    pub(crate) name: String,
    /// 0 is left, 1 is right.
    pub(crate) hemisphere: Option<u32>,
    /// Point sets with three numbers per vertex, with their names if they have any.
    point_sets: Vec<(Option<String>, Column)>,
    /// Three vertices a face.
    pub(crate) faces: Option<Vec<i64>>,
    pub(crate) values: Vec<SurfaceValues>,
    /// The fields that replace `values` if there is no surface.
    fields_without_surface: Vec<Field>,
    /// The positions of the vertices of a label, and its name.
    pub(crate) label: Option<(Column, String)>,
    pub(crate) record: Map<String, Json>,
    pub(crate) left_out: Vec<String>,
}

/// Values for vertices.
#[derive(Debug)]
pub(crate) struct SurfaceValues {
    pub(crate) field: Field,
    /// The vertices with values, none negative, where not all vertices have values.
    pub(crate) nodes: Option<Vec<i64>>,
}

impl SurfaceFile {
    /// Parses the name and the hemisphere from the name of a file.
    fn from_file_name(path: Option<&Path>) -> Self {
        let name = path.and_then(Path::file_name).and_then(|name| name.to_str());
        let place = name.unwrap_or("the file").to_owned();
        let name = name.unwrap_or("");
        let hemisphere = match name {
            _ if name.starts_with("lh.") || name.contains(".L.") => Some(0),
            _ if name.starts_with("rh.") || name.contains(".R.") => Some(1),
            _ => None,
        };
        let stem = name.strip_prefix("lh.").or_else(|| name.strip_prefix("rh.")).unwrap_or(name);
        let ends =
            [".surf.gii", ".shape.gii", ".func.gii", ".label.gii", ".gii", ".annot", ".label"];
        let stem = ends.iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
        Self { place, name: stem.to_owned(), hemisphere, ..Self::default() }
    }

    /// Returns the rank of the surface as a source of positions, 0 first.
    fn rank(&self) -> usize {
        let rank = BASE_SURFACES.iter().position(|base| self.name.contains(base));
        rank.unwrap_or(BASE_SURFACES.len())
    }
}

/// Surfaces that provide the positions, by preference.
const BASE_SURFACES: [&str; 4] = ["white", "midthickness", "pial", "orig"];

/// Joins files of `format`.
fn join_files(files: Vec<SurfaceFile>, format: &'static str) -> Result<WholeGeometry> {
    let (mut surfaces, values): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| !file.point_sets.is_empty());
    surfaces.sort_by(|a, b| (a.rank(), &a.name).cmp(&(b.rank(), &b.name)));
    let mut hemispheres: BTreeMap<u32, Hemisphere> = BTreeMap::new();
    let is_single = surfaces.len() == 1;
    for file in surfaces {
        let id = file.hemisphere.unwrap_or(0); // a surface by itself is object 0
        match hemispheres.get_mut(&id) {
            None => {
                hemispheres.insert(id, Hemisphere::new(file, format)?);
            }
            Some(hemisphere) => hemisphere.join_surface(file)?,
        }
    }
    if hemispheres.is_empty() {
        return join_value_files(values, format);
    }
    let is_only = hemispheres.len() == 1;
    let mut left_out = Vec::new();
    for file in values {
        // Where names do not tell hemispheres apart, the values are those of the only surface.
        let fits = |hemisphere: &&mut Hemisphere| match (file.hemisphere, hemisphere.side) {
            (Some(side), Some(own_side)) => side == own_side,
            _ => is_only,
        };
        match hemispheres.values_mut().find(fits) {
            Some(hemisphere) => hemisphere.join_values(file)?,
            None => left_out.push(format!("{}, whose hemisphere has no surface", file.place)),
        }
    }
    let mut geometry = join_hemispheres(hemispheres, is_single)?;
    geometry.header.left_out.extend(left_out);
    Ok(geometry)
}

/// Joins values without a surface: one row per vertex, with the vertex number as the only axis; a
/// label has positions and a group.
fn join_value_files(files: Vec<SurfaceFile>, format: &'static str) -> Result<WholeGeometry> {
    let mut rows: Option<Vec<i64>> = None;
    let (mut fields, mut record, mut left_out) = (Vec::new(), Map::new(), Vec::new());
    let is_single = files.len() == 1;
    let mut label = None;
    for file in files {
        for values in &file.values {
            let value_rows: Vec<i64> = match &values.nodes {
                Some(nodes) => nodes.clone(),
                None => (0..).take(values.field.column.len()).collect(),
            };
            if let Some(rows) = rows.as_ref().filter(|rows| **rows != value_rows) {
                let expected = format!("{} values", rows.len());
                let found = format!("{} of {}", value_rows.len(), values.field.name);
                let spot = Spot::new(format, &file.place);
                return spot.refuse(Class::CountMismatch, expected, found);
            }
            rows = Some(value_rows);
        }
        let own_fields = match file.fields_without_surface.is_empty() {
            true => file.values.into_iter().map(|values| values.field).collect(),
            false => file.fields_without_surface,
        };
        own_fields.into_iter().for_each(|field| push_field(&mut fields, field));
        label = file.label.filter(|_| is_single);
        if !file.record.is_empty() {
            record.insert(file.name, Json::Object(file.record));
        }
        left_out.extend(file.left_out);
    }
    let rows = rows.unwrap_or_default();
    let vertex_numbers = number_column(Dtype::INT64, 1, &rows, |row| row.to_le_bytes())?;
    let mut geometry = match label {
        Some((places, name)) => {
            let mut geometry = WholeGeometry::new(Kind::PointCloud, places, fields)?;
            geometry.header = geometry.header.with_unit("millimeter");
            let members: Vec<ObjectId> = rows.iter().map(|row| ObjectId(*row)).collect();
            let owners = members.iter().copied().map(Some).collect();
            geometry.batch = geometry.batch.with_vertex_objects(owners)?;
            geometry.groups = vec![Group { name: Some(name), members }];
            geometry
        }
        None => {
            let mut geometry = WholeGeometry::new(Kind::PointCloud, vertex_numbers, fields)?;
            geometry.header.axes = vec!["vertex".to_owned()];
            let note = "the file has no surface: the positions are vertex numbers";
            geometry.header.notes.push(note.to_owned());
            geometry
        }
    };
    geometry.header.left_out = left_out;
    if !record.is_empty() {
        geometry.header.records.push(("surface".to_owned(), Json::Object(record)));
    }
    Ok(geometry)
}

/// The surface of a hemisphere with all values of its vertices.
struct Hemisphere {
    format: &'static str,
    name: String,
    side: Option<u32>, // as the first file says
    positions: Column,
    faces: Vec<i64>,
    fields: Vec<Field>,
    record: Map<String, Json>,
    left_out: Vec<String>,
}

impl Hemisphere {
    fn new(mut file: SurfaceFile, format: &'static str) -> Result<Self> {
        let (_, positions) = file.point_sets.remove(0);
        let faces = file.faces.take().unwrap_or_default();
        let vertices = positions.len();
        if let Some((at, vertex, class)) = find_no_vertex(&faces, vertices) {
            let spot = Spot::new(format, format!("{}, face {}", file.place, at / 3));
            return spot.refuse(class, format!("vertices below {vertices}"), vertex);
        }
        let (fields, record, left_out) = Default::default();
        let (name, side) = (file.name.clone(), file.hemisphere);
        let mut hemisphere =
            Self { format, name, side, positions, faces, fields, record, left_out };
        hemisphere.join_values(file)?;
        Ok(hemisphere)
    }

    /// Adds a surface of the same faces as coordinates of its vertices.
    fn join_surface(&mut self, mut file: SurfaceFile) -> Result<()> {
        if file.faces.take().is_some_and(|faces| faces != self.faces) {
            let expected = format!("the faces of {}", self.name);
            let spot = Spot::new(self.format, file.place).hint("convert each surface by itself");
            return spot.refuse(Class::CountMismatch, expected, "others");
        }
        self.join_values(file)
    }

    fn join_values(&mut self, file: SurfaceFile) -> Result<()> {
        let vertices = self.positions.len();
        let spot = Spot::new(self.format, &*file.place);
        for (name, points) in file.point_sets {
            let expected = format_args!("{vertices} vertices as {} has", self.name);
            let found = format_args!("{} vertices", points.len());
            spot.ensure(points.len() == vertices, Class::CountMismatch, expected, found)?;
            let name = format!("coords_{}", name.as_deref().unwrap_or(&file.name));
            push_field(&mut self.fields, Field::new(name, points));
        }
        for SurfaceValues { field, nodes } in file.values {
            match nodes {
                Some(nodes) => {
                    if let Some((_, node, _)) = find_no_vertex(&nodes, vertices) {
                        let expected = format!("vertices below {vertices}");
                        return spot.refuse(Class::OutOfBounds, expected, node);
                    }
                    for field in spread_to_all_vertices(&field, &nodes, vertices)? {
                        push_field(&mut self.fields, field);
                    }
                }
                None if field.column.len() == vertices => push_field(&mut self.fields, field),
                None => {
                    let found = format!("{} values of {}", field.column.len(), field.name);
                    let expected = format!("{vertices} as {} has vertices", self.name);
                    return spot.refuse(Class::CountMismatch, expected, found);
                }
            }
        }
        if !file.record.is_empty() {
            self.record.insert(file.name, Json::Object(file.record));
        }
        self.left_out.extend(file.left_out);
        Ok(())
    }

    /// Adds the other hemisphere with the fields that both have; others are left out with a note.
    fn append(&mut self, other: Self) -> Result<()> {
        let first = saturating_i64(to_u64(self.positions.len())); // a length in memory
        if self.positions.dtype() != other.positions.dtype() {
            let advice = "convert each hemisphere by itself";
            return Err(cannot_hold("a surface", "positions of two types", advice));
        }
        let join = |column: &Column, other: &Column| {
            let bytes = [&**column.bytes(), &**other.bytes()].concat();
            zvf_formats::new_column(column.dtype(), column.width(), bytes)
        };
        self.positions = join(&self.positions, &other.positions)?;
        self.faces.extend(other.faces.iter().map(|vertex| vertex + first));
        self.left_out.extend(other.left_out);
        let is_same = |a: &Field, b: &Field| {
            a.name == b.name
                && (a.column.dtype(), a.column.width()) == (b.column.dtype(), b.column.width())
                && a.categories == b.categories
        };
        let (mut joined, mut alone) = (Vec::new(), Vec::new());
        for field in std::mem::take(&mut self.fields) {
            match other.fields.iter().find(|candidate| is_same(&field, candidate)) {
                Some(same) => joined.push(field.with_column(join(&field.column, &same.column)?)),
                None => alone.push(field),
            }
        }
        let is_joined = |field: &Field| joined.iter().any(|other| is_same(other, field));
        alone.extend(other.fields.into_iter().filter(|field| !is_joined(field)));
        let note =
            |field: Field| format!("{}, which not every hemisphere has in one form", field.name);
        self.left_out.extend(alone.into_iter().map(note));
        self.fields = joined;
        Ok(())
    }
}

/// Adds a field under a unique name.
fn push_field(fields: &mut Vec<Field>, field: Field) {
    let is_taken = |name: &str| fields.iter().any(|field| *field.name == *name);
    let mut name = field.name.to_string();
    let mut number = 1;
    while is_taken(&name) {
        number += 1;
        name = format!("{}_{number}", field.name);
    }
    fields.push(Field { name: name.into(), ..field });
}

/// Returns the first number that is not that of a vertex, and its place.
fn find_no_vertex(numbers: &[i64], vertices: usize) -> Option<(usize, i64, Class)> {
    let is_vertex = |number: i64| usize::try_from(number).is_ok_and(|number| number < vertices);
    let at = numbers.iter().position(|number| !is_vertex(*number))?;
    let class = if numbers[at] < 0 { Class::Negative } else { Class::OutOfBounds };
    Some((at, numbers[at], class))
}

/// Extends values of some vertices to all vertices: the others are NaN, or marked as not present.
fn spread_to_all_vertices(field: &Field, nodes: &[i64], vertices: usize) -> Result<Vec<Field>> {
    let dtype = field.column.dtype();
    let stride = field.column.stride();
    let missing = missing_number(dtype);
    let mut bytes = missing.repeat(vertices * stride / missing.len());
    let mut present = vec![0_u8; vertices];
    for (node, row) in nodes.iter().zip(field.column.rows()) {
        let node = saturating_usize(node.unsigned_abs()); // the caller checked all
        bytes[node * stride..(node + 1) * stride].copy_from_slice(row);
        present[node] = 1;
    }
    let column = zvf_formats::new_column(dtype, field.column.width(), bytes)?;
    let mut fields = vec![field.with_column(column)];
    if !matches!(dtype.kind, DtypeKind::Float | DtypeKind::Bool) {
        let name = format!("{}_present", field.name);
        fields.push(Field::new(name, zvf_formats::new_column(BOOL, 1, present)?));
    }
    Ok(fields)
}

/// Joins the hemispheres to one mesh with an object for each.
fn join_hemispheres(
    hemispheres: BTreeMap<u32, Hemisphere>,
    is_single: bool,
) -> Result<WholeGeometry> {
    let (mut keys, mut owners, mut objects, mut names) = (vec![], vec![], vec![], vec![]);
    let count = hemispheres.len();
    let mut record = Map::new();
    let mut joined: Option<Hemisphere> = None;
    for (id, mut hemisphere) in hemispheres {
        let (object, rows) = (ObjectId(i64::from(id)), hemisphere.positions.len());
        keys.extend((0_i64..).take(rows).map(|row| (object.0 << 32) | row));
        owners.extend(std::iter::repeat_n(Some(object), rows));
        objects.push(object);
        names.push(match (is_single, id) {
            (true, _) => hemisphere.name.clone(),
            (_, 0) => "CortexLeft".to_owned(),
            (_, _) => "CortexRight".to_owned(),
        });
        let prefix = match (count, id) {
            (1, _) => "",
            (_, 0) => "lh.", // both may have a file of this name
            (_, _) => "rh.",
        };
        for (name, file) in std::mem::take(&mut hemisphere.record) {
            record.insert(format!("{prefix}{name}"), file);
        }
        match &mut joined {
            None => joined = Some(hemisphere),
            Some(joined) => joined.append(hemisphere)?,
        }
    }
    let no_surface = || cannot_hold("a surface", "no positions", "give a surface");
    let Hemisphere { positions, faces, mut fields, left_out, .. } =
        joined.ok_or_else(no_surface)?;
    let keys = number_column(Dtype::INT64, 1, &keys, |key| key.to_le_bytes())?;
    fields.push(Field::new("zv_join_key", keys));
    let mut geometry = WholeGeometry::new(Kind::Mesh, positions, fields)?;
    geometry.batch = geometry.batch.with_vertex_objects(owners)?;
    geometry.header = geometry.header.with_unit("millimeter");
    let rows = number_column(Dtype::INT64, 3, &faces, |vertex| vertex.to_le_bytes())?;
    geometry.elements = Some((rows, Vec::new()));
    geometry.objects = objects;
    geometry.object_fields = vec![zvf_formats::text_field("name", &names)?];
    geometry.header.left_out = left_out;
    if !record.is_empty() {
        geometry.header.records.push(("surface".to_owned(), Json::Object(record)));
    }
    Ok(geometry)
}

/// Returns whether a folder has a GIFTI file.
pub(crate) fn has_gifti(folder: &Path) -> bool {
    list_folder(folder, is_gifti).is_ok_and(|paths| !paths.is_empty())
}

fn is_gifti(name: &str) -> bool {
    name.ends_with(".gii")
}

/// Lists the files of a folder whose names satisfy `is_wanted`, in order.
fn list_folder(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read_failed)? {
        let entry = entry.map_err(read_failed)?;
        let is_file = entry.file_type().map_err(read_failed)?.is_file();
        if is_file && entry.file_name().to_str().is_some_and(&is_wanted) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden::{self, Gathered, read_file};

    #[test]
    fn golden_files_of_gifti() {
        golden::check_files("gifti", &ReadOptions::default());
        for (name, facts) in golden::read_expected("gifti")["files"].as_object().unwrap() {
            let file = read_file(&golden::folder("gifti").join(name), "GIFTI").unwrap();
            let parsed = gifti::parse(&file).unwrap();
            let arrays = facts["gifti"]["arrays"].as_array().unwrap();
            assert_eq!(parsed.arrays.len(), arrays.len(), "{name}");
            for (array, facts) in parsed.arrays.iter().zip(arrays) {
                let field = Field::new("array", array.values.clone());
                Gathered::from_field(&field).compare(name, facts);
            }
        }
    }

    #[test]
    fn refuses_malformed_numbers_in_gifti() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gii");
        std::fs::write(folder.path().join("a.dat"), [0; 8]).unwrap();
        let array = |attributes: &str, inside: &str| {
            format!(
                r#"<DataArray DataType="NIFTI_TYPE_UINT8" Dim0="1" {attributes}>{inside}</DataArray>"#
            )
        };
        let beside = r#"Encoding="ExternalFileBinary" ExternalFileName="a.dat" ExternalFileOffset"#;
        let matrix = "<CoordinateSystemTransformMatrix><MatrixData>1 0 zero</MatrixData>\
            </CoordinateSystemTransformMatrix><Data>1</Data>";
        let label = r#"<LabelTable><Label Key="1" Red="0.5" Green="half">one</Label></LabelTable>"#;
        #[rustfmt::skip]
        let table = [
            (label.to_owned(), "a number as Green of a label, found \"half\""),
            (array("", matrix), "numbers in MatrixData, found \"zero\""),
            (array(&format!("{beside}=\"0x10\""), ""), "a whole number of bytes, found \"0x10\""),
        ];
        for (inside, message) in table {
            std::fs::write(&path, format!("<GIFTI>{inside}</GIFTI>")).unwrap();
            let error = read_file(&path, "GIFTI").and_then(|file| gifti::parse(&file));
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("Encoding in GIFTI, "), "{error}");
            assert!(error.ends_with(&format!(": expected {message}")), "{error}");
        }
        // An offset that is a number is used.
        let good = array(&format!("{beside}=\" 7 \""), "<Data/>");
        std::fs::write(&path, format!("<GIFTI>{good}</GIFTI>")).unwrap();
        let file = read_file(&path, "GIFTI").unwrap();
        assert_eq!(gifti::parse(&file).unwrap().arrays[0].values.len(), 1);
    }

    #[test]
    fn golden_files_of_freesurfer() {
        let expected = golden::read_expected("freesurfer");
        golden::check_good("freesurfer", &ReadOptions::default());
        let read = |path: &Path| freesurfer::parse(&read_file(path, "FreeSurfer")?);
        for (name, facts) in expected["files"].as_object().unwrap() {
            let file = read(&golden::folder("freesurfer").join(name)).unwrap();
            for column in facts["vertex_attributes"].as_array().into_iter().flatten() {
                let column_name = column["name"].as_str().unwrap();
                let field = &file.values[0].field;
                match column_name {
                    "label" => {
                        let codes = Field::new("label", field.column.clone());
                        Gathered::from_field(&codes).compare(name, column);
                    }
                    "colour_id" => {}
                    _ => Gathered::from_field(field).compare(name, column),
                }
            }
            for group in facts["groups"].as_object().into_iter().flatten() {
                let nodes = file.values[0].nodes.as_ref().unwrap();
                assert_eq!(nodes.len() as u64, group.1["count"].as_u64().unwrap(), "{name}");
                let bytes: Vec<u8> = nodes.iter().flat_map(|node| node.to_le_bytes()).collect();
                assert_eq!(golden::sha256(&bytes), group.1["sha256"].as_str().unwrap(), "{name}");
            }
            if let Some(volume) = facts["volume"].as_object().filter(|volume| !volume.is_empty()) {
                let Some(Json::Object(found)) = file.record.get("volume") else { panic!("{name}") };
                assert_eq!(found["cras"], volume["cras"], "{name}");
                assert_eq!(found["filename"], volume["filename"], "{name}");
            }
        }
        golden::check_broken("freesurfer", |path| read(path).map(drop));
    }

    #[test]
    fn joins_the_files_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["lh.white", "lh.thickness", "lh.test.annot", "lh.area.label"] {
            let from = golden::folder("freesurfer").join(name);
            std::fs::copy(from, folder.path().join(name)).unwrap();
        }
        let right = golden::folder("freesurfer").join("rh.plain");
        std::fs::copy(right, folder.path().join("rh.white")).unwrap();
        let mut bytes = Bytes::open(folder.path()).unwrap();
        bytes.set_format("FreeSurfer");
        let reader = freesurfer::open(bytes, &ReadOptions::default()).unwrap();
        let read = golden::Collected::from_reader(reader).unwrap();
        assert_eq!((read.positions.len(), read.elements.len()), (162 * 2 * 3, 320 * 2 * 3));
        assert_eq!(read.objects, [ObjectId(0), ObjectId(1)]);
        let names: Vec<&str> = read.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["zv_join_key"]);
        assert_eq!(read.header.left_out.len(), 4, "{:?}", read.header.left_out);
        std::fs::remove_file(folder.path().join("rh.white")).unwrap();
        let reader =
            freesurfer::open(Bytes::open(folder.path()).unwrap(), &ReadOptions::default()).unwrap();
        let read = golden::Collected::from_reader(reader).unwrap();
        let names: Vec<&str> = read.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["area", "area_value", "test", "thickness", "zv_join_key"]);
    }

    #[test]
    fn leaves_out_values_of_a_hemisphere_without_a_surface() {
        let folder = tempfile::tempdir().unwrap();
        for (from, to) in [
            ("lh.white", "lh.white"),
            ("lh.thickness", "lh.thickness"),
            ("lh.thickness", "rh.thickness"),
        ] {
            let from = golden::folder("freesurfer").join(from);
            std::fs::copy(from, folder.path().join(to)).unwrap();
        }
        let bytes = Bytes::open(folder.path()).unwrap();
        let reader = freesurfer::open(bytes, &ReadOptions::default()).unwrap();
        let read = golden::Collected::from_reader(reader).unwrap();
        let names: Vec<&str> = read.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["thickness", "zv_join_key"]);
        assert_eq!(read.header.left_out, ["rh.thickness, whose hemisphere has no surface"]);
    }

    #[test]
    fn refuses_a_label_of_a_vertex_beyond_64_bits() {
        let text = format!("#!ascii label\n1\n{} 0 0 0 1\n", u64::MAX);
        let file = WholeFile { bytes: text.into_bytes(), path: None, format: "FreeSurfer" };
        let error = freesurfer::parse(&file).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Encoding in FreeSurfer, line 3: expected a vertex, found \"18446744073709551615\""
        );
    }

    #[test]
    fn reads_an_array_without_rows_whatever_its_other_dimensions_are() {
        let large = 1_u64 << 40;
        let text = format!(
            r#"<GIFTI><DataArray DataType="NIFTI_TYPE_UINT8" Dimensionality="3" Dim0="0" Dim1="{large}"
            Dim2="{large}"><Data/></DataArray></GIFTI>"#
        );
        let file = WholeFile { bytes: text.into_bytes(), path: None, format: "GIFTI" };
        assert!(gifti::parse(&file).unwrap().arrays[0].values.is_empty());
    }

    #[test]
    fn refuses_an_array_that_inflates_to_more_than_declared() {
        let path = golden::folder("gifti").join("gzip.surf.gii");
        let text = std::fs::read_to_string(path).unwrap();
        let small = text.replace("Dim0=\"162\"", "Dim0=\"3\"");
        let file = WholeFile { bytes: small.into_bytes(), path: None, format: "GIFTI" };
        let error = gifti::parse(&file).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CountMismatch in GIFTI, DataArray 0 Data: expected 36 bytes, found more when unpacked"
        );
    }
}
