//! From requests to reads, and back to answers.
//!
//! Requests for one object become one [`Object`], so that a file is opened once. Its ranges become
//! [`PlannedRead`]s: ranges closer than the backend's gap are coalesced, up to a size far below any
//! budget. Each piece is then cut into the answers that it serves; at this point the size of the
//! object and the requested version are checked.
//!
//! Pure: no reading, no waiting.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};

use super::{ByteRange, Get, GetAnswer, Version};
use crate::error::length_error;
use crate::key::Key;

/// One object and the reads from it.
pub(super) struct Object {
    pub(super) key: Key,
    pub(super) pieces: Vec<PlannedRead>, // never empty
    /// Whether all its bytes are released soon.
    pub(super) pooled: bool,
}

/// One read, and the requests that it serves.
pub(super) struct PlannedRead {
    pub(super) range: ByteRange,
    gets: Vec<usize>,
}

/// The bytes that a backend read for one piece: the part of the range that exists.
#[derive(Clone)]
pub(super) struct Read {
    pub(super) bytes: Bytes,
    /// The offset of `bytes` in the object.
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) version: Version,
}

/// Returns the reads for `gets`: objects in the order of their first request.
pub(super) fn plan(gets: &[Get], gap: u64) -> Vec<Object> {
    let mut objects: Vec<(Key, Vec<usize>)> = Vec::with_capacity(gets.len());
    let mut index_by_key: HashMap<&Key, usize> = HashMap::with_capacity(gets.len());
    let mut last = None;
    for (i, get) in gets.iter().enumerate() {
        // Consecutive requests are often for one object.
        let again = last.filter(|last: &usize| objects[*last].0.is_clone_of(&get.key));
        let at = again.unwrap_or_else(|| {
            *index_by_key.entry(&get.key).or_insert_with(|| {
                objects.push((get.key.clone(), Vec::new()));
                objects.len() - 1
            })
        });
        objects[at].1.push(i);
        last = Some(at);
    }
    let object = |(key, members): (Key, Vec<usize>)| {
        let pooled = members.iter().all(|i| gets[*i].pooled);
        Object { key, pieces: pieces(gets, members, gap), pooled }
    };
    objects.into_iter().map(object).collect()
}

/// Returns the reads that serve `members`, all of one object.
fn pieces(gets: &[Get], members: Vec<usize>, gap: u64) -> Vec<PlannedRead> {
    let range = |i: &usize| gets[*i].range;
    if let [member] = members.as_slice() {
        return vec![PlannedRead { range: range(member), gets: members }];
    }
    if members.iter().any(|i| range(i) == ByteRange::All) {
        return vec![PlannedRead { range: ByteRange::All, gets: members }];
    }
    let mut spans = Vec::new();
    let mut suffix: Option<(u64, Vec<usize>)> = None;
    for i in members {
        match range(&i) {
            ByteRange::At { start, len } => spans.push((start, len, i)),
            ByteRange::First(len) => spans.push((0, len, i)),
            ByteRange::Last(len) => {
                let (longest, gets) = suffix.get_or_insert_default();
                *longest = len.max(*longest);
                gets.push(i);
            }
            ByteRange::All => unreachable!("all of the object was asked for above"),
        }
    }
    spans.sort_unstable();
    let mut pieces: Vec<PlannedRead> = Vec::new();
    for (start, len, i) in spans {
        if let Some(PlannedRead { range: ByteRange::At { start: first, len: length }, gets }) =
            pieces.last_mut()
            && let Some(merged) = merge_length(*first, *length, start, len, gap)
        {
            *length = merged;
            gets.push(i);
        } else {
            pieces.push(PlannedRead { range: ByteRange::At { start, len }, gets: vec![i] });
        }
    }
    pieces.extend(suffix.map(|(len, gets)| PlannedRead { range: ByteRange::Last(len), gets }));
    pieces
}

/// Returns the length from `first` that covers both ranges, if they are close enough to be read as
/// one.
fn merge_length(first: u64, length: u64, start: u64, len: u64, gap: u64) -> Option<u64> {
    let end = first.checked_add(length)?;
    let covered = start.checked_add(len)?.max(end).checked_sub(first)?;
    let close = start <= end.saturating_add(gap); // all is close to the end of what 64 bits count
    // A range inside the previous one costs nothing, however long that one is.
    (close && (covered <= MAX_MERGED_BYTES || covered == length)).then_some(covered)
}

/// Cuts the bytes read for `piece` into the answers of its requests.
pub(super) fn deliver(
    gets: &[Get],
    key: &Key,
    piece: &PlannedRead,
    outcome: Result<Option<Read>>,
    answers: &mut [Option<Result<Option<GetAnswer>>>],
) {
    for i in &piece.gets {
        let get = &gets[*i];
        answers[*i] = Some(match &outcome {
            Ok(Some(read)) => cut(get, read).map(Some).map_err(|e| place(e, key, get.range)),
            Ok(None) => Ok(None),
            Err(error) => Err(place(error.clone(), key, get.range)),
        });
    }
}

/// Returns the answer to `get` from `read`, which covers it as far as the object exists.
pub(super) fn cut(get: &Get, read: &Read) -> Result<GetAnswer> {
    if get.version.as_ref().is_some_and(|version| *version != read.version) {
        return Err(Error::replaced());
    }
    let Range { start, end } = get.range.resolve(read.size);
    if end > read.size {
        let rule = "one that holds the requested bytes";
        return Err(Error::new(Class::Truncated, "size", rule, read.size));
    }
    let (size, version) = (read.size, read.version.clone());
    if start == end {
        return Ok(GetAnswer { bytes: Bytes::new(), size, version });
    }
    let held = read.start..read.start + to_u64(read.bytes.len());
    if start < held.start || end > held.end {
        let found = end.min(held.end).saturating_sub(start.max(held.start)); // none where they lie apart
        return Err(length_error(end - start, found));
    }
    let [from, to] = [start, end].map(|at| saturating_usize(at - held.start)); // inside the bytes
    let bytes = share_buffer(&read.bytes, from..to);
    Ok(GetAnswer { bytes, size, version })
}

/// Returns the part `range` of `whole`. The part keeps all of `whole` in memory. If that is much
/// more than the part, the part is not reported as unique ([`Bytes::is_unique`]), so that a cache
/// keeps a copy instead.
fn share_buffer(whole: &Bytes, range: Range<usize>) -> Bytes {
    let part = whole.slice(range);
    let beside = whole.len() - part.len();
    if beside > part.len() / 8 { Bytes::from_owner(part) } else { part }
}

/// Returns `error` with the object and the requested bytes.
fn place(error: Error, key: &Key, range: ByteRange) -> Error {
    match range {
        ByteRange::At { start, len } => {
            error.at_key(key).at_span(start, start.saturating_add(len)) // as far as one can say it
        }
        ByteRange::All | ByteRange::First(_) | ByteRange::Last(_) => error.at_key(key),
    }
}

/// Maximum length of a coalesced read.
const MAX_MERGED_BYTES: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::root().child(name).unwrap()
    }

    fn at(name: &str, start: u64, len: u64) -> Get {
        Get::range(key(name), start, len)
    }

    #[test]
    fn neighbouring_ranges_are_coalesced() {
        use ByteRange::{All, At, Last};
        const M: u64 = MAX_MERGED_BYTES;
        type Pieces = Vec<(ByteRange, Vec<usize>)>;
        type Row = (&'static str, Vec<Get>, Vec<(&'static str, Pieces)>);
        #[rustfmt::skip]
        let table: [Row; 10] = [
            ("nothing", vec![], vec![]),
            ("order of first mention", vec![at("b", 0, 1), at("a", 0, 1), at("b", 9, 1)],
                vec![("b", vec![(At { start: 0, len: 10 }, vec![0, 2])]), ("a", vec![(At { start: 0, len: 1 }, vec![1])])]),
            ("a gap of eight", vec![at("a", 20, 2), at("a", 10, 2)],
                vec![("a", vec![(At { start: 10, len: 12 }, vec![1, 0])])]),
            ("a gap of nine", vec![at("a", 21, 2), at("a", 10, 2)],
                vec![("a", vec![(At { start: 10, len: 2 }, vec![1]), (At { start: 21, len: 2 }, vec![0])])]),
            ("one inside the other", vec![at("a", 10, 90), at("a", 20, 2)],
                vec![("a", vec![(At { start: 10, len: 90 }, vec![0, 1])])]),
            ("no merge past the cap", vec![at("a", 0, M), at("a", M, 1)],
                vec![("a", vec![(At { start: 0, len: M }, vec![0]), (At { start: M, len: 1 }, vec![1])])]),
            ("inside a long one", vec![at("a", 0, 2 * M), at("a", M, 1)],
                vec![("a", vec![(At { start: 0, len: 2 * M }, vec![0, 1])])]),
            ("past the end of numbers", vec![at("a", u64::MAX, 2), at("a", u64::MAX, 3)],
                vec![("a", vec![(At { start: u64::MAX, len: 2 }, vec![0]), (At { start: u64::MAX, len: 3 }, vec![1])])]),
            ("the whole serves its parts", vec![at("a", 5, 1), Get::object(key("a")), Get::suffix(key("a"), 3)],
                vec![("a", vec![(All, vec![0, 1, 2])])]),
            ("suffixes are read once", vec![Get::suffix(key("a"), 3), at("a", 0, 1), Get::suffix(key("a"), 5)],
                vec![("a", vec![(At { start: 0, len: 1 }, vec![1]), (Last(5), vec![0, 2])])]),
        ];
        for (name, gets, expected) in table {
            let found: Vec<_> = plan(&gets, 8)
                .into_iter()
                .map(|o| (o.key.to_string(), o.pieces.into_iter().map(|p| (p.range, p.gets))))
                .map(|(key, pieces)| (key, pieces.collect::<Vec<_>>()))
                .collect();
            let expected: Vec<_> = expected.into_iter().map(|(k, p)| (k.to_owned(), p)).collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_small_part_of_a_large_reply_is_a_shared_buffer() {
        for (part, unique) in [(0..100, true), (8..100, true), (0..10, false), (50..100, false)] {
            let reply = Bytes::from((0..100).collect::<Vec<u8>>());
            let expected: Vec<u8> = part.clone().map(|n| u8::try_from(n).unwrap()).collect();
            let shared = share_buffer(&reply, part);
            drop(reply);
            assert_eq!(shared, expected);
            assert_eq!(shared.is_unique(), unique);
            let inner = shared.slice(1..);
            drop(shared);
            assert_eq!(inner.is_unique(), unique, "a part of the part");
        }
    }

    #[test]
    fn answers_are_cut_to_the_requested_range() {
        let version = Version::from_size(10);
        let read = |start: u64, bytes: &'static [u8]| Read {
            bytes: Bytes::from_static(bytes),
            start,
            size: 10,
            version: version.clone(),
        };
        let a = key("a");
        type Row = (Get, Read, Result<&'static [u8], &'static str>);
        #[rustfmt::skip]
        let table: [Row; 11] = [
            (Get::object(a.clone()), read(0, b"0123456789"), Ok(b"0123456789")),
            (at("a", 2, 3), read(0, b"0123456789"), Ok(b"234")),
            (at("a", 2, 3), read(1, b"12345"), Ok(b"234")),
            (at("a", 10, 0), read(10, b""), Ok(b"")),
            (Get::suffix(a.clone(), 2), read(0, b"0123456789"), Ok(b"89")),
            (Get::suffix(a.clone(), 12), read(0, b"0123456789"), Ok(b"0123456789")),
            (at("a", 9, 1).with_version(version.clone()), read(9, b"9"), Ok(b"9")),
            (at("a", 8, 3), read(8, b"89"),
                Err("Truncated in a at 8..11, size: expected one that holds the requested bytes, found 10; the object is truncated: copy it again, or run \"zvf repair --dry-run\"")),
            (at("a", 2, 3), read(2, b"23"),
                Err("FileChanged in a at 2..5, reply: expected 3 bytes, found 2")),
            (Get::object(a.clone()), read(1, b"123456789"),
                Err("FileChanged in a, reply: expected 10 bytes, found 9")),
            (at("a", 9, 1).with_version(Version::from_size(11)), read(9, b"9"),
                Err("FileChanged in a at 9..10, the object was replaced while it was being read")),
        ];
        for (get, read, expected) in table {
            let mut answers = [None];
            let gets = [get];
            let piece = PlannedRead { range: ByteRange::All, gets: vec![0] };
            deliver(&gets, &a, &piece, Ok(Some(read)), &mut answers);
            let [answer] = answers;
            match (answer.unwrap(), expected) {
                (Ok(Some(got)), Ok(bytes)) => assert_eq!((&got.bytes[..], got.size), (bytes, 10)),
                (Err(error), Err(message)) => assert_eq!(error.to_string(), message),
                (answer, expected) => panic!("{answer:?} is not {expected:?}"),
            }
        }
    }
}
