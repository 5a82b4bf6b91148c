//! `zvf validate`.
//!
//! ```text
//! text.rs     for people: by rule, worst first, and a line that sums up
//! mod.rs      lines of JSON: one for each finding, and one for the sum
//! sarif.rs    SARIF 2.1.0, for programs that show findings beside code
//! ```

mod sarif;
mod text;

pub(crate) use self::text::sum;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use zvf::clean::{Leftover, Status};
use zvf::validate::{
    Checks, Depth, Finding, Observer, Progress, Report, Rule, Sample, Severity, report_unopened,
    validate,
};

use crate::interrupt::Interrupted;
use crate::outcome::{CommandResult, Outcome, refuse};
use crate::session::Session;
use crate::table;
use crate::target::Out;

/// Check a store against every rule of the format, and list everything that is wrong.
///
/// Nothing is changed. Each finding has the rule, the array, the chunk, the byte, the expected and the found value. The
/// exit code is 1 when there is an error. Ctrl-C ends the command early, with the findings so far; the rules are in the
/// manual, under "Rules".
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf validate brain.zarrvectors
  zvf validate --depth 2 s3://bucket/brain.zarrvectors
  zvf validate --rules C21,C28 --limit 0 brain.zarrvectors
  zvf validate --journal brain.zarrvectors
  zvf validate --sample 0.01:7 s3://bucket/huge.zarrvectors
  zvf validate --sarif findings.sarif brain.zarrvectors")]
pub(crate) struct Validate {
    /// The store: a folder or a URL.
    store: String,
    #[command(flatten)]
    checks: CheckOptions,
    /// Write SARIF 2.1.0 to this file, or to standard output for "-".
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
}

/// The checks.
#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// How deep to check: 1 structure, 2 metadata, 3 consistency, 4 geometry, 5 pyramid.
    #[arg(
        long = "depth",
        alias = "level",
        short = 'd',
        short_alias = 'l',
        value_name = "N",
        default_value_t = 5
    )]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=5))]
    level: u8,
    /// Only these rules, such as C21,C28.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    rules: Vec<String>,
    /// Also report as errors what only a strict reader refuses.
    #[arg(long)]
    strict: bool,
    /// Findings to show; all are counted, and 0 shows all.
    #[arg(long = "limit", alias = "max-findings", value_name = "N", default_value_t = 1000)]
    max_findings: usize,
    /// Check only this share of the cells and manifests, chosen by a seed [default seed: 0].
    #[arg(long, value_name = "SHARE[:SEED]", value_parser = sample)]
    sample: Option<Sample>,
    /// Also check the journal: that its records are consecutive, and that the store holds what they wrote.
    #[arg(long)]
    pub(crate) journal: bool,
}

impl Validate {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let options = self.checks.options(session)?;
        let report = look(session, &self.store, &options).await;
        let shown = Shown {
            store: &self.store,
            journal: self.checks.journal,
            sarif: self.sarif.as_deref(),
        };
        shown.print(session, report)
    }
}

/// Returns what killed commands left next to a store, and says so where that is unknown.
pub(crate) fn leftovers(store: &str, session: &Session) -> std::io::Result<Vec<Leftover>> {
    let found = zvf::clean::list_beside(store).or_else(|error| {
        let why = error.message();
        let note =
            format!("cannot look for files that killed commands left next to the store: {why}");
        session.print_notices([note]).map(|()| Vec::new())
    })?;
    Ok(found.into_iter().filter(|left| left.state != Status::InUse).collect())
}

/// A report to print.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    /// The address of the store.
    pub(crate) store: &'a str,
    /// Whether the journal is checked first.
    pub(crate) journal: bool,
    /// The file for SARIF output.
    pub(crate) sarif: Option<&'a Path>,
}

impl Shown<'_> {
    /// Prints the report and a note about leftovers next to the store; returns the outcome.
    pub(crate) fn print(self, session: &Session, report: anyhow::Result<Report>) -> CommandResult {
        // Also without a store: a build may be unfinished.
        let hint = "\"zvf repair --in-place\" and the next \"zvf create\" remove it";
        let notes = leftovers(self.store, session)?.into_iter().map(|left| match left.state {
            Status::Unused => format!("{left}; {hint}"),
            Status::Resumable | Status::InUse | _ => left.to_string(),
        });
        session.print_notices(notes)?;
        let report = report?;
        let has_faults = self.check_journal(session)?;
        self.print_report(session, &report)?;
        if !report.complete {
            session.out().flush()?;
            return Err(Interrupted.into());
        }
        Ok(if report.is_clean() && !has_faults { Outcome::Clean } else { Outcome::Findings })
    }

    /// Prints the faults of the journal, where that is requested; returns whether there are any.
    fn check_journal(&self, session: &Session) -> anyhow::Result<bool> {
        if !self.journal {
            return Ok(false);
        }
        let (records, findings) = zvf::edit::check_journal(session.place(self.store)?)?;
        for finding in &findings {
            match session.json() {
                true => writeln!(session.out(), "{}", finding.to_json())?,
                false => writeln!(session.out(), "error: {finding}")?,
            }
        }
        let records = table::format_count(records, "commit");
        let faults = table::format_count(findings.len(), "fault");
        session.print_text(format!("journal: {records}, {faults}"))?;
        Ok(!findings.is_empty())
    }

    fn print_report(&self, session: &Session, report: &Report) -> anyhow::Result<()> {
        match self.sarif {
            Some(path) if path == Path::new("-") => {
                return sarif::write(self.store, report, &mut session.out());
            }
            Some(path) => {
                let mut file = Out::file(path, session.interrupt())?;
                sarif::write(self.store, report, &mut file)?;
                file.finish()?;
            }
            None => {}
        }
        match session.json() {
            true => write_json(self.store, report, &mut session.out()),
            false => text::write(self.store, report, &mut session.out()),
        }
    }
}

impl CheckOptions {
    /// Returns the options of the library.
    pub(crate) fn options(&self, session: &Session) -> anyhow::Result<Checks> {
        let mut rules = Vec::new();
        for id in &self.rules {
            let Some(rule) = Rule::find(id) else {
                return refuse(format!(
                    "there is no rule {id:?}; rules have names such as S1, M3 and C21"
                ));
            };
            rules.push(rule);
        }
        Ok(Checks {
            level: Depth::from_number(self.level).unwrap_or(Depth::Pyramid),
            rules,
            strict: self.strict,
            max_findings: if self.max_findings == 0 { usize::MAX } else { self.max_findings },
            sample: self.sample,
            max_kept_items: max_kept_items(session),
        })
    }
}

/// Returns how many fragments and ids fit into the memory limit.
fn max_kept_items(session: &Session) -> u64 {
    let by_memory = session.memory_limit().and_then(|bytes| bytes.checked_div(KEPT_BYTES));
    by_memory.unwrap_or(Checks::default().max_kept_items)
}

/// Validates the store at `address`; a store that does not open gives a report as well.
pub(crate) async fn look(
    session: &Session,
    address: &str,
    options: &Checks,
) -> anyhow::Result<Report> {
    let store = match session.unchecked_store(address).await {
        Ok(store) => store,
        Err(error) => {
            return report_unopened(error, options)
                .with_context(|| format!("cannot open {address}"));
        }
    };
    let (observer, progress) = observe(session);
    let report = validate(&store, options, &observer).await;
    drop(observer);
    drop(progress);
    session.print_store_notices(&store)?;
    report.with_context(|| format!("cannot validate {address}"))
}

/// Returns an observer that shows progress and stops the validation, and the progress line, shown until it is dropped.
pub(crate) fn observe(session: &Session) -> (Observer, Arc<crate::progress::Progress>) {
    let progress = Arc::new(session.progress("validating"));
    let shown = Arc::clone(&progress);
    let observer = Observer {
        progress: Some(Arc::new(move |step: &Progress| {
            shown.share(step.done, step.total, step.to_string())
        })),
        ..Observer::default()
    };
    session.interrupt().ask_first(&observer.cancelled);
    (observer, progress)
}

/// Writes a line for each finding and skipped check, and the totals.
fn write_json(address: &str, report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{}", json_value(finding))?;
    }
    for finding in &report.skipped {
        let mut line = json_value(finding);
        line["unseen"] = true.into();
        writeln!(out, "{line}")?;
    }
    let counts: Vec<Value> = report
        .counts
        .iter()
        .filter(|(_, severity, _)| *severity > Severity::Note)
        .map(
            |(rule, severity, n)| json!({"rule": rule.id, "severity": severity.name(), "count": n}),
        )
        .collect();
    let sum = json!({"summary": {
        "store": address,
        "complete": report.complete,
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "counts": counts,
        "unseen": report.skipped.len(),
        "sample": report.sample.map(|s| json!({"share": s.share(), "seed": s.seed()})),
        "checked": report.checked,
    }});
    Ok(writeln!(out, "{sum}")?)
}

/// Returns one finding as JSON, without empty fields.
pub(crate) fn json_value(finding: &Finding) -> Value {
    let rule = finding.rule;
    let mut all = json!({
        "rule": rule.id,
        "level": rule.level.number(),
        "severity": finding.severity.name(),
        "path": finding.path,
        "cell": finding.cell,
        "row": finding.row,
        "offset": finding.offset,
        "subject": (!finding.subject.is_empty()).then_some(&finding.subject),
        "expected": finding.expected,
        "found": finding.found,
    });
    all.as_object_mut().into_iter().for_each(|all| all.retain(|_, value| !value.is_null()));
    all
}

/// Parses a share, and an optional seed.
fn sample(text: &str) -> Result<Sample, String> {
    let (share, seed) = text.split_once(':').unwrap_or((text, "0"));
    let share = share.parse().ok();
    let sample = share.zip(seed.parse().ok()).and_then(|(share, seed)| Sample::new(share, seed));
    sample
        .ok_or_else(|| "expected a share above 0 and at most 1, such as 0.01 or 0.01:7".to_owned())
}

/// Bytes of memory per fragment or id, for all tables together.
const KEPT_BYTES: u64 = 64;
