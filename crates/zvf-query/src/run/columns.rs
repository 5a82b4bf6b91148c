//! Which columns are returned: names of the question, met with what the level has.
//!
//! ```text
//! radius            of the vertices; where they have none of that name, of the edges or faces
//! vertex.radius     of the vertices
//! link.weight       of the edges or faces: beside these, one value each
//! fragment.code     of the fragment that a vertex is in: beside the vertices, under this name
//! object.mass       of the object that a vertex belongs to: likewise
//! ```
//!
//! A name is taken as it is first, so that an attribute may have a point in its name.

use zvf_error::Result;
use zvf_format::key::{ChunkKey, Delta};
use zvf_model::{AttributeReader, Kind, LinkAttribute, RowAttribute};

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
    /// Whether those of the links were asked for by name.
    pub(crate) links_named: bool,
}

impl AnswerColumns {
    /// Finds what `columns` asks of a level of `kind`; `near` is a chunk that will be read.
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
                for name in &*cache.names().await? {
                    chosen.vertex.push(cache.required_vertex_attribute(name, near).await?);
                }
                if kind.has_links()
                    && let Some(family) = cache.level.links(Delta::SAME).await?
                {
                    for name in cache.level.link_attribute_names().await?.names {
                        chosen.link.extend(cache.link_attribute(&family, &name).await?);
                    }
                }
            }
            Columns::Named(names) => {
                for name in names {
                    chosen.add(name, cache, kind, near).await?;
                }
                chosen.links_named = !chosen.link.is_empty();
            }
        }
        Ok(chosen)
    }

    async fn add(
        &mut self,
        name: &str,
        cache: &LevelCache,
        kind: Kind,
        near: Option<&ChunkKey>,
    ) -> Result<()> {
        if let Some(found) = cache.vertex_attribute(name, near).await? {
            self.vertex.push(found);
            return Ok(());
        }
        match name.split_once('.') {
            Some(("vertex", rest)) => {
                self.vertex.push(cache.required_vertex_attribute(rest, near).await?);
            }
            Some(("fragment", rest)) => self.fragment.push(cache.fragment_attribute(rest).await?),
            Some(("object", rest)) => self.object.push(cache.object_attribute(rest).await?),
            Some(("link", rest)) => {
                check_links(kind)?;
                let family = cache.level.links(Delta::SAME).await?;
                self.link.push(cache.required_link_attribute(family.as_ref(), rest).await?);
            }
            _ => {
                let family = match kind.has_links() {
                    true => cache.level.links(Delta::SAME).await?,
                    false => None,
                };
                let found = match &family {
                    Some(family) => cache.link_attribute(family, name).await?,
                    None => None,
                };
                let Some(found) = found else {
                    // Says which there are.
                    self.vertex.push(cache.required_vertex_attribute(name, near).await?);
                    return Ok(());
                };
                self.link.push(found);
            }
        }
        Ok(())
    }

    /// Returns whether vertices must say which fragment they are in.
    pub(crate) fn need_fragments(&self) -> bool {
        !self.fragment.is_empty() || !self.object.is_empty()
    }
}

/// Refuses something about edges and faces where the kind has none.
pub(crate) fn check_links(kind: Kind) -> Result<(), BadQuery> {
    if kind.has_links() {
        return Ok(());
    }
    let (what, why) = ("an attribute of links", "it has no edges or faces");
    Err(BadQuery::Kind { what, kind, why })
}
