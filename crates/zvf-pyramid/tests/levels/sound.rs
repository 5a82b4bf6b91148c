//! The validator on additive levels: valid as built, and with one fault each.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use zvf_model::{Batch, Kind};
use zvf_pyramid::{Method, Options};

use crate::additive::{additive_options, batch_of_kind};
use crate::fixtures::{build, list_findings, store, walks, with_objects};

/// Returns chains, trees, faces, edges and points, each with 24 objects.
fn kinds() -> Vec<Batch> {
    let mut streamlines = Batch::new(Kind::Streamline, walks(24, 50).positions().clone());
    streamlines = streamlines.with_parts(walks(24, 50).parts().clone()).unwrap();
    let mut batches = vec![walks(24, 50), streamlines];
    for kind in [Kind::Skeleton, Kind::Mesh, Kind::Graph, Kind::PointCloud] {
        batches.push(batch_of_kind(kind, Some(24)));
    }
    batches
}

async fn build_store(batch: &Batch, seed: u64) -> (TempDir, String) {
    let (dir, address) = store(8.0, batch, with_objects(24)).await;
    let method = Some(Method::Keep);
    let reports = build(&address, &Options { seed, method, ..additive_options(2) }).await;
    assert_eq!(reports.len(), 3);
    (dir, address)
}

/// Changes the attributes of a document.
fn edit(address: &str, node: &str, change: impl FnOnce(&mut Value)) {
    let path = Path::new(address).join(node).join("zarr.json");
    let mut doc: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut doc["attributes"]);
    fs::write(path, doc.to_string()).unwrap();
}

fn forget_refinement(address: &str, level: &str) {
    edit(address, level, |attributes| {
        let level = attributes["zarr_vectors_level"].as_object_mut().unwrap();
        assert_eq!(level.remove("refinement"), Some("add".into()));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn built_levels_are_valid_and_faults_are_found() {
    for batch in kinds() {
        let kind = batch.kind();
        let (_first_dir, address) = build_store(&batch, 3).await;
        assert_eq!(list_findings(&address).await, [""; 0], "{kind}");
        let root = fs::read(Path::new(&address).join("zarr.json")).unwrap();

        // The root does not list the required capability.
        edit(&address, "", |attributes| {
            let root = attributes["zarr_vectors"].as_object_mut().unwrap();
            root.remove("required_capabilities").unwrap();
        });
        let expected = ["error M15 0/zarr.json", "error M15 1/zarr.json"];
        assert_eq!(list_findings(&address).await, expected, "{kind}");
        fs::write(Path::new(&address).join("zarr.json"), root).unwrap();

        // A level is not marked as additive: its readers miss the rows of other levels.
        forget_refinement(&address, "1");
        assert_eq!(list_findings(&address).await, ["error P12 1/zarr.json"], "{kind}");
        forget_refinement(&address, "0");
        let expected = ["error P12 zarr.json", "error P12 0/zarr.json", "error P12 1/zarr.json"];
        assert_eq!(list_findings(&address).await, expected, "{kind}");
        for level in ["0", "1"] {
            edit(&address, level, |attributes| {
                attributes["zarr_vectors_level"]["refinement"] = "add".into();
            });
        }
        assert_eq!(list_findings(&address).await, [""; 0], "{kind}");

        // The coarsest level comes from another choice of objects, so some objects are at two levels.
        let (_dir, donor) = build_store(&batch, 5).await;
        fs::remove_dir_all(Path::new(&address).join("2")).unwrap();
        fs::rename(Path::new(&donor).join("2"), Path::new(&address).join("2")).unwrap();
        let findings = list_findings(&address).await;
        assert!(findings.contains(&"error P11 0/object_index".to_owned()), "{kind}: {findings:#?}");
        let is_duplicate = |finding: &String| finding.starts_with("error P11 ");
        assert!(findings.iter().all(is_duplicate), "{kind}: {findings:#?}");
    }
}

/// Rebuilding an additive store leaves no fault for the validator.
#[tokio::test(flavor = "multi_thread")]
async fn rebuilt_stores_are_valid() {
    for batch in kinds() {
        let (_dir, address) = build_store(&batch, 3).await;
        let sparse = Options { levels: Some(1), sparsity: 2.0, ..Options::default() };
        for options in [sparse, Options { levels: Some(0), ..Options::default() }] {
            build(&address, &options).await;
            assert_eq!(list_findings(&address).await, [""; 0], "{}", batch.kind());
        }
    }
}
