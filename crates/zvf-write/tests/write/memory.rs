//! Input that stays in memory and spilled input become the same bytes.

use std::sync::Arc;

use object_store::memory::InMemory;
use proptest::prelude::*;
use zvf_error::Result;
use zvf_metadata::LinkStore;
use zvf_model::{Column, Field, Kind, Members, ObjectId};
use zvf_store::{Build, BuildOptions, CodecPipeline};
use zvf_write::{LevelWriter, Report, Schema, WriteOptions, Writer};

use crate::given::{Given, begin_with, objects, run, texts};
use crate::round_trip::any_given;

/// What is written in addition to the geometry, and how.
#[derive(Clone, Copy, Debug)]
struct Settings {
    fields: bool,
    groups: bool,
    compat: bool,
    sharded: bool,
    duplicate: bool,
}

fn any_settings() -> impl Strategy<Value = Settings> {
    any::<[bool; 5]>().prop_map(|[fields, groups, compat, sharded, duplicate]| Settings {
        fields,
        groups,
        compat,
        sharded,
        duplicate,
    })
}

impl Settings {
    fn schema(self, geometry: &Given) -> Schema {
        let mut schema = geometry.schema(8.0);
        if geometry.kind == Kind::PointCloud {
            schema = schema.with_bins(&vec![4.0; geometry.axes]).unwrap();
        }
        if geometry.kind.has_links() && self.duplicate {
            schema = schema.with_links(LinkStore::Duplicate);
        }
        if self.sharded {
            let codecs = CodecPipeline::zstd(1).with_crc32c();
            schema = schema.with_codecs(codecs).with_shard_shape(&vec![2; geometry.axes]).unwrap();
        }
        schema
    }

    fn options(self, memory: u64) -> WriteOptions {
        WriteOptions { memory, compat: self.compat, ..WriteOptions::default() }
    }

    /// Pushes everything to a writer: first batches of about `size` vertices, each with a text.
    fn give(self, geometry: &Given, writer: &mut Writer, size: usize) -> Result<()> {
        let mut from = 0;
        for batch in geometry.batches(size) {
            let labels = (from..from + batch.len()).map(|n| ["a", "b", "ccc", "é"][n * 7 % 4]);
            from += batch.len();
            let batch = batch.with_field(Field::new("label", texts(labels, 3))).unwrap();
            let weights = batch.parts().iter().map(|part| part.object.0 as f64);
            let weights = Field::new("weight", floats(weights));
            let weights = if geometry.owned { &[weights][..] } else { &[] };
            writer.kind(geometry.kind)?.push_with_parts(&batch, weights)?;
        }
        if let Some(rows) = geometry.other_elements() {
            let count = rows.len();
            let fields = [
                Field::new("length", floats((0..count).map(|n| n as f64 / 3.0))),
                Field::new("name", texts((0..count).map(|n| ["p", "qq"][n % 2]), 2)),
            ];
            writer.kind(geometry.kind)?.push_elements(&rows, &fields)?;
        }
        if self.fields {
            self.push_objects(geometry, writer)?;
        }
        if self.groups {
            let ids = geometry.parts.iter().map(|(id, _)| ObjectId(*id));
            writer.group(Some("some"), Members::Ids(ids.step_by(2).collect()));
            writer.group(None, Members::Range { start: 0, stop: 1 });
            writer.group_field(Field::new("size", floats([0.5, 1.5].into_iter())));
        }
        Ok(())
    }

    /// Pushes attributes of objects: of all, of one a second time, of one without vertices.
    fn push_objects(self, geometry: &Given, writer: &mut Writer) -> Result<()> {
        let ids: Vec<ObjectId> = geometry.parts.iter().map(|(id, _)| ObjectId(*id)).collect();
        let mut writer = writer.kind(geometry.kind)?;
        let numbers = |count: usize| Field::new("mass", floats((0..count).map(|n| n as f64)));
        let names = ids.iter().map(|id| if id.0 % 2 == 0 { "even" } else { "odd" });
        writer.object_fields(&ids, &[numbers(ids.len()), Field::new("name", texts(names, 4))])?;
        let longer = texts(["another"], 7);
        writer.object_fields(&ids[..1], &[Field::new("name", longer), numbers(1)])?;
        writer.object_fields(&[ObjectId(77)], &[numbers(1)])?;
        writer.declare_objects(&[ObjectId(78)]);
        Ok(())
    }

    fn write(self, geometry: &Given, size: usize, memory: u64) -> (Vec<(String, Vec<u8>)>, Report) {
        run(async {
            let (schema, options) = (self.schema(geometry), self.options(memory));
            let (store, mut writer) = begin_with(schema, options).await;
            self.give(geometry, &mut writer, size).unwrap();
            let report = writer.finish().await.unwrap();
            (objects(&store).await, report)
        })
    }
}

fn floats(values: impl Iterator<Item = f64>) -> Column {
    let bytes: Vec<u8> = values.flat_map(f64::to_le_bytes).collect();
    Column::new("float64".parse().unwrap(), 1, bytes.into()).unwrap()
}

fn check(geometry: &Given, settings: Settings, size: usize) -> Result<(), TestCaseError> {
    let (in_memory_files, in_memory) = settings.write(geometry, size, u64::MAX);
    let (spilled_files, spilled) = settings.write(geometry, size, 0);
    prop_assert_eq!(in_memory.spilled_bytes, 0);
    prop_assert!(spilled.spilled_bytes > 0);
    let paths = |objects: &[(String, Vec<u8>)]| -> Vec<String> {
        objects.iter().map(|(path, _)| path.clone()).collect()
    };
    prop_assert_eq!(paths(&in_memory_files), paths(&spilled_files));
    for ((path, file), (_, spilled_file)) in in_memory_files.iter().zip(&spilled_files) {
        prop_assert!(file == spilled_file, "{}", path);
    }
    prop_assert_eq!(Report { spilled_bytes: 0, ..spilled }, in_memory);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Checks attributes of all scopes, objects, groups and links.
    #[test]
    fn a_store_does_not_depend_on_the_memory(
        geometry in any_given(),
        settings in any_settings(),
        size in 1_usize..70,
    ) {
        check(&geometry, settings, size)?;
    }

    /// The locations of vertices are the same too.
    #[test]
    fn places_do_not_depend_on_the_memory(geometry in any_given(), size in 1_usize..70) {
        let places = |memory| run(async {
            let store = Arc::new(InMemory::new());
            let build = Build::in_object_store(store, "store.zv", BuildOptions::default());
            let options = WriteOptions { memory, ..WriteOptions::default() };
            let build = build.await.unwrap();
            let level = LevelWriter::new(&build, 1, geometry.schema(8.0), &options);
            let mut level = level.with_locations();
            geometry.give(level.writer(), size).unwrap();
            let mut places = Vec::new();
            let (_, placed) = level.finish_placed(|_, _| {}).await.unwrap();
            for (kind, pairs) in placed {
                assert_eq!(kind, geometry.kind);
                pairs.for_each(|number, place| {
                    places.push((number, place));
                    Ok::<_, zvf_error::Error>(())
                }).unwrap();
                assert_eq!(pairs.len(), places.len() as u64);
            }
            places
        });
        let in_memory = places(u64::MAX);
        prop_assert_eq!(in_memory.len(), geometry.positions.len());
        prop_assert_eq!(places(0), in_memory);
    }
}
