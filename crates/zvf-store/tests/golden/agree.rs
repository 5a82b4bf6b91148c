//! A directory and an object store give the same answers, and partial reads agree with full reads.

use std::ops::Range;

use bytes::Bytes;
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_metadata::LayoutFamily;
use zvf_store::{Caching, Cells, DenseArray, Rows, Store};

use crate::walk::{Found, Kind, arrays};
use archives::{Unpacked, files, ids, in_memory, inline};

/// A deterministic pseudo-random generator.
struct Dice(u64);

impl Dice {
    fn next_below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if n == 0 { 0 } else { self.0 % n }
    }

    fn range(&mut self, n: u64) -> Range<u64> {
        let (a, b) = (self.next_below(n + 1), self.next_below(n + 1));
        a.min(b)..a.max(b)
    }
}

/// Reads everything in an array, fully and in parts, and checks that they agree.
async fn contents(store: &Store, found: &Found, dice: &mut Dice) -> Vec<Option<Bytes>> {
    let level = found
        .path
        .split_once('/')
        .and_then(|(level, name)| Some((level.parse::<u32>().ok()?, name.to_owned())));
    match (found.kind, level) {
        (Kind::Cells, Some((level, name))) => {
            let level = store.level(level).await.unwrap();
            cells(&level.cells(&name).await.unwrap().unwrap(), dice).await
        }
        (Kind::Cells, None) => panic!("{} is below no level", found.path),
        (Kind::Rows, _) => {
            rows(&store.nodes().rows(&found.path).await.unwrap().unwrap(), dice).await
        }
        (Kind::Dense, _) => {
            dense(&store.nodes().dense(&found.path).await.unwrap().unwrap(), dice).await
        }
    }
}

async fn cells(cells: &Cells, dice: &mut Dice) -> Vec<Option<Bytes>> {
    let keys: Vec<ChunkKey> = cells.presence().await.unwrap().iter().collect();
    // Parts are read first, so that they cannot come from the cache.
    let random_reads: Vec<(ChunkKey, Vec<Range<u64>>)> =
        keys.iter().map(|key| (*key, vec![0..0, dice.range(40), dice.range(40)])).collect();
    let first = cells.read_parts(&random_reads).await;
    let sizes = cells.sizes(&keys).await;
    let payloads: Vec<Option<Bytes>> =
        cells.read_many(&keys, Caching::Keep).await.into_iter().map(Result::unwrap).collect();
    for ((payload, size), (first, (key, ranges))) in
        payloads.iter().zip(sizes).zip(first.into_iter().zip(&random_reads))
    {
        let payload = payload.as_ref().unwrap();
        assert_eq!(size.unwrap(), Some(payload.len() as u64), "{key}");
        let slices: Option<Vec<Bytes>> = ranges
            .iter()
            .map(|r| (r.end <= payload.len() as u64).then(|| slice(payload, r)))
            .collect();
        match slices {
            Some(slices) => assert_eq!(first.unwrap().unwrap(), slices, "{key} {ranges:?}"),
            None => assert_eq!(first.unwrap_err().class(), Class::OutOfBounds, "{key} {ranges:?}"),
        }
    }
    let bounded_reads: Vec<(ChunkKey, Vec<Range<u64>>)> = keys
        .iter()
        .zip(&payloads)
        .map(|(key, payload)| {
            let len = payload.as_ref().unwrap().len() as u64;
            (*key, (0..4).map(|_| dice.range(len)).collect())
        })
        .collect();
    for ((parts, payload), (key, ranges)) in
        cells.read_parts(&bounded_reads).await.into_iter().zip(&payloads).zip(&bounded_reads)
    {
        let payload = payload.as_ref().unwrap();
        let slices: Vec<Bytes> = ranges.iter().map(|range| slice(payload, range)).collect();
        assert_eq!(parts.unwrap().unwrap(), slices, "{} {key} {ranges:?}", cells.path());
    }
    for (key, payload) in keys.iter().zip(&payloads) {
        assert_eq!(cells.read_raw(key).await.unwrap(), *payload, "{key}");
    }
    // For the neighbour of every present key, the table states whether it is present.
    let table = cells.presence().await.unwrap();
    for key in &keys {
        let mut neighbour = key.components().to_vec();
        neighbour[0] += 1;
        let neighbour = ChunkKey::new(&neighbour).unwrap();
        let is_present = cells.read(&neighbour, Caching::Once).await.unwrap().is_some();
        assert_eq!(is_present, table.find(&neighbour).is_some(), "{} {neighbour}", cells.path());
    }
    payloads
}

async fn rows(rows: &Rows, dice: &mut Dice) -> Vec<Option<Bytes>> {
    let len = rows.count().await.unwrap();
    let all_rows = rows.range(0..len).await.unwrap();
    let places: Vec<u64> = (0..len.min(9)).map(|_| dice.next_below(len)).collect();
    let expected: Vec<Bytes> =
        places.iter().map(|&place| all_rows[place as usize].clone()).collect();
    assert_eq!(rows.rows(&places).await.unwrap(), expected, "{}", rows.path());
    assert_eq!(rows.rows(&[len]).await.unwrap_err().class(), Class::OutOfBounds);
    all_rows.into_iter().map(Some).collect()
}

async fn dense(dense: &DenseArray, dice: &mut Dice) -> Vec<Option<Bytes>> {
    let len = dense.len();
    let rows_read_first = dice.range(len);
    let part = dense.rows(rows_read_first.clone()).await.unwrap();
    let content = dense.read_all().await.unwrap();
    let row = content.len() as u64 / len.max(1);
    let bytes = |rows: &Range<u64>| slice(&content, &(rows.start * row..rows.end * row));
    assert_eq!(part, bytes(&rows_read_first), "{} {rows_read_first:?}", dense.path());
    for _ in 0..3 {
        let range = dice.range(len);
        let rows = dense.rows(range.clone()).await.unwrap();
        assert_eq!(rows, bytes(&range), "{} {range:?}", dense.path());
    }
    let places: Vec<u64> = (0..len.min(9)).map(|_| dice.next_below(len)).collect();
    let expected: Vec<Bytes> = places.iter().map(|&place| bytes(&(place..place + 1))).collect();
    assert_eq!(dense.take(&places).await.unwrap(), expected.concat(), "{}", dense.path());
    assert_eq!(dense.rows(0..len + 1).await.unwrap_err().class(), Class::OutOfBounds);
    vec![Some(content)]
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> Bytes {
    bytes.slice(range.start as usize..range.end as usize)
}

#[test]
fn a_directory_and_an_object_store_agree_on_every_array() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut count = 0;
    for id in ids() {
        let files = files(&id);
        let unpacked = Unpacked::from_files(&files);
        let local = inline(unpacked.open());
        let remote = runtime.block_on(async {
            let memory = in_memory(&files).await;
            Store::from_object_store(memory, &"".into(), Default::default()).await.unwrap()
        });
        for found in arrays(&files, local.family() == LayoutFamily::C) {
            let context = format!("{id} {}", found.path);
            let local_contents = inline(contents(&local, &found, &mut Dice(count + 1)));
            // Spawned to show that the futures may move between threads.
            let (remote, remote_found, seed) = (remote.clone(), found.clone(), count + 1);
            let task = async move { contents(&remote, &remote_found, &mut Dice(seed)).await };
            let remote_contents = runtime.block_on(runtime.spawn(task)).unwrap();
            assert!(local_contents == remote_contents, "{context}");
            count += 1;
        }
    }
    assert!(count > 1800, "{count} arrays");
}
