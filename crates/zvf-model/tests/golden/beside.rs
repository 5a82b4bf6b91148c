//! Arrays outside of levels: composite geometry, parametric objects, headers.

use serde_json::{Value, json};
use zvf_model::{ColumnBuilder, Members, Parametric, header, header_names};
use zvf_store::Caching;

use crate::cases::{LevelCase, same_rows};
use crate::objects::values_as_json;
use archives::inline;

pub(crate) fn count_all(case: &LevelCase) -> usize {
    composite(case) + parametric(case) + headers(case)
}

fn composite(case: &LevelCase) -> usize {
    let geometries = inline(case.level.geometries()).unwrap();
    let Some(expected) = case.whole["composite"].as_object() else {
        assert!(geometries.is_empty(), "{}", case.name);
        return 0;
    };
    let names: Vec<&str> = geometries.iter().map(|geometry| geometry.name()).collect();
    assert!(
        !names.is_empty() && names.iter().all(|name| expected.contains_key(*name)),
        "{names:?}"
    );
    for geometry in &geometries {
        let expected = &expected[geometry.name()];
        let keys: Vec<_> = inline(geometry.chunks()).unwrap().iter().collect();
        let cells = inline(geometry.positions(&keys, Caching::Once));
        let mut all: Option<ColumnBuilder> = None;
        for cell in cells {
            let cell = cell.unwrap();
            all.get_or_insert_with(|| ColumnBuilder::empty_like(&cell))
                .push_rows(&cell, 0..cell.len());
        }
        let all = all.unwrap().finish();
        same_rows(&expected["positions"], all.bytes(), all.stride(), geometry.name());
        let links = inline(geometry.links()).unwrap();
        assert_eq!(links.is_none(), expected["links"].is_null());
        if let Some(links) = links {
            same_rows(&expected["links"], links.bytes(), links.stride(), geometry.name());
        }
    }
    geometries.len()
}

fn parametric(case: &LevelCase) -> usize {
    let expected = &case.whole["reference"]["parametric"];
    let parametric = inline(Parametric::open(&case.store)).unwrap();
    if expected.is_null() {
        assert!(parametric.is_none(), "{}", case.name);
        return 0;
    }
    let parametric = parametric.unwrap();
    let shapes = inline(parametric.shapes()).unwrap();
    let objects: Vec<Value> = shapes
        .iter()
        .map(|shape| {
            json!({"type": shape.type_name, "type_id": shape.type_id, "name": shape.name,
                "coefficients": shape.coefficients, "coefficient_names": shape.coefficient_names})
        })
        .collect();
    assert_eq!(json!(objects), expected["objects"]);
    let [names, group_names] = inline(parametric.attribute_names()).unwrap();
    for name in &names.names {
        let attribute = inline(parametric.object_attribute(name)).unwrap().unwrap();
        let values = values_as_json(&attribute, attribute.len());
        assert_eq!(json!(values), expected["object_attributes"][name]["values"], "{name}");
    }
    for name in &group_names.names {
        let attribute = inline(parametric.group_attribute(name)).unwrap().unwrap();
        let values = values_as_json(&attribute, attribute.len());
        assert_eq!(json!(values), expected["group_attributes"][name]["values"], "{name}");
    }
    let groups = inline(parametric.groups()).unwrap().unwrap();
    let members = inline(groups.members(&(0..groups.len()).collect::<Vec<_>>())).unwrap();
    let members: Vec<Value> = members
        .into_iter()
        .map(|members| match members {
            Members::Ids(ids) => json!(ids.iter().map(|id| id.0).collect::<Vec<_>>()),
            Members::Range { start, stop } => json!({"range": [start, stop]}),
        })
        .collect();
    assert_eq!(json!(members), expected["groups"]);
    objects.len() + names.names.len() + group_names.names.len()
}

fn headers(case: &LevelCase) -> usize {
    let expected = &case.whole["reference"]["headers"];
    let names = inline(header_names(&case.store)).unwrap().names;
    let Some(expected) = expected.as_object() else {
        assert!(names.is_empty(), "{}", case.name);
        return 0;
    };
    assert_eq!(names.len(), expected.len());
    for (format, expected_header) in expected {
        let found = inline(header(&case.store, format)).unwrap().unwrap();
        assert_eq!(Value::Object(found), *expected_header, "{format}");
    }
    assert!(inline(header(&case.store, "nrrd")).unwrap().is_none());
    names.len()
}
