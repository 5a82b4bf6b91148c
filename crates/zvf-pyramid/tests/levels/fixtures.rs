//! Functions that write stores, build levels and read them.

use tempfile::TempDir;
use zvf_error::Error;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Elements, Field, Kind, LevelId, Members, ObjectId, Parts};
use zvf_pyramid::{LevelReport, Options};
use zvf_query::{Query, Reader};
use zvf_store::{BuildOptions, OpenOptions, Store};
use zvf_validate::{Observer, Severity, validate_at};
use zvf_write::{Schema, WriteOptions, Writer};

pub(crate) fn floats(values: impl IntoIterator<Item = f64>, width: u32) -> Column {
    let bytes: Vec<u8> = values.into_iter().flat_map(|x| (x as f32).to_le_bytes()).collect();
    Column::new(Dtype::FLOAT32, width, bytes.into()).unwrap()
}

pub(crate) fn values(column: &Column) -> Vec<f64> {
    let width = column.width() as usize;
    (0..column.len())
        .flat_map(|row| (0..width).map(move |c| (row, c)))
        .map(|(row, c)| column.float(row, c).unwrap())
        .collect()
}

/// Returns a schema for geometry in `axes` axes, with chunks of `side`.
pub(crate) fn schema(kind: Kind, axes: usize, side: f64) -> Schema {
    let chunk = ChunkShape::new(&vec![side; axes]).unwrap();
    Schema::new(kind, Axis::spatial(axes).unwrap(), chunk).unwrap()
}

/// Writes a store in a folder of its own; `fill` pushes what it holds.
pub(crate) async fn write(schema: Schema, fill: impl FnOnce(&mut Writer)) -> (TempDir, String) {
    let dir = archives::scratch();
    let address = dir.path().join("store.zarrvectors").to_str().unwrap().to_owned();
    let options = WriteOptions { build: unsynced(), ..WriteOptions::default() };
    let mut writer = Writer::create(&address, schema, options).await.unwrap();
    fill(&mut writer);
    writer.finish().await.unwrap();
    (dir, address)
}

/// Writes a store with chunks of `side`; `prepare` changes the writer first.
pub(crate) async fn store(
    side: f64,
    batch: &Batch,
    prepare: impl FnOnce(&mut Writer),
) -> (TempDir, String) {
    let schema = schema(batch.kind(), batch.positions().width() as usize, side);
    let fill = |writer: &mut Writer| {
        prepare(writer);
        writer.push(batch).unwrap();
    };
    write(schema, fill).await
}

pub(crate) fn unsynced() -> BuildOptions {
    BuildOptions { sync: false, ..BuildOptions::default() }
}

pub(crate) async fn build(address: &str, options: &Options) -> Vec<LevelReport> {
    zvf_pyramid::build(address, options, &unsynced(), |_| {}).await.unwrap()
}

/// Returns why levels are not built.
pub(crate) async fn refusal(address: &str, options: &Options) -> Error {
    zvf_pyramid::build(address, options, &unsynced(), |_| {}).await.unwrap_err()
}

/// Returns a line for each fault that the validator finds: severity, rule and path.
pub(crate) async fn list_findings(address: &str) -> Vec<String> {
    let (options, observer) = (zvf_validate::Checks::default(), Observer::default());
    let report = validate_at(address, OpenOptions::default(), &options, &observer).await.unwrap();
    let faults = report.findings.iter().filter(|finding| finding.severity != Severity::Note);
    faults
        .map(|finding| format!("{} {} {}", finding.severity, finding.rule.id, finding.path))
        .collect()
}

pub(crate) async fn open(address: &str) -> Store {
    Store::open(address, OpenOptions::default()).await.unwrap()
}

/// Reads all rows of a level.
pub(crate) async fn level(address: &str, number: u32) -> Batch {
    let reader = Reader::new(open(address).await);
    reader.run(&Query::all().at_level(LevelId(number)).with_owners()).await.unwrap().batch
}

/// Returns curves in space, one object each, with an attribute that counts their vertices.
pub(crate) fn walks(count: usize, length: usize) -> Batch {
    let mut at = Vec::new();
    for walk in 0..count {
        for step in 0..length {
            let t = step as f64 * 0.13 + walk as f64;
            at.extend([step as f64, 20.0 + 9.0 * t.sin(), 20.0 + 7.0 * (t * 0.7).cos()]);
        }
    }
    let offsets = (0..=count).map(|walk| walk * length).collect();
    let ids = (0..count as i64).map(ObjectId).collect();
    let along = floats((0..count * length).map(|i| (i % length) as f64), 1);
    Batch::new(Kind::Polyline, floats(at, 3))
        .with_parts(Parts::new(offsets, ids).unwrap())
        .unwrap()
        .with_field(Field::new("along", along))
        .unwrap()
}

/// Returns triangles over a square with a hole in it: one component with two borders.
pub(crate) fn sheet(side: usize) -> Batch {
    let hole = |x: usize, y: usize| {
        let inner = side / 3..side / 2;
        inner.contains(&x) && inner.contains(&y)
    };
    let at = (0..side * side).flat_map(|i| {
        let (x, y) = ((i / side) as f64, (i % side) as f64);
        [x, y, 2.0 * (x * 0.3).sin() * (y * 0.2).cos()]
    });
    let positions = floats(at, 3);
    let mut rows = Vec::new();
    for x in 0..side - 1 {
        for y in 0..side - 1 {
            if !hole(x, y) {
                let at = x * side + y;
                rows.extend([at, at + side, at + side + 1, at, at + side + 1, at + 1]);
            }
        }
    }
    // Leaves out the vertices inside the hole, which no face uses.
    let mut used: Vec<usize> = rows.clone();
    used.sort_unstable();
    used.dedup();
    let number = |row: &usize| used.binary_search(row).unwrap();
    let coordinates = values(&positions);
    let used_positions =
        floats(used.iter().flat_map(|row| coordinates[row * 3..row * 3 + 3].to_vec()), 3);
    let faces = Elements::new(3, rows.iter().map(number).collect()).unwrap();
    Batch::new(Kind::Mesh, used_positions).with_elements(faces).unwrap()
}

/// Writes an attribute of objects, and a group of three objects.
pub(crate) fn with_objects(count: i64) -> impl FnOnce(&mut Writer) {
    move |writer| {
        let ids: Vec<ObjectId> = (0..count).map(ObjectId).collect();
        let mass = floats((0..count).map(|id| id as f64 * 10.0), 1);
        writer.object_fields(&ids, &[Field::new("mass", mass)]).unwrap();
        writer.group(Some("few"), Members::Ids(ids.into_iter().take(3).collect()));
    }
}
