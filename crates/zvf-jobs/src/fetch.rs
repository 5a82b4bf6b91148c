//! Copies the necessary parts of a precomputed folder from a URL to a local folder.
//!
//! ```text
//! what can be listed   buckets: all objects below the address
//! what cannot          plain HTTP: info, and what it leads to: shards, cells of the spatial index and the ids in them,
//!                      objects by the ids of segment properties, the fragments that manifests name
//! ```
//!
//! Readers of folders then find all files in place. Names from documents cannot lead outside the
//! folder.
//!
//! Not here: the meaning of the objects (`zvf-convert`); the folder and its removal, which are up
//! to the caller.

use std::path::Path;

use async_recursion::async_recursion as boxed;
use futures_util::{StreamExt as _, stream};
use serde_json::Value as Json;
use zvf_format::num::{checked_product, saturating_usize};
use zvf_store::{Objects, OpenOptions, Store};

use crate::Error;
use crate::error::bad_request_error;

/// Copies the precomputed folder at `address`, a URL with or without a leading `precomputed://`, to
/// the existing, empty `folder`. Returns the number of bytes.
///
/// # Errors
///
/// When the address is not a URL, there is no `info`, an object cannot be read or written, there
/// are more than `max_bytes`, or the objects cannot be enumerated over plain HTTP.
pub async fn fetch_precomputed(
    address: &str,
    options: &OpenOptions,
    folder: &Path,
    max_bytes: u64,
) -> Result<u64, Error> {
    let address = address.strip_prefix("precomputed://").unwrap_or(address);
    let Some(backend) = Store::backend_for_reading(address, options)? else {
        return Err(bad_request_error("the address", "a URL", address));
    };
    let mut source = Fetch {
        can_list: !address.starts_with("http:") && !address.starts_with("https:"),
        objects: Objects::new(backend.store, &backend.prefix, options),
        folder: folder.to_owned(),
        left: max_bytes,
    };
    if source.can_list {
        source.copy_all().await?;
    } else {
        source.copy_folder("", &[]).await?;
    }
    Ok(max_bytes - source.left)
}

/// Source and destination of objects.
struct Fetch {
    objects: Objects,
    folder: std::path::PathBuf,
    can_list: bool,
    left: u64, // bytes that may still come
}

impl Fetch {
    /// Copies all listed objects.
    async fn copy_all(&mut self) -> Result<(), Error> {
        let listed = self.objects.list("").await?;
        let keys = listed.into_iter().map(|(key, _bytes)| key).collect();
        self.copy_many(keys).await.map(drop)
    }

    /// Copies a folder and its subfolders as described by its `info`; `parent_ids` are the ids
    /// known from the parent folder.
    #[boxed]
    async fn copy_folder(&mut self, below: &str, parent_ids: &[String]) -> Result<(), Error> {
        let Some(info) = self.copy_json(&join(below, "info")).await? else {
            return Err(bad_request_error("the address", "a folder with a file info", "none"));
        };
        let text = |key: &str| info[key].as_str().map(str::to_owned);
        let mut segments = parent_ids.to_vec();
        if let Some(key) = text("segment_properties") {
            let properties = self.copy_json(&join(&join(below, &key), "info")).await?;
            segments = properties.map(|properties| ids(&properties)).unwrap_or_default();
        }
        match text("@type").as_deref() {
            Some("neuroglancer_annotations_v1") => self.copy_annotations(below, &info).await,
            // The volume to which skeletons and meshes belong.
            None | Some("neuroglancer_multiscale_volume") if below.is_empty() => {
                for key in [text("skeletons"), text("mesh")].into_iter().flatten() {
                    self.copy_folder(&key, &segments).await?;
                }
                Ok(())
            }
            _ if info["sharding"].is_object() => self.copy_shards(below, &info["sharding"]).await,
            Some("neuroglancer_skeletons") => {
                self.copy_many(segments.iter().map(|id| join(below, id)).collect()).await?;
                check_ids_known(&segments)
            }
            Some("neuroglancer_multilod_draco") => {
                let names = segments.iter().flat_map(|id| [id.clone(), format!("{id}.index")]);
                self.copy_many(names.map(|name| join(below, &name)).collect()).await?;
                check_ids_known(&segments)
            }
            _ => {
                self.copy_legacy(below, &segments).await?;
                check_ids_known(&segments)
            }
        }
    }

    /// Copies the fragment lists of legacy meshes, and the fragments.
    async fn copy_legacy(&mut self, below: &str, segments: &[String]) -> Result<(), Error> {
        for id in segments {
            let Some(list) = self.copy_json(&join(below, &format!("{id}:0"))).await? else {
                continue;
            };
            let names = list["fragments"].as_array().into_iter().flatten();
            let names: Vec<String> =
                names.filter_map(Json::as_str).map(|name| join(below, name)).collect();
            self.copy_many(names).await?;
        }
        Ok(())
    }

    /// Copies the indexes of annotations.
    async fn copy_annotations(&mut self, below: &str, info: &Json) -> Result<(), Error> {
        let mut annotation_ids = std::collections::BTreeSet::new();
        let levels = info["spatial"].as_array().into_iter().flatten();
        for level in levels {
            let Some(key) = level["key"].as_str() else { continue };
            let key = join(below, key);
            if level["sharding"].is_object() {
                self.copy_shards(&key, &level["sharding"]).await?;
                continue;
            }
            for name in
                self.copy_many(cells(level)?.iter().map(|cell| join(&key, cell)).collect()).await?
            {
                let list = std::fs::read(self.folder.join(name)).map_err(write_error)?;
                // A malformed list gives no ids: the reader of the folder will refuse it.
                let count = list.first_chunk().map_or(0, |count| u64::from_le_bytes(*count));
                let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(8));
                let start =
                    bytes.and_then(|bytes| list.len().checked_sub(bytes)).unwrap_or(list.len());
                let ids = list.get(start..).unwrap_or_default();
                let ids = ids.as_chunks::<8>().0.iter();
                annotation_ids.extend(ids.map(|id| u64::from_le_bytes(*id)));
            }
        }
        let by_id = &info["by_id"];
        let Some(key) = by_id["key"].as_str() else { return Ok(()) };
        let key = join(below, key);
        if by_id["sharding"].is_object() {
            return self.copy_shards(&key, &by_id["sharding"]).await;
        }
        let names = annotation_ids.iter().map(|id| join(&key, &id.to_string())).collect();
        self.copy_many(names).await.map(drop)
    }

    /// Copies all shards of a folder; missing ones are empty.
    async fn copy_shards(&mut self, below: &str, sharding: &Json) -> Result<(), Error> {
        let bits = sharding["shard_bits"].as_u64();
        let Some(bits) = bits.filter(|bits| *bits <= MAX_SHARD_BITS) else {
            let found = bits.map_or_else(|| "none".to_owned(), |bits| bits.to_string());
            return Err(bad_request_error("shard_bits over HTTP", "0 to 16", &found));
        };
        let digits = saturating_usize(bits.div_ceil(4).max(1)); // 4 at most
        let names = (0..1_u64 << bits).map(|n| join(below, &format!("{n:0digits$x}.shard")));
        self.copy_many(names.collect()).await.map(drop)
    }

    /// Copies several objects concurrently; returns the keys of the existing ones.
    async fn copy_many(&mut self, keys: Vec<String>) -> Result<Vec<String>, Error> {
        let objects = self.objects.clone();
        let asks = stream::iter(keys).map(|key| {
            let objects = objects.clone();
            async move { objects.read(&key).await.map(|bytes| (key, bytes)) }
        });
        let mut found = Vec::new();
        let mut asks = asks.buffered(AT_ONCE);
        while let Some(read) = asks.next().await {
            let (key, bytes) = read?;
            let Some(bytes) = bytes else { continue };
            self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                bad_request_error("the folder", "fewer bytes than are allowed to be copied", "more")
            })?;
            let path = self.folder.join(&key);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(write_error)?;
            }
            std::fs::write(&path, &bytes).map_err(write_error)?;
            found.push(key);
        }
        Ok(found)
    }

    /// Copies a document; `None` if it does not exist.
    async fn copy_json(&mut self, key: &str) -> Result<Option<Json>, Error> {
        if self.copy_many(vec![key.to_owned()]).await?.is_empty() {
            return Ok(None);
        }
        let text = std::fs::read(self.folder.join(key)).map_err(write_error)?;
        let parsed = serde_json::from_slice(&text);
        parsed
            .map(Some)
            .map_err(|error| bad_request_error("a document", "JSON", &format!("{key}, {error}")))
    }
}

/// Returns the names of all cells of a level of the spatial index.
fn cells(level: &Json) -> Result<Vec<String>, Error> {
    let shape = level["grid_shape"].as_array();
    let shape: Option<Vec<u64>> = shape.and_then(|shape| shape.iter().map(Json::as_u64).collect());
    let shape = shape.unwrap_or_default(); // refused
    let count = checked_product(&shape);
    if shape.is_empty() || count.is_none_or(|count| count > MAX_CELLS) {
        let expected = "a grid of at most a million cells over HTTP";
        return Err(bad_request_error("grid_shape", expected, &format!("{shape:?}")));
    }
    let mut names = vec![String::new()];
    for cells in shape {
        let next = |name: &String| {
            let name = name.clone();
            (0..cells).map(
                move |at| if name.is_empty() { at.to_string() } else { format!("{name}_{at}") },
            )
        };
        names = names.iter().flat_map(next).collect();
    }
    Ok(names)
}

/// Returns the ids in segment properties.
fn ids(properties: &Json) -> Vec<String> {
    let ids = properties["inline"]["ids"].as_array().into_iter().flatten();
    ids.filter_map(Json::as_str)
        .filter(|id| id.bytes().all(|b| b.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

/// Refuses a folder without known ids: plain HTTP cannot list, so no object could be requested.
fn check_ids_known(segments: &[String]) -> Result<(), Error> {
    if segments.is_empty() {
        let expected = "segment properties or shards, which tell the ids: HTTP lists nothing";
        return Err(bad_request_error("the folder", expected, "neither"));
    }
    Ok(())
}

fn join(below: &str, name: &str) -> String {
    if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") }
}

fn write_error(error: std::io::Error) -> Error {
    Error::io("write", error)
}

/// Number of concurrent requests.
const AT_ONCE: usize = 16;
/// Maximum number of shards that are tried without a listing: 2^16.
const MAX_SHARD_BITS: u64 = 16;
/// Maximum number of cells that are tried.
const MAX_CELLS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::ObjectStoreExt as _;
    use object_store::path::Path as ObjectPath;

    use super::*;

    #[test]
    fn names_of_cells_and_ids_are_found() {
        let level = serde_json::json!({"grid_shape": [2, 1, 2]});
        assert_eq!(cells(&level).unwrap(), ["0_0_0", "0_0_1", "1_0_0", "1_0_1"]);
        assert!(cells(&serde_json::json!({"grid_shape": [1_000_000, 1_000_000]})).is_err());
        assert!(cells(&serde_json::json!({})).is_err());
        assert!(cells(&serde_json::json!({"grid_shape": [2, "1", 2]})).is_err());
        let info = serde_json::json!({"inline": {"ids": ["7", "../x", "18446744073709551615"]}});
        assert_eq!(ids(&info), ["7", "18446744073709551615"]);
        assert!(check_ids_known(&[]).is_err());
    }

    #[tokio::test]
    async fn skeletons_of_a_volume_are_found() {
        let documents = [
            ("info", r#"{"@type": "neuroglancer_multiscale_volume", "skeletons": "s"}"#),
            ("s/info", r#"{"@type": "neuroglancer_skeletons", "segment_properties": "p"}"#),
            ("s/p/info", r#"{"inline": {"ids": ["7"]}}"#),
            ("s/7", "seven"),
        ];
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(object_store::memory::InMemory::new());
        let source = Fetch {
            objects: Objects::new(store.clone(), &ObjectPath::default(), &OpenOptions::default()),
            folder: folder.path().to_owned(),
            can_list: false,
            left: 1000,
        };
        for (key, text) in documents {
            store.put(&key.into(), text.into()).await.unwrap();
        }
        { source }.copy_folder("", &[]).await.unwrap();
        assert_eq!(std::fs::read(folder.path().join("s/7")).unwrap(), b"seven");
    }
}
