//! Broken stores: faults of this layer are refused with their location; stores with other faults
//! are read without error.

use object_store::path::Path;
use serde_json::Value;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_metadata::LayoutFamily;
use zvf_store::{Caching, Key, Notice, OpenOptions, Store};

use crate::rearranged::contents;
use crate::walk::arrays;
use archives::{files, in_memory, json};

/// The stage at which a fault was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoundAt {
    Open,
    Read,
}

async fn open(files: &[(String, Vec<u8>)], options: OpenOptions) -> Result<Store> {
    Store::from_object_store(in_memory(files).await, &Path::default(), options).await
}

/// Opens a store and reads all of level 0 and below; returns the first fault and its stage.
async fn verdict(files: &[(String, Vec<u8>)]) -> Result<(), (FoundAt, Error)> {
    let store =
        open(files, OpenOptions::default()).await.map_err(|error| (FoundAt::Open, error))?;
    read_all(&store, files).await.map_err(|error| (FoundAt::Read, error))
}

async fn read_all(store: &Store, files: &[(String, Vec<u8>)]) -> Result<()> {
    let level = store.level(0).await?;
    for name in ["vertices", "vertex_fragments"] {
        level.required_cells(name).await?;
    }
    if level.group("object_index").await?.is_some() {
        level.rows("object_index").await?;
    }
    for found in arrays(files, store.family() == LayoutFamily::C) {
        contents(store, &found).await?;
    }
    Ok(())
}

#[tokio::test]
async fn faults_of_this_layer_are_refused_with_a_message() {
    #[rustfmt::skip]
    let table: [(&str, FoundAt, &str); 28] = [
        ("ar_fragments_missing", FoundAt::Read,
         "NotFound in 0/vertex_fragments, a level needs this array, but it does not exist"),
        ("ar_vertices_missing", FoundAt::Read,
         "NotFound in 0/vertices, a level needs this array, but it does not exist"),
        ("ar_zarr_format_2", FoundAt::Open,
         "UnsupportedVersion in zarr.json, metadata, zarr_format: expected 3, found 2; written by a newer version: update zvf"),
        ("codec_unknown", FoundAt::Read,
         "Unsupported in 0/vertices, codec \"acme-secret\": this build cannot read it"),
        ("crc_mismatch", FoundAt::Read,
         "Checksum in 0/vertices/c/0/0/0, codec stream crc32c at byte 2215: expected 2156903199, found 2173680415; the stored bytes are damaged: restore this object from a copy"),
        ("js_array_invalid", FoundAt::Read,
         "Encoding in 0/vertices/zarr.json, metadata, document: expected a value, found \"<html>40\""),
        ("js_root_invalid", FoundAt::Open,
         "Truncated in zarr.json, metadata, attributes.multiscales[0].datasets[0].coordinateTransformations[0] at byte 1218: expected the end of a string, found the end of the text; the object is truncated: copy it again, or run \"zvf repair --dry-run\""),
        ("md_axes_missing", FoundAt::Open,
         "BadTag in zarr.json, metadata, multiscales: expected a value, found nothing"),
        ("md_bin_not_dividing", FoundAt::Open,
         "BadShape in zarr.json, metadata, zarr_vectors.base_bin_shape[0]: expected a chunk to be a whole multiple of its bins, found 30"),
        ("md_bounds_nan", FoundAt::Open,
         "Encoding in zarr.json, metadata, attributes.zarr_vectors.bounds[0][1] at byte 136: expected a finite number, found NaN"),
        ("md_chunk_nan", FoundAt::Open,
         "Encoding in zarr.json, metadata, attributes.zarr_vectors.chunk_shape[1] at byte 106: expected a finite number, found NaN"),
        ("md_chunk_tiny", FoundAt::Open,
         "BadShape in zarr.json, metadata, zarr_vectors.base_bin_shape[0]: expected a chunk to be a whole multiple of its bins, found 50"),
        ("md_chunk_zero", FoundAt::Open,
         "BadShape in zarr.json, metadata, zarr_vectors.chunk_shape[1]: expected a finite number above 0, found 0"),
        ("md_geometry_unknown", FoundAt::Open,
         "BadTag in zarr.json, metadata, zarr_vectors.geometry_types[0]: expected a known geometry type, found \"voxels\""),
        ("md_grid_too_small", FoundAt::Read,
         "OutOfBounds in 0/vertices, nonempty_chunks: expected keys inside the grid of the array, found \"1.0.0\""),
        ("md_keys_huge", FoundAt::Read,
         "Overflow in 0/vertices, nonempty_chunks: expected numbers with dots between, found \"99999999999999999999.0.0\""),
        ("md_keys_traversal", FoundAt::Read,
         "InvalidKey in 0/vertices, nonempty_chunks: expected numbers with dots between, found \"../../../etc/passwd\""),
        ("md_no_zv_block", FoundAt::Open,
         "BadTag in zarr.json, metadata, zarr_vectors: expected a value, found nothing"),
        ("md_origin_arity", FoundAt::Read,
         "BadShape in 0/vertices, chunk_grid_origin: expected 3, found 1"),
        ("md_version_old", FoundAt::Open,
         "BadTag in 0/vertices, layout: expected a group of arrays, as versions before 0.9.0 have it, found \"one array in a store of version 0.8.1\""),
        ("oi_layout_unknown", FoundAt::Read,
         "Unsupported in 0/object_index, layout \"vlen_manifests_v9\": this build cannot read it"),
        ("shard_index_crc", FoundAt::Read,
         "Checksum in 0/vertices/c/0/0/0 at 1000..1132, shard index CRC32C at byte 128: expected 101564962, found 1393410594; the stored bytes are damaged: restore this object from a copy"),
        ("shard_offset_past_end", FoundAt::Read,
         "OutOfBounds in 0/vertices/c/0/0/0 at 1000..1132, shard index offset + nbytes at byte 0: expected at most 1000, found 1099511627904"),
        ("vlen_count_two", FoundAt::Read,
         "CountMismatch in 0/vertices/c/0/0/0, vlen cell count at byte 0: expected 1, found 2"),
        ("vlen_length_past_end", FoundAt::Read,
         "Truncated in 0/vertices/c/0/0/0, vlen cell payload at byte 8: expected 2147483647 bytes, found 144; the object is truncated: copy it again, or run \"zvf repair --dry-run\""),
        ("vx_missing_cell", FoundAt::Read,
         "NotFound in 0/vertices/c/0/0/0, nonempty_chunks lists this chunk, but it does not exist"),
        ("zstd_bomb_512m", FoundAt::Read,
         "LimitExceeded in 0/vertices/c/0/0/0, codec stream zstd at byte 0: expected at most 100663296, found 100663297; more than the limit allows: request less, or raise the limit"),
        ("zstd_not_a_frame", FoundAt::Read,
         "Codec in 0/vertices/c/0/0/0, codec stream zstd at byte 0: expected zstd frames, found Unknown frame descriptor; the stored bytes are damaged: restore this object from a copy"),
    ];
    for (id, stage, message) in table {
        let (found, error) = verdict(&files(&format!("broken/{id}"))).await.unwrap_err();
        assert_eq!((found, error.to_string().as_str()), (stage, message), "{id}");
    }
    let (stage, error) = verdict(&files("broken/js_deep_nesting")).await.unwrap_err();
    assert_eq!((stage, error.class()), (FoundAt::Open, Class::LimitExceeded));
}

/// Faults that are only found inside a cell or by comparing documents.
#[tokio::test]
async fn faults_of_other_layers_are_read_without_error() {
    let faults = json("broken/FAULTS.json");
    let mut read = 0;
    for fault in faults["faults"].as_array().unwrap() {
        let id = fault["id"].as_str().unwrap();
        let own_prefixes =
            ["ar_", "js_", "codec_", "crc_", "shard_", "vlen_", "zstd_not", "zstd_bomb"];
        let is_fault = fault["want"] == "error" && fault["detect_at"] != "validate";
        match verdict(&files(&format!("broken/{id}"))).await {
            Ok(()) => {
                read += 1;
                assert!(!own_prefixes.iter().any(|prefix| id.starts_with(prefix)), "{id}");
                assert!(!is_fault || fault["detect_at"] == "read", "{id}");
            }
            Err((_, error)) => assert!(!error.is_retryable(), "{id}"),
        }
    }
    assert_eq!(read, 62);
}

#[tokio::test]
async fn a_missing_presence_list_is_replaced_by_a_listing() {
    let base = open(&files("broken/_base_points"), OpenOptions::default()).await.unwrap();
    let without_list = open(&files("broken/vx_no_presence"), OpenOptions::default()).await.unwrap();
    let [base, cells] = [&base, &without_list].map(|store| async move {
        store.level(0).await.unwrap().required_cells("vertices").await.unwrap()
    });
    let (base, cells) = (base.await, cells.await);
    let table = cells.presence().await.unwrap();
    assert_eq!(table, base.presence().await.unwrap());
    for key in table.iter() {
        let payload = cells.read(&key, Caching::Keep).await.unwrap();
        assert!(payload.is_some() && payload == base.read(&key, Caching::Keep).await.unwrap());
    }
    let absent = ChunkKey::new(&[1, 1, -1]).unwrap();
    assert_eq!(cells.read(&absent, Caching::Keep).await.unwrap(), None);
    let key = Key::root().join("0/vertices").unwrap();
    assert_eq!(without_list.notices(), [Notice::MissingPresence { key }]);
}

#[tokio::test]
async fn a_newer_version_opens_with_a_notice() {
    let store = open(&files("broken/md_version_future"), OpenOptions::default()).await.unwrap();
    let (found, supported) = ("1.7.0".into(), "0.9.4".into());
    assert_eq!(store.notices(), [Notice::NewerVersion { found, supported }]);
}

#[tokio::test]
async fn a_required_capability_that_is_unknown_is_refused_by_name() {
    for (token, message) in [
        ("additive_levels", None),
        (
            "teleportation",
            Some(
                "Unsupported in zarr.json, metadata, zarr_vectors.required_capabilities[0]: \
                 expected a feature this version has, found \"teleportation\"",
            ),
        ),
    ] {
        let mut files = files("broken/_base_points");
        let root = files.iter_mut().find(|(path, _)| path == "zarr.json").unwrap();
        let mut doc: Value = serde_json::from_slice(&root.1).unwrap();
        doc["attributes"]["zarr_vectors"]["required_capabilities"] = [token].as_slice().into();
        root.1 = doc.to_string().into();
        let opened = open(&files, OpenOptions::default()).await;
        assert_eq!(opened.err().map(|error| error.to_string()).as_deref(), message);
    }
}
