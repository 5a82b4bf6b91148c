//! Legacy meshes: for each object a list of fragments, and each of these is a mesh of its own.
//!
//! ```text
//! ID:0         {"fragments": ["name", …]}
//! fragment     u32 n, f32[n][3] nanometres, then u32 triangles to the end
//! ```

use serde_json::{Map, Value as Json};
use zvf_format::Class;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Kind, ObjectId};

use super::folder::{Folder, bad};
use super::{describe_objects, record, u32_at};
use crate::ConvertError;
use crate::read::roles::axes;
use crate::read::values::{column, no_batch};
use crate::read::{ElementHeader, Header, Piece, ReadOptions, Reader};

pub(super) fn open(
    folder: &Folder,
    info: Option<&Map<String, Json>>,
    properties: Option<&Map<String, Json>>,
    options: &ReadOptions,
) -> Result<Reader, ConvertError> {
    let ids = folder.list_ids(":0")?;
    if ids.is_empty() && info.is_none() {
        return Err(
            bad(Class::NotFound, "the folder", "a file info, or files ID:0", "neither").into()
        );
    }
    if let Some(kind) = options.kind.filter(|kind| *kind != Kind::Mesh) {
        return Err(bad(Class::Unsupported, "the folder", "mesh", kind.to_string()).into());
    }
    let mut header = Header::new(Kind::Mesh, axes(3), column(Dtype::FLOAT32, 3, Vec::new())?);
    header = header.with_unit("nanometer");
    header.elements = Some(ElementHeader { width: Some(3), fields: Vec::new() });
    record(&mut header, info);
    let last = describe_objects("segment_id", &ids, properties, &mut header)?;
    let folder = folder.clone();
    let pieces = Pieces {
        folder,
        ids,
        next: 0,
        fragments: Vec::new(),
        vertices: 0,
        faces: None,
        last: Some(last),
    };
    Ok(Reader::new(header, pieces))
}

/// A folder in the course of being read.
struct Pieces {
    folder: Folder,
    ids: Vec<u64>,
    next: usize,                     // the object whose list is read next
    fragments: Vec<(usize, String)>, // the rest of those of an object, the first last
    vertices: u64,
    faces: Option<Piece>, // of the fragment whose vertices were told of
    last: Option<Piece>,
}

impl Iterator for Pieces {
    type Item = Result<Piece, ConvertError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        if let Some(faces) = self.faces.take() {
            return Ok(Some(faces));
        }
        loop {
            if let Some((object, name)) = self.fragments.pop() {
                return self.fragment(object, &name).map(Some);
            }
            let Some(id) = self.ids.get(self.next) else { return Ok(self.last.take()) };
            let key = format!("{id}:0");
            let list = self.folder.json(&key)?.unwrap_or_default();
            let names = list.get("fragments").and_then(Json::as_array);
            let names: Option<Vec<String>> = names.and_then(|names| {
                names.iter().map(|name| Some(name.as_str()?.to_owned())).collect()
            });
            let Some(mut names) = names else {
                let expected = "fragments, a list of names";
                return Err(bad(Class::BadTag, &key, expected, "something else").into());
            };
            names.reverse();
            self.fragments = names.into_iter().map(|name| (self.next, name)).collect();
            self.next += 1;
        }
    }

    fn fragment(&mut self, object: usize, name: &str) -> Result<Piece, ConvertError> {
        let Some(bytes) = self.folder.read(name)? else {
            return Err(
                bad(Class::NotFound, name, "a fragment that the list names", "no file").into()
            );
        };
        let vertices = u64::from(u32_at(&bytes, 0));
        let wanted = vertices * 12 + 4;
        let Some(rest) = (bytes.len() as u64).checked_sub(wanted) else {
            let expected = format!("{wanted} bytes for {vertices} vertices");
            return Err(bad(Class::Truncated, name, expected, bytes.len().to_string()).into());
        };
        if rest % 12 != 0 {
            let expected = "triangles of 12 bytes after the positions";
            return Err(bad(Class::Misaligned, name, expected, format!("{rest} bytes")).into());
        }
        let (positions, faces) = bytes[4..].split_at(vertices as usize * 12);
        let mut rows = Vec::with_capacity(faces.len() * 2);
        for (at, corner) in faces.chunks_exact(4).enumerate() {
            let corner = u64::from(u32_at(corner, 0));
            if corner >= vertices {
                let place = format!("{name}, face {}", at / 3);
                let expected = format!("a vertex below {vertices}");
                return Err(bad(Class::OutOfBounds, &place, expected, corner.to_string()).into());
            }
            rows.extend_from_slice(&(corner + self.vertices).to_le_bytes());
        }
        let positions = column(Dtype::FLOAT32, 3, positions.to_vec())?;
        let owner = ObjectId(i64::try_from(object).unwrap_or(i64::MAX));
        let owners = vec![Some(owner); positions.len()];
        let batch =
            Batch::new(Kind::Mesh, positions).with_vertex_objects(owners).map_err(no_batch)?;
        self.vertices += vertices;
        self.faces =
            Some(Piece::Elements { rows: column(Dtype::INT64, 3, rows)?, fields: Vec::new() });
        Ok(Piece::Vertices(batch))
    }
}
