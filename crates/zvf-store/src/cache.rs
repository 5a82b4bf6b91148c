//! Caches decoded cells and index rows up to a number of bytes; concurrent requests share one fetch
//! (single flight).
//!
//! A batch requests many slots. Cached slots are returned at once. The batch waits for slots that
//! another batch is fetching; it fetches the rest itself and hands the results, including errors,
//! to all waiting batches. Errors are not cached. A batch fetches before it waits, so two batches
//! that need each other's cells cannot block each other. If a fetch is dropped halfway, the waiting
//! batches fetch themselves.
//!
//! Eviction is CLOCK (second chance): the oldest entry is evicted, unless it was used since it was
//! last examined. An entry is charged for its bytes and a small overhead. It never keeps a larger
//! buffer alive than it is charged for, unless it is the only owner.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected};

use crate::sync::{Mutex, MutexGuard};

/// One cacheable item: an array and a slot of it, both numbered by the handle.
type Slot = (u32, u64);

/// Whether decoded data is cached.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// use zvf_format::key::ChunkKey;
/// use zvf_store::Caching;
///
/// let vertices = store.level(0).await?.required_cells("vertices").await?;
/// let key = "0.0".parse::<ChunkKey>()?;
/// vertices.read(&key, Caching::Once).await?;
/// assert_eq!(store.cached_bytes(), 0);
/// vertices.read(&key, Caching::Keep).await?;
/// assert!(store.cached_bytes() > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caching {
    /// It is cached while there is room: for chunks that will be needed again.
    Keep,
    /// It is not cached: for one pass over everything. Existing entries are used.
    Once,
}

/// The cache of one handle.
#[derive(Debug)]
pub(crate) struct Cache {
    max_bytes: u64,
    state: Mutex<CacheState>,
}

/// The result of a fetch for one slot; `None` if nothing is stored.
pub(crate) type Answer = Result<Option<Bytes>>;

#[derive(Debug, Default)]
struct CacheState {
    entries: HashMap<Slot, Entry>,
    /// Every entry once, in the order of examination for eviction.
    order: VecDeque<Slot>,
    bytes: u64,
    flights: HashMap<Slot, Flight>,
    /// Number of times that the cache was cleared.
    age: u64,
}

#[derive(Debug)]
struct Entry {
    bytes: Option<Bytes>,
    used: bool,
}

impl Cache {
    /// Returns a cache of at most `max_bytes`; with 0 it keeps nothing, but concurrent requests
    /// still share a fetch.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { max_bytes, state: Mutex::default() }
    }

    /// Returns the content of each of `slots` of array number `array`, in order; `None` slots are
    /// always fetched. `fetch` gets positions in `slots` and returns an answer for each, in that
    /// order. It may be called more than once, but never twice for the same position. It is not an
    /// `AsyncFn`, because the futures of those cannot be bounded by `Send`.
    pub(crate) async fn read_many<F: Future<Output = Vec<Answer>>>(
        &self,
        array: u32,
        slots: &[Option<u64>],
        caching: Caching,
        fetch: impl Fn(Vec<usize>) -> F,
    ) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = vec![None; slots.len()];
        loop {
            let (claims, waits) = self.sort(array, slots, &mut answers);
            if !claims.claimed.is_empty() {
                let places: Vec<usize> = claims.claimed.iter().map(|claim| claim.at).collect();
                let count = places.len();
                let mut fetched = fetch(places).await;
                let found = fetched.len();
                fetched.resize_with(count, || Err(too_few_error(count, found)));
                claims.publish(fetched, caching, &mut answers);
            }
            let mut abandoned = false;
            for (at, mut flight) in waits {
                // Fails if the fetching batch was dropped; then this batch fetches.
                match flight.batch.wait_for(Option::is_some).await {
                    Ok(batch) => {
                        let batch = batch.as_ref().expect("the batch is there");
                        answers[at] = Some(batch[flight.at].clone());
                    }
                    Err(_) => abandoned = true,
                }
            }
            if !abandoned {
                break;
            }
        }
        let answers = answers.into_iter();
        answers.map(|answer| answer.expect("each slot was held, fetched or waited for")).collect()
    }

    /// Evicts everything; results of fetches in flight are still returned, but not cached.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        let age = state.age.wrapping_add(1);
        *state = CacheState { age, ..CacheState::default() };
    }

    /// Returns the number of bytes charged now.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    /// Returns cached slots, and divides the rest into those to fetch and those in flight.
    fn sort<'a>(
        &'a self,
        array: u32,
        slots: &[Option<u64>],
        answers: &mut [Option<Answer>],
    ) -> (Claims<'a>, Waits) {
        let mut state = self.state();
        let mut claims = Claims { cache: self, age: state.age, claimed: Vec::new(), sender: None };
        let mut waits = Vec::new();
        for (at, (slot, answer)) in slots.iter().zip(answers).enumerate() {
            let slot = slot.map(|slot| (array, slot));
            if answer.is_some() {
                continue;
            }
            match slot.map_or(Lookup::Nothing, |slot| state.find(slot)) {
                Lookup::Held(bytes) => *answer = Some(Ok(bytes)),
                Lookup::Flight(flight) => waits.push((at, flight)),
                Lookup::Nothing => {
                    if let Some(slot) = slot {
                        let sender = claims.sender.get_or_insert_with(|| watch::Sender::new(None));
                        let flight = Flight { batch: sender.subscribe(), at: claims.claimed.len() };
                        state.flights.insert(slot, flight);
                    }
                    claims.claimed.push(Claim { at, slot });
                }
            }
        }
        (claims, waits)
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        // Nothing here panics between two related changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answers of a batch, once they exist.
type Batch = Option<Arc<[Answer]>>;

/// A fetch in flight: the position of an answer in a batch.
#[derive(Clone, Debug)]
struct Flight {
    batch: watch::Receiver<Batch>,
    at: usize,
}

type Waits = Vec<(usize, Flight)>;

/// The state of a slot: cached, being fetched, or neither.
enum Lookup {
    Held(Option<Bytes>),
    Flight(Flight),
    Nothing,
}

/// The slots that one batch fetches. If dropped early, the next batch can fetch them.
struct Claims<'a> {
    cache: &'a Cache,
    age: u64,
    claimed: Vec<Claim>,
    /// For waiting batches; `None` if no claim has a slot.
    sender: Option<watch::Sender<Batch>>,
}

struct Claim {
    at: usize,
    /// Without a slot, no batch waits for it.
    slot: Option<Slot>,
}

impl Claims<'_> {
    /// Hands `fetched` to waiting batches, and caches what may be cached.
    fn publish(mut self, fetched: Vec<Answer>, caching: Caching, answers: &mut [Option<Answer>]) {
        let mut state = self.cache.state();
        // After a clear, the slots may belong to another batch.
        let current = state.age == self.age;
        let keep = current && caching == Caching::Keep;
        let claimed = std::mem::take(&mut self.claimed);
        for (claim, answer) in claimed.iter().zip(&fetched) {
            let Some(slot) = claim.slot else { continue };
            if current {
                state.flights.remove(&slot);
            }
            if keep && let Ok(bytes) = answer {
                state.insert(slot, bytes.as_ref(), self.cache.max_bytes);
            }
        }
        // The flights are removed, so whoever holds a receiver now is waiting.
        if let Some(sender) = self.sender.take().filter(|sender| sender.receiver_count() > 0) {
            sender.send_replace(Some(fetched.clone().into()));
        }
        for (claim, answer) in claimed.into_iter().zip(fetched) {
            answers[claim.at] = Some(answer);
        }
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        if self.claimed.is_empty() {
            return;
        }
        let mut state = self.cache.state();
        if state.age == self.age {
            for slot in self.claimed.iter().filter_map(|claim| claim.slot) {
                state.flights.remove(&slot);
            }
        }
    }
}

impl CacheState {
    fn find(&mut self, slot: Slot) -> Lookup {
        if let Some(entry) = self.entries.get_mut(&slot) {
            entry.used = true;
            return Lookup::Held(entry.bytes.clone());
        }
        // A flight whose owner was dropped has no answer.
        match self.flights.get(&slot).filter(|flight| flight.batch.has_changed().is_ok()) {
            Some(flight) => Lookup::Flight(flight.clone()),
            None => Lookup::Nothing,
        }
    }

    fn insert(&mut self, slot: Slot, bytes: Option<&Bytes>, max_bytes: u64) {
        let weight = weight(bytes);
        if weight > max_bytes {
            return;
        }
        // A part of a larger buffer that others hold would keep all of it alive.
        let owned_copy = |bytes: &Bytes| {
            if bytes.is_unique() { bytes.clone() } else { Bytes::copy_from_slice(bytes) }
        };
        let entry = Entry { bytes: bytes.map(owned_copy), used: false };
        match self.entries.insert(slot, entry) {
            Some(old) => {
                self.bytes -= self::weight(old.bytes.as_ref());
            }
            None => self.order.push_back(slot),
        }
        self.bytes += weight;
        while self.bytes > max_bytes {
            let oldest = self.order.pop_front().expect("each entry has a place in the order");
            let entry = self.entries.get_mut(&oldest).expect("the order is that of the entries");
            if std::mem::take(&mut entry.used) {
                self.order.push_back(oldest);
                continue;
            }
            self.bytes -= self::weight(entry.bytes.as_ref());
            self.entries.remove(&oldest);
        }
    }
}

/// Returns the charge of an entry: its bytes, and an estimate of the map overhead.
fn weight(bytes: Option<&Bytes>) -> u64 {
    to_u64(bytes.map_or(0, Bytes::len)) + ENTRY_OVERHEAD_BYTES
}

fn too_few_error(expected: usize, found: usize) -> Error {
    let expected = Expected::AtLeast(to_u64(expected).into());
    Error::new(Class::CountMismatch, "answers of a batch", expected, found)
}

const ENTRY_OVERHEAD_BYTES: u64 = 128;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::Caching::{Keep, Once};
    use super::*;

    fn slots(numbers: impl IntoIterator<Item = u64>) -> Vec<Option<u64>> {
        numbers.into_iter().map(Some).collect()
    }

    /// Returns the content of a slot: absent every tenth, an error at 13, otherwise its number.
    fn slot_content(slot: Option<u64>) -> Answer {
        match slot.unwrap() {
            13 => Err(Error::limit("thirteen", 1, 13)),
            n if n % 10 == 0 => Ok(None),
            n => Ok(Some(Bytes::from(n.to_string().into_bytes()))),
        }
    }

    fn to_texts(answers: &[Answer]) -> Vec<String> {
        let to_text = |answer: &Answer| match answer {
            Ok(Some(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            Ok(None) => "absent".to_owned(),
            Err(error) => error.class().to_string(),
        };
        answers.iter().map(to_text).collect()
    }

    /// Reads `numbers`, and returns the answers and the fetched numbers.
    async fn read_slots(cache: &Cache, keep: Caching, numbers: &[u64]) -> (Vec<String>, Vec<u64>) {
        let slots = slots(numbers.iter().copied());
        let fetched = Mutex::new(Vec::new());
        let answers = cache
            .read_many(1, &slots, keep, |places| {
                fetched.lock().unwrap().extend(places.iter().filter_map(|at| slots[*at]));
                std::future::ready(places.into_iter().map(|at| slot_content(slots[at])).collect())
            })
            .await;
        (to_texts(&answers), fetched.into_inner().unwrap())
    }

    fn all<T: ToString>(numbers: &[T]) -> Vec<String> {
        numbers.iter().map(T::to_string).collect()
    }

    #[tokio::test]
    async fn held_slots_are_not_fetched() {
        let cache = Cache::new(1 << 20);
        let yes = Keep;
        assert_eq!(read_slots(&cache, yes, &[]).await, (vec![], vec![]));
        assert_eq!(read_slots(&cache, yes, &[1, 2]).await, (all(&[1, 2]), vec![1, 2]));
        assert_eq!(read_slots(&cache, yes, &[3, 2, 1]).await, (all(&[3, 2, 1]), vec![3]));
        assert_eq!(read_slots(&cache, yes, &[4, 4, 4]).await, (all(&[4, 4, 4]), vec![4]));
        let absent = all(&["absent"]);
        assert_eq!(read_slots(&cache, yes, &[10]).await, (absent.clone(), vec![10]));
        assert_eq!(read_slots(&cache, yes, &[10]).await, (absent, vec![]));
        let refused = all(&["LimitExceeded"]);
        assert_eq!(read_slots(&cache, yes, &[13]).await, (refused.clone(), vec![13]));
        assert_eq!(read_slots(&cache, yes, &[13]).await, (refused, vec![13]));
        assert_eq!(read_slots(&cache, Once, &[5, 1]).await, (all(&[5, 1]), vec![5]));
        assert_eq!(read_slots(&cache, yes, &[5]).await, (all(&[5]), vec![5]));
        assert_eq!(cache.bytes(), 5 + 6 * ENTRY_OVERHEAD_BYTES);
        cache.clear();
        assert_eq!(cache.bytes(), 0);
        assert_eq!(read_slots(&cache, yes, &[1]).await, (all(&[1]), vec![1]));
    }

    #[tokio::test]
    async fn two_arrays_do_not_share_slots() {
        let cache = Cache::new(1 << 20);
        for array in [1, 2] {
            let fetch =
                |_| async move { vec![Ok(Some(Bytes::from(array.to_string().into_bytes())))] };
            let answers = cache.read_many(array, &[Some(7)], Keep, fetch).await;
            assert_eq!(to_texts(&answers), [array.to_string()]);
        }
    }

    #[tokio::test]
    async fn evicts_the_oldest_unused_entry() {
        let cache = Cache::new(3 * (ENTRY_OVERHEAD_BYTES + 1));
        for n in [1, 2, 3] {
            read_slots(&cache, Keep, &[n]).await;
        }
        read_slots(&cache, Keep, &[1]).await;
        read_slots(&cache, Keep, &[4]).await; // 1 was used, so 2 is evicted
        assert_eq!(cache.bytes(), 3 * (ENTRY_OVERHEAD_BYTES + 1));
        assert_eq!(read_slots(&cache, Once, &[1, 2, 3, 4]).await.1, [2]);
        for max_bytes in [0, ENTRY_OVERHEAD_BYTES] {
            let none = Cache::new(max_bytes);
            assert_eq!(read_slots(&none, Keep, &[1]).await.1, [1]);
            assert_eq!((read_slots(&none, Keep, &[1]).await.1, none.bytes()), (vec![1], 0));
        }
    }

    #[tokio::test]
    async fn a_small_part_does_not_keep_a_large_buffer() {
        let cache = Cache::new(1 << 20);
        let large = Bytes::from(vec![7; 1 << 20]);
        let part = large.slice(5..15);
        let slots = slots([1]);
        cache.read_many(1, &slots, Keep, |_| async { vec![Ok(Some(part.clone()))] }).await;
        drop(part);
        assert!(large.is_unique());
        let answers = cache.read_many(1, &slots, Keep, |_| async { vec![] }).await;
        assert_eq!(answers[0].as_ref().unwrap().as_ref().unwrap(), &[7; 10][..]);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_fetches_are_single_flight() {
        let cache = Arc::new(Cache::new(0));
        let fetches = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..20_u64)
            .map(|i| {
                let (cache, fetches) = (Arc::clone(&cache), Arc::clone(&fetches));
                tokio::spawn(async move {
                    // Neighbours overlap and request in opposite orders.
                    let mut slots = slots([1, 2, 3, 13, 4 + i % 3]);
                    if i % 2 == 0 {
                        slots.reverse();
                    }
                    let answers = cache
                        .read_many(1, &slots, Keep, |places| {
                            fetches.fetch_add(places.len(), Ordering::Relaxed);
                            let answers =
                                places.into_iter().map(|at| slot_content(slots[at])).collect();
                            async {
                                tokio::time::sleep(Duration::from_millis(10)).await;
                                answers
                            }
                        })
                        .await;
                    let expected: Vec<_> = slots.iter().map(|slot| slot_content(*slot)).collect();
                    assert_eq!(to_texts(&answers), to_texts(&expected));
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(9), task).await.unwrap().unwrap();
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 4 + 3);
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_of_a_dropped_fetch_fetch_themselves() {
        let cache = Arc::new(Cache::new(1 << 20));
        let hanging = tokio::spawn({
            let cache = Arc::clone(&cache);
            async move {
                let pending_fetch = |_| std::future::pending::<Vec<Answer>>();
                cache.read_many(1, &slots([1, 2]), Keep, pending_fetch).await;
            }
        });
        tokio::task::yield_now().await;
        let waiting = tokio::spawn({
            let cache = Arc::clone(&cache);
            async move { read_slots(&cache, Keep, &[2, 3]).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        hanging.abort();
        let answer = tokio::time::timeout(Duration::from_secs(9), waiting).await;
        assert_eq!(answer.unwrap().unwrap(), (all(&[2, 3]), vec![3, 2]));
        assert_eq!(read_slots(&cache, Keep, &[1, 2, 3]).await.1, [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn fetches_before_a_clear_are_not_kept() {
        let cache = Arc::new(Cache::new(1 << 20));
        let slow = tokio::spawn({
            let cache = Arc::clone(&cache);
            async move {
                let old = |_| async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    vec![Ok(Some(Bytes::from_static(b"old")))]
                };
                to_texts(&cache.read_many(1, &slots([1]), Keep, old).await)
            }
        });
        tokio::task::yield_now().await;
        cache.clear();
        // A request before the old fetch returns starts a new fetch.
        assert_eq!(read_slots(&cache, Keep, &[1]).await, (all(&[1]), vec![1]));
        assert_eq!(slow.await.unwrap(), ["old"]);
        assert_eq!(read_slots(&cache, Keep, &[1]).await, (all(&[1]), vec![]));
    }

    #[tokio::test]
    async fn requests_without_a_slot_are_always_fetched() {
        let cache = Cache::new(1 << 20);
        for _ in 0..2 {
            let fetch = |places: Vec<usize>| async move {
                assert_eq!(places, [0, 1]);
                vec![Ok(None), Ok(Some(Bytes::from_static(b"x")))]
            };
            let answers = cache.read_many(1, &[None, None], Keep, fetch).await;
            assert_eq!(to_texts(&answers), ["absent", "x"]);
        }
        assert_eq!(cache.bytes(), 0);
    }

    #[tokio::test]
    async fn a_fetch_that_answers_too_little_is_an_error() {
        let cache = Cache::new(0);
        let answers = cache.read_many(1, &slots([1, 2]), Keep, |_| async { vec![Ok(None)] }).await;
        assert_eq!(to_texts(&answers), ["absent", "CountMismatch"]);
    }

    #[test]
    fn threads_agree_on_every_slot() {
        let cache = Cache::new(40 * (ENTRY_OVERHEAD_BYTES + 2));
        std::thread::scope(|scope| {
            for seed in 0..4_u64 {
                let cache = &cache;
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    let mut x = seed;
                    for _ in 0..3000 {
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let numbers = [x >> 58, (x >> 50) & 63, (x >> 40) & 63];
                        let answers = runtime.block_on(read_slots(cache, Keep, &numbers)).0;
                        let expected: Vec<_> =
                            slots(numbers).into_iter().map(slot_content).collect();
                        assert_eq!(answers, to_texts(&expected));
                        assert!(cache.bytes() <= 40 * (ENTRY_OVERHEAD_BYTES + 2));
                    }
                });
            }
        });
        let state = cache.state();
        assert_eq!(state.order.len(), state.entries.len());
        assert!(state.flights.is_empty());
    }
}
