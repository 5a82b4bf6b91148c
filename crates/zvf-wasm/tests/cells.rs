//! Cells of the archived stores: together they hold the rows of a query of the whole level.

use std::collections::{BTreeSet, HashMap};

use archives::Unpacked;
use zvf_model::{Kind, LevelId, ObjectId};
use zvf_query::{Columns, LOCATION_FIELD, Query, Reader};
use zvf_wasm::{Cell, CellRequest, NO_OBJECT};

type Loaded = Vec<(Vec<i32>, zvf_error::Result<Cell>)>;

/// Loads every cell of a level, with its place; `more` are more fields of the request.
async fn load(reader: &Reader, kind: &str, level: u64, more: &str) -> Loaded {
    let number = LevelId(u32::try_from(level).unwrap());
    let described = zvf_wasm::describe_cells(reader, number, kind.parse().unwrap()).await;
    let (axes, cells) = described.unwrap();
    let mut loaded = Vec::new();
    for cell in cells.chunks(axes) {
        let text =
            format!("{{\"kind\": \"{kind}\", \"level\": {level}, \"cell\": {cell:?}{more}}}");
        let request = CellRequest::parse(&text).unwrap();
        loaded.push((cell.to_vec(), zvf_wasm::load_cell(reader, &request).await));
    }
    loaded
}

async fn cells_of(reader: &Reader, kind: &str, level: u64) -> Vec<Cell> {
    load(reader, kind, level, "").await.into_iter().map(|(_, cell)| cell.unwrap()).collect()
}

#[tokio::test]
async fn cells_hold_every_vertex_once() {
    let mut count = 0;
    for id in archives::ids() {
        let unpacked = Unpacked::new(&id);
        let reader = Reader::new(unpacked.open().await);
        // Stores in reference mode without rows have no level that can be queried.
        let Ok(info) = zvf_wasm::describe_store(&reader).await else { continue };
        for kind in info["kinds"].as_array().unwrap() {
            let name = kind["kind"].as_str().unwrap();
            for level in kind["levels"].as_array().unwrap() {
                let number = level["level"].as_u64().unwrap();
                let cells = cells_of(&reader, name, number).await;
                let context = format!("{id}, {name}, level {number}");
                check_cells(&cells, &context);
                if level["additive"] == false {
                    let vertices: u32 = cells.iter().map(|cell| cell.own_vertices).sum();
                    let locations = count_locations(&reader, name, number).await;
                    assert_eq!(usize::try_from(vertices).unwrap(), locations, "{context}");
                    count += 1;
                }
            }
        }
    }
    assert!(count > 70, "{count}");
}

/// Returns the number of distinct stored rows in an answer: objects that share rows repeat them.
async fn count_locations(reader: &Reader, kind: &str, level: u64) -> usize {
    let query = Query::all().of_kind(kind.parse().unwrap()).with_places().increment_only();
    let query = query.at_level(LevelId(u32::try_from(level).unwrap())).columns(Columns::None);
    let batch = reader.run(&query).await.unwrap().batch;
    let Some(locations) = batch.field(LOCATION_FIELD) else { return batch.len() };
    let texts = (0..batch.len()).map(|row| locations.column.value(row, 0).to_string());
    texts.collect::<BTreeSet<_>>().len()
}

fn check_cells(cells: &[Cell], context: &str) {
    for cell in cells {
        assert_eq!(cell.positions.len(), cell.slots.len() * 3, "{context}");
        let rows = u32::try_from(cell.slots.len()).unwrap();
        assert!(cell.segments.iter().chain(&cell.faces).all(|row| *row < rows), "{context}");
        let slots = u32::try_from(cell.ids.len()).unwrap();
        assert!(cell.slots.iter().all(|slot| *slot < slots || *slot == NO_OBJECT), "{context}");
    }
}

#[tokio::test]
async fn chains_are_joined_across_chunks() {
    for (id, kind) in [("sl3_streamlines", "streamline"), ("ln3_basic", "line")] {
        let unpacked = Unpacked::new(id);
        let reader = Reader::new(unpacked.open().await);
        let cells = cells_of(&reader, kind, 0).await;
        let vertices: u32 = cells.iter().map(|cell| cell.own_vertices).sum();
        let segments: usize = cells.iter().map(|cell| cell.segments.len() / 2).sum();
        let mut ids: Vec<i64> = cells.iter().flat_map(|cell| cell.ids.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        // Each chain has one segment less than vertices.
        assert_eq!(segments, usize::try_from(vertices).unwrap() - ids.len(), "{id}");
    }
}

#[tokio::test]
async fn finds_objects_and_reports_faults() {
    let unpacked = Unpacked::new("sl3_streamlines");
    let reader = Reader::new(unpacked.open().await);
    let id = cells_of(&reader, "streamline", 0).await[0].ids[0];
    let matches = zvf_wasm::search_objects(&reader, &id.to_string()).await.unwrap();
    assert_eq!(matches[0]["object"], id.to_string());
    let described =
        zvf_wasm::describe_object(&reader, Kind::Streamline, LevelId(0), ObjectId(id), true).await;
    let object = described.unwrap();
    assert_eq!(object["id"], id.to_string());
    assert!(object["bounds"][0].is_array(), "{object}");
    let result = zvf_wasm::validate_cell(&reader, LevelId(0), Kind::Streamline, &[9, 9, 9]).await;
    assert_eq!(zvf_wasm::error_to_json(&result.unwrap_err())["class"], "InvalidArgument");
    let error = CellRequest::parse("{\"kind\": \"voxels\", \"level\": 0, \"cell\": []}");
    assert_eq!(zvf_wasm::error_to_json(&error.unwrap_err())["class"], "InvalidArgument");
    let one_axis = "{\"kind\": \"streamline\", \"level\": 0, \"cell\": [0]}";
    let request = CellRequest::parse(one_axis).unwrap();
    assert!(zvf_wasm::load_cell(&reader, &request).await.is_err(), "the store has more axes");
}

/// Halves the first of at least `least` chunks of a store below `part`, and loads its cells.
/// Returns them with their kind and the number of stored chunks.
async fn load_truncated(id: &str, part: &str, least: usize) -> Option<(Loaded, Kind, usize)> {
    let mut files = archives::files(id);
    let is_chunk = |path: &str| path.starts_with(part) && !path.ends_with("zarr.json");
    let mut chunks: Vec<_> = files.iter_mut().filter(|(path, _)| is_chunk(path)).collect();
    chunks.sort();
    let stored = chunks.len();
    if stored < least {
        return None;
    }
    let half_bytes = chunks[0].1.len() / 2;
    chunks[0].1.truncate(half_bytes);
    let unpacked = Unpacked::from_files(&files);
    let reader = Reader::new(unpacked.open().await);
    let info = zvf_wasm::describe_store(&reader).await.ok()?;
    let name = info["kinds"][0]["kind"].as_str().unwrap();
    Some((load(&reader, name, 0, "").await, name.parse().unwrap(), stored))
}

#[tokio::test]
async fn a_truncated_chunk_does_not_affect_other_chunks() {
    let mut store_count = 0;
    for id in archives::ids() {
        let truncated = load_truncated(&id, "0/vertices/c/", 2).await;
        let Some((cells, Kind::PointCloud, stored)) = truncated else { continue };
        let faults = cells.iter().filter(|(_, cell)| cell.is_err()).count();
        let count = cells.len();
        // In a sharded store, all chunks of the first shard are lost.
        assert!(faults == 1 || (stored < count && faults < count), "{id}: {faults} of {count}");
        store_count += 1;
    }
    assert!(store_count > 5, "{store_count}");
}

#[tokio::test]
async fn every_element_is_drawn_once() {
    let (mut count, mut stores) = (0, BTreeSet::new());
    for id in archives::ids() {
        let unpacked = Unpacked::new(&id);
        let reader = Reader::new(unpacked.open().await);
        let Ok(info) = zvf_wasm::describe_store(&reader).await else { continue };
        for kind in info["kinds"].as_array().unwrap() {
            let name = kind["kind"].as_str().unwrap();
            if !name.parse::<Kind>().unwrap().has_links() {
                continue;
            }
            for level in kind["levels"].as_array().unwrap() {
                let number = level["level"].as_u64().unwrap();
                let query = Query::all().of_kind(name.parse().unwrap()).increment_only();
                let query = query.at_level(LevelId(u32::try_from(number).unwrap()));
                let Ok(answer) = reader.run(&query.columns(Columns::None)).await else { continue };
                let Some(elements) = answer.batch.elements() else { continue };
                // Faces of more corners are fans.
                let parts = |ends: &[usize]| ends.len().saturating_sub(2).max(1);
                let stored: usize = elements.iter().map(parts).sum();
                if elements.iter().any(|ends| ends.len() < 2) {
                    continue;
                }
                let cells = cells_of(&reader, name, number).await;
                let drawn = |cell: &Cell| cell.segments.len() / 2 + cell.faces.len() / 3;
                let drawn: usize = cells.iter().map(drawn).sum();
                assert_eq!(drawn, stored, "{id}, {name}, level {number}");
                count += stored;
                stores.insert(id.clone());
            }
        }
    }
    assert!(count > 500 && stores.len() > 8, "{count} elements of {stores:?}");
}

/// Loads every cell of level 0 by its place, with more fields of the request.
async fn located_cells(
    reader: &Reader,
    kind: &str,
    more: &str,
) -> zvf_error::Result<HashMap<Vec<i32>, Cell>> {
    let loaded = load(reader, kind, 0, more).await.into_iter();
    loaded.map(|(place, cell)| Ok((place, cell?))).collect()
}

#[tokio::test]
async fn vertices_of_other_chunks_are_as_stored_there() {
    let (mut ghost_count, mut value_count) = (0, 0);
    for id in archives::ids() {
        let unpacked = Unpacked::new(&id);
        let reader = Reader::new(unpacked.open().await);
        let Ok(info) = zvf_wasm::describe_store(&reader).await else { continue };
        for kind in info["kinds"].as_array().unwrap() {
            let name = kind["kind"].as_str().unwrap();
            let attributes = kind["attributes"].as_array().unwrap().iter();
            let keys: Vec<_> = attributes.map(|about| about["key"].as_str().unwrap()).collect();
            let columns = format!(", \"columns\": {keys:?}");
            // Some stores have an attribute that cannot be read.
            let Ok(cells) = located_cells(&reader, name, &columns).await else { continue };
            for cell in cells.values() {
                let own = usize::try_from(cell.own_vertices).unwrap();
                let ghosts = cell.slots.len() - own;
                let axes = cell.ghost_cells.len() / ghosts.max(1);
                for ghost in own..own + ghosts {
                    let place = &cell.ghost_cells[(ghost - own) * axes..(ghost - own + 1) * axes];
                    let home = &cells[place];
                    let own_of_home = usize::try_from(home.own_vertices).unwrap();
                    let rows = home.rows[..own_of_home].iter().enumerate();
                    // Chunks that differ in other axes than those of space are one cell.
                    let twins = rows.filter(|(_, row)| **row == cell.rows[ghost]);
                    let same = |at: usize| {
                        (0..3).all(|axis| {
                            let there =
                                home.origin[axis] + f64::from(home.positions[at * 3 + axis]);
                            let here =
                                cell.origin[axis] + f64::from(cell.positions[ghost * 3 + axis]);
                            (there - here).abs() <= 1e-4 * there.abs().max(1.0)
                        })
                    };
                    let (at, _) =
                        twins.clone().find(|(at, _)| same(*at)).expect("it is stored there");
                    ghost_count += 1;
                    for (here, there) in cell.attributes.iter().zip(&home.attributes) {
                        let width = usize::try_from(here.width).unwrap();
                        let bits = |values: &[f32], at: usize| -> Vec<u32> {
                            values[at * width..(at + 1) * width]
                                .iter()
                                .map(|x| x.to_bits())
                                .collect()
                        };
                        assert_eq!(
                            bits(&here.values, ghost),
                            bits(&there.values, at),
                            "{id}, {name}, {}: a vertex of {place:?}",
                            here.name
                        );
                        value_count += 1;
                    }
                }
            }
        }
    }
    assert!(ghost_count > 100 && value_count > 50, "{ghost_count} vertices, {value_count} values");
}

#[tokio::test]
async fn a_condition_that_all_rows_pass_leaves_every_step() {
    let mut count = 0;
    for (id, kind) in [("sl3_streamlines", "streamline"), ("ln3_basic", "line")] {
        let unpacked = Unpacked::new(id);
        let reader = Reader::new(unpacked.open().await);
        let all = located_cells(&reader, kind, "").await.unwrap();
        let some = located_cells(&reader, kind, ", \"where\": \"x > -1e9\"").await.unwrap();
        for (place, cell) in &all {
            assert_eq!(some[place].segments.len(), cell.segments.len(), "{id}, {place:?}");
            count += cell.segments.len();
        }
    }
    assert!(count > 0);
}

#[tokio::test]
async fn faces_around_a_vertex_are_known_in_its_chunk() {
    let unpacked = Unpacked::new("ms3_tri");
    let reader = Reader::new(unpacked.open().await);
    let cells = located_cells(&reader, "mesh", "").await.unwrap();
    assert!(cells.len() > 1);
    let mut around: HashMap<(Vec<i32>, u32), usize> = HashMap::new();
    let place_of = |place: &Vec<i32>, cell: &Cell, at: u32| {
        let (own, at) = (cell.own_vertices, usize::try_from(at).unwrap());
        let ghost = at.checked_sub(usize::try_from(own).unwrap());
        let place =
            ghost.map_or(place.clone(), |ghost| cell.ghost_cells[ghost * 3..][..3].to_vec());
        (place, cell.rows[at])
    };
    for (place, cell) in &cells {
        for corner in &cell.faces {
            *around.entry(place_of(place, cell, *corner)).or_default() += 1;
        }
    }
    for (place, cell) in &cells {
        let mut known: HashMap<(Vec<i32>, u32), usize> = HashMap::new();
        for corner in cell.faces.iter().chain(&cell.rim) {
            *known.entry(place_of(place, cell, *corner)).or_default() += 1;
        }
        for (vertex, count) in known.iter().filter(|(vertex, _)| vertex.0 == *place) {
            assert_eq!(count, &around[vertex], "{vertex:?}");
        }
    }
}

#[tokio::test]
async fn a_truncated_chunk_costs_its_neighbours_what_ends_in_it() {
    let (mut store_count, mut noted_count) = (0, 0);
    for (id, part) in
        archives::ids().iter().flat_map(|id| [(id, "0/vertices/c/"), (id, "0/links/0/")])
    {
        let Some((cells, kind, _)) = load_truncated(id, part, 3).await else { continue };
        if !kind.has_links() {
            continue;
        }
        let (mut faults, mut elements) = (0, 0);
        for (_, cell) in &cells {
            let Ok(cell) = cell else {
                faults += 1;
                continue;
            };
            elements += cell.segments.len() + cell.faces.len();
            let is_noted = |key: &str| key.starts_with(&part[..7]);
            let mut notes = cell.faults.iter();
            noted_count +=
                usize::from(notes.any(|fault| fault["key"].as_str().is_some_and(is_noted)));
        }
        let count = cells.len();
        assert!(faults * 2 <= count && elements > 0, "{id}: {faults} of {count}, {elements}");
        store_count += 1;
    }
    assert!(store_count > 2 && noted_count >= store_count, "{store_count}, {noted_count}");
}
