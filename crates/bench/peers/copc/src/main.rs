//! Answers queries of points in a COPC file with copc-rs, one request at a time.
//!
//! The folder is the first argument; if the file is missing there, it is made from plain numbers.
//! Coordinates are integers with a step far below the precision of the data. A request line is
//! `{"work": "boxes", "boxes"}`, `{"work": "scan"}` or, for any LAS or LAZ file read by the crate
//! las, `{"work": "decode", "from"}`. The response line is `{"seconds", "count", "times"}`, the
//! mean over as many runs as fill the time that all sides have.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use copc_rs::{Bounds, BoundsSelection, CopcReader, CopcWriter, LodSelection, Vector};
use las::point::Format;
use las::{Builder, Point, Transform, Vlr};
use serde_json::Value;

#[path = "../../serve.rs"]
mod serve;

use serve::{Answer, measure, serve};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("no folder")?;
    let file = Path::new(&folder).join("points.copc.laz");
    // Without numbers, only named files are decoded.
    if !file.exists() && Path::new(&folder).join("positions.f32").exists() {
        write_copc(Path::new(&folder), &file)?;
    }
    serve(|ask| answer_request(ask, &file))
}

fn answer_request(ask: &Value, file: &Path) -> Answer {
    let boxes: Vec<[[f64; 3]; 2]> = match ask["work"].as_str() {
        Some("boxes") => serde_json::from_value(ask["boxes"].clone())?,
        Some("scan" | "decode") => Vec::new(),
        _ => return Err("it cannot do that".into()),
    };
    let count_points = |bounds| {
        let mut reader = CopcReader::from_path(file)?;
        let points = reader.points(LodSelection::All, bounds)?;
        collect(points.map(Ok))
    };
    measure(ENOUGH, || {
        if let Some(path) = ask["from"].as_str() {
            return collect(las::Reader::from_path(path)?.points());
        }
        if boxes.is_empty() {
            return count_points(BoundsSelection::All);
        }
        let mut count = 0;
        for [low, high] in &boxes {
            let [min, max] = [low, high].map(|[x, y, z]| Vector { x: *x, y: *y, z: *z });
            count += count_points(BoundsSelection::Within(Bounds { min, max }))?;
        }
        Ok(count)
    })
}

/// Reads the positions and attributes of points into arrays.
fn collect(points: impl Iterator<Item = las::Result<Point>>) -> Result<usize, Box<dyn Error>> {
    let (mut places, mut values) = (Vec::new(), Vec::new());
    for point in points {
        let point = point?;
        places.push([point.x, point.y, point.z]);
        values.extend_from_slice(&point.extra_bytes);
    }
    black_box(&values);
    Ok(black_box(places).len())
}

fn write_copc(folder: &Path, file: &Path) -> Result<(), Box<dyn Error>> {
    let floats = |name: &str| -> Result<Vec<f32>, Box<dyn Error>> {
        let bytes = fs::read(folder.join(name))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    };
    let (places, values) = (floats("positions.f32")?, floats("intensity.f32")?);
    let mut format = Format::new(6)?;
    format.extra_bytes = 4;
    let points: Vec<Point> = places
        .as_chunks::<3>()
        .0
        .iter()
        .zip(&values)
        .map(|([x, y, z], value)| Point {
            x: f64::from(*x),
            y: f64::from(*y),
            z: f64::from(*z),
            return_number: 1,
            number_of_returns: 1,
            gps_time: Some(0.0),
            extra_bytes: value.to_le_bytes().to_vec(),
            ..Point::default()
        })
        .collect();
    let mut builder = Builder::from((1, 4));
    builder.point_format = format;
    let step = Transform { scale: 100.0 / f64::from(1 << 30), offset: 0.0 };
    builder.transforms = las::Vector { x: step, y: step, z: step };
    // The format requires a coordinate reference system.
    builder.vlrs.push(Vlr {
        user_id: "LASF_Projection".to_owned(),
        record_id: 2112,
        description: String::new(),
        data: b"LOCAL_CS[\"none\"]".to_vec(),
    });
    builder.has_wkt_crs = true;
    let mut header = builder.into_header()?;
    points.iter().for_each(|point| header.add_point(point));
    let new = folder.join("new.copc.laz");
    let count = i32::try_from(points.len())?;
    let mut writer = CopcWriter::from_path(&new, header, -1, -1)?;
    writer.write(points, count)?;
    drop(writer);
    fs::rename(new, file)?;
    Ok(())
}

/// Shorter work is repeated until this many seconds have passed.
const ENOUGH: f64 = 0.02;
