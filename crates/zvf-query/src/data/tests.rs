//! Round trips of each field of a query, and queries that are rejected.

use serde_json::{from_str, to_string};

use zvf_format::key::ChunkKey;
use zvf_model::{Kind, LevelId, ObjectId};

use super::*;
use crate::mode::Mode;
use crate::predicate::Scope;
use crate::query::{Columns, LevelRule, Order, Query, UnknownIds};

fn bounds(low: &[f64], high: &[f64]) -> Bounds {
    Bounds::new(low, high).unwrap()
}

fn key(text: &str) -> Option<ChunkKey> {
    Some(text.parse().unwrap())
}

#[test]
fn every_field_round_trips() {
    let infinite = f64::INFINITY;
    let square = bounds(&[0.0, -1.5], &[4.0, infinite]);
    let ball = Region::ball(&[1.0, 0.5], 2.0).unwrap();
    let space = HalfSpace::new(&[1.0, 1.0], 4.0).unwrap();
    let outline = [[0.0, 0.0], [2.0, 0.0], [1.0, 1.5]];
    let limits = bounds(&[-infinite, -infinite, 3.0], &[infinite, infinite, 9.0]);
    let prism = Region::prism(&outline, [0, 1], &limits).unwrap();
    let all = Query::all;
    for (query, text) in [
        (all(), "{}"),
        (all().at_level(LevelId(2)), r#"{"level":{"number":2}}"#),
        (all().level(LevelRule::MaxVertices(9)), r#"{"level":{"max_vertices":9}}"#),
        (all().level(LevelRule::MaxBytes(8)), r#"{"level":{"max_bytes":8}}"#),
        (all().level(LevelRule::Error(0.5)), r#"{"level":{"error":0.5}}"#),
        (all().level(LevelRule::Error(infinite)), r#"{"level":{"error":"inf"}}"#),
        (
            all().level(LevelRule::Screen { width: 3.5, pixels: 800 }),
            r#"{"level":{"screen":{"width":3.5,"pixels":800}}}"#,
        ),
        (all().of_kind(Kind::PointCloud), r#"{"kind":"point_cloud"}"#),
        (
            Query::all().in_region(square),
            r#"{"region":{"box":{"low":[0.0,-1.5],"high":[4.0,"inf"]}}}"#,
        ),
        (
            all().in_region(Region::from(square).into_half_open()),
            r#"{"region":{"box":{"low":[0.0,-1.5],"high":[4.0,"inf"],"half_open":true}}}"#,
        ),
        (all().in_region(ball), r#"{"region":{"ball":{"centre":[1.0,0.5],"radius":2.0}}}"#),
        (
            all().in_region(Region::from_half_spaces(&[space]).unwrap()),
            r#"{"region":{"half_spaces":[{"normal":[1.0,1.0],"offset":4.0}]}}"#,
        ),
        (
            all().in_region(prism).mode(Mode::Clip),
            concat!(
                r#"{"region":{"prism":{"outline":[[0.0,0.0],[2.0,0.0],[1.0,1.5]],"on":[0,1],"#,
                r#""low":["-inf","-inf",3.0],"high":["inf","inf",9.0]}},"mode":"clip"}"#
            ),
        ),
        (all().mode(Mode::Inside), r#"{"mode":"inside"}"#),
        (all().mode(Mode::Touch), r#"{"mode":"touch"}"#),
        (all().mode(Mode::Crop), r#"{"mode":"crop"}"#),
        (all().mode(Mode::Cells), r#"{"mode":"cells"}"#),
        (
            all().of_objects([7, i64::MIN, 7].map(ObjectId)),
            r#"{"objects":[7,-9223372036854775808,7]}"#,
        ),
        (all().of_objects([]), r#"{"objects":[]}"#),
        (all().in_groups([u64::MAX]), r#"{"groups":[18446744073709551615]}"#),
        (all().columns(Columns::None), r#"{"columns":"none"}"#),
        (
            all().columns(Columns::Named(vec!["radius".into(), "object.mass".into()])),
            r#"{"columns":{"named":["radius","object.mass"]}}"#,
        ),
        (all().order(Order::Storage), r#"{"order":"storage"}"#),
        (all().order(Order::Objects), r#"{"order":"objects"}"#),
        (all().order(Order::Original), r#"{"order":"original"}"#),
        (all().limit(0), r#"{"limit":0}"#),
        (all().limit_bytes(1 << 20), r#"{"limit_bytes":1048576}"#),
        (all().unknown_ids(UnknownIds::Skip), r#"{"unknown_ids":"skip"}"#),
        (all().unknown_ids(UnknownIds::Error), r#"{"unknown_ids":"error"}"#),
        (all().allow_missing(), r#"{"allow_missing":true}"#),
        (all().with_owners(), r#"{"with_owners":true}"#),
        (all().with_places(), r#"{"with_places":true}"#),
        (all().vertices_only(), r#"{"vertices_only":true}"#),
        (all().in_chunks(key("3.-1"), None), r#"{"vertices_only":true,"first_chunk":"3.-1"}"#),
        (all().in_chunks(None, key("0")), r#"{"vertices_only":true,"end_chunk":"0"}"#),
        (
            all().with_links_of_chunks(key("1"), key("2")),
            r#"{"first_chunk":"1","end_chunk":"2","links_of_chunks":true}"#,
        ),
        (all().increment_only(), r#"{"increment_only":true}"#),
        (all().uncached(), r#"{"uncached":true}"#),
    ] {
        assert_eq!(to_string(&query).unwrap(), text);
        assert_eq!(from_str::<Query>(text).unwrap(), query, "{text}");
    }
    let implied = from_str::<Query>(r#"{"first_chunk":"3"}"#).unwrap();
    let asked = Query::all().in_chunks(key("3"), None);
    assert!(implied.asks_vertices());
    assert_eq!(Query { vertices_only: true, ..implied }, asked);
    let region_query = from_str::<Query>(r#"{"region":{"box":{"low":[0],"high":[9]}}}"#).unwrap();
    assert_eq!(region_query, Query::all().in_region(bounds(&[0.0], &[9.0])));
}

#[test]
fn conditions_are_written_as_text_where_possible() {
    let radius = || ColumnRef { scope: Scope::Vertex, name: "radius".into(), index: 0 };
    let mass = ColumnRef { scope: Scope::Object, name: "ma`ss".into(), index: 2 };
    let at_least = |value| Predicate::Compare(radius(), Comparison::AtLeast, value);
    let column = r#"{"scope":"vertex","name":"radius","index":0}"#;
    let compare = |value: &str| {
        format!(r#"{{"compare":{{"column":{column},"comparison":"at_least","value":{value}}}}}"#)
    };
    for (condition, text) in [
        (at_least(Value::Int(-2)), r#""radius >= -2""#.to_owned()),
        (Predicate::IsNull(mass), r#""object.`ma\\`ss`[2] is null""#.to_owned()),
        // The path of an attribute cannot contain a backslash: parsed again, the text would name
        // another column.
        (
            Predicate::IsNull(ColumnRef { scope: Scope::Object, name: "a\\".into(), index: 0 }),
            r#"{"is_null":{"scope":"object","name":"a\\","index":0}}"#.to_owned(),
        ),
        (Predicate::Any(vec![]), r#""false""#.to_owned()),
        (
            "a in ('x', 2.0) and not (b != true or c < 1)".parse().unwrap(),
            r#""a in (\"x\", 2.0) and not (b != true or c < 1)""#.to_owned(),
        ),
        (at_least(Value::UInt(3)), compare(r#"{"uint":3}"#)),
        (at_least(Value::Null), compare(r#""null""#)),
        (at_least(Value::Float(f64::NEG_INFINITY)), compare(r#"{"float":"-inf"}"#)),
        (Predicate::In(radius(), vec![]), format!(r#"{{"in":{{"column":{column},"values":[]}}}}"#)),
        (
            Predicate::Not(Box::new(Predicate::All(vec![Predicate::IsNull(radius())]))),
            format!(r#"{{"not":{{"all":[{{"is_null":{column}}}]}}}}"#),
        ),
        (
            Predicate::Any(vec![Predicate::In(
                radius(),
                vec![Value::Bool(true), Value::Text("x".into()), Value::Int(1)],
            )]),
            format!(
                r#"{{"any":[{{"in":{{"column":{column},"values":[{{"bool":true}},{{"text":"x"}},{{"int":1}}]}}}}]}}"#
            ),
        ),
    ] {
        assert_eq!(to_string(&condition).unwrap(), text);
        assert_eq!(from_str::<Predicate>(&text).unwrap(), condition, "{text}");
        let query = Query::all().filter(condition);
        let stored = to_string(&query).unwrap();
        assert_eq!(stored, format!(r#"{{"filter":{text}}}"#));
        assert_eq!(from_str::<Query>(&stored).unwrap(), query);
    }
    let nan = to_string(&at_least(Value::Float(f64::NAN))).unwrap();
    assert_eq!(nan, compare(r#"{"float":"nan"}"#));
    let Predicate::Compare(_, _, Value::Float(number)) = from_str(&nan).unwrap() else {
        panic!("{nan}")
    };
    assert!(number.is_nan());
}

#[test]
fn rejects_what_constructors_reject() {
    for (text, message) in [
        (r#"{"regoin":1}"#, "unknown field `regoin`"),
        (r#"{"kind":"voxels"}"#, "unknown geometry type \"voxels\": expected point_cloud"),
        (
            r#"{"region":{"box":{"low":["nan"],"high":[1]}}}"#,
            &Bounds::new(&[f64::NAN], &[1.0]).unwrap_err().to_string(),
        ),
        (
            r#"{"region":{"box":{"low":[2],"high":[1]}}}"#,
            &Bounds::new(&[2.0], &[1.0]).unwrap_err().to_string(),
        ),
        (
            r#"{"region":{"box":{"low":[],"high":[]}}}"#,
            &Bounds::new(&[], &[]).unwrap_err().to_string(),
        ),
        (
            r#"{"region":{"box":{"low":["1"],"high":[1]}}}"#,
            "expected a number, \"inf\", \"-inf\" or \"nan\"",
        ),
        (
            r#"{"region":{"ball":{"centre":[0],"radius":-1}}}"#,
            "a ball cannot have a negative radius",
        ),
        (
            r#"{"region":{"ball":{"centre":["inf"],"radius":1}}}"#,
            "a region cannot have a centre or radius that is not finite",
        ),
        (r#"{"region":{"half_spaces":[]}}"#, "a convex region needs at least one half-space"),
        (
            r#"{"region":{"half_spaces":[{"normal":[0],"offset":1}]}}"#,
            "a half-space needs a direction: its normal is zero",
        ),
        (
            r#"{"region":{"half_spaces":[{"normal":[1],"offset":-3},{"normal":[-1],"offset":-8}]}}"#,
            "the half-spaces do not meet: no point is in all of them",
        ),
        (
            r#"{"region":{"prism":{"outline":[[0,0],[1,1]],"on":[0,1],"low":[0,0],"high":[9,9]}}}"#,
            "a prism needs a simple polygon with area",
        ),
        (
            r#"{"region":{"prism":{"outline":[[0,0]],"on":[1,1],"low":[0,0],"high":[9,9]}}}"#,
            "a prism's polygon lies on two different axes of the store, found 1 and 1",
        ),
        (r#"{"region":{"cube":1}}"#, "unknown variant `cube`"),
        (r#"{"mode":"near"}"#, "unknown variant `near`"),
        (r#"{"filter":"radius >"}"#, "cannot read the condition at character 8: expected a number"),
        (r#"{"filter":3}"#, "expected a condition as a text or as a tree"),
        (r#"{"first_chunk":"0.x"}"#, "InvalidKey"),
        (r#"{"objects":[1.5]}"#, "invalid type: floating point"),
        (r#"{"level":{"number":-1}}"#, "invalid value: integer `-1`"),
        (r#"{"limit":null,"groups":[-1]}"#, "invalid value: integer `-1`"),
    ] {
        let error = from_str::<Query>(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    let nested = format!("{}\"a = 1\"{}", r#"{"not":"#.repeat(200), "}".repeat(200));
    assert!(from_str::<Predicate>(&nested).is_err());
}
