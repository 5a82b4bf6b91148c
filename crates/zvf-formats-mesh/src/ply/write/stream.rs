//! Writer of PLY piece by piece: rows are spooled to files until the header can have their counts.
//!
//! ```text
//! vertices  axes and attributes of each, then its object where the input has objects
//! elements  edges or faces, with their attributes; edges between the vertices of chains
//! ```
//!
//! A column whose type depends on its values is spooled in 64 bits, and narrowed when all values are known.

use std::io::{Read, Write};

use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_formats::{
    FLOAT64, INT32, NewFile, OpenedWriter, PieceWriter, Scalar, ScalarSource, Spool, Table, Target,
    cannot_hold, element_vertices, elements_as_rows, from_bad_batch, narrow, neighbours,
    other_columns,
};
use zvf_metadata::Dtype;
use zvf_model::flow::{FlowReport, Piece};
use zvf_model::{Batch, Value};

use crate::ply::read::type_name;
use crate::ply::write::{NO_AXIS, encode_vertex, property_name, property_type, write_value};

pub(crate) fn open<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    let NewFile { target: out, options, header } = file;
    let empty = header.empty_batch()?;
    let table = Table::new(&empty, &header.axes);
    let columns = infer_columns(vertex_columns(&table), empty.positions().width() == 2)?;
    // There are two spools, a growing one takes up to twice its length, and the source needs
    // memory too.
    let max_held = saturating_usize(options.memory / 64);
    let spool = || Spool::new(max_held, options.scratch.as_deref());
    let rows = |columns| Rows { columns, spool: spool(), count: 0 };
    let is_chain = header.kind.is_chain() && header.elements.is_none();
    Ok(Box::new(PlyWriter {
        out,
        axes: header.axes.clone(),
        width: header.positions.width(),
        kind: header.kind,
        vertices: rows(columns),
        elements: rows(Vec::new()),
        is_chain,
        corners: if is_chain { 2 } else { 0 },
        largest: None,
    }))
}

/// A writer that holds the rows of a file until its header can have their counts.
struct PlyWriter<'a> {
    out: Target<'a>,
    axes: Vec<String>,
    width: u32, // of positions
    kind: zvf_model::Kind,
    vertices: Rows,
    elements: Rows,
    is_chain: bool,       // so that elements are neighbours
    corners: usize,       // of an element; 0 before the first one
    largest: Option<u64>, // vertex that an element names
}

/// Rows of scalars.
struct Rows {
    columns: Vec<PlyColumn>,
    spool: Spool,
    count: u64,
}

/// A column of spooled rows.
struct PlyColumn {
    name: String,
    /// The type of the column; `None` if it depends on the values.
    dtype: Option<Dtype>,
    /// Whether a value does not fit 32 bits.
    is_wide: bool,
    /// The column whose values decide the type: an added third axis has the type of the second.
    decided_by: usize,
}

impl PieceWriter for PlyWriter<'_> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Vertices(batch) => self.push_batch(&batch),
            Piece::Elements { rows, fields } => {
                let mut batch = Batch::new(self.kind, rows);
                for field in fields {
                    batch = batch.with_field(field).map_err(from_bad_batch)?;
                }
                self.push_elements(&batch)
            }
            Piece::Objects { .. } | Piece::Groups { .. } => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<FlowReport> {
        let Self { mut out, mut vertices, mut elements, corners, is_chain, largest, .. } = *self;
        if let Some(row) = largest.filter(|row| *row >= vertices.count) {
            let what = format!("an element of vertex {row}, where there are {}", vertices.count);
            return Err(cannot_hold("PLY", what, "the input contradicts itself"));
        }
        writeln!(out, "ply\nformat binary_little_endian 1.0\nelement vertex {}", vertices.count)?;
        vertices.write_header(&mut out)?;
        if corners > 2 {
            writeln!(out, "element face {}", elements.count)?;
            writeln!(out, "property list uchar int vertex_indices")?;
            elements.write_header(&mut out)?;
        } else if corners > 0 {
            writeln!(out, "element edge {}", elements.count)?;
            writeln!(out, "property int vertex1\nproperty int vertex2")?;
            elements.write_header(&mut out)?;
        }
        writeln!(out, "end_header")?;
        vertices.copy_to(0, &mut out)?;
        let head = 4 * corners + usize::from(corners > 2);
        elements.copy_to(head, &mut out)?;
        out.flush()?;
        // The report counts the elements of the input, not the edges between neighbours.
        let elements = if is_chain { 0 } else { elements.count };
        Ok(FlowReport { vertices: vertices.count, elements, ..FlowReport::default() })
    }
}

impl PlyWriter<'_> {
    fn push_batch(&mut self, batch: &Batch) -> Result<()> {
        if batch.positions().width() != self.width {
            return Err(other_columns_error("positions"));
        }
        let table = Table::new(batch, &self.axes);
        let columns = vertex_columns(&table);
        let before = self.vertices.count;
        self.vertices.push(&table, columns, batch.positions().width() == 2, batch.len())?;
        if let Some(rows) = elements_as_rows(batch, before)? {
            return self.push_elements(&rows);
        }
        for edge in neighbours(batch).filter(|_| self.is_chain) {
            for row in edge {
                self.elements.spool.write_all(&encode_vertex(before + to_u64(row))?)?;
            }
            self.elements.count += 1;
        }
        Ok(())
    }

    /// Adds elements, whose vertices are the positions of `rows`.
    fn push_elements(&mut self, rows: &Batch) -> Result<()> {
        let corners = usize_from_u32(rows.positions().width());
        if self.corners != 0 && self.corners != corners {
            return Err(other_columns_error("elements of two widths"));
        }
        let table = Table::new(rows, &[]);
        let is_field = |column: &&Scalar<'_>| matches!(column.source, ScalarSource::Field(..));
        let columns = table.columns().iter().filter(is_field);
        if self.corners == 0 {
            self.corners = corners;
            self.elements.columns = infer_columns(columns.clone(), false)?;
        }
        let what = "faces of more than 255 corners";
        let count: u8 = narrow(corners, "PLY", what, "divide them into triangles")?;
        let numbers: Vec<i64> = element_vertices(rows.positions())?.collect();
        for (row, numbers) in numbers.chunks_exact(corners.max(1)).enumerate() {
            if count > 2 {
                self.elements.spool.write_all(&[count])?;
            }
            for number in numbers {
                let vertex = u64::try_from(*number)
                    .map_err(|_negative| other_columns_error("negative vertices"))?;
                self.largest = self.largest.max(Some(vertex));
                self.elements.spool.write_all(&encode_vertex(vertex)?)?;
            }
            self.elements.push_row(&table, columns.clone(), false, row)?;
        }
        Ok(())
    }
}

impl Rows {
    fn push<'a, 'b: 'a>(
        &mut self,
        table: &Table<'_>,
        columns: impl Iterator<Item = &'a Scalar<'b>> + Clone,
        is_flat: bool,
        len: usize,
    ) -> Result<()> {
        let found = infer_columns(columns.clone(), is_flat)?;
        let same = |(spooled, column): (&PlyColumn, &PlyColumn)| {
            (&spooled.name, spooled.dtype) == (&column.name, column.dtype)
        };
        if found.len() != self.columns.len() || !self.columns.iter().zip(&found).all(same) {
            return Err(other_columns_error("vertex columns"));
        }
        (0..len).try_for_each(|row| self.push_row(table, columns.clone(), is_flat, row))
    }

    /// Adds the columns of a row; the bytes before them are already in the spool.
    fn push_row<'a, 'b: 'a>(
        &mut self,
        table: &Table<'_>,
        columns: impl Iterator<Item = &'a Scalar<'b>>,
        is_flat: bool,
        row: usize,
    ) -> Result<()> {
        let mut at = 0;
        for column in columns {
            self.push_value(at, column, &table.value(column, row)?)?;
            at += 1;
            if is_flat && at == 2 {
                self.push_value(at, column, &Value::Int(0))?;
                at += 1;
            }
        }
        self.count += 1;
        if at == self.columns.len() { Ok(()) } else { Err(other_columns_error("element columns")) }
    }

    fn push_value(&mut self, at: usize, column: &Scalar<'_>, value: &Value) -> Result<()> {
        let Some(ply_column) = self.columns.get_mut(at) else {
            return Err(other_columns_error("columns"));
        };
        match ply_column.dtype {
            Some(dtype) => write_value(dtype, value, &mut self.spool),
            None => {
                let number = crate::ply::write::exact_integer(column, value)?;
                ply_column.is_wide |= i32::try_from(number).is_err();
                Ok(self.spool.write_all(&number.to_le_bytes())?)
            }
        }
    }

    fn write_header(&self, out: &mut dyn Write) -> Result<()> {
        for column in &self.columns {
            let refuse = || cannot_hold("PLY", &column.name, "leave it out with --attributes");
            let kind = type_name(self.final_type(column)).ok_or_else(refuse)?;
            writeln!(out, "property {kind} {}", column.name)?;
        }
        Ok(())
    }

    /// Returns the type of a column, when all values are known.
    fn final_type(&self, column: &PlyColumn) -> Dtype {
        let is_wide = self.columns.get(column.decided_by).is_some_and(|column| column.is_wide);
        column.dtype.unwrap_or(if is_wide { FLOAT64 } else { INT32 })
    }

    /// Returns the conversion of each column from the spool to the file.
    fn forms(&self) -> Vec<Form> {
        let form = |column: &PlyColumn| match column.dtype {
            Some(dtype) => Form::Same(saturating_usize(dtype.size)),
            None if self.final_type(column) == FLOAT64 => Form::Double,
            None => Form::Int,
        };
        self.columns.iter().map(form).collect()
    }

    /// Copies all rows, each with `head` bytes before its columns.
    fn copy_to(&mut self, head: usize, out: &mut dyn Write) -> Result<()> {
        let forms = self.forms();
        if forms.iter().all(|form| matches!(form, Form::Same(_))) {
            self.spool.copy_to(out)?;
            return Ok(());
        }
        let (mut from, mut bytes) = (self.spool.reader()?, vec![0; head]);
        for _ in 0..self.count {
            from.read_exact(&mut bytes)?;
            out.write_all(&bytes)?;
            copy_row(&forms, &mut from, out)?;
        }
        Ok(())
    }
}

/// The conversion of a value from the spool to the file.
#[derive(Clone, Copy)]
enum Form {
    /// Copies this many bytes.
    Same(usize),
    /// Narrows an `i64` to 32 bits.
    Int,
    /// Converts an `i64` to a double.
    Double,
}

fn copy_row(forms: &[Form], from: &mut dyn Read, out: &mut dyn Write) -> Result<()> {
    let mut bytes = [0; 8];
    for form in forms {
        if let Form::Same(size) = form {
            let bytes = &mut bytes[..*size];
            from.read_exact(bytes)?;
            out.write_all(bytes)?;
            continue;
        }
        from.read_exact(&mut bytes)?;
        let number = Value::Int(i64::from_le_bytes(bytes));
        let dtype = if matches!(form, Form::Double) { FLOAT64 } else { INT32 };
        write_value(dtype, &number, out)?;
    }
    Ok(())
}

/// Returns the axes and attributes of vertices, and their objects.
fn vertex_columns<'a, 'b>(
    table: &'a Table<'b>,
) -> impl Iterator<Item = &'a Scalar<'b>> + Clone + use<'a, 'b> {
    table.columns().iter().filter(|column| !matches!(column.source, ScalarSource::Part))
}

/// Creates the columns of a spool; two axes get a third one.
fn infer_columns<'a, 'b: 'a>(
    columns: impl Iterator<Item = &'a Scalar<'b>>,
    is_flat: bool,
) -> Result<Vec<PlyColumn>> {
    let mut inferred: Vec<PlyColumn> = Vec::new();
    for (at, column) in columns.enumerate() {
        let axis = if matches!(column.source, ScalarSource::Axis(..)) { at } else { NO_AXIS };
        let (name, dtype) = (property_name(column, axis)?, property_type(column));
        inferred.push(PlyColumn { name, dtype, is_wide: false, decided_by: inferred.len() });
        if is_flat && at == 1 {
            let name = "z".to_owned();
            inferred.push(PlyColumn { name, dtype, is_wide: false, decided_by: 1 });
        }
    }
    Ok(inferred)
}

fn other_columns_error(what: &str) -> Error {
    other_columns("those of the header", format!("{what} that the header does not name"))
}

#[cfg(test)]
mod tests {
    use zvf_formats::{CollectedPieces, FormatOptions};
    use zvf_metadata::Dtype;
    use zvf_model::flow::{ElementHeader, Header};
    use zvf_model::{Column, Elements, Field, Kind, ObjectId, Parts};

    use super::*;
    use crate::ply::write::tests::write_one;
    use crate::shared::column;

    fn int64_column(values: &[i64]) -> Column {
        column("int64", 1, &values.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Writes the pieces as a stream, and all of them as one batch.
    fn write_both_ways(header: &Header, pieces: &[Piece], memory: u64) -> [Vec<u8>; 2] {
        let options = FormatOptions { memory, ..FormatOptions::default() };
        let mut stream = Vec::new();
        let target = Target::stream(&mut stream);
        let mut writer = open(NewFile { target, options: &options, header }).unwrap();
        let mut collected = CollectedPieces::new(header, &FormatOptions::default(), "PLY");
        for piece in pieces {
            writer.write(piece.clone()).unwrap();
            collected.push(piece.clone()).unwrap();
        }
        let report = writer.finish().unwrap();
        let batch = collected.finish().unwrap().batch;
        assert_eq!(report.vertices, batch.len() as u64);
        assert_eq!(report.elements, batch.elements().map_or(0, Elements::len) as u64);
        let mut single = Vec::new();
        write_one(&batch, &header.axes, &mut single).unwrap();
        [stream, single]
    }

    fn check_both_ways(header: &Header, pieces: &[Piece]) {
        for memory in [0, 1 << 20] {
            let [stream, single] = write_both_ways(header, pieces, memory);
            assert_eq!(stream, single, "{}", String::from_utf8_lossy(&stream));
        }
    }

    fn graph(kind: Kind, width: u32, first: u8, id: i64) -> Batch {
        let places: Vec<u8> = (0..3 * width as u8).map(|at| at + first).collect();
        let weight = Field::new("weight", int64_column(&[id, 2, 3]));
        Batch::new(kind, column("uint8", width, &places)).with_field(weight).unwrap()
    }

    fn header(batch: &Batch, elements: Option<ElementHeader>) -> Header {
        let axes = ["u", "v", "w"].map(str::to_owned).into();
        Header { elements, ..Header::from_batch(batch, axes) }
    }

    fn rows(width: u32, numbers: &[i64]) -> Column {
        Column::new(Dtype::INT64, width, int64_column(numbers).bytes().to_vec().into()).unwrap()
    }

    #[test]
    fn streaming_writes_the_same_bytes() {
        for large in [4, 1 << 40] {
            let [a, b] = [graph(Kind::Graph, 3, 1, 1), graph(Kind::Graph, 3, 40, large)];
            let sort = |values: &[i64]| vec![Field::new("sort", int64_column(values))];
            let elements = |rows: &[i64], values: &[i64]| Piece::Elements {
                rows: self::rows(2, rows),
                fields: sort(values),
            };
            let about = ElementHeader { width: Some(2), fields: sort(&[]) };
            let plain = header(&a, Some(about));
            let of_objects = Header { objects: true, ..plain.clone() };
            let own = |batch: &Batch, owners: [Option<i64>; 3]| {
                let owners = owners.map(|id| id.map(ObjectId)).to_vec();
                batch.clone().with_vertex_objects(owners).unwrap()
            };
            let owned = (own(&a, [None; 3]), own(&b, [Some(7), None, None]));
            for (header, (a, b)) in [(plain, (a, b)), (of_objects, owned)] {
                let (a, b) = (Piece::Vertices(a), Piece::Vertices(b));
                check_both_ways(&header, &[a.clone(), elements(&[0, 1], &[5]), b.clone()]);
                check_both_ways(&header, &[a, b, elements(&[0, 5, 4, 1], &[large, -9])]);
            }
        }
    }

    #[test]
    fn chains_of_two_axes_and_faces() {
        let chain = |first, id| {
            let parts = Parts::new(vec![0, 2, 3], vec![ObjectId(id), ObjectId(id + 1)]).unwrap();
            graph(Kind::Polyline, 2, first, id).with_parts(parts).unwrap()
        };
        let [a, b] = [chain(0, 1), chain(9, 1 << 33)];
        check_both_ways(&header(&a, None), &[Piece::Vertices(a.clone()), Piece::Vertices(b)]);
        check_both_ways(&Header { objects: false, ..header(&a, None) }, &[]);
        let faces = |first| {
            let faces = Elements::new(3, vec![0, 1, 2, 2, 1, 0]).unwrap();
            graph(Kind::Mesh, 3, first, 1).with_elements(faces).unwrap()
        };
        let header = header(&faces(0), Some(ElementHeader { width: Some(3), fields: Vec::new() }));
        check_both_ways(&header, &[Piece::Vertices(faces(0)), Piece::Vertices(faces(50))]);
    }

    #[test]
    fn refuses_contradicting_input() {
        let batch = graph(Kind::Graph, 3, 1, 1);
        let about = ElementHeader { width: Some(2), fields: Vec::new() };
        let header = header(&batch, Some(about));
        let elements = |numbers: &[i64], width| Piece::Elements {
            rows: rows(width, numbers),
            fields: Vec::new(),
        };
        let vertices = || Piece::Vertices(batch.clone());
        for (pieces, expected) in [
            (vec![vertices(), elements(&[0, 3], 2)], "an element of vertex 3, where there are 3"),
            (vec![vertices(), elements(&[0, -1], 2)], "negative vertices"),
            (
                vec![vertices(), elements(&[0, 1], 2), elements(&[0, 1, 2], 3)],
                "elements of two widths",
            ),
            (vec![Piece::Vertices(graph(Kind::Graph, 2, 1, 1))], "positions that the header"),
        ] {
            let mut file = Vec::new();
            let (target, options) = (Target::stream(&mut file), &FormatOptions::default());
            let mut writer = open(NewFile { target, options, header: &header }).unwrap();
            let pushed = pieces.into_iter().try_for_each(|piece| writer.write(piece));
            let error = pushed.and_then(|()| writer.finish().map(drop)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
