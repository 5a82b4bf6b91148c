//! `zvf tensor convert` and `zvf tensor pack`: arrays in another form, or several in one `.tet` file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::Timeouts;
use zvf::format::num::to_u64;
use zvf::store::{BloscCompressor, BloscShuffle};
use zvf::tensor::{AnyArray, ArrayForm, ConvertOptions, Memory};

use crate::commands::coding::{block_codec, shuffle};
use crate::outcome::{CommandResult, Usage};
use crate::session::Session;
use crate::table;

/// `convert`.
#[derive(Args)]
pub(crate) struct Convert {
    /// The array: a .tet file, a frame, the folder of a sparse frame, a Zarr v3 array, or a URL of one.
    array: String,
    /// The new file or folder. Its extension determines the form: .tet, .b2nd, .caterva, .zarr.
    new: String,
    /// The form, where the extension does not determine it: tet, b2nd, b2nd-folder, caterva or zarr.
    #[arg(long, value_name = "FORM", value_parser = form)]
    to: Option<ArrayForm>,
    /// The dataset of a .tet file; not needed where there is one only.
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// The name of the dataset in a new .tet file.
    #[arg(long, value_name = "NAME", default_value = "data")]
    name: String,
    #[command(flatten)]
    chunk_options: ChunkOptions,
}

/// `pack`.
#[derive(Args)]
pub(crate) struct Pack {
    /// The new .tet file.
    file: PathBuf,
    /// The arrays, each as FILE, or as NAME=FILE with the name of its dataset.
    #[arg(required = true, value_name = "[NAME=]FILE")]
    arrays: Vec<String>,
    #[command(flatten)]
    chunk_options: ChunkOptions,
}

/// How chunks are divided and encoded.
#[derive(Args)]
struct ChunkOptions {
    /// Extents of a chunk, separated by commas [default: those of the source].
    #[arg(long = "chunk-shape", alias = "chunk", value_name = "N,N", value_delimiter = ',')]
    chunk: Option<Vec<u64>>,
    /// Extents of a block, or of an inner chunk [default: those of the source, or about 64 KiB].
    #[arg(long = "block-shape", alias = "block", value_name = "N,N", value_delimiter = ',')]
    block: Option<Vec<u64>>,
    /// The compressor: none, blosclz, lz4, lz4hc, zlib or zstd, with a level from 0 to 9; in .tet files none
    /// or zstd.
    #[arg(
        long = "codec",
        alias = "compressor",
        value_name = "NAME[:LEVEL]",
        default_value = "zstd",
        value_parser = block_codec
    )]
    codec: (Option<BloscCompressor>, u8),
    /// The filter of blocks: noshuffle, shuffle or bitshuffle.
    #[arg(
        long = "blosc-shuffle",
        alias = "shuffle",
        value_name = "NAME",
        default_value = "shuffle",
        value_parser = shuffle
    )]
    shuffle: BloscShuffle,
    /// Replace the new file or folder if it exists.
    #[arg(long)]
    overwrite: bool,
}

impl ChunkOptions {
    fn options(self, session: &Session, dataset: String) -> ConvertOptions {
        let (compressor, level) = self.codec;
        ConvertOptions {
            chunk_shape: self.chunk,
            block_shape: self.block,
            compressor,
            level,
            shuffle: self.shuffle,
            dataset,
            replace: self.overwrite,
            memory: Memory { ceiling: session.memory_limit(), ..Memory::default() },
            gate: session.interrupt().gate().clone(),
        }
    }
}

impl Convert {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let form = self.to.or_else(|| ArrayForm::from_path(&self.new)).ok_or_else(|| {
            Usage::new(format!("the extension of {} is not a known form: give --to", self.new))
        })?;
        let options = self.chunk_options.options(session, self.name);
        let array = open(session, &self.array, self.dataset.as_deref()).await?;
        let progress = session.progress("converting");
        let on_progress = |done, total| progress.advance("", done, total, "chunks");
        let done = zvf::tensor::convert(&array, &self.new, form, &options, on_progress).await;
        done.with_context(|| format!("cannot write {}", self.new))?;
        drop(progress);
        let new = open(session, &self.new, Some(&options.dataset)).await?;
        let summary = json!({
            "path": self.new,
            "dtype": new.numpy_dtype(),
            "shape": new.shape(),
            "chunk_shape": new.chunk_shape(),
            "block_shape": new.block_shape(),
        });
        session.print(&summary, |out| {
            let blocks =
                new.block_shape().map(|block| format!(" of blocks {}", table::vector(block)));
            writeln!(
                out,
                "{}: {}, shape {}, chunks {}{}",
                self.new,
                new.numpy_dtype().unwrap_or_else(|| format!("{}-byte items", new.item_size())),
                table::vector(new.shape()),
                table::vector(new.chunk_shape()),
                blocks.unwrap_or_default()
            )?;
            Ok(())
        })
    }
}

impl Pack {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let options = self.chunk_options.options(session, String::new());
        let mut arrays = Vec::with_capacity(self.arrays.len());
        for text in &self.arrays {
            let (name, address) = match text.split_once('=') {
                Some((name, address)) => (name.to_owned(), address),
                None => (stem(text)?, text.as_str()),
            };
            arrays.push((name, open(session, address, None).await?));
        }
        let progress = session.progress("packing");
        let on_progress = |done, total| progress.advance("", done, total, "chunks");
        let done = zvf::tensor::gather(&arrays, &self.file, &options, on_progress).await;
        let file = self.file.display().to_string();
        done.with_context(|| format!("cannot write {file}"))?;
        drop(progress);
        let names: Vec<&str> = arrays.iter().map(|(name, _)| &**name).collect();
        session.print(&json!({ "path": file, "datasets": names }), |out| {
            let count = to_u64(arrays.len());
            writeln!(out, "{file}: {}", table::format_count(count, "dataset"))?;
            Ok(())
        })
    }
}

async fn open(session: &Session, address: &str, dataset: Option<&str>) -> anyhow::Result<AnyArray> {
    let options = session.options(Timeouts::BATCH);
    let opened = AnyArray::open(address, dataset, &options).await;
    opened.with_context(|| format!("cannot open {address}"))
}

fn form(name: &str) -> Result<ArrayForm, String> {
    ArrayForm::from_name(name)
        .ok_or_else(|| "expected tet, b2nd, b2nd-folder, caterva or zarr".to_owned())
}

/// Returns the name of a dataset for its file.
fn stem(text: &str) -> anyhow::Result<String> {
    let stem = Path::new(text.trim_end_matches('/')).file_stem().and_then(|stem| stem.to_str());
    let stem = stem.ok_or_else(|| Usage::new(format!("say NAME={text}")))?;
    Ok(stem.to_owned())
}
