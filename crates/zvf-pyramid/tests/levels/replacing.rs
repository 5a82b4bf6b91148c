//! New levels replace old ones atomically.

use std::collections::BTreeSet;
use std::path::Path;

use zvf_format::Class;
use zvf_metadata::CrossLevelStorage;
use zvf_model::Kind;
use zvf_pyramid::Options;
use zvf_store::CodecPipeline;

use crate::fixtures::{build, level, open, refusal, schema, store, walks, with_objects, write};

pub(super) fn files(at: &Path) -> BTreeSet<String> {
    archives::tree(at).into_keys().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_build_leaves_the_store_unchanged() {
    let (_dir, address) = store(16.0, &walks(6, 100), with_objects(6)).await;
    build(&address, &Options { levels: Some(2), size: Some(0.1), ..Options::default() }).await;
    let before = files(Path::new(&address));
    let missing = zvf_pyramid::Strategy::Largest("none".to_owned());
    let options =
        Options { levels: Some(2), sparsity: 2.0, strategy: missing, ..Options::default() };
    let error = refusal(&address, &options).await;
    assert_eq!(error.class(), Class::InvalidArgument, "{error}");
    assert_eq!(
        error.sentence(),
        "choice of objects: expected an attribute of objects that there is, found none"
    );
    assert_eq!(files(Path::new(&address)), before);
    assert_eq!(level(&address, 2).await.parts().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_of_a_sharded_store_are_sharded() {
    let schema = schema(Kind::Polyline, 3, 8.0).with_codecs(CodecPipeline::zstd(3));
    let schema = schema.with_shard_shape(&[4; 3]).unwrap();
    let (_dir, address) = write(schema, |writer| writer.push(&walks(6, 100)).unwrap()).await;
    let links = CrossLevelStorage::Explicit;
    let options = Options { levels: Some(2), size: Some(0.2), links, ..Options::default() };
    let reports = build(&address, &options).await;
    let store = open(&address).await;
    for report in &reports {
        let node = store.nodes().node(&format!("{}/vertices", report.level)).await.unwrap();
        let Some(zvf_metadata::Node::Array(doc)) = node.as_deref() else { panic!() };
        assert!(doc.sharding().is_some(), "{report}");
        assert_eq!(level(&address, report.level).await.parts().len(), 6);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_are_compressed_as_level_0_or_not_built() {
    let schema = schema(Kind::Polyline, 3, 8.0).with_codecs(CodecPipeline::zstd(3));
    let (_dir, address) = write(schema, |writer| writer.push(&walks(6, 100)).unwrap()).await;
    let options = Options { levels: Some(1), size: Some(0.2), ..Options::default() };
    build(&address, &options).await;
    let store = open(&address).await;
    let node = store.nodes().node("1/vertices").await.unwrap();
    let Some(zvf_metadata::Node::Array(doc)) = node.as_deref() else { panic!() };
    let names: Vec<&str> = doc.codecs.iter().map(zvf_metadata::CodecSpec::name).collect();
    assert_eq!(names, ["vlen-bytes", "zstd"]);

    // A reader ignores the compression level of zstd; a writer needs a valid one.
    let path = Path::new(&address).join("0/vertices/zarr.json");
    let mut doc: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(doc["codecs"][1]["name"], "zstd");
    doc["codecs"][1]["configuration"]["level"] = serde_json::json!(1_u64 << 40);
    std::fs::write(&path, doc.to_string()).unwrap();
    let before = files(Path::new(&address));
    let error = refusal(&address, &options).await;
    assert_eq!(error.class(), Class::Unsupported, "{error}");
    assert!(
        error.sentence().starts_with("0/vertices, codecs: expected codecs that zvf writes"),
        "{error}"
    );
    assert!(error.to_string().contains("zstd"), "{error}");
    assert_eq!(files(Path::new(&address)), before);
}
