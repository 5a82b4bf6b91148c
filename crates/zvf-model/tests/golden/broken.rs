//! Stores with one fault each: its class and its place. `cargo xtask conformance` checks that each is refused or read as its
//! list says.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::key::Delta;
use zvf_model::{ChunkFragments, LevelId, LevelReader, ObjectId, Parametric};
use zvf_store::{Caching, OpenOptions, Store};

use archives::{Unpacked, inline};

/// The faults of this layer: class and location.
const PLACES: [(&str, Class, &str); 37] = [
    ("attr_code_out_of_range", Class::OutOfBounds, "0/vertex_attributes/cell_type 0.0.0"),
    ("attr_short_cell", Class::CountMismatch, "0/vertex_attributes/label 0.0.0"),
    ("fi_bad_magic", Class::BadMagic, "0/vertex_fragments 0.0.0"),
    ("fi_csr_first_nonzero", Class::NotMonotonic, "0/vertex_fragments 0.0.0"),
    ("fi_csr_not_monotone", Class::NotMonotonic, "0/vertex_fragments 0.0.0"),
    ("fi_flags_set", Class::UnsupportedFlags, "0/vertex_fragments 0.0.0"),
    ("fi_huge_f", Class::Truncated, "0/vertex_fragments 0.0.0"),
    ("fi_huge_t", Class::Truncated, "0/vertex_fragments 0.0.0"),
    ("fi_index_negative", Class::Negative, "0/vertex_fragments 0.0.0"),
    ("fi_index_out_of_range", Class::OutOfBounds, "0/vertex_fragments 0.0.0"),
    ("fi_popcount_header", Class::CountMismatch, "0/vertex_fragments 0.0.0"),
    ("fi_popcount_high_bitmap", Class::CountMismatch, "0/vertex_fragments 0.0.0"),
    ("fi_r_gt_f", Class::CountMismatch, "0/vertex_fragments 0.0.0"),
    ("fi_range_negative_start", Class::Negative, "0/vertex_fragments -2.0.0"),
    ("fi_range_overflow", Class::Overflow, "0/vertex_fragments -2.0.0"),
    ("fi_range_past_end", Class::OutOfBounds, "0/vertex_fragments -2.0.0"),
    ("fi_truncated_header", Class::Truncated, "0/vertex_fragments 0.0.0"),
    ("fi_truncated_indices", Class::Truncated, "0/vertex_fragments 0.0.0"),
    ("fi_truncated_table", Class::Truncated, "0/vertex_fragments 0.0.0"),
    ("fi_version_2", Class::UnsupportedVersion, "0/vertex_fragments 0.0.0"),
    ("gr_partial_id", Class::Misaligned, "0/groups -"),
    ("lk_offsets_attr_mismatch", Class::BadTag, "0/links/0/+1.+1.+1 -"),
    ("lk_perm_out_of_range", Class::OutOfBounds, "0/links/0/+1.+1.+1 0.0.0"),
    ("lk_ragged_k_huge", Class::Overflow, "0/links/0/+1.+1.+1 0.0.0"),
    ("lk_ragged_offset_bad", Class::OutOfBounds, "0/links/0/+1.+1.+1 0.0.0"),
    ("lk_segment_arity", Class::CountMismatch, "0/links/0/0.+1 -"),
    ("lk_segment_garbage", Class::InvalidKey, "0/links/0/0.0.x -"),
    ("mf_bad_mode", Class::BadTag, "0/object_index -"),
    ("mf_dangling_chunk", Class::NotFound, "0/vertex_fragments 50.0.0"),
    ("mf_fragment_out_of_range", Class::OutOfBounds, "0/object_index 0.0.0"),
    ("mf_huge_block_count", Class::Truncated, "0/object_index -"),
    ("mf_range_2_62", Class::OutOfBounds, "0/object_index 0.0"),
    ("mf_truncated", Class::Truncated, "0/object_index -"),
    ("oi_layout_unknown", Class::Unsupported, "0/object_index -"),
    ("oi_num_objects_wrong", Class::CountMismatch, "0/object_index -"),
    ("vx_missing_cell", Class::NotFound, "0/vertices 0.0.0"),
    ("vx_partial_row", Class::CountMismatch, "0/vertices 0.0.0"),
];

/// Reads everything of every level in every way, and returns the first fault.
fn read_everything(path: &str) -> Result<()> {
    let store = inline(Store::open(path, OpenOptions::default()))?;
    for number in store.level_numbers() {
        read_level(&inline(LevelReader::open(&store, LevelId(number)))?)?;
    }
    if let Some(parametric) = inline(Parametric::open(&store))? {
        inline(parametric.shapes())?;
    }
    Ok(())
}

fn read_level(level: &LevelReader) -> Result<()> {
    let keys: Vec<_> = inline(level.chunks())?.iter().collect();
    inline(level.tiles())?;
    let positions = inline(level.positions(&keys, Caching::Once));
    for (fragments, positions) in inline(level.fragments(&keys)).into_iter().zip(positions) {
        fragments?.check_rows(positions?.len() as u64)?;
    }
    for name in inline(level.attribute_names())?.names {
        if let Some(attribute) = inline(level.attribute(&name))? {
            inline(attribute.values(&keys, Caching::Once))
                .into_iter()
                .try_for_each(|v| v.map(|_| ()))?;
        }
    }
    if let Some(index) = inline(level.objects())? {
        let rows: Vec<u64> = (0..index.slots()).collect();
        inline(level.follow(&index, &rows))?;
        inline(level.owners(&keys, Some(&|_, _| true)))?;
        inline(index.find(&[ObjectId(0)]))?;
    }
    if let Some(groups) = inline(level.groups())? {
        inline(groups.members(&(0..groups.len()).collect::<Vec<_>>()))?;
    }
    for delta in [Delta::SAME, Delta(1), Delta(-1)] {
        let Some(family) = inline(level.links(delta))? else { continue };
        for segment in family.segments() {
            let places = inline(segment.cells())?.cell_order();
            inline(segment.read(&places, Caching::Once))
                .into_iter()
                .try_for_each(|r| r.map(|_| ()))?;
        }
    }
    let Some(cells) = inline(level.node().cells("link_fragments"))? else { return Ok(()) };
    for (blob, key) in inline(cells.read_many(&keys, Caching::Once)).into_iter().zip(&keys) {
        blob?.map(|blob| ChunkFragments::new(blob, cells.path(), *key)).transpose()?;
    }
    Ok(())
}

#[test]
fn faults_are_found_where_they_are() {
    let mut failed = Vec::new();
    for (id, class, place) in PLACES {
        let unpacked = Unpacked::new(&format!("broken/{id}"));
        let Err(error) = read_everything(unpacked.path().to_str().unwrap()) else {
            failed.push(format!("{id}: read without a fault"));
            continue;
        };
        let chunk = error.chunk().map_or_else(|| "-".to_owned(), ToString::to_string);
        let at = format!("{} {chunk}", error.array().unwrap_or("-"));
        if error.class() != class || !at.starts_with(place) {
            failed.push(format!("{id}: {at}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn faults_of_objects_name_the_object() {
    for (id, object) in [
        ("mf_bad_mode", true),
        ("mf_dangling_chunk", true),
        ("mf_fragment_out_of_range", true),
        ("mf_truncated", true),
        ("fi_bad_magic", false),
    ] {
        let unpacked = Unpacked::new(&format!("broken/{id}"));
        let error = read_everything(unpacked.path().to_str().unwrap()).unwrap_err();
        assert_eq!(error.object().is_some(), object, "{error}");
    }
}

#[test]
fn what_is_stored_without_its_document_is_no_absent_attribute() {
    let bridge = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
    let read = |path: &std::path::Path| -> Result<[usize; 3]> {
        let store = inline(Store::open(path.to_str().unwrap(), OpenOptions::default()))?;
        let level = inline(LevelReader::open(&store, LevelId(0)))?;
        assert!(inline(level.objects())?.is_some() && inline(level.groups())?.is_some());
        let family = inline(level.links(Delta::SAME))?.unwrap();
        let (vertices, objects) =
            (inline(level.vertex_attributes())?, inline(level.object_attributes())?);
        Ok([vertices.len(), inline(family.attributes())?.len(), objects.len()])
    };
    assert_eq!(read(bridge.as_ref()).unwrap(), [1; 3]);
    let [radius, weight, mass] =
        ["vertex_attributes/radius", "link_attributes/weight/0/0.0", "object_attributes/mass"];
    let needed = ["object_index", "groups", "links/0", "links/0/0.0"];
    for lost in [radius, weight, mass].into_iter().chain(needed) {
        let folder = archives::scratch();
        archives::copy(bridge.as_ref(), folder.path()).unwrap();
        let node = folder.path().join("0").join(lost);
        std::fs::remove_file(node.join("zarr.json")).unwrap();
        let error = read(folder.path()).unwrap_err();
        assert_eq!((error.class(), error.key()), (Class::NotFound, Some(&*format!("0/{lost}"))));
        if needed.contains(&lost) {
            continue;
        }
        // An empty folder is what is left of a removed one.
        std::fs::remove_dir_all(node.join("c")).unwrap();
        let left = [lost != radius, true, lost != mass].map(usize::from);
        assert_eq!(read(folder.path()).unwrap(), left, "{lost}");
    }
}
