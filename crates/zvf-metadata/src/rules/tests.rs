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

type Harm = fn(&mut Root, &mut [LevelDoc; 2]);

/// The change, the expected messages, and whether a reader refuses to open.
const CASES: &[(Harm, &[&str], bool)] = &[
    (
        |root, _| root.zarr_vectors.chunk_shape = vec![10.0],
        &["M3 root BadShape in metadata, zarr_vectors.chunk_shape: expected 2, found 1"],
        true,
    ),
    (
        |root, _| root.zarr_vectors.chunk_shape[1] = f64::NAN,
        &[
            "M3 root BadShape in metadata, zarr_vectors.chunk_shape[1]: expected a finite number above 0, \
           found NaN",
        ],
        true,
    ),
    (
        |root, _| root.zarr_vectors.bounds[1] = vec![1.0],
        &["M4 root BadShape in metadata, zarr_vectors.bounds[1]: expected 2, found 1"],
        true,
    ),
    (
        |root, _| root.zarr_vectors.bounds[1][0] = f64::INFINITY,
        &[
            "M4 root BadShape in metadata, zarr_vectors.bounds[1][0]: expected a finite number, found inf",
        ],
        true,
    ),
    (
        |root, _| root.zarr_vectors.bounds[1][1] = -1.0,
        &[
            "M4 root BadShape in metadata, zarr_vectors.bounds[1][1]: expected no less than the lowest \
           corner, found -1",
        ],
        false,
    ),
    (
        |root, _| root.zarr_vectors.links_convention = Some(Token::from_text("x")),
        &[
            "M5 root BadTag in metadata, zarr_vectors.links_convention: expected a known word, found \"x\"",
        ],
        false,
    ),
    (
        |root, _| root.zarr_vectors.object_index_convention = Some(Token::from_text("x")),
        &[
            "M5 root BadTag in metadata, zarr_vectors.object_index_convention: expected a known word, \
           found \"x\"",
        ],
        false,
    ),
    (
        |root, _| root.zarr_vectors.cross_chunk_strategy = Some(Token::from_text("x")),
        &[
            "M5 root BadTag in metadata, zarr_vectors.cross_chunk_strategy: expected a known word, found \
           \"x\"",
        ],
        false,
    ),
    (|root, _| root.zarr_vectors.cross_chunk_strategy = Some(Token::from_text("")), &[], false),
    (
        |root, _| root.zarr_vectors.geometry_types.clear(),
        &[
            "M6 root BadShape in metadata, zarr_vectors.geometry_types: expected at least 1, found 0",
        ],
        false,
    ),
    (
        |root, _| root.zarr_vectors.base_bin_shape = Some(vec![5.0, 4.0]),
        &[
            "M7 root BadShape in metadata, zarr_vectors.base_bin_shape[1]: expected a chunk to be a whole \
             multiple of its bins, found 4",
            "M16 root CountMismatch in metadata, multiscales[0].datasets[0].coordinateTransformations: \
             expected a translation of half the level's bin, found another",
            "M16 root CountMismatch in metadata, multiscales[0].datasets[1].coordinateTransformations: \
             expected a scale of the level's bin over the base bin, found another",
        ],
        true,
    ),
    (
        |root, levels| {
            root.zarr_vectors.base_bin_shape = Some(vec![-5.0, 5.0]);
            levels[1].bin_shape = Some(vec![10.0, 10.0]);
            root.multiscales[0].datasets.clear();
        },
        &[
            "M7 root BadShape in metadata, zarr_vectors.base_bin_shape[0]: expected a finite number above \
             0, found -5",
            "M16 root CountMismatch in metadata, multiscales[0].datasets: expected an entry for each \
             level, found \"0\"",
            "M16 root CountMismatch in metadata, multiscales[0].datasets: expected an entry for each \
             level, found \"1\"",
        ],
        true,
    ),
    (
        |_, levels| levels[1].chunk_shape = Some(vec![15.0, 20.0]),
        &[
            "M8 1 BadShape in metadata, zarr_vectors_level.chunk_shape[0]: expected a whole multiple of \
             the root's chunk, found 1.5 times",
            "M8 1 BadShape in metadata, zarr_vectors_level.chunk_shape[0]: expected a chunk to be a whole \
             multiple of its bins, found 10",
        ],
        false,
    ),
    (
        |_, levels| levels[0].vertex_count = -1,
        &[
            "M9 0 Negative in metadata, zarr_vectors_level.vertex_count: expected at least 0, found -1",
        ],
        false,
    ),
    (
        |root, levels| {
            levels[1].bin_shape = Some(vec![4.0]);
            root.multiscales[0].datasets[1] = Dataset::new("1", vec![0.8, 1.0], vec![]);
        },
        &[
            "M8 1 BadShape in metadata, zarr_vectors_level.chunk_shape[0]: expected a chunk to be a whole \
             multiple of its bins, found 4",
            "M10 1 BadShape in metadata, zarr_vectors_level.bin_shape: expected 2, found 1",
            "M10 1 BadShape in metadata, zarr_vectors_level.bin_shape[0]: expected a chunk to be a whole \
             multiple of its bins, found 4",
            "M16 root CountMismatch in metadata, multiscales[0].datasets[1].coordinateTransformations: \
             expected a scale of the level's bin over the base bin, found another",
        ],
        false,
    ),
    (
        |root, levels| {
            levels[1].bin_shape = Some(vec![0.0, 10.0]);
            root.multiscales[0].datasets[1] = Dataset::new("1", vec![0.0, 2.0], vec![0.0, 5.0]);
        },
        &[
            "M10 1 BadShape in metadata, zarr_vectors_level.bin_shape[0]: expected a finite number above \
             0, found 0",
            "M16 root BadShape in metadata, multiscales[0].datasets[1].coordinateTransformations[0]: \
             expected a finite number above 0, found 0",
        ],
        false,
    ),
    (
        |_, levels| levels[1].bin_ratio = Some(vec![2.0, 0.0, f64::NAN]),
        &[
            "M11 1 BadShape in metadata, zarr_vectors_level.bin_ratio: expected 2, found 3",
            "M11 1 BadShape in metadata, zarr_vectors_level.bin_ratio[1]: expected at least 1, found 0",
            "M11 1 BadShape in metadata, zarr_vectors_level.bin_ratio[2]: expected at least 1, found NaN",
        ],
        false,
    ),
    (
        |_, levels| (levels[0].object_sparsity, levels[1].object_sparsity) = (0.0, 1.5),
        &[
            "M12 0 OutOfBounds in metadata, zarr_vectors_level.object_sparsity: expected above 0 and at \
             most 1, found 0",
            "M12 1 OutOfBounds in metadata, zarr_vectors_level.object_sparsity: expected above 0 and at \
             most 1, found 1.5",
        ],
        false,
    ),
    (
        |root, _| root.zarr_vectors.zv_version = crate::Version::new(0, 5, 0),
        &[
            "M14 root UnsupportedVersion in metadata, zarr_vectors.zv_version: expected 0.6 or later, \
           found 0.5.0",
        ],
        true,
    ),
    (
        |root, _| root.zarr_vectors.required_capabilities = vec![Token::from_text("magic")],
        &[
            "M14 root Unsupported in metadata, zarr_vectors.required_capabilities[0]: expected a feature \
           this version has, found \"magic\"",
        ],
        true,
    ),
    (
        |root, _| root.zarr_vectors.required_capabilities = vec![Capability::DenseManifests.into()],
        &[],
        false,
    ),
    (
        |root, _| root.zarr_vectors.geometry_types.push(Token::from_text("voxels")),
        &[
            "M14 root BadTag in metadata, zarr_vectors.geometry_types[1]: expected a known geometry type, \
           found \"voxels\"",
        ],
        true,
    ),
    (
        |root, _| root.multiscales[0].axes[1].name = "x".to_string(),
        &[
            "M14 root Duplicate in metadata, multiscales[0].axes[1].name: expected a name of its own, found \
           \"x\"",
        ],
        true,
    ),
    (
        |root, _| root.multiscales[0].axes[1].kind = "time".to_string(),
        &[
            "M14 root BadShape in metadata, multiscales[0].axes: expected two axes in space, found 1",
            "M14 root NonCanonical in metadata, multiscales[0].axes[1].type: expected time before channel \
             before others before space, found \"time\"",
        ],
        false,
    ),
    (
        |root, _| root.zarr_vectors.cross_level_storage = Some(Token::from_text("x")),
        &[
            "M14 root BadTag in metadata, zarr_vectors.cross_level_storage: expected a known word, found \
           \"x\"",
        ],
        false,
    ),
    (
        |root, _| {
            root.zarr_vectors.cross_level_depth = Some(-2);
            root.zarr_vectors.reduction_factor = Some(1);
        },
        &[
            "M14 root OutOfBounds in metadata, zarr_vectors.cross_level_depth: expected at least -1, \
             found -2",
            "M14 root OutOfBounds in metadata, zarr_vectors.reduction_factor: expected at least 2, \
             found 1",
        ],
        false,
    ),
    (
        |root, _| {
            root.zarr_vectors.object_index_convention =
                Some(ObjectIndexConvention::Identity.into());
        },
        &[
            "M14 root BadTag in metadata, zarr_vectors.object_index_convention: expected identity in stores \
           of one chunk only, found several chunks",
        ],
        false,
    ),
    (
        |root, _| {
            root.zarr_vectors.object_index_convention =
                Some(ObjectIndexConvention::Identity.into());
            root.zarr_vectors.bounds[1] = vec![9.0, 9.0];
        },
        &[],
        false,
    ),
    (
        |_, levels| levels[1].level = 2,
        &[
            "M15 1 CountMismatch in metadata, zarr_vectors_level.level: expected the name of its group, \
           found another number",
        ],
        false,
    ),
    (
        |_, levels| (levels[0].parent_level, levels[1].parent_level) = (Some(0), None),
        &[
            "M15 0 OutOfBounds in metadata, zarr_vectors_level.parent_level: expected none at level 0, \
             found one",
            "M15 1 BadTag in metadata, zarr_vectors_level.parent_level: expected a level, found none",
        ],
        false,
    ),
    (
        |_, levels| levels[1].parent_level = Some(1),
        &[
            "M15 1 OutOfBounds in metadata, zarr_vectors_level.parent_level: expected a finer level, found \
           another",
        ],
        false,
    ),
    (
        |_, levels| levels[1].parent_level = Some(-1),
        &[
            "M15 1 OutOfBounds in metadata, zarr_vectors_level.parent_level: expected a finer level, found \
           another",
        ],
        false,
    ),
    (
        |_, levels| levels[0].bin_shape = Some(vec![5.0, 5.0]),
        &[
            "M15 0 NonCanonical in metadata, zarr_vectors_level.bin_shape: expected none at level 0, found \
           one",
        ],
        false,
    ),
    (
        |_, levels| levels[0].chunk_attribute_values = Some(vec![]),
        &[
            "M15 0 CountMismatch in metadata, zarr_vectors_level.chunk_attribute_name: expected a name \
             and its values, found one of them",
            "M15 0 BadShape in metadata, zarr_vectors_level.chunk_attribute_values: expected a value for \
             each bin, found none",
        ],
        false,
    ),
    (
        |_, levels| {
            for level in levels {
                level.preserves_object_ids = true;
            }
        },
        &[
            "M15 0 OutOfBounds in metadata, zarr_vectors_level.preserves_object_ids: expected false at \
             level 0, found true",
            "M15 0 BadTag in metadata, zarr_vectors_level.inherited_num_objects: expected a count, found \
             nothing",
            "M15 1 BadTag in metadata, zarr_vectors_level.inherited_num_objects: expected a count, found \
             nothing",
        ],
        false,
    ),
    (
        |_, levels| levels[1].inherited_num_objects = Some(-1),
        &[
            "M15 1 Negative in metadata, zarr_vectors_level.inherited_num_objects: expected at least 0, \
           found less",
        ],
        false,
    ),
    (
        |_, levels| levels[1].refinement = Some(Token::from_text("x")),
        &[
            "M15 1 BadTag in metadata, zarr_vectors_level.refinement: expected replace or add, found \
           another word",
        ],
        false,
    ),
    (
        |_, levels| levels[1].refinement = Some(Refinement::Add.into()),
        &[
            "M15 1 OutOfBounds in metadata, zarr_vectors_level.refinement: expected replace at the \
             coarsest level, found add",
            "M15 1 NonCanonical in metadata, zarr_vectors_level.refinement: expected \
             additive_levels among required_capabilities of the root, found no word of it",
        ],
        false,
    ),
    (
        |root, levels| {
            levels[0].refinement = Some(Refinement::Add.into());
            root.zarr_vectors.format_capabilities = vec![Capability::AdditiveLevels.into()];
        },
        &[
            "M15 0 NonCanonical in metadata, zarr_vectors_level.refinement: expected additive_levels \
             among required_capabilities of the root, found no word of it",
        ],
        false,
    ),
    (
        |root, levels| {
            levels[0].refinement = Some(Refinement::Add.into());
            root.zarr_vectors.required_capabilities = vec![Capability::AdditiveLevels.into()];
        },
        &[],
        false,
    ),
    (
        |root, _| root.multiscales[0].datasets[1].path = "2".to_string(),
        &[
            "M16 root CountMismatch in metadata, multiscales[0].datasets: expected an entry for each \
             level, found \"1\"",
            "M16 root CountMismatch in metadata, multiscales[0].datasets[1]: expected the name of a level, \
             found \"2\"",
        ],
        false,
    ),
    (
        |root, _| root.multiscales[0].datasets[1].transformations.clear(),
        &[
            "M16 root BadTag in metadata, multiscales[0].datasets[1].coordinateTransformations: expected a \
           scale, found none",
        ],
        false,
    ),
    (
        |root, _| root.multiscales[0].datasets[1] = Dataset::new("1", vec![2.0], vec![5.0, 5.0]),
        &[
            "M16 root BadShape in metadata, multiscales[0].datasets[1].coordinateTransformations: expected \
           2, found 1",
        ],
        false,
    ),
    (
        |root, levels| {
            root.zarr_vectors.coordinate_offset = Some(vec![7.0, 7.0]);
            root.multiscales[0].datasets[0] = Dataset::new("0", vec![1.0, 1.0], vec![7.0, 7.0]);
            levels[0].fragments_tile = true;
        },
        &[],
        false,
    ),
    (
        |root, _| {
            root.zarr_vectors.attribute_specs = Some(json!({
                "vertex": {"a": {"dtype": "float99"}}, "face": {"b": {"dtype": "int8", "channels": 0}}}));
        },
        &[
            "M17 root BadTag in metadata, zarr_vectors.attribute_specs.vertex.a.dtype: expected an element \
             type, found \"float99\"",
            "M17 root BadTag in metadata, zarr_vectors.attribute_specs.face: expected vertex, object or \
             link, found \"face\"",
            "M17 root BadShape in metadata, zarr_vectors.attribute_specs.face.b.channels: expected at \
             least 1, found 0",
        ],
        false,
    ),
    (
        |root, _| root.zarr_vectors.attribute_specs = Some(json!([])),
        &[
            "M17 root BadTag in metadata, zarr_vectors.attribute_specs: expected an object, found a list of \
           0",
        ],
        false,
    ),
    (
        |root, _| {
            root.zarr_vectors.attribute_specs = Some(json!({"vertex": {"a b": {"dtype": "int8"}}}));
        },
        &[
            "M19 root InvalidKey in metadata, name: expected letters, digits and underscores, found \
           \"a b\"",
        ],
        false,
    ),
];

#[test]
fn each_rule_is_reported_and_its_opening_faults_refused() {
    for (harm, messages, refused) in CASES {
        let (mut root, mut levels) = valid_store();
        harm(&mut root, &mut levels);
        assert_eq!(check_messages(&root, &levels), *messages);
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
