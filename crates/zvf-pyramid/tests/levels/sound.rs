//! Levels that add to each other as the validator sees them: sound as built, and with one fault each.

use std::fs;
use std::path::Path;

use serde_json::Value;
use zvf_model::{Batch, Kind};
use zvf_pyramid::{Method, Options};
use zvf_store::OpenOptions;
use zvf_validate::{Observer, Severity, validate_at};

use crate::additive::{adding, of_kind};
use crate::made::{build, store, walks, with_objects};

/// What is found at all levels, a line for each fault: how bad, which rule, where.
async fn list_findings(address: &str) -> Vec<String> {
    let (options, observer) = (zvf_validate::Options::default(), Observer::default());
    let report = validate_at(address, OpenOptions::default(), &options, &observer).await.unwrap();
    let faults = report.findings.iter().filter(|finding| finding.severity != Severity::Note);
    faults
        .map(|finding| format!("{} {} {}", finding.severity, finding.rule.id, finding.path))
        .collect()
}

/// Chains, trees, faces, edges and points, all of 24 objects.
fn kinds() -> Vec<Batch> {
    let mut streamlines = Batch::new(Kind::Streamline, walks(24, 50).positions().clone());
    streamlines = streamlines.with_parts(walks(24, 50).parts().clone()).unwrap();
    let mut all = vec![walks(24, 50), streamlines];
    for kind in [Kind::Skeleton, Kind::Mesh, Kind::Graph, Kind::PointCloud] {
        all.push(of_kind(kind, Some(24)));
    }
    all
}

async fn built(path: &Path, batch: &Batch, seed: u64) -> String {
    let address = store(path, 8.0, batch, with_objects(24)).await;
    let method = Some(Method::Keep);
    let reports = build(&address, &Options { seed, method, ..adding(2) }).await;
    assert_eq!(reports.len(), 3);
    address
}

/// Changes what a document says of ZVF.
fn edit(address: &str, node: &str, change: impl FnOnce(&mut Value)) {
    let path = Path::new(address).join(node).join("zarr.json");
    let mut doc: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut doc["attributes"]);
    fs::write(path, doc.to_string()).unwrap();
}

fn forget_refinement(address: &str, level: &str) {
    edit(address, level, |all| {
        let level = all["zarr_vectors_level"].as_object_mut().unwrap();
        assert_eq!(level.remove("refinement"), Some("add".into()));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_built_is_sound_and_what_is_broken_is_found() {
    for batch in kinds() {
        let what = batch.kind();
        let dirs = [archives::scratch(), archives::scratch()];
        let address = built(dirs[0].path(), &batch, 3).await;
        assert_eq!(list_findings(&address).await, [""; 0], "{what}");
        let root = fs::read(Path::new(&address).join("zarr.json")).unwrap();

        // The root does not require what readers must know.
        edit(&address, "", |all| {
            let root = all["zarr_vectors"].as_object_mut().unwrap();
            root.remove("required_capabilities").unwrap();
        });
        let wanted = ["error M15 0/zarr.json", "error M15 1/zarr.json"];
        assert_eq!(list_findings(&address).await, wanted, "{what}");
        fs::write(Path::new(&address).join("zarr.json"), root).unwrap();

        // A level does not say that it adds: what it lacks is lost to its readers.
        forget_refinement(&address, "1");
        assert_eq!(list_findings(&address).await, ["error P12 1/zarr.json"], "{what}");
        forget_refinement(&address, "0");
        let wanted = ["error P12 zarr.json", "error P12 0/zarr.json", "error P12 1/zarr.json"];
        assert_eq!(list_findings(&address).await, wanted, "{what}");
        for level in ["0", "1"] {
            edit(&address, level, |all| all["zarr_vectors_level"]["refinement"] = "add".into());
        }
        assert_eq!(list_findings(&address).await, [""; 0], "{what}");

        // The coarsest level has objects that finer ones have: it is of another choice.
        let other = built(dirs[1].path(), &batch, 5).await;
        fs::remove_dir_all(Path::new(&address).join("2")).unwrap();
        fs::rename(Path::new(&other).join("2"), Path::new(&address).join("2")).unwrap();
        let twice = list_findings(&address).await;
        assert!(twice.contains(&"error P11 0/object_index".to_owned()), "{what}: {twice:#?}");
        let is_twice = |finding: &String| finding.starts_with("error P11 ");
        assert!(twice.iter().all(is_twice), "{what}: {twice:#?}");
    }
}

/// Put together again, nothing of it is left that a validator could miss.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_together_is_sound() {
    for batch in kinds() {
        let dir = archives::scratch();
        let address = built(dir.path(), &batch, 3).await;
        let sparse = Options { levels: Some(1), sparsity: 2.0, ..Options::default() };
        for options in [sparse, Options { levels: Some(0), ..Options::default() }] {
            build(&address, &options).await;
            assert_eq!(list_findings(&address).await, [""; 0], "{}", batch.kind());
        }
    }
}
