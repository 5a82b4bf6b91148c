//! A store in memory, until it is published.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use zvf_format::key::ChunkKey;
use zvf_format::metadata::{ArrayDoc, Codec, DataType, Dtype, FillValue, GroupDoc, Object, Root};
use zvf_store::StoreError;
use crate::WriteError;
use crate::num::{to_u64};

type Files = Arc<Mutex<BTreeMap<String, Bytes>>>;
#[derive(Clone, Debug)]
pub struct Build { files: Files, to: Option<Arc<dyn ObjectStore>>, dir: String }
#[derive(Clone, Debug, Default)]
pub struct BuildOptions { pub replace: bool }
#[derive(Clone, Debug, Default)]
pub struct Codecs { pub codecs: Vec<Codec> }
#[derive(Debug)]
pub(crate) struct CellPlan { pub rank: usize, pub low: Vec<i64>, pub high: Vec<i64>, pub attributes: Object, pub codecs: Codecs, pub shard: Option<Vec<u64>> }
pub(crate) struct RowPlan { pub rows: u64, pub attributes: Object }
pub(crate) struct DensePlan { pub dtype: Dtype, pub rows: u64, pub width: Option<u32>, pub chunk_rows: u64, pub fill: FillValue, pub attributes: Object }
#[derive(Clone, Debug)]
pub(crate) struct CellSink { files: Files, path: String, plan: Arc<CellPlan>, keys: Arc<Mutex<Vec<ChunkKey>>> }
pub(crate) struct RowSink { files: Files, path: String, plan: RowPlan, rows: Vec<Bytes> }
pub(crate) struct DenseSink { files: Files, path: String, plan: DensePlan, bytes: Vec<u8> }

fn put(files: &Files, path: String, bytes: impl Into<Bytes>) {
    files.lock().unwrap_or_else(PoisonError::into_inner).insert(path, bytes.into());
}
impl Build {
    pub async fn begin(address: &str, _options: BuildOptions) -> Result<Self, StoreError> {
        Ok(Self { files: Files::default(), to: None, dir: address.to_owned() })
    }
    pub async fn in_object_store(store: Arc<dyn ObjectStore>, prefix: &str, _options: BuildOptions) -> Result<Self, StoreError> {
        Ok(Self { files: Files::default(), to: Some(store), dir: prefix.to_owned() })
    }
    pub(crate) fn cells(&self, path: &str, plan: CellPlan) -> Result<CellSink, StoreError> {
        Ok(CellSink { files: self.files.clone(), path: path.to_owned(), plan: plan.into(), keys: Arc::default() })
    }
    pub(crate) fn rows(&self, path: &str, plan: RowPlan) -> Result<RowSink, StoreError> {
        Ok(RowSink { files: self.files.clone(), path: path.to_owned(), plan, rows: Vec::new() })
    }
    pub(crate) fn dense(&self, path: &str, plan: DensePlan) -> Result<DenseSink, StoreError> {
        Ok(DenseSink { files: self.files.clone(), path: path.to_owned(), plan, bytes: Vec::new() })
    }
    pub(crate) async fn group(&self, path: &str, doc: &GroupDoc) -> Result<(), StoreError> {
        put(&self.files, format!("{path}/zarr.json"), doc.print());
        Ok(())
    }
    pub(crate) async fn publish(self, root: &Root) -> Result<(), WriteError> {
        put(&self.files, "zarr.json".to_owned(), root.print());
        let mut parents = std::collections::BTreeSet::new();
        for path in self.files.lock().unwrap_or_else(PoisonError::into_inner).keys().filter(|k| k.ends_with("/zarr.json")) {
            let mut path = path.as_str();
            while let Some((parent, _)) = path.rsplit_once('/') { parents.insert(parent.to_owned()); path = parent; }
        }
        for parent in parents {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.entry(format!("{parent}/zarr.json")).or_insert_with(|| GroupDoc::default().print().into());
        }
        let files = std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner));
        for (path, bytes) in files {
            let path = format!("{}/{path}", self.dir);
            if let Some(to) = &self.to {
                to.put(&path.as_str().into(), PutPayload::from(bytes)).await.map_err(|e| WriteError::Scratch(e.into()))?;
            } else {
                let path = std::path::Path::new(&path);
                if let Some(parent) = path.parent() { std::fs::create_dir_all(parent).map_err(WriteError::Scratch)?; }
                std::fs::write(path, bytes).map_err(WriteError::Scratch)?;
            }
        }
        Ok(())
    }
}
impl RowPlan {
    pub(crate) fn manifests(rows: u64) -> Self { Self { rows, attributes: Object::new() } }
    pub(crate) fn groups(rows: u64, attributes: Object) -> Self { Self { rows, attributes } }
}
impl DensePlan {
    pub(crate) fn ids(rows: u64) -> Self { Self { dtype: Dtype::INT64, rows, width: None, chunk_rows: rows, fill: FillValue::int(0), attributes: Object::new() } }
}
impl CellSink {
    pub(crate) fn put(&self, key: &ChunkKey, payload: Bytes) -> Result<(), StoreError> {
        if payload.is_empty() { return Ok(()); }
        let path = zvf_format::key::ChunkPath::of(key, &self.plan.low)?;
        put(&self.files, format!("{}/{path}", self.path), zvf_format::vlen::encode_cell(&payload)?);
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push(*key);
        Ok(())
    }
    pub(crate) async fn finish(self, _: impl FnOnce(&mut Object)) -> Result<(), StoreError> {
        let shape: Vec<u64> = self.plan.low.iter().zip(&self.plan.high).map(|(l, h)| h.abs_diff(*l).saturating_add(1)).collect();
        let ones = vec![1; self.plan.rank];
        let mut doc = ArrayDoc::new(shape, ones, DataType::variable_length_bytes());
        doc.codecs.push(Codec::vlen_bytes());
        doc.attributes = self.plan.attributes.clone();
        if self.plan.low.iter().any(|n| *n != 0) { doc.attributes.insert("chunk_grid_origin".into(), self.plan.low.clone().into()); }
        let mut keys = std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
        keys.sort_by(ChunkKey::cmp_string);
        doc.nonempty_chunks = Some(keys.iter().map(ToString::to_string).collect());
        put(&self.files, format!("{}/zarr.json", self.path), doc.print());
        Ok(())
    }
}
impl RowSink {
    pub(crate) fn push(&mut self, row: Bytes) -> Result<(), StoreError> { self.rows.push(row); Ok(()) }
    pub(crate) async fn finish(self) -> Result<(), StoreError> {
        let chunk = self.plan.rows.clamp(1, 16384);
        for (i, rows) in self.rows.chunks(usize::try_from(chunk).unwrap_or(1)).enumerate() {
            let rows: Vec<&[u8]> = rows.iter().map(|r| &r[..]).collect();
            put(&self.files, format!("{}/c/{i}", self.path), zvf_format::vlen::encode_rows(&rows, u32::try_from(chunk).unwrap_or(1))?);
        }
        let mut doc = ArrayDoc::new(vec![self.plan.rows], vec![chunk], DataType::variable_length_bytes());
        doc.codecs.push(Codec::vlen_bytes());
        doc.attributes = self.plan.attributes;
        put(&self.files, format!("{}/zarr.json", self.path), doc.print());
        Ok(())
    }
}
impl DenseSink {
    pub(crate) fn push(&mut self, rows: &[u8]) -> Result<(), StoreError> { self.bytes.extend_from_slice(rows); Ok(()) }
    pub(crate) async fn finish(self) -> Result<(), StoreError> {
        let p = self.plan;
        let chunk = p.chunk_rows.max(1);
        let size = usize::try_from(p.dtype.size.saturating_mul(p.width.unwrap_or(1).into()).saturating_mul(chunk)).unwrap_or(1);
        let mut shape = vec![p.rows]; let mut cs = vec![chunk];
        if let Some(w) = p.width { shape.push(w.into()); cs.push(w.into()); }
        let tail = if p.width.is_some() { "/0" } else { "" };
        for (i, bytes) in self.bytes.chunks(size).enumerate() {
            let mut bytes = bytes.to_vec();
            bytes.resize(size, 0);
            put(&self.files, format!("{}/c/{i}{tail}", self.path), bytes);
        }
        let mut doc = ArrayDoc::new(shape, cs, DataType::number(p.dtype));
        doc.codecs.push(if p.dtype.size == 1 { Codec::single_bytes() } else { Codec::bytes() });
        doc.fill_value = p.fill; doc.attributes = p.attributes;
        put(&self.files, format!("{}/zarr.json", self.path), doc.print());
        let _ = to_u64(1);
        Ok(())
    }
}
