//! Tests: attributes of lines that are computed.

use std::collections::BTreeMap;

use zvf_error::Result;
use zvf_model::Kind;
use zvf_model::flow::Piece;

use crate::read::{self, Format, Input, Measure, ReadOptions};

fn read_csv(text: &'static str, options: &ReadOptions) -> Result<Vec<Piece>> {
    read::open(Input::reader(text.as_bytes()), Some(Format::Csv), options)?.collect()
}

fn options(measures: &[Measure]) -> ReadOptions {
    let (kind, measures) = (Some(Kind::Polyline), measures.to_vec());
    ReadOptions { kind, measures, batch_rows: 2, ..ReadOptions::default() }
}

#[test]
fn computes_every_measure_across_batches() {
    // A right angle of 3 and 4; a closed square; one vertex.
    let text = "x,y,object\n0,0,1\n3,0,1\n3,4,1\n0,0,2\n1,0,2\n1,1,2\n0,1,2\n0,0,2\n5,6,9\n";
    let pieces = read_csv(text, &options(Measure::ALL)).unwrap();
    let mut rows: BTreeMap<i64, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for piece in pieces {
        let Piece::Objects { ids, fields } = piece else { continue };
        for (at, id) in ids.iter().enumerate() {
            for field in &fields {
                let width = field.column.width() as usize;
                let values = (0..width).map(|c| field.column.float(at, c).unwrap());
                rows.entry(id.0).or_default().insert(field.name.to_string(), values.collect());
            }
        }
    }
    for (id, name, expected) in [
        (1, "length", vec![7.0]),
        (1, "start", vec![0.0, 0.0]),
        (1, "end", vec![3.0, 4.0]),
        (1, "orientation", vec![0.6_f32.into(), 0.8_f32.into()]),
        (1, "tortuosity", vec![1.4_f32.into()]),
        (1, "vertex_count", vec![3.0]),
        (2, "length", vec![4.0]),
        (2, "orientation", vec![0.0, 0.0]),
        (2, "tortuosity", vec![1.0]),
        (9, "length", vec![0.0]),
        (9, "end", vec![5.0, 6.0]),
        (9, "vertex_count", vec![1.0]),
    ] {
        assert_eq!(rows[&id][name], expected, "{name} of {id}");
    }
}

#[test]
fn refuses_points_and_too_many_open_objects() {
    let points = ReadOptions { kind: None, ..options(&[Measure::Length]) };
    let error = read_csv("x,y\n0,0\n", &points).unwrap_err().to_string();
    assert!(error.contains("found point_cloud"), "{error}");
    let small = ReadOptions { memory: 1, ..options(&[Measure::Length]) };
    let text = "x,object\n0,1\n1,1\n0,2\n1,2\n";
    let error = read_csv(text, &small).unwrap_err().to_string();
    assert!(error.contains("LimitExceeded") || error.contains("sample"), "{error}");
}

#[test]
fn parses_its_own_tokens() {
    for measure in Measure::ALL {
        assert_eq!(measure.token().parse(), Ok(*measure));
    }
    assert!("curl".parse::<Measure>().unwrap_err().contains("tortuosity"));
}
