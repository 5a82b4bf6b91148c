//! Names of objects from files: trees, graphs and meshes are named after their file, without its
//! extension.
//!
//! A file that names its objects itself keeps these names; points, lines and streamlines get no
//! names.

use std::collections::HashSet;
use std::path::Path;

use zvf_convert::read::FileReader;
use zvf_format::num::to_u64;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::Piece;
use zvf_model::{Column, Field, Kind, ObjectId, Parts};

use crate::Error;

/// Adds the attribute `name` to the objects of `file`: its trees, or its single graph or mesh,
/// unless it has attributes of objects.
///
/// # Errors
///
/// When the name cannot be a column.
pub fn name_objects(mut reader: FileReader, file: &Path) -> Result<FileReader, Error> {
    let mut header = reader.header().clone();
    let is_one_object = !header.objects && matches!(header.kind, Kind::Graph | Kind::Mesh);
    let are_trees = header.objects && header.kind == Kind::Skeleton;
    let stem = file.file_stem().and_then(|stem| stem.to_str()).filter(|stem| !stem.is_empty());
    let Some(stem) = stem.filter(|_| header.object_fields.is_empty()) else { return Ok(reader) };
    if !(is_one_object || are_trees) {
        return Ok(reader);
    }
    let size = to_u64(stem.chars().count()) * 4;
    let dtype = Dtype { kind: DtypeKind::Text, size, big_endian: false };
    let text: Vec<u8> = stem.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    header.objects = true;
    header.notes.clear(); // they come with those of the pieces
    header.object_fields = vec![Field::new("name", Column::empty(dtype, 1)?)];
    let (mut ids, mut seen) = (Vec::new(), HashSet::new());
    let mut add = move |ids: &mut Vec<ObjectId>, id: ObjectId| {
        if seen.insert(id) {
            ids.push(id);
        }
    };
    let mut next = move |notes: &mut Vec<String>| -> Result<Option<Piece>, Error> {
        let Some(piece) = reader.next().transpose()? else {
            notes.append(&mut reader.notes());
            let ids = std::mem::take(&mut ids);
            if ids.is_empty() {
                return Ok(None);
            }
            let column = Column::new(dtype, 1, text.repeat(ids.len()).into())?;
            return Ok(Some(Piece::Objects { ids, fields: vec![Field::new("name", column)] }));
        };
        let Piece::Vertices(batch) = piece else { return Ok(Some(piece)) };
        if is_one_object && !batch.is_empty() {
            add(&mut ids, ObjectId(0));
            let parts = Parts::new(vec![0, batch.len()], vec![ObjectId(0)])?;
            return Ok(Some(Piece::Vertices(batch.with_parts(parts)?)));
        }
        let owners = batch.vertex_objects().unwrap_or_default().iter().flatten();
        owners.chain(batch.parts().objects()).for_each(|id| add(&mut ids, *id));
        Ok(Some(Piece::Vertices(batch)))
    };
    Ok(FileReader::from_fn(header, move |notes| next(notes).transpose()))
}
