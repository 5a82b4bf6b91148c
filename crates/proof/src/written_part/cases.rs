//! Stores of every kind with every option, `NAME.zarrvectors`, each beside its input, `NAME.json`,
//! so that another implementation can compare.

use std::path::Path;

use archives::random::Random;
use serde_json::{Value as Json, json};
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype, LinkStore};
use zvf_model::{Batch, Column, Elements, Field, Kind, Members, ObjectId, Parts, Value};
use zvf_store::CodecPipeline;
use zvf_write::{Schema, WriteOptions, Writer};

use crate::facts::{list, texts};
use crate::{corpus, peers};

/// A store to write.
pub(crate) struct Case {
    kind: Kind,
    axes: usize,
    owned: bool,
    ids: Vec<i64>,
    options: Vec<String>,
    /// Kinds in the same store: the first is written as if it were alone, these beside it.
    beside: Vec<Kind>,
}

/// Returns all cases, by name.
pub(super) fn list_cases() -> Vec<(String, Case)> {
    ["alone", "mixtures"].into_iter().flat_map(list_part).collect()
}

/// Returns cases of several kinds in one store.
pub(crate) fn list_mixtures() -> Vec<(String, Case)> {
    list_part("mixtures")
}

/// Returns the cases of a part of `peers/written_cases.json`: each kind with each list of options,
/// on two and three axes.
fn list_part(part: &str) -> Vec<(String, Case)> {
    let all = corpus::read_json(&peers::script_path("written_cases.json")).unwrap();
    let mut cases = Vec::new();
    for entry in list(&all[part]["kinds"]) {
        let kinds: Vec<Kind> = texts(&entry["kinds"]).map(|kind| kind.parse().unwrap()).collect();
        let owned = entry["owned"] == true;
        let names = kinds.iter().map(|kind| kind.token()).collect::<Vec<_>>().join("_");
        let owners = if owned { "objects" } else { "loose" };
        for options in list(&all[part]["options"]).chain(list(&entry["more"])) {
            for axes in [2, 3] {
                let options: Vec<String> = texts(options).collect();
                let name = format!("{part}_{names}_{owners}_{axes}d_{}", options.join("_"));
                let is_sparse = options.iter().any(|option| option == "sparse");
                let ids = if is_sparse { vec![7, 2, 900, -1] } else { vec![0, 1, 2, 3] };
                let (kind, beside) = (kinds[0], kinds[1..].to_vec());
                cases.push((name, Case { kind, axes, owned, ids, options, beside }));
            }
        }
    }
    cases
}

impl Case {
    fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    fn schema(&self) -> Schema {
        let axes = Axis::spatial(self.axes).unwrap();
        let chunk = ChunkShape::new(&vec![10.0; self.axes]).unwrap();
        let mut schema = Schema::new(self.kind, axes, chunk).unwrap();
        for kind in &self.beside {
            schema = schema.with_kind(*kind).unwrap();
        }
        if self.has_option("bins") {
            schema = schema.with_bins(&vec![5.0; self.axes]).unwrap();
        }
        if self.has_option("binned") {
            schema = schema
                .with_bin_attribute("label", vec![Value::from("a"), Value::from("b")])
                .unwrap();
        }
        if self.has_option("directed") {
            schema = schema.with_directed_links();
        }
        if self.has_option("duplicate") {
            schema = schema.with_links(LinkStore::Duplicate);
        }
        if self.has_option("explicit") {
            schema = schema.with_explicit_edges();
        }
        let codecs =
            if self.has_option("zstd") { CodecPipeline::zstd(3) } else { CodecPipeline::empty() };
        let checksum = self.has_option("crc32c");
        schema = schema.with_codecs(if checksum { codecs.with_crc32c() } else { codecs });
        if self.has_option("shard") {
            let rank = self.axes + usize::from(self.has_option("binned"));
            schema = schema.with_shard_shape(&vec![2; rank]).unwrap();
        }
        schema
    }

    /// Writes the store into `folder`, with its input.
    pub(crate) async fn write(&self, folder: &Path, name: &str) {
        let mut random =
            Random::new(name.bytes().fold(7, |n, b| n.wrapping_mul(31).wrapping_add(b.into())));
        let counts: Vec<usize> = match self.kind {
            Kind::Line => vec![2; 4],
            _ if self.has_option("empty") => vec![9, 0, 12, 5],
            _ => vec![9, 4, 12, 5],
        };
        let points = self.make_points(&counts, 200, &mut random);
        let rows = points.len();
        let label: Vec<&str> = (0..rows).map(|_| ["a", "b"][random.next_below(2)]).collect();
        let objects: Vec<i64> =
            self.ids.iter().zip(&counts).flat_map(|(id, n)| std::iter::repeat_n(*id, *n)).collect();
        let elements = self.make_elements(&counts, &mut random);
        let weighted = self.kind != Kind::Skeleton || self.has_option("explicit");
        let numbers = (0..rows as u32).flat_map(u32::to_le_bytes).collect();
        let vector = (0..rows * 2).flat_map(|n| (n as f32).to_le_bytes()).collect();
        let labels = label.iter().flat_map(|text| u32::from(text.as_bytes()[0]).to_le_bytes());
        let mut batch = self.make_batch(&counts, &points, &elements, weighted);
        for (name, dtype, width, bytes) in [
            ("n", "uint32", 1, numbers),
            ("v", "float32", 2, vector),
            ("label", "<U1", 1, labels.collect()),
        ] {
            batch = batch.with_field(Field::new(name, new_column(dtype, width, bytes))).unwrap();
        }
        let options = WriteOptions { compat: self.has_option("compat"), ..WriteOptions::default() };
        let path = folder.join(format!("{name}.zarrvectors"));
        let mut writer =
            Writer::create(path.to_str().unwrap(), self.schema(), options).await.unwrap();
        if self.owned {
            let ids: Vec<ObjectId> = self.ids.iter().copied().map(ObjectId).collect();
            let mass = self.ids.iter().flat_map(|id| (*id as f32 + 0.5).to_le_bytes()).collect();
            writer
                .object_fields(&ids, &[Field::new("mass", new_column("float32", 1, mass))])
                .unwrap();
            writer.group(Some("some"), Members::Ids(vec![ids[2], ids[0]]));
            writer.group(None, Members::Range { start: 0, stop: 3 });
        }
        writer.push(&batch).unwrap();
        let mut beside = Vec::new();
        for (first, kind) in (1..).map(|n| n * 10).zip(&self.beside) {
            let (batch, summary) = self.make_geometry(*kind, first, &mut random);
            writer.push(&batch).unwrap();
            beside.push(summary);
        }
        writer.finish().await.unwrap();

        let input: Json = json!({
            "kind": self.kind.token(), "options": self.options, "axes": self.axes,
            "positions": points, "label": label,
            "objects": if self.owned { json!(objects) } else { Json::Null },
            "ids": if self.owned { json!(self.ids) } else { Json::Null },
            "elements": elements, "weighted": weighted, "beside": beside,
        });
        std::fs::write(folder.join(format!("{name}.json")), input.to_string()).unwrap();
    }

    /// Returns geometry of a further kind, whose objects have ids from `first` on, and its
    /// description.
    fn make_geometry(&self, kind: Kind, first: i64, random: &mut Random) -> (Batch, Json) {
        let (ids, options, beside) = ((first..first + 3).collect(), Vec::new(), Vec::new());
        let alone = Self { kind, axes: self.axes, owned: true, ids, options, beside };
        let counts = if kind == Kind::Line { [2, 2, 2] } else { [3, 7, 4] };
        let points = alone.make_points(&counts, 300, random);
        let elements = alone.make_elements(&counts, random);
        let batch = alone.make_batch(&counts, &points, &elements, false);
        (batch, json!({"kind": kind.token(), "positions": points}))
    }

    /// Returns random vertices of objects with these numbers of them.
    fn make_points(&self, counts: &[usize], side: usize, random: &mut Random) -> Vec<Vec<f64>> {
        let mut coordinate = || random.next_below(side) as f64 * 0.25 - side as f64 * 0.1;
        let rows = 0..counts.iter().sum();
        rows.map(|_| (0..self.axes).map(|_| coordinate()).collect()).collect()
    }

    /// Returns vertices, the objects that own them, and elements.
    fn make_batch(
        &self,
        counts: &[usize],
        points: &[Vec<f64>],
        elements: &[Vec<usize>],
        weighted: bool,
    ) -> Batch {
        let flat = points.iter().flatten();
        let positions = if self.has_option("float64") {
            new_column("float64", self.axes, flat.flat_map(|x| x.to_le_bytes()).collect())
        } else {
            new_column("float32", self.axes, flat.flat_map(|x| (*x as f32).to_le_bytes()).collect())
        };
        let mut batch = Batch::new(self.kind, positions);
        if self.owned {
            let offsets = (0..=counts.len()).map(|n| counts[..n].iter().sum()).collect();
            let ids = self.ids.iter().copied().map(ObjectId).collect();
            batch = batch.with_parts(Parts::new(offsets, ids).unwrap()).unwrap();
        }
        if self.kind.has_links() {
            let width = elements.first().map_or(2, Vec::len);
            let mut all = Elements::new(width, elements.concat()).unwrap();
            if weighted {
                let weight = (0..elements.len() as u16).flat_map(u16::to_le_bytes).collect();
                all =
                    all.with_field(Field::new("weight", new_column("uint16", 1, weight))).unwrap();
            }
            batch = batch.with_elements(all).unwrap();
        }
        batch
    }

    /// Returns edges and faces within each object; those of a skeleton go from child to parent.
    fn make_elements(&self, counts: &[usize], random: &mut Random) -> Vec<Vec<usize>> {
        let (mut elements, mut start) = (Vec::new(), 0);
        for count in counts {
            match self.kind {
                Kind::Skeleton => {
                    // The root is the last vertex; each other one is the child of a later one.
                    let hung = (0..count.saturating_sub(1)).rev();
                    elements.extend(hung.map(|at| {
                        vec![start + at, start + at + 1 + random.next_below(count - 1 - at)]
                    }));
                }
                Kind::Graph | Kind::Mesh => {
                    let width = match (self.kind, self.has_option("quads")) {
                        (Kind::Graph, _) => 2,
                        (_, false) => 3,
                        (_, true) => 4,
                    };
                    for _ in 0..*count {
                        // Distinct vertices of the object, in any order.
                        let mut left: Vec<usize> = (start..start + count).collect();
                        let pick = |_| left.swap_remove(random.next_below(left.len()));
                        elements.push((0..width.min(*count)).map(pick).collect());
                    }
                }
                _ => {}
            }
            start += count;
        }
        elements
    }
}

fn new_column(dtype: &str, width: usize, bytes: Vec<u8>) -> Column {
    Column::new(dtype.parse::<Dtype>().unwrap(), width as u32, bytes.into()).unwrap()
}
