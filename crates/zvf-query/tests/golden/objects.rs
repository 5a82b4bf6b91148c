//! Objects by id and all together, and chains by the chunks that a box touches.

use serde_json::Value;
use zvf_model::{Kind, ObjectId};
use zvf_query::{BadQuery, Columns, Mode, Query};

use crate::reference::{bounds, every_level, sha};
use archives::inline;

#[test]
fn objects_have_the_vertices_of_their_manifests() {
    let mut objects = 0;
    every_level(|case| {
        let past = Query::all().in_groups([99]).at_level(case.level);
        let error = inline(case.reader.run(&past)).unwrap_err();
        assert!(error.cause_as::<BadQuery>().is_some(), "{}", case.name);
        let reference = case.reference["objects"]["objects"].as_array();
        let kind = inline(case.reader.level(case.level)).unwrap().kinds().first().copied();
        let has_links = kind.is_some_and(Kind::has_links);
        // Vertices between edges are returned once, however many fragments of an object list them.
        if has_links && case.level.0 > 0 {
            return;
        }
        let ids = || {
            reference.into_iter().flatten().map(|object| ObjectId(object["id"].as_i64().unwrap()))
        };
        for (object, id) in reference.into_iter().flatten().zip(ids()) {
            let query = Query::all().of_objects([id]).columns(Columns::None).at_level(case.level);
            let answer = inline(case.reader.run(&query)).unwrap();
            let label = format!("{} object {id}", case.name);
            assert_eq!(answer.batch.len() as u64, object["vertices"].as_u64().unwrap(), "{label}");
            if let Some(sum) = object["positions_sha256"].as_str() {
                assert_eq!(sha(answer.batch.positions().bytes()), sum, "{label}");
            }
            objects += 1;
        }
        // All objects in one query, in reverse order, and one id that does not exist.
        if reference.is_none() || has_links {
            return;
        }
        let reversed: Vec<ObjectId> = ids().collect::<Vec<_>>().into_iter().rev().collect();
        // In one store an attribute is shorter than the vertices, which only a query of the
        // attribute reports.
        let query = Query::all().of_objects(reversed.iter().copied().chain([ObjectId(i64::MIN)]));
        let query = query.columns(Columns::None);
        let answer = inline(case.reader.run(&query.at_level(case.level))).unwrap();
        assert_eq!(answer.unknown_objects, [ObjectId(i64::MIN)], "{}", case.name);
        let parts: Vec<ObjectId> = answer.batch.parts().objects().to_vec();
        let present: Vec<ObjectId> = reversed.into_iter().filter(|id| parts.contains(id)).collect();
        assert_eq!(parts, present, "{}", case.name);
    });
    assert!(objects > 800, "{objects} objects");
}

/// A chain is returned uncut if one of its fragments is in a chunk that the box touches, as in
/// zarr-vectors and in the mode without tests.
#[test]
fn chains_by_chunk_are_those_of_the_reference() {
    let mut boxes = 0;
    every_level(|case| {
        for entry in case.reference["bbox"].as_array().into_iter().flatten() {
            let (reference, Some(bounds)) = (&entry["reference"], bounds(entry)) else { continue };
            let Some(ids) = reference["object_ids"].as_array().filter(|ids| !ids.is_empty()) else {
                continue;
            };
            let label = format!("{} {}", case.name, entry["name"]);
            let query = Query::all().in_region(bounds).mode(Mode::Cells).columns(Columns::None);
            let answer = inline(case.reader.run(&query.at_level(case.level))).unwrap();
            let found: Vec<Value> =
                answer.batch.parts().objects().iter().map(|id| id.0.into()).collect();
            assert_eq!(&found, ids, "{label}");
            let sum = sha(answer.batch.positions().bytes());
            assert_eq!(sum, reference["positions_sha256"], "{label}");
            boxes += 1;
        }
    });
    assert!(boxes > 50, "{boxes} boxes");
}
