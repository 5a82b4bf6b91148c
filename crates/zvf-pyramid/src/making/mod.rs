//! One level, being made of the one below.
//!
//! ```text
//! points      what lies in cells that are complete goes on            points
//! chains      some objects at a time, and so skeletons                chains
//! pieces      graphs and meshes, by blocks of chunks                  pieces
//! ```

mod chains;
mod pieces;
mod points;

use serde_json::{Value as Json, json};
use zvf_format::grid::ChunkShape;
use zvf_format::key::Delta;
use zvf_format::metadata::{Codec, Level as Document, LinkStore, LinksConvention, Node};
use zvf_model::{Batch, Bounds, Elements, Kind, Level, LevelReader};
use zvf_query::{Query, Reader};
use zvf_store::{Build, Codecs, Store};
use zvf_write::{LevelWriter, Outside, PairFolder, Pairs, Schema, WriteOptions};

use crate::build::Names;
use crate::carry::Objects;
use crate::ladder::{Ladder, Step};
use crate::links::Taking;
use crate::num::{to_i64, to_u64};
use crate::report::LevelReport;
use crate::shape::{Made, Rules, collapse, contract, tree};
use crate::{Method, PyramidError};

/// One level, being made.
pub(crate) struct Making<'a> {
    pub(crate) source: &'a Store,
    pub(crate) build: &'a Build,
    pub(crate) ladder: &'a Ladder,
    pub(crate) step: &'a Step,
    pub(crate) rules: Rules,
    pub(crate) names: &'a Names,
    pub(crate) error: Option<f64>,             // of the level below
    pub(crate) folder: Option<&'a PairFolder>, // where there will be links
}

/// A level that was made.
pub(crate) struct MadeLevel {
    pub(crate) report: LevelReport,
    pub(crate) document: Document,
    /// What stands for the vertices of the level below, where that was asked for.
    pub(crate) parents: Option<Pairs>,
}

impl Making<'_> {
    /// Makes the level.
    pub(crate) async fn level(&self) -> Result<MadeLevel, PyramidError> {
        let reader = Reader::new(self.source.clone());
        let below = reader.level(self.below()).await?;
        let kind = self.ladder.kind;
        let options = self.ladder.options();
        let levels = std::slice::from_ref(&below);
        let mut objects = Objects::of(levels).await?;
        if let Some(objects) = &mut objects {
            let choice = (&options.strategy, options.seed);
            objects.choose(&reader, &below, kind, self.step, choice).await?;
            if options.renumber {
                objects.renumber();
            }
        } else if self.step.sparsity > 1.0 {
            let expected = "a level with objects, to keep some of them";
            return Err(PyramidError::unsupported("objects of the store", expected, "none"));
        }
        let write = WriteOptions {
            memory: options.memory,
            outside: Outside::Expand,
            ..WriteOptions::default()
        };
        let schema = self.schema(Some(&below)).await?;
        let writer = LevelWriter::new(self.build, self.step.level, schema, &write);
        let mut taking = Taking::new(writer, self.folder, objects.as_ref());
        if let Some(objects) = &objects {
            objects.carry(levels, &self.names.source_id, taking.writer.writer()).await?;
        }
        let objects = objects.as_ref();
        let (off, elements) = if kind == Kind::PointCloud {
            (self.points(&reader, objects, &mut taking).await?, 0)
        } else if kind.is_chain() {
            (self.chains(&reader, objects, &mut taking).await?, 0)
        } else if kind == Kind::Skeleton && objects.is_some() {
            self.trees(&reader, objects, &mut taking).await?
        } else {
            self.pieces(&reader, &below, objects, &mut taking).await?
        };
        let error = self.error.map(|before| before + off).filter(|error| error.is_finite());
        let recipe = self.recipe(error);
        let mut document = Document::new(self.step.level);
        let describe = |level: &mut Document| {
            self.describe(level, objects, recipe);
            document.clone_from(level);
        };
        let (report, parents) = taking.finish(self.folder, describe).await?;
        let kept = objects.map_or(0, |objects| to_u64(objects.kept()));
        let (level, vertices) = (self.step.level, report.vertices);
        let report = LevelReport { level, vertices, objects: kept, elements, bytes: 0, error };
        Ok(MadeLevel { report, document, parents })
    }

    fn below(&self) -> Level {
        Level(self.step.level.saturating_sub(1))
    }

    /// The schema of level 0, with the chunks of this one, and links stored as those of `linked`.
    pub(crate) async fn schema(
        &self,
        linked: Option<&LevelReader>,
    ) -> Result<Schema, PyramidError> {
        let root = self.source.root();
        let chunk = ChunkShape::new(&self.step.chunk)?;
        let mut schema = Schema::new(self.ladder.kind, root.axes().to_vec(), chunk)?;
        if root.zarr_vectors.base_bin_shape.is_some() {
            schema = schema.with_bins(&self.step.bin)?;
        }
        let [low, high] = &root.zarr_vectors.bounds;
        let finite = low.iter().chain(high).all(|x| x.is_finite());
        if let Some(bounds) = Bounds::new(low, high).ok().filter(|_| finite) {
            schema = schema.with_bounds(bounds)?;
        }
        if let Some(Node::Array(doc)) = self.source.node("0/vertices").await?.as_deref() {
            let inner = doc.sharding().map_or(&doc.codecs, |sharding| &sharding.codecs);
            let own: Vec<Codec> =
                inner.iter().filter(|codec| codec.name() != "vlen-bytes").cloned().collect();
            schema = schema.with_codecs(Codecs::of(&own).unwrap_or_default());
            if doc.sharding().is_some() {
                schema = schema.sharded(&doc.chunk_shape)?;
            }
        }
        let links = match linked {
            Some(level) => level.links(Delta::SAME).await?,
            None => None,
        };
        if let Some(links) = links {
            if links.policy().is_directed() && self.ladder.kind != Kind::Skeleton {
                schema = schema.directed();
            }
            if links.is_duplicated() {
                schema = schema.with_links(LinkStore::Duplicate);
            }
        }
        let convention = root.zarr_vectors.links_convention();
        if convention.known() == Some(LinksConvention::Explicit) {
            schema = schema.explicit();
        }
        Ok(schema)
    }

    /// A question to the level below.
    fn asking(&self, query: Query, objects: Option<&Objects>) -> Query {
        let query = query.at_level(self.below()).uncached();
        let query = if self.folder.is_some() { query.with_places() } else { query };
        if objects.is_some() { query.with_owners() } else { query }
    }

    /// A coarser batch, in which the rows that are `fixed` are what they were.
    fn shaped(&self, batch: Batch, fixed: &[bool], directed: bool) -> Result<Made, PyramidError> {
        let size = self.step.size.unwrap_or(0.0);
        match self.step.method {
            Method::Cluster => contract::contracted(&batch, size, directed, fixed, &self.rules),
            Method::Simplify => {
                let prune = self.ladder.options().prune.unwrap_or(0.0);
                tree::thinned(&batch, size, prune, &self.rules)
            }
            Method::Collapse => {
                collapse::collapsed(&batch, self.step.keep.unwrap_or(1.0), fixed, &self.rules)
            }
            Method::Subset | Method::Decimate | Method::Keep => Ok(Made::same(batch)),
        }
    }

    /// Without attributes of edges that are not stored: those that the order of vertices implies.
    pub(crate) fn plain_links(&self, batch: Batch) -> Result<Batch, PyramidError> {
        let root = &self.source.root().zarr_vectors;
        let explicit = root.links_convention().known() == Some(LinksConvention::Explicit);
        match batch.elements() {
            Some(elements) if self.ladder.kind == Kind::Skeleton && !explicit => {
                let plain = Elements::new(elements.width(), elements.rows().to_vec())?;
                Ok(batch.clone().with_elements(plain)?)
            }
            _ => Ok(batch),
        }
    }

    /// What the level says of itself.
    pub(crate) fn describe(&self, level: &mut Document, objects: Option<&Objects>, recipe: Json) {
        let root = &self.source.root().zarr_vectors;
        level.parent_level = Some(i64::from(self.step.level).saturating_sub(1));
        level.object_sparsity = 1.0 / self.step.sparsity;
        level.coarsening_method = self.step.method.to_string();
        if self.step.chunk != root.chunk_shape {
            level.chunk_shape = Some(self.step.chunk.clone());
        }
        level.bin_shape = Some(self.step.bin.clone());
        let ratio = self.step.bin.iter().zip(root.base_bin_shape());
        level.bin_ratio = Some(ratio.map(|(own, base)| own / base).collect());
        let preserved = objects.filter(|objects| !objects.is_renumbered());
        level.preserves_object_ids = preserved.is_some();
        level.inherited_num_objects = preserved.map(|objects| to_i64(to_u64(objects.rows())));
        level.extras.insert(RECIPE.to_owned(), recipe);
    }

    /// How the level was made, so that it can be made again.
    pub(crate) fn recipe(&self, error: Option<f64>) -> Json {
        let options = self.ladder.options();
        let rules =
            options.rules.iter().map(|(name, rule)| (name.clone(), rule.to_string().into()));
        let rules: serde_json::Map<String, Json> = rules.collect();
        json!({
            "method": self.step.method.to_string(),
            "size": self.step.size,
            "keep": self.step.keep,
            "chunk_scale": options.chunk_scale,
            "sparsity": self.step.sparsity,
            "strategy": options.strategy.to_string(),
            "seed": options.seed,
            "rules": rules,
            "weight": self.rules.weight,
            "prune": options.prune,
            "source_id": options.renumber.then_some(&self.names.source_id),
            "geometric_error": error,
        })
    }
}

/// Where the recipe of a level stands in its document.
pub(crate) const RECIPE: &str = "zvf.coarsening";
