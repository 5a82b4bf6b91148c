//! Box queries, compared with brute force over all vertices.
//!
//! ```text
//! brute_force   the corpus and this program find the same vertices inside
//! crop, inside  vertices inside, with their columns
//! touch         chains and elements that have a point inside, whole
//! whole_inside  those with all vertices inside
//! clip          the length of chains inside
//! ```

use serde_json::{Value, json};
use zvf_model::{Batch, Bounds, Kind};
use zvf_query::{Columns, Mode, Order, Query, Reader};

use super::Asked;
use super::answers::positions_with_columns;
use crate::contents::{self, LevelContents};
use crate::facts::{self, Rows, list};
use crate::naive::{self, Cube};
use crate::report::Facts;

/// Compares every box of a level.
pub(super) async fn check_boxes(mut facts: Facts<'_>, source: Asked<'_>, contents: &LevelContents) {
    let everything = source.reader.run(&source.query().columns(Columns::None)).await;
    let everything = facts.ok(everything).map(|answer| collect_pieces(&answer.batch, source.kind));
    let (points, rows) = (contents.points(), contents.positions());
    for expected in list(facts.expected) {
        let name = expected["name"].as_str().unwrap_or_default();
        let mut facts = facts.named(name, &expected["vertices_in_box"]);
        let cube = parse_cube(expected);
        let inside = points.iter().zip(&rows.0).filter(|(point, _)| cube.contains(point));
        let inside = Rows(inside.map(|(_, row)| row.clone()).collect());
        let fact = &facts.expected["sha256_sorted"];
        facts.named("brute_force", fact).compare(inside.sha256_sorted());
        let bounds = match Bounds::new(&cube.low, &cube.high) {
            Ok(bounds) => bounds,
            Err(error) => {
                // Inverted corners give an empty answer; an error is equally right.
                facts.check(facts.expected["count"] == json!(0), error);
                continue;
            }
        };
        let query = source.query().in_region(bounds);
        check_vertices(&mut facts, source, query.clone()).await;
        if source.kind != Kind::PointCloud
            && let Some(everything) = &everything
        {
            check_geometry(&mut facts, source.reader, source.kind, query, everything, &cube).await;
        }
    }
}

/// Compares the vertices in boxes that are small enough to try every chunk that they meet.
pub(super) async fn check_small_boxes(mut facts: Facts<'_>, source: Asked<'_>) {
    for expected in list(facts.expected) {
        let name = expected["name"].as_str().unwrap_or_default();
        if !["tenth", "hundredth", "one_chunk_inclusive", "degenerate_at_vertex"].contains(&name) {
            continue;
        }
        let mut facts = facts.named(name, &expected["vertices_in_box"]);
        let cube = parse_cube(expected);
        let Some(bounds) = facts.ok(Bounds::new(&cube.low, &cube.high)) else { continue };
        check_vertices(&mut facts, source, source.query().in_region(bounds)).await;
    }
}

fn parse_cube(expected: &Value) -> Cube {
    let [low, high] = ["lo", "hi"].map(|corner| facts::parse_floats(&expected[corner]));
    Cube { low, high }
}

async fn check_vertices(facts: &mut Facts<'_>, source: Asked<'_>, query: Query) {
    let expected = facts.expected;
    let columns: Vec<String> = facts::texts(&expected["joined_attributes"]).collect();
    let mode = if source.kind == Kind::PointCloud { Mode::Inside } else { Mode::Crop };
    // Every stored row once, because chains of coarser levels share rows.
    let query = query.mode(mode).columns(Columns::Named(columns.clone())).order(Order::Storage);
    let Some(answer) = facts.ok(source.reader.run(&query).await) else { return };
    let found = Rows::from_column(answer.batch.positions());
    facts.fact("count", found.len());
    facts.named("rows", &expected["sha256_sorted"]).compare(found.sha256_sorted());
    if let Some(fact) = expected.get("joined_sha256_sorted") {
        let found = positions_with_columns(&answer.batch, &columns).sha256_sorted();
        facts.named("joined", fact).compare(found);
    }
}

/// The points of a chain or of an element.
pub(crate) type Piece = Vec<Vec<f64>>;

/// Compares chains and elements near a box with the expected ones among `all`.
pub(crate) async fn check_geometry(
    facts: &mut Facts<'_>,
    reader: &Reader,
    kind: Kind,
    query: Query,
    all: &[Piece],
    cube: &Cube,
) {
    let query = query.columns(Columns::None);
    let pieces = async |facts: &mut Facts<'_>, mode| {
        let answer = facts.ok(reader.run(&query.clone().mode(mode)).await)?;
        Some(collect_pieces(&answer.batch, kind))
    };
    let meets = |piece: &Piece| match kind.is_chain() {
        true => cube.meets_chain(piece),
        false => cube.meets_element(piece),
    };
    let within = |piece: &Piece| piece.iter().all(|point| cube.contains(point));
    let touching: Vec<_> = all.iter().filter(|piece| meets(piece)).cloned().collect();
    let inside: Vec<_> = all.iter().filter(|piece| within(piece)).cloned().collect();
    let digest =
        |pieces: &[Piece]| json!([pieces.len(), Rows::from_pieces(pieces).sha256_sorted()]);
    for (name, mode, fact) in
        [("touch", Mode::Touch, &touching), ("whole_inside", Mode::Inside, &inside)]
    {
        let fact = digest(fact);
        let mut facts = facts.named(name, &fact);
        if let Some(found) = pieces(&mut facts, mode).await {
            facts.compare(digest(&found));
        }
    }
    let mut cells = facts.of("cells");
    if let Some(found) = pieces(&mut cells, Mode::Cells).await {
        let holds = inside.iter().all(|piece| found.contains(piece));
        cells.check(holds, "something inside is not in the cells that the box meets");
    }
    let mut clip = facts.of("clip");
    if kind.is_chain()
        && let Some(found) = pieces(&mut clip, Mode::Clip).await
    {
        let found: f64 = found.iter().map(|piece| naive::chain_length(piece)).sum();
        let fact: f64 = all.iter().map(|piece| cube.length_inside(piece)).sum();
        let near = (found - fact).abs() <= 1e-4 * (1.0 + fact);
        clip.check(near, format!("expected length {fact}, found {found}"));
    }
}

/// Returns the points of chains or elements.
pub(crate) fn collect_pieces(batch: &Batch, kind: Kind) -> Vec<Piece> {
    if kind.is_chain() {
        let point = |row| contents::point_at(batch.positions(), row);
        let offsets = batch.parts().offsets();
        return offsets.windows(2).map(|pair| (pair[0]..pair[1]).map(point).collect()).collect();
    }
    contents::element_points(batch)
}
