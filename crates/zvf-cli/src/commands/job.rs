//! Writing geometry in a format: the losses first, then the data, and the final name at the end.
//!
//! Shared by `zvf convert` and `zvf query --output`.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use serde_json::json;
use zvf::convert::Format;
use zvf::convert::write::{self, FormatOptions, Target};
use zvf::model::flow::{FlowError, FlowReport, Loss, Source, flow};
use zvf::publish::{Disk, StagingDir, StagingOptions, TargetLock};

use zvf::Error;

use crate::outcome::{CommandResult, Outcome, refuse};
use crate::session::Session;
use crate::table;
use crate::target::{self, Out};

/// What is written, and how.
#[derive(Default)]
pub(crate) struct Job {
    /// A description of the input.
    pub(crate) inputs: String,
    /// The output; `-` is standard output.
    pub(crate) output: String,
    /// Whether losses are refused.
    pub(crate) strict: bool,
    /// Whether only the losses are printed.
    pub(crate) dry_run: bool,
    /// Whether an existing output is replaced.
    pub(crate) overwrite: bool,
    /// The folder for data that does not fit in memory.
    pub(crate) scratch: Option<PathBuf>,
    /// Options of the output format.
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    /// Whether a job like it has printed the losses.
    pub(crate) is_repeated: bool,
}

impl Job {
    /// Writes all `sources`, one kind each, to the output; `unread` lists what they lack of the
    /// input besides what their headers list.
    pub(crate) async fn write(
        &self,
        session: &Session,
        format: Format,
        sources: Vec<Input>,
        mut unread: Vec<String>,
    ) -> CommandResult {
        let mut losses: Vec<Loss> = Vec::new();
        for (source, _) in &sources {
            for what in &source.header().left_out {
                let note = format!("not read: {what}");
                if !unread.contains(&note) {
                    unread.push(note); // once for all levels and kinds of an input
                }
            }
            losses.extend(write::find_losses(source.header(), format)?);
        }
        losses.dedup();
        let losses = texts(&losses);
        let kinds_lost = unread.iter().filter(|note| note.contains("holds one kind"));
        let refused: Vec<String> = kinds_lost.chain(&losses).cloned().collect();
        self.check_strict(format, &refused)?;
        let lost = [unread, losses].concat();
        if self.dry_run {
            return print_losses(session, format, &lost);
        }
        if !self.is_repeated {
            session.print_notices(lost.iter().cloned())?;
        }
        let extra = self.extra.clone();
        let usual = FormatOptions::default();
        let options = FormatOptions {
            memory: session.memory_limit().unwrap_or(usual.memory),
            scratch: self.scratch.clone(),
            extra,
            ..usual
        };
        let path = Path::new(&self.output);
        // Surfaces are files, such as `lh.white`, or folders of them.
        let has_files = format.capabilities().marker.is_empty();
        let is_named_file = has_files && Format::from_extension(path) == Some(format);
        let (report, notes) = if self.output == "-" {
            let streams = format.capabilities().streams_out;
            let mut out = session.out();
            let mut stream = match streams {
                true => Out::Stream(&mut out),
                false => Out::Held(Cursor::new(Vec::new()), &mut out),
            };
            let target = if streams { Target::stream } else { Target::file };
            let written =
                self.copy(session, format, sources, target(&mut stream), &options).await?;
            stream.finish()?;
            written
        } else if format.capabilities().is_folder && !is_named_file {
            let (replace, gate) = (self.overwrite, session.interrupt().gate().clone());
            let marker = format.capabilities().marker;
            let options_of = StagingOptions { replace, gate, ..StagingOptions::new(marker) };
            let lock = TargetLock::acquire(&Disk::default(), path).map_err(Error::from)?;
            let staging = StagingDir::begin(lock, options_of).map_err(Error::from)?;
            let target = Target::folder(staging.path());
            let written = self.copy(session, format, sources, target, &options).await?;
            staging.publish().map_err(Error::from)?;
            written
        } else {
            target::check_overwrite(path, self.overwrite)?;
            let mut file = Out::file(path, session.interrupt())?;
            let written =
                self.copy(session, format, sources, Target::file(&mut file), &options).await?;
            file.finish()?;
            written
        };
        self.print(session, format, &report, (&lost, notes))
    }

    /// Refuses losses with `--strict`.
    fn check_strict(&self, format: Format, lost: &[String]) -> anyhow::Result<()> {
        if !self.strict || lost.is_empty() {
            return Ok(());
        }
        refuse(format!(
            "{format} cannot hold everything: {}; leave --strict out to drop it, or choose \
             another format",
            lost.join("; ")
        ))
    }

    async fn copy(
        &self,
        session: &Session,
        format: Format,
        sources: Vec<Input>,
        target: Target<'_>,
        options: &FormatOptions,
    ) -> anyhow::Result<(FlowReport, Vec<String>)> {
        let place = || format!("cannot write {}", self.output);
        let writer = write::open(format, target, options);
        let mut writer = writer.with_context(place)?;
        let progress = session.progress("converting");
        let mut notes = Vec::new();
        for (mut source, bytes) in sources {
            let expected = source.expected_vertices();
            let on_progress = &mut |vertices: u64| {
                match (expected, &bytes) {
                    (Some(total), _) => {
                        progress.advance("", vertices, total.max(vertices), "vertices");
                    }
                    (None, Some((read, total))) => {
                        let read = read.load(Ordering::Relaxed);
                        progress.advance("", read, (*total).max(read), "bytes");
                    }
                    (None, None) => progress.count("", vertices, "vertex"),
                }
                match session.interrupt().is_stopped() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            };
            match flow(&mut *source, &mut *writer, on_progress).await {
                Ok(_) => notes.extend(source.notes()),
                Err(FlowError::Source(error)) => {
                    return Err(error).with_context(|| format!("cannot read {}", self.inputs));
                }
                Err(FlowError::Sink(error)) => return Err(error).with_context(place),
                Err(FlowError::Stopped) => return Err(session.interrupt().reason()),
            }
        }
        let report = writer.finish().with_context(place)?;
        self.check_strict(format, &texts(&report.losses))?;
        drop(progress);
        Ok((report, notes))
    }

    fn print(
        &self,
        session: &Session,
        format: Format,
        report: &FlowReport,
        (lost, notes): (&[String], Vec<String>),
    ) -> CommandResult {
        let late = texts(&report.losses);
        if self.output != "-" {
            let value = json!({
                "output": self.output,
                "format": format.token(),
                "vertices": report.vertices,
                "objects": report.objects,
                "elements": report.elements,
                "losses": lost.iter().chain(&late).collect::<Vec<_>>(),
                "notes": notes,
            });
            session.print(&value, |out| {
                let FlowReport { vertices, objects, elements, .. } = *report;
                let further = [(objects, "object"), (elements, "element")];
                let further = further.into_iter().filter(|(n, _)| *n > 0);
                let counts = table::counts([(vertices, "vertex")].into_iter().chain(further));
                Ok(writeln!(out, "{counts} in {}", self.output)?)
            })?;
        }
        session.print_notices(late.into_iter().chain(notes))?;
        Ok(Outcome::Clean)
    }
}

/// Geometry of one kind, and of files the bytes read so far and their total.
pub(crate) type Input = (Box<dyn Source>, Option<(Arc<AtomicU64>, u64)>);

fn texts(losses: &[Loss]) -> Vec<String> {
    losses.iter().map(ToString::to_string).collect()
}

fn print_losses(session: &Session, format: Format, lost: &[String]) -> CommandResult {
    session.print(&json!({"format": format.token(), "losses": lost}), |out| {
        if lost.is_empty() {
            writeln!(out, "{format} holds everything")?;
        }
        Ok(lost.iter().try_for_each(|loss| writeln!(out, "{loss}"))?)
    })
}
