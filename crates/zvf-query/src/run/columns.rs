//! The returned columns: the names in the query, matched with the level.
//!
//! ```text
//! radius            of the vertices; where they have none of that name, of the edges or faces
//! vertex.radius     of the vertices
//! link.weight       of the edges or faces: beside these, one value each
//! fragment.code     of the fragment that a vertex is in: beside the vertices, under this name
//! object.mass       of the object that a vertex belongs to: likewise
//! ```
//!
//! A name is first tried as a whole, so that the name of an attribute may contain a dot.

use futures_util::future::try_join_all;
use zvf_error::Result;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::to_u64;
use zvf_metadata::path_segment;
use zvf_model::{AttributeReader, Kind, LevelReader, LinkAttribute, RowAttribute};

use crate::error::BadQuery;
use crate::level_cache::LevelCache;
use crate::query::Columns;

/// The columns of an answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerColumns {
    /// Of the vertices.
    pub(crate) vertex: Vec<AttributeReader>,
    /// Of the fragments, given with the vertices.
    pub(crate) fragment: Vec<AttributeReader>,
    /// Of the objects, given with the vertices.
    pub(crate) object: Vec<RowAttribute>,
    /// Of the edges or faces.
    pub(crate) link: Vec<LinkAttribute>,
    /// Whether those of the links were requested by name.
    pub(crate) links_named: bool,
}

impl AnswerColumns {
    /// Finds the columns that `columns` requests of a level of `kind`; `near` is a chunk that will
    /// be read.
    pub(crate) async fn new(
        columns: &Columns,
        cache: &LevelCache,
        kind: Kind,
        near: Option<&ChunkKey>,
    ) -> Result<Self> {
        let mut chosen = Self::default();
        match columns {
            Columns::None => {}
            Columns::All => {
                let names = cache.names().await?;
                let columns = names.iter().map(|name| cache.listed_attribute(name, near));
                chosen.vertex = try_join_all(columns).await?.into_iter().flatten().collect();
                if kind.has_links()
                    && let Some(family) = cache.links(Delta::SAME).await?
                {
                    chosen.link = family.attributes().await?;
                }
            }
            Columns::Named(names) => {
                let names: Vec<_> = names.iter().map(|name| path_segment(name)).collect();
                let columns = names.iter().map(|name| Self::find(name, cache, kind, near));
                for Self { vertex, fragment, object, link, .. } in try_join_all(columns).await? {
                    chosen.vertex.extend(vertex);
                    chosen.fragment.extend(fragment);
                    chosen.object.extend(object);
                    chosen.link.extend(link);
                }
                chosen.links_named = !chosen.link.is_empty();
            }
        }
        Ok(chosen)
    }

    /// Finds one column.
    async fn find(
        name: &str,
        cache: &LevelCache,
        kind: Kind,
        near: Option<&ChunkKey>,
    ) -> Result<Self> {
        let mut chosen = Self::default();
        if let Some(found) = cache.vertex_attribute(name, near).await? {
            chosen.vertex.push(found);
            return Ok(chosen);
        }
        match name.split_once('.') {
            Some(("vertex", rest)) => {
                chosen.vertex.push(cache.required_vertex_attribute(rest, near).await?);
            }
            Some(("fragment", rest)) => chosen.fragment.push(cache.fragment_attribute(rest).await?),
            Some(("object", rest)) => chosen.object.push(cache.object_attribute(rest).await?),
            Some(("link", rest)) => {
                check_links(kind)?;
                let family = cache.links(Delta::SAME).await?;
                chosen.link.push(cache.link_attribute(family.as_ref(), rest).await?);
            }
            _ => {
                let family = match kind.has_links() {
                    true => cache.links(Delta::SAME).await?,
                    false => None,
                };
                if let Some(family) = family
                    && let Some(found) = family.attribute(name).await?
                {
                    chosen.link.push(found);
                    return Ok(chosen);
                }
                // The error lists the existing ones.
                chosen.vertex.push(cache.required_vertex_attribute(name, near).await?);
            }
        }
        Ok(chosen)
    }

    /// Returns the bytes of one vertex of `level` with its columns, saturating: only compared with
    /// limits.
    pub(crate) fn row_bytes(&self, level: &LevelReader) -> u64 {
        let position = level.dtype().size.saturating_mul(to_u64(level.axes()));
        let sizes = self.vertex.iter().map(|field| (field.dtype().size, field.width()));
        sizes.fold(position, |sum, (size, width)| {
            sum.saturating_add(size.saturating_mul(width.into()))
        })
    }

    /// Returns whether the fragment of each vertex is needed.
    pub(crate) fn need_fragments(&self) -> bool {
        !self.fragment.is_empty() || !self.object.is_empty()
    }
}

/// Refuses a request about edges and faces if the kind has none.
pub(crate) fn check_links(kind: Kind) -> Result<(), BadQuery> {
    if kind.has_links() {
        return Ok(());
    }
    let (what, why) = ("an attribute of links", "it has no edges or faces");
    Err(BadQuery::Kind { what, kind, why })
}
