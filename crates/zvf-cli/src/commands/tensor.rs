//! `zvf tensor`: dense arrays in `.tet` files and Caterva or B2ND frames.

mod convert;
mod values;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use zvf::format::Class;
use zvf::store::RangedFile;
use zvf::tensor::{BlockArray, Memory, Slice, TensorFile, Weight};
use zvf::tet::{EscapedName, Row, TensorCodec, TensorDtype};
use zvf::{Error, Timeouts};

use self::convert::{Convert, Pack};
use self::values::Values;
use crate::outcome::{CommandResult, Outcome, Usage, refuse};
use crate::session::Session;
use crate::table;
use crate::target::{Out, check_extension};

/// Inspect dense arrays in one file: .tet, and frames of Caterva and B2ND.
#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Tensor {
    /// Show the arrays of a file, and their chunks and blocks.
    Info(Info),
    /// Show the location of each chunk of a .tet file: `info --chunks`.
    Chunks(Chunks),
    /// Print a slice, or write it to an npy file.
    Get(Get),
    /// Check a file against its format; the exit code is 1 if it has faults.
    #[command(name = "validate", alias = "verify")]
    Verify(Verify),
    /// Convert an array to another form: .tet, B2ND, Caterva, Zarr v3.
    ///
    /// Chunks become chunks or shards, blocks become blocks or inner chunks. Values keep their bits. One chunk is in
    /// memory at a time. User metadata is kept only from one frame to another.
    #[command(after_help = CONVERT)]
    Convert(Convert),
    /// Write several arrays into one .tet file, each as a dataset.
    #[command(after_help = CONVERT)]
    Pack(Pack),
}

/// `info`.
#[derive(Args)]
pub(crate) struct Info {
    /// The file, the folder of a sparse frame, or a URL of either.
    file: String,
    /// Show the chunks as well.
    #[arg(long)]
    chunks: bool,
    #[command(flatten)]
    which: Which,
}

/// `chunks`.
#[derive(Args)]
pub(crate) struct Chunks {
    /// The file or its URL.
    file: String,
    #[command(flatten)]
    which: Which,
}

/// Which datasets are listed, and how many chunks.
#[derive(Args)]
struct Which {
    /// List only datasets whose name contains this text, ignoring case.
    #[arg(long, value_name = "TEXT")]
    dataset: Option<String>,
    /// How many chunks to list; 0 lists all.
    #[arg(short = 'n', long = "limit", alias = "rows", value_name = "N", default_value_t = 32)]
    rows: usize,
}

/// `get`.
#[derive(Args)]
pub(crate) struct Get {
    /// The file, the folder of a sparse frame, or a URL of either.
    file: String,
    /// The dataset of a .tet file; not needed where there is one only.
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// start:stop:step for each axis, with commas between: 1:7:2,:,3. A label is written @label.
    #[arg(long, value_name = "SLICE")]
    slice: Option<String>,
    /// Write an npy file instead of printing.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the npy file if it exists.
    #[arg(long, requires = "output")]
    overwrite: bool,
}

/// `validate`.
#[derive(Args)]
pub(crate) struct Verify {
    /// The file, the folder of a sparse frame, or a URL of either.
    file: String,
    /// Decode every chunk too.
    #[arg(long)]
    deep: bool,
}

/// An opened file.
enum File {
    Tet(TensorFile),
    Blocks(BlockArray),
}

impl Tensor {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::Info(Info { file, chunks, which }) => match open(session, &file).await? {
                File::Tet(tet) => info(session, &file, &tet, chunks, &which),
                File::Blocks(array) => block_info(session, &file, &array),
            },
            Self::Chunks(Chunks { file, which }) => match open(session, &file).await? {
                File::Tet(tet) => info(session, &file, &tet, true, &which),
                File::Blocks(_) => {
                    refuse(format!("{file} is not a .tet file: it has no index of chunks"))
                }
            },
            Self::Get(get) => get.run(session).await,
            Self::Verify(verify) => verify.run(session).await,
            Self::Convert(convert) => convert.run(session).await,
            Self::Pack(pack) => pack.run(session).await,
        }
    }
}

async fn open(session: &Session, address: &str) -> anyhow::Result<File> {
    let folder = Path::new(address);
    if folder.is_dir() && !folder.join(FRAME).is_file() {
        return refuse(format!(
            "{address} is a folder without {FRAME}; name a .tet file, a frame, or the folder of a \
             sparse one"
        ));
    }
    let options = session.options(Timeouts::INTERACTIVE);
    let opened = async {
        match RangedFile::open(address, &options).await {
            Ok(file) => {
                let front = file.read(0..file.len().min(4)).await?;
                // A folder with the extension .tet gets an error that says what it lacks.
                let called = folder.extension().is_some_and(|extension| extension == "tet");
                if front.starts_with(b"TETR") || called {
                    return Ok(File::Tet(TensorFile::from_file(file).await?));
                }
                Ok(File::Blocks(BlockArray::from_file(file).await?))
            }
            Err(error) if error.class() == Class::NotFound => {
                Ok(File::Blocks(BlockArray::open(address, &options).await?))
            }
            Err(error) => Err(error),
        }
    };
    opened.await.with_context(|| format!("cannot open {address}"))
}

fn info(
    session: &Session,
    path: &str,
    file: &TensorFile,
    chunks: bool,
    which: &Which,
) -> CommandResult {
    let parsed = file.container().view()?;
    let rows = parsed.index().rows();
    let chosen = |name: &str| {
        let text = which.dataset.as_ref().map(|text| text.to_lowercase());
        text.is_none_or(|text| name.to_lowercase().contains(&text))
    };
    let datasets: Vec<_> = file.tensors().filter(|tensor| chosen(tensor.name())).collect();
    let of_dataset = |id: u64| datasets.iter().find(|tensor| u64::from(tensor.id()) == id);
    let listed: Vec<_> = rows
        .iter()
        .enumerate()
        .filter_map(|(at, row)| Some((at, row, of_dataset(row.dataset_id())?)))
        .collect();
    let max_rows = if which.rows == 0 { listed.len() } else { which.rows };
    let coords =
        |row: &Row, rank: usize| -> Vec<u64> { row.chunk_index().into_iter().take(rank).collect() };
    let dtype = |tensor: &zvf::tensor::Tensor<'_>| tensor.element().map_or("?", TensorDtype::name);
    let described = datasets.iter().map(|tensor| {
        json!({
            "id": tensor.id(),
            "name": tensor.name(),
            "dtype": dtype(tensor),
            "shape": tensor.shape(),
            "chunk_shape": tensor.chunk_shape(),
        })
    });
    let chunk = |(_, row, tensor): &(usize, &Row, &zvf::tensor::Tensor<'_>)| {
        json!({
            "dataset_id": row.dataset_id(),
            "chunk_index": coords(row, tensor.shape().len()),
            "payload_offset": row.payload_offset(),
            "raw_byte_len": row.raw_byte_len(),
            "stored_byte_len": row.stored_byte_len(),
            "codec": codec(row),
        })
    };
    let superblock = parsed.superblock();
    let listed_chunks = listed.iter().filter(|_| chunks).map(chunk);
    let summary = json!({
        "path": path,
        "file_len": file.bytes().len(),
        "filter": which.dataset,
        "summary": {
            "superblock": {
                "layout_version": 1,
                "dataset_count": superblock.dataset_count(),
                "flags": superblock.flags(),
                "chunk_index_offset": superblock.chunk_index_offset(),
                "chunk_index_length": superblock.chunk_index_length(),
            },
            "datasets": described.collect::<Vec<_>>(),
            "chunks": listed_chunks.collect::<Vec<_>>(),
            "file_execution": {
                "memory_budget_percent_bps": file.memory_budget().percent_bps(),
                "memory_budget_bytes": file.memory_budget().bytes(),
            },
            "metadata": file.metadata(),
        },
    });
    session.print(&summary, |out| {
        writeln!(
            out,
            "{path}: {}, {}, {}",
            table::bytes(file.bytes().len()),
            table::format_count(parsed.directory().len(), "dataset"),
            table::format_count(rows.len(), "chunk")
        )?;
        let described = datasets.iter().map(|tensor| {
            let geometry = tensor.dataset().geometry().ok();
            let chunks = geometry.map(|found| table::count(found.tile_count()));
            vec![
                tensor.id().to_string(),
                EscapedName(tensor.name()).to_string(),
                dtype(tensor).to_owned(),
                table::vector(tensor.shape()),
                table::vector(tensor.chunk_shape()),
                chunks.unwrap_or_else(|| "?".to_owned()),
            ]
        });
        let titles = ">id, name, dtype, shape, chunk_shape, >chunks";
        table::print(out, "", titles.split(", "), described)?;
        if chunks {
            writeln!(out)?;
            let shown = listed.iter().take(max_rows).map(|(at, row, tensor)| {
                let coords: Vec<String> =
                    coords(row, tensor.shape().len()).iter().map(u64::to_string).collect();
                vec![
                    at.to_string(),
                    EscapedName(tensor.name()).to_string(),
                    coords.join(","),
                    row.raw_byte_len().to_string(),
                    row.stored_byte_len().to_string(),
                    codec(row).to_owned(),
                    row.payload_offset().to_string(),
                ]
            });
            let titles = ">#, dataset, coords, >raw, >stored, codec, >offset";
            table::print(out, "", titles.split(", "), shown)?;
            if listed.len() > max_rows {
                let all = table::format_count(listed.len(), "chunk");
                writeln!(out, "{max_rows} of {all}; --limit 0 lists all")?;
            }
        }
        Ok(())
    })
}

fn codec(row: &Row) -> &'static str {
    match row.codec() {
        TensorCodec::Raw => "raw",
        TensorCodec::Zstd => "zstd",
    }
}

fn block_info(session: &Session, path: &str, array: &BlockArray) -> CommandResult {
    let geometry = array.geometry();
    let names: Vec<String> = array
        .metalayers()?
        .iter()
        .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
        .collect();
    let summary = json!({
        "path": path,
        "dtype": array.dtype(),
        "item_size": array.item_size(),
        "shape": array.shape(),
        "chunk_shape": array.chunk_shape(),
        "block_shape": array.block_shape(),
        "chunks": geometry.chunk_count(),
        "blocks_per_chunk": geometry.block_count(),
        "metalayers": names,
    });
    session.print(&summary, |out| {
        let dtype = array.dtype().map_or_else(
            || format!("{}-byte items", array.item_size()),
            |dtype| EscapedName(dtype).to_string(),
        );
        writeln!(out, "{path}: {dtype}")?;
        writeln!(out, "shape        {}", table::vector(array.shape()))?;
        let chunks = table::format_count(geometry.chunk_count(), "chunk");
        writeln!(out, "chunk_shape  {}, {chunks}", table::vector(array.chunk_shape()))?;
        let blocks = table::format_count(geometry.block_count(), "block");
        writeln!(out, "block_shape  {}, {blocks} per chunk", table::vector(array.block_shape()))?;
        Ok(names.iter().try_for_each(|name| writeln!(out, "metalayer    {}", EscapedName(name)))?)
    })
}

impl Get {
    async fn run(self, session: &Session) -> CommandResult {
        if let Some(path) = &self.output {
            check_extension(path, "npy", "slices are written as npy only", self.overwrite)?;
        }
        let slice = match &self.slice {
            None => Slice::all(),
            Some(text) => text.parse()?,
        };
        let memory = Memory { ceiling: session.memory_limit(), ..Memory::default() };
        let failed = || format!("cannot read {}", self.file);
        match open(session, &self.file).await? {
            File::Tet(file) => {
                let mut tensors = file.tensors();
                let tensor = match (&self.dataset, tensors.len()) {
                    (Some(name), _) => file.tensor(name)?,
                    (None, 1) => {
                        tensors.next().ok_or_else(|| Usage::new("the file has no dataset"))?
                    }
                    (None, many) => {
                        let text =
                            format!("{} has {many} datasets: choose one with --dataset", self.file);
                        return refuse(text);
                    }
                };
                let array = tensor.slice(&slice, &memory).await;
                let array = array.with_context(failed)?;
                self.put(session, &Values::from_array(&array))?;
            }
            File::Blocks(array) => {
                let values = array.slice(&slice, &memory).await;
                let values = values.with_context(failed)?;
                self.put(session, &Values::from_blocks(&values))?;
            }
        }
        Ok(Outcome::Clean)
    }

    fn put(&self, session: &Session, values: &Values<'_>) -> anyhow::Result<()> {
        if let Some(path) = &self.output {
            let mut file = Out::file(path, session.interrupt())?;
            values.npy(&mut file)?;
            return file.finish();
        }
        if session.json() {
            return table::json(&values.json(), &mut session.out());
        }
        values.print(&mut session.out())?;
        Ok(())
    }
}

impl Verify {
    async fn run(self, session: &Session) -> CommandResult {
        let memory = Memory { ceiling: session.memory_limit(), ..Memory::default() };
        let file = match open(session, &self.file).await {
            Ok(file) => file,
            // A file that does not open is reported as a fault.
            Err(error) => match damage_line(&error) {
                Some(line) => {
                    return print_faults(session, &self.file, &[("open".to_owned(), line)]);
                }
                None => return Err(error),
            },
        };
        let mut faults = Vec::new();
        match file {
            File::Tet(file) => {
                let found = file.verify(self.deep, &memory).await?;
                for fault in found.iter().filter(|fault| fault.weight > Weight::Note) {
                    faults.push((fault.rule.to_owned(), fault.error.to_string()));
                }
            }
            File::Blocks(array) if self.deep => {
                if let Err(error) = array.slice(&Slice::all(), &memory).await {
                    if !error.class().is_damage() {
                        return Err(error.into());
                    }
                    faults.push(("read".to_owned(), error.to_string()));
                }
            }
            File::Blocks(_) => {}
        }
        print_faults(session, &self.file, &faults)
    }
}

/// Returns the line about a file with wrong bytes; `None` for other faults.
fn damage_line(error: &anyhow::Error) -> Option<String> {
    let fault = error.chain().find_map(|cause| cause.downcast_ref::<Error>())?;
    fault.class().is_damage().then(|| fault.to_string())
}

fn print_faults(session: &Session, path: &str, faults: &[(String, String)]) -> CommandResult {
    let fault = |(rule, text): &(String, String)| json!({ "rule": rule, "text": text });
    let list: Vec<Value> = faults.iter().map(fault).collect();
    let value = json!({ "path": path, "ok": faults.is_empty(), "faults": list });
    session.print(&value, |out| {
        if faults.is_empty() {
            writeln!(out, "{path}: ok")?;
        }
        let mut faults = faults.iter();
        Ok(faults.try_for_each(|(rule, text)| writeln!(out, "{path}: {rule}: {text}"))?)
    })?;
    Ok(if faults.is_empty() { Outcome::Clean } else { Outcome::Findings })
}

/// The file that a folder of a sparse frame contains.
const FRAME: &str = "chunks.b2frame";

const EXAMPLES: &str = "Examples:
  zvf tensor info volume.tet --chunks
  zvf tensor get volume.tet --dataset grid --slice 0:10,:,3 --output part.npy
  zvf tensor get image.b2nd --slice 0:64,0:64
  zvf tensor validate volume.tet --deep";

const CONVERT: &str = "Examples:
  zvf tensor convert image.b2nd image.zarr
  zvf tensor convert s3://bucket/image.zarr image.b2nd --chunk-shape 128,128,128 --block-shape 32,32,32
  zvf tensor convert volume.tet volume.b2nd --dataset grid --codec lz4
  zvf tensor pack all.tet image.b2nd mask=labels.zarr";
