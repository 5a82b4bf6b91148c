//! Reader of GIFTI: arrays in XML, as text, base64, zlib or in an external file.
//!
//! ```text
//! GIFTI > MetaData, LabelTable, DataArray (Intent, DataType, Dim0.., Encoding, Endian, ArrayIndexingOrder)
//! DataArray > MetaData, CoordinateSystemTransformMatrix, Data
//! ```
//!
//! The dimensions give the size of an array, and no more is unpacked. `GZipBase64Binary` is a zlib stream. The name of
//! an external file is plain, in the same folder. `NODE_INDEX` has the vertices of the other arrays.

use std::fmt::Display;

use serde_json::{Map, Value as Json, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_formats::{
    ByteFault, Bytes, Element, FLOAT64, FileReader, INT32, NUMBERS, RandomFile, ReadOptions, Spot,
    Values, WholeFile, Xml, decode_base64, inflate, new_column, number_column, open_companion,
    quote_start, whole_numbers,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Categories, Column, Field, Value};

use crate::surface::read::{SurfaceFile, SurfaceValues, is_gifti, open_files};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let parse = |file: &WholeFile| parse(file)?.into_surface();
    open_files(bytes, options, "GIFTI", is_gifti, parse)
}

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct GiftiFile {
    pub(crate) arrays: Vec<GiftiArray>,
    meta: Map<String, Json>,
    labels: Vec<Label>,
    surface: SurfaceFile, // with the name and the hemisphere
}

/// An array with its metadata.
#[derive(Debug)]
pub(crate) struct GiftiArray {
    /// The intent, without `NIFTI_INTENT_`.
    intent: String,
    pub(crate) values: Column,
    meta: Map<String, Json>,
    matrices: Vec<Json>,
}

#[derive(Debug)]
struct Label {
    key: i64,
    name: String,
    rgba: [Option<f64>; 4],
}

pub(crate) fn parse(file: &WholeFile) -> Result<GiftiFile> {
    let mut all = GiftiFile {
        arrays: Vec::new(),
        meta: Map::new(),
        labels: Vec::new(),
        surface: SurfaceFile::from_file_name(file.path.as_deref()),
    };
    let (mut xml, _) = Xml::open(file, file.text()?, "GIFTI")?;
    while let Some(element) = xml.next_inside(0)? {
        match &*element.name {
            "MetaData" => all.meta.extend(read_meta(&mut xml)?),
            "LabelTable" => all.labels = read_labels(&mut xml)?,
            "DataArray" => {
                let array = read_array(file, &mut xml, &element, all.arrays.len())?;
                all.arrays.push(array);
            }
            _ => xml.skip_element()?,
        }
    }
    Ok(all)
}

fn read_meta(xml: &mut Xml<'_>) -> Result<Map<String, Json>> {
    let (mut all, mut name, depth) = (Map::new(), String::new(), xml.depth());
    while let Some(element) = xml.next_inside(depth)? {
        match &*element.name {
            "Name" => name = xml.text_of_element()?,
            "Value" => {
                let value = xml.text_of_element()?;
                all.insert(name.trim().to_owned(), Json::String(value.trim().to_owned()));
            }
            _ => {}
        }
    }
    Ok(all)
}

fn read_labels(xml: &mut Xml<'_>) -> Result<Vec<Label>> {
    let (mut labels, depth) = (Vec::new(), xml.depth());
    while let Some(element) = xml.next_inside(depth)? {
        if element.name != "Label" {
            continue;
        }
        let text = element.get("Key").or_else(|| element.get("Index"));
        let key = text.and_then(|key| key.trim().parse().ok());
        let found = format_args!("{text:?}");
        let key = xml.here().need(key, Class::Encoding, "a whole number as Key", found)?;
        let mut rgba = [None; 4];
        for (share, name) in rgba.iter_mut().zip(["Red", "Green", "Blue", "Alpha"]) {
            let Some(text) = element.get(name) else { continue };
            let number = text.trim().parse().map_err(|_no_number| {
                let expected = format!("a number as {name} of a label");
                xml.here().error(Class::Encoding, expected, quote_start(text))
            });
            *share = Some(number?);
        }
        labels.push(Label { key, name: xml.text_of_element()?, rgba });
    }
    Ok(labels)
}

fn read_array(
    file: &WholeFile,
    xml: &mut Xml<'_>,
    element: &Element,
    number: usize,
) -> Result<GiftiArray> {
    let head = ArrayHead::new(file, element, number)?;
    let intent = element.get("Intent").unwrap_or("NIFTI_INTENT_NONE");
    let intent = intent.strip_prefix("NIFTI_INTENT_").unwrap_or(intent).to_owned();
    let (mut meta, mut matrices, mut values) = (Map::new(), Vec::new(), None);
    let depth = xml.depth();
    while let Some(inner) = xml.next_inside(depth)? {
        match &*inner.name {
            "MetaData" => meta = read_meta(xml)?,
            "CoordinateSystemTransformMatrix" => matrices.push(read_matrix(xml)?),
            "Data" => values = Some(head.read(&xml.text_of_element()?)?),
            _ => xml.skip_element()?,
        }
    }
    let values = values.map_or_else(|| head.read(""), Ok)?;
    Ok(GiftiArray { intent, values, meta, matrices })
}

fn read_matrix(xml: &mut Xml<'_>) -> Result<Json> {
    let (mut matrix, depth) = (Map::new(), xml.depth());
    while let Some(inner) = xml.next_inside(depth)? {
        let text = xml.text_of_element()?;
        let text = text.trim();
        let value = if inner.name == "MatrixData" {
            let number = |word: &str| {
                word.parse::<f64>().map_err(|_no_number| {
                    xml.here().error(Class::Encoding, "numbers in MatrixData", quote_start(word))
                })
            };
            let numbers = text.split_ascii_whitespace().map(number);
            json!(numbers.collect::<Result<Vec<_>, _>>()?)
        } else {
            json!(text)
        };
        matrix.insert(inner.name, value);
    }
    Ok(Json::Object(matrix))
}

/// The type and the dimensions of an array, from its attributes.
struct ArrayHead<'a> {
    file: &'a WholeFile,
    element: &'a Element,
    number: usize,
    dtype: Dtype,
    dims: Vec<usize>,
    size: usize, // bytes
    by_columns: bool,
}

impl<'a> ArrayHead<'a> {
    fn new(file: &'a WholeFile, element: &'a Element, number: usize) -> Result<Self> {
        let spot = |part: &str| file.spot(format!("DataArray {number} {part}"));
        let name = element.get("DataType").unwrap_or("NIFTI_TYPE_FLOAT32");
        let kind = name.strip_prefix("NIFTI_TYPE_");
        let entry = NUMBERS.iter().find(|(key, _)| kind == Some(&key.to_ascii_uppercase()));
        let Some((_, dtype)) = entry else {
            let expected = "a type of integers or floats";
            return spot("DataType").refuse(Class::Unsupported, expected, format!("{name:?}"));
        };
        let count =
            element.get("Dimensionality").map_or(Ok(1), |text| text.trim().parse::<usize>());
        let count = count.ok().filter(|count| (1..=6).contains(count));
        let found = format_args!("{:?}", element.get("Dimensionality"));
        let count = spot("Dimensionality").need(count, Class::BadShape, "1 to 6", found)?;
        let mut dims = Vec::new();
        for axis in 0..count {
            let text = element.get(&format!("Dim{axis}"));
            let dim = text.and_then(|text| text.trim().parse::<usize>().ok());
            let part = format!("Dim{axis}");
            let dim =
                spot(&part).need(dim, Class::BadShape, "a count", format_args!("{text:?}"))?;
            dims.push(dim);
        }
        let size = dims.iter().try_fold(dtype.size, |size, dim| size.checked_mul(to_u64(*dim)));
        let size = size.and_then(|size| usize::try_from(size).ok());
        let found = format_args!("{dims:?}");
        let expected = "as many numbers as there are";
        let size = spot("Dim0").need(size, Class::CountMismatch, expected, found)?;
        let by_columns = element.get("ArrayIndexingOrder") == Some("ColumnMajorOrder");
        Ok(Self { file, element, number, dtype: *dtype, dims, size, by_columns })
    }

    fn spot(&self, part: &str) -> Spot<String> {
        self.file.spot(format!("DataArray {} {part}", self.number))
    }

    fn read(&self, text: &str) -> Result<Column> {
        let fault = |fault: ByteFault| self.spot("Data").fault(fault);
        let endian = self.element.get("Endian").unwrap_or("LittleEndian");
        let dtype = Dtype { big_endian: endian == "BigEndian", ..self.dtype };
        let bytes = match self.element.get("Encoding").unwrap_or("ASCII") {
            "ASCII" | "GIFTI_ENCODING_ASCII" => {
                return self.build_column(self.read_text(text)?, self.dtype);
            }
            "Base64Binary" => {
                let bytes = decode_base64(text.as_bytes()).map_err(fault)?;
                self.check_size(bytes.len())?;
                bytes
            }
            "GZipBase64Binary" => {
                let stream = decode_base64(text.as_bytes()).map_err(fault)?;
                // A byte of a stream inflates to at most 1032 bytes.
                if self.size / 1032 > stream.len() + 1 {
                    self.check_size(stream.len())?;
                }
                inflate(&stream, self.size).map_err(fault)?
            }
            "ExternalFileBinary" => self.read_external()?,
            encoding => {
                let expected = "ASCII, Base64Binary, GZipBase64Binary or ExternalFileBinary";
                return self.spot("Data").refuse(Class::BadTag, expected, format!("{encoding:?}"));
            }
        };
        self.build_column(bytes, dtype)
    }

    fn check_size(&self, found: usize) -> Result<()> {
        let expected = format_args!("{} bytes of {:?} {}", self.size, self.dims, self.dtype);
        let (is_right, found) = (found == self.size, format_args!("{found} bytes"));
        self.spot("Dim0").ensure(is_right, Class::CountMismatch, expected, found)
    }

    fn read_text(&self, text: &str) -> Result<Vec<u8>> {
        let mut values = Values::new(self.dtype, 1);
        for (count, word) in text.split_ascii_whitespace().enumerate() {
            let number = match self.dtype.kind {
                DtypeKind::Float => word,
                _ => word.strip_suffix(".0").unwrap_or(word),
            };
            if !values.push_text(number) {
                let spot = self.spot(&format!("Data, value {count}"));
                return spot.refuse(Class::Encoding, self.dtype, quote_start(word));
            }
        }
        let bytes = values.take()?.bytes().to_vec();
        self.check_size(bytes.len())?;
        Ok(bytes)
    }

    fn read_external(&self) -> Result<Vec<u8>> {
        let name = self.element.get("ExternalFileName").unwrap_or_default();
        let path = open_companion("GIFTI", self.file.path.as_deref(), name)?;
        let spot = self.spot("ExternalFileOffset");
        let text = self.element.get("ExternalFileOffset").unwrap_or("0");
        let (offset, found) = (text.trim().parse::<u64>().ok(), quote_start(text));
        let offset = spot.need(offset, Class::Encoding, "a whole number of bytes", found)?;
        let mut from = RandomFile::open(Bytes::open(&path)?, 0)?;
        let (size, length) = (to_u64(self.size), from.len());
        let is_whole = offset.checked_add(size).is_some_and(|end| end <= length);
        let expected = format_args!("{size} bytes of {name:?}");
        let found = format_args!("{length} in all");
        spot.ensure(is_whole, Class::Truncated, expected, found)?;
        from.read(offset, size, "an array")
    }

    /// Builds a column with the rows of the first dimension, from bytes in the order of the file.
    fn build_column(&self, mut bytes: Vec<u8>, dtype: Dtype) -> Result<Column> {
        if self.size == 0 {
            return new_column(Dtype { big_endian: false, ..dtype }, 1, Vec::new());
        }
        let width = self.dims[1..].iter().product::<usize>(); // at most the size
        let width = u32::try_from(width).map_err(|_too_wide| {
            let expected = format!("rows of at most {} values", u32::MAX);
            self.spot("Dim1").error(Class::LimitExceeded, expected, width)
        })?;
        if self.by_columns && self.dims.len() > 1 {
            bytes = to_row_major(&bytes, &self.dims, saturating_usize(dtype.size));
        }
        new_column(dtype, width, bytes)
    }
}

/// Reorders items of `size` bytes from column-major to row-major order. There are as many as `dims` say.
fn to_row_major(bytes: &[u8], dims: &[usize], size: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len());
    let mut index = vec![0_usize; dims.len()];
    for _ in 0..bytes.len() / size {
        let mut at = 0;
        for (i, dim) in index.iter().zip(dims).rev() {
            at = at * dim + i;
        }
        all.extend_from_slice(&bytes[at * size..(at + 1) * size]);
        for (i, dim) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *dim {
                break;
            }
            *i = 0;
        }
    }
    all
}

impl GiftiFile {
    /// Sorts the arrays into points, faces and values.
    fn into_surface(self) -> Result<SurfaceFile> {
        let mut surface = self.surface;
        let mut nodes: Option<Vec<i64>> = None;
        let mut arrays = Vec::new();
        for (number, array) in self.arrays.into_iter().enumerate() {
            let GiftiArray { intent, values, meta, matrices } = array;
            arrays.push(json!({"intent": intent, "meta": meta, "matrices": matrices}));
            let text = |key: &str| meta.get(key).and_then(Json::as_str);
            match text("AnatomicalStructurePrimary") {
                Some("CortexLeft") => surface.hemisphere = Some(0),
                Some("CortexRight") => surface.hemisphere = Some(1),
                _ => {}
            }
            let name = text("Name").filter(|name| !name.is_empty()).map(str::to_owned);
            match &*intent {
                "POINTSET" => surface.point_sets.push((name, check_points(number, values)?)),
                "TRIANGLE" if surface.faces.is_none() => {
                    surface.faces = Some(to_vertices(number, &values, 3)?);
                }
                "NODE_INDEX" => {
                    let all = to_vertices(number, &values, 1)?;
                    if let Some(node) = all.iter().find(|node| **node < 0) {
                        let (place, found) = (format!("DataArray {number}"), node.to_string());
                        return spot(place).refuse(Class::Negative, "vertices from 0", found);
                    }
                    nodes = Some(all);
                }
                intent => {
                    let name = match (name, intent) {
                        (Some(name), _) => name,
                        (None, "NONE" | "SHAPE" | "LABEL") => surface.name.clone(),
                        (None, _) => format!("{}_{}", surface.name, intent.to_ascii_lowercase()),
                    };
                    let field = match intent {
                        "LABEL" => label_column(&name, values, &self.labels)?,
                        _ => Field::new(name, values),
                    };
                    surface.values.push(SurfaceValues { field, nodes: None });
                }
            }
        }
        if let Some(nodes) = nodes {
            for values in &mut surface.values {
                if values.field.column.len() != nodes.len() {
                    let expected = format!("{} values as NODE_INDEX has", nodes.len());
                    let found = values.field.column.len().to_string();
                    let here = spot(values.field.name.to_string());
                    return here.refuse(Class::CountMismatch, expected, found);
                }
                values.nodes = Some(nodes.clone());
            }
        }
        let labels: Vec<Json> = self
            .labels
            .iter()
            .map(|label| json!({"key": label.key, "name": label.name, "rgba": label.rgba}))
            .collect();
        surface.record.insert("meta".to_owned(), Json::Object(self.meta));
        surface.record.insert("arrays".to_owned(), Json::Array(arrays));
        if !labels.is_empty() {
            surface.record.insert("labels".to_owned(), Json::Array(labels));
        }
        Ok(surface)
    }
}

const fn spot<P: Display>(place: P) -> Spot<P> {
    Spot::new("GIFTI", place)
}

fn check_points(number: usize, values: Column) -> Result<Column> {
    let is_float = values.dtype() == Dtype::FLOAT32 || values.dtype() == FLOAT64;
    if is_float && values.is_empty() {
        return new_column(values.dtype(), 3, Vec::new());
    }
    if is_float && values.width() == 3 {
        return Ok(values);
    }
    let found = format!("{} {}", values.width(), values.dtype());
    spot(format!("DataArray {number}")).refuse(Class::BadShape, "three floats a vertex", found)
}

fn to_vertices(number: usize, values: &Column, width: u32) -> Result<Vec<i64>> {
    let place = || format!("DataArray {number}");
    if values.width() != width && !values.is_empty() {
        let found = values.width().to_string();
        return spot(place()).refuse(Class::BadShape, format!("{width} vertices a row"), found);
    }
    whole_numbers(values)
        .map_err(|found| spot(place()).error(Class::BadTag, "whole numbers", found))
}

/// Converts labels to categories, or returns plain keys where one of them has no label.
fn label_column(name: &str, values: Column, labels: &[Label]) -> Result<Field> {
    let keys = to_vertices(0, &values, values.width())?;
    let places: std::collections::HashMap<i64, i32> =
        labels.iter().zip(0..).map(|(label, at)| (label.key, at)).collect();
    let codes: Option<Vec<i32>> = keys.iter().map(|key| places.get(key).copied()).collect();
    let Some(codes) = codes else { return Ok(Field::new(name, values)) };
    let texts = labels.iter().map(|label| Value::Text(label.name.clone())).collect();
    let column = number_column(INT32, values.width(), &codes, |code| code.to_le_bytes())?;
    Ok(Field::new(name, column).with_categories(Categories::new(texts, None)))
}
