//! The viewer state for a store: all its folders as layers, with everything in view.

use serde_json::{Value as Json, json};

use zvf_error::Result;

use super::layer::Precomputed;
use super::segments::Ids;
use super::space::LayerForm;

impl Precomputed {
    /// Returns the Neuroglancer state that shows all folders of this store; `source` is their
    /// address, without a trailing slash.
    ///
    /// # Errors
    ///
    /// When level 0 or its index of objects cannot be read.
    pub async fn view_state(&self, source: &str) -> Result<Json> {
        let mut layers = Vec::new();
        let mut is_annotated = false;
        for layer in self.layers().await? {
            let address = format!("precomputed://{source}/{}", layer.name);
            if layer.form == LayerForm::Annotations {
                is_annotated = true;
                // Not "annotation": where the client starts slowly, it asks such a layer for its
                // state before the layer has read it from the link, and loses the layer.
                layers.push(json!({"type": "auto", "name": layer.name, "source": address}));
                continue;
            }
            let level = self.level_of(layer.kind).await?;
            let ids = Ids::read(&level, MAX_SHOWN).await?.ids;
            let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
            layers.push(json!({"type": "segmentation", "name": layer.name, "source": address,
                "segments": ids}));
        }
        let space = self.space();
        let (position, extent) = space.view();
        let dimensions = if is_annotated { space.dimensions() } else { space.view_dimensions() };
        Ok(json!({
            "dimensions": dimensions,
            "position": position,
            "projectionScale": extent * 1.5,
            "layout": "3d",
            "showSlices": false,
            "layers": layers,
        }))
    }
}

/// The number of initially visible objects; the segment list has the others.
const MAX_SHOWN: u64 = 200;
