//! The root document, with the built levels instead of the old ones.
//!
//! It announces only what is stored: links between levels, and the features they need, are
//! announced only if they are written.

use serde_json::json;
use zvf_metadata::{Capability, CrossLevelStorage, Dataset, LevelDoc, Root as Document, Token};
use zvf_store::Store;

/// The root document under construction.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    document: Document,
    levels: Vec<u32>,
}

impl Root {
    /// Returns the document of `store`, without levels above level 0 and their metadata.
    pub(crate) fn from_store(store: &Store) -> Self {
        let mut document = store.root().clone();
        let block = &mut document.zarr_vectors;
        let of_levels = [
            Capability::PreservedObjectIds,
            Capability::SharedFragments,
            Capability::MultiscaleLinks,
            Capability::AdditiveLevels,
        ];
        let is_kept =
            |token: &Token<Capability>| token.known_word().is_none_or(|c| !of_levels.contains(&c));
        block.format_capabilities.retain(is_kept);
        block.required_capabilities.retain(is_kept);
        (block.cross_level_depth, block.cross_level_storage) = (None, None);
        if let Some(block) = document.multiscales.first_mut() {
            block.datasets.retain(|dataset| dataset.path == "0");
        }
        Self { document, levels: vec![0] }
    }

    /// Returns the bin size of level 0.
    fn base_bin(&self) -> &[f64] {
        self.document.zarr_vectors.base_bin_shape()
    }

    /// Adds a level with bins of this size.
    pub(crate) fn add_level(&mut self, number: u32, bin: &[f64]) {
        let scale = bin.iter().zip(self.base_bin()).map(|(size, base)| size / base).collect();
        let half = bin.iter().map(|size| size / 2.0).collect();
        if let Some(block) = self.document.multiscales.first_mut() {
            block.datasets.push(Dataset::new(&number.to_string(), scale, half));
        }
        self.levels.push(number);
    }

    /// Announces that objects keep their rows, where there is an index, and that fragments are
    /// shared.
    #[cfg(feature = "reference")]
    pub(crate) fn announce_objects(&mut self, indexed: bool) {
        if indexed {
            self.announce(Capability::PreservedObjectIds);
        }
        self.announce(Capability::SharedFragments);
    }

    /// Announces what the document of a level states.
    pub(crate) fn announce_level(&mut self, level: &LevelDoc) {
        if level.preserves_object_ids {
            self.announce(Capability::PreservedObjectIds);
        }
        if level.fragment_link_groups {
            self.announce(Capability::FragmentLinkGroups);
        }
    }

    /// Announces the links between levels.
    pub(crate) fn announce_links(&mut self, depth: i64, storage: CrossLevelStorage, any: bool) {
        if any {
            self.announce(Capability::MultiscaleLinks);
        }
        let block = &mut self.document.zarr_vectors;
        block.cross_level_depth = Some(depth);
        block.cross_level_storage = Some(storage.into());
    }

    /// Announces that there are no links.
    pub(crate) fn without_links(&mut self) {
        self.document.zarr_vectors.cross_level_storage = Some(CrossLevelStorage::None.into());
    }

    /// Announces that readers must support a feature.
    pub(crate) fn require(&mut self, capability: Capability) {
        self.announce(capability);
        add(&mut self.document.zarr_vectors.required_capabilities, capability);
    }

    fn announce(&mut self, capability: Capability) {
        add(&mut self.document.zarr_vectors.format_capabilities, capability);
    }

    /// Returns the finished document.
    pub(crate) fn finish(mut self) -> Document {
        let nodes = self.levels.iter();
        let nodes = nodes.map(|level| json!({"type": "zv:level", "name": level.to_string()}));
        let nodes: Vec<_> = nodes.collect();
        if let Some(ome) = self.document.ome.as_mut().and_then(|ome| ome.as_object_mut()) {
            ome.insert("nodes".to_owned(), nodes.into());
        }
        self.document
    }
}

fn add(capabilities: &mut Vec<Token<Capability>>, capability: Capability) {
    if !capabilities.iter().any(|token| token.known_word() == Some(capability)) {
        capabilities.push(capability.into());
    }
}
