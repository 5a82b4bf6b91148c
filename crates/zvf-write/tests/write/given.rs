//! Geometry of a test, written and read back.

use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Elements, Field, Kind, ObjectId, Parts, Value};
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_write::{Report, Schema, WriteOptions, Writer};

/// Returns coordinates or values of 32 bits, `width` for each row.
pub(crate) fn floats(values: &[f32], width: u32) -> Column {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Column::new(Dtype::FLOAT32, width, bytes.into()).unwrap()
}

/// Returns a schema of one axis, with chunks of 10.
pub(crate) fn schema(kind: Kind) -> Schema {
    let axes = Axis::spatial(1).unwrap();
    Schema::new(kind, axes, ChunkShape::new(&[10.0]).unwrap()).unwrap()
}

/// Starts a store in memory.
pub(crate) async fn begin(schema: Schema) -> (Arc<InMemory>, Writer) {
    begin_with(schema, WriteOptions::default()).await
}

/// Starts a store in memory, with these options.
pub(crate) async fn begin_with(schema: Schema, options: WriteOptions) -> (Arc<InMemory>, Writer) {
    let memory = Arc::new(InMemory::new());
    let writer = Writer::in_object_store(memory.clone(), "store.zv", schema, options).await;
    (memory, writer.unwrap())
}

/// Runs a build, whose claim on the prefix has a clock.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Writes geometry of several kinds into memory, in batches of about `size` vertices.
pub(crate) async fn write(
    all: &[Given],
    schema: Schema,
    options: WriteOptions,
    size: usize,
) -> Result<(Arc<InMemory>, Report)> {
    let (memory, mut writer) = begin_with(schema, options).await;
    all.iter().try_for_each(|geometry| geometry.give(&mut writer, size))?;
    Ok((memory, writer.finish().await?))
}

/// Returns texts of at most `units` characters.
pub(crate) fn texts<'a>(values: impl IntoIterator<Item = &'a str>, units: usize) -> Column {
    let encode = |text: &str| {
        let mut bytes: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        bytes.resize(units * 4, 0);
        bytes
    };
    let bytes: Vec<u8> = values.into_iter().flat_map(encode).collect();
    Column::new(format!("<U{units}").parse().unwrap(), 1, bytes.into()).unwrap()
}

/// Vertices in parts, and elements between them.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) kind: Kind,
    pub(crate) axes: usize,
    pub(crate) narrow: bool, // coordinates of 32 bits
    pub(crate) positions: Vec<Vec<f64>>,
    pub(crate) parts: Vec<(i64, usize)>, // object and number of vertices
    pub(crate) owned: bool,              // whether parts are given to the writer
    pub(crate) elements: Vec<Vec<usize>>,
}

impl Given {
    pub(crate) fn schema(&self, chunk: f64) -> Schema {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let axes = names[..self.axes].iter().map(|name| Axis::space(name)).collect();
        Schema::new(self.kind, axes, ChunkShape::new(&vec![chunk; self.axes]).unwrap()).unwrap()
    }

    /// Returns the vertices from `from` to `to`, with cut parts; their running number is an
    /// attribute.
    pub(crate) fn batch(&self, from: usize, to: usize) -> Batch {
        let flat = self.positions[from..to].iter().flatten();
        let (dtype, bytes): (_, Vec<u8>) = if self.narrow {
            let narrow = flat.flat_map(|x| (*x as f32).to_le_bytes());
            (Dtype::FLOAT32, narrow.collect())
        } else {
            ("float64".parse::<Dtype>().unwrap(), flat.flat_map(|x| x.to_le_bytes()).collect())
        };
        let positions = Column::new(dtype, self.axes as u32, bytes.into()).unwrap();
        let numbers: Vec<u8> = (from..to).flat_map(|n| (n as u32).to_le_bytes()).collect();
        let numbers = Column::new("uint32".parse::<Dtype>().unwrap(), 1, numbers.into()).unwrap();
        let batch = Batch::new(self.kind, positions).with_field(Field::new("n", numbers)).unwrap();
        if !self.owned {
            return batch;
        }
        let (mut offsets, mut objects, mut start) = (vec![0], Vec::new(), 0);
        for (object, count) in &self.parts {
            let (first, last) = (start.max(from), (start + count).min(to));
            if first < last || (*count == 0 && from <= start && (start < to || from == to)) {
                offsets.push(last.max(first) - from);
                objects.push(ObjectId(*object));
            }
            start += count;
        }
        batch.with_parts(Parts::new(offsets, objects).unwrap()).unwrap()
    }

    /// Writes everything into memory, in batches of about `size` vertices.
    pub(crate) async fn write(
        &self,
        schema: Schema,
        options: WriteOptions,
        size: usize,
    ) -> Result<(Arc<InMemory>, Report)> {
        write(std::slice::from_ref(self), schema, options, size).await
    }

    /// Returns batches of about `size` vertices; trees are one batch, with their edges.
    pub(crate) fn batches(&self, size: usize) -> impl Iterator<Item = Batch> {
        let count = self.positions.len();
        let size = match self.kind {
            Kind::Skeleton => count.max(1),
            Kind::Line => size.min(1 << 20).next_multiple_of(2),
            _ => size,
        };
        (0..count).step_by(size).map(move |from| {
            let batch = self.batch(from, from.saturating_add(size).min(count));
            if self.kind != Kind::Skeleton || self.elements.is_empty() {
                return batch;
            }
            batch.with_elements(Elements::new(2, self.elements.concat()).unwrap()).unwrap()
        })
    }

    /// Returns the elements that no batch has, by the numbers of their vertices.
    pub(crate) fn other_elements(&self) -> Option<Column> {
        let first = self.elements.first().filter(|_| self.kind != Kind::Skeleton)?;
        let numbers = self.elements.iter().flatten().flat_map(|n| (*n as u64).to_le_bytes());
        let (dtype, bytes) = ("uint64".parse().unwrap(), numbers.collect::<Vec<u8>>());
        Some(Column::new(dtype, first.len() as u32, bytes.into()).unwrap())
    }

    /// Pushes everything to a writer of this and maybe other kinds, in batches of about `size`
    /// vertices.
    pub(crate) fn give(&self, writer: &mut Writer, size: usize) -> Result<()> {
        let mut writer = writer.kind(self.kind)?;
        self.batches(size).try_for_each(|batch| writer.push(&batch))?;
        if self.owned {
            let ids: Vec<_> = self.parts.iter().map(|(id, _)| ObjectId(*id)).collect();
            writer.declare_objects(&ids);
        }
        if let Some(rows) = self.other_elements() {
            let weight: Vec<u8> = (0..rows.len()).flat_map(|n| (n as i16).to_le_bytes()).collect();
            let weight = Column::new("int16".parse::<Dtype>().unwrap(), 1, weight.into()).unwrap();
            writer.push_elements(&rows, &[Field::new("weight", weight)])?;
        }
        Ok(())
    }

    /// Writes, reads everything back, and compares.
    pub(crate) async fn check(&self, schema: Schema, options: WriteOptions, size: usize) -> Report {
        let (memory, report) = self.write(schema, options, size).await.unwrap();
        self.check_read(memory).await;
        report
    }

    /// Reads this kind back, and compares.
    pub(crate) async fn check_read(&self, memory: Arc<InMemory>) {
        let batch = read_kind(memory.clone(), self.kind).await;
        let numbers = integers(&batch, "n");
        let mut sorted_numbers = numbers.clone();
        sorted_numbers.sort_unstable();
        let expected_numbers: Vec<i64> = (0..self.positions.len() as i64).collect();
        assert_eq!(sorted_numbers, expected_numbers, "each vertex once");
        let input = self.batch(0, self.positions.len());
        for (row, number) in numbers.iter().enumerate() {
            let expected = input.positions().row(*number as usize);
            assert_eq!(batch.positions().row(row), expected, "vertex {number}");
        }
        if self.kind.is_chain() {
            self.check_chains(&batch, &numbers);
        } else if self.owned {
            self.check_objects(open(memory).await).await;
        }
        if self.kind.has_links() {
            self.check_elements(&batch, &numbers);
        }
    }

    fn check_chains(&self, batch: &Batch, numbers: &[i64]) {
        let mut expected = std::collections::BTreeMap::<i64, Vec<i64>>::new();
        let mut start = 0;
        for (object, count) in &self.parts {
            let chain = expected.entry(*object).or_default();
            chain.extend(start..start + *count as i64);
            start += *count as i64;
        }
        expected.retain(|_, chain| !chain.is_empty());
        let mut found = std::collections::BTreeMap::<i64, Vec<i64>>::new();
        for part in batch.parts().iter() {
            found.entry(part.object.0).or_default().extend(&numbers[part.rows]);
        }
        assert_eq!(found, expected);
    }

    /// Reads each object by its id.
    async fn check_objects(&self, store: Store) {
        let reader = Reader::new(store);
        let mut start = 0;
        for (object, count) in &self.parts {
            let expected: Vec<i64> = (start..start + *count as i64).collect();
            start += *count as i64;
            let query = Query::all().of_objects([ObjectId(*object)]).of_kind(self.kind);
            let answer = reader.run(&query).await.unwrap();
            assert!(answer.unknown_objects.is_empty(), "object {object}");
            let mut found = integers(&answer.batch, "n");
            found.sort_unstable();
            assert_eq!(found, expected, "object {object}");
        }
    }

    fn check_elements(&self, batch: &Batch, numbers: &[i64]) {
        let mut expected: Vec<Vec<i64>> =
            self.elements.iter().map(|e| e.iter().map(|n| *n as i64).collect()).collect();
        let mut found: Vec<Vec<i64>> = batch.elements().map_or_else(Vec::new, |elements| {
            elements.iter().map(|e| e.iter().map(|row| numbers[*row]).collect()).collect()
        });
        if let Some(elements) = batch.elements()
            && let Some(weight) = elements.fields().iter().find(|f| &*f.name == "weight")
        {
            for (row, element) in found.iter().enumerate() {
                let Value::Int(index) = weight.column.value(row, 0) else { panic!("a number") };
                assert_eq!(*element, expected[index as usize], "the attribute of an element");
            }
        }
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}

/// Reads all of a store.
pub(crate) async fn read(memory: Arc<dyn ObjectStore>) -> Batch {
    read_all(memory, &Query::all()).await
}

/// Reads all of one kind of a store.
pub(crate) async fn read_kind(memory: Arc<dyn ObjectStore>, kind: Kind) -> Batch {
    read_all(memory, &Query::all().of_kind(kind)).await
}

async fn read_all(memory: Arc<dyn ObjectStore>, query: &Query) -> Batch {
    let store = open(memory).await;
    let answer = Reader::new(store).run(query).await.unwrap();
    assert!(answer.complete && answer.missing.is_empty());
    answer.batch
}

/// Opens the written store.
pub(crate) async fn open(memory: Arc<dyn ObjectStore>) -> Store {
    Store::from_object_store(memory, &"store.zv".into(), OpenOptions::default()).await.unwrap()
}

/// The bytes of every object, by path.
pub(crate) async fn objects(memory: &InMemory) -> Vec<(String, Vec<u8>)> {
    use futures_util::TryStreamExt as _;
    let listed: Vec<_> = memory.list(None).try_collect().await.unwrap();
    let mut objects = Vec::new();
    for meta in listed {
        let bytes = memory.get(&meta.location).await.unwrap().bytes().await.unwrap();
        objects.push((meta.location.to_string(), bytes.to_vec()));
    }
    objects.sort();
    objects
}

fn integers(batch: &Batch, name: &str) -> Vec<i64> {
    let column = &batch.field(name).expect("the column").column;
    (0..column.len())
        .map(|row| match column.value(row, 0) {
            Value::Int(n) => n,
            Value::UInt(n) => n as i64,
            other => panic!("{other}"),
        })
        .collect()
}
