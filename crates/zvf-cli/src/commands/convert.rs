//! `zvf convert`.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::convert::Format;
use zvf::convert::read::{self, Header, Input, Piece, Reader};
use zvf::convert::write::{self, Loss, Report, Target, WriteOptions};
use zvf::export::Export;
use zvf::publish::{Disk, StagingDir, StagingOptions, TargetLock};
use zvf::{Columns, Kind};

use crate::commands::create::Create;
use crate::commands::how::How;
use crate::commands::inputs::Inputs;
use crate::commands::narrow::Narrow;
use crate::outcome::{Outcome, Usage};
use crate::session::Session;
use crate::table;
use crate::target::{self, NewFile, Out};

/// Convert files and stores: any format to any other.
///
/// What a file is, its content tells, and its name where that does not; "zvf formats" lists what there is. A store
/// is a format like any other, on both sides. What the output cannot hold is listed before it is written, and
/// refused with --strict. The output appears whole or not at all.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Convert {
    /// What to read: files of one kind, or one store; - is standard input.
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// What to write: a file, a folder or a store; - is standard output.
    #[arg(value_name = "OUT")]
    output: String,
    /// The format to write, or "store" [default: by the name of the output].
    #[arg(long, value_name = "FORMAT", value_parser = to_format)]
    to: Option<To>,
    /// Refuse what the output cannot hold in full.
    #[arg(long)]
    strict: bool,
    /// Print what would be lost, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    narrow: Box<Narrow>,
    #[command(flatten)]
    how: Box<How>,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Store,
    Format(Format),
}

impl Convert {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let to = match self.to {
            Some(to) => to,
            None => to_by_name(&self.output)?,
        };
        let store = match self.inputs.as_slice() {
            [only] => only.to_str().filter(|address| is_store(address)).map(str::to_owned),
            several => {
                let store = several.iter().find(|path| path.to_str().is_some_and(is_store));
                if let Some(store) = store {
                    let usage = Usage::new(format!("{} is a store among files", store.display()));
                    return Err(usage.with_hint("convert it alone").into());
                }
                None
            }
        };
        match (to, store) {
            (To::Store, Some(_)) => {
                let usage = Usage::new("a store is not converted to a store");
                let hint = "zvf migrate brings it to this version, zvf recompress and zvf shard write it again";
                Err(usage.with_hint(hint).into())
            }
            (To::Store, None) => {
                if let Some(option) = self.narrow.first_given() {
                    return Err(needs_store(option));
                }
                let Self { inputs, output, dry_run, how, .. } = self;
                Create::new(inputs, output, dry_run, *how).run(session, out).await
            }
            (To::Format(format), Some(store)) => self.from_store(session, &store, format, out).await,
            (To::Format(format), None) => {
                if let Some(option) = self.narrow.first_given() {
                    return Err(needs_store(option));
                }
                self.from_files(session, format, out).await
            }
        }
    }

    /// Writes what a store answers.
    async fn from_store(
        &self,
        session: &Session,
        store: &str,
        format: Format,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let reader = session.reader(store).await?;
        let columns = match self.how.attributes() {
            None => Columns::All,
            Some(names) if names.is_empty() => Columns::None,
            Some(names) => Columns::Named(names),
        };
        let query = self.narrow.query(session, &reader, columns).await?;
        let mut kinds = self.narrow.kinds(session, &reader, self.how.kind()).await?;
        let mut notes = Vec::new();
        if kinds.len() > 1 && !format.capabilities().several_kinds {
            let others: Vec<&str> = kinds.drain(1..).map(Kind::token).collect();
            notes.push(format!(
                "{} of the store are left out: {format} holds one kind; ask with --kind",
                others.join(", ")
            ));
        }
        let progress = session.progress("reading");
        let mut exports = Vec::new();
        for kind in kinds {
            progress.set(format!("{kind} of {store}"));
            exports.push(Export::read(&reader, query.clone(), Some(kind)).await?);
        }
        drop(progress);
        notes.extend(exports.iter().flat_map(|export| export.notes.clone()));
        let sources: Vec<Source> = exports
            .into_iter()
            .map(|export| Source {
                header: export.header.clone(),
                pieces: Box::new(export.into_pieces().map(Ok)),
            })
            .collect();
        session.tell_notices(out, reader.store())?;
        self.write(session, format, sources, notes, out)
    }

    /// Writes what files hold.
    async fn from_files(
        &self,
        session: &Session,
        format: Format,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let (recipe, _stop) = self.how.recipe(session)?;
        // A stream is read as it comes; beside files it is copied to one first.
        let is_stream = matches!(self.inputs.as_slice(), [only] if only.as_os_str() == "-");
        let held = match is_stream {
            true => None,
            false => Some(Inputs::new(&self.inputs, recipe.write.scratch.as_deref()).await?),
        };
        let open = |kind: Option<Kind>| -> anyhow::Result<Reader> {
            let inputs: Vec<Input> = match &held {
                Some(held) => held.files().iter().map(Input::path).collect(),
                None => vec![Input::reader(std::io::stdin())],
            };
            let options = read::ReadOptions { kind: kind.or(recipe.read.kind), ..recipe.read.clone() };
            let names = || self.inputs.iter().map(|path| path.display().to_string());
            let reader = read::open_all(inputs, recipe.format, &options).map_err(zvf::Error::from);
            reader.with_context(|| format!("cannot read {}", names().collect::<Vec<_>>().join(", ")))
        };
        let first = open(None)?;
        let mut notes: Vec<String> =
            first.header().left_out.iter().map(|what| format!("not read: {what}")).collect();
        let others = first.header().other_kinds.clone();
        let mut readers = vec![first];
        if format.capabilities().several_kinds {
            for kind in others {
                readers.push(open(Some(kind))?);
            }
        } else if !others.is_empty() {
            let others: Vec<&str> = others.into_iter().map(Kind::token).collect();
            let others = others.join(", ");
            notes.push(format!("{others} of the input are left out: {format} holds one kind; ask with --kind"));
        }
        let sources = readers.into_iter().map(Source::from).collect();
        self.write(session, format, sources, notes, out)
    }

    /// Writes all `sources`, one kind each, to the output.
    fn write(
        &self,
        session: &Session,
        format: Format,
        sources: Vec<Source>,
        mut notes: Vec<String>,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let mut losses: Vec<Loss> = Vec::new();
        for source in &sources {
            losses.extend(write::find_losses(&source.header, format).map_err(zvf::Error::from)?);
        }
        losses.dedup();
        let kinds_lost = notes.iter().filter(|note| note.contains("holds one kind"));
        let lost: Vec<String> =
            kinds_lost.cloned().chain(losses.iter().map(ToString::to_string)).collect();
        self.check_strict(format, &lost)?;
        if self.dry_run {
            return print_losses(session, format, &lost, out);
        }
        session.tell(&mut *out, losses.iter().map(ToString::to_string))?;
        let extra = serde_json::Map::new();
        let usual = WriteOptions::default();
        let options = WriteOptions {
            memory: session.memory_limit().unwrap_or(usual.memory),
            scratch: self.how.scratch(),
            extra,
            ..usual
        };
        let path = Path::new(&self.output);
        let (report, found) = if self.output == "-" {
            let mut stream = match format.capabilities().streams_out {
                true => Out::Stream(&mut *out),
                false => Out::Held(Cursor::new(Vec::new()), &mut *out),
            };
            let target = match format.capabilities().streams_out {
                true => Target::stream(&mut stream),
                false => Target::file(&mut stream),
            };
            let written = self.copy(session, format, sources, target, &options)?;
            self.check_strict(format, &texts(&written.0.losses))?;
            stream.finish()?;
            written
        } else if format.capabilities().is_folder {
            let gate = session.interrupt().gate().clone();
            let replace = self.how.overwrite();
            let marker = format.capabilities().marker;
            let options_of = StagingOptions { replace, gate, ..StagingOptions::new(marker) };
            let failed = |error| zvf::Error::from(zvf::StoreError::from(error));
            let lock = TargetLock::acquire(&Disk::default(), path).map_err(failed)?;
            let staging = StagingDir::begin(lock, options_of).map_err(failed)?;
            let target = Target::folder(staging.path());
            let written = self.copy(session, format, sources, target, &options)?;
            self.check_strict(format, &texts(&written.0.losses))?;
            staging.publish().map_err(failed)?;
            written
        } else {
            target::check_overwrite(path, self.how.overwrite())?;
            let mut file = Out::File(NewFile::create(path, session.interrupt())?);
            let written = self.copy(session, format, sources, Target::file(&mut file), &options)?;
            self.check_strict(format, &texts(&written.0.losses))?;
            file.finish()?;
            written
        };
        notes.extend(found);
        self.print(session, format, &report, (&lost, notes), out)
    }

    /// Refuses losses, where that is asked for.
    fn check_strict(&self, format: Format, lost: &[String]) -> anyhow::Result<()> {
        if !self.strict || lost.is_empty() {
            return Ok(());
        }
        let usage = Usage::new(format!("{format} does not hold everything: {}", lost.join("; ")));
        Err(usage.with_hint("leave --strict out to write without it, or choose another format").into())
    }

    fn copy(
        &self,
        session: &Session,
        format: Format,
        sources: Vec<Source>,
        target: Target<'_>,
        options: &WriteOptions,
    ) -> anyhow::Result<(Report, Vec<String>)> {
        let place = || format!("cannot write {}", self.output);
        let writer = write::open(format, target, options).map_err(zvf::Error::from);
        let mut writer = writer.with_context(place)?;
        let progress = session.progress("converting");
        let mut notes = Vec::new();
        for source in sources {
            let Source { header, mut pieces } = source;
            writer.begin(&header).map_err(zvf::Error::from).with_context(place)?;
            let mut vertices = 0_u64;
            for piece in pieces.by_ref() {
                let piece = piece.map_err(zvf::Error::from).with_context(|| {
                    let names: Vec<_> = self.inputs.iter().map(|p| p.display().to_string()).collect();
                    format!("cannot read {}", names.join(", "))
                })?;
                if let Piece::Vertices(batch) = &piece {
                    vertices += u64::try_from(batch.len()).unwrap_or(0);
                }
                writer.write(piece).map_err(zvf::Error::from).with_context(place)?;
                match header.vertices {
                    Some(total) => progress.advance("", vertices, total.max(vertices), "vertices"),
                    None => progress.set(format!("{} vertices", table::count(vertices))),
                }
                if session.interrupt().is_stopped() {
                    return Err(session.interrupt().reason());
                }
            }
            notes.extend(pieces.notes());
        }
        let report = writer.finish().map_err(zvf::Error::from).with_context(place)?;
        drop(progress);
        Ok((report, notes))
    }

    fn print(
        &self,
        session: &Session,
        format: Format,
        report: &Report,
        (lost, notes): (&[String], Vec<String>),
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let late = texts(&report.losses);
        if self.output != "-" {
            if session.json() {
                let value = json!({
                    "output": self.output,
                    "format": format.token(),
                    "vertices": report.vertices,
                    "objects": report.objects,
                    "elements": report.elements,
                    "losses": lost.iter().chain(&late).collect::<Vec<_>>(),
                });
                table::json(&value, out)?;
            } else {
                let mut words = vec![table::counted(report.vertices, "vertex")];
                if report.objects > 0 {
                    words.push(table::counted(report.objects, "object"));
                }
                if report.elements > 0 {
                    words.push(table::counted(report.elements, "element"));
                }
                writeln!(out, "{} in {}", words.join(", ").replace("vertexs", "vertices"), self.output)?;
            }
        }
        session.tell(out, late.into_iter().chain(notes))?;
        Ok(Outcome::Clean)
    }
}

/// Geometry of one kind.
struct Source {
    header: Header,
    pieces: Box<dyn Pieces>,
}

/// Pieces, and what was found out on the way.
trait Pieces: Iterator<Item = Result<Piece, zvf::convert::ConvertError>> {
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Pieces for Reader {
    fn notes(&self) -> Vec<String> {
        Self::notes(self)
    }
}

impl<I: Iterator<Item = Piece>, F> Pieces for std::iter::Map<I, F> where
    F: FnMut(Piece) -> Result<Piece, zvf::convert::ConvertError>
{
}

impl From<Reader> for Source {
    fn from(reader: Reader) -> Self {
        Self { header: reader.header().clone(), pieces: Box::new(reader) }
    }
}

fn texts(losses: &[Loss]) -> Vec<String> {
    losses.iter().map(ToString::to_string).collect()
}

fn print_losses(
    session: &Session,
    format: Format,
    lost: &[String],
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if session.json() {
        table::json(&json!({"format": format.token(), "losses": lost}), out)?;
    } else if lost.is_empty() {
        writeln!(out, "{format} holds all of it")?;
    } else {
        lost.iter().try_for_each(|loss| writeln!(out, "{loss}"))?;
    }
    Ok(Outcome::Clean)
}

fn needs_store(option: &str) -> anyhow::Error {
    let usage = Usage::new(format!("{option} is asked of a store, and the input is none"));
    usage.with_hint("convert the file to a store first").into()
}

/// Whether there is a store at `address`; every URL is one.
fn is_store(address: &str) -> bool {
    let path = Path::new(address.strip_prefix("file://").unwrap_or(address));
    let is_pack = || path.extension().is_some_and(|end| end == "tet") && path.is_file();
    let is_url = address.contains("://") && !address.starts_with("file://");
    is_url || path.join("zarr.json").is_file() || path.join(".zgroup").is_file() || is_pack()
}

/// The format that the name of the output stands for.
fn to_by_name(output: &str) -> Result<To, Usage> {
    let path = Path::new(output.trim_end_matches('/'));
    let ends = ["zarrvectors", "zarr", "zv"];
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    if ends.contains(&end) || output.contains("://") {
        return Ok(To::Store);
    }
    let written = Format::ALL.iter().filter(|format| format.is_written());
    let names: Vec<&str> = written.map(|format| format.token()).collect();
    let hint = format!("choose with --to: store, {}", names.join(", "));
    if output == "-" {
        return Err(Usage::new("standard output has no name to tell the format").with_hint(hint));
    }
    match Format::from_extension(path) {
        Some(format) if format.is_written() => Ok(To::Format(format)),
        Some(format) => {
            Err(Usage::new(format!("{format} is read and not written")).with_hint(hint))
        }
        None => {
            Err(Usage::new(format!("the name {output} stands for no output format")).with_hint(hint))
        }
    }
}

fn to_format(text: &str) -> Result<To, String> {
    if text.eq_ignore_ascii_case("store") {
        return Ok(To::Store);
    }
    Format::from_token(text).filter(|format| format.is_written()).map(To::Format).ok_or_else(|| {
        let written = Format::ALL.iter().filter(|format| format.is_written());
        let names: Vec<&str> = written.map(|format| format.token()).collect();
        format!("expected store or one of {}", names.join(", "))
    })
}

const EXAMPLES: &str = "Examples:
  zvf convert brain.trk brain.tck
  zvf convert tracts.zarrvectors left.trx --groups left --bbox -50,-50,-50:50,50,50
  zvf convert a.csv b.csv all.parquet
  zvf convert --strict tracts.trx tracts.tck
  cat points.csv | zvf convert --format csv - - --to jsonl";
