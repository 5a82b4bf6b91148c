//! Documents of the specification, documents of writers, and broken ones.

use std::format;
use std::string::{String, ToString as _};
use std::vec;
use std::vec::Vec;

use serde_json::{Value, json};

use super::arrays::{
    ArrayAttributes as _, Column, FragmentsAttrs, GeometryIndex, GroupsAttrs, IndexAttrs,
    LinkColumnAttrs, LinksFamily, ParametricArray, ParametricTypes, Rows, SegmentAttrs, Vertices,
    tag,
};
use super::{
    ArrayDoc, GroupDoc, KeyList, LayoutFamily, LevelDoc, MetadataError, MetadataRule, Node, Object,
    Root, validate,
};

mod documents;
mod properties;

/// The text of a good or broken document.
fn document(name: &str) -> &'static str {
    let mut all = documents::GOOD.iter().chain(&*documents::BROKEN);
    all.find(|(n, _)| *n == name).map(|(_, text)| *text).unwrap()
}

/// Returns the class of an error, its place, and what was expected and found there.
pub(crate) fn fault(error: &MetadataError) -> String {
    let text = error.to_string();
    let (class, fault) = text.split_once(" in metadata, ").unwrap();
    let (place, fault) = fault.split_once(": expected ").unwrap();
    format!("{class}, {place}: {fault}")
}

/// Returns whether two values are equal: numbers may be written as integers or floats.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, x)| y.get(k).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

/// Reads a document as its node type and prints it, with typed attributes where possible.
fn reprint(text: &str) -> Result<String, MetadataError> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let attributes = &value["attributes"];
    if value["node_type"] == "array" {
        let mut array = ArrayDoc::parse(text.as_bytes())?;
        array.attributes = typed(array.attributes, &array.data_type.to_value())?;
        return Ok(array.print());
    }
    if attributes.get("zarr_vectors").is_some() {
        return Ok(Root::parse(text.as_bytes())?.print());
    }
    if attributes.get("zarr_vectors_level").is_some() {
        return Ok(LevelDoc::parse(text.as_bytes())?.print());
    }
    let mut group = GroupDoc::parse(text.as_bytes())?;
    group.attributes = typed(group.attributes, &Value::Null)?;
    Ok(group.print())
}

fn typed(attributes: Object, data_type: &Value) -> Result<Object, MetadataError> {
    let a = attributes;
    Ok(match tag(&a).map(String::from).as_deref() {
        Some("vertices") => Vertices::parse(a)?.to_attributes(),
        Some("vertex_fragments" | "link_fragments") => FragmentsAttrs::parse(a)?.to_attributes(),
        Some("attribute" | "fragment_attribute") => Column::parse(a)?.to_attributes(),
        Some("object_attribute" | "groupings_attribute") => Rows::parse(a)?.to_attributes(),
        Some("links_family") => LinksFamily::parse(a)?.to_attributes(),
        Some("cross_chunk_links") => LinksFamily::parse_cross_chunk(a)?.to_attributes(),
        Some("links") => SegmentAttrs::parse(a)?.to_attributes(),
        Some("link_attribute" | "link_attribute_family") => {
            LinkColumnAttrs::parse(a)?.to_attributes()
        }
        Some("object_index") => IndexAttrs::parse(a)?.to_attributes(),
        Some("groups") => GroupsAttrs::parse(a)?.to_attributes(),
        Some("parametric_objects" | "parametric_names") => {
            ParametricArray::parse(a)?.to_attributes()
        }
        Some(_) => a, // no valid document reaches this: its attributes would not be compared
        None if a.contains_key("parametric_types") => ParametricTypes::parse(a)?.to_attributes(),
        None if a.contains_key("graph") => GeometryIndex::parse(a)?.to_attributes(),
        None if a.contains_key("num_groups") => ParametricArray::parse(a)?.to_attributes(),
        None if a.contains_key("dtype") && !data_type.is_null() => Rows::parse(a)?.to_attributes(),
        None => a,
    })
}

#[test]
fn documents_of_writers_round_trip() {
    for (name, text) in &*documents::GOOD {
        let printed = reprint(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (before, after): (Value, Value) =
            (serde_json::from_str(text).unwrap(), serde_json::from_str(&printed).unwrap());
        let mut expected = before;
        // Keys that may be absent and are always written.
        let old_links = name.starts_with("group_cross_chunk");
        for (key, value) in [("directed", json!(false)), ("store", json!("canonical"))] {
            if old_links {
                expected["attributes"].as_object_mut().unwrap().insert(key.to_string(), value);
            }
        }
        assert!(same(&expected, &after), "{name}\n{expected}\n{after}");
        assert_eq!(reprint(&printed).unwrap(), printed, "{name}");
    }
}

#[test]
fn roots_of_writers_pass_the_checks_of_open() {
    use LayoutFamily::{A, B0, C};
    for (name, family, axes) in [
        ("root_points", C, 3),
        ("root_pyramid", C, 3),
        ("root_specs", C, 3),
        ("root_offset", C, 3),
        ("root_composite", C, 3),
        ("root_empty", C, 3),
        ("root_consolidated", C, 3),
        ("root_four_axes", C, 4),
        ("root_v060", A, 3),
        ("root_v070", A, 3),
        ("root_v080", B0, 3),
    ] {
        let root = Root::parse(document(name).as_bytes()).unwrap();
        root.open_checks().unwrap();
        assert_eq!(root.zarr_vectors.zv_version.family(), Some(family), "{name}");
        assert_eq!(root.axes().len(), axes, "{name}");
        assert!(root.ome().is_none_or(|ome| ome.is_ok()), "{name}");
        assert!(root.zarr_vectors.attribute_specs().is_none_or(|specs| specs.is_ok()), "{name}");
    }
}

/// The verdicts on broken documents, where the document alone decides.
#[test]
fn broken_documents_are_reported() {
    let open = |text: &str| Root::parse(text.as_bytes()).and_then(|root| root.open_checks());
    for (name, message) in [
        ("ar_zarr_format_2", "UnsupportedVersion in metadata, zarr_format: expected 3, found 2"),
        (
            "js_root_invalid",
            "Truncated in metadata, multiscales[0].datasets[0].coordinateTransformations[0] at byte \
             1218: expected the end of a string, found the end of the text",
        ),
        ("md_axes_missing", "BadTag in metadata, multiscales: expected a value, found nothing"),
        (
            "md_bin_not_dividing",
            "BadShape in metadata, zarr_vectors.base_bin_shape[0]: expected a chunk to be a whole \
             multiple of its bins, found 30",
        ),
        (
            "md_bounds_nan",
            "Encoding in metadata, zarr_vectors.bounds[0][1] at byte 136: expected a finite number, \
             found NaN",
        ),
        (
            "md_chunk_nan",
            "Encoding in metadata, zarr_vectors.chunk_shape[1] at byte 106: expected a finite number, \
             found NaN",
        ),
        (
            "md_chunk_tiny",
            "BadShape in metadata, zarr_vectors.base_bin_shape[0]: expected a chunk to be a whole \
             multiple of its bins, found 50",
        ),
        (
            "md_chunk_zero",
            "BadShape in metadata, zarr_vectors.chunk_shape[1]: expected a finite number above 0, \
             found 0",
        ),
        (
            "md_geometry_unknown",
            "BadTag in metadata, zarr_vectors.geometry_types[0]: expected a known geometry type, \
             found \"voxels\"",
        ),
        ("md_no_zv_block", "BadTag in metadata, zarr_vectors: expected a value, found nothing"),
    ] {
        assert_eq!(open(document(name)).unwrap_err().to_string(), message, "{name}");
    }
    for name in
        ["md_version_future", "md_version_old", "md_bounds_inverted", "lv_chunk_not_multiple"]
    {
        open(document(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let future = Root::parse(document("md_version_future").as_bytes()).unwrap();
    assert!(future.zarr_vectors.zv_version.is_newer_than_known());
    let old = Root::parse(document("md_version_old").as_bytes()).unwrap();
    assert_eq!(old.zarr_vectors.zv_version.family(), Some(LayoutFamily::B1)); // the structure is of C
}

#[test]
fn broken_arrays_and_groups_are_reported_by_their_parsers() {
    let array = |name: &str| ArrayDoc::parse(document(name).as_bytes());
    assert_eq!(
        array("js_array_invalid").unwrap_err().to_string(),
        "Encoding in metadata, document: expected a value, found \"<html>40\""
    );
    let vertices = Vertices::parse(array("md_dtype_unknown").unwrap().attributes).unwrap();
    assert_eq!(
        vertices.dtype().unwrap_err().to_string(),
        "BadTag in metadata, dtype: expected an element type, found \"float99\""
    );
    let absurd = array("md_grid_absurd").unwrap();
    assert_eq!((absurd.shape.as_slice(), absurd.items()), (&[1 << 40; 3][..], None));
    let keys = array("md_keys_traversal").unwrap().nonempty_chunks.unwrap();
    assert!(keys.iter().any(|key| key == "../../../etc/passwd")); // a text, never a path
    let origin = array("md_origin_arity").unwrap();
    let attributes = Vertices::parse(origin.attributes.clone()).unwrap();
    assert_ne!(attributes.chunk_grid_origin.unwrap().len(), origin.rank());
    let unknown = array("codec_unknown").unwrap();
    assert!(unknown.codecs.iter().any(|codec| codec.kind() == &super::CodecKind::Unknown));
    let column = Column::parse(array("attr_channels_mismatch").unwrap().attributes).unwrap();
    assert_eq!(column.declared_columns(), Some(4));
    assert_eq!(super::columns(4, [(2, 6), (5, 15)]), Ok(3));
    let groups = GroupsAttrs::parse(array("gr_range_absurd").unwrap().attributes).unwrap();
    assert_eq!(groups.ranges.unwrap()[0].stop, 1 << 62);
    let index = GroupDoc::parse(document("oi_layout_unknown").as_bytes()).unwrap();
    assert_eq!(
        IndexAttrs::parse(index.attributes).unwrap().layout().unwrap_err().to_string(),
        "Unsupported in metadata, layout: expected a known layout of manifests, found \
         \"vlen_manifests_v9\""
    );
}

#[test]
fn broken_levels_are_reported_by_a_validator() {
    let base = LevelDoc::parse(document("level_points").as_bytes()).unwrap();
    for (root, level, rules) in [
        ("root_pyramid", "lv_bin_ratio_zero", &[MetadataRule::M11][..]),
        ("root_pyramid", "lv_parent_cycle", &[MetadataRule::M15]),
        ("root_pyramid", "lv_sparsity_zero", &[MetadataRule::M12]),
        ("lv_chunk_not_multiple", "lv_chunk_not_multiple_level", &[MetadataRule::M8; 4]),
        ("md_bounds_inverted", "level_scaled", &[MetadataRule::M4; 3]),
        ("root_pyramid", "level_scaled", &[]),
    ] {
        let root = Root::parse(document(root).as_bytes()).unwrap();
        let level_doc = LevelDoc::parse(document(level).as_bytes()).unwrap();
        let findings = validate(&root, &[("0", &base), ("1", &level_doc)]).into_iter();
        let found: Vec<_> =
            findings.map(|finding| finding.rule).filter(|r| *r != MetadataRule::M16).collect();
        assert_eq!(found, rules, "{level}");
    }
}

/// Returns the text of a document of the specification: its joined lines.
fn joined(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    lines.join(" ").replace("{ ", "{").replace("[ ", "[")
}

const CHUNK_ARRAY: &str = r#"
{"shape": [3, 1],
 "data_type": "variable_length_bytes",
 "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1]}},
 "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
 "fill_value": "",
 "codecs": [{"name": "vlen-bytes", "configuration": {}}],
 "attributes": {"nonempty_chunks": ["-1.0", "0.0", "1.0"],
                "chunk_grid_origin": [-1, 0],
                "zv_array": "vertices", "dtype": "float32", "encoding": "raw"},
 "zarr_format": 3, "node_type": "array", "storage_transformers": []}"#;

const ROOT: &str = r#"
{"zarr_vectors": {"zv_version": "0.9.2", "format_capabilities": [],
   "chunk_shape": [10.0, 10.0], "bounds": [[-3.0, 1.0], [12.0, 9.0]],
   "geometry_types": ["point_cloud"], "base_bin_shape": [5.0, 5.0],
   "links_convention": "implicit_sequential",
   "object_index_convention": "standard", "cross_chunk_strategy": "explicit_links"},
 "multiscales": [{"version": "0.4", "name": "default",
   "axes": [{"name": "x", "type": "space"}, {"name": "y", "type": "space"}],
   "datasets": [{"path": "0", "coordinateTransformations": [
       {"type": "scale", "scale": [1.0, 1.0]},
       {"type": "translation", "translation": [2.5, 2.5]}]}],
   "metadata": {"format": "zarr_vectors"}}],
 "ome": {"version": "0.6", "type": "collection", "name": "pc",
   "attributes": {"scene": {"coordinateSystems": [{"id": "world", "name": "world",
       "axes": [{"name": "x", "type": "space"}, {"name": "y", "type": "space"}]}],
     "coordinateTransformations": []}},
   "nodes": [{"type": "zv:level", "name": "0"}]}}"#;

const LEVEL: &str = r#"
{"zarr_vectors_level": {"level": 0, "object_sparsity": 1.0,
"vertex_count": 5, "coarsening_method": "none", "parent_level": null,
"arrays_present": ["vertices", "vertex_attributes"], "fragments_tile": true}}"#;

#[test]
fn the_chunk_array_of_the_specification_round_trips() {
    use super::{CodecSpec, DataType, Dtype};
    let text = joined(CHUNK_ARRAY).trim().to_string();
    let keys: KeyList = ["-1.0", "0.0", "1.0"].into_iter().collect();
    let vertices = Vertices::new(Dtype::FLOAT32, vec![-1, 0]);
    let array = ArrayDoc {
        codecs: vec![CodecSpec::vlen_bytes()],
        nonempty_chunks: Some(keys),
        attributes: vertices.to_attributes(),
        ..ArrayDoc::new(vec![3, 1], vec![1, 1], DataType::variable_length_bytes())
    };
    assert_eq!(array.print(), text);
    assert_eq!(ArrayDoc::parse(text.as_bytes()).unwrap(), array);
}

#[test]
fn the_root_of_the_specification_round_trips() {
    use super::token::*;
    use super::{Axis, Dataset, Ome, ZarrVectors};
    let attributes = joined(ROOT).trim().to_string();
    let text = format!(r#"{{"zarr_format": 3, "node_type": "group", "attributes": {attributes}}}"#);
    let block = ZarrVectors {
        geometry_types: vec![GeometryType::PointCloud.into()],
        base_bin_shape: Some(vec![5.0, 5.0]),
        links_convention: Some(LinksConvention::ImplicitSequential.into()),
        object_index_convention: Some(ObjectIndexConvention::Standard.into()),
        cross_chunk_strategy: Some(CrossChunkStrategy::ExplicitLinks.into()),
        ..ZarrVectors::new(vec![10.0, 10.0], [vec![-3.0, 1.0], vec![12.0, 9.0]])
    };
    let axes = Axis::spatial(2).unwrap();
    let mut root = Root::new(block, axes.clone());
    root.multiscales[0].datasets.push(Dataset::new("0", vec![1.0, 1.0], vec![2.5, 2.5]));
    root.ome = Some(Ome::new("pc", &axes, ["0"]).to_value());
    assert_eq!(root.print(), text);
    assert_eq!(Root::parse(text.as_bytes()).unwrap(), root);
    assert_eq!(validate(&root, &[("0", &LevelDoc::new(0))]), []);
}

#[test]
fn the_level_of_the_specification_round_trips() {
    let attributes = joined(LEVEL).trim().to_string();
    let text = format!(r#"{{"zarr_format": 3, "node_type": "group", "attributes": {attributes}}}"#);
    let level = LevelDoc {
        vertex_count: 5,
        arrays_present: vec!["vertices".to_string(), "vertex_attributes".to_string()],
        fragments_tile: true,
        ..LevelDoc::new(0)
    };
    assert_eq!(level.print(), text);
    assert_eq!(LevelDoc::parse(text.as_bytes()).unwrap(), level);
}

#[test]
fn the_tiny_array_of_the_specification_round_trips() {
    use super::{CodecSpec, DataType, Dtype, DtypeKind, FillValue};
    let text = r#"{"shape":[24],"data_type":"uint8",
 "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[24]}},
 "chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},
 "fill_value":0,"codecs":[{"name":"bytes"}],"attributes":{},
 "zarr_format":3,"node_type":"array","storage_transformers":[]}"#;
    let byte = Dtype { kind: DtypeKind::UInt, size: 1, big_endian: false };
    let array = ArrayDoc {
        fill_value: FillValue::uint(0),
        codecs: vec![CodecSpec::single_bytes()],
        ..ArrayDoc::new(vec![24], vec![24], DataType::number(byte))
    };
    assert_eq!(ArrayDoc::parse(text.as_bytes()).unwrap(), array);
    let (a, b): (Value, Value) =
        (serde_json::from_str(text).unwrap(), serde_json::from_str(&array.print()).unwrap());
    assert_eq!(a, b);
    assert_eq!((array.items(), array.chunk_bytes()), (Some(24), Some(24)));
}

#[test]
fn a_node_is_read_as_its_declared_type() {
    for (name, text) in &*documents::GOOD {
        match Node::parse(text.as_bytes()).unwrap() {
            Node::Array(array) => {
                assert_eq!(*array, ArrayDoc::parse(text.as_bytes()).unwrap(), "{name}")
            }
            Node::Group(group) => {
                assert_eq!(group, GroupDoc::parse(text.as_bytes()).unwrap(), "{name}")
            }
        }
    }
    let unusual =
        r#"{"attributes": {"nonempty_chunks": ["a"]}, "zarr_format": 3, "node_type": "group"}"#;
    let Node::Group(group) = Node::parse(unusual.as_bytes()).unwrap() else { panic!("no group") };
    assert_eq!(group, GroupDoc::parse(unusual.as_bytes()).unwrap());
}
