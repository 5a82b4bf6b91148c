//! Legacy meshes: each object has a list of fragments, and each fragment is a mesh.
//!
//! ```text
//! ID:0         {"fragments": ["name", …]}
//! fragment     u32 n, f32[n][3] nanometres, then u32 triangles to the end
//! ```

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{FileReader, ReadOptions, RecordNumbers, new_column};
use zvf_metadata::Dtype;

use crate::precomputed::read::folder::{Folder, spot};
use crate::precomputed::read::fragments::{Fragment, Fragments, mesh_header, read_all};
use crate::precomputed::read::{check_segments, describe_segments};

pub(crate) fn open(
    folder: &Folder,
    info: Option<&Json>,
    properties: Option<&Json>,
    options: &ReadOptions,
) -> Result<FileReader> {
    let mut ids = folder.list_ids(":0")?;
    if ids.is_empty() && info.is_none() {
        return spot("the folder").refuse(Class::NotFound, "a file info, or files ID:0", "neither");
    }
    let mut header = mesh_header(options)?.with_unit("nanometer");
    if let Some(segments) = &options.segments {
        check_segments(segments, &ids)?;
        ids.retain(|id| segments.contains(id));
    }
    let last = describe_segments(&ids, info, properties, &mut header)?;
    Ok(read_all(header, Legacy { folder: folder.clone(), ids }, last))
}

/// A folder of legacy meshes.
struct Legacy {
    folder: Folder,
    ids: Vec<u64>,
}

impl Fragments for Legacy {
    type Fragment = String;

    fn list(&self, object: usize) -> Result<Option<Vec<String>>> {
        let Some(id) = self.ids.get(object) else { return Ok(None) };
        let key = format!("{id}:0");
        let Some(list) = self.folder.read_json(&key)? else {
            return spot(&key).refuse(Class::NotFound, "the file that was listed", "none");
        };
        let names = list["fragments"].as_array();
        let names: Option<Vec<String>> = names
            .and_then(|names| names.iter().map(|name| Some(name.as_str()?.to_owned())).collect());
        let expected = "fragments, a list of names";
        spot(&key).ensure(names.is_some(), Class::BadTag, expected, "something else")?;
        Ok(names)
    }

    fn read(&self, name: &String) -> Result<Fragment> {
        let Some(bytes) = self.folder.read(name)? else {
            return spot(name).refuse(Class::NotFound, "a fragment that the list names", "no file");
        };
        let vertices = u64::from(RecordNumbers::new(&bytes).u32(0));
        let min_bytes = vertices * 12 + 4;
        let rest = (bytes.len() as u64).checked_sub(min_bytes);
        let expected = format_args!("{min_bytes} bytes for {vertices} vertices");
        let rest = spot(name).need(rest, Class::Truncated, expected, bytes.len())?;
        let expected = "triangles of 12 bytes after the positions";
        let found = format_args!("{rest} bytes");
        spot(name).ensure(rest % 12 == 0, Class::Misaligned, expected, found)?;
        let (positions, faces) = bytes[4..].split_at(vertices as usize * 12);
        let positions = new_column(Dtype::FLOAT32, 3, positions.to_vec())?;
        let corners = faces.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        Ok(Fragment { name: name.clone(), positions, corners: corners.collect() })
    }
}
