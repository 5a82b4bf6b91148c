//! The cache of an open level: its columns are opened on first use and kept with the handle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_model::{
    AttributeReader, ChunkFragments, Kind, LevelReader, LinkAttribute, LinkFamily, RowAttribute,
};
use zvf_store::Listing;

use crate::error::BadQuery;

/// One level of a handle.
#[derive(Debug)]
pub(crate) struct LevelCache {
    pub(crate) level: LevelReader,
    /// Whether the level has objects; determined only for levels with bins, where it decides on pruning by bins.
    pub(crate) has_objects: bool,
    names: Mutex<Option<Arc<[String]>>>,
    attributes: ColumnCache<AttributeReader>,
    object_attribute: ColumnCache<RowAttribute>,
    link_attribute: ColumnCache<LinkAttribute>,
    /// Chunks with fragments and without vertices.
    stray: OnceCell<Vec<ChunkFragments>>,
}

/// Open columns by their names.
type ColumnCache<T> = Mutex<BTreeMap<String, T>>;

impl LevelCache {
    /// Creates an empty cache for an open level.
    pub(crate) async fn from_level(level: LevelReader) -> Result<Self> {
        let binned = level.bins().is_some_and(|bins| bins.count() > 1);
        let has_objects = binned && level.node().group("object_index").await?.is_some();
        Ok(Self {
            level,
            has_objects,
            names: Mutex::default(),
            attributes: Mutex::default(),
            object_attribute: Mutex::default(),
            link_attribute: Mutex::default(),
            stray: OnceCell::new(),
        })
    }

    /// Returns the chunks with fragments and without vertices; searches them once.
    pub(crate) async fn stray_fragments(&self) -> Result<&[ChunkFragments]> {
        let found = self.stray.get_or_try_init(|| self.level.fragments_without_vertices());
        Ok(found.await?)
    }

    /// Returns the kind that the level is read as: points, where the store names none.
    pub(crate) fn kind(&self, asked: Option<Kind>) -> Result<Kind, BadQuery> {
        let first = self.level.kinds().first().copied().unwrap_or(Kind::PointCloud);
        match asked {
            Some(kind) if kind == first || self.level.kinds().contains(&kind) => Ok(kind),
            Some(kind) => Err(BadQuery::NoSuchKind(kind)),
            None => Ok(first),
        }
    }

    /// Returns the attribute of vertices called `name`; `near` is a chunk that will be read.
    pub(crate) async fn vertex_attribute(
        &self,
        name: &str,
        near: Option<&ChunkKey>,
    ) -> Result<Option<AttributeReader>> {
        if let Some(cached) = find_cached(&self.attributes, name) {
            return Ok(Some(cached));
        }
        let found = match near {
            Some(near) => self.level.attribute_near(name, near).await?,
            None => self.level.attribute(name).await?,
        };
        Ok(insert_found(&self.attributes, name, found))
    }

    /// Returns the number of the axis called `name`.
    pub(crate) fn axis(&self, name: &str) -> Option<u32> {
        let axes = self.level.store().root().axes().iter();
        let mut named = (0..).zip(axes.take(self.level.axes()));
        named.find_map(|(number, axis)| (axis.name == name).then_some(number))
    }

    /// Returns the same; an error where it is not there.
    pub(crate) async fn required_vertex_attribute(
        &self,
        name: &str,
        near: Option<&ChunkKey>,
    ) -> Result<AttributeReader> {
        match self.vertex_attribute(name, near).await? {
            Some(found) => Ok(found),
            None => {
                let mut error = unknown_column_error("vertex", name, &self.names().await?);
                if let BadQuery::NoSuchColumn { available, .. } = &mut error {
                    for scope in self.other_scopes(name).await? {
                        available.push_str(&format!("; {scope}s have it: write {scope}.{name}"));
                    }
                }
                Err(error.into())
            }
        }
    }

    /// Returns what else than vertices has an attribute called `name`.
    async fn other_scopes(&self, name: &str) -> Result<Vec<&'static str>> {
        let level = &self.level;
        let scopes = [
            ("object", level.object_attribute_names().await?),
            ("fragment", level.fragment_attribute_names().await?),
            ("link", level.link_attribute_names().await?),
        ];
        let has_name = |listing: &Listing| listing.names.iter().any(|listed| listed == name);
        Ok(scopes.iter().filter(|(_, names)| has_name(names)).map(|(scope, _)| *scope).collect())
    }

    /// Returns the attribute of fragments called `name`.
    pub(crate) async fn fragment_attribute(&self, name: &str) -> Result<AttributeReader> {
        match self.level.fragment_attribute(name).await? {
            Some(found) => Ok(found),
            None => {
                let names = self.level.fragment_attribute_names().await?.names;
                Err(unknown_column_error("fragment", name, &names).into())
            }
        }
    }

    /// Returns the attribute of objects called `name`.
    pub(crate) async fn object_attribute(&self, name: &str) -> Result<RowAttribute> {
        if let Some(cached) = find_cached(&self.object_attribute, name) {
            return Ok(cached);
        }
        match insert_found(&self.object_attribute, name, self.level.object_attribute(name).await?) {
            Some(found) => Ok(found),
            None => {
                let names = self.level.object_attribute_names().await?.names;
                Err(unknown_column_error("object", name, &names).into())
            }
        }
    }

    /// Returns the attribute called `name` of the links of a level.
    pub(crate) async fn link_attribute(
        &self,
        family: &LinkFamily,
        name: &str,
    ) -> Result<Option<LinkAttribute>> {
        if let Some(cached) = find_cached(&self.link_attribute, name) {
            return Ok(Some(cached));
        }
        Ok(insert_found(&self.link_attribute, name, family.attribute(name).await?))
    }

    /// Returns the same; an error where it is not there.
    pub(crate) async fn required_link_attribute(
        &self,
        family: Option<&LinkFamily>,
        name: &str,
    ) -> Result<LinkAttribute> {
        let found = match family {
            Some(family) => self.link_attribute(family, name).await?,
            None => None,
        };
        match found {
            Some(found) => Ok(found),
            None => {
                let names = self.level.link_attribute_names().await?.names;
                Err(unknown_column_error("link", name, &names).into())
            }
        }
    }

    /// Returns the names of the attributes of vertices.
    pub(crate) async fn names(&self) -> Result<Arc<[String]>> {
        let lock_names = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = lock_names().clone();
        if let Some(names) = cached {
            return Ok(names);
        }
        let names: Arc<[String]> = self.level.attribute_names().await?.names.into();
        Ok(Arc::clone(lock_names().insert(names)))
    }
}

fn find_cached<T: Clone>(cache: &ColumnCache<T>, name: &str) -> Option<T> {
    cache.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

fn insert_found<T: Clone>(cache: &ColumnCache<T>, name: &str, found: Option<T>) -> Option<T> {
    let found = found?;
    let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    Some(cache.entry(name.to_owned()).or_insert(found).clone())
}

/// Returns the error for an unknown column.
pub(crate) fn unknown_column_error(scope: &'static str, name: &str, names: &[String]) -> BadQuery {
    let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    BadQuery::NoSuchColumn { scope, name: name.to_owned(), available }
}
