//! Updates the column `object_id` of the fragments of a coarser level after objects were removed.
//!
//! The column holds the id of the object whose manifest names the fragment, -1 for none, and -2 for several. Objects that
//! are removed at level 0 are emptied in the index of a level that keeps ids. Their fragments stay until the level is
//! rebuilt, and belong to no object.
//!
//! Not here: level 0, whose fragments are rebuilt (`rebuild`).

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use zvf_format::num;

use crate::arrays::{CellArray, Chunk};
use crate::changes::Changes;
use crate::error::{At, Result};
use crate::indexes::{Objects, column_type};
use crate::references::read_references;
use crate::snapshot::Snapshot;

/// Recomputes the owners of the fragments that the `removed` manifests name, from the `remaining` manifests by row.
pub(crate) fn withdraw_owners(
    snap: &Snapshot,
    objects: &Objects,
    level: &str,
    (removed, remaining): (&[Bytes], &[Bytes]),
    changes: &mut Changes,
) -> Result<()> {
    let path = format!("{level}/fragment_attributes/object_id");
    let column = if removed.is_empty() { None } else { CellArray::open(snap, &path)? };
    let Some(mut column) = column else { return Ok(()) };
    let mut owners: BTreeMap<(Chunk, u32), Vec<i64>> = BTreeMap::new();
    for blob in removed {
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
    for (row, blob) in remaining.iter().enumerate() {
        for fragment in read_references(blob, objects.rank)? {
            if let (Some(list), Some(id)) = (owners.get_mut(&fragment), ids.get(&row)) {
                list.push(*id);
            }
        }
    }
    let scalar = column_type(&column.doc["attributes"], 1)?.scalar;
    let mut cells: BTreeMap<Chunk, Vec<u8>> = BTreeMap::new();
    for ((chunk, fragment), owners) in owners {
        let owner = match owners.as_slice() {
            [] => -1,
            [owner] => *owner,
            _ => -2,
        };
        if !cells.contains_key(&chunk) {
            let bytes = column.read(snap, &chunk)?;
            // A chunk without values gets none.
            cells.insert(chunk.clone(), bytes.unwrap_or_default().to_vec());
        }
        let at = num::usize_from_u32(fragment).checked_mul(scalar.size());
        let row = at.and_then(|at| cells.get_mut(&chunk)?.get_mut(at..at + scalar.size()));
        if let Some(row) = row {
            let owner = scalar.encode_id(owner).at(&path)?;
            row.copy_from_slice(&owner);
        }
    }
    for (chunk, bytes) in cells.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
        column.put_chunk(&chunk, bytes);
    }
    column.flush(snap, changes)
}
