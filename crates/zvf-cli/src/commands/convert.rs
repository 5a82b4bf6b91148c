//! `zvf convert`.

mod each;
mod parts;

pub(crate) use self::parts::run_part;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context as _;
use clap::Args;
use zvf::convert::Format;
use zvf::convert::format::{Attributes, MissingFormat};
use zvf::convert::read::{self, FileReader, Input};
use zvf::create::StoreSource;
use zvf::export::Export;
use zvf::tasks::ConvertPart;
use zvf::{Kind, LevelId};

use crate::commands::create::Create;
use crate::commands::destination::NewRepository;
use crate::commands::how::{CreateOptions, format_among, join_formats};
use crate::commands::inputs::Inputs;
use crate::commands::job::{self, Job};
use crate::commands::narrow::Narrow;
use crate::commands::recorded::Recorded;
use crate::commands::{is_remote_url, join_kinds, join_paths, note_coarser_levels};
use crate::outcome::{CommandResult, Outcome, Usage, refuse};
use crate::session::Session;
use crate::stdin::Stdin;

/// Convert files and stores: any format to any other.
///
/// The content of a file determines its format; where it does not, the extension does. "zvf formats" lists all formats.
/// A store is a format like any other, as input and as output. The command lists what the output cannot hold before it
/// writes, and refuses to lose anything with --strict. The output is written atomically.
#[derive(Args)]
#[command(after_help = EXAMPLES, mut_args = shorten)]
pub(crate) struct Convert {
    /// The input: files of one kind, or one store; - is standard input.
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// The output: a file, a folder or a store; - is standard output. A name with {name} or {id},
    /// such as
    /// swcs/{name}.swc, writes one file per object of a store.
    #[arg(value_name = "OUT")]
    output: String,
    /// The format to write, or "store" [default: by the name of the output].
    #[arg(long, value_name = "FORMAT", value_parser = to_format)]
    to: Option<To>,
    /// Fail if the output cannot hold everything.
    #[arg(long)]
    strict: bool,
    /// Print what would be lost, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Set an option of one output format, such as las.version=1.2; may be repeated.
    #[arg(long = "format-option", value_name = "NAME=VALUE", value_parser = format_option)]
    format_options: Vec<(String, serde_json::Value)>,
    /// The reference image of streamlines for TRK and TRX: a NIfTI or TRK file.
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    #[command(flatten)]
    narrow: Box<Recorded<Narrow>>,
    #[command(flatten)]
    options: Box<CreateOptions>,
    /// The part of the store that a task writes.
    #[arg(skip)]
    part: Option<ConvertPart>,
}

/// The queries of a store.
struct StoreQueries {
    reader: zvf::Reader,
    query: zvf::Query,
    kinds: Vec<Kind>,
    notes: Vec<String>,
}

/// The output format.
#[derive(Clone, Copy, PartialEq)]
enum To {
    Store,
    Format(Format),
}

impl Convert {
    pub(crate) async fn run(mut self, session: &Session) -> CommandResult {
        // The copies are removed when the command ends.
        let _fetched = self.fetch_inputs(session).await?;
        let to = match self.to {
            Some(to) => to,
            None => to_by_name(&self.output)?,
        };
        let has_image = matches!(to, To::Format(Format::Trk | Format::Trx));
        if self.reference.is_some() && !has_image {
            return refuse("--reference is for TRK and TRX output only");
        }
        let mut addresses = self.inputs.iter().filter_map(|path| path.to_str());
        let store = addresses.find(|address| is_store(address)).map(str::to_owned);
        if let Some(store) = &store {
            if self.inputs.len() > 1 {
                return refuse(format!(
                    "{store} is a store, and the other inputs are files; convert it alone"
                ));
            }
            if let Some(option) = self.options.first_reading_option() {
                return Err(needs_file(option));
            }
        }
        match (to, store) {
            (To::Store, Some(store)) => self.convert_store_to_store(session, &store).await,
            (To::Store, None) => {
                self.check_whole()?;
                let Self { inputs, output, dry_run, options, .. } = self;
                Create::new(inputs, output, dry_run, *options).run(session).await
            }
            (To::Format(format), Some(store)) if self.is_for_each_object() => {
                self.convert_objects(session, &store, format).await
            }
            (_, None) if self.is_for_each_object() => refuse(format!(
                "{} names one file for each object, which needs a store as input; create a store \
                 from the input first, and convert that",
                self.output
            )),
            (To::Format(format), Some(store)) => self.convert_store(session, &store, format).await,
            (To::Format(format), None) => {
                self.check_whole()?;
                self.convert_files(session, format).await
            }
        }
    }

    /// Refuses options that select a part of a store: the input is none.
    fn check_whole(&self) -> anyhow::Result<()> {
        let Some(option) = self.narrow.first_given() else { return Ok(()) };
        refuse(format!(
            "{option} is for stores, and the input is not a store; convert the file to a store \
             first"
        ))
    }

    /// Copies precomputed folders behind URLs to this machine, and reads the copies.
    async fn fetch_inputs(&mut self, session: &Session) -> anyhow::Result<Vec<tempfile::TempDir>> {
        let mut fetched = Vec::new();
        for input in &mut self.inputs {
            let address =
                input.to_str().filter(|text| text.starts_with(PRECOMPUTED)).map(str::to_owned);
            let Some(address) = address else { continue };
            let place = self.options.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
            let folder = tempfile::Builder::new().prefix(".zvf-input-").tempdir_in(place)?;
            let progress = session.progress("fetching");
            progress.set(address.clone());
            let options = session.options(zvf::Timeouts::BATCH);
            let copied =
                zvf::fetch::fetch_precomputed(&address, &options, folder.path(), MAX_FETCHED_BYTES);
            copied.await.with_context(|| format!("cannot read {address}"))?;
            drop(progress);
            *input = folder.path().to_owned();
            fetched.push(folder);
        }
        Ok(fetched)
    }

    fn job(&self) -> Job {
        Job {
            inputs: join_paths(&self.inputs),
            output: self.output.clone(),
            strict: self.strict,
            dry_run: self.dry_run,
            overwrite: self.options.overwrite,
            scratch: self.options.temp_dir.clone(),
            extra: self.format_options.iter().cloned().collect(),
            is_repeated: false,
        }
    }

    /// Writes the answers of a store to a new store, which gets its own layout.
    async fn convert_store_to_store(self, session: &Session, store: &str) -> CommandResult {
        if !self.dry_run && self.narrow.first_given().is_none() && self.options.is_default() {
            let new =
                NewRepository::begin(&self.output, self.options.temp_dir.clone(), session).await?;
            if let Some(new) = new {
                let copied = session.batch_store(store).await?;
                new.publish_store(&copied, &format!("copied from {store}"), session).await?;
                session.print_notices([format!("copied unchanged to {}", self.output)])?;
                return Ok(Outcome::Clean);
            }
        }
        let queries = self.plan_queries(session, store, true).await?;
        let StoreQueries { reader, query, kinds, mut notes } = queries;
        let sources = StoreSource::list(&reader, &query, kinds, store);
        if self.narrow.first_given().is_none() {
            notes.extend(note_coarser_levels(&reader, &self.output));
        }
        session.print_notices(notes.iter().cloned())?;
        let Self { output, dry_run, options, .. } = self;
        Create::from_sources((sources, notes), output, dry_run, *options).run(session).await
    }

    /// Returns the query of each kind, and notes about the store.
    async fn plan_queries(
        &self,
        session: &Session,
        store: &str,
        several_kinds: bool,
    ) -> anyhow::Result<StoreQueries> {
        let reader = session.reader(store).await?;
        let mut query = self.narrow.args.query(session, &reader).await?;
        query.columns = self.options.columns();
        let query = super::query::limit_to_memory(query, session);
        let mut kinds = self.narrow.args.kinds(session, &reader, self.options.kind).await?;
        let query = match (&self.part, kinds.first()) {
            (Some(part), Some(kind)) => part.narrow(&reader, query, *kind).await?,
            _ => query,
        };
        let mut notes: Vec<String> =
            self.narrow.args.describe_unreadable(session, &reader).await?.into_iter().collect();
        if kinds.len() > 1 && !several_kinds {
            notes.push(describe_left_out(kinds.drain(1..), "the store", "the output"));
        }
        session.print_store_notices(reader.store())?;
        Ok(StoreQueries { reader, query, kinds, notes })
    }

    /// Returns the levels above level 0 that go into a mesh of several resolutions.
    fn coarser_levels(&self, reader: &zvf::Reader, kind: Kind) -> anyhow::Result<Vec<LevelId>> {
        let lods = self.format_options.iter().find(|(name, _)| name == "precomputed.lods");
        let Some((_, count)) = lods.filter(|_| kind == Kind::Mesh) else { return Ok(Vec::new()) };
        let Some(count) = count.as_u64().filter(|count| (1..=MAX_LODS).contains(count)) else {
            let text = format!("precomputed.lods is {count}; give a number from 1 to {MAX_LODS}");
            return refuse(text);
        };
        let numbers = reader.store().level_numbers().into_iter();
        Ok(numbers.filter(|level| (1..count).contains(&u64::from(*level))).map(LevelId).collect())
    }

    /// Writes the answer of a store.
    async fn convert_store(&self, session: &Session, store: &str, format: Format) -> CommandResult {
        let several = format.capabilities().several_kinds;
        let queries = self.plan_queries(session, store, several).await?;
        let StoreQueries { reader, query, kinds, notes } = queries;
        let progress = session.progress("reading");
        let mut sources: Vec<job::Input> = Vec::new();
        for kind in kinds {
            progress.set(format!("{kind} of {store}"));
            let export = Export::open(&reader, query.clone(), Some(kind)).await?;
            sources.push((Box::new(export.count_expected().await?), None));
            for level in self.coarser_levels(&reader, kind)? {
                progress.set(format!("level {level} of {store}"));
                sources.push((Box::new(read_level(&reader, &query, kind, level).await?), None));
            }
        }
        drop(progress);
        self.write(session, (self.job(), format), (sources, notes)).await
    }

    /// Writes `sources` of the input, which lack what `notes` say.
    async fn write(
        &self,
        session: &Session,
        (job, format): (Job, Format),
        (mut sources, notes): (Vec<job::Input>, Vec<String>),
    ) -> CommandResult {
        if let Some(file) = &self.reference {
            let image = zvf::convert::write::read_image(file)?;
            let headers = sources.iter_mut().map(|(source, _)| source.header_mut());
            headers.for_each(|header| zvf::convert::write::set_image(header, &image));
        }
        job.write(session, format, sources, notes).await
    }

    /// Writes the geometry of files.
    async fn convert_files(&self, session: &Session, format: Format) -> CommandResult {
        let (mut recipe, _) = self.options.recipe(session)?;
        recipe.write.stop = None; // no store is written, so nothing looks at the flag
        // A stream is read as it arrives; among other files it is first copied to a file.
        let is_stream = matches!(self.inputs.as_slice(), [only] if only.as_os_str() == "-");
        let scratch = recipe.write.scratch.as_deref();
        let held = match is_stream {
            true => None,
            false => Some(Inputs::new(&self.inputs, scratch, session.interrupt()).await?),
        };
        let sizes = held.iter().flat_map(|held| &held.files).map(|file| {
            let about = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file);
            about.map(|about| about.len())
        });
        let size: Option<u64> = sizes.sum::<Option<u64>>().filter(|size| *size > 0);
        let holds_names = !is_stream && format.capabilities().object_attributes == Attributes::All;
        let counter = Arc::new(AtomicU64::new(0));
        let open = |kind: Option<Kind>, counter: &Arc<AtomicU64>| -> anyhow::Result<FileReader> {
            let inputs: Vec<Input> = match &held {
                Some(held) => held.files.iter().map(Input::path).collect(),
                None => vec![Input::reader(Stdin::new(session.interrupt()))],
            };
            let inputs = inputs.into_iter().map(|input| input.with_counter(Arc::clone(counter)));
            let inputs: Vec<Input> = inputs.collect();
            let options =
                read::ReadOptions { kind: kind.or(recipe.read.kind), ..recipe.read.clone() };
            let reader = read::open_all(inputs, recipe.format, &options);
            let reader = reader.and_then(|reader| match self.inputs.as_slice() {
                [only] if holds_names => zvf::create::name_objects(reader, only),
                _ => Ok(reader),
            });
            reader.with_context(|| format!("cannot read {}", join_paths(&self.inputs)))
        };
        let first = open(None, &counter)?;
        let mut notes = Vec::new();
        let other_kinds = first.header().other_kinds.clone();
        let mut readers = vec![first];
        if format.capabilities().several_kinds {
            for kind in other_kinds {
                readers.push(open(Some(kind), &Arc::default())?);
            }
        } else if !other_kinds.is_empty() {
            notes.push(describe_left_out(other_kinds, "the input", &format.to_string()));
        }
        let bytes = size.map(|size| (counter, size));
        let sources =
            readers.into_iter().map(|reader| -> job::Input { (Box::new(reader), bytes.clone()) });
        self.write(session, (self.job(), format), (sources.collect(), notes)).await
    }
}

/// Reads a coarser level of a mesh, with the size of its detail.
async fn read_level(
    reader: &zvf::Reader,
    query: &zvf::Query,
    kind: Kind,
    level: LevelId,
) -> anyhow::Result<Export> {
    let opened = reader.level_of_kind(level, kind).await?;
    let error = opened.node().meta().geometric_error();
    let bins = opened.bins().map_or(opened.chunk_shape().sizes(), |bins| bins.bin_shape());
    let diagonal = bins.iter().map(|size| size * size).sum::<f64>().sqrt();
    let export = Export::open(reader, query.clone().at_level(level), Some(kind)).await?;
    let mut export = export.count_expected().await?;
    let record = (zvf::convert::write::LOD_SCALE.to_owned(), error.unwrap_or(diagonal).into());
    export.header.records.push(record);
    Ok(export)
}

/// Returns the note about kinds that an output of one kind cannot hold.
fn describe_left_out(kinds: impl IntoIterator<Item = Kind>, of: &str, output: &str) -> String {
    let names = join_kinds(kinds);
    format!("{names} of {of} left out: {output} holds one kind; choose it with --kind")
}

/// The prefix of a precomputed folder behind a URL, as viewers write it.
const PRECOMPUTED: &str = "precomputed://";
/// The largest precomputed folder that is copied.
const MAX_FETCHED_BYTES: u64 = 1 << 40;
/// The largest number of resolutions of a mesh.
const MAX_LODS: u64 = 8;

/// Leaves the options of `zvf create` out of the short help, which would not fit on a screen.
fn shorten(argument: clap::Arg) -> clap::Arg {
    let is_of_create = matches!(argument.get_help_heading(), Some("Input" | "Layout" | "Codec"));
    let is_hidden = is_of_create || argument.is_hide_short_help_set();
    argument.hide_short_help(is_hidden)
}

fn needs_file(option: &str) -> anyhow::Error {
    Usage::new(format!("{option} is for files, and the input is a store")).into()
}

/// Returns whether there is a store at `address`; every URL counts as one.
fn is_store(address: &str) -> bool {
    let path = Path::new(address.strip_prefix("file://").unwrap_or(address));
    let is_pack = || path.extension().is_some_and(|end| end == "tet") && path.is_file();
    is_remote_url(address)
        || path.join("zarr.json").is_file()
        || path.join(".zgroup").is_file()
        || is_pack()
}

/// Returns the format that the name of the output determines.
fn to_by_name(output: &str) -> Result<To, Usage> {
    let path = Path::new(output.trim_end_matches('/'));
    let ends = ["zarrvectors", "zarr", "zv"];
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let by_name = Format::from_extension(path);
    if ends.contains(&end) || output.contains("://") && by_name.is_none() {
        return Ok(To::Store);
    }
    let hint = format!("choose with --to: store, {}", join_formats(|format| format.is_written()));
    if output == "-" {
        return refuse(format!("the format of standard output is not given; {hint}"));
    }
    match by_name {
        Some(format) if format.is_written() => Ok(To::Format(format)),
        Some(format) => refuse(format!("zvf reads {format}, but does not write it; {hint}")),
        None if let Some(missing) = MissingFormat::from_extension(path) => {
            refuse(missing.to_string())
        }
        None => refuse(format!("cannot tell the format of {output}; {hint}")),
    }
}

/// Parses the value of a format option: a number, true, false, or text.
fn format_option(text: &str) -> Result<(String, serde_json::Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let extra_options = zvf::convert::write::list_options();
    if !extra_options.iter().any(|(option, _)| *option == name) {
        let option_names: Vec<&str> = extra_options.iter().map(|(name, _)| *name).collect();
        return Err(format!("expected one of {}", option_names.join(", ")));
    }
    // A version is text, not a number.
    let is_text = matches!(name, "las.version" | "geojson.crs");
    let value = match serde_json::from_str(value) {
        Ok(number) if !is_text => number,
        _ => value.into(),
    };
    Ok((name.to_owned(), value))
}

fn to_format(text: &str) -> Result<To, String> {
    if text.eq_ignore_ascii_case("store") {
        return Ok(To::Store);
    }
    format_among(text, "store or one of", |format| format.is_written()).map(To::Format)
}

const EXAMPLES: &str = "\"zvf help convert\" also lists the options for input, layout and codec.

Examples:
  zvf convert brain.trk brain.tck
  zvf convert brain.tck new.trk --reference brain.trk
  zvf convert neurons.zarrvectors swcs/{id}.swc
  zvf convert tracts.zarrvectors left.trx --groups left --bbox -50,-50,-50:50,50,50
  zvf convert tracts.zarrvectors some.zarrvectors --objects 0..5
  zvf convert a.csv b.csv all.parquet
  zvf convert --strict tracts.trx tracts.tck
  cat points.csv | zvf convert --format csv - - --to jsonl";
