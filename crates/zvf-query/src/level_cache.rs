//! An open level of a handle: cached facts for queries, and its columns by name.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::OnceCell;
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_model::{
    AttributeReader, ChunkFragments, Kind, LevelReader, LinkAttribute, LinkFamily, RowAttribute,
};
use zvf_store::Listing;

use crate::error::BadQuery;

/// An open level of a handle. Its columns stay open with it.
#[derive(Debug)]
pub(crate) struct LevelCache {
    pub(crate) level: LevelReader,
    /// Whether the level has objects; determined only for levels with bins, to decide on pruning by
    /// bins.
    pub(crate) has_objects: bool,
    names: OnceCell<Arc<[String]>>,
    /// Chunks that have fragments but no vertices.
    stray: OnceCell<Vec<ChunkFragments>>,
}

impl Deref for LevelCache {
    type Target = LevelReader;

    fn deref(&self) -> &LevelReader {
        &self.level
    }
}

impl LevelCache {
    /// Creates an empty cache for an open level.
    pub(crate) async fn from_level(level: LevelReader) -> Result<Self> {
        let binned = level.bins().is_some_and(|bins| bins.count() > 1);
        let has_objects = binned && level.node().group("object_index").await?.is_some();
        Ok(Self { level, has_objects, names: OnceCell::new(), stray: OnceCell::new() })
    }

    /// Returns the number of vertices that the level states; 0 where it states none.
    pub(crate) fn vertex_count(&self) -> u64 {
        u64::try_from(self.level.node().meta().vertex_count).unwrap_or(0) // negative: unknown
    }

    /// Returns the chunks that have fragments but no vertices; searches them once.
    pub(crate) async fn stray_fragments(&self) -> Result<&[ChunkFragments]> {
        let found = self.stray.get_or_try_init(|| self.level.fragments_without_vertices());
        Ok(found.await?)
    }

    /// Returns the kind as which the level is read: points if the store names none.
    pub(crate) fn kind(&self, asked: Option<Kind>) -> Result<Kind, BadQuery> {
        let first = self.level.kinds().first().copied().unwrap_or(Kind::PointCloud);
        match asked {
            Some(kind) if kind == first || self.level.kinds().contains(&kind) => Ok(kind),
            Some(kind) => Err(BadQuery::NoSuchKind(kind)),
            None => Ok(first),
        }
    }

    /// Returns the number of the axis called `name`.
    pub(crate) fn axis(&self, name: &str) -> Option<u32> {
        let axes = self.level.store().root().axes().iter();
        let mut named = (0..).zip(axes.take(self.level.axes()));
        named.find_map(|(number, axis)| (axis.name == name).then_some(number))
    }

    /// Returns the attribute of vertices called `name`; `near` is a chunk that will be read.
    pub(crate) async fn vertex_attribute(
        &self,
        name: &str,
        near: Option<&ChunkKey>,
    ) -> Result<Option<AttributeReader>> {
        match near {
            Some(near) => self.level.attribute_near(name, near).await,
            None => self.level.attribute(name).await,
        }
    }

    /// Like [`vertex_attribute`](Self::vertex_attribute), with an error if it does not exist.
    pub(crate) async fn required_vertex_attribute(
        &self,
        name: &str,
        near: Option<&ChunkKey>,
    ) -> Result<AttributeReader> {
        if let Some(found) = self.level.listed_attribute(name, near).await? {
            return Ok(found);
        }
        let mut error = unknown_column_error("vertex", name, &self.names().await?);
        if let BadQuery::NoSuchColumn { available, .. } = &mut error {
            let scopes = [
                ("object", self.level.object_attribute_names().await?),
                ("fragment", self.level.fragment_attribute_names().await?),
                ("link", self.level.link_attribute_names().await?),
            ];
            for (scope, listing) in scopes {
                if listing.names.iter().any(|listed| listed == name) {
                    available.push_str(&format!("; {scope}s have it: write {scope}.{name}"));
                }
            }
        }
        Err(error.into())
    }

    /// Returns the attribute of fragments called `name`.
    pub(crate) async fn fragment_attribute(&self, name: &str) -> Result<AttributeReader> {
        let found = self.level.fragment_attribute(name).await?;
        required(found, "fragment", name, self.level.fragment_attribute_names()).await
    }

    /// Returns the attribute of objects called `name`.
    pub(crate) async fn object_attribute(&self, name: &str) -> Result<RowAttribute> {
        let found = self.level.object_attribute(name).await?;
        required(found, "object", name, self.level.object_attribute_names()).await
    }

    /// Returns the attribute called `name` of the links of a level.
    pub(crate) async fn link_attribute(
        &self,
        family: Option<&LinkFamily>,
        name: &str,
    ) -> Result<LinkAttribute> {
        let found = match family {
            Some(family) => family.attribute(name).await?,
            None => None,
        };
        required(found, "link", name, self.level.link_attribute_names()).await
    }

    /// Returns the names of the attributes of vertices.
    pub(crate) async fn names(&self) -> Result<Arc<[String]>> {
        let names = self.names.get_or_try_init(|| async {
            Ok::<_, zvf_error::Error>(self.level.attribute_names().await?.names.into())
        });
        names.await.cloned()
    }
}

/// Returns what was found, or the error that lists the existing names.
async fn required<T>(
    found: Option<T>,
    scope: &'static str,
    name: &str,
    names: impl Future<Output = Result<Listing>>,
) -> Result<T> {
    match found {
        Some(found) => Ok(found),
        None => Err(unknown_column_error(scope, name, &names.await?.names).into()),
    }
}

/// Returns the error for an unknown column.
pub(crate) fn unknown_column_error(scope: &'static str, name: &str, names: &[String]) -> BadQuery {
    let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    BadQuery::NoSuchColumn { scope, name: name.to_owned(), available }
}
