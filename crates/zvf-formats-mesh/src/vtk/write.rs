//! Writer of VTP: one piece, its arrays appended as raw bytes, little-endian, with counts of 64 bits.
//!
//! Points get a vert each, edges and chains are lines, faces are polys. Attributes of chains, edges and faces are cell
//! data; the object is an array `object_id` of faces and chains, otherwise of points.

use std::io::Write;

use zvf_error::Result;
use zvf_format::num::{nearest_f32, to_u64};
use zvf_formats::{
    CollectedInput, Encoded, NUMBERS, Target, UINT8, arrange_field, format_value, new_column,
    to_f32_bytes, value_places,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, Elements, Field, Kind, ObjectId};

/// An array to append.
struct Array {
    kind: &'static str,
    name: String,
    width: u32,
    values: Column,
    tuples: Option<usize>, // of text
}

impl Array {
    fn new(name: &str, dtype: Dtype, width: u32, bytes: Vec<u8>) -> Result<Self> {
        Self::from_column(name, &new_column(dtype, width, bytes)?)
    }

    /// Creates an array of integers from their bytes, little-endian.
    fn from_ints(name: &str, values: impl Iterator<Item = [u8; 8]>) -> Result<Self> {
        Self::new(name, Dtype::INT64, 1, values.flatten().collect())
    }

    fn from_fields(fields: &[Field]) -> Result<Vec<Self>> {
        fields.iter().map(Self::from_field).collect()
    }

    fn from_field(field: &Field) -> Result<Self> {
        let is_text = field.categories.is_some() || field.column.dtype().kind == DtypeKind::Text;
        if is_text {
            let mut bytes = Vec::new();
            for (row, at) in value_places(&field.column) {
                bytes.extend(format_value(field, row, at)?.bytes().filter(|byte| *byte != 0));
                bytes.push(0);
            }
            let (width, tuples) = (field.column.width(), Some(field.column.len()));
            let array = Self::new(&field.name, UINT8, 1, bytes)?;
            return Ok(Self { kind: "String", width, tuples, ..array });
        }
        Self::from_column(&field.name, &field.column)
    }

    fn from_column(name: &str, column: &Column) -> Result<Self> {
        let (kind, values) = match name_of(column.dtype()) {
            Some(kind) => (kind, column.clone()),
            None => {
                let bytes = to_f32_bytes(column);
                ("Float32", new_column(Dtype::FLOAT32, column.width(), bytes)?)
            }
        };
        Ok(Self { kind, name: name.to_owned(), width: values.width(), values, tuples: None })
    }
}

fn name_of(dtype: Dtype) -> Option<&'static str> {
    let stored = if dtype.kind == DtypeKind::Bool { UINT8 } else { dtype };
    NUMBERS.into_iter().find(|(_, number)| *number == stored).map(|(name, _)| name)
}

/// The cells of the input, which are of one sort.
#[derive(Default)]
struct Cells {
    sort: &'static str,
    rows: Vec<u8>, // as 64 bits each, like `ends`
    ends: Vec<u8>,
    data: Vec<Array>,
}

impl Cells {
    fn push(&mut self, rows: impl IntoIterator<Item = usize>) {
        self.rows.extend(rows.into_iter().flat_map(|row| to_u64(row).to_le_bytes()));
        self.ends.extend(to_u64(self.rows.len() / 8).to_le_bytes());
    }
}

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let mut cells = build_cells(input)?;
    let mut point_data = Array::from_fields(input.batch.fields())?;
    let has_point_owners =
        matches!(input.header.kind, Kind::PointCloud | Kind::Graph | Kind::Skeleton);
    if let Some(owners) = input.owners().filter(|_| has_point_owners) {
        let ids = owners.into_iter().map(|owner| owner.map_or(-1, |id| id.0).to_le_bytes());
        point_data.push(Array::from_ints("object_id", ids)?);
    }
    let mut body = Body::default();
    body.push_head(input.batch.len(), &cells);
    body.push_section("PointData", point_data);
    body.push_section("CellData", std::mem::take(&mut cells.data));
    body.push_section("Points", vec![encode_positions(input)?]);
    for sort in ["Verts", "Lines", "Strips", "Polys"] {
        let own = if sort == cells.sort { std::mem::take(&mut cells) } else { Cells::default() };
        let array = |name, bytes| Array::new(name, Dtype::INT64, 1, bytes);
        let arrays = vec![array("connectivity", own.rows)?, array("offsets", own.ends)?];
        body.push_section(sort, arrays);
    }
    body.xml.push_str("    </Piece>\n  </PolyData>\n  <AppendedData encoding=\"raw\">\n   _");
    out.write_all(body.xml.as_bytes())?;
    for Array { values, .. } in body.arrays {
        out.write_all(&to_u64(values.bytes().len()).to_le_bytes())?;
        out.write_all(values.bytes())?;
    }
    out.write_all(b"\n  </AppendedData>\n</VTKFile>\n")?;
    Ok(input.report(Vec::new()))
}

#[derive(Default)]
struct Body {
    xml: String,
    arrays: Vec<Array>,
    size: u64, // of the arrays
}

impl Body {
    fn push_head(&mut self, points: usize, cells: &Cells) {
        let count = |sort| if sort == cells.sort { cells.ends.len() / 8 } else { 0 };
        let [verts, lines, polys] = ["Verts", "Lines", "Polys"].map(count);
        self.xml.push_str(&format!(
            "<?xml version=\"1.0\"?>\n<VTKFile type=\"PolyData\" version=\"1.0\" \
             byte_order=\"LittleEndian\" header_type=\"UInt64\">\n  <PolyData>\n    \
             <Piece NumberOfPoints=\"{points}\" NumberOfVerts=\"{verts}\" NumberOfLines=\"{lines}\" \
             NumberOfStrips=\"0\" NumberOfPolys=\"{polys}\">\n"
        ));
    }

    fn push_section(&mut self, name: &str, arrays: Vec<Array>) {
        self.xml.push_str(&format!("      <{name}>\n"));
        for array in arrays {
            let (offset, size) = (self.size, to_u64(array.values.bytes().len()));
            self.size += 8 + size; // the size, then the values
            let tag = if array.tuples.is_some() { "Array" } else { "DataArray" };
            let tuples =
                array.tuples.map(|n| format!(" NumberOfTuples=\"{n}\"")).unwrap_or_default();
            let name = quick_xml::escape::escape(array.name.as_str());
            self.xml.push_str(&format!(
                "        <{tag} type=\"{}\" Name=\"{name}\" NumberOfComponents=\"{}\"{tuples} \
                 format=\"appended\" offset=\"{offset}\"/>\n",
                array.kind, array.width
            ));
            self.arrays.push(array);
        }
        self.xml.push_str(&format!("      </{name}>\n"));
    }
}

/// Encodes positions with three axes.
fn encode_positions(input: &CollectedInput) -> Result<Array> {
    let column = input.batch.positions();
    let is_float = matches!(name_of(column.dtype()), Some("Float32" | "Float64"));
    if column.width() == 3 && is_float {
        return Array::from_column("Points", column);
    }
    let is_single = column.dtype() == Dtype::FLOAT32 || column.dtype().size < 4;
    let all = (0..column.len()).flat_map(|row| input.point(row));
    let (dtype, bytes) = match is_single {
        true => (Dtype::FLOAT32, all.flat_map(|x| nearest_f32(x).to_le_bytes()).collect()),
        false => (Dtype::FLOAT64, all.flat_map(f64::to_le_bytes).collect()),
    };
    Array::new("Points", dtype, 3, bytes)
}

fn build_cells(input: &CollectedInput) -> Result<Cells> {
    let mut cells = Cells { sort: "Lines", ..Cells::default() };
    match input.header.kind {
        Kind::PointCloud => {
            cells.sort = "Verts";
            (0..input.batch.len()).for_each(|row| cells.push([row]));
        }
        Kind::Mesh => {
            cells.sort = "Polys";
            let faces = || input.batch.elements().into_iter().flat_map(Elements::iter);
            faces().for_each(|face| cells.push(face.iter().copied()));
            cells.data = Array::from_fields(input.element_fields())?;
            if let Some(owners) = input.owners() {
                let owner = |face: &[usize]| {
                    let first = face.first().and_then(|row| owners[*row]);
                    first.map_or(-1, |id| id.0).to_le_bytes()
                };
                cells.data.push(Array::from_ints("object_id", faces().map(owner))?);
            }
        }
        kind if kind.is_chain() => {
            let parts = || input.batch.parts().iter();
            parts().for_each(|part| cells.push(part.rows));
            let ids: Vec<ObjectId> = parts().map(|part| part.object).collect();
            cells.data = object_data(input, &ids)?;
            let ids = ids.iter().map(|id| id.0.to_le_bytes());
            cells.data.push(Array::from_ints("object_id", ids)?);
        }
        _ => {
            input.edges().into_iter().for_each(|(edge, _)| cells.push(edge));
            cells.data = Array::from_fields(input.element_fields())?;
        }
    }
    Ok(cells)
}

/// Returns the attributes of the objects of lines, one row per line.
fn object_data(input: &CollectedInput, ids: &[ObjectId]) -> Result<Vec<Array>> {
    let rows: std::collections::HashMap<ObjectId, usize> =
        input.objects.iter().enumerate().map(|(row, id)| (*id, row)).collect();
    let rows: Vec<Option<usize>> = ids.iter().map(|id| rows.get(id).copied()).collect();
    let arrange = |field: &Field| Array::from_field(&arrange_field(field, &rows));
    input.object_fields.iter().map(arrange).collect()
}
