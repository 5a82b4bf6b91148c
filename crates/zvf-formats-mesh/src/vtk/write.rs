//! Writer of VTP: one piece, its arrays appended as raw bytes, little-endian, with counts of 64 bits.
//!
//! Points get a vert each, edges and chains are lines, faces are polys. Attributes of chains, edges and faces are cell
//! data; the object is an array `object_id` of faces and chains, otherwise of points.

use std::io::Write;

use zvf_error::Result;
use zvf_format::num::{nearest_f32, to_u64};
use zvf_formats::{
    CollectedInput, Encoded, NUMBERS, Target, UINT8, format_value, gather_rows, to_f32_bytes,
    value_places,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, Field, Kind, ObjectId};

/// An array to append.
struct Array {
    kind: &'static str,
    name: String,
    width: u32,
    bytes: Vec<u8>,
    tuples: Option<usize>, // of text
}

impl Array {
    /// Creates an array of integers from their bytes, little-endian.
    fn from_ints(name: &str, values: impl Iterator<Item = [u8; 8]>) -> Self {
        let bytes = values.flatten().collect();
        Self { kind: "Int64", name: name.to_owned(), width: 1, bytes, tuples: None }
    }

    fn from_fields(fields: &[Field]) -> Result<Vec<Self>> {
        fields.iter().map(Self::from_field).collect()
    }

    fn from_field(field: &Field) -> Result<Self> {
        let name = field.name.to_string();
        let is_text = field.categories.is_some() || field.column.dtype().kind == DtypeKind::Text;
        if is_text {
            let mut bytes = Vec::new();
            for (row, at) in value_places(&field.column) {
                bytes.extend(format_value(field, row, at)?.bytes().filter(|byte| *byte != 0));
                bytes.push(0);
            }
            let (width, tuples) = (field.column.width(), Some(field.column.len()));
            return Ok(Self { kind: "String", name, width, bytes, tuples });
        }
        Ok(Self::from_column(name, &field.column))
    }

    fn from_column(name: String, column: &Column) -> Self {
        let (kind, bytes) = match name_of(column.dtype()) {
            Some(kind) => (kind, column.bytes().to_vec()),
            None => ("Float32", to_f32_bytes(column)),
        };
        Self { kind, name, width: column.width(), bytes, tuples: None }
    }
}

fn name_of(dtype: Dtype) -> Option<&'static str> {
    let stored = if dtype.kind == DtypeKind::Bool { UINT8 } else { dtype };
    NUMBERS.into_iter().find(|(_, number)| *number == stored).map(|(name, _)| name)
}

/// The cells of the input, of one sort.
#[derive(Default)]
struct Cells {
    verts: Vec<Vec<usize>>,
    lines: Vec<Vec<usize>>,
    polys: Vec<Vec<usize>>,
    data: Vec<Array>,
}

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let cells = build_cells(input)?;
    let mut point_data = Array::from_fields(input.batch.fields())?;
    let has_point_owners =
        matches!(input.header.kind, Kind::PointCloud | Kind::Graph | Kind::Skeleton);
    if let Some(owners) = input.owners().filter(|_| has_point_owners) {
        let ids = owners.into_iter().map(|owner| owner.map_or(-1, |id| id.0).to_le_bytes());
        point_data.push(Array::from_ints("object_id", ids));
    }
    let points = input.batch.len();
    let counts = [cells.verts.len(), cells.lines.len(), cells.polys.len()];
    let mut body = Body { xml: String::new(), appended: Vec::new() };
    body.push_head(points, counts);
    body.push_section("PointData", &point_data);
    body.push_section("CellData", &cells.data);
    body.push_section("Points", &[encode_positions(input)]);
    for (name, cells) in [
        ("Verts", &cells.verts),
        ("Lines", &cells.lines),
        ("Strips", &Vec::new()),
        ("Polys", &cells.polys),
    ] {
        let ids = cells.iter().flatten().map(|row| to_u64(*row).to_le_bytes());
        let ends = cells.iter().scan(0_u64, |sum, cell| {
            *sum += to_u64(cell.len());
            Some(sum.to_le_bytes())
        });
        let arrays = [Array::from_ints("connectivity", ids), Array::from_ints("offsets", ends)];
        body.push_section(name, &arrays);
    }
    body.xml.push_str("    </Piece>\n  </PolyData>\n  <AppendedData encoding=\"raw\">\n   _");
    out.write_all(body.xml.as_bytes())?;
    out.write_all(&body.appended)?;
    out.write_all(b"\n  </AppendedData>\n</VTKFile>\n")?;
    Ok(input.report(Vec::new()))
}

struct Body {
    xml: String,
    appended: Vec<u8>,
}

impl Body {
    fn push_head(&mut self, points: usize, [verts, lines, polys]: [usize; 3]) {
        self.xml.push_str(&format!(
            "<?xml version=\"1.0\"?>\n<VTKFile type=\"PolyData\" version=\"1.0\" \
             byte_order=\"LittleEndian\" header_type=\"UInt64\">\n  <PolyData>\n    \
             <Piece NumberOfPoints=\"{points}\" NumberOfVerts=\"{verts}\" NumberOfLines=\"{lines}\" \
             NumberOfStrips=\"0\" NumberOfPolys=\"{polys}\">\n"
        ));
    }

    fn push_section(&mut self, name: &str, arrays: &[Array]) {
        self.xml.push_str(&format!("      <{name}>\n"));
        for array in arrays {
            let offset = self.appended.len();
            let size = to_u64(array.bytes.len());
            self.appended.extend_from_slice(&size.to_le_bytes());
            self.appended.extend_from_slice(&array.bytes);
            let tag = if array.tuples.is_some() { "Array" } else { "DataArray" };
            let tuples =
                array.tuples.map(|n| format!(" NumberOfTuples=\"{n}\"")).unwrap_or_default();
            let name = quick_xml::escape::escape(array.name.as_str());
            self.xml.push_str(&format!(
                "        <{tag} type=\"{}\" Name=\"{name}\" NumberOfComponents=\"{}\"{tuples} \
                 format=\"appended\" offset=\"{offset}\"/>\n",
                array.kind, array.width
            ));
        }
        self.xml.push_str(&format!("      </{name}>\n"));
    }
}

/// Encodes positions with three axes.
fn encode_positions(input: &CollectedInput) -> Array {
    let column = input.batch.positions();
    let is_single = column.dtype() == Dtype::FLOAT32 || column.dtype().size < 4;
    let all = (0..column.len()).flat_map(|row| input.point(row));
    let bytes = match is_single {
        true => all.flat_map(|x| nearest_f32(x).to_le_bytes()).collect(),
        false => all.flat_map(f64::to_le_bytes).collect(),
    };
    let kind = if is_single { "Float32" } else { "Float64" };
    Array { kind, name: "Points".into(), width: 3, bytes, tuples: None }
}

fn build_cells(input: &CollectedInput) -> Result<Cells> {
    let mut cells = Cells::default();
    match input.header.kind {
        Kind::PointCloud => cells.verts = (0..input.batch.len()).map(|row| vec![row]).collect(),
        Kind::Mesh => {
            let elements = input.batch.elements();
            cells.polys =
                elements.into_iter().flat_map(|e| e.iter()).map(<[usize]>::to_vec).collect();
            cells.data = Array::from_fields(input.element_fields())?;
            if let Some(owners) = input.owners() {
                let owner = |face: &Vec<usize>| {
                    let first = face.first().and_then(|row| owners[*row]);
                    first.map_or(-1, |id| id.0).to_le_bytes()
                };
                cells.data.push(Array::from_ints("object_id", cells.polys.iter().map(owner)));
            }
        }
        kind if kind.is_chain() => {
            let parts: Vec<_> = input.batch.parts().iter().collect();
            cells.lines = parts.iter().map(|part| part.rows.clone().collect()).collect();
            let ids: Vec<ObjectId> = parts.iter().map(|part| part.object).collect();
            cells.data = object_data(input, &ids)?;
            cells.data.push(Array::from_ints("object_id", ids.iter().map(|id| id.0.to_le_bytes())));
        }
        _ => {
            cells.lines = input.edges().into_iter().map(|(edge, _)| edge.to_vec()).collect();
            cells.data = Array::from_fields(input.element_fields())?;
        }
    }
    Ok(cells)
}

/// Returns the attributes of the objects of lines, one row per line.
fn object_data(input: &CollectedInput, ids: &[ObjectId]) -> Result<Vec<Array>> {
    let rows: std::collections::HashMap<ObjectId, usize> =
        input.objects.iter().enumerate().map(|(row, id)| (*id, row)).collect();
    let Some(rows) = ids.iter().map(|id| rows.get(id).copied()).collect::<Option<Vec<usize>>>()
    else {
        return Ok(Vec::new()); // some objects have no attributes
    };
    let gather =
        |field: &Field| Array::from_field(&field.with_column(gather_rows(&field.column, &rows)));
    input.object_fields.iter().map(gather).collect()
}
