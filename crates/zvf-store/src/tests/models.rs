//! Models of shared state, run by `cargo xtask loom` under every interleaving: the cache with its
//! flights, the budget, and the memory of a build.
//!
//! They are small and use the real types. A step ends where a lock is taken or an atomic is
//! accessed. The work of tokio's semaphores and channels in between is one step, because tokio
//! model-checks these itself. A model that deadlocks fails.
//!
//! Not here: streams, which have models in `zvf-query`.

use std::pin::pin;

use bytes::Bytes;
use futures_util::future::poll_immediate;
use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::thread;

use crate::OpenOptions;
use crate::budget::Budget;
use crate::build::MemoryLimiter;
use crate::cache::{Answer, Cache, Caching};

/// Runs `model` under every interleaving with at most three preemptions.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(model);
}

fn budget(kib: u64) -> Budget {
    let options = OpenOptions { budget_bytes: kib << 10, cache_bytes: 0, ..OpenOptions::default() };
    Budget::new(&options)
}

#[test]
fn a_budget_is_never_exceeded_and_every_wait_ends() {
    check(|| {
        let (budget, held) = (budget(3), Arc::new(AtomicU64::new(0)));
        let users = [2, 2].map(|kib| {
            let (budget, held) = (budget.clone(), Arc::clone(&held));
            thread::spawn(move || hold(&budget, &held, kib))
        });
        hold(&budget, &held, 1);
        for user in users {
            user.join().unwrap();
        }
        assert_eq!(budget.free_bytes(), 3 << 10);
    });
}

/// Holds `kib` for a moment; all threads together may hold three.
fn hold(budget: &Budget, held: &AtomicU64, kib: u64) {
    let reserved = block_on(budget.reserve(kib << 10)).unwrap();
    let now = held.fetch_add(kib, Ordering::SeqCst) + kib;
    assert!(now <= 3, "{now}");
    held.fetch_sub(kib, Ordering::SeqCst);
    drop(reserved);
}

#[test]
fn cancelled_reservations_let_others_pass() {
    check(|| {
        let budget = budget(3);
        let first = block_on(budget.reserve(3 << 10)).unwrap();
        let (one, two) = (budget.clone(), budget.clone());
        let gives_up = thread::spawn(move || {
            let mut waiting = pin!(one.reserve(2 << 10));
            block_on(async {
                drop(poll_immediate(waiting.as_mut()).await);
                thread::yield_now();
            });
        });
        let waits = thread::spawn(move || drop(block_on(two.reserve(1 << 10)).unwrap()));
        assert!(budget.try_reserve(3 << 10).unwrap().is_none());
        drop(first);
        gives_up.join().unwrap();
        waits.join().unwrap();
        assert_eq!(budget.free_bytes(), 3 << 10);
    });
}

/// Requests `slots` from the cache; `fetched` counts how often each number was fetched.
fn ask(cache: &Cache, slots: [u64; 2], fetched: &[AtomicUsize; 3]) {
    let asked = slots.map(Some);
    let fetch = |places: Vec<usize>| async move {
        let answer = |at: usize| {
            let slot = usize::try_from(slots[at]).unwrap();
            fetched[slot].fetch_add(1, Ordering::SeqCst);
            Ok(Some(Bytes::from(vec![u8::try_from(slot).unwrap()])))
        };
        places.into_iter().map(answer).collect::<Vec<Answer>>()
    };
    let answers = block_on(cache.read_many(1, &asked, Caching::Keep, fetch));
    for (slot, answer) in slots.iter().zip(answers) {
        assert_eq!(answer.unwrap().unwrap(), [u8::try_from(*slot).unwrap()][..]);
    }
}

#[test]
fn two_batches_that_overlap_fetch_everything_once() {
    check(|| {
        let cache = Arc::new(Cache::new(1 << 20));
        let fetched = Arc::new([0; 3].map(AtomicUsize::new));
        let handle = {
            let (cache, fetched) = (Arc::clone(&cache), Arc::clone(&fetched));
            thread::spawn(move || ask(&cache, [2, 1], &fetched))
        };
        ask(&cache, [1, 2], &fetched);
        handle.join().unwrap();
        let counts = fetched.each_ref().map(|count| count.load(Ordering::SeqCst));
        assert_eq!(counts, [0, 1, 1]);
    });
}

#[test]
fn a_fetch_that_is_dropped_is_done_by_whoever_waits() {
    check(|| {
        let cache = Arc::new(Cache::new(1 << 20));
        let drops = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                let never = |_| std::future::pending::<Vec<Answer>>();
                let mut read =
                    Box::pin(cache.read_many(1, &[Some(1), Some(2)], Caching::Keep, never));
                block_on(async { drop(poll_immediate(read.as_mut()).await) });
                thread::yield_now();
                drop(read);
            })
        };
        // In the end nobody holds the bytes of the other one.
        let fetched = [0; 3].map(AtomicUsize::new);
        ask(&cache, [2, 1], &fetched);
        drops.join().unwrap();
        let counts = fetched.each_ref().map(|count| count.load(Ordering::SeqCst));
        assert_eq!(counts, [0, 1, 1]);
    });
}

#[test]
fn fetches_before_a_clear_are_not_answered_after_it() {
    check(|| {
        let cache = Arc::new(Cache::new(1 << 20));
        let version = Arc::new(AtomicU64::new(0));
        let read = |cache: &Cache, version: &AtomicU64| {
            let fetch = |_| async {
                let found = version.load(Ordering::SeqCst);
                thread::yield_now();
                vec![Ok(Some(Bytes::copy_from_slice(&found.to_le_bytes())))]
            };
            let mut answers = block_on(cache.read_many(1, &[Some(7)], Caching::Keep, fetch));
            answers.pop().unwrap().unwrap().unwrap()
        };
        let early = {
            let (cache, version) = (Arc::clone(&cache), Arc::clone(&version));
            thread::spawn(move || drop(read(&cache, &version)))
        };
        version.store(1, Ordering::SeqCst);
        cache.clear();
        for _ in 0..2 {
            assert_eq!(read(&cache, &version), 1_u64.to_le_bytes()[..]);
        }
        early.join().unwrap();
        assert_eq!(read(&cache, &version), 1_u64.to_le_bytes()[..]);
    });
}

#[test]
fn threads_wait_for_bytes_in_flight() {
    check(|| {
        let room = MemoryLimiter::new(100, true);
        let leaving = room.acquire_blocking(80);
        let (passes, keeps) = (room.clone(), room.clone());
        let passes = thread::spawn(move || drop(passes.acquire_blocking(50)));
        let keeps = thread::spawn(move || keeps.try_acquire(40).map(drop));
        drop(leaving);
        passes.join().unwrap();
        keeps.join().unwrap().unwrap();
        assert_eq!(room.held_bytes(), 0);
    });
}

#[test]
fn tasks_wait_for_bytes_in_flight() {
    check(|| {
        let room = MemoryLimiter::new(100, false);
        let leaving = room.acquire_blocking(80);
        let shared_room = room.clone();
        let waits = thread::spawn(move || drop(block_on(shared_room.acquire(50))));
        drop(leaving);
        waits.join().unwrap();
        assert_eq!(room.held_bytes(), 0);
    });
}
