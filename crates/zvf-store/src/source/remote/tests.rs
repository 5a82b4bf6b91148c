//! Remote reads of a memory store with injected faults, on a virtual clock.

#[cfg(feature = "http")]
mod http;

use std::sync::Arc;
use std::time::Duration;

use archives::faults::{Fault, FaultStore, Request};
use object_store::path::Path;
use zvf_error::Result;
use zvf_format::Class;

use super::*;
use crate::options::Timeouts;
use crate::source::Origin;

const BODY: &[u8] = b"0123456789";

fn key(name: &str) -> Key {
    Key::root().join(name).unwrap()
}

fn at(start: u64, len: u64) -> Get {
    Get::range(key("a"), start, len)
}

fn remote(store: &Arc<FaultStore>, options: &OpenOptions) -> Remote {
    let store: Arc<dyn ObjectStore> = store.clone();
    Remote::new(Backend::new(store, Path::from("root")), Budget::new(options), options)
}

async fn stored() -> Arc<FaultStore> {
    let store = Arc::new(FaultStore::new());
    store.insert("root/a", BODY).await;
    store
}

async fn read_single(remote: &Remote, get: Get) -> Result<Option<GetAnswer>> {
    // The time limit for an answer on the virtual clock.
    let read = tokio::time::timeout(Duration::from_secs(60), remote.read_many(&[get])).await;
    read.expect("a read that hangs").pop().unwrap()
}

fn list_requests(requests: &[Request]) -> String {
    let to_text = |request: &Request| {
        let range = request.range.as_deref().unwrap_or("all").trim_start_matches("bytes=");
        format!("{} {range}{}", request.what, if request.conditional { " same" } else { "" })
    };
    requests.iter().map(to_text).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn an_empty_last_piece_does_not_replace_the_body() {
    let budget = Budget::new(&OpenOptions::default());
    let (version, bytes) = (Version::from_size(3), BytesMut::new());
    let _held = budget.reserve(3).await.unwrap();
    let mut part = ArrivingBody { range: 0..3, size: 3, version, tag: None, bytes, _held };
    let body = stream::iter([Ok(Bytes::from_static(b"abc")), Ok(Bytes::new())]).boxed();
    let body_of_part = part.fill(body, &AtomicU64::new(0)).await.unwrap().unwrap();
    assert_eq!(body_of_part.unwrap(), "abc");
}

/// Checks the answer and its requests when `faults` hit the first operations.
#[tokio::test(start_paused = true)]
async fn each_fault_ends_in_the_right_bytes_or_a_typed_error() {
    use Fault::*;
    let get_all = || Get::object(key("a"));
    let last = |n| Get::suffix(key("a"), n);
    let changed = || Changed(Bytes::from_static(b"abcdefghij"));
    type Row =
        (&'static str, Vec<Fault>, Get, Result<Option<&'static [u8]>, &'static str>, &'static str);
    #[rustfmt::skip]
    let table: Vec<Row> = vec![
        ("nothing wrong", vec![], get_all(), Ok(Some(BODY)), "get all"),
        ("a range", vec![], at(2, 3), Ok(Some(b"234")), "get 2-4"),
        ("a suffix", vec![], last(3), Ok(Some(b"789")), "get -3"),
        ("a suffix longer than the object", vec![], last(30), Ok(Some(BODY)), "get -30"),
        ("no bytes", vec![], at(4, 0), Ok(Some(b"")), "head all"),
        ("no last bytes", vec![], last(0), Ok(Some(b"")), "head all"),
        ("in pieces", vec![Pieces(3)], get_all(), Ok(Some(BODY)), "get all"),
        ("absent", vec![], Get::object(key("b")), Ok(None), "get all"),
        ("missing", vec![Missing], at(2, 3), Ok(None), "get 2-4"),
        ("missing at the size", vec![Missing], at(4, 0), Ok(None), "head all"),
        ("503 once", vec![Status(503)], get_all(), Ok(Some(BODY)), "get all, get all"),
        ("reset once", vec![Reset], get_all(), Ok(Some(BODY)), "get all, get all"),
        ("silence once", vec![Silence], get_all(), Ok(Some(BODY)), "get all, get all"),
        ("a slow reply", vec![Delay(Duration::from_secs(4))], get_all(), Ok(Some(BODY)), "get all"),
        ("a cut body", vec![ShortBody(4)], get_all(), Ok(Some(BODY)), "get all, get 4-9 same"),
        ("a cut range", vec![ShortBody(1)], at(2, 3), Ok(Some(b"234")), "get 2-4, get 3-4 same"),
        ("an empty body", vec![ShortBody(0)], get_all(), Ok(Some(BODY)), "get all, get 0-9 same"),
        ("a broken body", vec![BrokenBody(4)], get_all(), Ok(Some(BODY)), "get all, get 4-9 same"),
        ("a stalled body", vec![StalledBody(4)], get_all(), Ok(Some(BODY)), "get all, get 4-9 same"),
        ("cut twice", vec![ShortBody(4), BrokenBody(2)], get_all(), Ok(Some(BODY)), "get all, get 4-9 same, get 6-9 same"),
        ("cut, then replaced", vec![ShortBody(4), changed()], get_all(), Ok(Some(b"abcdefghij")), "get all, get 4-9 same, get all"),
        ("cut, then replaced behind our back", vec![ShortBody(4), ChangedUnseen(Bytes::from_static(b"abcdefghij"))], get_all(), Ok(Some(b"abcdefghij")), "get all, get 4-9 same, get all"),
        ("cut, then another range", vec![ShortBody(4), WrongRange], get_all(), Ok(Some(BODY)), "get all, get 4-9 same, get all"),
        ("cut, then gone", vec![ShortBody(4), Missing, Missing], get_all(), Err("NotFound in a, the store refuses"), "get all, get 4-9 same"),
        ("cut, then refused", vec![ShortBody(4), Status(403)], get_all(), Err("PermissionDenied in a, the store refuses"), "get all, get 4-9 same"),
        ("more than asked", vec![LongBody], get_all(), Err("FileChanged in a, reply: expected 10 bytes, found 14"), "get all"),
        ("more than a range", vec![LongBody], at(2, 3), Err("FileChanged in a at 2..5, reply: expected 3 bytes, found 7"), "get 2-4"),
        ("another range", vec![WrongRange], at(2, 3), Err("FileChanged in a at 2..5, reply: expected 3 bytes, found 3"), "get 2-4"),
        ("past the end", vec![], at(8, 3), Err("Truncated in a at 8..11, size: expected one that holds the requested bytes, found 10; the object is truncated: copy it again, or run \"zvf repair --dry-run\""), "get 8-10"),
        ("behind the end", vec![], at(20, 3), Err("Truncated in a at 20..23, size: expected one that holds the requested bytes, found 10; the object is truncated: copy it again, or run \"zvf repair --dry-run\""), "get 20-22, head all"),
        ("at the end of numbers", vec![], at(u64::MAX - 1, u64::MAX), Err("Truncated in a at 18446744073709551614..18446744073709551615, size: expected one that holds the requested bytes, found 10; the object is truncated: copy it again, or run \"zvf repair --dry-run\""), "get 18446744073709551614-18446744073709551614, head all"),
        ("no ranges", vec![NotSupported], at(2, 3), Ok(Some(b"234")), "get 2-4, get all"),
        ("no suffixes", vec![NotSupported], last(3), Ok(Some(b"789")), "get -3, head all, get 7-9"),
        ("neither", vec![NotSupported, Delay(Duration::ZERO), NotSupported], last(3), Ok(Some(b"789")), "get -3, head all, get 7-9, get all"),
        ("400", vec![Status(400)], get_all(), Err("InvalidArgument in a, the store answered 400"), "get all"),
        ("401", vec![Status(401)], get_all(), Err("Unauthenticated in a, the store refuses"), "get all"),
        ("403", vec![Status(403)], at(2, 3), Err("PermissionDenied in a at 2..5, the store refuses"), "get 2-4"),
        ("416 within the object", vec![Status(416)], at(2, 3), Err("OutOfBounds in a at 2..5, the store answered 416"), "get 2-4, head all"),
    ];
    for (name, faults, get, expected, requests) in table {
        let store = stored().await;
        faults.into_iter().enumerate().for_each(|(operation, fault)| store.plan(operation, fault));
        let remote = remote(&store, &OpenOptions::default());
        let answer = read_single(&remote, get).await;
        let answer = answer.map(|got| got.map(|got| got.bytes)).map_err(|e| e.to_string());
        let expected = expected.map(|b| b.map(Bytes::from_static)).map_err(str::to_owned);
        assert_eq!(answer, expected, "{name}");
        assert_eq!(list_requests(&store.requests()), requests, "{name}");
        let stats = remote.stats();
        assert_eq!(stats.requests, u64::try_from(store.requests().len()).unwrap(), "{name}");
        assert_eq!(remote.0.budget.free_bytes(), remote.0.budget.max_bytes(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_broken_store_end() {
    use Fault::*;
    for (timeouts, fault, message, requests, min_secs, max_secs) in [
        (Timeouts::INTERACTIVE, Status(503), "Unavailable in a, the store answered 503", 4, 0, 1),
        (Timeouts::INTERACTIVE, Status(429), "Throttled in a, the store answered 429", 4, 0, 1),
        (Timeouts::INTERACTIVE, Status(408), "Timeout in a, the store answered 408", 4, 0, 1),
        (Timeouts::INTERACTIVE, Reset, "Unavailable in a, the connection failed", 4, 0, 1),
        (Timeouts::INTERACTIVE, Silence, "Timeout in a, no first byte within", 3, 10, 15),
        (
            Timeouts::INTERACTIVE,
            ShortBody(0),
            "FileChanged in a, reply: expected 10 bytes, found 0",
            4,
            0,
            1,
        ),
        (Timeouts::INTERACTIVE, StalledBody(0), "Timeout in a, no body within", 2, 15, 15),
        (Timeouts::BATCH, StalledBody(0), "Timeout in a, no body within", 6, 180, 180),
        (Timeouts::BATCH, Status(503), "Unavailable in a, the store answered 503", 10, 1, 60),
        (Timeouts::BATCH, Silence, "Timeout in a, no first byte within", 10, 100, 160),
    ] {
        let store = stored().await;
        store.always(Some(fault.clone()));
        let remote = remote(&store, &OpenOptions { timeouts, ..OpenOptions::default() });
        let start = Instant::now();
        let error = remote.read_many(&[Get::object(key("a"))]).await.pop().unwrap().unwrap_err();
        let (text, took) = (error.to_string(), start.elapsed().as_secs());
        assert!(text.starts_with(message), "{fault:?}: {text}");
        assert_eq!(store.requests().len(), requests, "{timeouts:?} {fault:?}");
        assert!((min_secs..=max_secs).contains(&took), "{timeouts:?} {fault:?}: {took} s");
        assert_eq!(error.is_retryable(), error.class() != Class::FileChanged, "{fault:?}");
        let sent_again = u64::try_from(requests - 1).unwrap();
        assert_eq!(remote.stats().retries, sent_again, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_progress_times_out() {
    let store = Arc::new(FaultStore::new());
    let mut requests = Vec::new();
    for i in 0..20 {
        store.insert(&format!("root/{i}"), BODY).await;
        requests.push(Get::object(key(&i.to_string())));
    }
    store.always(Some(Fault::StalledBody(0)));
    let options = OpenOptions { requests_in_flight: 2, ..OpenOptions::default() };
    let start = Instant::now();
    let answers = remote(&store, &options).read_many(&requests).await;
    assert_eq!(start.elapsed().as_secs(), 15);
    let last = answers.into_iter().map(Result::unwrap_err).next_back().unwrap();
    assert_eq!(last.to_string(), "Timeout in 19, no answer from the store within 15s");

    // While data arrives, every request has its full timeout.
    store.always(Some(Fault::Delay(Duration::from_secs(4))));
    let start = Instant::now();
    let answers = remote(&store, &options).read_many(&requests).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(start.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn slow_requests_are_reported_every_five_seconds() {
    let store = stored().await;
    store.always(Some(Fault::StalledBody(4)));
    let messages = Arc::new(std::sync::Mutex::new(Vec::new()));
    let list = Arc::clone(&messages);
    let hook = crate::RetryHook::new(move |retrying: &crate::RetriedRequest| {
        list.lock().unwrap().push(retrying.to_string());
    });
    let options = OpenOptions { on_retry: Some(hook), ..OpenOptions::default() };
    read_single(&remote(&store, &options), Get::object(key("a"))).await.unwrap_err();
    let expected = ["a failed 1 time in 10 s (Timeout): trying again"];
    assert_eq!(*messages.lock().unwrap(), expected);

    // Fast answers are not reported.
    messages.lock().unwrap().clear();
    let store = stored().await;
    store.plan(0, Fault::Status(503));
    read_single(&remote(&store, &options), Get::object(key("a"))).await.unwrap();
    assert!(messages.lock().unwrap().is_empty());
}

#[test]
fn a_runtime_without_timers_waits_without_limit() {
    let store: Arc<dyn ObjectStore> = Arc::new(FaultStore::new());
    let options = OpenOptions::default();
    let remote = Remote::new(Backend::new(store, Path::default()), Budget::new(&options), &options);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut attempts = Attempts::new(&remote.0, "read", &key("a"), None);
        let slow = async {
            tokio::task::yield_now().await;
            Ok(7)
        };
        let answer = attempts.run_within("answer", Duration::from_secs(1), slow).await;
        assert_eq!(answer.ok(), Some(7));
        // Without a clock there is no pause before a retry.
        let miss = AttemptError::Late { what: "answer", after: Duration::ZERO };
        assert_eq!(attempts.retry_or_fail(miss).await.unwrap_err().class(), Class::Timeout);
    });
}

/// Injects every fault at every operation of a script and checks its allowed effects on the
/// answers.
#[tokio::test(start_paused = true)]
async fn no_fault_at_any_operation_gives_a_wrong_answer() {
    let new = Bytes::from(vec![b'x'; 600_000]);
    let old: Vec<u8> = (0..600_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    let second = b"second".as_slice();
    let faults = [
        Fault::Status(500),
        Fault::Status(403),
        Fault::Status(416),
        Fault::Reset,
        Fault::Silence,
        Fault::ShortBody(0),
        Fault::ShortBody(2),
        Fault::BrokenBody(3),
        Fault::StalledBody(1),
        Fault::LongBody,
        Fault::Pieces(1000),
        Fault::WrongRange,
        Fault::Missing,
        Fault::Changed(new.clone()),
        Fault::ChangedUnseen(new.clone()),
        Fault::NotSupported,
    ];
    let (first_key, b) = (key("a"), key("b"));
    let script = [
        at(0, 100),
        at(50, 100),
        Get::range(first_key, 500_000, 10),
        Get::suffix(key("a"), 20),
        Get::object(b.clone()),
        Get::suffix(b, 3),
        Get::object(key("absent")),
    ];
    let right = |get: &Get, body: &[u8]| match get.range {
        ByteRange::All => body.to_vec(),
        ByteRange::First(n) => body[..n as usize].to_vec(),
        ByteRange::At { start, len } => body[start as usize..(start + len) as usize].to_vec(),
        ByteRange::Last(n) => body[body.len() - n as usize..].to_vec(),
    };
    for fault in &faults {
        let hidden = Fault::ChangedUnseen(new.clone());
        for second_fault in [None, Some(Fault::ShortBody(5)), Some(Fault::Reset), Some(hidden)] {
            for operation in 0..8 {
                let store = Arc::new(FaultStore::new());
                store.insert("root/a", &old).await;
                store.insert("root/b", second).await;
                store.plan(operation, fault.clone());
                if let Some(second) = &second_fault {
                    store.plan(operation + 1, second.clone());
                }
                let remote = remote(&store, &OpenOptions::default());
                let read = remote.read_many(&script);
                let answers = tokio::time::timeout(Duration::from_secs(120), read).await.unwrap();
                let context = format!("{fault:?} at {operation}, then {second_fault:?}");
                let mut versions_of_a = Vec::new();
                for (get, answer) in script.iter().zip(answers) {
                    match answer {
                        Ok(Some(got)) => {
                            let body = if get.key.as_str() == "a" { &old } else { second };
                            let is_old = got.bytes == right(get, body);
                            let replaced = |f: &Fault| {
                                matches!(f, Fault::Changed(_) | Fault::ChangedUnseen(_))
                            };
                            let may_be_new =
                                replaced(fault) || second_fault.as_ref().is_some_and(replaced);
                            let is_new = got.bytes == right(get, &new);
                            assert!(is_old || (is_new && may_be_new), "{context}: {get:?}");
                            if get.key.as_str() == "a" {
                                versions_of_a.push(is_old);
                            }
                        }
                        Ok(None) => {
                            let missing = *fault == Fault::Missing || get.key.as_str() == "absent";
                            assert!(missing, "{context}: {get:?}");
                        }
                        Err(error) => {
                            let is_allowed = matches!(
                                error.class(),
                                Class::PermissionDenied
                                    | Class::FileChanged
                                    | Class::OutOfBounds
                                    | Class::NotFound
                                    | Class::Unsupported
                                    | Class::Timeout
                            );
                            assert!(is_allowed, "{context}: {get:?}: {error}");
                        }
                    }
                }
                assert!(
                    versions_of_a.windows(2).all(|pair| pair[0] == pair[1]),
                    "{context}: two versions"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_limited_in_number() {
    let store = Arc::new(FaultStore::new());
    let mut requests = Vec::new();
    for i in 0..40 {
        store.insert(&format!("root/{i}"), &[i; 1000]).await;
        requests.push(Get::object(key(&i.to_string())));
    }
    store.always(Some(Fault::Delay(Duration::from_millis(50))));
    for (requests_in_flight, max_in_flight) in [(1, 1), (3, 3), (64, 40)] {
        store.forget();
        let options = OpenOptions { requests_in_flight, ..OpenOptions::default() };
        let remote = remote(&store, &options);
        let answers = remote.read_many(&requests).await;
        for (i, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.unwrap().unwrap().bytes, vec![i as u8; 1000]);
        }
        assert_eq!(store.max_in_flight(), max_in_flight);
    }
}

#[tokio::test(start_paused = true)]
async fn two_batches_share_one_budget() {
    let store = stored().await;
    store.always(Some(Fault::Delay(Duration::from_millis(50))));
    let options = OpenOptions { requests_in_flight: 2, ..OpenOptions::default() };
    let remote = remote(&store, &options);
    let requests: Vec<_> = (0..10).map(|i| Get::object(key(&i.to_string()))).collect();
    let batches = (0..5).map(|_| remote.read_many(&requests));
    futures_util::future::join_all(batches).await;
    assert_eq!(store.max_in_flight(), 2);
}

#[tokio::test(start_paused = true)]
async fn bytes_in_flight_wait_and_a_read_too_large_is_refused() {
    let store = Arc::new(FaultStore::new());
    let mut requests = Vec::new();
    for i in 0..9 {
        store.insert(&format!("root/{i}"), &vec![i; 40 << 10]).await;
        requests.push(Get::object(key(&i.to_string())));
    }
    store.always(Some(Fault::StalledBody(1000)));
    let options = OpenOptions { budget_bytes: 100 << 10, cache_bytes: 0, ..OpenOptions::default() };
    let remote = remote(&store, &options);
    let reading = tokio::spawn({
        let (remote, requests) = (remote.clone(), requests.clone());
        async move { remote.read_many(&requests).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Two bodies are in flight; the third exceeds the budget for now.
    assert_eq!(remote.stats(), IoStats { requests: 9, bytes_read: 2000, retries: 0 });
    reading.abort();
    assert!(reading.await.unwrap_err().is_cancelled());
    assert_eq!(remote.0.budget.free_bytes(), 100 << 10);

    store.always(None);
    let answers = remote.read_many(&requests).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().is_some()));
    store.insert("root/large", &vec![0; (100 << 10) + 1]).await;
    let error = read_single(&remote, Get::object(key("large"))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "LimitExceeded in large, bytes of one read: expected at most 102400, found 102401; \
         more than the limit allows: request less, or raise the limit",
    );
}

#[tokio::test(start_paused = true)]
async fn neighbouring_ranges_take_one_request() {
    let store = Arc::new(FaultStore::new());
    store.insert("root/a", &vec![7; 2 << 20]).await;
    let remote = remote(&store, &OpenOptions::default());
    let requests: Vec<_> = (0..27).map(|i| at(i * 70_000, 500)).collect();
    let answers = remote.read_many(&requests).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().unwrap().bytes == [7; 500][..]));
    assert_eq!(list_requests(&store.requests()), "get 0-1820499");
    assert_eq!(remote.stats(), IoStats { requests: 1, bytes_read: 1_820_500, retries: 0 });
    const { assert!(MERGE_GAP_BYTES >= 70_000) };
}

#[tokio::test(start_paused = true)]
async fn a_changed_version_is_refused() {
    let store = stored().await;
    let remote = remote(&store, &OpenOptions::default());
    let old_version = read_single(&remote, Get::object(key("a"))).await.unwrap().unwrap().version;
    let same =
        read_single(&remote, at(2, 3).with_version(old_version.clone())).await.unwrap().unwrap();
    assert_eq!(same.bytes, "234");
    store.insert("root/a", b"9876543210").await;
    let error = read_single(&remote, at(2, 3).with_version(old_version)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "FileChanged in a at 2..5, the object was replaced while it was being read"
    );
}

#[tokio::test(start_paused = true)]
async fn retries_to_a_failing_store_are_limited() {
    let store = stored().await;
    store.always(Some(Fault::Status(503)));
    let options = OpenOptions { timeouts: Timeouts::BATCH, ..OpenOptions::default() };
    let remote = remote(&store, &options);
    let requests: Vec<_> = (0..300).map(|i| Get::object(key(&i.to_string()))).collect();
    let answers = remote.read_many(&requests).await;
    assert!(
        answers.iter().all(|answer| answer.as_ref().unwrap_err().class() == Class::Unavailable)
    );
    assert!((310..=330).contains(&store.requests().len()), "{}", store.requests().len());
}

#[tokio::test(start_paused = true)]
async fn names_are_listed_and_a_broken_list_restarts() {
    let store = Arc::new(FaultStore::new());
    for name in ["z.json", "c/0/1", "c/10/0", "c/9/0", ".tmp-1-2", "c/.tmp-x/1", "odd\\name"] {
        store.insert(&format!("root/l/{name}"), name.as_bytes()).await;
    }
    store.insert("root/lost", b"").await;
    let remote = remote(&store, &OpenOptions::default());
    assert!(remote.can_list());
    for fault in [None, Some(Fault::Status(503)), Some(Fault::Silence)] {
        for _ in 0..2 {
            fault.clone().into_iter().for_each(|fault| store.plan(0, fault));
            let children = remote.children(&key("l")).await.unwrap();
            let names: Vec<_> = children.iter().map(|c| (c.name.as_str(), c.is_dir)).collect();
            assert_eq!(names, [("c", true), ("z.json", false)]);
            fault.clone().into_iter().for_each(|fault| store.plan(0, fault));
            let found = remote.list(&key("l")).await.unwrap();
            let found: Vec<_> = found.iter().map(|(key, size)| (key.as_str(), *size)).collect();
            assert_eq!(found, [("l/c/0/1", 5), ("l/c/10/0", 6), ("l/c/9/0", 5), ("l/z.json", 6)]);
        }
    }
    assert_eq!(remote.children(&key("none")).await.unwrap(), []);
    assert_eq!(remote.list(&key("none")).await.unwrap(), []);
    let top = remote.children(&Key::root()).await.unwrap();
    assert_eq!(top.len(), 2);
    store.plan(0, Fault::Missing);
    store.plan(1, Fault::Missing);
    let not_found = "NotFound in l, the store refuses";
    assert_eq!(remote.children(&key("l")).await.unwrap_err().to_string(), not_found);
    assert_eq!(remote.list(&key("l")).await.unwrap_err().to_string(), not_found);
    store.always(Some(Fault::Status(403)));
    assert_eq!(
        remote.children(&key("l")).await.unwrap_err().to_string(),
        "PermissionDenied in l, the store refuses"
    );
    assert_eq!(remote.list(&key("l")).await.unwrap_err().op(), "list");
}

#[test]
fn memory_needs_no_runtime() {
    let store = object_store::memory::InMemory::new();
    let work = async {
        store.put_opts(&Path::from("a"), BODY.to_vec().into(), Default::default()).await.unwrap();
        let options = OpenOptions::default();
        let remote = Remote::new(
            Backend::new(Arc::new(store), Path::default()),
            Budget::new(&options),
            &options,
        );
        let answers =
            remote.read_many(&[Get::object(key("a")), at(20, 3), Get::object(key("b"))]).await;
        assert_eq!(answers[0].as_ref().unwrap().as_ref().unwrap().bytes, BODY);
        assert_eq!(answers[1].as_ref().unwrap_err().class(), Class::Truncated);
        assert!(answers[2].as_ref().unwrap().is_none());
        assert_eq!(remote.list(&Key::root()).await.unwrap(), [(key("a"), 10)]);
    };
    let mut work = std::pin::pin!(work);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while work.as_mut().poll(&mut context).is_pending() {}
}

#[tokio::test]
async fn a_backend_that_cannot_list_is_never_listed() {
    let store = Arc::new(FaultStore::new());
    let options = OpenOptions { can_list: false, ..OpenOptions::default() };
    let path = Path::from("root");
    let source = Origin::from_object_store(store.clone(), &path, &Budget::new(&options), &options);
    assert!(!source.can_list());
    assert_eq!(source.list(&Key::root()).await.unwrap_err().class(), Class::Unsupported);
    assert!(store.requests().is_empty());
}

#[test]
#[cfg(feature = "http")]
fn plain_http_is_never_listed() {
    let options = OpenOptions::default();
    let source = Origin::open("https://localhost:1/a", &Budget::new(&options), &options).unwrap();
    let Origin::Remote(remote) = source else { panic!("{source:?}") };
    assert!(!remote.can_list());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(
        runtime.block_on(remote.children(&key("l"))).unwrap_err().to_string(),
        "Unsupported in l, store: expected one that can be listed; name what to read instead, \
         found plain HTTP",
    );
    assert_eq!(remote.stats().requests, 0);
}
