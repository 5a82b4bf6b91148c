//! Hemispheres for GIFTI and `FreeSurfer`, with vertices in the order of their files.

use zvf_model::{Field, Kind, ObjectId, Value};

use super::collected_input::CollectedInput;

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
        let mut builder = zvf_model::ColumnBuilder::like(&field.column);
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
pub(crate) fn vertex_numbers(input: &CollectedInput) -> Option<Vec<i64>> {
    let number = |row| match input.batch.positions().value(row, 0) {
        Value::Int(number) => number,
        _ => -1,
    };
    let numbers: Vec<i64> = (0..input.batch.len()).map(number).collect();
    let is_range = numbers.iter().zip(0..).all(|(number, row)| *number == row);
    (!is_range).then_some(numbers)
}

/// Returns the name of the surface, where there is exactly one.
pub(crate) fn surface_name(input: &CollectedInput) -> Option<String> {
    let field = input.object_fields.iter().find(|field| &*field.name == "name")?;
    let name = super::collected_input::format_value(field, 0, 0).ok()?;
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_single = field.column.len() == 1 && !name.is_empty() && name.chars().all(is_plain);
    is_single.then_some(name)
}

/// Returns the surface of each object, or one of all vertices where `is_one` is set.
pub(crate) fn split_hemispheres(input: &CollectedInput, is_one: bool) -> Vec<Hemisphere> {
    let keys = input.batch.field("zv_join_key").map(|field| {
        let key = |row| match field.column.value(row, 0) {
            Value::Int(key) => key,
            _ => i64::MAX,
        };
        (0..field.column.len()).map(key).collect::<Vec<i64>>()
    });
    let owners = input.owners().unwrap_or_default();
    let id_of = |row: usize| match (is_one, keys.as_ref().and_then(|keys| keys.get(row))) {
        (true, _) => 0,
        (false, Some(key)) => key >> 32,
        (false, None) => owners.get(row).copied().flatten().unwrap_or(ObjectId(0)).0,
    };
    let mut all: Vec<Hemisphere> = Vec::new();
    for row in 0..input.batch.len() {
        let id = id_of(row);
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
            hemisphere.rows.sort_by_key(|row| keys.get(*row).copied().unwrap_or(i64::MAX));
        }
    }
    let mut places = vec![(0, 0); input.batch.len()];
    for (which, hemisphere) in all.iter().enumerate() {
        for (at, row) in hemisphere.rows.iter().enumerate() {
            if let Some(place) = places.get_mut(*row) {
                *place = (which, at);
            }
        }
    }
    let place = |row: usize| places.get(row).copied().unwrap_or((0, 0));
    for (face, _) in input.triangles() {
        let [a, b, c] = face.map(place);
        if a.0 == b.0
            && b.0 == c.0
            && let Some(hemisphere) = all.get_mut(a.0)
        {
            hemisphere.faces.push([a.1, b.1, c.1]);
        }
    }
    all
}
