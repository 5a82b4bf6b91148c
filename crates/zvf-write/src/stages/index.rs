//! The index of objects and what is said of them, however many there are: everything comes sorted by
//! id and is read once, side by side.
//!
//! Not here: groups, which are few ([`crate::objects`]).

use std::path::PathBuf;

use zvf_format::manifest::{Manifest, ManifestBuilder};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::arrays::ObjectIndex;
use zvf_metadata::{Dtype, GroupDoc};
use zvf_store::{DensePlan, RowPlan};

use super::cells::ENTRY;
use super::known::Known;
use super::slice::FieldRecord;
use super::sorted::{KWayMerge, number, number_u32};
use crate::WriteError;
use crate::cells::Frame;
use crate::objects::{absent, attribute_plan, put_values};
use crate::stop::StopFlag;

/// All ids, in a file of their own.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(crate) path: PathBuf,
    pub(crate) count: u64,
    /// Whether they are not 0, 1, 2 and so on.
    pub(crate) sparse: bool,
}

impl Ids {
    /// The ids of all objects: of those with fragments, and of those that were only spoken of.
    pub(crate) fn gather(
        known: &Known,
        entries: &[PathBuf],
        path: PathBuf,
    ) -> Result<Self, WriteError> {
        let spoken: Vec<PathBuf> = known.slices.iter().map(|slice| slice.file("ids")).collect();
        let (mut entries, mut spoken) = (
            KWayMerge::open(entries, ENTRY, &known.options.stop_flag())?,
            KWayMerge::open(&spoken, 8, &known.options.stop_flag())?,
        );
        let mut ids = Self { path: path.clone(), count: 0, sparse: false };
        let mut out = super::file::Output::create(path, &known.options.stop_flag())?;
        let mut last = None;
        loop {
            let heads = [entries.head().map(number), spoken.head().map(number)];
            let Some(id) = heads.into_iter().flatten().min() else { break };
            if last != Some(id) {
                out.write(&super::sorted::ascending(id))?;
                ids.sparse |= zvf_format::num::saturating_i64(ids.count) != id;
                ids.count += 1;
            }
            last = Some(id);
            if heads[0] == Some(id) {
                entries.advance()?;
            } else {
                spoken.advance()?;
            }
        }
        out.finish()?;
        Ok(ids)
    }

    fn for_each(
        &self,
        stop: &StopFlag,
        mut each: impl FnMut(i64) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut ids = KWayMerge::open(std::slice::from_ref(&self.path), 8, stop)?;
        while let Some(id) = ids.head().map(number) {
            each(id)?;
            ids.advance()?;
        }
        Ok(())
    }
}

/// Writes the index and the attributes of objects.
pub(crate) async fn write(
    known: &Known,
    frame: &Frame<'_>,
    ids: &Ids,
    entries: &[PathBuf],
) -> Result<(), WriteError> {
    let rank = to_u64(frame.table.rank());
    let path = frame.path("object_index/manifests");
    let codecs = frame.with_checksum(RowPlan::manifests().codecs);
    let mut sink = frame.build.rows(&path, RowPlan { codecs, ..RowPlan::manifests() })?;
    let mut entries = KWayMerge::open(entries, ENTRY, &known.options.stop_flag())?;
    let mut present = 0_u64;
    ids.for_each(&known.options.stop_flag(), |id| {
        frame.go_on()?;
        let mut manifest = ManifestBuilder::new(rank)?;
        let mut some = false;
        while let Some(entry) = entries.head().filter(|entry| number(entry) == id) {
            let (chunk, fragment) = (number_u32(entry, 16), number_u32(entry, 20));
            manifest.single(frame.table.components(chunk), fragment.into())?;
            some = true;
            entries.advance()?;
        }
        present += u64::from(some);
        let blob = manifest.encode();
        Manifest::parse(&blob, rank)?; // it reads back
        Ok(sink.push(&blob)?)
    })?;
    sink.finish(|_| {}).await?;
    let plan = DensePlan {
        chunk_rows: (ids.count > ONE_CHUNK).then_some(ONE_CHUNK),
        ..DensePlan::new(Dtype::INT64)
    };
    let mut sink = frame.build.dense(&frame.path("object_index/object_ids"), plan)?;
    ids.for_each(&known.options.stop_flag(), |id| Ok(sink.push(&id.to_le_bytes())?))?;
    sink.finish(|_| {}).await?;
    let index = ObjectIndex::new(ids.count, present, rank, true);
    frame.build.group(&frame.path("object_index"), &GroupDoc::new(index.to_attributes())).await?;
    write_fields(known, frame, ids).await
}

/// Refuses trees that are in one object.
pub(crate) fn check_roots(known: &Known) -> Result<(), WriteError> {
    let roots: Vec<PathBuf> = known.slices.iter().map(|slice| slice.file("roots")).collect();
    let mut roots = KWayMerge::open(&roots, 8, &known.options.stop_flag())?;
    let (mut last, mut count) = (None, 0_u64);
    loop {
        let object = roots.head().map(number);
        if object != last {
            if let (Some(object), 2..) = (last, count) {
                return Err(WriteError::Roots {
                    object: zvf_model::ObjectId(object),
                    roots: count,
                });
            }
            (last, count) = (object, 0);
        }
        if object.is_none() {
            return Ok(());
        }
        count += 1;
        roots.advance()?;
    }
}

async fn write_fields(known: &Known, frame: &Frame<'_>, ids: &Ids) -> Result<(), WriteError> {
    let all = known.slices.iter().flat_map(|slice| &slice.fields);
    let mut names: Vec<&str> = all.map(|field| field.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        write_field(known, frame, ids, name).await?;
    }
    Ok(())
}

/// One attribute of objects.
async fn write_field(
    known: &Known,
    frame: &Frame<'_>,
    ids: &Ids,
    name: &str,
) -> Result<(), WriteError> {
    let mut given: Vec<(PathBuf, &FieldRecord, Dtype)> = Vec::new();
    for slice in &known.slices {
        for (number, field) in slice.fields.iter().enumerate() {
            if field.name == name {
                let path = slice.file(&format!("field-{number}"));
                given.push((path, field, field.dtype.parse::<Dtype>()?));
            }
        }
    }
    let Some((_, first, _)) = given.first() else { return Ok(()) };
    let (dtype, width) = common(known, &given)?;
    let texts = [first.unit.as_deref(), first.description.as_deref()];
    let plan = attribute_plan(name, (dtype, width), ids.count, texts);
    let mut sources = Vec::with_capacity(given.len());
    for (path, _, own) in &given {
        let stride = saturating_usize(own.size).saturating_mul(usize_from_u32(width)) + 16;
        sources.push(KWayMerge::open(
            std::slice::from_ref(path),
            stride,
            &known.options.stop_flag(),
        )?);
    }
    let mut sink = frame.build.dense(&frame.path(&format!("object_attributes/{name}")), plan)?;
    let none = absent(dtype, usize_from_u32(width));
    ids.for_each(&known.options.stop_flag(), |id| {
        let mut value = none.clone();
        for source in &mut sources {
            while let Some(record) = source.head().filter(|record| number(record) <= id) {
                if number(record) == id {
                    put_values(&mut value, record.get(16..).unwrap_or(&[]), usize_from_u32(width));
                }
                source.advance()?;
            }
        }
        Ok(sink.push(&value)?)
    })?;
    sink.finish(|_| {}).await?;
    Ok(())
}

/// The type that holds the values of all slices: that of all, or the longest text.
fn common(
    known: &Known,
    given: &[(PathBuf, &FieldRecord, Dtype)],
) -> Result<(Dtype, u32), WriteError> {
    let fields = given.iter().map(|(_, field, dtype)| {
        let column = zvf_model::Column::empty(*dtype, field.width)?;
        Ok(zvf_model::Field::new(field.name.as_str(), column))
    });
    let fields: Vec<zvf_model::Field> = fields.collect::<Result<_, WriteError>>()?;
    crate::objects::common_type(known.schema.kind, fields.iter())
}

/// Ids in one piece: more are cut, so that nobody has to hold all.
const ONE_CHUNK: u64 = 1 << 20;
