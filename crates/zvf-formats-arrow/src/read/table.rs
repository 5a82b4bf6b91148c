//! Reader of tables of vertices.
//!
//! Positions are a column of lists (`position`, `points`, …) or a column of numbers for each axis (`x`, `y`, `z`, `t`, or
//! the names in the options). `object` is the object of a vertex, `part` the run of it. Other columns are attributes:
//! numbers, lists of a fixed length of them, text.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{index_u32, saturating_usize, usize_from_u32};
use zvf_formats::{
    FeatureCell, FeatureColumns, FieldNames, FileReader, Notes, OBJECT, PART, ReadOptions, Spot,
    Values, VertexBuilder, check_position_type, default_axes, describe_owner_ids, missing_number,
    new_column, point_kind,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::{Header, Piece};
use zvf_model::{Batch, Field, Kind, ObjectId};

use crate::read::cells::{read_cell, record_forms, select, stored_type};
use crate::read::{Batches, input_error};

pub(crate) fn open(batches: Batches, options: &ReadOptions) -> Result<FileReader> {
    let format = batches.format;
    let kind = point_kind(options, format)?;
    let (mut table, names, left_out) = Table::choose_columns(&batches, options, kind)?;
    table.infer_types(&batches)?;
    let notes = table.columns.choose_types();
    let empty = table.make_attributes(&[], 0)?;
    let header = Header {
        fields: empty,
        vertices: batches.rows,
        left_out,
        notes,
        ..table.vertices.header(names)?
    };
    let mut iter = batches.read(&table.selected_columns())?;
    let notes = table.notes.clone();
    let reader = FileReader::from_steps(header, move || {
        let rows = iter.next().transpose();
        let rows = rows.map_err(|error| input_error(table.format, "a row group", error))?;
        Ok(rows.map(|rows| table.make_batch(&rows)).transpose()?.map(Piece::Vertices))
    });
    Ok(reader.with_notes(notes))
}

/// The columns of a table by role.
struct Table {
    positions: Vec<usize>,
    vertices: VertexBuilder, // without attributes
    object: Option<usize>,
    part: Option<usize>,
    attributes: Vec<Attribute>,
    /// The columns whose types are inferred in a first pass.
    columns: FeatureColumns,
    format: &'static str,
    notes: Notes,
}

/// An attribute of a vertex.
struct Attribute {
    column: usize,
    name: String,
    source: AttributeSource,
    /// Whether a note says that numbers are missing.
    has_note: bool,
}

/// How an attribute is read.
#[derive(Clone, Copy)]
enum AttributeSource {
    /// Numbers of this type, copied, with this many per row.
    Numbers(Dtype, u32),
    /// A column with an inferred type, by its index in [`Table::columns`].
    Inferred(usize),
}

/// Returns the type of the numbers of a column and how many there are per row. `None` if it is not
/// a column of numbers.
fn number_type(data_type: &DataType) -> Option<(Dtype, u32)> {
    match data_type {
        DataType::FixedSizeList(item, width) => {
            let dtype = stored_type(item.data_type()).flatten()?;
            Some((dtype, u32::try_from(*width).ok()?))
        }
        DataType::Dictionary(..) => None,
        number => stored_type(number).flatten().map(|dtype| (dtype, 1)),
    }
}

impl Table {
    fn choose_columns(
        batches: &Batches,
        options: &ReadOptions,
        kind: Kind,
    ) -> Result<(Self, Vec<String>, Vec<String>)> {
        let fields = batches.schema.fields();
        let names = fields.iter().map(|field| &**field.name());
        let choice = FieldNames::new(Spot::new(batches.format, "the columns"), "a column", names);
        let is_list = |at: usize| fields[at].data_type().is_nested();
        let positions = choice.positions(&options.columns.positions, is_list)?;
        let types: Vec<Option<(Dtype, u32)>> =
            positions.iter().map(|at| number_type(fields[*at].data_type())).collect();
        let Some((dtype, width)) = types.first().copied().flatten() else {
            let expected = "columns of positions: \"position\", or \"x\", \"y\", \"z\"";
            return Err(choice.no_positions(Class::NotFound, expected, "columns"));
        };
        let is_same = |column_type: &Option<(Dtype, u32)>| {
            *column_type == Some((dtype, if types.len() == 1 { width } else { 1 }))
        };
        if !types.iter().all(is_same) {
            let bad = choice.error(Class::Unsupported, format!("{dtype} for every axis"));
            return Err(bad.with_hint("convert them to one type first, or choose the axes"));
        }
        let width = if types.len() == 1 { width } else { index_u32(types.len()) };
        check_position_type(dtype, width, batches.format)?;
        let names = match positions.as_slice() {
            [only] if matches!(fields[*only].data_type(), DataType::FixedSizeList(..)) => {
                default_axes(width)
            }
            columns => columns.iter().map(|at| fields[*at].name().clone()).collect(),
        };
        let is_integer = |at: &usize| fields[*at].data_type().is_integer();
        let object = match &options.columns.object {
            Some(name) => Some(choice.require(name)?),
            None => choice.find(OBJECT).filter(is_integer),
        };
        let part = choice.find(PART).filter(is_integer).filter(|_| object.is_some());
        let owned = object.is_some() || kind.is_chain();
        let mut table = Self {
            positions,
            vertices: VertexBuilder::new(kind, Values::new(dtype, width), Vec::new(), owned),
            object,
            part,
            attributes: Vec::new(),
            columns: FeatureColumns::new(options.memory, batches.format),
            format: batches.format,
            notes: Notes::default(),
        };
        let left_out = table.choose_attributes(fields, options)?;
        Ok((table, names, left_out))
    }

    fn choose_attributes(
        &mut self,
        fields: &arrow_schema::Fields,
        options: &ReadOptions,
    ) -> Result<Vec<String>> {
        let mut left_out = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            let has_role =
                self.positions.contains(&at) || self.object == Some(at) || self.part == Some(at);
            let is_selected =
                options.columns.fields.as_ref().is_none_or(|names| names.contains(field.name()));
            if has_role || !is_selected {
                continue;
            }
            let name = field.name().clone();
            if self.attributes.iter().any(|attribute| attribute.name == name) {
                left_out.push(format!("column {name:?}: another one has its name"));
                continue;
            }
            let source = match (number_type(field.data_type()), stored_type(field.data_type())) {
                (Some((dtype, width)), None) => AttributeSource::Numbers(dtype, width),
                (_, Some(dtype)) => AttributeSource::Inferred(self.columns.declare(&name, dtype)?),
                (None, None) => {
                    left_out.push(format!("column {name:?} of {}", field.data_type()));
                    continue;
                }
            };
            self.attributes.push(Attribute { column: at, name, source, has_note: false });
        }
        Ok(left_out)
    }

    /// Reads the columns of text and those that may have missing values once, to infer their types.
    fn infer_types(&mut self, batches: &Batches) -> Result<()> {
        let (mut inferred, mut complete) = (Vec::new(), Vec::new());
        for attribute in &mut self.attributes {
            let AttributeSource::Inferred(at) = attribute.source else { continue };
            let data_type = batches.schema.field(attribute.column).data_type();
            let has_no_nulls = batches.without_nulls.get(attribute.column) == Some(&true)
                || !batches.schema.field(attribute.column).is_nullable();
            match number_type(data_type).filter(|_| has_no_nulls) {
                Some((dtype, width)) => {
                    attribute.source = AttributeSource::Numbers(dtype, width);
                    complete.push(at);
                }
                None => inferred.push((attribute.column, at)),
            }
        }
        // Columns without nulls keep their declared types.
        if inferred.is_empty() {
            return Ok(());
        }
        let selected: Vec<usize> = inferred.iter().map(|(column, _)| *column).collect();
        for batch in batches.read(&selected)? {
            let batch = batch.map_err(|error| batches.input_error("a row group", error))?;
            for (array, (_, at)) in batch.columns().iter().zip(&inferred) {
                record_forms(&mut self.columns, *at, array)?;
            }
            complete.iter().for_each(|at| self.columns.note_rows(*at, batch.num_rows()));
            self.columns.end_rows(batch.num_rows());
        }
        Ok(())
    }

    /// Returns the columns to read, in the order of the file.
    fn selected_columns(&self) -> Vec<usize> {
        let mut selected = self.positions.clone();
        selected.extend(self.object.iter().chain(&self.part));
        selected.extend(self.attributes.iter().map(|attribute| attribute.column));
        selected.sort_unstable();
        selected.dedup();
        selected
    }

    /// Converts a record batch to a batch of vertices.
    fn make_batch(&mut self, rows: &RecordBatch) -> Result<Batch> {
        let selected = self.selected_columns();
        let array = |column: usize| select(rows, &selected, column).clone();
        let arrays: Vec<ArrayRef> = self.positions.iter().map(|at| array(*at)).collect();
        self.push_positions(&arrays, rows.num_rows())?;
        let attributes: Vec<ArrayRef> =
            self.attributes.iter().map(|attribute| array(attribute.column)).collect();
        let objects = self.object.map(array);
        let parts = self.part.map(array);
        let fields = self.make_attributes(&attributes, rows.num_rows())?;
        self.push_owners(objects.as_ref(), parts.as_ref(), rows.num_rows())?;
        let batch = self.vertices.take_batch()?;
        Ok(batch.with_fields(fields)?)
    }

    /// Ends rows of these objects and parts.
    fn push_owners(
        &mut self,
        objects: Option<&ArrayRef>,
        parts: Option<&ArrayRef>,
        rows: usize,
    ) -> Result<()> {
        let Some(objects) = objects else {
            if rows > 0 {
                self.vertices.end_rows(rows, None, 0);
            }
            return Ok(());
        };
        for row in 0..rows {
            let part = match parts.map(|parts| read_cell(parts, row)) {
                None => 0,
                Some(FeatureCell::Int(n)) => n,
                Some(FeatureCell::UInt(n)) => n.cast_signed(),
                Some(_) => -1,
            };
            let owner = self.read_owner(objects, row)?;
            self.vertices.end_row(owner, part);
        }
        Ok(())
    }

    /// Returns the object of a row.
    fn read_owner(&self, objects: &ArrayRef, row: usize) -> Result<Option<ObjectId>> {
        let kind = self.vertices.kind();
        match read_cell(objects, row) {
            FeatureCell::UInt(id) => {
                let spot = Spot::new(self.format, "the objects");
                let signed = i64::try_from(id).ok().map(ObjectId);
                spot.need(signed, Class::Overflow, "a number below 2^63", id).map(Some)
            }
            FeatureCell::Int(id) if id != -1 || kind.is_chain() => Ok(Some(ObjectId(id))),
            FeatureCell::Int(_) => Ok(None),
            _ if kind.is_chain() => {
                let spot = Spot::new(self.format, format!("the objects, row {row}"));
                spot.refuse(Class::Encoding, describe_owner_ids(kind), "none")
            }
            _ => Ok(None),
        }
    }

    fn push_positions(&mut self, arrays: &[ArrayRef], rows: usize) -> Result<()> {
        if arrays.iter().any(has_nulls) {
            let spot = Spot::new(self.format, "the positions");
            return spot.refuse(Class::BadShape, "a place for every row", "nulls");
        }
        let dtype = self.vertices.positions.dtype();
        if let [only] = arrays {
            let bytes = read_numbers(only, dtype, self.vertices.positions.width(), self.format)?;
            self.vertices.positions.push_bytes(&bytes);
            return Ok(());
        }
        let size = saturating_usize(dtype.size);
        let columns = arrays.iter().map(|array| read_numbers(array, dtype, 1, self.format));
        let columns: Vec<Vec<u8>> = columns.collect::<Result<_, _>>()?;
        for row in 0..rows {
            for column in &columns {
                self.vertices.positions.push_bytes(&column[row * size..(row + 1) * size]);
            }
        }
        Ok(())
    }

    /// Returns the attributes of `rows` rows, in the order of `self.attributes`. `arrays` is empty for no rows.
    fn make_attributes(&mut self, arrays: &[ArrayRef], rows: usize) -> Result<Vec<Field>> {
        for (attribute, array) in self.attributes.iter().zip(arrays) {
            if let AttributeSource::Inferred(at) = attribute.source {
                (0..rows).for_each(|row| self.columns.push(at, row, &read_cell(array, row)));
            }
        }
        let inferred = self.columns.take(rows)?;
        let mut fields = Vec::new();
        for (number, attribute) in self.attributes.iter_mut().enumerate() {
            let array = arrays.get(number); // none for no rows
            fields.push(match attribute.source {
                AttributeSource::Inferred(at) => match inferred.get(at) {
                    Some(field) => field.clone(),
                    None => continue,
                },
                AttributeSource::Numbers(dtype, width) => {
                    let bytes = array.map(|array| read_numbers(array, dtype, width, self.format));
                    let mut bytes = bytes.transpose()?.unwrap_or_default();
                    if array.is_some_and(|array| {
                        has_nulls(array) && fill_missing(array, dtype, &mut bytes)
                    }) && !std::mem::replace(&mut attribute.has_note, true)
                    {
                        let shown = if dtype.kind == DtypeKind::Float { "NaN" } else { "0" };
                        let name = &attribute.name;
                        self.notes
                            .push(format!("missing numbers of column {name:?} become {shown}"));
                    }
                    Field::new(attribute.name.as_str(), new_column(dtype, width, bytes)?)
                }
            });
        }
        Ok(fields)
    }
}

/// Checks whether a row has no value, or a list of numbers lacks one.
fn has_nulls(array: &ArrayRef) -> bool {
    let list = array.as_fixed_size_list_opt();
    array.logical_null_count() > 0
        || list.is_some_and(|list| list.values().logical_null_count() > 0)
}

fn read_numbers(
    array: &ArrayRef,
    dtype: Dtype,
    width: u32,
    format: &'static str,
) -> Result<Vec<u8>> {
    let too_short = || input_error(format, "a row group", "a column that is too short");
    number_bytes(array, dtype, width).ok_or_else(too_short)
}

/// Returns the numbers of an array as little-endian bytes, `width` numbers per row. Returns `None`
/// if there are too few.
fn number_bytes(array: &ArrayRef, dtype: Dtype, width: u32) -> Option<Vec<u8>> {
    if let Some(list) = array.as_fixed_size_list_opt().filter(|list| !list.is_empty()) {
        let start = usize::try_from(list.value_offset(0)).ok()?;
        let count = list.len().checked_mul(usize_from_u32(width))?;
        let values = list.values();
        let fits = start.checked_add(count).is_some_and(|end| end <= values.len());
        return fits
            .then(|| values.slice(start, count))
            .and_then(|numbers| number_bytes(&numbers, dtype, 1));
    }
    if array.is_empty() {
        return Some(Vec::new());
    }
    if dtype.kind == DtypeKind::Bool {
        return Some(array.as_boolean().values().iter().map(u8::from).collect());
    }
    let size = saturating_usize(dtype.size);
    let data = array.to_data();
    let start = data.offset() * size;
    let bytes = data.buffers().first()?.as_slice();
    Some(bytes.get(start..start + data.len() * size)?.to_vec())
}

/// Puts NaN, or 0 where the type has none, into the numbers that [`number_bytes`] returned for a row or an item of a list that
/// is null. Returns whether there are any.
fn fill_missing(array: &ArrayRef, dtype: Dtype, bytes: &mut [u8]) -> bool {
    let missing = missing_number(dtype);
    let list = array.as_fixed_size_list_opt().filter(|list| !list.is_empty());
    let items = list.map(|list| (list.values(), usize::try_from(list.value_offset(0))));
    let width = bytes.len() / missing.len() / array.len().max(1);
    let mut has_missing = false;
    for (at, number) in bytes.chunks_exact_mut(missing.len()).enumerate() {
        let is_null_item = match &items {
            Some((values, Ok(start))) => values.is_null(start + at),
            _ => false,
        };
        if is_null_item || array.is_null(at / width) {
            number.copy_from_slice(&missing);
            has_missing = true;
        }
    }
    has_missing
}
