//! Validation: for each rule one document that breaks it.

use std::string::{String, ToString as _};
use std::vec;

use serde_json::json;

use super::*;
use crate::{Axis, Dataset, GeometryType, ZarrVectors};

/// Returns a store of two levels without a fault.
fn valid_store() -> (Root, [LevelDoc; 2]) {
    let block = ZarrVectors {
        geometry_types: vec![GeometryType::PointCloud.into()],
        base_bin_shape: Some(vec![5.0, 5.0]),
        ..ZarrVectors::new(vec![10.0, 10.0], [vec![0.0, 0.0], vec![12.0, 9.0]])
    };
    let mut root = Root::new(block, Axis::spatial(2).unwrap());
    root.multiscales[0].datasets = vec![
        Dataset::new("0", vec![1.0, 1.0], vec![2.5, 2.5]),
        Dataset::new("1", vec![2.0, 2.0], vec![5.0, 5.0]),
    ];
    (root, [LevelDoc::new(0), LevelDoc { parent_level: Some(0), ..LevelDoc::new(1) }])
}

fn check_messages(root: &Root, levels: &[LevelDoc; 2]) -> Vec<String> {
    let [base, coarse] = levels;
    let findings = validate(root, &[("0", base), ("1", coarse)]).into_iter();
    findings
        .map(|MetadataFinding { rule, level, error }| {
            let level = level.map_or("root".to_string(), |i| i.to_string());
            alloc::format!("{rule} {level} {error}")
        })
        .collect()
}

#[test]
fn a_valid_store_has_no_findings() {
    let (root, levels) = valid_store();
    assert_eq!(check_messages(&root, &levels), [""; 0]);
    root.open_checks().unwrap();
}

/// The messages of each case: lines, with an empty one after each case, and `-` for none.
const MESSAGES: &str = include_str!("messages.txt");

type Harm = fn(&mut Root, &mut [LevelDoc; 2]);

/// The change, and whether a reader refuses to open. The expected messages are those of MESSAGES.
const CASES: &[(Harm, bool)] = &[
    (|root, _| root.zarr_vectors.chunk_shape = vec![10.0], true),
    (|root, _| root.zarr_vectors.chunk_shape[1] = f64::NAN, true),
    (|root, _| root.zarr_vectors.bounds[1] = vec![1.0], true),
    (|root, _| root.zarr_vectors.bounds[1][0] = f64::INFINITY, true),
    (|root, _| root.zarr_vectors.bounds[1][1] = -1.0, false),
    (|root, _| root.zarr_vectors.links_convention = Some(Token::from_text("x")), false),
    (|root, _| root.zarr_vectors.object_index_convention = Some(Token::from_text("x")), false),
    (|root, _| root.zarr_vectors.cross_chunk_strategy = Some(Token::from_text("x")), false),
    (|root, _| root.zarr_vectors.cross_chunk_strategy = Some(Token::from_text("")), false),
    (|root, _| root.zarr_vectors.geometry_types.clear(), false),
    (|root, _| root.zarr_vectors.base_bin_shape = Some(vec![5.0, 4.0]), true),
    (
        |root, levels| {
            root.zarr_vectors.base_bin_shape = Some(vec![-5.0, 5.0]);
            levels[1].bin_shape = Some(vec![10.0, 10.0]);
            root.multiscales[0].datasets.clear();
        },
        true,
    ),
    (|_, levels| levels[1].chunk_shape = Some(vec![15.0, 20.0]), false),
    (|_, levels| levels[0].vertex_count = -1, false),
    (
        |root, levels| {
            levels[1].bin_shape = Some(vec![4.0]);
            root.multiscales[0].datasets[1] = Dataset::new("1", vec![0.8, 1.0], vec![]);
        },
        false,
    ),
    (
        |root, levels| {
            levels[1].bin_shape = Some(vec![0.0, 10.0]);
            root.multiscales[0].datasets[1] = Dataset::new("1", vec![0.0, 2.0], vec![0.0, 5.0]);
        },
        false,
    ),
    (|_, levels| levels[1].bin_ratio = Some(vec![2.0, 0.0, f64::NAN]), false),
    (|_, levels| (levels[0].object_sparsity, levels[1].object_sparsity) = (0.0, 1.5), false),
    (|root, _| root.zarr_vectors.zv_version = crate::Version::new(0, 5, 0), true),
    (|root, _| root.zarr_vectors.required_capabilities = vec![Token::from_text("magic")], true),
    (
        |root, _| root.zarr_vectors.required_capabilities = vec![Capability::DenseManifests.into()],
        false,
    ),
    (|root, _| root.zarr_vectors.geometry_types.push(Token::from_text("voxels")), true),
    (|root, _| root.multiscales[0].axes[1].name = "x".to_string(), true),
    (|root, _| root.multiscales[0].axes[1].kind = "time".to_string(), false),
    (|root, _| root.zarr_vectors.cross_level_storage = Some(Token::from_text("x")), false),
    (
        |root, _| {
            root.zarr_vectors.cross_level_depth = Some(-2);
            root.zarr_vectors.reduction_factor = Some(1);
        },
        false,
    ),
    (
        |root, _| {
            root.zarr_vectors.object_index_convention =
                Some(ObjectIndexConvention::Identity.into());
        },
        false,
    ),
    (
        |root, _| {
            root.zarr_vectors.object_index_convention =
                Some(ObjectIndexConvention::Identity.into());
            root.zarr_vectors.bounds[1] = vec![9.0, 9.0];
        },
        false,
    ),
    (|_, levels| levels[1].level = 2, false),
    (|_, levels| (levels[0].parent_level, levels[1].parent_level) = (Some(0), None), false),
    (|_, levels| levels[1].parent_level = Some(1), false),
    (|_, levels| levels[1].parent_level = Some(-1), false),
    (|_, levels| levels[0].bin_shape = Some(vec![5.0, 5.0]), false),
    (|_, levels| levels[0].chunk_attribute_values = Some(vec![]), false),
    (
        |_, levels| {
            for level in levels {
                level.preserves_object_ids = true;
            }
        },
        false,
    ),
    (|_, levels| levels[1].inherited_num_objects = Some(-1), false),
    (|_, levels| levels[1].refinement = Some(Token::from_text("x")), false),
    (|_, levels| levels[1].refinement = Some(Refinement::Add.into()), false),
    (
        |root, levels| {
            levels[0].refinement = Some(Refinement::Add.into());
            root.zarr_vectors.format_capabilities = vec![Capability::AdditiveLevels.into()];
        },
        false,
    ),
    (
        |root, levels| {
            levels[0].refinement = Some(Refinement::Add.into());
            root.zarr_vectors.required_capabilities = vec![Capability::AdditiveLevels.into()];
        },
        false,
    ),
    (|root, _| root.multiscales[0].datasets[1].path = "2".to_string(), false),
    (|root, _| root.multiscales[0].datasets[1].transformations.clear(), false),
    (
        |root, _| root.multiscales[0].datasets[1] = Dataset::new("1", vec![2.0], vec![5.0, 5.0]),
        false,
    ),
    (
        |root, levels| {
            root.zarr_vectors.coordinate_offset = Some(vec![7.0, 7.0]);
            root.multiscales[0].datasets[0] = Dataset::new("0", vec![1.0, 1.0], vec![7.0, 7.0]);
            levels[0].fragments_tile = true;
        },
        false,
    ),
    (
        |root, _| {
            root.zarr_vectors.attribute_specs = Some(json!({
                "vertex": {"a": {"dtype": "float99"}}, "face": {"b": {"dtype": "int8", "channels": 0}}}));
        },
        false,
    ),
    (|root, _| root.zarr_vectors.attribute_specs = Some(json!([])), false),
    (
        |root, _| {
            root.zarr_vectors.attribute_specs = Some(json!({"vertex": {"a b": {"dtype": "int8"}}}));
        },
        false,
    ),
];

#[test]
fn each_rule_is_reported_and_its_opening_faults_refused() {
    let expected = MESSAGES.trim_end().split("\n\n");
    assert_eq!(expected.clone().count(), CASES.len());
    for ((harm, refused), expected) in CASES.iter().zip(expected) {
        let messages: Vec<&str> = expected.lines().filter(|line| *line != "-").collect();
        let (mut root, mut levels) = valid_store();
        harm(&mut root, &mut levels);
        assert_eq!(check_messages(&root, &levels), messages);
        assert_eq!(root.open_checks().is_err(), *refused, "{messages:?}");
        if let (Err(error), Some(first)) = (root.open_checks(), messages.first()) {
            assert!(first.ends_with(&error.to_string()), "{error}");
        }
    }
}

#[test]
fn a_store_without_axes_or_with_too_many_is_refused() {
    let (mut root, _) = valid_store();
    root.multiscales[0].axes.clear();
    let message = "BadShape in metadata, multiscales[0].axes: expected at least 1, found 0";
    assert_eq!(root.open_checks().unwrap_err().to_string(), message);
    assert_eq!(validate(&root, &[])[0].rule, MetadataRule::M2);
    root.multiscales[0].axes = (0..9).map(|i| Axis::space(&i.to_string())).collect();
    let message = "LimitExceeded in metadata, multiscales[0].axes: expected at most 8, found 9";
    assert_eq!(root.open_checks().unwrap_err().to_string(), message);
}

#[test]
fn names_of_attributes_are_checked() {
    for (name, is_valid) in [
        ("a", true),
        ("cell_type9", true),
        ("", false),
        ("a b", false),
        ("../x", false),
        ("é", false),
    ] {
        assert_eq!(validate_attribute_name(name).is_none(), is_valid, "{name}");
    }
    assert_eq!(
        [MetadataRule::M1, MetadataRule::M13, MetadataRule::M19].map(|rule| rule.to_string()),
        ["M1", "M13", "M19"]
    );
}
