//! Objects: which there are, and their attributes.
//!
//! Rows of the index ascend by id. An object without vertices also has a row, with an empty
//! manifest. Attributes are stored by row: one value per object, with a null value where there is
//! none.
//!
//! Not here: how vertices become fragments (`cells`, `types`), the index of all objects
//! (`stages::index`), and groups (`group_table`).

use std::sync::Arc;

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_metadata::arrays::{ArrayAttributes as _, Rows};
use zvf_metadata::{Dtype, DtypeKind, FillValue};
use zvf_model::{Field, Kind, ObjectId};
use zvf_store::{DensePlan, fill_item};

use crate::columns::decode_texts;
use crate::error::unfit_error;
use crate::group_table::GroupTable;
use crate::id_runs::IdRuns;

/// An attribute of these objects, one row per object.
pub(crate) type ObjectField = (Arc<[i64]>, Field);

/// The declared objects, their attributes, and the groups.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    declared: IdRuns,
    fields: Vec<ObjectField>,
    /// Groups of these and other objects.
    pub(crate) groups: GroupTable,
}

impl Objects {
    /// Takes the ids and attributes of objects; groups stay.
    pub(crate) fn take(&mut self) -> (IdRuns, Vec<ObjectField>) {
        (std::mem::take(&mut self.declared), std::mem::take(&mut self.fields))
    }

    /// Returns the approximate number of bytes of these.
    pub(crate) fn bytes(&self) -> u64 {
        let fields = self.fields.iter().map(|(_, field)| to_u64(field.column.bytes().len()));
        fields.fold(self.declared.bytes(), |all, bytes| all + bytes * 2)
    }

    /// Returns whether there is data that needs an object index.
    pub(crate) fn needs_index(&self) -> bool {
        !(self.declared.is_empty() && self.fields.is_empty() && self.groups.is_empty())
    }

    /// Declares that these objects exist, with or without vertices.
    pub(crate) fn declare(&mut self, ids: impl Iterator<Item = i64>) {
        self.declared.extend(ids);
    }

    /// Adds attributes of these objects.
    pub(crate) fn fields(&mut self, kind: Kind, ids: &[ObjectId], fields: &[Field]) -> Result<()> {
        let ids: Arc<[i64]> = ids.iter().map(|id| id.0).collect();
        for field in fields {
            if field.column.len() != ids.len() {
                let what = format!("the object attribute {:?}", &*field.name);
                let expected = format!("of {} rows", ids.len());
                return Err(unfit_error(kind, what, expected, field.column.len()));
            }
            let field = field.with_column(decode_texts(field)?);
            self.fields.push((ids.clone(), field));
        }
        self.declared.extend(ids.iter().copied());
        Ok(())
    }
}

/// Returns the common type of all columns of the attribute `name`: their type, or the longest text.
pub(crate) fn common_type(
    kind: Kind,
    name: &str,
    types: impl Iterator<Item = (Dtype, u32)>,
) -> Result<(Dtype, u32)> {
    let mut found: Option<(Dtype, u32)> = None;
    for (dtype, width) in types {
        found = match found {
            None => Some((dtype, width)),
            Some((common, w))
                if w == width
                    && common.kind == dtype.kind
                    && (common.size == dtype.size || common.kind == DtypeKind::Text) =>
            {
                Some((Dtype { size: common.size.max(dtype.size), ..common }, w))
            }
            Some((common, w)) => {
                let what = format!("the object attribute {name:?}");
                let say = |dtype: Dtype, width: u32| format!("{dtype} × {width}");
                return Err(unfit_error(kind, what, say(common, w), say(dtype, width)));
            }
        };
    }
    Ok(found.unwrap_or((Dtype::FLOAT32, 1))) // there is a column
}

/// Returns the array of an attribute of this many objects, with its unit and its description.
pub(crate) fn attribute_plan(
    name: &str,
    (dtype, width): (Dtype, u32),
    objects: u64,
    [unit, description]: [Option<&str>; 2],
) -> DensePlan {
    let columns: Option<u64> = (width != 1).then_some(width.into());
    let shape = [objects].into_iter().chain(columns).collect();
    let mut says = Rows::object_attribute(name, dtype, shape);
    for (key, text) in [("unit", unit), ("description", description)] {
        if let Some(text) = text {
            says.extras.insert(key.to_owned(), text.into());
        }
    }
    if dtype.kind == DtypeKind::Bool {
        says.fill_sentinel_meaning = None; // each of its values is one that is meant
    }
    DensePlan {
        attributes: says.to_attributes(),
        ..DensePlan::object_attribute(dtype, columns, sentinel(dtype))
    }
}

/// Copies the values of one row; texts may be shorter than the target.
pub(crate) fn put_values(to: &mut [u8], from: &[u8], width: usize) {
    let (room, size) = (to.len().checked_div(width), from.len().checked_div(width));
    let (Some(room @ 1..), Some(size @ 1..)) = (room, size) else { return };
    for (to, from) in to.chunks_exact_mut(room).zip(from.chunks_exact(size)) {
        to.fill(0);
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
}

/// Returns this many null values.
pub(crate) fn absent_values(dtype: Dtype, values: usize) -> Vec<u8> {
    fill_item(sentinel(dtype).fill(), dtype).repeat(values)
}

/// Returns the null value as a fill value.
fn sentinel(dtype: Dtype) -> FillValue {
    let unused_bits = 64 - 8 * dtype.size.clamp(1, 8);
    match dtype.kind {
        DtypeKind::Float => FillValue::float(f64::NAN),
        DtypeKind::Int => FillValue::int(i64::MIN >> unused_bits),
        DtypeKind::UInt => FillValue::uint(u64::MAX >> unused_bits),
        DtypeKind::Bool => FillValue::flag(false),
        DtypeKind::Text => FillValue::text(""),
    }
}
