//! Selections that need no copy.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::tests::index;
use crate::{AxisSlice, Index, Lookup, Row, TensorCodec, TileGeometry};

/// The rows of a dataset, back to back from 1000 on.
fn rows(geometry: &TileGeometry, codec: TensorCodec) -> Vec<Row> {
    let mut offset = 1000;
    let tiles = (0..geometry.tile_count()).map(|position| {
        let coords = geometry.coords_at(position).unwrap();
        let len = geometry.tile_at(coords).unwrap().byte_len();
        offset += len;
        Row::new(0, &coords, offset - len, len, len, codec).unwrap()
    });
    tiles.collect()
}

fn with_plan<T>(
    geometry: &TileGeometry,
    rows: &[Row],
    axes: &[AxisSlice],
    check: impl Fn(&TilePlan<'_, '_>) -> T,
) -> T {
    let bytes = index(rows);
    let index = Index::parse(&bytes, 1 << 40).unwrap();
    let lookup = Lookup::new(&index, 0, geometry, 0);
    check(&lookup.select(axes).unwrap())
}

/// The byte stream and the dense span.
type Spans = (Option<Span>, Option<Span>);

/// Name, shape, chunk shape, selection and spans.
type Case = (&'static str, [u64; 2], [u64; 2], [AxisSlice; 2], Spans);

#[test]
fn byte_streams_and_dense_spans_are_found() {
    let all = AxisSlice::all;
    let part = |start, stop| AxisSlice { start, stop, step: 1 };
    let span = |offset, len| Some(Span { offset, len });
    #[rustfmt::skip]
    let table: [Case; 10] = [
        // name, shape, chunk shape, selection, byte stream, dense
        ("one chunk", [4, 6], [4, 6], [all(4), all(6)], (span(1000, 48), span(1000, 48))),
        ("chunk larger than all", [4, 6], [9, 9], [all(4), all(6)], (span(1000, 48), span(1000, 48))),
        ("split on axis 0", [5, 6], [2, 6], [all(5), all(6)], (span(1000, 60), span(1000, 60))),
        ("some chunks of it", [5, 6], [2, 6], [part(2, 5), all(6)], (span(1024, 36), span(1024, 36))),
        ("part of a chunk", [5, 6], [2, 6], [part(1, 4), all(6)], (None, None)),
        ("thin rows split on axis 1", [3, 6], [1, 4], [all(3), all(6)], (span(1000, 36), span(1000, 36))),
        ("a column of tiles", [4, 6], [2, 3], [part(0, 2), all(6)], (span(1000, 24), None)),
        ("both axes split", [4, 6], [2, 3], [all(4), all(6)], (span(1000, 48), None)),
        ("tiles that are not side by side", [4, 6], [2, 3], [all(4), part(0, 3)], (None, None)),
        ("a row of thin tiles", [3, 6], [2, 4], [part(2, 3), all(6)], (span(1024, 12), span(1024, 12))),
    ];
    for (name, shape, chunk, axes, spans) in table {
        let geometry = TileGeometry::new(TensorDtype::U16, &shape, &chunk).unwrap();
        let raw = rows(&geometry, TensorCodec::Raw);
        let found =
            with_plan(&geometry, &raw, &axes, |plan| (plan.byte_stream(), plan.dense_span()));
        assert_eq!(found, spans, "{name}");
        // The same, except for a compressed last tile.
        let mut mixed = raw;
        let last = mixed.len() - 1;
        mixed[last] = rows(&geometry, TensorCodec::Zstd)[last];
        if axes[0].stop == shape[0] && axes[1].stop == shape[1] {
            let found =
                with_plan(&geometry, &mixed, &axes, |plan| (plan.byte_stream(), plan.dense_span()));
            assert_eq!(found, (None, None), "{name}, compressed");
        }
    }
}

#[test]
fn strided_selections_are_not_dense() {
    let geometry = TileGeometry::new(TensorDtype::U8, &[8], &[1]).unwrap();
    let second = AxisSlice { start: 0, stop: 8, step: 2 };
    let none = with_plan(&geometry, &rows(&geometry, TensorCodec::Raw), &[second], |plan| {
        plan.byte_stream()
    });
    assert_eq!(none, None);
    // Every second tile, stored contiguously: a stream that is row-major by chance, but not a dense
    // selection.
    let packed: Vec<_> = (0..8)
        .map(|c| {
            Row::new(
                0,
                &[c],
                if c % 2 == 0 { 1000 + c / 2 } else { 1100 + c },
                1,
                1,
                TensorCodec::Raw,
            )
        })
        .map(Option::unwrap)
        .collect();
    let found =
        with_plan(&geometry, &packed, &[second], |plan| (plan.byte_stream(), plan.dense_span()));
    assert_eq!(found, (Some(Span { offset: 1000, len: 4 }), None));
}

#[test]
fn selections_inside_one_tile_are_spans() {
    let geometry = TileGeometry::new(TensorDtype::F32, &[7, 5], &[3, 2]).unwrap();
    let raw = rows(&geometry, TensorCodec::Raw);
    let axis = |start, stop, step| AxisSlice { start, stop, step };
    let strided =
        |axes: [AxisSlice; 2]| with_plan(&geometry, &raw, &axes, |plan| plan.strided_view());
    // Tile 1,1 starts at 1084: rows 3 to 5, columns 2 and 3.
    let view = strided([axis(3, 6, 2), axis(3, 4, 1)]).unwrap();
    assert_eq!((view.offset(), view.shape(), view.strides()), (1088, &[2, 1][..], &[16, 4][..]));
    assert_eq!(view.as_dense(), None);
    let view = strided([axis(4, 6, 1), axis(2, 4, 1)]).unwrap();
    assert_eq!(view.as_dense(), Some(Span { offset: 1092, len: 16 }));
    assert_eq!(strided([axis(2, 4, 1), axis(2, 4, 1)]), None);
    let zstd = rows(&geometry, TensorCodec::Zstd);
    let axes = [axis(3, 6, 1), axis(2, 4, 1)];
    assert_eq!(with_plan(&geometry, &zstd, &axes, |plan| plan.strided_view()), None);
}

proptest! {
    /// A dense span equals the array that copying runs gives, element for element.
    #[test]
    fn dense_spans_equal_copied_runs(
        axes in prop::collection::vec((1_u64..5, 1_u64..5, any::<(u64, u64)>()), 1..4),
    ) {
        let shape: Vec<_> = axes.iter().map(|a| a.0).collect();
        let chunk: Vec<_> = axes.iter().map(|a| a.1).collect();
        let axes: Vec<_> = axes.iter().map(|(extent, _, (a, b))| {
            let start = a % extent;
            AxisSlice { start, stop: start + 1 + b % (extent - start), step: 1 }
        }).collect();
        let geometry = TileGeometry::new(TensorDtype::U16, &shape, &chunk).unwrap();
        let (copied, dense, strided) =
            with_plan(&geometry, &rows(&geometry, TensorCodec::Raw), &axes, |plan| {
                let mut copied: Vec<(u64, u64)> = Vec::new();
                for read in plan.tiles().map(Result::unwrap) {
                    for run in read.runs() {
                        let src = read.row().payload_offset() + run.src;
                        copied.extend((0..run.count).map(|i| (run.dst + 2 * i, src + run.stride * i)));
                    }
                }
                copied.sort_unstable();
                (copied, plan.dense_span(), plan.strided_view())
            });
        let side_by_side = copied.windows(2).all(|pair| pair[1].1 == pair[0].1 + 2);
        if let Some(span) = dense {
            prop_assert!(side_by_side && copied[0].1 == span.offset);
        }
        if let Some(view) = strided {
            prop_assert_eq!(view.as_dense().is_some(), side_by_side);
            prop_assert_eq!(view.offset(), copied[0].1);
        }
    }
}
