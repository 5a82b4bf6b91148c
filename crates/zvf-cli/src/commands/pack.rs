//! `zvf pack` and `zvf unpack`: a whole store in one `.tet` file, and the reverse.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use zvf::Store;
use zvf::store::{Build, BuildOptions};
use zvf::tensor::{AtomicTensorFile, Compression, PackCounts, PackOptions, UnpackCounts};

use crate::commands::coding::Zstd;
use crate::commands::destination::check_nested;
use crate::interrupt::{Interrupted, Watched};
use crate::outcome::{CommandResult, refuse};
use crate::session::Session;
use crate::table;

/// Pack a whole store into one .tet file, which is then queried like the store.
///
/// Documents, cells and arrays are kept as they are, of any version and kind. An uncompressed cell is found by one
/// search and read in place; the file can be copied, memory-mapped and served as one. Editing writes a new file that
/// replaces it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf pack scan.zarrvectors scan.tet
  zvf query scan.tet --bbox 0,0,0:100,100,100 --count
  zvf pack s3://bucket/brain.zarrvectors brain.tet --codec zstd:9")]
pub(crate) struct Pack {
    /// The store: a folder or a URL.
    store: String,
    /// The new file, whose name ends in .tet.
    file: PathBuf,
    #[command(flatten)]
    codec: Zstd,
    /// Replace the file if it exists.
    #[arg(long)]
    overwrite: bool,
}

/// Unpack a store from a .tet file into many files.
///
/// Documents are restored byte for byte. Chunks are encoded as the documents of their arrays state.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf unpack packed.tet new.zarrvectors
  zvf unpack https://host/scan.tet scan.zarrvectors")]
pub(crate) struct Unpack {
    /// The packed store: a .tet file or its URL.
    file: String,
    /// The new store, which must not exist yet.
    new: String,
    /// Replace the new store if it exists (folders only).
    #[arg(long)]
    overwrite: bool,
}

impl Pack {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        if self.file.extension().is_none_or(|extension| extension != "tet") {
            return refuse("the name of a packed store must end in .tet");
        }
        if self.file.is_dir() {
            return refuse(format!("{} is a folder; name a file", self.file.display()));
        }
        if let Some(file) = self.file.to_str() {
            check_nested(&self.store, file)?;
        }
        let mut options = PackOptions::default();
        if let Some(level) = self.codec.level() {
            options = options.with_compression(Compression::Zstd(level));
        }
        let store = session.batch_store(&self.store).await?;
        let failed = || format!("cannot write {}", self.file.display());
        let new =
            AtomicTensorFile::create_gated(&self.file, self.overwrite, session.interrupt().gate());
        let mut new = new.with_context(failed)?;
        let packed = write_pack(session, &store, (&mut new, &self.file), &options).await?;
        session.check_maps()?;
        new.publish().with_context(failed)?;
        let file = self.file.display().to_string();
        session.print(&table::place_json("file", &file, &packed)?, |out| {
            let counts = table::counts([(packed.documents, "document"), (packed.cells, "cell")]);
            let arrays = table::format_count(packed.arrays, "array");
            Ok(writeln!(out, "{file}: {counts} of {arrays}, {}", table::bytes(packed.bytes))?)
        })?;
        session.finish(&store)
    }
}

impl Unpack {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let store = session.batch_store(&self.file).await?;
        check_nested(&self.file, &self.new)?;
        let options = session.build_options(self.overwrite);
        let done = write_unpacked(session, &store, &self.new, options).await;
        let done = done.with_context(|| format!("cannot write {}", self.new))?;
        session.print(&table::place_json("store", &self.new, &done)?, |out| {
            let counts = table::counts([(done.documents, "document"), (done.chunks, "chunk")]);
            let objects = table::format_count(done.objects, "object");
            Ok(writeln!(out, "{}: {counts} in {objects}", self.new)?)
        })?;
        session.finish(&store)
    }
}

/// Writes a store into the file at `path`, which is not published yet.
pub(crate) async fn write_pack(
    session: &Session,
    store: &Store,
    (new, path): (&mut AtomicTensorFile, &Path),
    options: &PackOptions,
) -> anyhow::Result<PackCounts> {
    let progress = session.progress("packing");
    let on_progress = |packed: &PackCounts| progress.count("", packed.cells, "cell");
    let watched = Watched::new(new.file(), session.interrupt().clone());
    let buffered = BufWriter::with_capacity(BUFFER, watched);
    let packed = zvf::tensor::pack(store, buffered, options, on_progress).await;
    if session.interrupt().is_stopped() {
        return Err(Interrupted.into());
    }
    let (_flushed, packed) = packed.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(packed)
}

/// Writes a packed store as a new one.
pub(crate) async fn write_unpacked(
    session: &Session,
    store: &Store,
    new: &str,
    options: BuildOptions,
) -> anyhow::Result<UnpackCounts> {
    let build = Build::begin(new, options).await?;
    let progress = session.progress("unpacking");
    let on_progress = |done: &UnpackCounts| progress.count("", done.chunks, "chunk");
    Ok(zvf::tensor::unpack(store, build, on_progress).await?)
}

/// The size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;
