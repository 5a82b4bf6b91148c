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
use zvf_model::{Batch, Bounds, Kind, LevelId};
use zvf_query::{Columns, Mode, Order, Query, Reader};

use super::answers::{is_chain, positions_with_columns};
use crate::contents::{self, LevelContents};
use crate::facts::{self, Rows, list};
use crate::naive::{self, Cube};
use crate::report::Report;

/// Compares every box of a level.
pub(super) async fn check_boxes(
    report: &mut Report,
    at: &str,
    expected: &Value,
    reader: &Reader,
    contents: &LevelContents,
    kind: Kind,
) {
    let level = LevelId(at.parse().unwrap_or_default());
    let query = Query::all().of_kind(kind).at_level(level).columns(Columns::None);
    let everything = reader.run(&query).await;
    let everything =
        report.ok_or_report(&format!("{at}/bbox"), everything).map(|answer| answer.batch);
    let (points, rows) = (contents.points(), contents.positions());
    for expected in list(&expected["bbox"]) {
        let at = format!("{at}/bbox/{}", expected["name"].as_str().unwrap_or_default());
        let cube = Cube {
            low: facts::parse_floats(&expected["lo"]),
            high: facts::parse_floats(&expected["hi"]),
        };
        let fact = &expected["vertices_in_box"];
        let inside = points.iter().zip(&rows.0).filter(|(point, _)| cube.contains(point));
        let inside = Rows(inside.map(|(_, row)| row.clone()).collect());
        let brute = format!("{at}/brute_force");
        report.compare(&brute, &fact["sha256_sorted"], inside.sha256_sorted());
        let bounds = match Bounds::new(&cube.low, &cube.high) {
            Ok(bounds) => bounds,
            Err(error) => {
                // Inverted corners give an empty answer; an error is equally right.
                report.check(&at, fact["count"] == json!(0), error);
                continue;
            }
        };
        let query = Query::all().in_region(bounds).of_kind(kind).at_level(level);
        check_vertices(report, &at, fact, reader, kind, query.clone()).await;
        if kind != Kind::PointCloud
            && let Some(everything) = &everything
        {
            let all = collect_pieces(everything, kind);
            check_geometry(report, &at, reader, kind, query, &all, &cube).await;
        }
    }
}

/// Compares the vertices in boxes that are small enough to try every chunk that they meet.
pub(super) async fn check_small_boxes(
    report: &mut Report,
    at: &str,
    expected: &Value,
    reader: &Reader,
    kind: Kind,
) {
    let level = LevelId(at.parse().unwrap_or_default());
    for expected in list(&expected["bbox"]) {
        let name = expected["name"].as_str().unwrap_or_default();
        if !["tenth", "hundredth", "one_chunk_inclusive", "degenerate_at_vertex"].contains(&name) {
            continue;
        }
        let bounds = Bounds::new(
            &facts::parse_floats(&expected["lo"]),
            &facts::parse_floats(&expected["hi"]),
        );
        let at = format!("{at}/bbox/{name}");
        let Some(bounds) = report.ok_or_report(&at, bounds) else { continue };
        let query = Query::all().in_region(bounds).of_kind(kind).at_level(level);
        check_vertices(report, &at, &expected["vertices_in_box"], reader, kind, query).await;
    }
}

async fn check_vertices(
    report: &mut Report,
    at: &str,
    fact: &Value,
    reader: &Reader,
    kind: Kind,
    query: Query,
) {
    let columns = list(&fact["joined_attributes"]);
    let columns: Vec<String> = columns.filter_map(Value::as_str).map(str::to_owned).collect();
    let mode = if kind == Kind::PointCloud { Mode::Inside } else { Mode::Crop };
    // Every stored row once, because chains of coarser levels share rows.
    let query = query.mode(mode).columns(Columns::Named(columns.clone())).order(Order::Storage);
    let Some(answer) = report.ok_or_report(at, reader.run(&query).await) else { return };
    let found = Rows::from_column(answer.batch.positions());
    report.fact(at, fact, "count", found.len());
    report.compare(&format!("{at}/rows"), &fact["sha256_sorted"], found.sha256_sorted());
    if let Some(fact) = fact.get("joined_sha256_sorted") {
        let found = positions_with_columns(&answer.batch, &columns).sha256_sorted();
        report.compare(&format!("{at}/joined"), fact, found);
    }
}

/// The points of a chain or of an element.
pub(crate) type Piece = Vec<Vec<f64>>;

/// Compares chains and elements near a box with the expected ones among `all`.
pub(crate) async fn check_geometry(
    report: &mut Report,
    at: &str,
    reader: &Reader,
    kind: Kind,
    query: Query,
    all: &[Piece],
    cube: &Cube,
) {
    let query = query.columns(Columns::None);
    let meets = |piece: &Piece| match is_chain(kind) {
        true => cube.meets_chain(piece),
        false => cube.meets_element(piece),
    };
    let within = |piece: &Piece| piece.iter().all(|point| cube.contains(point));
    let touching: Vec<_> = all.iter().filter(|piece| meets(piece)).cloned().collect();
    let inside: Vec<_> = all.iter().filter(|piece| within(piece)).cloned().collect();
    for (name, mode, fact) in
        [("touch", Mode::Touch, &touching), ("whole_inside", Mode::Inside, &inside)]
    {
        let at = format!("{at}/{name}");
        let Some(answer) = report.ok_or_report(&at, reader.run(&query.clone().mode(mode)).await)
        else {
            continue;
        };
        let found = collect_pieces(&answer.batch, kind);
        let fact_rows = json!([fact.len(), rows_from_pieces(fact).sha256_sorted()]);
        report.compare(
            &at,
            &fact_rows,
            json!([found.len(), rows_from_pieces(&found).sha256_sorted()]),
        );
    }
    let at = format!("{at}/cells");
    if let Some(answer) =
        report.ok_or_report(&at, reader.run(&query.clone().mode(Mode::Cells)).await)
    {
        let found = collect_pieces(&answer.batch, kind);
        let holds = inside.iter().all(|piece| found.contains(piece));
        report.check(&at, holds, "something inside is not in the cells that the box meets");
    }
    if is_chain(kind) {
        let at = at.replace("/cells", "/clip");
        if let Some(answer) = report.ok_or_report(&at, reader.run(&query.mode(Mode::Clip)).await) {
            let found: f64 = collect_pieces(&answer.batch, kind)
                .iter()
                .map(|piece| naive::chain_length(piece))
                .sum();
            let fact: f64 = all.iter().map(|piece| cube.length_inside(piece)).sum();
            let near = (found - fact).abs() <= 1e-4 * (1.0 + fact);
            report.check(&at, near, format!("expected length {fact}, found {found}"));
        }
    }
}

/// Returns the points of chains or elements.
pub(crate) fn collect_pieces(batch: &Batch, kind: Kind) -> Vec<Piece> {
    let point = |row| contents::point_at(batch.positions(), row);
    if is_chain(kind) {
        let offsets = batch.parts().offsets();
        return offsets.windows(2).map(|pair| (pair[0]..pair[1]).map(point).collect()).collect();
    }
    let elements = batch.elements().into_iter().flat_map(|elements| elements.iter());
    elements.map(|rows| rows.iter().map(|&row| point(row)).collect()).collect()
}

fn rows_from_pieces(pieces: &[Piece]) -> Rows {
    let bytes = |piece: &Piece| piece.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    Rows(pieces.iter().map(bytes).collect())
}
