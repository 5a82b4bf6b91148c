//! A store made of arbitrary bytes, and every question that can be asked of one.
//!
//! ```text
//! repeated:  u16 length of the key, the key, u32 length of the object, the object; little-endian
//! ```
//!
//! A length past the end means the rest, so that nearly any bytes are a store. Keys that are no UTF-8 or no
//! path end it.

use std::sync::Arc;

use futures_util::StreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};
use tokio::runtime::Builder;
use zvf_model::{Bounds, LevelId, ObjectId};
use zvf_query::{Mode, Order, Query, Reader};
use zvf_store::{OpenOptions, Store};

/// Opens the store that `bytes` describe and asks it everything. Nothing may panic, and memory follows the
/// budget.
pub(crate) fn ask(bytes: &[u8]) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let memory = InMemory::new();
        let mut rest = bytes;
        while let Some((key, object)) = next_object(&mut rest) {
            let Ok(path) = Path::parse(key) else { break };
            let payload = PutPayload::from(object.to_vec());
            if memory.put(&path, payload).await.is_err() {
                break;
            }
        }
        let options =
            OpenOptions { budget_bytes: 8 << 20, cache_bytes: 1 << 20, ..OpenOptions::default() };
        let opened = Store::from_object_store(Arc::new(memory), &Path::default(), options).await;
        if let Ok(store) = opened {
            ask_everything(&Reader::new(store)).await;
        }
    });
}

fn next_object<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, &'a [u8])> {
    let mut take = |len: usize| {
        let (head, tail) = rest.split_at(len.min(rest.len()));
        *rest = tail;
        head
    };
    let len = u16::from_le_bytes(take(2).try_into().ok()?);
    let key = std::str::from_utf8(take(len.into())).ok()?;
    let len = u32::from_le_bytes(take(4).try_into().ok()?);
    Some((key, take(usize::try_from(len).ok()?)))
}

async fn ask_everything(reader: &Reader) {
    let axes = reader.store().root().axes().len();
    let mut queries = vec![
        Query::all(),
        Query::all().limit(3).with_owners().with_places(),
        Query::all().order(Order::Storage),
        Query::all().order(Order::Objects).allow_missing(),
        Query::all().of_objects([0, 1, i64::MAX].map(ObjectId)),
        Query::all().in_groups([0]),
    ];
    let conditions = ["x > 1", "v > 1", "fragment.code = 1", "object.size > 1", "link.w > 1"];
    let parsed = conditions.iter().filter_map(|text| text.parse().ok());
    queries.extend(parsed.map(|condition| Query::all().filter(condition)));
    if let Ok(bounds) = Bounds::new(&vec![-3.5; axes], &vec![9.5; axes]) {
        queries.extend(Mode::ALL.iter().map(|&mode| Query::all().in_region(bounds).mode(mode)));
    }
    for query in queries {
        drop(reader.run(&query).await);
        drop(reader.plan(&query).await);
        drop(reader.count(&query).await);
        let mut batches = reader.stream(query);
        while let Some(Ok(_)) = batches.next().await {}
    }
    drop(reader.statistics(LevelId(0), None).await);
    drop(reader.object_rows(LevelId(0), ObjectId(0)).await);
}
