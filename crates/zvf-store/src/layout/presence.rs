//! The existing chunks of an array of family C, and their locations in its grid.
//!
//! ```text
//! key 3.0.-1  -  origin of this array  ->  index 4.0.0
//! ```
//!
//! Each array has its own grid and origin. `nonempty_chunks` is the presence list: a key that is
//! not in it is absent, without a request, and a key that is in it must exist. Without the list,
//! keys are found by listing, and reads just try.
//!
//! Not here: reading chunks, and listing them ([`super::cells`]).

use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result, quote};
use zvf_format::Class;
use zvf_format::grid::Grid;
use zvf_format::key::{ChunkKey, ChunkPath};
use zvf_format::num::to_u64;
use zvf_metadata::{ArrayDoc, KeyList, Node};

use super::array::{ChunkArray, Located, answer_each};
use super::grid::linear_index;
use super::table::KeyTable;
use crate::docs::Outline;
use crate::key::Key;
use crate::shared::Handle;

/// The chunks of one array.
#[derive(Debug)]
pub(super) struct Presence {
    key: Key,
    pub(super) grid: Grid,
    recorded: Recorded,
    listed: OnceLock<Result<Arc<KeyTable>>>,
    /// The keys that a listing found.
    pub(super) found: OnceCell<Arc<KeyTable>>,
}

/// The presence list, as in the document.
#[derive(Debug)]
pub(super) enum Recorded {
    Keys(Option<KeyList>),
    /// A list that has not been read yet.
    Unread(Arc<Outline>),
}

/// A chunk to read: inside the grid, and not known to be absent.
pub(super) struct ChunkRequest {
    pub(super) key: ChunkKey,
    /// Its unique number within the array, if it has one.
    pub(super) slot: Option<u64>,
    pub(super) listed: bool,
}

impl ChunkRequest {
    /// Returns the request for a chunk that may be absent.
    pub(super) const fn unlisted(key: ChunkKey, slot: Option<u64>) -> Self {
        Self { key, slot, listed: false }
    }
}

impl Presence {
    /// Creates the presence of the chunks of the array `key`; `recorded` lists the non-empty ones.
    pub(super) fn new(key: Key, grid: Grid, recorded: Recorded) -> Self {
        Self { key, grid, recorded, listed: OnceLock::new(), found: OnceCell::new() }
    }

    /// Returns the keys of the presence list, if there is one.
    pub(super) async fn recorded(&self, shared: &Handle) -> Option<Result<Arc<KeyTable>>> {
        if let Some(listed) = self.listed.get() {
            return Some(listed.clone());
        }
        let table = |keys: &KeyList| {
            let parse = || self.parse(keys);
            let table = || shared.tables.find_or_parse(keys, &self.grid, parse);
            self.listed.get_or_init(table).clone()
        };
        match &self.recorded {
            Recorded::Keys(keys) => keys.as_ref().map(table),
            Recorded::Unread(outline) => match outline.node().await.as_deref() {
                Ok(Node::Array(doc)) => doc.nonempty_chunks.as_ref().map(table),
                Ok(Node::Group(_)) => None, // it has the outline of an array
                Err(error) => Some(Err(error.clone())),
            },
        }
    }

    fn parse(&self, keys: &KeyList) -> Result<Arc<KeyTable>> {
        let (rank, mut misfit) = (self.grid.rank(), None);
        // At least one number of each key is in memory as text.
        let mut coords = Vec::with_capacity(keys.len().saturating_mul(rank));
        for text in keys.iter() {
            let key = text.parse::<ChunkKey>().map_err(|error| {
                Error::new(error.class, "nonempty_chunks", "numbers with dots between", quote(text))
                    .at_key(&self.key)
            })?;
            if key.rank() != rank {
                misfit = misfit.or(Some(key)); // refused once all are known to be keys
                continue;
            }
            if !self.grid.contains(&key) {
                let (what, rule) = ("nonempty_chunks", "keys inside the grid of the array");
                let error = Error::new(Class::OutOfBounds, what, rule, quote(text));
                return Err(error.at_key(&self.key));
            }
            coords.extend_from_slice(key.components());
        }
        KeyTable::new(rank, misfit).at_key(&self.key)?;
        Ok(Arc::new(KeyTable::from_coords(rank, coords)))
    }

    /// Returns the index of `key` in this array, if it is inside the grid.
    pub(super) fn path(&self, key: &ChunkKey) -> Result<Option<ChunkPath>> {
        match self.grid.path(key) {
            Ok(path) => Ok(Some(path)),
            Err(error) if error.class == Class::OutOfBounds => Ok(None),
            Err(error) => Err(Error::from(error).at_key(&self.key)),
        }
    }

    /// Returns the index of each of `requests` in this array, concatenated.
    pub(super) fn indexes<'a>(&self, requests: impl Iterator<Item = &'a ChunkRequest>) -> Vec<u64> {
        let index = |request: &'a ChunkRequest| {
            let axes = request.key.components().iter().zip(self.grid.origin());
            // Inside the grid, so no difference is negative or overflows 64 bits.
            axes.map(|(component, origin)| component.wrapping_sub(*origin).cast_unsigned())
        };
        requests.flat_map(index).collect()
    }

    /// Splits `indexes` into those of single chunks.
    pub(super) fn split<'a>(&self, indexes: &'a [u64]) -> Vec<&'a [u64]> {
        indexes.chunks_exact(self.grid.rank()).collect()
    }

    /// Returns the request for each of `keys`; `None` for chunks known to be absent.
    pub(super) async fn plan_reads(
        &self,
        shared: &Handle,
        keys: impl Iterator<Item = &ChunkKey>,
    ) -> Vec<Result<Option<ChunkRequest>>> {
        let recorded = self.recorded(shared).await.transpose();
        let plan = |key: &ChunkKey| match &recorded {
            Ok(recorded) => self.plan_read(key, recorded.as_deref()),
            Err(error) => Err(error.clone()),
        };
        keys.map(plan).collect()
    }

    fn plan_read(
        &self,
        key: &ChunkKey,
        recorded: Option<&KeyTable>,
    ) -> Result<Option<ChunkRequest>> {
        if let Some(table) = recorded {
            match table.find(key) {
                // Recorded keys are inside the grid.
                Some(at) => {
                    let slot = Some(to_u64(at));
                    return Ok(Some(ChunkRequest { key: *key, slot, listed: true }));
                }
                None if key.rank() == self.grid.rank() => return Ok(None),
                None => {}
            }
        }
        let Some(path) = self.path(key)? else { return Ok(None) };
        let slot = linear_index(path.index(), self.grid.shape());
        Ok(Some(ChunkRequest::unlisted(*key, slot)))
    }

    /// Like [`plan_reads`](Self::plan_reads), ignoring the presence list.
    pub(super) fn plan_unchecked(&self, key: &ChunkKey) -> Result<Option<ChunkRequest>> {
        let inside = self.path(key)?.is_some();
        Ok(inside.then_some(ChunkRequest::unlisted(*key, None)))
    }
}

/// Returns one answer for each of `requests`: the next of `answers` if its chunk has a location.
pub(super) fn complete<T>(
    presence: &Presence,
    array: &ChunkArray,
    requests: &[&ChunkRequest],
    places: Vec<Result<Option<Located>>>,
    answers: Vec<Result<Option<T>>>,
) -> Vec<Result<Option<T>>> {
    let placed = places.into_iter().zip(requests);
    let placed = placed.map(|(place, request)| Ok(place?.map(|_| *request))).collect();
    answer_each(placed, answers, |request, answer| {
        answer?.map_or_else(|| missing_chunk(presence, array, request), |answer| Ok(Some(answer)))
    })
}

/// Returns the answer for a chunk that is not stored: an error if the presence list names it.
pub(super) fn missing_chunk<T>(
    presence: &Presence,
    array: &ChunkArray,
    request: &ChunkRequest,
) -> Result<Option<T>> {
    if !request.listed {
        return Ok(None);
    }
    let index = presence.indexes(std::iter::once(request));
    let Some(shards) = &array.shards else {
        let key = array.object(&index)?;
        return Err(Error::missing(&key, "nonempty_chunks lists this chunk"));
    };
    let key = array.object(&shards.locate(&index).0)?;
    let found = format!("none for {}", request.key);
    let (what, rule) = ("chunk in nonempty_chunks", "a span in the shard");
    Err(Error::new(Class::NotFound, what, rule, quote(&found)).at_key(&key))
}

/// Returns the grid of the chunks of an array, each of one cell.
pub(crate) fn chunk_grid(key: &Key, doc: &ArrayDoc) -> Result<Grid> {
    let origin: Vec<i64> = match doc.attributes.get(GRID_ORIGIN) {
        None => vec![0; doc.rank()],
        Some(value) => {
            let items = value.as_array().and_then(|items| items.iter().map(whole_number).collect());
            let odd = || {
                let whole = "whole numbers of 64 bits";
                Error::new(Class::BadShape, GRID_ORIGIN, whole, "another value").at_key(key)
            };
            items.ok_or_else(odd)?
        }
    };
    if origin.len() != doc.rank() {
        let rank = to_u64(doc.rank());
        return Err(Error::new(Class::BadShape, GRID_ORIGIN, rank, origin.len()).at_key(key));
    }
    Grid::new(&origin, &doc.shape).at_key(key)
}

/// Returns an integer, even if it is written as a float.
fn whole_number(value: &serde_json::Value) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let text = format!("{:.0}", value.as_f64().filter(|x| x.fract() == 0.0)?);
    text.parse().ok()
}

/// The attribute with the key of the first chunk.
const GRID_ORIGIN: &str = "chunk_grid_origin";
