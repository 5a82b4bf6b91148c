//! Hemispheres for GIFTI and `FreeSurfer`, with vertices in the order of their files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use zvf_error::{Result, format_count};
use zvf_format::num::{floor_i64, nearest_f32};
use zvf_formats::{
    CollectedInput, Millimeters, cannot_hold, counted_loss, field_value, gather_rows, whole_number,
};
use zvf_model::flow::Loss;
use zvf_model::{Categories, Field, Kind, Value};

/// The surface of one object, or of the complete input.
pub(crate) struct Hemisphere {
    /// 0 is left and 1 is right; others have no names.
    pub(crate) id: i64,
    /// The rows of its vertices, in the order of the file.
    pub(crate) rows: Vec<usize>,
    /// Faces of vertices of the file.
    pub(crate) faces: Vec<[usize; 3]>,
}

impl Hemisphere {
    /// Returns the prefix of its file names.
    pub(crate) fn prefix(&self) -> String {
        match self.id {
            0 => "lh".to_owned(),
            1 => "rh".to_owned(),
            id => format!("object_{id}"),
        }
    }

    /// Returns the positions in millimetres: those of the input, or an attribute of this surface.
    pub(crate) fn points(&self, input: &CollectedInput, coords: Option<&Field>) -> Vec<f32> {
        let lengths = Millimeters::new(&input.header);
        let point = |(at, row): (usize, &usize)| match coords {
            Some(field) => [0, 1, 2].map(|c| field.column.float(at, c).unwrap_or(0.0)),
            None => input.point(*row),
        };
        let all = self.rows.iter().enumerate().flat_map(point);
        all.map(|x| nearest_f32(lengths.convert_length(x))).collect()
    }

    /// Returns the rows of `field` that belong to this surface.
    pub(crate) fn slice_field(&self, field: &Field) -> Field {
        field.with_column(gather_rows(&field.column, &self.rows))
    }
}

/// Returns whether the input has values by vertex number only, without positions.
pub(crate) fn is_values(input: &CollectedInput) -> bool {
    input.header.kind == Kind::PointCloud && input.header.axes == ["vertex"]
}

/// Returns the vertex numbers of the values, or `None` if they count from 0.
pub(crate) fn vertex_numbers(
    input: &CollectedInput,
    format: &'static str,
) -> Result<Option<Vec<i64>>> {
    let number = |row| {
        let value = input.batch.positions().value(row, 0);
        let number = match &value {
            Value::Float(x) => floor_i64(*x).filter(|_| x.fract() == 0.0),
            value => whole_number(value).and_then(|number| i64::try_from(number).ok()),
        };
        number.ok_or_else(|| {
            cannot_hold(format, format!("values of vertex {value}"), "number the vertices from 0")
        })
    };
    let numbers = (0..input.batch.len()).map(number).collect::<Result<Vec<i64>, _>>()?;
    let is_range = numbers.iter().zip(0..).all(|(number, row)| *number == row);
    Ok((!is_range).then_some(numbers))
}

/// Returns the index of a value among the categories of its attribute, or `None` if it is missing.
pub(crate) fn category_of(field: &Field, row: usize) -> Result<Option<usize>> {
    let category = field_value(field, row, 0)?;
    Ok(match (category, field.column.value(row, 0)) {
        (Value::Null, _) => None,
        (_, code) => whole_number(&code).and_then(|code| usize::try_from(code).ok()),
    })
}

/// Returns the names of categories; those that are no texts as they are written.
pub(crate) fn label_texts(categories: &Categories) -> Vec<String> {
    let name = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        value => format!("{value:?}"),
    };
    categories.values().iter().map(name).collect()
}

/// Creates a file, and calls `write` with it.
pub(crate) fn create_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let mut file = BufWriter::new(File::create_new(path)?);
    write(&mut file)?;
    Ok(file.flush()?)
}

/// Returns the name of the surface, if there is exactly one.
pub(crate) fn surface_name(input: &CollectedInput) -> Option<String> {
    let field = input.object_fields.iter().find(|field| &*field.name == "name")?;
    let name = zvf_formats::format_value(field, 0, 0).ok()?;
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_single = field.column.len() == 1 && !name.is_empty() && name.chars().all(is_plain);
    is_single.then_some(name)
}

/// Returns the surface of each object, or one of all vertices where `is_one` is set, or where no
/// vertex has an object. Also returns what belongs to no surface: vertices without an object if
/// others have one, and faces with vertices of several.
///
/// # Errors
///
/// When some values by vertex number have no object: those after them would have another number.
pub(crate) fn split_hemispheres(
    input: &CollectedInput,
    is_one: bool,
) -> Result<(Vec<Hemisphere>, Vec<Loss>)> {
    let keys: Option<Vec<i64>> = input.batch.field("zv_join_key").and_then(|field| {
        let key = |row| match field.column.value(row, 0) {
            Value::Int(key) => Some(key),
            _ => None, // an attribute of another meaning
        };
        (0..field.column.len()).map(key).collect()
    });
    let owners = input.owners().filter(|owners| owners.iter().any(Option::is_some));
    let id_of = |row: usize| match (&keys, &owners) {
        _ if is_one => Some(0),
        (Some(keys), _) => Some(keys[row] >> 32),
        (None, Some(owners)) => owners[row].map(|id| id.0),
        (None, None) => Some(0),
    };
    let mut all: Vec<Hemisphere> = Vec::new();
    let (mut dropped_vertices, mut dropped_faces) = (0_u64, 0_u64);
    for row in 0..input.batch.len() {
        let Some(id) = id_of(row) else {
            dropped_vertices += 1;
            continue;
        };
        match all.iter_mut().find(|hemisphere| hemisphere.id == id) {
            Some(hemisphere) => hemisphere.rows.push(row),
            None => all.push(Hemisphere { id, rows: vec![row], faces: Vec::new() }),
        }
    }
    if dropped_vertices > 0 && is_values(input) {
        let what = format!("{} without an object", format_count(dropped_vertices, "value"));
        let advice = "give all of them to an object, or none";
        return Err(cannot_hold("a folder of surfaces", what, advice));
    }
    if all.is_empty() {
        all.push(Hemisphere { id: 0, rows: Vec::new(), faces: Vec::new() });
    }
    all.sort_by_key(|hemisphere| hemisphere.id);
    if let Some(keys) = &keys {
        for hemisphere in &mut all {
            hemisphere.rows.sort_by_key(|row| keys[*row]);
        }
    }
    let mut places = vec![None; input.batch.len()];
    for (which, hemisphere) in all.iter().enumerate() {
        for (at, row) in hemisphere.rows.iter().enumerate() {
            places[*row] = Some((which, at));
        }
    }
    for (face, _) in input.triangles() {
        match face.map(|row| places[row]) {
            [Some((a, first)), Some((b, second)), Some((c, third))] if a == b && b == c => {
                all[a].faces.push([first, second, third]);
            }
            _ => dropped_faces += 1,
        }
    }
    let sentence = "without an object dropped: a folder has a surface for each object";
    let vertices = counted_loss(dropped_vertices, "vertex", sentence);
    let sentence = "dropped: the vertices belong to several objects";
    let faces = counted_loss(dropped_faces, "triangle", sentence);
    Ok((all, vertices.into_iter().chain(faces).collect()))
}

#[cfg(test)]
mod tests {

    use zvf_formats::{FormatOptions, Spec, Target};
    use zvf_metadata::Dtype;
    use zvf_model::flow::{Header, Piece};
    use zvf_model::{Batch, Column, Elements, Kind, ObjectId};

    use crate::shared::create;
    use crate::{FREESURFER, GIFTI};

    fn write_folder(
        format: &'static Spec,
        axes: &[&str],
        batch: &Batch,
    ) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let axes = axes.iter().map(|axis| (*axis).to_owned()).collect();
        let header = Header::from_batch(batch, axes);
        let options = FormatOptions::default();
        let mut writer = create(format, Target::folder(folder.path()), &options).unwrap();
        writer.begin(&header).unwrap();
        writer.write(Piece::Vertices(batch.clone())).unwrap();
        let report = writer.finish().map_err(|error| error.to_string())?;
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "{format}");
        Ok(report.losses.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_on_no_surface_is_reported() {
        let owners = [Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), None];
        let owners = owners.map(|id| id.map(ObjectId)).to_vec();
        let positions = Column::new(Dtype::FLOAT32, 3, vec![0; 7 * 12].into()).unwrap();
        let faces = Elements::new(3, vec![0, 1, 2, 3, 4, 5, 2, 3, 4, 4, 5, 6]).unwrap();
        let mesh = Batch::new(Kind::Mesh, positions).with_vertex_objects(owners.clone()).unwrap();
        let mesh = mesh.with_elements(faces).unwrap();
        for format in [&GIFTI, &FREESURFER] {
            let losses = write_folder(format, &["x", "y", "z"], &mesh).unwrap();
            assert_eq!(
                losses,
                [
                    "1 vertex without an object dropped: a folder has a surface for each object",
                    "2 triangles dropped: the vertices belong to several objects",
                ],
                "{format}"
            );
        }
        let numbers = Column::new(Dtype::INT64, 1, vec![0; 7 * 8].into()).unwrap();
        let values = Batch::new(Kind::PointCloud, numbers).with_vertex_objects(owners).unwrap();
        let error = write_folder(&GIFTI, &["vertex"], &values).unwrap_err();
        assert!(error.contains("1 value without an object"), "{error}");
    }
}
