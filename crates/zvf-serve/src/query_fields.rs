//! Queries as fields of a query string, or as a JSON object with the same names.
//!
//! ```text
//! bbox        x,y,z:x,y,z (or all six with commas)   ball        x,y,z:r
//! half_space  nx,ny,nz:d, several are intersected     objects     7,9,20..30
//! groups      0,left                                  where       intensity > 3
//! kind        mesh                                    level       0, vertices=N, bytes=N, error=X, screen=W/P
//! mode        inside, touch, clip, crop, cells        attributes  names, all or none (also: columns)
//! order       storage, objects                        limit       vertices
//! ```
//!
//! Numbers are parsed by type and must be finite; unknown fields are refused, so that a misspelt filter is not silently
//! ignored.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use zvf::question;
use zvf::region::{HalfSpace, Region};
use zvf::{Bounds, Kind, LevelRule, Mode, ObjectId, Order, Query, UnknownIds};

use crate::refusal::Refusal;

/// A parsed query and its settings outside of [`Query`].
#[derive(Debug)]
pub(crate) struct ParsedQuery {
    pub(crate) query: Query,
    pub(crate) groups: Vec<String>,
    /// The fields that do not belong to the query, in order.
    pub(crate) other_fields: Vec<(String, String)>,
}

/// Parses a query from the fields of a request. A limit is at most `max_rows`: without one, whoever
/// answers counts the rows. `allowed` are the fields that the caller parses itself.
pub(crate) fn parse_query(
    fields: Vec<(String, String)>,
    max_rows: u64,
    allowed: &[&str],
) -> Result<ParsedQuery, Refusal> {
    let mut query = Query::all().unknown_ids(UnknownIds::Error);
    let (mut groups, mut other_fields, mut spaces) = (Vec::new(), Vec::new(), Vec::new());
    let mut given_names = std::collections::BTreeSet::new();
    for (name, value) in fields {
        if name != "half_space" && !given_names.insert(name.clone()) {
            return Err(Refusal::bad_request(format!("{name} is given twice")));
        }
        match name.as_str() {
            "bbox" => query.region = Some(parse_box(&value)?.into()),
            "ball" => query.region = Some(parse_ball(&value)?),
            "half_space" => spaces.push(parse_half_space(&value)?),
            "objects" => query.objects = Some(parse_ids(&value)?),
            "groups" => groups = value.split(',').map(|name| name.trim().to_owned()).collect(),
            "where" => {
                let predicate: zvf::predicate::Predicate =
                    value.parse().map_err(|error: zvf::predicate::BadPredicate| {
                        Refusal::bad_request(format!("where: {error}")).with_key("where")
                    })?;
                query.filter = Some(predicate);
            }
            "kind" => query.kind = Some(parse_kind(&value)?),
            "level" => query.level = parse_level(&value)?,
            "mode" => query.mode = Some(parse_mode(&value)?),
            "attributes" | "columns" => query.columns = question::parse_columns(&value),
            "order" => query.order = Some(parse_order(&value)?),
            "limit" => {
                let requested: u64 = value
                    .parse()
                    .map_err(|_error| refuse("limit", &value, "a count of vertices"))?;
                if requested > max_rows {
                    return Err(too_many_rows(max_rows).with_key("limit"));
                }
                query.limit = Some(requested).filter(|limit| *limit > 0);
            }
            field if allowed.contains(&field) => other_fields.push((name, value)),
            _ => {
                let message = format!("there is no field {name:?}");
                return Err(Refusal::bad_request(message).with_hint("see /api/openapi.json"));
            }
        }
    }
    if !spaces.is_empty() {
        if query.region.is_some() {
            return Err(Refusal::bad_request("half_space and another region cannot be together"));
        }
        let convex = Region::from_half_spaces(&spaces);
        query.region = Some(convex.map_err(|error| Refusal::bad_request(error.to_string()))?);
    }
    if given_names.contains("bbox") && given_names.contains("ball") {
        return Err(Refusal::bad_request("bbox and ball cannot be together"));
    }
    Ok(ParsedQuery { query, groups, other_fields })
}

/// Returns the fields of a body: a JSON object whose values are texts, numbers or lists of them.
pub(crate) fn parse_body(body: &[u8]) -> Result<Vec<(String, String)>, Refusal> {
    let wrong = |message: String| Refusal::bad_request(message);
    let Members(fields) = serde_json::from_slice(body)
        .map_err(|error| wrong(format!("the body is not a JSON object: {error}")))?;
    let mut all = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        if name == "half_space"
            && let Some(spaces) = value.as_array().filter(|list| list.iter().all(Value::is_string))
        {
            let text = |space: &Value| space.as_str().map(str::to_owned);
            all.extend(spaces.iter().filter_map(text).map(|space| (name.clone(), space)));
            continue;
        }
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Array(items) => {
                let words: Option<Vec<String>> = items.iter().map(word_from_json).collect();
                words.ok_or_else(|| wrong(format!("{name}: expected texts or numbers")))?.join(",")
            }
            _ => return Err(wrong(format!("{name}: expected a text, a number or a list of them"))),
        };
        all.push((name, text));
    }
    Ok(all)
}

/// The members of a JSON object in order, also those that are given twice.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

fn word_from_json(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Parses a box: two corners separated by a colon, or the numbers of both in one list.
pub(crate) fn parse_box(text: &str) -> Result<Bounds, Refusal> {
    let found = question::parse_box(text).filter(|corners| is_finite(&corners.concat()));
    let [low, high] =
        found.ok_or_else(|| refuse("bbox", text, "both corners, as in 0,0,0:10,10,10"))?;
    Bounds::new(&low, &high).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn parse_ball(text: &str) -> Result<Region, Refusal> {
    let found =
        question::parse_ball(text).filter(|(at, radius)| is_finite(at) && radius.is_finite());
    let ball = found.and_then(|(centre, radius)| Region::ball(&centre, radius).ok());
    ball.ok_or_else(|| refuse("ball", text, "centre and radius, as in 5,5,5:2.5"))
}

fn parse_half_space(text: &str) -> Result<HalfSpace, Refusal> {
    let found =
        question::parse_ball(text).filter(|(at, offset)| is_finite(at) && offset.is_finite());
    let space = found.and_then(|(normal, offset)| HalfSpace::new(&normal, offset).ok());
    space.ok_or_else(|| refuse("half_space", text, "normal and offset, as in 0,0,1:12"))
}

/// Returns whether these are finite coordinates, and not too many.
fn is_finite(numbers: &[f64]) -> bool {
    numbers.len() <= MAX_NUMBERS && numbers.iter().all(|x| x.is_finite())
}

/// Parses ids and half-open ranges.
pub(crate) fn parse_ids(text: &str) -> Result<Vec<ObjectId>, Refusal> {
    let wrong = |_| refuse("objects", text, "ids and ranges, as in 7,9,20..30");
    question::parse_ids(text, MAX_IDS).map_err(wrong)
}

pub(crate) fn parse_kind(text: &str) -> Result<Kind, Refusal> {
    text.parse().map_err(|_error| refuse("kind", text, "a kind, such as point_cloud or mesh"))
}

fn parse_level(text: &str) -> Result<LevelRule, Refusal> {
    let expected = "a number, vertices=N, bytes=N, error=X or screen=WIDTH/PIXELS";
    question::parse_level(text).ok_or_else(|| refuse("level", text, expected))
}

fn parse_mode(text: &str) -> Result<Mode, Refusal> {
    text.parse().map_err(|_unknown| refuse("mode", text, "inside, touch, clip, crop or cells"))
}

fn parse_order(text: &str) -> Result<Order, Refusal> {
    match text {
        "storage" => Ok(Order::Storage),
        "objects" => Ok(Order::Objects),
        _ => Err(refuse("order", text, "storage or objects")),
    }
}

/// Returns status 413: an answer has more vertices than the limit.
pub(crate) fn too_many_rows(max_rows: u64) -> Refusal {
    let message = format!("an answer has at most {max_rows} vertices");
    Refusal::too_large(message)
        .with_hint("request less: a smaller box, a coarser level, or a limit")
}

fn refuse(field: &str, found: &str, expected: &str) -> Refusal {
    let found: String = found.chars().take(SHOWN_CHARS).collect();
    Refusal::bad_request(format!("{field}: expected {expected}, found {found:?}")).with_key(field)
}

/// The largest number of ids in one query.
const MAX_IDS: u64 = 1_000_000;
/// The largest number of coordinates of a field.
const MAX_NUMBERS: usize = 64;
/// The largest number of characters of a wrong value in a message.
const SHOWN_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &[(&str, &str)]) -> Result<ParsedQuery, Refusal> {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        parse_query(fields.collect(), 1000, &["format"])
    }

    #[test]
    fn reads_each_field() {
        let parsed = parse(&[
            ("bbox", "0,0,0:1,1,1"),
            ("objects", "7,9,20..30"),
            ("groups", "0,left"),
            ("where", "a > 3"),
            ("kind", "mesh"),
            ("level", "vertices=10"),
            ("mode", "clip"),
            ("columns", "a,b"),
            ("limit", "5"),
            ("format", "csv"),
        ])
        .unwrap();
        assert_eq!(parsed.groups, ["0", "left"]);
        assert_eq!(parsed.query.kind, Some(Kind::Mesh));
        assert_eq!(parsed.query.level, LevelRule::MaxVertices(10));
        assert_eq!(parsed.other_fields, [("format".to_owned(), "csv".to_owned())]);
    }

    #[test]
    fn refuses_invalid_values_and_unknown_fields() {
        for field in [
            ("bbox", "0"),
            ("bbox", "0,0,0"),
            ("bbox", "0,0:nan,1"),
            ("bbox", "0,0:inf,1"),
            ("bbox", "1,1:0,0"),
            ("bbox", ""),
            ("ball", "0,0"),
            ("ball", "0,0:-1"),
            ("half_space", "0:x"),
            ("objects", "x"),
            ("objects", "1..99999999999"),
            ("objects", ""),
            ("where", "a >"),
            ("kind", "blob"),
            ("level", "-1"),
            ("level", "screen=1/x"),
            ("mode", "all"),
            ("order", "x"),
            ("limit", "-1"),
            ("limit", "1e3"),
            ("bboxes", "1"),
        ] {
            let refusal = parse(&[field]).err();
            assert_eq!(refusal.map(|refusal| refusal.status.as_u16()), Some(400), "{field:?}");
        }
        assert_eq!(parse(&[("limit", "1001")]).unwrap_err().status, 413);
        assert_eq!(parse(&[("limit", "1000")]).unwrap().query.limit, Some(1000));
        assert!(parse(&[("bbox", "0,0:1,1"), ("bbox", "0,0:1,1")]).is_err());
        assert!(parse(&[("bbox", "0,0:1,1"), ("ball", "0,0:1")]).is_err());
    }

    #[test]
    fn bodies_have_the_same_fields() {
        let spaces = r#""half_space": ["1,0:4", "0,1:4"], "objects": [1, 2]"#;
        let body = format!(r#"{{{spaces}, "limit": 3, "where": "a", "where": "b"}}"#);
        let fields = parse_body(body.as_bytes()).unwrap();
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| name.clone() + "=" + value).collect();
        let expected = "half_space=1,0:4 half_space=0,1:4 objects=1,2 limit=3 where=a where=b";
        assert_eq!(fields.join(" "), expected);
        for body in ["", "[]", "{", r#"{"a": null}"#, r#"{"a": [[1]]}"#] {
            assert!(parse_body(body.as_bytes()).is_err(), "{body}");
        }
    }
}
