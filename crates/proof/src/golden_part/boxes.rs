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
use crate::facts::{self, Rows, given, list, or_error};
use crate::naive::{self, Cube};
use crate::report::Report;

/// Compares every box of a level; without its contents only those that are small enough to try every
/// chunk that they meet.
pub(super) async fn check_boxes(
    report: &mut Report,
    at: &str,
    expected: &Value,
    source: Asked<'_>,
    contents: Option<&LevelContents>,
) {
    let (reader, kind) = (source.reader, source.kind);
    let known = contents.map(|contents| (contents.points(), contents.positions()));
    let mut everything = None;
    if known.is_some() && kind != Kind::PointCloud {
        let answer = reader.run(&source.query().columns(Columns::None)).await;
        let answer = report.ok_or_report(at, answer);
        everything = answer.map(|answer| collect_pieces(&answer.batch, kind));
    }
    for expected in list(expected) {
        let name = expected["name"].as_str().unwrap_or_default();
        let [low, high] = ["lo", "hi"].map(|corner| facts::parse_floats(&expected[corner]));
        let (at, cube) = (format!("{at}/{name}"), Cube { low, high });
        let expected = &expected["vertices_in_box"];
        if let Some((points, rows)) = &known {
            let inside = points.iter().zip(&rows.0).filter(|(point, _)| cube.contains(point));
            let inside = Rows(inside.map(|(_, row)| row.clone()).collect()).sha256_sorted();
            report.compare(&format!("{at}/brute_force"), &expected["sha256_sorted"], inside);
        } else if !SMALL.contains(&name) {
            continue;
        }
        let bounds = match Bounds::new(&cube.low, &cube.high) {
            Ok(bounds) => bounds,
            Err(error) => {
                report.check(&at, expected["count"] == json!(0), error);
                continue;
            }
        };
        let query = source.query().in_region(bounds);
        check_vertices(report, &at, expected, source, query.clone()).await;
        if let Some(everything) = &everything {
            check_geometry(report, &at, reader, kind, query, everything, &cube).await;
        }
    }
}

async fn check_vertices(
    report: &mut Report,
    at: &str,
    expected: &Value,
    source: Asked<'_>,
    query: Query,
) {
    let columns: Vec<String> = facts::texts(&expected["joined_attributes"]).collect();
    let mode = if source.kind == Kind::PointCloud { Mode::Inside } else { Mode::Crop };
    let query = query.mode(mode).columns(Columns::Named(columns.clone())).order(Order::Storage);
    let found = source.reader.run(&query).await.map(|answer| {
        let mut found = Rows::from_column(answer.batch.positions()).to_json();
        let joined = positions_with_columns(&answer.batch, &columns).sha256_sorted();
        found["joined_sha256_sorted"] = joined.into();
        found["joined_attributes"] = given();
        found
    });
    report.compare_tree(at, expected, &or_error(found));
}

/// The points of a chain or of an element.
pub(crate) type PointList = Vec<Vec<f64>>;

/// Compares chains and elements near a box with the expected ones among `all`.
pub(crate) async fn check_geometry(
    report: &mut Report,
    at: &str,
    reader: &Reader,
    kind: Kind,
    query: Query,
    all: &[PointList],
    cube: &Cube,
) {
    let query = query.columns(Columns::None);
    let pieces = async |report: &mut Report, at: &str, mode| {
        let answer = report.ok_or_report(at, reader.run(&query.clone().mode(mode)).await)?;
        Some(collect_pieces(&answer.batch, kind))
    };
    let meets = |piece: &PointList| match kind.is_chain() {
        true => cube.meets_chain(piece),
        false => cube.meets_element(piece),
    };
    let within = |piece: &PointList| piece.iter().all(|point| cube.contains(point));
    let touching: Vec<_> = all.iter().filter(|piece| meets(piece)).cloned().collect();
    let inside: Vec<_> = all.iter().filter(|piece| within(piece)).cloned().collect();
    let digest =
        |pieces: &[PointList]| json!([pieces.len(), Rows::from_pieces(pieces).sha256_sorted()]);
    for (name, mode, expected) in
        [("touch", Mode::Touch, &touching), ("whole_inside", Mode::Inside, &inside)]
    {
        let at = format!("{at}/{name}");
        if let Some(found) = pieces(report, &at, mode).await {
            report.compare(&at, &digest(expected), digest(&found));
        }
    }
    let cells = format!("{at}/cells");
    if let Some(found) = pieces(report, &cells, Mode::Cells).await {
        let holds = inside.iter().all(|piece| found.contains(piece));
        report.check(&cells, holds, "something inside is not in the cells that the box meets");
    }
    let clip = format!("{at}/clip");
    if kind.is_chain()
        && let Some(found) = pieces(report, &clip, Mode::Clip).await
    {
        let found: f64 = found.iter().map(|piece| naive::chain_length(piece)).sum();
        let expected: f64 = all.iter().map(|piece| cube.length_inside(piece)).sum();
        let near = (found - expected).abs() <= 1e-4 * (1.0 + expected);
        report.check(&clip, near, format!("expected length {expected}, found {found}"));
    }
}

/// Returns the points of chains or elements.
pub(crate) fn collect_pieces(batch: &Batch, kind: Kind) -> Vec<PointList> {
    if kind.is_chain() {
        let point = |row| contents::point_at(batch.positions(), row);
        let offsets = batch.parts().offsets();
        return offsets.windows(2).map(|pair| (pair[0]..pair[1]).map(point).collect()).collect();
    }
    contents::element_points(batch)
}

/// The boxes that meet few chunks.
const SMALL: [&str; 4] = ["tenth", "hundredth", "one_chunk_inclusive", "degenerate_at_vertex"];
