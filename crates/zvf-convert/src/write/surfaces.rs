//! What GIFTI and `FreeSurfer` share: hemispheres with vertices in the order of their files.

use zvf_model::{Field, Kind, ObjectId, Value};

use super::whole::Whole;

/// A surface on the way to files.
pub(crate) struct Hemisphere {
    /// 0 left, 1 right, others have numbers only.
    pub(crate) id: i64,
    /// The vertices of the whole, in the order of the file.
    pub(crate) rows: Vec<usize>,
    /// Faces of vertices of the file.
    pub(crate) faces: Vec<[usize; 3]>,
}

impl Hemisphere {
    /// What the names of its files begin with.
    pub(crate) fn prefix(&self) -> String {
        match self.id {
            0 => "lh".to_owned(),
            1 => "rh".to_owned(),
            id => format!("object_{id}"),
        }
    }

    /// A field with the rows of this surface.
    pub(crate) fn field(&self, field: &Field) -> Field {
        let mut builder = zvf_model::ColumnBuilder::like(&field.column);
        builder.reserve(self.rows.len());
        self.rows.iter().for_each(|row| builder.push_row(&field.column, *row));
        field.with_column(builder.finish())
    }
}

/// Whether there are values alone, for vertices that have numbers and no places.
pub(crate) fn is_values(whole: &Whole) -> bool {
    whole.header.kind == Kind::PointCloud && whole.header.axes == ["vertex"]
}

/// The numbers of the vertices that values are for; `None` where they are all from 0 on.
pub(crate) fn numbers_of(whole: &Whole) -> Option<Vec<i64>> {
    let number = |row| match whole.batch.positions().value(row, 0) {
        Value::Int(number) => number,
        _ => -1,
    };
    let numbers: Vec<i64> = (0..whole.batch.len()).map(number).collect();
    let all = numbers.iter().zip(0..).all(|(number, row)| *number == row);
    (!all).then_some(numbers)
}

/// The name of the one surface there is.
pub(crate) fn surface_name(whole: &Whole) -> Option<String> {
    let field = whole.object_fields.iter().find(|field| &*field.name == "name")?;
    let name = super::whole::text(field, 0, 0).ok()?;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_single = field.column.len() == 1 && !name.is_empty() && name.chars().all(plain);
    is_single.then_some(name)
}

/// The surfaces of all objects, or one of all vertices where they go to one file.
pub(crate) fn hemispheres(whole: &Whole, is_one: bool) -> Vec<Hemisphere> {
    let keys = whole.batch.field("zv_join_key").map(|field| {
        let key = |row| match field.column.value(row, 0) {
            Value::Int(key) => key,
            _ => i64::MAX,
        };
        (0..field.column.len()).map(key).collect::<Vec<i64>>()
    });
    let owners = whole.owners().unwrap_or_default();
    let id_of = |row: usize| match (is_one, keys.as_ref().and_then(|keys| keys.get(row))) {
        (true, _) => 0,
        (false, Some(key)) => key >> 32,
        (false, None) => owners.get(row).copied().flatten().unwrap_or(ObjectId(0)).0,
    };
    let mut all: Vec<Hemisphere> = Vec::new();
    for row in 0..whole.batch.len() {
        let id = id_of(row);
        match all.iter_mut().find(|known| known.id == id) {
            Some(known) => known.rows.push(row),
            None => all.push(Hemisphere { id, rows: vec![row], faces: Vec::new() }),
        }
    }
    if all.is_empty() {
        all.push(Hemisphere { id: 0, rows: Vec::new(), faces: Vec::new() });
    }
    all.sort_by_key(|known| known.id);
    if let Some(keys) = &keys {
        for known in &mut all {
            known.rows.sort_by_key(|row| keys.get(*row).copied().unwrap_or(i64::MAX));
        }
    }
    let mut places = vec![(0, 0); whole.batch.len()];
    for (which, known) in all.iter().enumerate() {
        for (at, row) in known.rows.iter().enumerate() {
            if let Some(place) = places.get_mut(*row) {
                *place = (which, at);
            }
        }
    }
    let place = |row: usize| places.get(row).copied().unwrap_or((0, 0));
    for (face, _) in whole.triangles() {
        let [a, b, c] = face.map(place);
        if a.0 == b.0
            && b.0 == c.0
            && let Some(known) = all.get_mut(a.0)
        {
            known.faces.push([a.1, b.1, c.1]);
        }
    }
    all
}
