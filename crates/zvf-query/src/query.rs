//! `Query`: a query on a store, as data.
//!
//! ```text
//! level      which resolution             number, or a rule
//! region     where                        box, ball, half-spaces, prism; and how geometry lies to it
//! objects    which objects, groups        in the order given, or all
//! predicate  which values                 of vertex, fragment, object, group and link columns
//! columns    which attributes are returned  all, none, or by name
//! order, view, limit                      what the answer looks like
//! ```
//!
//! Every field is optional and set by value. A combination that makes no sense is refused when the
//! query is run on a level, before anything of the level is read.

use serde::{Deserialize, Serialize};
use zvf_format::key::ChunkKey;
use zvf_model::{Kind, LevelId, ObjectId};

use crate::data;
use crate::error::BadQuery;
use crate::mode::Mode;
use crate::predicate::Predicate;
use crate::region::Region;

/// A query on a store.
///
/// [`Query::all`] begins one. Every function that takes `self` returns the same query with one
/// change. Several calls of [`filter`](Self::filter), [`limit`](Self::limit) or
/// [`limit_bytes`](Self::limit_bytes) are combined; for all other functions, the last call counts.
/// Every field can be read and set; the module `data` describes their form in JSON.
///
/// ```
/// use zvf_model::{Bounds, LevelId};
/// use zvf_query::{Columns, Mode, Query};
///
/// let bounds = Bounds::new(&[0.0, 0.0], &[9.0, 9.0])?;
/// let query = Query::all().in_region(bounds)
///     .at_level(LevelId(1))
///     .mode(Mode::Clip)
///     .columns(Columns::Named(vec!["radius".into()]))
///     .filter("radius > 2".parse()?)
///     .limit(100);
/// assert_eq!(query.region.as_ref().map(|region| region.axes()), Some(2));
/// assert_eq!((query.limit, &query.objects), (Some(100), &None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    /// The level, or the rule that selects it.
    #[serde(skip_serializing_if = "is_default")]
    pub level: LevelRule,
    /// The kind of geometry; by default the first one of the store.
    #[serde(skip_serializing_if = "is_default", with = "data::text")]
    pub kind: Option<Kind>,
    /// The region.
    #[serde(skip_serializing_if = "is_default")]
    pub region: Option<Region>,
    /// How geometry is related to the region, and which part of it is returned; the default depends
    /// on the kind.
    #[serde(skip_serializing_if = "is_default")]
    pub mode: Option<Mode>,
    /// The objects, in the order of the answer; `None` selects all.
    #[serde(skip_serializing_if = "is_default")]
    pub objects: Option<Vec<ObjectId>>,
    /// The groups of objects; `None` selects all objects.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: Option<Vec<u64>>,
    /// The conditions on values.
    #[serde(skip_serializing_if = "is_default")]
    pub filter: Option<Predicate>,
    /// The attributes that are returned.
    #[serde(skip_serializing_if = "is_default")]
    pub columns: Columns,
    /// The order of the answer.
    #[serde(skip_serializing_if = "is_default")]
    pub order: Option<Order>,
    /// The maximum number of vertices of the answer.
    #[serde(skip_serializing_if = "is_default")]
    pub limit: Option<u64>,
    /// The maximum number of bytes of the answer, if below the limit of collected answers.
    #[serde(skip_serializing_if = "is_default")]
    pub limit_bytes: Option<u64>,
    /// How ids of objects that do not exist are handled.
    #[serde(skip_serializing_if = "is_default")]
    pub unknown_ids: UnknownIds,
    /// Whether listed cells that are missing are skipped.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_missing: bool,
    /// Whether each vertex has the id of its object.
    #[serde(skip_serializing_if = "is_default")]
    pub with_owners: bool,
    /// Whether each vertex has its location: [`LOCATION_FIELD`].
    #[serde(skip_serializing_if = "is_default")]
    pub with_places: bool,
    /// Whether only the stored vertices are requested.
    #[serde(skip_serializing_if = "is_default")]
    pub vertices_only: bool,
    /// The first chunk; without links, only the vertices of the chunks are requested.
    #[serde(skip_serializing_if = "is_default", with = "data::text")]
    pub first_chunk: Option<ChunkKey>,
    /// The chunk before which they end.
    #[serde(skip_serializing_if = "is_default", with = "data::text")]
    pub end_chunk: Option<ChunkKey>,
    /// Whether the elements whose links are stored with these chunks are requested.
    #[serde(skip_serializing_if = "is_default")]
    pub links_of_chunks: bool,
    /// Whether an additive level is read without the levels that it adds to.
    #[serde(skip_serializing_if = "is_default")]
    pub increment_only: bool,
    /// Whether cells that are read are not cached.
    #[serde(skip_serializing_if = "is_default")]
    pub uncached: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The field with the location of vertices, in answers to [`Query::with_places`].
pub const LOCATION_FIELD: &str = "zvf.place";

impl Query {
    /// Selects everything, at full resolution.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects only geometry in `region`, according to the [mode](Self::mode).
    #[must_use]
    pub fn in_region(self, region: impl Into<Region>) -> Self {
        Self { region: Some(region.into()), ..self }
    }

    /// Sets how geometry is related to the region, and which part of it is returned.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Selects only these objects, in this order; an object that is listed twice is returned twice.
    #[must_use]
    pub fn of_objects(self, ids: impl IntoIterator<Item = ObjectId>) -> Self {
        Self { objects: Some(ids.into_iter().collect()), ..self }
    }

    /// Selects only objects that are in at least one of these groups. Together with objects: those
    /// of them that are.
    #[must_use]
    pub fn in_groups(self, groups: impl IntoIterator<Item = u64>) -> Self {
        Self { groups: Some(groups.into_iter().collect()), ..self }
    }

    /// Selects only data for which `predicate` holds; several predicates must all hold.
    #[must_use]
    pub fn filter(self, predicate: Predicate) -> Self {
        let filter = match self.filter {
            None => predicate,
            Some(first) => Predicate::All(vec![first, predicate]),
        };
        Self { filter: Some(filter), ..self }
    }

    /// Reads level `level`.
    #[must_use]
    pub fn at_level(self, level: LevelId) -> Self {
        self.level(LevelRule::Number(level))
    }

    /// Reads the level that `rule` selects.
    #[must_use]
    pub fn level(self, rule: LevelRule) -> Self {
        Self { level: rule, ..self }
    }

    /// Selects geometry of this kind, if the store has several; by default the first.
    #[must_use]
    pub fn of_kind(self, kind: Kind) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Sets the attributes that are returned.
    #[must_use]
    pub fn columns(self, columns: Columns) -> Self {
        Self { columns, ..self }
    }

    /// Sets the order of the answer.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Limits the number of vertices; an object or element is never split.
    #[must_use]
    pub fn limit(self, vertices: u64) -> Self {
        Self { limit: Some(self.limit.map_or(vertices, |limit| limit.min(vertices))), ..self }
    }

    /// Refuses an answer, or a batch of a stream, whose columns take more than this many bytes. The
    /// default is the limit of collected answers, 4 GiB, which this can only lower.
    ///
    /// ```
    /// use zvf_query::Query;
    ///
    /// let query = Query::all().limit_bytes(1 << 30).limit_bytes(1 << 20);
    /// assert_eq!(query.limit_bytes, Some(1 << 20));
    /// ```
    #[must_use]
    pub fn limit_bytes(self, bytes: u64) -> Self {
        Self { limit_bytes: Some(self.limit_bytes.map_or(bytes, |max| max.min(bytes))), ..self }
    }

    /// Sets how ids of objects that do not exist are handled.
    #[must_use]
    pub fn unknown_ids(self, unknown: UnknownIds) -> Self {
        Self { unknown_ids: unknown, ..self }
    }

    /// Answers without listed cells that do not exist; the answer names them.
    #[must_use]
    pub fn allow_missing(self) -> Self {
        Self { allow_missing: true, ..self }
    }

    /// Adds the object of each vertex.
    #[must_use]
    pub fn with_owners(self) -> Self {
        Self { with_owners: true, ..self }
    }

    /// Adds the location of each vertex, in a field [`LOCATION_FIELD`]: the position of its chunk
    /// in the numeric order of the level in the upper 32 bits, its row in that chunk in the lower
    /// ones.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// use zvf_model::Value;
    /// use zvf_query::{LOCATION_FIELD, Query, Reader};
    ///
    /// let batch = Reader::new(store).run(&Query::all().with_places()).await?.batch;
    /// let places = &batch.field(LOCATION_FIELD).unwrap().column;
    /// assert_eq!(places.value(0, 0), Value::UInt(0)); // the first row of the first chunk
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_places(self) -> Self {
        Self { with_places: true, ..self }
    }

    /// Selects only the stored vertices, each once, as if the geometry were points: chunk by chunk
    /// in key order, without objects as parts and without edges or faces. With a region, only the
    /// vertices inside.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// use zvf_query::{Query, Reader};
    ///
    /// let answer = Reader::new(store).run(&Query::all().vertices_only()).await?;
    /// assert!(answer.batch.elements().is_none() && !answer.batch.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn vertices_only(self) -> Self {
        Self { vertices_only: true, ..self }
    }

    /// Selects the stored vertices of some chunks: those with keys from `first` up to but not
    /// including `end`, in numeric order, without a bound if it is `None`. This is for queries that
    /// are divided between machines: ranges that cover all keys give the same vertices as
    /// [`vertices_only`](Self::vertices_only). [`Reader::chunks`](crate::Reader::chunks) returns
    /// the existing keys.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// use zvf_query::{Query, Reader};
    ///
    /// let reader = Reader::new(store);
    /// let all = Query::all().vertices_only();
    /// let second = reader.chunks(&all).await?.get(1).copied();
    /// let below = reader.count(&all.clone().in_chunks(None, second)).await?.vertices;
    /// let rest = reader.count(&all.clone().in_chunks(second, None)).await?.vertices;
    /// assert_eq!(below + rest, reader.count(&all).await?.vertices);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn in_chunks(self, first: Option<ChunkKey>, end: Option<ChunkKey>) -> Self {
        Self { vertices_only: true, first_chunk: first, end_chunk: end, ..self }
    }

    /// Selects the elements whose links are stored with some chunks: keys from `first` up to but
    /// not including `end`, in numeric order, without a bound if it is `None`. This is for queries
    /// that are divided between machines: with ranges that cover all keys, each element is in
    /// exactly one answer, with its vertices; vertices of other chunks may be in several. Only for
    /// graphs, skeletons and meshes, because other kinds have no links of their own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// use futures_util::TryStreamExt;
    /// use zvf_query::{Query, Reader};
    ///
    /// let reader = Reader::new(store);
    /// let second = reader.chunks(&Query::all().vertices_only()).await?.get(1).copied();
    /// let mut links = 0;
    /// for (first, end) in [(None, second), (second, None)] {
    ///     let query = Query::all().with_links_of_chunks(first, end);
    ///     let batches: Vec<_> = reader.stream(query).try_collect().await?;
    ///     links += batches.iter().filter_map(|batch| batch.elements()).map(|own| own.len()).sum::<usize>();
    /// }
    /// assert_eq!(links, 2);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_links_of_chunks(self, first: Option<ChunkKey>, end: Option<ChunkKey>) -> Self {
        Self { links_of_chunks: true, first_chunk: first, end_chunk: end, ..self }
    }

    /// Reads only the level itself if it is an additive level.
    #[must_use]
    pub fn increment_only(self) -> Self {
        Self { increment_only: true, ..self }
    }

    /// Does not cache the cells that the query reads.
    #[must_use]
    pub fn uncached(self) -> Self {
        Self { uncached: true, ..self }
    }

    /// Returns whether only some chunks are requested.
    pub(crate) const fn names_chunks(&self) -> bool {
        self.first_chunk.is_some() || self.end_chunk.is_some()
    }

    /// Returns whether only the stored vertices are requested, of all chunks or of some.
    pub(crate) const fn asks_vertices(&self) -> bool {
        self.vertices_only || (self.names_chunks() && !self.links_of_chunks)
    }

    /// Returns the mode for a kind of geometry: the one that was set, or the default of the kind.
    pub fn mode_for(&self, kind: Kind) -> Mode {
        self.mode.unwrap_or(if kind == Kind::PointCloud { Mode::Inside } else { Mode::Touch })
    }

    /// Checks that the query is valid for a store of `kind` with `axes`.
    pub(crate) fn check(&self, kind: Kind, axes: usize) -> Result<(), BadQuery> {
        match (&self.region, self.mode) {
            (Some(region), _) if region.axes() != axes => {
                return Err(BadQuery::Axes { found: region.axes(), expected: axes });
            }
            (None, Some(mode)) => return Err(BadQuery::ModeWithoutRegion(mode)),
            _ => {}
        }
        let mode = self.mode_for(kind);
        let clips_faces = mode == Mode::Clip && kind == Kind::Mesh;
        if clips_faces && self.region.as_ref().is_some_and(Region::is_curved) {
            return Err(BadQuery::Region(crate::region::BadRegion::CurvedCut));
        }
        if self.asks_vertices() && matches!(self.order, Some(Order::Objects | Order::Original)) {
            let why = "vertices alone come as they are stored";
            return Err(BadQuery::Kind { what: "an order by objects", kind, why });
        }
        if self.order == Some(Order::Objects) && kind.has_links() {
            let why = "its elements join vertices of any objects";
            return Err(BadQuery::Kind { what: "the order of objects", kind, why });
        }
        if self.order == Some(Order::Original) && kind.has_links() {
            let why = "the store does not keep it: vertices come sorted by where they are";
            return Err(BadQuery::Kind { what: "the original order", kind, why });
        }
        let whole = matches!(mode, Mode::Inside | Mode::Touch | Mode::Clip);
        if self.order == Some(Order::Storage) && kind.is_chain() && self.region.is_some() && whole {
            let why = "an object lies in several chunks: crop, or use the order of objects";
            return Err(BadQuery::Kind { what: "the order of storage", kind, why });
        }
        Ok(())
    }
}

/// The rule that selects the level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LevelRule {
    /// This one.
    Number(LevelId),
    /// The finest level that has at most this many vertices in the region, by its counts; the
    /// coarsest if none has so few.
    MaxVertices(u64),
    /// The finest level whose positions and attributes take at most this many bytes in the region.
    MaxBytes(u64),
    /// The coarsest level with an error of at most this, in world units; the bin size is used for a
    /// level that states no error.
    Error(#[serde(with = "data::number")] f64),
    /// The same with the size of a pixel: for a view with this extent in world units and in pixels.
    Screen {
        /// The extent of the view in world units.
        #[serde(with = "data::number")]
        width: f64,
        /// Its extent in pixels.
        pixels: u32,
    },
}

impl Default for LevelRule {
    fn default() -> Self {
        Self::Number(LevelId(0))
    }
}

/// The attributes that are returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Columns {
    /// All attributes of vertices, and of edges or faces.
    #[default]
    All,
    /// None.
    None,
    /// These; one that does not exist is an error. `radius` is an attribute of the vertices, or of
    /// the edges or faces if vertices have none of that name; `link.weight` is always one of edges
    /// or faces; `fragment.code` and `object.mass` are returned with the vertices, under these
    /// names: each vertex has the value of its fragment or object.
    Named(Vec<String>),
}

/// The order of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Chunks by number, their fragments, and the rows of these: every stored row once.
    Storage,
    /// Object by object, in the requested order, or by their row in the index. A row of several
    /// objects is repeated for each.
    Objects,
    /// In the order of the writer's input, if it is known: chains object by object, and points that
    /// are each an object.
    Original,
}

/// How ids of objects that do not exist are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum UnknownIds {
    /// The id is skipped and reported in the answer.
    #[default]
    Report,
    /// The id is skipped.
    Skip,
    /// The query fails.
    Error,
}

#[cfg(test)]
mod tests {
    use zvf_model::Bounds;

    use super::*;

    #[test]
    fn senseless_queries_are_refused_with_a_reason() {
        let square = Bounds::new(&[0.0; 2], &[1.0; 2]).unwrap();
        let ball = Region::ball(&[0.0; 3], 1.0).unwrap();
        for (query, kind, message) in [
            (
                Query::all().in_region(square),
                Kind::PointCloud,
                "the region has 2 axes, the store has 3",
            ),
            (Query::all().mode(Mode::Clip), Kind::Line, "clip selects by a region: give a region"),
            (
                Query::all().in_region(ball).mode(Mode::Clip),
                Kind::Mesh,
                "faces cannot be clipped to a ball, the cut would be curved: use touch, or a box",
            ),
            (
                Query::all().order(Order::Objects),
                Kind::Mesh,
                "the order of objects is not possible for a mesh: its elements join vertices of any objects",
            ),
        ] {
            assert_eq!(query.check(kind, 3).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn later_limits_and_filters_narrow() {
        let query = Query::all().limit(5).limit(9).filter("a > 1".parse().unwrap());
        let query = query.filter("b = 2".parse().unwrap());
        assert_eq!(query.limit, Some(5));
        assert_eq!(query.filter.unwrap().to_string(), "a > 1 and b = 2");
    }
}
