//! Attributes of arrays, and one row per check.

use std::string::ToString as _;
use std::vec;

use serde_json::{Value, json};

use super::super::token::{CellEncoding, ManifestLayout, Token};
use super::super::{GroupDoc, print};
use super::*;
use crate::tests::fault;

type Parse = fn(Object) -> Result<Object, MetadataError>;

const VERTICES: Parse = |a| Ok(Vertices::parse(a)?.to_attributes());
const FRAGMENTS: Parse = |a| Ok(FragmentsAttrs::parse(a)?.to_attributes());
const COLUMN: Parse = |a| Ok(Column::parse(a)?.to_attributes());
const ROWS: Parse = |a| Ok(Rows::parse(a)?.to_attributes());
const FAMILY: Parse = |a| Ok(LinksFamily::parse(a)?.to_attributes());
const CROSS: Parse = |a| Ok(LinksFamily::parse_cross_chunk(a)?.to_attributes());
const SEGMENT: Parse = |a| Ok(SegmentAttrs::parse(a)?.to_attributes());
const LINK_ATTRIBUTE: Parse = |a| Ok(LinkColumnAttrs::parse(a)?.to_attributes());
const INDEX: Parse = |a| Ok(IndexAttrs::parse(a)?.to_attributes());
const GROUPS: Parse = |a| Ok(GroupsAttrs::parse(a)?.to_attributes());
const TYPES: Parse = |a| Ok(ParametricTypes::parse(a)?.to_attributes());
const PARAMETRIC: Parse = |a| Ok(ParametricArray::parse(a)?.to_attributes());
const GEOMETRY: Parse = |a| Ok(GeometryIndex::parse(a)?.to_attributes());

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

/// Every key that the specification defines for a kind of array, in written order, and one
/// unknown key.
#[test]
fn every_key_round_trips() {
    for (parse, text) in [
        (
            VERTICES,
            r#"{"chunk_grid_origin": [-1, 0], "zv_array": "vertices", "dtype": "float32", "encoding": "draco", "ndim": 3, "vertex_count": 40, "new": 1}"#,
        ),
        (
            FRAGMENTS,
            r#"{"chunk_grid_origin": [0, -2], "zv_array": "link_fragments", "encoding": "fragment_index_v1", "new": 1}"#,
        ),
        (
            COLUMN,
            r#"{"chunk_grid_origin": [1], "zv_array": "attribute", "name": "n", "dtype": ">f4", "channel_names": ["r", "g"], "row_shape": [2], "encoding": "dictionary", "categories": ["a", 2, null], "ordered": true, "_FillValue": -1, "declared_categorical": true, "unit": "mm", "description": "d", "new": 1}"#,
        ),
        (
            ROWS,
            r#"{"zv_array": "object_attribute", "name": "n", "dtype": "<U6", "num_channels": 1, "shape": [4, 2], "has_present_mask": true, "fill_sentinel_meaning": "absent", "new": 1}"#,
        ),
        (
            FAMILY,
            r#"{"zv_array": "links_family", "level_delta": -1, "link_width": 2, "directed": true, "store": "duplicate", "sid_ndim": 3, "num_links": 7, "num_physical_records": 14, "layout": "partitioned_v1", "new": 1}"#,
        ),
        (
            SEGMENT,
            r#"{"chunk_grid_origin": [-1], "zv_array": "links", "dtype": "int32", "offsets": [[0, 1], [-1, 0]], "has_perm": true, "link_width": 3, "level_delta": 0, "new": 1}"#,
        ),
        (
            LINK_ATTRIBUTE,
            r#"{"chunk_grid_origin": [-1], "zv_array": "link_attribute", "name": "n", "dtype": "int8", "offsets": [], "level_delta": 1, "num_links": 4, "row_shape": [3], "shape": [4, 3], "new": 1}"#,
        ),
        (
            INDEX,
            r#"{"zv_array": "object_index", "num_objects": 9, "num_present": 8, "sid_ndim": 3, "layout": "dense_manifests_v1", "object_ids_sorted": true, "new": 1}"#,
        ),
        (
            GROUPS,
            r#"{"zv_array": "groups", "num_groups": 2, "group_ranges": {"1": [0, 7]}, "group_names": ["a", "b"], "new": 1}"#,
        ),
        (
            TYPES,
            r#"{"parametric_types": {"0": {"name": "plane", "coefficients": ["A", "B"], "more": 1}}, "new": 1}"#,
        ),
        (
            PARAMETRIC,
            r#"{"zv_array": "parametric_objects", "num_objects": 4, "max_row_length": 7, "dtype": "float64", "num_groups": 2, "new": 1}"#,
        ),
        (
            GEOMETRY,
            r#"{"mesh": {"array": "vertices_mesh", "vertex_count": 4, "links_array": "links_mesh", "has_links": true, "group": "mesh", "face_count": 2}}"#,
        ),
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        let reparsed = parse(object(&value)).unwrap();
        assert_eq!(print(&Value::Object(reparsed)), text);
    }
}

#[test]
fn kinds_whose_keys_may_all_be_absent() {
    for parse in [VERTICES, FRAGMENTS, COLUMN, ROWS, SEGMENT, LINK_ATTRIBUTE, PARAMETRIC, GEOMETRY]
    {
        assert_eq!(parse(Object::new()), Ok(Object::new()));
    }
}

#[test]
fn faults_name_the_key() {
    for (parse, attributes, message) in [
        (VERTICES, json!({"zv_array": 1}), "BadTag, zv_array: a string, found 1"),
        (VERTICES, json!({"dtype": 4}), "BadTag, dtype: a string, found 4"),
        (
            FRAGMENTS,
            json!({"chunk_grid_origin": [0.5]}),
            "BadTag, chunk_grid_origin[0]: a whole number of 64 bits, found 0.5",
        ),
        (COLUMN, json!({"encoding": "dictionary"}), "BadTag, categories: a value, found nothing"),
        (COLUMN, json!({"row_shape": [-3]}), "Negative, row_shape[0]: at least 0, found -3"),
        (ROWS, json!({"shape": 7}), "BadTag, shape: a list, found 7"),
        (FAMILY, json!({}), "BadTag, level_delta: a value, found nothing"),
        (CROSS, json!({}), "BadTag, level_delta: a value, found nothing"),
        (CROSS, json!({"level_delta": 0}), "BadTag, link_width: a value, found nothing"),
        (SEGMENT, json!({"offsets": [0]}), "BadTag, offsets[0]: a list, found 0"),
        (INDEX, json!({}), "BadTag, num_objects: a value, found nothing"),
        (GROUPS, json!({}), "BadTag, num_groups: a value, found nothing"),
        (
            GROUPS,
            json!({"num_groups": 1, "group_ranges": {"01": [0, 1]}}),
            "BadTag, group_ranges.01: the number of a group, found \"01\"",
        ),
        (
            GROUPS,
            json!({"num_groups": 1, "group_ranges": {"0": [0]}}),
            "BadShape, group_ranges.0: two ids, found 1",
        ),
        (
            TYPES,
            json!({"parametric_types": {"x": {}}}),
            "BadTag, parametric_types.x: the number of a type, found \"x\"",
        ),
        (
            TYPES,
            json!({"parametric_types": {"0": {"name": "plane"}}}),
            "BadTag, parametric_types.0.coefficients: a value, found nothing",
        ),
        (GEOMETRY, json!({"mesh": {}}), "BadTag, mesh.array: a value, found nothing"),
    ] {
        assert_eq!(fault(&parse(object(&attributes)).unwrap_err()), message);
    }
}

#[test]
fn element_types_have_the_defaults_of_their_arrays() {
    assert_eq!(Vertices::default().dtype(), Ok(Dtype::FLOAT32));
    assert_eq!(SegmentAttrs::default().dtype(), Ok(Dtype::INT64));
    assert_eq!(Column::default().dtype(), Ok(Dtype::FLOAT32));
    assert_eq!(LinkColumnAttrs::default().dtype(), Ok(Dtype::FLOAT32));
    let missing = "BadTag in metadata, dtype: expected an element type, found nothing";
    assert_eq!(Rows::default().dtype().unwrap_err().to_string(), missing);
}

#[test]
fn cross_chunk_links_are_undirected_and_stored_once_by_default() {
    let mut family = object(&json!({"level_delta": 0, "link_width": 2}));
    let fault = |family: &Object| LinksFamily::parse(family.clone()).unwrap_err().to_string();
    assert!(fault(&family).contains(" directed: expected a value"));
    family.insert("directed".to_string(), json!(false));
    assert!(fault(&family).contains(" store: expected a value"));
    let family = LinksFamily::parse_cross_chunk(family).unwrap();
    assert_eq!((family.directed, family.store.as_str()), (false, "canonical"));
    assert_eq!(
        LinksFamily {
            zv_array: family.zv_array.clone(),
            ..LinksFamily::new(0, 2, false, super::super::LinkStore::Canonical)
        },
        family
    );
}

#[test]
fn ids_are_rows_or_a_column() {
    for (layout, sorted, form, ids) in [
        (None, None, None, IdForm::Row),
        (Some("vlen_manifests_v1"), None, Some(ManifestLayout::VlenManifestsV1), IdForm::Row),
        (
            Some("vlen_manifests_v2"),
            Some(true),
            Some(ManifestLayout::VlenManifestsV2),
            IdForm::Column { sorted: true },
        ),
        (
            Some("dense_manifests_v1"),
            None,
            Some(ManifestLayout::DenseManifestsV1),
            IdForm::Column { sorted: false },
        ),
    ] {
        let index = IndexAttrs {
            layout: layout.map(Token::from_text),
            object_ids_sorted: sorted,
            ..IndexAttrs::new(1, 1, 3, false)
        };
        assert_eq!((index.layout(), index.ids()), (Ok(form), Ok(ids)));
    }
}

#[test]
fn absence_is_a_mask_or_a_fill_value() {
    for (attributes, absence) in [
        (json!({}), Absence::Never),
        (json!({"has_present_mask": false}), Absence::Never),
        (json!({"has_present_mask": true}), Absence::Mask),
        (json!({"fill_sentinel_meaning": "absent"}), Absence::FillValue),
        (json!({"fill_sentinel_meaning": "zero"}), Absence::Never),
    ] {
        assert_eq!(Rows::parse(object(&attributes)).unwrap().absence(), absence, "{attributes}");
    }
    assert_eq!(Rows::group_attribute("w", Dtype::FLOAT32, vec![2]).absence(), Absence::Never);
}

#[test]
fn columns_are_named_or_shaped() {
    for (attributes, columns) in [
        (json!({}), Some(1)),
        (json!({"row_shape": []}), Some(1)),
        (json!({"row_shape": [3]}), Some(3)),
        (json!({"row_shape": [], "channel_names": ["a", "b"]}), Some(2)),
        (json!({"row_shape": [4], "channel_names": []}), Some(4)),
        (json!({"row_shape": [1_u64 << 40, 1_u64 << 40]}), None),
    ] {
        let column = Column::parse(object(&attributes)).unwrap();
        assert_eq!(column.declared_columns(), columns, "{attributes}");
    }
    for (attributes, columns) in [
        (json!({}), Some(1)),
        (json!({"row_shape": [3]}), Some(3)),
        (json!({"shape": [9, 2]}), Some(2)),
        (json!({"shape": [9]}), Some(1)),
        (json!({"row_shape": [u64::MAX, 2]}), None),
    ] {
        let attribute = LinkColumnAttrs::parse(object(&attributes)).unwrap();
        assert_eq!(attribute.declared_columns(), columns, "{attributes}");
    }
    let single_column = Column::new("attribute", "w", Dtype::INT64, 1, vec![0]);
    assert_eq!(
        (single_column.row_shape, single_column.channel_names, single_column.chunk_grid_origin),
        (Some(vec![]), None, None)
    );
}

#[test]
fn tags_are_read_in_both_spellings() {
    let old = object(&json!({"zvf_array": "vertices", "encoding": "raw"}));
    assert_eq!(tag(&old), Some("vertices"));
    let vertices = Vertices::parse(old).unwrap();
    assert_eq!(vertices.encoding, Some(Token::Known(CellEncoding::Raw)));
    let group = GroupDoc::new(vertices.to_attributes());
    assert_eq!(tag(&group.attributes), Some("vertices"));
    assert_eq!(tag(&Object::new()), None);
    assert_eq!(
        LinkColumnAttrs::family("n", 1, Some(2)).zv_array.as_deref(),
        Some("link_attribute_family")
    );
}
