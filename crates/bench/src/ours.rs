//! The same work done by zvf, on handles that stay open: documents and indexes loaded, no cells kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use futures_executor::block_on;
use zvf_model::{Bounds, ObjectId};
use zvf_query::{Columns, Mode, Query, Reader};
use zvf_store::{OpenOptions, Store};

use crate::work::{Ask, Work};

/// Open handles.
#[derive(Debug)]
pub(crate) struct Ours {
    stores: PathBuf,
    readers: BTreeMap<&'static str, (Store, Reader)>,
}

impl Ours {
    /// Over the stores in a folder; nothing is opened yet.
    pub(crate) fn new(stores: &Path) -> Self {
        Self { stores: stores.to_owned(), readers: BTreeMap::new() }
    }

    /// Opens the store and has it load what describes it.
    pub(crate) fn warm(&mut self, work: &Work) -> anyhow::Result<()> {
        if !self.readers.contains_key(work.store) {
            let path = self.stores.join(format!("{}.zarrvectors", work.store));
            let path = path.to_str().context("a folder whose name is not UTF-8")?;
            let store = block_on(Store::open(path, OpenOptions::default()))?;
            self.readers.insert(work.store, (store.clone(), Reader::new(store)));
        }
        for query in queries(work)? {
            block_on(self.open(work)?.1.run(&query))?;
        }
        Ok(())
    }

    /// How many rows the work gives.
    pub(crate) fn count(&self, work: &Work) -> anyhow::Result<u64> {
        let mut count = 0;
        for query in queries(work)? {
            count += block_on(self.open(work)?.1.run(&query))?.batch.len() as u64;
        }
        Ok(count)
    }

    /// Does the work once; the seconds it took. Cells that were decoded before are let go of before the
    /// clock starts, and what planning needs is read again.
    pub(crate) fn run(&self, work: &Work) -> anyhow::Result<f64> {
        let (queries, (store, reader)) = (queries(work)?, self.open(work)?);
        if matches!(&work.ask, Ask::Boxes { boxes, .. } if boxes.len() > 1) {
            store.clear_cache();
            for query in &queries {
                block_on(reader.plan(query))?;
            }
        }
        let start = Instant::now();
        for query in &queries {
            std::hint::black_box(block_on(reader.run(query))?);
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn open(&self, work: &Work) -> anyhow::Result<&(Store, Reader)> {
        self.readers.get(work.store).context("a store that was not opened")
    }
}

fn queries(work: &Work) -> anyhow::Result<Vec<Query>> {
    // A single question leaves nothing behind; questions that overlap may use what the first ones read.
    let once = !matches!(&work.ask, Ask::Boxes { boxes, .. } if boxes.len() > 1);
    let no_columns = |query: Query| {
        let query = query.columns(Columns::None);
        if once { query.uncached() } else { query }
    };
    match &work.ask {
        Ask::Boxes { boxes, whole } => boxes
            .iter()
            .map(|[low, high]| {
                let mode = if *whole { Mode::Cells } else { Mode::Inside };
                Ok(no_columns(Query::within(Bounds::new(low, high)?).mode(mode)))
            })
            .collect(),
        Ask::Objects(ids) => Ok(vec![no_columns(Query::objects(ids.iter().map(|id| ObjectId(*id))))]),
        Ask::Scan(names) => {
            let names = names.iter().map(|name| (*name).into()).collect();
            Ok(vec![Query::all().columns(Columns::Named(names)).uncached()])
        }
    }
}
