//! A summary of one level.

use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;

use serde::Serialize;
use zvf_format::Class;
use zvf_format::key::Delta;
use zvf_format::num::to_u64;
use zvf_metadata::arrays::{ArrayAttributes as _, LinksFamily};
use zvf_metadata::{LinkStore, Node, Token};
use zvf_model::{LevelId, LevelReader};
use zvf_store::{LevelNode, Store};

use super::{StoredTotals, codec_words, shard_shape, type_word};
use crate::Error;

/// A summary of a level.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct LevelSummary {
    /// Its number; 0 is the full data.
    pub level: u32,
    /// Number of vertices, according to its document.
    pub vertices: i64,
    /// Number of chunks with vertices, if known.
    pub chunks: Option<u64>,
    /// Size of a chunk.
    pub chunk_shape: Vec<f64>,
    /// Size of a bin, if known.
    pub bin_shape: Option<Vec<f64>>,
    /// The type of a coordinate.
    pub dtype: Option<String>,
    /// The codecs of vertices.
    pub codecs: Vec<String>,
    /// Chunks per shard on each axis, if vertices are sharded.
    pub shard_shape: Option<Vec<u64>>,
    /// The level that it was built from.
    pub parent: Option<i64>,
    /// The method that built it.
    pub method: String,
    /// Maximum distance from level 0 in world units, if stated.
    pub error: Option<f64>,
    /// Fraction of objects that were kept.
    pub object_sparsity: f64,
    /// Whether it adds to the next coarser level rather than being a copy.
    pub additive: bool,
    /// The head since which it is behind level 0, with the boxes and objects concerned; `None` if
    /// it is up to date.
    pub stale: Option<serde_json::Value>,
    /// Whether writers still fill it: what is stored may not be all.
    pub deferred: bool,
    /// The attribute whose categories are the first axis of chunk keys.
    pub chunk_attribute: Option<String>,
    /// Attributes of vertices, fragments, objects, groups and links.
    pub attributes: Vec<AttributeSummary>,
    /// Number of objects of its index, if there is one.
    pub objects: Option<u64>,
    /// Number of groups of objects, if there are any.
    pub groups: Option<u64>,
    /// Families of links.
    pub links: Vec<LinkSummary>,
    /// Further geometries of the level, each in the form of a level; they have no further ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Self>,
    /// The kind of a further geometry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Names of geometries that have only vertices and links.
    pub geometries: Vec<String>,
    /// Stored objects and bytes, if they were listed.
    pub stored: Option<StoredTotals>,
    /// Why the rest is unknown.
    pub fault: Option<String>,
}

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AttributeSummary {
    /// Its scope: `vertex`, `fragment`, `object`, `group` or `link`.
    pub scope: &'static str,
    /// Its name.
    pub name: String,
    /// The type of its values, if known.
    pub dtype: Option<String>,
    /// Values per row; 1 if no document states it.
    pub width: u64,
    /// Number of categories, if its values are codes.
    pub categories: Option<usize>,
    /// Its unit.
    pub unit: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Whether the store keeps it right itself, so that copies and exports leave it out.
    #[serde(rename = "derived", skip_serializing_if = "std::ops::Not::not")]
    pub is_derived: bool,
}

/// The links of a level to itself or to another level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LinkSummary {
    /// By how many levels the further ends are coarser; 0 within the level.
    pub delta: i32,
    /// Number of arrays: one per offset of a record.
    pub arrays: u64,
    /// Whether these are all existing arrays; without a listing, only nearby ones are found.
    pub enumerated: bool,
    /// Whether the vertices have the order that links between chunks refer to. If Draco streams
    /// have their own order, these links cannot be read, and `enumerated` is false if there are
    /// any.
    pub keeps_order: bool,
    /// Vertices per record.
    pub width: u64,
    /// Whether the order of the vertices matters.
    pub directed: bool,
    /// Whether records are stored once per chunk of their ends.
    pub duplicated: bool,
    /// Number of links according to the document; `None` before 0.9, where it counts only a part of
    /// them.
    pub links: Option<u64>,
    /// Whether the target level does not exist.
    pub missing_level: bool,
}

impl LevelSummary {
    /// Summarizes level `number` of `store`; a fault in its content becomes part of the answer.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn read(store: &Store, number: u32) -> Result<Self, Error> {
        let mut summary = Self { level: number, object_sparsity: 1.0, ..Self::default() };
        match summary.look(store).await {
            Err(error) if is_of_backend(error.class()) => Err(error),
            Err(error) => {
                summary.fault = Some(error.to_string());
                Ok(summary)
            }
            Ok(()) => Ok(summary),
        }
    }

    async fn look(&mut self, store: &Store) -> Result<(), Error> {
        let node = store.level(self.level).await?;
        self.document(store, &node);
        let reader = LevelReader::open(store, LevelId(self.level)).await?;
        self.fill(&reader).await?;
        for kind in reader.extra_kinds() {
            let kind_reader = match reader.open_kind(kind).await {
                Ok(Some(kind_reader)) => kind_reader,
                Ok(None) => continue,
                // A geometry with only vertices and links.
                Err(error) if error.class() == Class::Unsupported => continue,
                Err(error) => return Err(error),
            };
            let mut beside =
                Self { level: self.level, kind: Some(kind.to_string()), ..Self::default() };
            beside.document(store, kind_reader.node());
            beside.fill(&kind_reader).await?;
            beside.groups = None; // those of the level
            self.geometries.retain(|name| Some(name) != beside.kind.as_ref());
            self.beside.push(beside);
        }
        Ok(())
    }

    /// Copies the fields of the document of a level.
    fn document(&mut self, store: &Store, node: &LevelNode) {
        let (root, meta) = (store.root(), node.meta());
        self.vertices = meta.vertex_count;
        self.chunk_shape = meta.effective_chunk_shape(root).to_vec();
        self.bin_shape = meta.effective_bin_shape(root, &self.level.to_string());
        self.parent = meta.parent_level;
        self.method = meta.coarsening_method.clone();
        self.error = meta.geometric_error();
        self.object_sparsity = meta.object_sparsity;
        self.additive = meta.is_additive();
        self.stale = meta.stale().cloned();
        self.deferred = meta.is_deferred();
        self.chunk_attribute = meta.chunk_attribute_name.clone();
    }

    async fn fill(&mut self, reader: &LevelReader) -> Result<(), Error> {
        let (store, node) = (reader.store(), reader.node());
        if let Some(Node::Array(doc)) = self.node(store, "vertices").await?.as_deref() {
            self.codecs = codec_words(doc);
            self.shard_shape = shard_shape(doc);
        }
        for (scope, group) in SCOPES {
            for name in node.children(group).await?.names {
                let path = format!("{group}/{name}");
                let attribute = self.attribute(store, scope, name, &path).await?;
                self.attributes.push(attribute);
            }
        }
        self.dtype = Some(reader.dtype().to_string());
        self.chunks = match reader.chunks().await {
            Ok(chunks) => Some(to_u64(chunks.len())),
            Err(error) if error.class() == Class::Unsupported => None,
            Err(error) => return Err(error),
        };
        self.exact_attributes(reader).await;
        self.links = links(reader).await?;
        let geometries = reader.geometries().await?;
        self.geometries = geometries.iter().map(|geometry| geometry.name().to_owned()).collect();
        self.objects = reader.objects().await?.map(|index| index.slots());
        self.groups = reader.groups().await?.map(|groups| groups.len());
        Ok(())
    }

    async fn node(&self, store: &Store, path: &str) -> Result<Option<std::sync::Arc<Node>>, Error> {
        let kind = self.kind.as_ref().map(|kind| format!("/{kind}")).unwrap_or_default();
        store.nodes().node(&format!("{}{kind}/{path}", self.level)).await
    }

    /// Returns the metadata of an attribute: its own, then the declarations of the root.
    async fn attribute(
        &self,
        store: &Store,
        scope: &'static str,
        name: String,
        path: &str,
    ) -> Result<AttributeSummary, Error> {
        let node = self.node(store, path).await?;
        let (attributes, array) = match node.as_deref() {
            Some(Node::Array(doc)) => (Some(&doc.attributes), Some(doc)),
            Some(Node::Group(doc)) => (Some(&doc.attributes), None),
            None => (None, None),
        };
        let value = |key: &str| attributes?.get(key);
        let text = |key: &str| value(key)?.as_str().map(str::to_owned);
        let declared = store.root().zarr_vectors.attribute_specs().and_then(Result::ok);
        let declared = declared.as_ref().and_then(|specs| specs.find(scope, &name));
        let own_type = array
            .filter(|doc| doc.data_type.item_size().is_some())
            .map(|doc| type_word(&doc.data_type));
        let width = array
            .filter(|_| matches!(scope, "object" | "group"))
            .and_then(|doc| doc.shape.get(1).copied());
        Ok(AttributeSummary {
            scope,
            dtype: text("dtype").or_else(|| declared.map(|d| d.dtype.clone())).or(own_type),
            width: width.or_else(|| declared.map(|declared| declared.channels)).unwrap_or(1),
            categories: value("categories").and_then(|found| Some(found.as_array()?.len())),
            unit: text("unit").or_else(|| declared?.unit.clone()),
            description: text("description").or_else(|| declared?.description.clone()),
            is_derived: value("derived") == Some(&true.into()),
            name,
        })
    }

    /// Sets widths and types to those of typed reads, for fragments and links without a declaration
    /// in the root.
    async fn exact_attributes(&mut self, reader: &LevelReader) {
        let specs = reader.store().root().zarr_vectors.attribute_specs().and_then(Result::ok);
        for attribute in &mut self.attributes {
            let (scope, name) = (attribute.scope, attribute.name.as_str());
            let is_declared = specs.as_ref().is_some_and(|specs| specs.find(scope, name).is_some());
            // An unreadable attribute keeps the values of its document.
            match scope {
                "vertex" => {
                    if let Ok(Some(found)) = reader.attribute(name).await {
                        attribute.dtype = Some(found.dtype().to_string());
                        attribute.width = found.width().into();
                        attribute.categories = found.categories().map(|found| found.values().len());
                    }
                }
                "fragment" if !is_declared => {
                    if let Ok(Some(found)) = reader.fragment_attribute(name).await {
                        attribute.width = found.width().into();
                    }
                }
                "link" if !is_declared => {
                    if let Ok(Some(links)) = reader.links(Delta::SAME).await
                        && let Ok(Some(found)) = links.attribute(name).await
                    {
                        attribute.width = found.width().into();
                    }
                }
                _ => {}
            }
        }
    }
}

/// Lists the families of links by the level difference of their ends.
async fn links(reader: &LevelReader) -> Result<Vec<LinkSummary>, Error> {
    let mut deltas = BTreeSet::new();
    for family in ["links", "cross_chunk_links"] {
        let names = reader.node().children(family).await?.names;
        deltas.extend(names.iter().filter_map(|name| Some(name.parse::<Delta>().ok()?.0)));
    }
    let mut found = Vec::new();
    let keeps_order = reader.keeps_order().await?;
    for delta in deltas.into_iter().map(Delta) {
        let links = match reader.links(delta).await {
            Ok(Some(links)) => links,
            Ok(None) => continue,
            Err(error) if error.class() == Class::NotFound && delta != Delta::SAME => {
                found.extend(links_to_nowhere(reader, delta).await?);
                continue;
            }
            Err(error) => return Err(error),
        };
        found.push(LinkSummary {
            delta: delta.0,
            arrays: to_u64(links.segments().len()),
            enumerated: links.is_complete(),
            keeps_order,
            width: to_u64(links.link_width()),
            directed: links.policy().is_directed(),
            duplicated: links.is_duplicated(),
            links: links.num_links(),
            missing_level: false,
        });
    }
    Ok(found)
}

/// Describes a family of links to a removed level, from its document.
async fn links_to_nowhere(
    reader: &LevelReader,
    delta: Delta,
) -> Result<Option<LinkSummary>, Error> {
    let path = format!("links/{delta}");
    let Some(group) = reader.node().group(&path).await? else { return Ok(None) };
    let Ok(doc) = LinksFamily::parse(group.attributes) else { return Ok(None) };
    let arrays = reader.node().children(&path).await?;
    Ok(Some(LinkSummary {
        delta: delta.0,
        arrays: to_u64(arrays.names.len()),
        enumerated: arrays.complete,
        keeps_order: true,
        width: doc.link_width,
        directed: doc.directed,
        duplicated: doc.store == Token::Known(LinkStore::Duplicate),
        links: doc.num_links,
        missing_level: true,
    }))
}

/// Returns whether an error is one of the backend, or transient, rather than of the level.
pub(super) fn is_of_backend(class: Class) -> bool {
    class.is_retryable() || class == Class::FileChanged
}

const SCOPES: [(&str, &str); 5] = [
    ("vertex", "vertex_attributes"),
    ("fragment", "fragment_attributes"),
    ("object", "object_attributes"),
    ("group", "group_attributes"),
    ("link", "link_attributes"),
];
