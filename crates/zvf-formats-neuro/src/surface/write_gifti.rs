//! Writer of GIFTI: arrays as zlib in base64, vertices in the order of their source files.
//!
//! ```text
//! a file     points, triangles and all attributes
//! a folder   lh.SURFACE.surf.gii, lh.NAME.surf.gii (coords_NAME), lh.NAME.shape.gii, lh.NAME.label.gii; rh likewise
//! ```
//!
//! Integers of up to 32 bits are `INT32` (bytes `UINT8`), other numbers `FLOAT32`; categories are labels with their
//! own table. `zv_join_key`, which gives the order, is not written.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use quick_xml::escape::escape;
use zvf_error::Result;
use zvf_format::num::{index_u32, usize_from_u32};
use zvf_formats::{
    CollectedInput, Encoded, Target, cannot_hold, encode_base64, format_number, narrow, row_number,
    to_f32_bytes, value_places, whole_number,
};
use zvf_metadata::DtypeKind;
use zvf_model::{Column, Field, Kind};

use crate::surface::write::{
    Hemisphere, category_of, create_file, is_values, label_texts, split_hemispheres, surface_name,
    vertex_numbers,
};

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let fields: Vec<&Field> =
        input.batch.fields().iter().filter(|field| &*field.name != "zv_join_key").collect();
    let values = is_values(input);
    if input.header.kind != Kind::Mesh && !values {
        let advice = "write a mesh, or values by the number of the vertex";
        return Err(cannot_hold("GIFTI", format!("a {}", input.header.kind), advice));
    }
    let nodes = if values { vertex_numbers(input, "GIFTI")? } else { None };
    let Some(folder) = out.folder_path().map(Path::to_owned) else {
        let (hemispheres, losses) = split_hemispheres(input, true)?;
        for hemisphere in hemispheres {
            let mut file = GiftiFile::default();
            if !values {
                file.push_surface(input, &hemisphere, None)?;
            }
            file.push_nodes(nodes.as_deref())?;
            for field in &fields {
                file.push_field(&hemisphere.slice_field(field))?;
            }
            file.write(out)?;
        }
        return Ok(input.report(losses));
    };
    let (hemispheres, losses) = split_hemispheres(input, false)?;
    for hemisphere in hemispheres {
        let prefix = hemisphere.prefix();
        if !values {
            let mut surface = GiftiFile::default();
            surface.push_surface(input, &hemisphere, None)?;
            let name = surface_name(input).unwrap_or_else(|| "surface".to_owned());
            surface.create(&folder.join(format!("{prefix}.{name}.surf.gii")))?;
        }
        for field in &fields {
            let hemisphere_field = hemisphere.slice_field(field);
            let mut file = GiftiFile::default();
            let name = file_name(&field.name)?;
            let coords = name.strip_prefix("coords_").filter(|_| field.column.width() == 3);
            let path = match coords {
                Some(name) => {
                    file.push_surface(input, &hemisphere, Some(&hemisphere_field))?;
                    format!("{prefix}.{name}.surf.gii")
                }
                None => {
                    file.push_nodes(nodes.as_deref())?;
                    file.push_field(&hemisphere_field)?;
                    let kind = if file.labels.is_empty() { "shape" } else { "label" };
                    format!("{prefix}.{name}.{kind}.gii")
                }
            };
            if !file.arrays.is_empty() {
                file.create(&folder.join(path))?;
            }
        }
    }
    Ok(input.report(losses))
}

/// Checks that an attribute's name can be the name of a file, and returns it.
pub(crate) fn file_name(name: &str) -> Result<String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
    if !name.is_empty() && name.chars().all(is_plain) {
        return Ok(name.to_owned());
    }
    let what = format!("a file for the attribute {name:?}");
    Err(cannot_hold("a folder of surfaces", what, "rename it, or leave it out"))
}

#[derive(Default)]
struct GiftiFile {
    arrays: Vec<String>,
    labels: Vec<(usize, String)>,
}

impl GiftiFile {
    /// Adds points and triangles; `coords` replace the positions of the points.
    fn push_surface(
        &mut self,
        input: &CollectedInput,
        hemisphere: &Hemisphere,
        coords: Option<&Field>,
    ) -> Result<()> {
        let points = hemisphere.points(input, coords);
        let points: Vec<u8> = points.into_iter().flat_map(f32::to_le_bytes).collect();
        let meta: &[_] = match hemisphere.id {
            0 => &[("AnatomicalStructurePrimary", "CortexLeft")],
            1 => &[("AnatomicalStructurePrimary", "CortexRight")],
            _ => &[],
        };
        self.push("POINTSET", "FLOAT32", hemisphere.rows.len(), Some(3), meta, &points)?;
        let corners = hemisphere.faces.as_flattened().iter().map(|row| row_number(*row));
        let corners = vertex_bytes(corners, "write it in parts")?;
        self.push("TRIANGLE", "INT32", hemisphere.faces.len(), Some(3), &[], &corners)
    }

    /// Adds the numbers of the vertices that have values, where not all vertices have values.
    fn push_nodes(&mut self, nodes: Option<&[i64]>) -> Result<()> {
        let Some(nodes) = nodes else { return Ok(()) };
        let bytes = vertex_bytes(nodes.iter().copied(), "write CSV")?;
        self.push("NODE_INDEX", "INT32", nodes.len(), None, &[], &bytes)
    }

    fn push_field(&mut self, field: &Field) -> Result<()> {
        let meta = [("Name", &*field.name)];
        let rows = field.column.len();
        let width = usize_from_u32(field.column.width());
        let wide = (width > 1).then_some(width);
        if let Some(categories) = field.categories.as_ref().filter(|_| width == 1) {
            let first = self.labels.len();
            self.labels.extend((first..).zip(label_texts(categories)));
            let missing = self.labels.len();
            self.labels.push((missing, "???".to_owned()));
            let mut keys = Vec::with_capacity(rows * 4);
            for row in 0..rows {
                let key = category_of(field, row)?.map_or(missing, |code| first + code);
                let what = format_args!("{key} labels");
                let key: i32 = narrow(key, "GIFTI", what, "leave columns out")?;
                keys.extend(key.to_le_bytes());
            }
            return self.push("LABEL", "INT32", rows, None, &meta, &keys);
        }
        let Some((kind, bytes)) = encode_column(&field.column) else {
            return Ok(()); // text, listed as a loss before
        };
        let intent = if wide.is_some() { "NONE" } else { "SHAPE" };
        self.push(intent, kind, rows, wide, &meta, &bytes)
    }

    fn push(
        &mut self,
        intent: &str,
        kind: &str,
        rows: usize,
        width: Option<usize>,
        meta: &[(&str, &str)],
        bytes: &[u8],
    ) -> Result<()> {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(bytes)?;
        let data = encode_base64(&zlib.finish()?);
        let dims = match width {
            Some(width) => format!("Dimensionality=\"2\" Dim0=\"{rows}\" Dim1=\"{width}\""),
            None => format!("Dimensionality=\"1\" Dim0=\"{rows}\""),
        };
        let meta: String = meta
            .iter()
            .map(|(name, value)| {
                let value = value.replace("]]>", "]] >");
                format!(
                    "<MD><Name><![CDATA[{name}]]></Name><Value><![CDATA[{value}]]></Value></MD>"
                )
            })
            .collect();
        self.arrays.push(format!(
            "<DataArray Intent=\"NIFTI_INTENT_{intent}\" DataType=\"NIFTI_TYPE_{kind}\" \
             ArrayIndexingOrder=\"RowMajorOrder\" {dims} Encoding=\"GZipBase64Binary\" \
             Endian=\"LittleEndian\" ExternalFileName=\"\" ExternalFileOffset=\"\">\n\
             <MetaData>{meta}</MetaData>\n<Data>{data}</Data>\n</DataArray>\n"
        ));
        Ok(())
    }

    fn write(&self, out: &mut dyn Write) -> Result<()> {
        out.write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")?;
        writeln!(out, "<GIFTI Version=\"1.0\" NumberOfDataArrays=\"{}\">", self.arrays.len())?;
        out.write_all(b"<MetaData/>\n<LabelTable>")?;
        let share = |n: usize| format_number(f64::from(index_u32(n % 16)) / 15.0);
        for (key, name) in &self.labels {
            write!(
                out,
                "<Label Key=\"{key}\" Red=\"{}\" Green=\"{}\" Blue=\"0.5\" Alpha=\"1\">{}</Label>",
                share(*key),
                share(key / 16),
                escape(name.as_str())
            )?;
        }
        out.write_all(b"</LabelTable>\n")?;
        for array in &self.arrays {
            out.write_all(array.as_bytes())?;
        }
        out.write_all(b"</GIFTI>\n")?;
        Ok(())
    }

    fn create(&self, path: &Path) -> Result<()> {
        create_file(path, |out| self.write(out))
    }
}

/// Returns the bytes of numbers of vertices, of 32 bits each.
fn vertex_bytes(vertices: impl Iterator<Item = i64>, advice: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for vertex in vertices {
        let what = format_args!("vertex number {vertex}");
        bytes.extend(narrow::<i32, _>(vertex, "GIFTI", what, advice)?.to_le_bytes());
    }
    Ok(bytes)
}

/// Returns the type and the bytes of a column; `None` for text.
fn encode_column(column: &Column) -> Option<(&'static str, Vec<u8>)> {
    let dtype = column.dtype();
    Some(match (dtype.kind, dtype.size) {
        (DtypeKind::Text, _) => return None,
        (DtypeKind::Bool, _) | (DtypeKind::UInt, 1) => ("UINT8", column.bytes().to_vec()),
        (DtypeKind::Int, 4) => ("INT32", column.bytes().to_vec()),
        (DtypeKind::Int, 1 | 2) | (DtypeKind::UInt, 2) => {
            let value = |(row, c)| whole_number(&column.value(row, c)); // of at most 16 bits
            let value = |place| value(place).and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
            ("INT32", value_places(column).flat_map(|place| value(place).to_le_bytes()).collect())
        }
        _ => ("FLOAT32", to_f32_bytes(column)),
    })
}
