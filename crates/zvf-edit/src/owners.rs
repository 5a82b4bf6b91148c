//! The column by which fragments of a coarser level say whose they are, once objects of them are gone.
//!
//! A fragment has the id of the one object whose manifest names it, -1 where there is none, and -2 where there are
//! several. Objects that are removed at level 0 are emptied in the index of a level that keeps ids; their fragments stay
//! until the level is built again, and belong to no object.
//!
//! Not here: level 0, whose fragments are written again (`rebuild`).

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use zvf_format::num;

use crate::arrays::{CellArray, Chunk};
use crate::changes::Changes;
use crate::error::Result;
use crate::indexes::{Objects, column_type};
use crate::references::read_references;
use crate::snapshot::Snapshot;

/// Makes fragments that the manifests `gone` name those of the objects that are `left`, by row.
pub(crate) fn withdraw_owners(
    snap: &Snapshot,
    objects: &Objects,
    level: &str,
    (gone, left): (&[Bytes], &[Bytes]),
    changes: &mut Changes,
) -> Result<()> {
    let path = format!("{level}/fragment_attributes/object_id");
    let column = if gone.is_empty() { None } else { CellArray::open(snap, &path)? };
    let Some(mut column) = column else { return Ok(()) };
    let mut owners: BTreeMap<(Chunk, u32), Vec<i64>> = BTreeMap::new();
    for blob in gone {
        for fragment in read_references(blob, objects.rank)? {
            owners.entry(fragment).or_default();
        }
    }
    if owners.is_empty() {
        return Ok(());
    }
    let ids: HashMap<usize, i64> = objects
        .list
        .iter()
        .filter_map(|object| Some((num::usize_from_u32(object.row?), object.id)))
        .collect();
    for (row, blob) in left.iter().enumerate() {
        for fragment in read_references(blob, objects.rank)? {
            if let (Some(known), Some(id)) = (owners.get_mut(&fragment), ids.get(&row)) {
                known.push(*id);
            }
        }
    }
    let scalar = column_type(&column.doc["attributes"], 1)?.scalar;
    let mut cells: BTreeMap<Chunk, Vec<u8>> = BTreeMap::new();
    for ((chunk, fragment), owners) in owners {
        let owner = match owners.as_slice() {
            [] => -1,
            [one] => *one,
            _ => -2,
        };
        if !cells.contains_key(&chunk) {
            let bytes = column.read(snap, &chunk)?;
            cells.insert(chunk.clone(), bytes.unwrap_or_default().to_vec());
        }
        let at = num::usize_from_u32(fragment).checked_mul(scalar.size());
        let row = at.and_then(|at| cells.get_mut(&chunk)?.get_mut(at..at + scalar.size()));
        if let Some(row) = row {
            let owner = scalar.encode_id(owner).map_err(|error| error.with_place(&path))?;
            row.copy_from_slice(&owner);
        }
    }
    for (chunk, bytes) in cells.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
        column.put(&chunk, bytes);
    }
    column.flush(snap, changes)
}
