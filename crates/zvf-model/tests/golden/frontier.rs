//! Newer and rarer forms of stores, derived from archived stores by changing some of their files.

use archives::{Files, Unpacked, files, inline, put_array};
use serde_json::{Value, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::key::{ChunkKey, Delta};
use zvf_model::{LevelId, LevelReader, ObjectId, ObjectIndex};
use zvf_store::{Caching, Store};

use crate::derived::{dense, edit, int64, partitioned, remove};

const INDEX: &str = "0/object_index/zarr.json";

/// A level of a store of files, which are deleted when this value is dropped.
struct LevelFixture {
    _dir: Unpacked,
    store: Store,
}

impl LevelFixture {
    fn new(files: &Files) -> Self {
        let dir = Unpacked::from_files(files);
        let store = inline(dir.open());
        Self { _dir: dir, store }
    }

    fn level(&self) -> LevelReader {
        inline(LevelReader::open(&self.store, LevelId(0))).unwrap()
    }

    /// Opens the level with so much memory for tables.
    fn level_within(&self, index_bytes: u64) -> LevelReader {
        inline(LevelReader::open_within(&self.store, LevelId(0), index_bytes)).unwrap()
    }

    fn index(&self) -> ObjectIndex {
        inline(self.level().objects()).unwrap().unwrap()
    }
}

/// Returns every reference of every object.
fn references(index: &ObjectIndex) -> Vec<Vec<(ChunkKey, u64)>> {
    let rows: Vec<u64> = (0..index.slots()).collect();
    let manifests = inline(index.manifests(&rows)).unwrap();
    manifests.iter().map(|manifest| manifest.references().collect()).collect()
}

#[test]
fn object_indexes_of_numbers() {
    let mut undivided = files("pc3_objects");
    let expected = references(&LevelFixture::new(&undivided).index());
    for layout in ["dense_manifests_v1", "vlen_manifests_v2"] {
        // In the second case the stored arrays decide against the declared layout.
        let mut files = inline(dense());
        edit(&mut files, INDEX, |object| object["layout"] = json!(layout));
        let case = LevelFixture::new(&files);
        let index = case.index();
        assert_eq!(references(&index), expected, "{layout}");
        assert_eq!(inline(index.find(&[ObjectId(34)])).unwrap(), [Some(34)]);
        let rows: Vec<u64> = (0..index.slots()).rev().collect();
        assert_eq!(
            inline(case.level().follow(&index, &rows)).unwrap().objects.len(),
            expected.len()
        );
    }
    edit(&mut undivided, INDEX, |object| object["layout"] = json!("dense_manifests_v1"));
    assert_eq!(references(&LevelFixture::new(&undivided).index()), expected);
}

#[test]
fn spans_past_the_blocks_name_the_object() {
    let mut files = inline(dense());
    let (_, spans) =
        files.iter_mut().find(|(path, _)| path == "0/object_index/manifest_spans/c/0/0").unwrap();
    spans[8..16].copy_from_slice(&i64::MAX.to_le_bytes());
    let fixture = LevelFixture::new(&files);
    let index = fixture.index();
    assert!(inline(index.manifests(&[1, 2])).is_ok());
    let error = inline(index.manifests(&[2, 0])).unwrap_err();
    assert_eq!((error.class(), error.object()), (Class::OutOfBounds, Some(0)), "{error}");
    remove(&mut files, "0/object_index/manifest_blocks");
    let error = inline(LevelFixture::new(&files).level().objects()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "NotFound in 0/object_index/manifest_spans, array: expected the arrays that the layout of the object index has, found nothing"
    );
}

#[test]
fn the_declared_layout_locates_ids() {
    let mut files = files("pc3_sparse_ids");
    let sparse = LevelFixture::new(&files);
    let index = sparse.index();
    let ids = inline(index.ids(0..index.slots())).unwrap();
    assert!(ids.last().unwrap().0 > 9);
    // A stale table of ids of a later writer.
    edit(&mut files, INDEX, |object| object["layout"] = json!("vlen_manifests_v1"));
    let fixture = LevelFixture::new(&files);
    let index = fixture.index();
    let rows: Vec<ObjectId> = (0..10).map(ObjectId).collect();
    assert_eq!(inline(index.ids(0..10)).unwrap(), rows);
    assert_eq!(inline(index.find(&[ids[9]])).unwrap(), [None]);
}

#[test]
fn ascending_ids_are_found_by_a_table_by_runs_and_by_blocks() {
    let mut files = files("pc3_sparse_ids");
    let ids: [i64; 10] = [i64::MIN, -5, -4, 3, 8, 17, 18, 19, 900, i64::MAX];
    put_array(&mut files, "0/object_index/object_ids", "int64", &[10], int64(ids));
    let fixture = LevelFixture::new(&files);
    // A table takes 120 bytes, the seven runs 112.
    for index_bytes in [120, 112, 0] {
        let index = inline(fixture.level_within(index_bytes).objects()).unwrap().unwrap();
        let rows: Vec<u64> = (0..10).collect();
        let ids = ids.map(ObjectId);
        let found: Vec<Option<u64>> = rows.iter().copied().map(Some).collect();
        assert_eq!(inline(index.find(&ids)).unwrap(), found, "{index_bytes}");
        assert_eq!(inline(index.ids_of(&rows)).unwrap(), ids, "{index_bytes}");
        let mixed = [20, 900, -6, i64::MIN + 1, 17, i64::MAX - 1].map(ObjectId);
        let found = [None, Some(8), None, None, Some(5), None];
        assert_eq!(inline(index.find(&mixed)).unwrap(), found, "{index_bytes}");
    }
}

#[test]
fn unordered_ids_are_found_and_repeated_ids_reported() {
    let mut files = files("pc3_sparse_ids");
    let ids: [i64; 10] = [900, -5, 17, 3, i64::MAX, 17, i64::MIN, 8, 17, 3];
    put_array(&mut files, "0/object_index/object_ids", "int64", &[10], int64(ids));
    let fixture = LevelFixture::new(&files);
    for index_bytes in [1 << 20, 0] {
        let index = inline(fixture.level_within(index_bytes).objects()).unwrap().unwrap();
        let requested = [i64::MIN, 900, 901, -5, i64::MAX, 8].map(ObjectId);
        let rows = [Some(6), Some(0), None, Some(1), Some(4), Some(7)];
        assert_eq!(inline(index.find(&requested)).unwrap(), rows);
        assert_eq!(inline(index.ids_of(&[4, 0])).unwrap(), [i64::MAX, 900].map(ObjectId));
        assert_eq!(
            inline(index.find(&[ObjectId(8), ObjectId(17)])).unwrap_err().to_string(),
            "Duplicate in 0/object_index/object_ids, rows of one id: expected 1, found 3 (object 17)"
        );
        let past = inline(index.manifests(&[10])).unwrap_err();
        assert_eq!(past.class(), Class::OutOfBounds);
    }
    put_array(&mut files, "0/object_index/object_ids", "int64", &[9], int64(ids[..9].to_vec()));
    let error = inline(LevelFixture::new(&files).level().objects()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CountMismatch in 0/object_index/object_ids, rows: expected at least 10, found 9"
    );
}

#[test]
fn owners_do_not_depend_on_the_memory_for_a_table() {
    for id in ["pl2_negative", "sl3_by_attribute", "pc3_objects", "pc3_pyramid_sparsity"] {
        for (fixture, stamped) in
            [(LevelFixture::new(&files(id)), false), (stamped(id, |_, _| {}), true)]
        {
            let wide = fixture.level();
            let keys: Vec<ChunkKey> = inline(wide.chunks()).unwrap().iter().collect();
            let all = inline(wide.owners(&keys, Some(&|_, _| true))).unwrap().unwrap();
            let bytes = 12 * all.chunks.iter().map(|chunk| chunk.all().len()).sum::<usize>();
            // No space at all, and space for the crossings alone.
            for cap in [0, u64::try_from(bytes).unwrap() - 1] {
                let narrow = fixture.level_within(cap);
                let mut crossed = 0;
                for key in keys.chunks(3) {
                    let may_cross =
                        |from: &[i64], to: &[i64]| from < key[0].components() || to[0] == 1;
                    let owners = |level: &LevelReader| {
                        let owners = inline(level.owners(key, Some(&may_cross))).unwrap().unwrap();
                        let chunks = owners.chunks.iter();
                        (
                            chunks.map(|chunk| chunk.all().to_vec()).collect::<Vec<_>>(),
                            owners.crossing,
                        )
                    };
                    let (found, expected) = (owners(&narrow), owners(&wide));
                    assert_eq!(found, expected, "{id} {} {cap} {stamped}", key[0]);
                    crossed += expected.1.len();
                }
                assert_eq!(crossed > 0, id.starts_with("pl") || id.starts_with("sl"), "{id}");
            }
        }
    }
}

/// Returns a store with a stamped owner column, whose values `stamp` may change.
fn stamped(id: &str, stamp: impl Fn(&ChunkKey, &mut Vec<i64>)) -> LevelFixture {
    let mut files = files(id);
    let base = LevelFixture::new(&files);
    let keys: Vec<ChunkKey> = inline(base.level().chunks()).unwrap().iter().collect();
    let index = base.index();
    let ids = inline(index.ids(0..index.slots())).unwrap();
    let owners = inline(base.level().owners(&keys, None)).unwrap().unwrap();
    let fragments = inline(base.level().fragments(&keys));
    let (_, doc) = files.iter().find(|(path, _)| path == "0/vertices/zarr.json").unwrap();
    let mut doc: Value = serde_json::from_slice(doc).unwrap();
    doc["attributes"]["dtype"] = json!("int64");
    doc["attributes"]["name"] = json!("object_id");
    doc["attributes"]["encoding"] = Value::Null;
    doc["attributes"].as_object_mut().unwrap().remove("encoding");
    let origin: Vec<i64> = match doc["attributes"]["chunk_grid_origin"].as_array() {
        Some(origin) => origin.iter().map(|n| n.as_i64().unwrap()).collect(),
        None => vec![0; 3],
    };
    let path = "0/fragment_attributes/object_id";
    files.push((format!("{path}/zarr.json"), serde_json::to_vec(&doc).unwrap()));
    for ((key, owners), fragments) in keys.iter().zip(owners.chunks).zip(fragments) {
        let owner = |fragment| {
            let rows: Vec<u64> = owners.fragment_owners(fragment).collect();
            match rows.as_slice() {
                [] => -1,
                [row] => ids[usize::try_from(*row).unwrap()].0,
                _ => -2,
            }
        };
        let mut column: Vec<i64> = (0..fragments.unwrap().len()).map(owner).collect();
        stamp(key, &mut column);
        let payload = int64(column);
        let mut cell = 1_u32.to_le_bytes().to_vec();
        cell.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
        cell.extend(payload);
        let place: Vec<String> =
            key.components().iter().zip(&origin).map(|(c, o)| (c - o).to_string()).collect();
        files.push((format!("{path}/c/{}", place.join("/")), cell));
    }
    LevelFixture::new(&files)
}

#[test]
fn an_owner_column_is_used_where_it_is_valid() {
    let id = "pc3_sparse_ids";
    let unchanged = LevelFixture::new(&files(id));
    let keys: Vec<ChunkKey> = inline(unchanged.level().chunks()).unwrap().iter().collect();
    let all = |level: &LevelReader| {
        let owners = inline(level.owners(&keys, None)).unwrap().unwrap().chunks;
        owners.iter().map(|chunk_owners| chunk_owners.all().to_vec()).collect::<Vec<_>>()
    };
    let expected = all(&unchanged.level());
    assert_eq!(all(&stamped(id, |_, _| {}).level()), expected);
    // The column is trusted, so a fragment without an owner there loses it ...
    let first = keys[0];
    let mut without_first = expected.clone();
    without_first[0].remove(0);
    let changed = stamped(id, |key, column| {
        if *key == first {
            column[0] = -1
        }
    });
    assert_eq!(all(&changed.level()), without_first);
    // ... but if a value states several owners, or names no object, the manifests are read.
    for invalid_id in [-2, 123_456_789] {
        let changed = stamped(id, |key, column| {
            if *key == first {
                column[0] = invalid_id
            }
        });
        assert_eq!(all(&changed.level()), expected, "{invalid_id}");
    }
}

#[test]
fn additive_levels_form_a_chain() {
    let numbers = |levels: &[u32]| -> Result<Vec<u32>> {
        let mut files = files("pc3_pyramid_explicit");
        for level in levels {
            edit(&mut files, &format!("{level}/zarr.json"), |all| {
                all["zarr_vectors_level"]["refinement"] = json!("add");
            });
        }
        let fixture = LevelFixture::new(&files);
        let chain = inline(LevelReader::chain(&fixture.store, LevelId(0)))?;
        Ok(chain.iter().map(|level| level.level().0).collect())
    };
    assert_eq!(numbers(&[]).unwrap(), [0]);
    assert_eq!(numbers(&[1]).unwrap(), [0]);
    assert_eq!(numbers(&[0]).unwrap(), [0, 1]);
    assert_eq!(numbers(&[0, 1]).unwrap(), [0, 1, 2]);
    assert_eq!(
        numbers(&[0, 1, 2]).unwrap_err().to_string(),
        "BadShape in 2, refinement: expected a coarser level that it adds to, found none"
    );
}

/// Returns every record between chunks as text, with its endpoints in order.
fn bridges(level: &LevelReader) -> Result<Vec<String>> {
    let family = inline(level.links(Delta::SAME))?.unwrap();
    let mut all = Vec::new();
    for segment in family.segments().iter().filter(|segment| !segment.is_intra()) {
        let order = inline(segment.cells())?.cell_order();
        for records in inline(segment.read(&order, Caching::Once)) {
            let records = records?;
            for i in 0..records.len() {
                let ends = records.endpoints(i).map(|(chunk, row)| format!("{chunk}/{row}"));
                all.push(ends.collect::<Vec<_>>().join(" "));
            }
        }
    }
    all.sort();
    Ok(all)
}

#[test]
fn partitioned_cross_chunk_links_are_read() {
    let expected = bridges(&LevelFixture::new(&files("v070_gr3")).level()).unwrap();
    assert_eq!(expected.len(), 109);
    let mut files = partitioned();
    let fixture = LevelFixture::new(&files);
    assert_eq!(bridges(&fixture.level()).unwrap(), expected);
    edit(&mut files, "0/cross_chunk_links/0/zarr.json", |family| {
        family["layout"] = json!("sharded_v1")
    });
    let error = bridges(&LevelFixture::new(&files).level()).unwrap_err();
    assert_eq!(error.class(), Class::Unsupported);
    assert!(error.to_string().contains("sharded_v1"), "{error}");
}
