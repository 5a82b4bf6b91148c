//! Rows without a geometry: vertices.
//!
//! Positions are a column of lists (`position`, `points`, …) or one number an axis (`x`, `y`, `z`, `t`, or those
//! that are named); `object` says which object a vertex belongs to, `part` which run of it. All else are
//! attributes: numbers, lists of a fixed number of them, text.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field as Named};
use zvf_format::Class;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Batch, Column, Field, Kind, ObjectId, Parts};

use super::cells::{read_cell, stored_type};
use super::{BatchIter, Batches, bad};
use crate::ConvertError;
use crate::error::{BadInput, Place};
use crate::read::features::{Cell, Columns};
use crate::read::roles::{
    AXES, OBJECT, PART, POSITIONS, axes, no_owner_of, numeric_positions, point_kind,
};
use crate::read::values::{column, no_batch};
use crate::read::{Header, Piece, ReadOptions, Reader};

pub(super) fn open(batches: Batches, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let format = batches.format;
    let kind = point_kind(options, format)?;
    let (mut table, names, left_out) = Table::choose(&batches, options, kind)?;
    table.infer_types(&batches)?;
    let notes = table.columns.settle();
    let empty = table.attributes(&[], 0)?;
    let header = Header {
        fields: empty,
        objects: table.object.is_some() || kind.is_chain(),
        vertices: batches.rows,
        left_out: left_out.into_iter().chain(notes).collect(),
        ..Header::new(kind, names, column(table.dtype, table.width, Vec::new())?)
    };
    let iter = batches.read(&table.wanted_columns())?;
    Ok(Reader::new(header, Pieces { iter, table }))
}

/// Which column is what.
struct Table {
    kind: Kind,
    positions: Vec<usize>,
    dtype: Dtype,
    width: u32,
    object: Option<usize>,
    part: Option<usize>,
    attributes: Vec<Attribute>,
    /// Those of text, and those with missing values.
    columns: Columns,
    format: &'static str,
}

/// An attribute of a vertex.
struct Attribute {
    column: usize,
    name: String,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// Numbers as they are, so many a row.
    Numbers(Dtype, u32),
    /// A column that settles in the first pass.
    Settled(usize),
}

/// Numbers of a column: their type and how many a row.
fn numbers(data_type: &DataType) -> Option<(Dtype, u32)> {
    match data_type {
        DataType::FixedSizeList(item, width) => {
            let dtype = stored_type(item.data_type()).flatten()?;
            Some((dtype, u32::try_from(*width).ok()?))
        }
        DataType::Dictionary(..) => None,
        other => stored_type(other).flatten().map(|dtype| (dtype, 1)),
    }
}

impl Table {
    fn choose(
        batches: &Batches,
        options: &ReadOptions,
        kind: Kind,
    ) -> Result<(Self, Vec<String>, Vec<String>), ConvertError> {
        let fields = batches.schema.fields();
        let find = |name: &str| fields.iter().position(|field| field.name() == name);
        let fault = |class, expected: String| {
            let names: Vec<String> =
                fields.iter().take(12).map(|field| format!("{:?}", field.name())).collect();
            let place = Place::Named("the columns".to_owned());
            BadInput::new(class, batches.format, place, expected, names.join(", "))
        };
        let place = |name: &String| {
            find(name).ok_or_else(|| fault(Class::InvalidArgument, format!("a column {name:?}")))
        };
        let positions: Vec<usize> = match options.columns.positions.as_slice() {
            [] => match POSITIONS.into_iter().find_map(find) {
                Some(position) => vec![position],
                None => AXES.into_iter().map_while(find).collect(),
            },
            wanted => wanted.iter().map(place).collect::<Result<_, _>>()?,
        };
        let types: Vec<Option<(Dtype, u32)>> =
            positions.iter().map(|at| numbers(fields.get(*at)?.data_type())).collect();
        let Some((dtype, width)) = types.first().copied().flatten() else {
            let expected = "columns of positions: \"position\", or \"x\", \"y\", \"z\"".to_owned();
            let hint = "say which columns are positions";
            return Err(fault(Class::NotFound, expected).with_hint(hint).into());
        };
        let same = |one: &Option<(Dtype, u32)>| {
            *one == Some((dtype, if types.len() == 1 { width } else { 1 }))
        };
        if !types.iter().all(same) {
            let expected = format!("{dtype} for every axis");
            return Err(fault(Class::Unsupported, expected)
                .with_hint("convert them to one type first")
                .into());
        }
        let width =
            if types.len() == 1 { width } else { u32::try_from(types.len()).unwrap_or(u32::MAX) };
        numeric_positions(dtype, width, batches.format)?;
        let names = match positions.as_slice() {
            [_] if numbers_are_list(fields.get(positions[0])) => axes(width),
            several => several
                .iter()
                .filter_map(|at| fields.get(*at))
                .map(|field| field.name().clone())
                .collect(),
        };
        let whole =
            |at: &usize| fields.get(*at).is_some_and(|field| field.data_type().is_integer());
        let object = match &options.columns.object {
            Some(name) => Some(place(name)?),
            None => find(OBJECT).filter(whole),
        };
        let part = find(PART).filter(whole).filter(|_| object.is_some());
        let mut table = Self {
            kind,
            positions,
            dtype,
            width,
            object,
            part,
            attributes: Vec::new(),
            columns: Columns::new(options.memory, batches.format),
            format: batches.format,
        };
        let left_out = table.choose_attributes(fields, options)?;
        Ok((table, names, left_out))
    }

    fn choose_attributes(
        &mut self,
        fields: &arrow_schema::Fields,
        options: &ReadOptions,
    ) -> Result<Vec<String>, ConvertError> {
        let mut left_out = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            let used =
                self.positions.contains(&at) || self.object == Some(at) || self.part == Some(at);
            let wanted =
                options.columns.fields.as_ref().is_none_or(|wanted| wanted.contains(field.name()));
            if used || !wanted {
                continue;
            }
            let name = field.name().clone();
            let form = match (numbers(field.data_type()), stored_type(field.data_type())) {
                (Some((dtype, width)), None) => Form::Numbers(dtype, width),
                (_, Some(dtype)) => Form::Settled(self.columns.declare(&name, dtype)?),
                (None, None) => {
                    left_out.push(format!("column {name:?} of {}", field.data_type()));
                    continue;
                }
            };
            self.attributes.push(Attribute { column: at, name, form });
        }
        Ok(left_out)
    }

    /// The first pass over the columns whose types are not certain.
    fn infer_types(&mut self, batches: &Batches) -> Result<(), ConvertError> {
        let mut open = Vec::new();
        for attribute in &mut self.attributes {
            let Form::Settled(at) = attribute.form else { continue };
            let data_type = batches.schema.field(attribute.column).data_type();
            let complete = batches.complete.get(attribute.column).copied().unwrap_or(false)
                || !batches.schema.field(attribute.column).is_nullable();
            match numbers(data_type).filter(|_| complete) {
                Some((dtype, width)) => attribute.form = Form::Numbers(dtype, width),
                None => open.push((attribute.column, at)),
            }
        }
        // Columns that turned out to be complete settle by what was declared for them.
        if open.is_empty() {
            return Ok(());
        }
        let wanted: Vec<usize> = open.iter().map(|(column, _)| *column).collect();
        for batch in batches.read(&wanted)? {
            let batch = batch.map_err(|error| batches.bad("a row group", error))?;
            for (array, (_, at)) in batch.columns().iter().zip(&open) {
                let text = stored_type(array.data_type()) == Some(None);
                if text || array.logical_null_count() > 0 {
                    for row in 0..batch.num_rows() {
                        self.columns.note(*at, &read_cell(array, row))?;
                    }
                } else {
                    self.columns.note_rows(*at, batch.num_rows());
                }
            }
            self.columns.end_rows(batch.num_rows());
        }
        Ok(())
    }

    /// The columns that are read, in the order of the file.
    fn wanted_columns(&self) -> Vec<usize> {
        let mut wanted = self.positions.clone();
        wanted.extend(self.object.iter().chain(&self.part));
        wanted.extend(self.attributes.iter().map(|attribute| attribute.column));
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    fn batch(&mut self, rows: &RecordBatch) -> Result<Batch, ConvertError> {
        let wanted = self.wanted_columns();
        let array = |column: usize| {
            let at = wanted.iter().position(|other| *other == column);
            at.and_then(|at| rows.columns().get(at)).cloned()
        };
        let arrays: Vec<ArrayRef> = self.positions.iter().filter_map(|at| array(*at)).collect();
        let positions = self.positions_of(&arrays, rows.num_rows())?;
        let attributes: Vec<ArrayRef> =
            self.attributes.iter().filter_map(|attribute| array(attribute.column)).collect();
        let mut batch = Batch::new(self.kind, positions);
        for field in self.attributes(&attributes, rows.num_rows())? {
            batch = batch.with_field(field).map_err(no_batch)?;
        }
        let objects = self.object.and_then(&array);
        let parts = self.part.and_then(&array);
        if objects.is_none() && !self.kind.is_chain() {
            return Ok(batch);
        }
        let owners = self.owners(objects.as_ref(), rows.num_rows())?;
        if !self.kind.is_chain() {
            return batch.with_vertex_objects(owners).map_err(no_batch);
        }
        let (mut offsets, mut ids, mut last) = (Vec::new(), Vec::new(), None);
        for (row, owner) in owners.into_iter().enumerate() {
            let part = parts.as_ref().map(|parts| as_integer(&read_cell(parts, row)));
            let owner = owner.ok_or_else(|| {
                let place = Place::Named(format!("the objects, row {row}"));
                let expected = no_owner_of(self.kind);
                BadInput::new(Class::Encoding, self.format, place, expected, "none")
            })?;
            let now = (owner, part);
            if last != Some(now) {
                offsets.push(row);
                ids.push(now.0);
                last = Some(now);
            }
        }
        if rows.num_rows() == 0 {
            return Ok(batch);
        }
        offsets.push(rows.num_rows());
        batch.with_parts(Parts::new(offsets, ids).map_err(no_batch)?).map_err(no_batch)
    }

    fn owners(
        &self,
        objects: Option<&ArrayRef>,
        rows: usize,
    ) -> Result<Vec<Option<ObjectId>>, ConvertError> {
        let Some(objects) = objects else { return Ok(vec![Some(ObjectId(0)); rows]) };
        let owner = |row: usize| match read_cell(objects, row) {
            Cell::UInt(id) => i64::try_from(id).map(|id| Some(ObjectId(id))).map_err(|_overflow| {
                let place = Place::Named("the objects".to_owned());
                let expected = "a number below 2^63";
                BadInput::new(Class::Overflow, self.format, place, expected, id.to_string()).into()
            }),
            Cell::Int(id) => Ok(Some(ObjectId(id)).filter(|_| id != -1 || self.kind.is_chain())),
            _ => Ok(None),
        };
        (0..rows).map(owner).collect()
    }

    fn positions_of(&self, arrays: &[ArrayRef], rows: usize) -> Result<Column, ConvertError> {
        let nulls = arrays.iter().any(|array| array.logical_null_count() > 0);
        let inner = |array: &ArrayRef| {
            array
                .as_fixed_size_list_opt()
                .is_some_and(|list| list.values().logical_null_count() > 0)
        };
        if nulls || arrays.iter().any(inner) {
            let place = Place::Named("the positions".to_owned());
            let bad = BadInput::new(
                Class::BadShape,
                self.format,
                place,
                "a place for every row",
                "nulls",
            );
            return Err(bad.into());
        }
        if let [only] = arrays {
            return column(self.dtype, self.width, bytes_of(only, self.dtype, self.width));
        }
        let size = usize::try_from(self.dtype.size).unwrap_or(8);
        let columns: Vec<Vec<u8>> =
            arrays.iter().map(|array| bytes_of(array, self.dtype, 1)).collect();
        let mut bytes = Vec::with_capacity(rows * size * columns.len());
        for row in 0..rows {
            for column in &columns {
                bytes.extend_from_slice(
                    column.get(row * size..(row + 1) * size).unwrap_or_default(),
                );
            }
        }
        column(self.dtype, self.width, bytes)
    }

    /// The attributes of rows, in the order in which they were chosen; `arrays` is empty for no rows.
    fn attributes(&mut self, arrays: &[ArrayRef], rows: usize) -> Result<Vec<Field>, ConvertError> {
        for (attribute, array) in self.attributes.iter().zip(arrays) {
            if let Form::Settled(at) = attribute.form {
                (0..rows).for_each(|row| self.columns.push(at, row, &read_cell(array, row)));
            }
        }
        let settled = self.columns.take(rows)?;
        let mut fields = Vec::new();
        for (number, attribute) in self.attributes.iter().enumerate() {
            fields.push(match attribute.form {
                Form::Settled(at) => match settled.get(at) {
                    Some(field) => field.clone(),
                    None => continue,
                },
                Form::Numbers(dtype, width) => {
                    let bytes = arrays.get(number).map(|array| bytes_of(array, dtype, width));
                    Field::new(
                        attribute.name.as_str(),
                        column(dtype, width, bytes.unwrap_or_default())?,
                    )
                }
            });
        }
        Ok(fields)
    }
}

fn numbers_are_list(field: Option<&std::sync::Arc<Named>>) -> bool {
    field.is_some_and(|field| matches!(field.data_type(), DataType::FixedSizeList(..)))
}

fn as_integer(cell: &Cell<'_>) -> i64 {
    match cell {
        Cell::Int(n) => *n,
        Cell::UInt(n) => n.cast_signed(),
        _ => -1,
    }
}

/// The numbers of an array, `width` a row, little-endian.
fn bytes_of(array: &ArrayRef, dtype: Dtype, width: u32) -> Vec<u8> {
    if let Some(list) = array.as_fixed_size_list_opt() {
        let start = usize::try_from(list.value_offset(0)).unwrap_or(0);
        let count = list.len() * usize_from_u32(width);
        let start = if list.is_empty() { 0 } else { start };
        return bytes_of(&list.values().slice(start, count.min(list.values().len())), dtype, 1);
    }
    if dtype.kind == DtypeKind::Bool {
        return array.as_boolean().values().iter().map(u8::from).collect();
    }
    let size = usize::try_from(dtype.size).unwrap_or(8);
    let data = array.to_data();
    let start = data.offset() * size;
    let bytes = data.buffers().first().map(|buffer| buffer.as_slice()).unwrap_or_default();
    bytes.get(start..start + data.len() * size).unwrap_or_default().to_vec()
}

/// A file in the course of being read.
struct Pieces {
    iter: BatchIter,
    table: Table,
}

impl Iterator for Pieces {
    type Item = Result<Piece, ConvertError>;

    fn next(&mut self) -> Option<Self::Item> {
        let format = self.table.format;
        let rows = match self.iter.next()? {
            Ok(rows) => rows,
            Err(error) => return Some(Err(bad(format, "a row group", error))),
        };
        Some(self.table.batch(&rows).map(Piece::Vertices))
    }
}
