//! Builds one small store that contains the same cells with every codec, with and without shards,
//! to be inspected with `zvf inspect arrays` or any Zarr reader.
//!
//! ```text
//! cargo run -p zvf-store --example codecs -- codecs.zarrvectors
//! ```

use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, Dataset, Dtype, FillValue, GroupDoc, Root, ZarrVectors};
use zvf_store::{
    BloscCompressor, BloscSettings, BloscShuffle, Build, BuildOptions, CellPlan, CodecPipeline,
    DensePlan, RowPlan,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "codecs.zarrvectors".to_owned());
    let build =
        Build::begin(&address, BuildOptions { replace: true, ..Default::default() }).await?;
    let level = serde_json::json!({"zarr_vectors_level": {"level": 0, "vertex_count": 0, "arrays_present": []}});
    build.group("0", &GroupDoc::new(level.as_object().cloned().unwrap_or_default())).await?;
    for (name, codecs) in chains() {
        for shard in [None, Some(vec![2, 3])] {
            let kind = if shard.is_some() { "sharded" } else { "single" };
            let plan = CellPlan {
                codecs: codecs.clone(),
                shard,
                ..CellPlan::new(vec![-2, 0], vec![3, 4])
            };
            let cells = build.cells(&format!("0/vertex_attributes/{name}_{kind}"), plan)?;
            for (x, y) in [(-2, 0), (-1, 4), (0, 0), (3, 4), (3, 3)] {
                cells.put(&ChunkKey::new(&[x, y])?, payload(x, y).into())?;
            }
            cells.finish(|_| ()).await?;
        }
        let mut rows = build.rows(
            &format!("0/rows/{name}"),
            RowPlan { codecs: codecs.clone(), chunk_rows: Some(3), ..RowPlan::default() },
        )?;
        for n in 0..7 {
            rows.push(&payload(n, 1))?;
        }
        rows.finish(|_| ()).await?;
        let plan = DensePlan {
            codecs,
            ..DensePlan::object_attribute(Dtype::FLOAT32, Some(2), FillValue::float(f64::NAN))
        };
        let mut dense = build.dense(&format!("0/dense/{name}"), plan)?;
        for n in 0..10_u8 {
            dense.push(&[f32::from(n).to_le_bytes(), 0.5_f32.to_le_bytes()].concat())?;
        }
        dense.finish(|_| ()).await?;
    }
    let mut root = Root::new(
        ZarrVectors::new(vec![1.0, 1.0], [vec![-2.0, 0.0], vec![4.0, 5.0]]),
        Axis::spatial(2).unwrap_or_default(),
    );
    if let Some(scale) = root.multiscales.first_mut() {
        scale.datasets.push(Dataset::new("0", vec![1.0; 2], vec![0.5; 2]));
    }
    build.publish(&root).await
}

/// Returns every chain that can be written, with a name.
fn chains() -> Vec<(&'static str, CodecPipeline)> {
    let blosc = |compressor, filter| {
        CodecPipeline::blosc(BloscSettings {
            compressor,
            filter,
            block_size: 1024,
            ..BloscSettings::default()
        })
    };
    vec![
        ("none", CodecPipeline::empty()),
        ("crc32c", CodecPipeline::empty().with_crc32c()),
        ("zstd", CodecPipeline::zstd(0)),
        ("zstd_crc32c", CodecPipeline::zstd(5).with_crc32c()),
        ("gzip", CodecPipeline::gzip(6)),
        ("lz4_shuffle", blosc(BloscCompressor::Lz4, BloscShuffle::Bytes)),
        ("lz4_bitshuffle", blosc(BloscCompressor::Lz4, BloscShuffle::Bits)),
        ("lz4_plain", blosc(BloscCompressor::Lz4, BloscShuffle::None)),
        ("zlib_shuffle", blosc(BloscCompressor::Zlib, BloscShuffle::Bytes)),
        ("zstd_shuffle", blosc(BloscCompressor::Zstd, BloscShuffle::Bytes)),
        ("zstd_bitshuffle", blosc(BloscCompressor::Zstd, BloscShuffle::Bits)),
    ]
}

/// Returns some rows of `x` and `y` in steps, with more rows in some cells than in others.
fn payload(x: i64, y: i64) -> Vec<u8> {
    let rows = 3 + 700 * y.unsigned_abs();
    (0..rows)
        .flat_map(|row| {
            let step = f32::from(u16::try_from(row % 1000).unwrap_or(0));
            let x = f32::from(i16::try_from(x).unwrap_or(0));
            [x.to_le_bytes(), step.to_le_bytes()].concat()
        })
        .collect()
}
