//! `zvf info`.

use std::io::Write;

use clap::Args;
use serde_json::json;
use zvf::LevelId;
use zvf::inspect::{AttributeStats, AttributeSummary, LevelSummary, LinkSummary, Summary};
use zvf::question::all_kinds;

use crate::outcome::{CommandResult, Outcome};
use crate::progress::Progress;
use crate::session::Session;
use crate::table::{self, Table};

/// Show what a store contains: version, axes, bounds, levels, attributes, sizes.
///
/// Reads metadata only, unless --stats is given. A level that cannot be read is shown with the reason, and the exit
/// code is then 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf info brain.zarrvectors
  zvf info --stats brain.zarrvectors
  zvf info --no-sizes s3://bucket/brain.zarrvectors
  zvf info --json brain.zarrvectors | jq '.levels[] | [.level, .vertices]'")]
pub(crate) struct Info {
    /// The store: a folder or a URL.
    store: String,
    /// Do not list the stored objects; sizes are then unknown.
    #[arg(long = "no-sizes", alias = "fast")]
    fast: bool,
    /// Read all values of level 0, and print minimum, maximum, mean and missing values of each attribute.
    #[arg(long)]
    stats: bool,
}

impl Info {
    pub(crate) async fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        let store = session.store(&self.store).await?;
        let progress = session.progress("reading documents");
        let mut summary = Summary::read(&store).await?;
        if !self.fast {
            progress.set("listing".to_owned());
            summary = summary.with_stored(&store).await?;
        }
        let stats = if self.stats { self.stats(session, &progress).await? } else { Vec::new() };
        drop(progress);
        let head = store.journal_head();
        if session.json() {
            let mut summary = serde_json::to_value(&summary)?;
            if let (Some(summary), Some(head)) = (summary.as_object_mut(), head) {
                summary.insert("journal".to_owned(), json!({ "head": head }));
            }
            if let Some(summary) = summary.as_object_mut().filter(|_| self.stats) {
                let kind_stats = |(kind, stats): &(String, Vec<AttributeStats>)| json!({"kind": kind, "attributes": stats});
                summary.insert("stats".to_owned(), stats.iter().map(kind_stats).collect());
            }
            table::json(&summary, out)?;
        } else {
            print(&self.store, &summary, head, out)?;
            stats.iter().try_for_each(|(kind, stats)| print_stats(kind, stats, out))?;
        }
        session.print_store_notices(out, &store)?;
        let known: Vec<String> = store.notices().iter().map(ToString::to_string).collect();
        session.print_notices(out, summary.notices.into_iter().filter(|n| !known.contains(n)))?;
        let faulty = summary.levels.iter().any(|level| level.fault.is_some());
        Ok(if faulty { Outcome::Findings } else { Outcome::Clean })
    }
}

impl Info {
    /// Computes statistics of the values of level 0, kind by kind.
    async fn stats(
        &self,
        session: &Session,
        progress: &Progress,
    ) -> anyhow::Result<Vec<(String, Vec<AttributeStats>)>> {
        let reader = session.reader(&self.store).await?;
        let level = reader.level(LevelId(0)).await?;
        let mut all = Vec::new();
        for kind in all_kinds(&level) {
            let prefix = format!("{kind}: ");
            let on_progress = &mut |rows| progress.count(&prefix, rows, "row");
            let statistics = reader.statistics_with_progress(LevelId(0), Some(kind), on_progress);
            let statistics = statistics.await?;
            all.push((kind.to_string(), AttributeStats::list(&statistics)));
        }
        Ok(all)
    }
}

fn print_stats(kind: &str, stats: &[AttributeStats], out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "\nvalues of {kind}, level 0")?;
    if stats.is_empty() {
        return Ok(writeln!(out, "  no attributes")?);
    }
    let mut table = Table::titled("scope, attribute, >values, >min, >max, >mean, >nulls, >nans");
    for attribute in stats {
        let value = |value: &Option<serde_json::Value>| {
            value.as_ref().map_or_else(|| "-".to_owned(), table::format_value)
        };
        table.row(vec![
            attribute.scope.to_owned(),
            attribute.name.clone(),
            table::count(attribute.values),
            value(&attribute.min),
            value(&attribute.max),
            attribute.mean.map_or_else(|| "-".to_owned(), table::number),
            table::count(attribute.nulls),
            table::count(attribute.nans),
        ]);
    }
    Ok(table.print("  ", out)?)
}

fn print(
    address: &str,
    summary: &Summary,
    head: Option<u64>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(out, "{address}")?;
    let mut say = |name: &str, text: &str| writeln!(out, "  {name:<12}{text}");
    if let Some(name) = &summary.name {
        say("name", name)?;
    }
    say("version", &format!("{} (layout family {})", summary.version, summary.family))?;
    say("kinds", &join_words(&summary.kinds))?;
    let axes = summary.axes.iter().map(|axis| match (&axis.unit, axis.kind.as_str()) {
        (Some(unit), _) => format!("{} ({unit})", axis.name),
        (None, "space") => axis.name.clone(),
        (None, kind) => format!("{} ({kind})", axis.name),
    });
    say("axes", &axes.collect::<Vec<_>>().join(", "))?;
    let [low, high] = &summary.bounds;
    say("bounds", &format!("{} to {}", table::floats(low), table::floats(high)))?;
    if let Some(offset) = &summary.coordinate_offset {
        say("offset", &table::floats(offset))?;
    }
    if let Some(crs) = &summary.crs {
        say("crs", &crs.as_str().map_or_else(|| crs.to_string(), str::to_owned))?;
    }
    say("chunks", &table::floats(&summary.chunk_shape))?;
    if let Some(bins) = &summary.bin_shape {
        say("bins", &table::floats(bins))?;
    }
    if let Some(cells) = &summary.shard_shape {
        say("shards", &format!("{cells} cells on each axis, as declared"))?;
    }
    if !summary.capabilities.is_empty() {
        say("features", &join_words(&summary.capabilities))?;
    }
    if !summary.required_capabilities.is_empty() {
        say("requires", &join_words(&summary.required_capabilities))?;
    }
    let object_index = summary.object_index_convention.as_deref().unwrap_or("standard");
    say(
        "conventions",
        &format!(
            "links {}, objects {object_index}, across chunks {}",
            summary.links_convention, summary.cross_chunk_strategy
        ),
    )?;
    if let Some(objects) = summary.parametric_objects {
        say("parametric", &table::format_count(objects, "object"))?;
    }
    if !summary.headers.is_empty() {
        say("headers", &join_words(&summary.headers))?;
    }
    if let Some(stored) = summary.stored {
        let objects = table::format_count(stored.objects, "object");
        say("stored", &format!("{} in {objects}", table::bytes(stored.bytes)))?;
    }
    if let Some(head) = head {
        say("commits", &table::count(head))?;
    }
    writeln!(out, "\nlevels")?;
    levels(&summary.levels, out)?;
    for level in &summary.levels {
        details(level, out)?;
        level.beside.iter().try_for_each(|beside| details(beside, out))?;
    }
    if let Some(user) = &summary.user_metadata {
        writeln!(out, "\nuser metadata\n  {}", serde_json::Value::Object(user.clone()))?;
    }
    Ok(())
}

fn levels(levels: &[LevelSummary], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = Table::titled(
        ">level, >vertices, >chunks, >objects, >groups, >size, chunk, type, codecs, built by",
    );
    for level in levels.iter().flat_map(|level| std::iter::once(level).chain(&level.beside)) {
        let codecs = match (&level.shard_shape, level.codecs.join(" ")) {
            (Some(shard), codecs) => format!("shards of {} {codecs}", table::vector(shard)),
            (None, codecs) if codecs.is_empty() => "none".to_owned(),
            (None, codecs) => codecs,
        };
        let vertices = u64::try_from(level.vertices).ok();
        table.row(vec![
            name(level),
            table::format_optional(vertices),
            table::format_optional(level.chunks),
            table::format_optional(level.objects),
            table::format_optional(level.groups),
            level.stored.map_or_else(|| "-".to_owned(), |stored| table::bytes(stored.bytes)),
            table::floats(&level.chunk_shape),
            level.dtype.clone().unwrap_or_else(|| "-".to_owned()),
            codecs.trim_end().to_owned(),
            describe_origin(level),
        ]);
    }
    Ok(table.print("  ", out)?)
}

/// Returns the name of a level, or of a further kind in it.
fn name(level: &LevelSummary) -> String {
    match &level.kind {
        Some(kind) => format!("{} {kind}", level.level),
        None => level.level.to_string(),
    }
}

fn describe_origin(level: &LevelSummary) -> String {
    if level.deferred {
        return "deferred: writers still fill it".to_owned();
    }
    let Some(parent) = level.parent else {
        let next = u64::from(level.level) + 1;
        return if level.additive {
            format!("complete together with level {next}")
        } else {
            "-".to_owned()
        };
    };
    let additive = if level.additive { ", additive" } else { "" };
    let error =
        level.error.map(|error| format!(", within {}", table::number(error))).unwrap_or_default();
    format!("{} from {parent}{error}{additive}", level.method)
}

fn details(level: &LevelSummary, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(fault) = &level.fault {
        writeln!(out, "\nlevel {}: {fault}", name(level))?;
    }
    if level.attributes.is_empty() && level.links.is_empty() && level.geometries.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nlevel {}", name(level))?;
    let mut table = Table::titled("scope, attribute, type, unit, description");
    for attribute in &level.attributes {
        table.row(vec![
            attribute.scope.to_owned(),
            attribute.name.clone(),
            type_words(attribute),
            attribute.unit.clone().unwrap_or_default(),
            attribute.description.clone().unwrap_or_default(),
        ]);
    }
    if !level.attributes.is_empty() {
        table.print("  ", out)?;
    }
    if !level.geometries.is_empty() {
        writeln!(out, "  other geometries: {}", level.geometries.join(", "))?;
    }
    for links in &level.links {
        writeln!(out, "  {}", link_words(level.level, links))?;
    }
    Ok(())
}

fn link_words(level: u32, links: &LinkSummary) -> String {
    let to = match links.delta {
        0 => "within the level".to_owned(),
        delta => format!("to level {}", i64::from(level) + i64::from(delta)),
    };
    let count = links.links.map(|links| table::format_count(links, "link"));
    let count = count.as_deref().unwrap_or("links");
    let arrays = table::format_count(links.arrays, "array");
    let mut words = format!("{count} {to}, {} vertices each, in {arrays}", links.width);
    for (flag, word) in [
        (links.missing_level, "which does not exist"),
        (links.directed, "directed"),
        (links.duplicated, "stored once for each chunk they touch"),
        (!links.enumerated && links.keeps_order, "as far as they could be found without a listing"),
        (
            !links.enumerated && !links.keeps_order,
            "without those between chunks, whose Draco streams have an order of their own",
        ),
    ] {
        if flag {
            words.push_str(", ");
            words.push_str(word);
        }
    }
    words
}

fn type_words(attribute: &AttributeSummary) -> String {
    let mut words = attribute.dtype.clone().unwrap_or_else(|| "-".to_owned());
    if attribute.width != 1 {
        words.push_str(&format!(" x {}", attribute.width));
    }
    if let Some(categories) = attribute.categories {
        words.push_str(&format!(", {categories} categories"));
    }
    words
}

fn join_words(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
