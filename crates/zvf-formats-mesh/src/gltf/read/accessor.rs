//! A glTF document and its binary data: buffers, views, accessors.

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, usize_from_u32};
use zvf_formats::{
    INT8, INT16, ReadOptions, RecordNumbers, UINT8, UINT16, UINT32, WholeFile, decode_base64,
    decode_percent, json_items, new_column, open_companion,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Column;

/// A document with its buffers.
pub(crate) struct Document<'a> {
    pub(crate) file: &'a WholeFile,
    pub(crate) json: Json,
    buffers: Vec<Vec<u8>>,
    /// Maximum number of zeros that an accessor without a buffer creates.
    max_zero_bytes: usize,
    max_draco_bytes: u64,
}

/// A mesh decoded from a Draco stream.
pub(crate) struct DracoMesh {
    /// The vertices of all faces; `None` of a point cloud.
    pub(crate) faces: Option<Vec<u32>>,
    pub(crate) attributes: Vec<(String, Column)>,
}

impl<'a> Document<'a> {
    pub(crate) fn parse(file: &'a WholeFile, options: &ReadOptions) -> Result<Self> {
        let (text, binary) = match file.bytes.starts_with(b"{") || is_text(&file.bytes) {
            true => (file.bytes.as_slice(), None),
            false => split_glb(file)?,
        };
        let json: Json = serde_json::from_slice(text).map_err(|error| {
            let mut found = error.to_string();
            found.truncate(found.floor_char_boundary(160));
            file.spot("the JSON").error(Class::Encoding, "a JSON object", found)
        })?;
        let expected = "a JSON object";
        let spot = file.spot("the JSON");
        spot.ensure(json.is_object(), Class::Encoding, expected, "another value")?;
        check_extensions(file, &json)?;
        // A limit: the largest number means that none is needed.
        let max_zero_bytes = file.bytes.len().saturating_mul(16).saturating_add(1 << 20);
        let buffers = Vec::new();
        let max_draco_bytes = options.memory;
        let mut document = Self { file, json, buffers, max_zero_bytes, max_draco_bytes };
        let version = document.json["asset"]["version"].as_str().unwrap_or("2.0");
        if !version.starts_with("2.") {
            let spot = file.spot("asset.version");
            return spot.refuse(Class::UnsupportedVersion, "version 2", format!("{version:?}"));
        }
        let count = document.array("buffers").len();
        for at in 0..count {
            let buffer = document.read_buffer(at, binary, options)?;
            document.buffers.push(buffer);
        }
        Ok(document)
    }

    /// Returns the array under `key`, or an empty one.
    pub(crate) fn array(&self, key: &str) -> &[Json] {
        json_items(&self.json[key])
    }

    fn read_buffer(
        &self,
        at: usize,
        binary: Option<&[u8]>,
        options: &ReadOptions,
    ) -> Result<Vec<u8>> {
        let place = || format!("buffers[{at}]");
        let buffer = &self.array("buffers")[at];
        let length = buffer["byteLength"].as_u64().and_then(|length| usize::try_from(length).ok());
        let found = &buffer["byteLength"];
        let length =
            self.file.spot(place()).need(length, Class::BadShape, "a byteLength", found)?;
        let mut bytes = match (buffer["uri"].as_str(), binary) {
            (None, Some(binary)) => binary.get(..length).unwrap_or(binary).to_vec(),
            (None, None) => Vec::new(),
            (Some(uri), _) if uri.starts_with("data:") => {
                let (_, text) = uri.split_once(";base64,").unwrap_or((uri, ""));
                decode_base64(text.as_bytes())
                    .map_err(|fault| self.file.spot(place()).fault(fault))?
            }
            (Some(uri), _) => {
                let name = decode_percent(uri);
                let path = open_companion(self.file.format, self.file.path.as_deref(), &name)?;
                let bytes = zvf_formats::Bytes::open(&path)?;
                WholeFile::read(bytes, options)?.bytes
            }
        };
        let expected = format_args!("{length} bytes");
        let found = bytes.len();
        self.file.spot(place()).ensure(bytes.len() >= length, Class::Truncated, expected, found)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Returns the bytes of a view and their stride.
    fn view(&self, index: &Json, place: &str) -> Result<(&[u8], Option<usize>)> {
        let views = self.array("bufferViews");
        let view = as_index(index).and_then(|at| views.get(at));
        let expected = format_args!("a bufferView below {}", views.len());
        let view = self.file.spot(place).need(view, Class::OutOfBounds, expected, index)?;
        let buffer = as_index(&view["buffer"]).and_then(|at| self.buffers.get(at));
        let start = member(view, "byteOffset").map_or(Some(0), as_index);
        let length = as_index(&view["byteLength"]);
        let bytes = match (buffer, start, length) {
            (Some(buffer), Some(start), Some(length)) => {
                start.checked_add(length).and_then(|end| buffer.get(start..end))
            }
            _ => None,
        };
        let Some(bytes) = bytes else {
            let expected = "a range of a buffer";
            let place = format!("bufferViews[{index}]");
            let mut found = view.to_string();
            found.truncate(found.floor_char_boundary(120));
            return self.file.spot(place).refuse(Class::OutOfBounds, expected, found);
        };
        let stride = member(view, "byteStride").map(|stride| {
            as_index(stride).ok_or_else(|| {
                let place = format!("bufferViews[{index}]");
                let found = stride.to_string();
                self.file.spot(place).error(Class::BadShape, "a byteStride", found)
            })
        });
        Ok((bytes, stride.transpose()?))
    }

    /// Reads the values of an accessor.
    pub(crate) fn read_accessor(&self, index: &Json, place: &str) -> Result<Column> {
        let accessors = self.array("accessors");
        let accessor = as_index(index).and_then(|at| accessors.get(at));
        let expected = format_args!("an accessor below {}", accessors.len());
        let accessor = self.file.spot(place).need(accessor, Class::OutOfBounds, expected, index)?;
        let place = format!("accessors[{index}]");
        let spot = self.file.spot(&place);
        let kind = &accessor["componentType"];
        let expected = "componentType 5120 to 5126";
        let dtype = spot.need(component_type(kind), Class::BadTag, expected, kind)?;
        let width = match accessor["type"].as_str() {
            Some("SCALAR") => 1,
            Some("VEC2") => 2,
            Some("VEC3") => 3,
            Some("VEC4") => 4,
            _ => {
                let found = accessor["type"].to_string();
                return spot.refuse(Class::BadTag, "SCALAR or VEC2 to VEC4", found);
            }
        };
        let found = &accessor["count"];
        let count = spot.need(as_index(&accessor["count"]), Class::BadShape, "a count", found)?;
        let size = saturating_usize(dtype.size) * usize_from_u32(width); // at most 4 numbers of 4 bytes
        let mut bytes = match member(accessor, "bufferView") {
            Some(view) => self.read_rows(view, accessor, count, size, &place)?,
            None => {
                let total = count.checked_mul(size).filter(|total| *total <= self.max_zero_bytes);
                let expected = format_args!("at most {} bytes of zeros", self.max_zero_bytes);
                let found = format_args!("{count} values");
                let total = spot.need(total, Class::LimitExceeded, expected, found)?;
                vec![0; total]
            }
        };
        if accessor["sparse"].is_object() {
            self.replace_sparse(&accessor["sparse"], &mut bytes, size, &place)?;
        }
        new_column(dtype, width, bytes)
    }

    fn read_rows(
        &self,
        view: &Json,
        accessor: &Json,
        count: usize,
        size: usize,
        place: &str,
    ) -> Result<Vec<u8>> {
        let (bytes, stride) = self.view(view, place)?;
        let stride = stride.unwrap_or(size);
        let start = member(accessor, "byteOffset").map_or(Some(0), as_index);
        let found = &accessor["byteOffset"];
        let start = self.file.spot(place).need(start, Class::OutOfBounds, "a byteOffset", found)?;
        let last_offset = count.checked_sub(1).map(|last| last.checked_mul(stride));
        let end = match last_offset {
            None => Some(start),
            Some(offset) => offset.and_then(|offset| offset.checked_add(size)?.checked_add(start)),
        };
        let is_within = end.is_some_and(|end| end <= bytes.len());
        if !is_within || stride < size {
            let expected = format!("{count} values of {size} bytes, {stride} apart, from {start}");
            let found = format!("a view of {} bytes", bytes.len());
            return self.file.spot(place).refuse(Class::OutOfBounds, expected, found);
        }
        let rest = &bytes[start..];
        if stride == size {
            return Ok(rest[..count * size].to_vec());
        }
        let mut all = Vec::with_capacity(count * size);
        for row in 0..count {
            all.extend_from_slice(&rest[row * stride..row * stride + size]);
        }
        Ok(all)
    }

    fn replace_sparse(
        &self,
        sparse: &Json,
        bytes: &mut [u8],
        size: usize,
        place: &str,
    ) -> Result<()> {
        let spot = self.file.spot(format!("{place}.sparse"));
        let found = &sparse["count"];
        let count = spot.need(as_index(&sparse["count"]), Class::BadShape, "a count", found)?;
        let indices = &sparse["indices"];
        let dtype = component_type(&indices["componentType"]);
        let dtype = dtype.filter(|dtype| dtype.kind == DtypeKind::UInt);
        let dtype =
            spot.need(dtype, Class::BadTag, "unsigned indices", &indices["componentType"])?;
        let width = saturating_usize(dtype.size);
        let rows = self.read_rows(&indices["bufferView"], indices, count, width, place)?;
        let values = &sparse["values"];
        let values = self.read_rows(&values["bufferView"], values, count, size, place)?;
        for (row, value) in rows.chunks(width).zip(values.chunks(size)) {
            let row = row.iter().rev().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
            let target = row.checked_mul(size).and_then(|at| bytes.get_mut(at..at + size));
            let target = spot.need(target, Class::OutOfBounds, "an index of a value", row)?;
            target.copy_from_slice(value);
        }
        Ok(())
    }

    /// Reads vertex indices. The largest value of the type, the primitive restart of WebGL, is refused.
    pub(crate) fn read_indices(&self, index: &Json, place: &str) -> Result<Vec<u32>> {
        let values = self.read_accessor(index, place)?;
        let spot = self.file.spot(format!("accessors[{index}]"));
        if values.dtype().kind != DtypeKind::UInt || values.width() != 1 {
            let found = format!("{} of {}", values.width(), values.dtype());
            return spot.refuse(Class::BadTag, "unsigned scalars", found);
        }
        let restart = u32::MAX >> (32 - 8 * values.dtype().size.min(4));
        let from_le =
            |row: &[u8]| row.iter().rev().fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
        let all: Vec<u32> = values.rows().map(from_le).collect();
        let expected = "indices that are not all ones";
        spot.ensure(!all.contains(&restart), Class::OutOfBounds, expected, restart)?;
        Ok(all)
    }

    /// Decodes the Draco stream of a primitive. Its attributes get the names of the primitive.
    pub(crate) fn decode_draco(&self, extension: &Json, place: &str) -> Result<DracoMesh> {
        let (bytes, _) = self.view(&extension["bufferView"], place)?;
        let limits = zvf_formats::draco::Caps::from_memory(self.max_draco_bytes);
        let stream = zvf_formats::draco::decode(bytes, &limits).map_err(|fault| {
            let spot = self.file.spot(format!("{place}, Draco"));
            spot.error(fault.class, fault.expected, fault.found)
        })?;
        let mut attributes = Vec::new();
        for (name, id) in extension["attributes"].as_object().into_iter().flatten() {
            let has_id = |found: u32| id.as_u64() == Some(found.into());
            let found = stream.attributes.iter().find(|attribute| has_id(attribute.id));
            let expected = format_args!("attribute {id} in the stream");
            let place = format!("{place}, Draco");
            let found = self.file.spot(place).need(found, Class::NotFound, expected, "none")?;
            attributes.push((name.clone(), found.values.clone()));
        }
        let faces = stream.faces.map(|faces| faces.as_flattened().to_vec());
        Ok(DracoMesh { faces, attributes })
    }
}

fn is_text(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    bytes.trim_ascii_start().starts_with(b"{")
}

/// Splits a GLB file into its JSON and its binary chunk.
fn split_glb(file: &WholeFile) -> Result<(&[u8], Option<&[u8]>)> {
    let bytes = file.bytes.as_slice();
    let numbers = RecordNumbers::new(bytes);
    let found = format_args!("{:02x?}", bytes.get(..4).unwrap_or(bytes));
    let expected = "glTF, or a JSON object";
    file.spot_at(0).ensure(bytes.starts_with(b"glTF"), Class::BadMagic, expected, found)?;
    let (expected, found) = ("12 bytes of header", bytes.len());
    file.spot_at(4).ensure(found >= 12, Class::Truncated, expected, found)?;
    let version = numbers.u32(4);
    file.spot_at(4).ensure(version == 2, Class::UnsupportedVersion, "version 2", version)?;
    let length = usize_from_u32(numbers.u32(8));
    let expected = format_args!("{length} bytes");
    let class = if length > bytes.len() { Class::Truncated } else { Class::Trailing };
    file.spot_at(8).ensure(length == bytes.len(), class, expected, bytes.len())?;
    let (mut at, mut json, mut binary) = (12, None, None);
    while at < length {
        let (has_head, expected) = (length - at >= 8, "8 bytes of a chunk");
        file.spot_at(at).ensure(has_head, Class::Truncated, expected, "fewer")?;
        let (size, kind) = (usize_from_u32(numbers.u32(at)), numbers.u32(at + 4));
        let end = (at + 8).checked_add(size);
        let Some(chunk) = end.and_then(|end| bytes.get(at + 8..end)) else {
            let expected = format!("{size} bytes of a chunk");
            return file.spot_at(at).refuse(Class::Truncated, expected, length - at - 8);
        };
        match kind {
            JSON_CHUNK if json.is_none() => json = Some(chunk),
            BIN_CHUNK if binary.is_none() => binary = Some(chunk),
            _ => {}
        }
        at += 8 + size;
    }
    let json = file.spot_at(12).need(json, Class::Truncated, "a chunk of JSON", "none")?;
    Ok((json, binary))
}

fn check_extensions(file: &WholeFile, json: &Json) -> Result<()> {
    for name in json["extensionsRequired"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        let harmless = ["KHR_materials_", "KHR_texture_", "KHR_lights_"];
        let is_supported = ["KHR_draco_mesh_compression", "KHR_mesh_quantization"].contains(&name)
            || harmless.iter().any(|start| name.starts_with(start));
        let expected = "extensions that are known";
        let found = format_args!("{name:?}");
        let spot = file.spot("extensionsRequired");
        spot.ensure(is_supported, Class::Unsupported, expected, found)?;
    }
    Ok(())
}

pub(crate) fn as_index(value: &Json) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

/// Returns a member of an object. A null member counts as absent, because some programs write null
/// for unset members.
pub(crate) fn member<'j>(object: &'j Json, key: &str) -> Option<&'j Json> {
    object.get(key).filter(|value| !value.is_null())
}

fn component_type(kind: &Json) -> Option<Dtype> {
    Some(match kind.as_u64()? {
        5120 => INT8,
        5121 => UINT8,
        5122 => INT16,
        5123 => UINT16,
        5125 => UINT32,
        5126 => Dtype::FLOAT32,
        _ => return None,
    })
}

const JSON_CHUNK: u32 = 0x4e4f_534a;
const BIN_CHUNK: u32 = 0x004e_4942;
