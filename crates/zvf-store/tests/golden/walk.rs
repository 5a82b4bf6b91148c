//! Finds every array of a store from its files alone; the tests read these arrays.

use serde_json::Value;

/// An array found from its files.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The path below the root of the store, such as `0/vertices`.
    pub(crate) path: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cells,
    Rows,
    Dense,
}

/// Returns every array below the levels and the root of a store.
pub(crate) fn arrays(files: &[(String, Vec<u8>)], family_c: bool) -> Vec<Found> {
    let mut found = Vec::new();
    let mut groups_of_cells = std::collections::BTreeSet::new();
    for (path, bytes) in files {
        let Some(path) = path.strip_suffix("/zarr.json") else { continue };
        let Ok(doc) = serde_json::from_slice::<Value>(bytes) else { continue };
        if doc["node_type"] != "array" {
            continue;
        }
        let last = path.rsplit('/').next().unwrap();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let vlen = doc["data_type"] == "variable_length_bytes";
        let is_key = last.split('.').all(|part| part.parse::<i64>().is_ok());
        if vlen && doc["shape"].as_array().unwrap().len() == 1 && !is_cells(path) {
            found.push(Found { path: path.to_owned(), kind: Kind::Rows });
        } else if vlen {
            found.push(Found { path: path.to_owned(), kind: Kind::Cells });
        } else if !family_c && is_key && parent.contains('/') {
            groups_of_cells.insert(parent.to_owned());
        } else {
            found.push(Found { path: path.to_owned(), kind: Kind::Dense });
        }
    }
    found.extend(groups_of_cells.into_iter().map(|path| Found { path, kind: Kind::Cells }));
    found
}

/// Returns whether the path is that of a spatial array, which may have a single axis.
fn is_cells(path: &str) -> bool {
    let array_path = path.split_once('/').map_or("", |(_, suffix)| suffix);
    let family = array_path.split('/').next().unwrap();
    family.starts_with("vertices")
        || ["vertex_fragments", "link_fragments", "vertex_attributes", "fragment_attributes"]
            .contains(&family)
        || ["links", "link_attributes"].contains(&family)
}
