//! Input that stays in memory and input that is put aside become the same bytes.

use std::sync::Arc;

use object_store::memory::InMemory;
use proptest::prelude::*;
use zvf_metadata::LinkStore;
use zvf_model::{Batch, Column, Elements, Field, Kind, Members, ObjectId};
use zvf_store::{Build, BuildOptions, CodecPipeline};
use zvf_write::{LevelWriter, Report, Schema, WriteError, WriteOptions, Writer};

use crate::given::{Given, objects};
use crate::round_trip::{any_given, any_of, run};

/// What is written beside the geometry, and how.
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
    fn schema(self, given: &Given) -> Schema {
        let mut schema = given.schema(8.0);
        if given.kind == Kind::PointCloud {
            schema = schema.with_bins(&vec![4.0; given.axes]).unwrap();
        }
        if given.kind.has_links() && self.duplicate {
            schema = schema.with_links(LinkStore::Duplicate);
        }
        if self.sharded {
            let codecs = CodecPipeline::zstd(1).with_crc32c();
            schema = schema.with_codecs(codecs).sharded(&vec![2; given.axes]).unwrap();
        }
        schema
    }

    fn options(self, memory: u64) -> WriteOptions {
        WriteOptions { memory, compat: self.compat, ..WriteOptions::default() }
    }

    /// Gives everything to a writer, batches of about `size` vertices first.
    fn give(self, given: &Given, writer: &mut Writer, size: usize) -> Result<(), WriteError> {
        let size = match given.kind {
            Kind::Skeleton => usize::MAX,
            Kind::Line => size.next_multiple_of(2),
            _ => size,
        };
        let mut from = 0;
        while from < given.positions.len() {
            let to = from.saturating_add(size).min(given.positions.len());
            let batch = labelled(given, from, to);
            let of_parts = batch.parts().iter().map(|part| part.object.0 as f64);
            let of_parts = Field::new("weight", floats(of_parts));
            let of_parts = if given.owned { &[of_parts][..] } else { &[] };
            writer.kind(given.kind)?.push_with_parts(&batch, of_parts)?;
            from = to;
        }
        if given.kind != Kind::Skeleton && !given.elements.is_empty() {
            let rows = given.elements.iter().flatten().flat_map(|n| (*n as u64).to_le_bytes());
            let width = given.elements[0].len() as u32;
            let rows =
                Column::new("uint64".parse().unwrap(), width, rows.collect::<Vec<u8>>().into());
            let rows = rows.unwrap();
            let count = given.elements.len();
            let fields = [
                Field::new("length", floats((0..count).map(|n| n as f64 / 3.0))),
                Field::new("name", texts((0..count).map(|n| ["p", "qq"][n % 2]), 2)),
            ];
            writer.kind(given.kind)?.push_elements(&rows, &fields)?;
        }
        if self.fields {
            self.say(given, writer)?;
        }
        if self.groups {
            let ids = given.parts.iter().map(|(id, _)| ObjectId(*id));
            writer.group(Some("some"), Members::Ids(ids.step_by(2).collect()));
            writer.group(None, Members::Range { start: 0, stop: 1 });
            writer.group_field(Field::new("size", floats([0.5, 1.5].into_iter())));
        }
        Ok(())
    }

    /// Attributes of objects: of all, of one again, of one that has no vertices.
    fn say(self, given: &Given, writer: &mut Writer) -> Result<(), WriteError> {
        let ids: Vec<ObjectId> = given.parts.iter().map(|(id, _)| ObjectId(*id)).collect();
        let mut writer = writer.kind(given.kind)?;
        let numbers = |count: usize| Field::new("mass", floats((0..count).map(|n| n as f64)));
        let names = ids.iter().map(|id| if id.0 % 2 == 0 { "even" } else { "odd" });
        writer.object_fields(&ids, &[numbers(ids.len()), Field::new("name", texts(names, 4))])?;
        let longer = texts(std::iter::once("another"), 7);
        writer.object_fields(&ids[..1], &[Field::new("name", longer), numbers(1)])?;
        writer.object_fields(&[ObjectId(77)], &[numbers(1)])?;
        writer.declare_objects(&[ObjectId(78)]);
        Ok(())
    }

    fn write(self, given: &Given, size: usize, memory: u64) -> (Vec<(String, Vec<u8>)>, Report) {
        run(async {
            let (store, options) = (Arc::new(InMemory::new()), self.options(memory));
            let schema = self.schema(given);
            let writer = Writer::in_object_store(store.clone(), "store.zv", schema, options);
            let mut writer = writer.await.unwrap();
            self.give(given, &mut writer, size).unwrap();
            let report = writer.finish().await.unwrap();
            (objects(&store).await, report)
        })
    }
}

/// A batch with a text for each vertex.
fn labelled(given: &Given, from: usize, to: usize) -> Batch {
    let labels = (from..to).map(|n| ["a", "b", "ccc", "é"][n * 7 % 4]);
    let batch = given.batch(from, to).with_field(Field::new("label", texts(labels, 3))).unwrap();
    if given.kind != Kind::Skeleton || given.elements.is_empty() {
        return batch;
    }
    batch.with_elements(Elements::new(2, given.elements.concat()).unwrap()).unwrap()
}

fn floats(values: impl Iterator<Item = f64>) -> Column {
    let bytes: Vec<u8> = values.flat_map(f64::to_le_bytes).collect();
    Column::new("float64".parse().unwrap(), 1, bytes.into()).unwrap()
}

fn texts<'a>(values: impl Iterator<Item = &'a str>, room: usize) -> Column {
    let mut bytes = Vec::new();
    for value in values {
        let mut text: Vec<u8> = value.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        text.resize(room * 4, 0);
        bytes.extend(text);
    }
    Column::new(format!("<U{room}").parse().unwrap(), 1, bytes.into()).unwrap()
}

fn check(given: &Given, settings: Settings, size: usize) -> Result<(), TestCaseError> {
    let (held, in_memory) = settings.write(given, size, u64::MAX);
    let (read, spilled) = settings.write(given, size, 0);
    prop_assert_eq!(in_memory.spilled_bytes, 0);
    prop_assert!(spilled.spilled_bytes > 0);
    let paths = |objects: &[(String, Vec<u8>)]| -> Vec<String> {
        objects.iter().map(|(path, _)| path.clone()).collect()
    };
    prop_assert_eq!(paths(&held), paths(&read));
    for ((path, one), (_, other)) in held.iter().zip(&read) {
        prop_assert!(one == other, "{}", path);
    }
    prop_assert_eq!(Report { spilled_bytes: 0, ..spilled }, in_memory);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// With attributes of everything, objects, groups and links.
    #[test]
    fn a_store_does_not_depend_on_the_memory(
        given in any_given(),
        settings in any_settings(),
        size in 1_usize..70,
    ) {
        check(&given, settings, size)?;
    }

    /// Where vertices went is the same too.
    #[test]
    fn places_do_not_depend_on_the_memory(given in any_given(), size in 1_usize..70) {
        let places = |memory| run(async {
            let store = Arc::new(InMemory::new());
            let build = Build::in_object_store(store, "store.zv", BuildOptions::default());
            let options = WriteOptions { memory, ..WriteOptions::default() };
            let build = build.await.unwrap();
            let mut level = LevelWriter::new(&build, 1, given.schema(8.0), &options).placing();
            given.give(level.writer(), size).unwrap();
            let mut places = Vec::new();
            level.finish_placed(|_, _| {}, &mut |_, number, chunk, row| {
                places.push((number, chunk, row));
                Ok(())
            }).await.unwrap();
            places
        });
        let held = places(u64::MAX);
        prop_assert_eq!(held.len(), given.positions.len());
        prop_assert_eq!(places(0), held);
    }

    /// Several kinds in one store.
    #[test]
    fn kinds_together_do_not_depend_on_the_memory(
        mesh in any_of(Kind::Mesh, 3),
        lines in any_of(Kind::Polyline, 3),
        points in any_of(Kind::PointCloud, 3),
    ) {
        let schema = || {
            let schema = mesh.schema(8.0).and(Kind::Polyline).unwrap();
            schema.and(Kind::PointCloud).unwrap()
        };
        let write = |memory| run(async {
            let (store, options) = (Arc::new(InMemory::new()), WriteOptions {
                memory,
                ..WriteOptions::default()
            });
            let writer = Writer::in_object_store(store.clone(), "store.zv", schema(), options);
            let mut writer = writer.await.unwrap();
            for (number, kind) in [&mesh, &lines, &points].into_iter().enumerate() {
                // Ids are those of all kinds together.
                let parts = kind.parts.iter().zip(0..).map(|((_, rows), id)| {
                    (id * 3 + number as i64, *rows)
                });
                let given = Given { parts: parts.collect(), owned: true, ..kind.clone() };
                given.give(&mut writer, 9).unwrap();
            }
            writer.finish().await.unwrap();
            objects(&store).await
        });
        let held = write(u64::MAX);
        prop_assert!(write(0) == held);
    }
}
