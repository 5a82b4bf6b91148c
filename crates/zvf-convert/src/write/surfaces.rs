//! Hemispheres for GIFTI and `FreeSurfer`, with vertices in the order of their files.

use zvf_format::num::floor_i64;
use zvf_model::{Field, Kind, Value};

use super::collected_input::CollectedInput;
use crate::ConvertError;

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

    /// Returns the rows of `field` that belong to this surface.
    pub(crate) fn slice_field(&self, field: &Field) -> Field {
        let mut builder = zvf_model::ColumnBuilder::empty_like(&field.column);
        builder.reserve(self.rows.len());
        self.rows.iter().for_each(|row| builder.push_row(&field.column, *row));
        field.with_column(builder.finish())
    }
}

/// Returns whether the input has values by vertex number only, without positions.
pub(crate) fn is_values(input: &CollectedInput) -> bool {
    input.header.kind == Kind::PointCloud && input.header.axes == ["vertex"]
}

/// Returns the vertex numbers of the values, or `None` where they count from 0.
pub(crate) fn vertex_numbers(
    input: &CollectedInput,
    format: &'static str,
) -> Result<Option<Vec<i64>>, ConvertError> {
    let number = |row| {
        let value = input.batch.positions().value(row, 0);
        let number = match &value {
            Value::Int(number) => Some(*number),
            Value::UInt(number) => i64::try_from(*number).ok(),
            Value::Float(x) => floor_i64(*x).filter(|_| x.fract() == 0.0),
            _ => None,
        };
        number.ok_or_else(|| {
            let what = format!("values of vertex {value}");
            ConvertError::NoType { format, what, advice: "number the vertices from 0" }
        })
    };
    let numbers = (0..input.batch.len()).map(number).collect::<Result<Vec<i64>, _>>()?;
    let is_range = numbers.iter().zip(0..).all(|(number, row)| *number == row);
    Ok((!is_range).then_some(numbers))
}

/// Returns the place of a value among the categories of its attribute, or `None` where it is missing.
pub(crate) fn category_of(field: &Field, row: usize) -> Result<Option<usize>, ConvertError> {
    let category = field
        .value(row, 0)
        .map_err(|code| ConvertError::Category { column: field.name.to_string(), code })?;
    Ok(match (category, field.column.value(row, 0)) {
        (Value::Null, _) => None,
        (_, Value::Int(code)) => usize::try_from(code).ok(),
        (_, Value::UInt(code)) => usize::try_from(code).ok(),
        _ => None,
    })
}

/// Returns the name of the surface, where there is exactly one.
pub(crate) fn surface_name(input: &CollectedInput) -> Option<String> {
    let field = input.object_fields.iter().find(|field| &*field.name == "name")?;
    let name = super::collected_input::format_value(field, 0, 0).ok()?;
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_single = field.column.len() == 1 && !name.is_empty() && name.chars().all(is_plain);
    is_single.then_some(name)
}

/// Returns the surface of each object, or one of all vertices where `is_one` is set, or where no vertex has an object.
///
/// # Errors
///
/// When some vertices have no object, or a face has vertices of several.
pub(crate) fn split_hemispheres(
    input: &CollectedInput,
    is_one: bool,
) -> Result<Vec<Hemisphere>, ConvertError> {
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
    let refuse = |what: String| {
        let advice = "give all vertices of a face to one object";
        ConvertError::NoType { format: "a folder of surfaces", what, advice }
    };
    let mut all: Vec<Hemisphere> = Vec::new();
    for row in 0..input.batch.len() {
        let id = id_of(row).ok_or_else(|| refuse(format!("vertex {row}, which has no object")))?;
        match all.iter_mut().find(|hemisphere| hemisphere.id == id) {
            Some(hemisphere) => hemisphere.rows.push(row),
            None => all.push(Hemisphere { id, rows: vec![row], faces: Vec::new() }),
        }
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
    let mut places = vec![(0, 0); input.batch.len()];
    for (which, hemisphere) in all.iter().enumerate() {
        for (at, row) in hemisphere.rows.iter().enumerate() {
            places[*row] = (which, at);
        }
    }
    for (face, _) in input.triangles() {
        let [a, b, c] = face.map(|row| places[row]);
        if a.0 != b.0 || b.0 != c.0 {
            let what = format!("a face between object {} and another", all[a.0].id);
            return Err(refuse(what));
        }
        all[a.0].faces.push([a.1, b.1, c.1]);
    }
    Ok(all)
}
