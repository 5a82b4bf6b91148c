//! Link families, their attributes, and links between levels.

use std::collections::BTreeSet;

use serde_json::json;
use zvf_format::Class;
use zvf_format::key::Delta;
use zvf_format::link::LinkStorage;
use zvf_model::{LevelId, LevelReader, LinkFamily, LinkRecords, VertexRow};
use zvf_store::Caching;

use crate::cases::{LevelCase, same_rows, sha256, sha256_sorted};
use archives::inline;

/// Returns all records of a family in order, with their segment and cell.
fn all(family: &LinkFamily) -> Vec<(usize, usize, LinkRecords)> {
    let mut all = Vec::new();
    for (number, segment) in family.segments().iter().enumerate() {
        let cells = inline(segment.cells()).unwrap();
        let order = cells.cell_order();
        let records = inline(segment.read(&order, Caching::Once));
        for (place, records) in order.into_iter().zip(records) {
            let records = records.unwrap();
            assert_eq!(records.chunks(), cells.chunks(place).unwrap());
            assert_eq!(records.chunks().first(), cells.source(place).as_ref());
            all.push((number, place, records));
        }
    }
    all
}

/// Returns the records as rows of numbers.
fn bytes(records: &LinkRecords, i: usize) -> Vec<u8> {
    let ends = records.endpoints(i).flat_map(|(chunk, row)| {
        chunk.components().iter().copied().chain([i64::try_from(row).unwrap()]).collect::<Vec<_>>()
    });
    ends.flat_map(i64::to_le_bytes).collect()
}

fn delta(text: &str) -> Delta {
    text.parse::<Delta>().unwrap()
}

fn stride(family: &LinkFamily) -> usize {
    family.link_width() * (family.policy().sid_ndim() + 1) * 8
}

/// Checks faces within the chunks of a mesh of streams; faces between chunks refer to unknown rows.
fn inner_faces(case: &LevelCase) {
    let family = inline(case.level.links(Delta::SAME));
    if !zvf_draco::DECODES {
        assert_eq!(family.unwrap_err().class(), Class::Unsupported, "{}", case.name);
        return;
    }
    let family = family.unwrap().unwrap();
    assert!(!family.is_complete(), "{}", case.name);
    let faces: usize = all(&family).iter().map(|(_, _, cell)| cell.len()).sum();
    let between = case.expected["links"]["0"]["records"]["count"].as_u64().unwrap();
    assert_eq!(faces as u64 + between, 112, "{}: faces of the mesh that was written", case.name);
}

pub(crate) fn links(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected, .. } = case;
    if case.is_draco() {
        inner_faces(case);
        return 1;
    }
    let Some(families) = expected["links"].as_object() else {
        assert!(
            inline(level.links(Delta::SAME)).unwrap().is_none_or(|family| all(&family).is_empty())
        );
        return 0;
    };
    let mut count = 0;
    for (text, expected) in families.iter().filter(|(_, family)| family.get("records").is_some()) {
        let context = format!("{name} links {text}");
        let family = inline(level.links(delta(text))).unwrap().expect(&context);
        let policy = family.policy();
        let store =
            if policy.store() == LinkStorage::Duplicate { "duplicate" } else { "canonical" };
        let found_policy = json!({"link_width": policy.link_width(), "sid_ndim": policy.sid_ndim(),
            "directed": policy.is_directed(), "store": store});
        assert_eq!(found_policy, expected["policy"], "{context}");
        assert!(family.is_complete());
        assert_eq!(json!(family.num_links()), expected["num_links"], "{context}");
        assert_eq!(
            json!(family.num_physical_records()),
            expected["num_physical_records"],
            "{context}"
        );
        assert_eq!(family.segments().len(), expected["offset_arrays"], "{context}");
        let names: Vec<String> =
            family.segments().iter().map(|part| part.offsets().unwrap().to_string()).collect();
        if let Some(offsets) = expected["offsets"].as_array() {
            assert_eq!(json!(names), json!(offsets), "{context}");
        }
        let records = all(&family);
        let rows: Vec<u8> = records
            .iter()
            .flat_map(|(_, _, cell)| {
                (0..cell.len()).flat_map(|i| bytes(cell, i)).collect::<Vec<_>>()
            })
            .collect();
        same_rows(&expected["records"], &rows, stride(&family), &context);
        let leading = records
            .iter()
            .map(|(_, _, cell)| (0..cell.len()).filter(|i| cell.is_leading(*i)).count());
        assert_eq!(leading.sum::<usize>(), expected["num_links"], "{context}");
        count += 1;
    }
    count
}

pub(crate) fn attributes(case: &LevelCase) -> usize {
    let mut count = 0;
    for (text, expected) in case.expected["links"].as_object().into_iter().flatten() {
        let Some(attributes) = expected["attributes"].as_object() else { continue };
        let family = inline(case.level.links(delta(text))).unwrap().unwrap();
        let listed = inline(case.level.link_attribute_names()).unwrap().names;
        for (name, expected) in attributes {
            let context = format!("{} links {text} {name}", case.name);
            assert!(listed.contains(name), "{context}");
            let attribute = inline(family.attribute(name)).unwrap().unwrap();
            let shape = expected["shape"].as_array().unwrap();
            assert_eq!(
                attribute.dtype().to_string(),
                expected["dtype"].as_str().unwrap(),
                "{context}"
            );
            assert_eq!(
                u64::from(attribute.width()),
                shape.get(1).map_or(1, |n| n.as_u64().unwrap()),
                "{context}"
            );
            let (mut rows, mut joined) = (Vec::new(), Vec::new());
            let mut width = 0;
            for (segment, place, records) in all(&family) {
                let values = inline(attribute.values(
                    segment,
                    &[place],
                    std::slice::from_ref(&records),
                    Caching::Once,
                ));
                let values = values.into_iter().next().unwrap().unwrap().unwrap();
                rows.extend_from_slice(values.bytes());
                for i in 0..records.len() {
                    joined.extend(bytes(&records, i));
                    joined.extend_from_slice(values.row(i));
                }
                width = stride(&family) + values.stride();
            }
            assert_eq!(sha256(&rows), expected["sha256"], "{context}");
            let hash = &expected["joined_with_record_sha256_sorted"];
            assert_eq!(sha256_sorted(&joined, width), *hash, "{context}");
            count += 1;
        }
        assert!(inline(family.attribute("no such attribute")).unwrap().is_none());
    }
    count
}

/// Checks families of versions before 0.9: links within chunks and between chunks.
pub(crate) fn older(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected, .. } = case;
    let mut count = 0;
    for (text, expected) in expected["links"].as_object().into_iter().flatten() {
        let Some(within) = expected.get("intra") else { continue };
        let context = format!("{name} links {text}");
        let family = inline(level.links(delta(text))).unwrap().expect(&context);
        assert_eq!(family.link_width(), expected["link_width"], "{context}");
        let [mut intra, mut cross] = [Vec::new(), Vec::new()];
        for (segment, _, records) in all(&family) {
            let to = if family.segments()[segment].is_intra() { &mut intra } else { &mut cross };
            to.extend((0..records.len()).map(|i| (records.stored_row(i), bytes(&records, i))));
        }
        if family.segments().iter().any(|segment| segment.path().ends_with("/data")) {
            cross.sort_by_key(|(row, _)| *row);
        }
        for (records, expected) in [(&intra, within), (&cross, &expected["cross"])] {
            assert_eq!(records.len(), expected["count"], "{context}");
            if records.is_empty() {
                continue;
            }
            let rows: Vec<u8> = records.iter().flat_map(|(_, row)| row.clone()).collect();
            let sorted = sha256_sorted(&rows, stride(&family));
            assert_eq!(sorted, expected["sha256_sorted"], "{context}");
            if !expected["sha256"].is_null() {
                assert_eq!(sha256(&rows), expected["sha256"], "{context}");
            }
            count += 1;
        }
    }
    for (attribute, expected) in expected["link_attributes"].as_object().into_iter().flatten() {
        let family = inline(level.links(Delta::SAME)).unwrap().unwrap();
        let reader = inline(family.attribute(attribute)).unwrap().unwrap();
        let within = family.segments().iter().position(|segment| segment.is_intra()).unwrap();
        let cells = inline(family.segments()[within].cells()).unwrap();
        let places: Vec<usize> = (0..cells.len()).collect(); // numeric order of chunks
        let records: Vec<LinkRecords> =
            inline(family.segments()[within].read(&places, Caching::Once))
                .into_iter()
                .map(Result::unwrap)
                .collect();
        let values = inline(reader.values(within, &places, &records, Caching::Once));
        let rows: Vec<u8> = values
            .into_iter()
            .flat_map(|values| values.unwrap().unwrap().bytes().to_vec())
            .collect();
        assert_eq!(
            sha256(&rows),
            expected["0"]["sha256_of_cells_in_chunk_order"],
            "{name} {attribute}"
        );
        count += 1;
    }
    count
}

/// Checks that both levels of a link return the same links, whichever level stores the records.
pub(crate) fn levels(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected, .. } = case;
    let mut checked = 0;
    for (text, expected) in expected["links"].as_object().into_iter().flatten() {
        let delta = delta(text);
        if delta == Delta::SAME {
            continue;
        }
        let context = format!("{name} links {text}");
        let level_links = inline(level.level_links(delta)).unwrap().expect(&context);
        let pairs = |links: Vec<zvf_model::LevelLink>, swap: bool| -> BTreeSet<String> {
            let text = |row: &VertexRow| format!("{}/{}", row.chunk, row.row);
            links
                .iter()
                .map(|link| match swap {
                    false => format!("{} {}", text(&link.row), text(&link.linked_row)),
                    true => format!("{} {}", text(&link.linked_row), text(&link.row)),
                })
                .collect()
        };
        let down = inline(level_links.read_chunks(&chunk_keys(level))).unwrap();
        if level_links.family().link_width() > 1 {
            let counts = ["records", "intra", "cross"].map(|part| expected[part]["count"].as_u64());
            let count: u64 = counts.into_iter().flatten().sum();
            assert_eq!(u64::try_from(down.len()).unwrap(), count, "{context}");
        }
        let linked = LevelId(level.level().0.checked_add_signed(delta.0).unwrap());
        let linked = inline(LevelReader::open(level.store(), linked)).unwrap();
        let reverse_links = inline(linked.level_links(Delta(-delta.0))).unwrap().unwrap();
        let up = inline(reverse_links.read_chunks(&chunk_keys(&linked))).unwrap();
        assert_eq!(pairs(down, false), pairs(up, true), "{context}");
        checked += 1;
    }
    checked
}

fn chunk_keys(level: &LevelReader) -> Vec<zvf_format::key::ChunkKey> {
    inline(level.chunks()).unwrap().iter().collect()
}
