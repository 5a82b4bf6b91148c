//! `zvf info`.

use std::io::Write;
use std::path::Path;

use clap::Args;
use serde_json::json;
use zvf::LevelId;
use zvf::convert::read::describe_crs;
use zvf::inspect::{
    AttributeStats, AttributeSummary, AxisSummary, LevelSummary, LinkSummary, StoreSummary,
};
use zvf::question::all_kinds;
use zvf::round_digits;

use crate::outcome::{CommandResult, Outcome};
use crate::progress::Progress;
use crate::session::Session;
use crate::table;

/// Show what a store contains: kinds, extent, levels, attributes, sizes.
///
/// Reads metadata only, unless --stats is given. A level that cannot be read is shown with the reason, and the exit
/// code is then 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf info brain.zarrvectors
  zvf info --full brain.zarrvectors
  zvf info --stats brain.zarrvectors
  zvf info --no-sizes s3://bucket/brain.zarrvectors
  zvf info --json brain.zarrvectors | jq '.levels[] | [.level, .vertices]'")]
pub(crate) struct Info {
    /// The store: a folder or a URL.
    store: String,
    /// Do not list the stored objects; sizes are then unknown.
    #[arg(long = "no-sizes", alias = "fast")]
    fast: bool,
    /// Also show conventions, features, headers, links, derived columns and user metadata.
    #[arg(long)]
    full: bool,
    /// Read all values of level 0, and print minimum, maximum, mean and missing values of each attribute.
    #[arg(long)]
    stats: bool,
}

impl Info {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let store = session.store(&self.store).await?;
        let progress = session.progress("reading documents");
        let mut summary = StoreSummary::read(&store).await?;
        if !self.fast {
            progress.set("listing".to_owned());
            summary = summary.with_stored(&store).await?;
        }
        let stats = if self.stats { self.stats(session, &progress).await? } else { Vec::new() };
        drop(progress);
        let head = store.journal_head();
        let mut value = serde_json::to_value(&summary)?;
        if let Some(head) = head {
            value["journal"] = json!({ "head": head });
        }
        if self.stats {
            let of_kinds = stats.iter();
            let of_kinds = of_kinds.map(|(kind, all)| json!({"kind": kind, "attributes": all}));
            value["stats"] = of_kinds.collect();
        }
        session.print(&value, |out| {
            print(&self.store, &summary, head, self.full, out)?;
            stats.iter().try_for_each(|(kind, stats)| print_stats(kind, stats, out))
        })?;
        session.print_store_notices(&store)?;
        let known: Vec<String> = store.notices().iter().map(ToString::to_string).collect();
        session.print_notices(summary.notices.into_iter().filter(|n| !known.contains(n)))?;
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
    let value = |value: &Option<serde_json::Value>| {
        value.as_ref().map_or_else(|| "-".to_owned(), table::format_value)
    };
    let rows = stats.iter().map(|attribute| {
        vec![
            attribute.scope.to_owned(),
            attribute.name.clone(),
            table::count(attribute.values),
            value(&attribute.min),
            value(&attribute.max),
            attribute.mean.map_or_else(|| "-".to_owned(), table::number),
            table::count(attribute.nulls),
            table::count(attribute.nans),
        ]
    });
    let titles = "scope, attribute, >values, >min, >max, >mean, >nulls, >nans";
    Ok(table::print(out, "  ", titles.split(", "), rows)?)
}

fn print(
    address: &str,
    summary: &StoreSummary,
    head: Option<u64>,
    full: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(out, "{address}")?;
    let stem = Path::new(address).file_stem();
    let name = summary.name.clone().filter(|name| stem != Some(name.as_ref()));
    print_facts([("name", name)], out)?;
    for (kind, level) in contents(summary) {
        print_facts([(&*kind.replace('_', " "), Some(describe_contents(kind, level)))], out)?;
    }
    let [low, high] = &summary.bounds;
    for (axis, (low, high)) in summary.axes.iter().zip(low.iter().zip(high)) {
        print_facts([(&*axis.name, Some(describe_extent(*low, *high, axis)))], out)?;
    }
    let chunk = |shape: &Vec<f64>| describe_chunk(shape, summary);
    let shards = |cells: &serde_json::Value| format!("{cells} cells on each axis, as declared");
    let is_dense = summary.capabilities.iter().any(|token| token == "dense_manifests");
    let size = summary.stored.map(|stored| {
        let files = table::format_count(stored.objects, "file");
        format!("{} in {files}", table::bytes(stored.bytes))
    });
    let facts = [
        ("CRS", summary.crs.as_ref().map(describe_crs)),
        ("chunks", Some(chunk(&summary.chunk_shape))),
        ("bins", summary.bin_shape.as_ref().map(chunk)),
        ("compression", Some(describe_codecs(summary))),
        ("shards", summary.shard_shape.as_ref().map(shards)),
        ("manifests", is_dense.then(|| "dense".to_owned())),
        ("size", size),
        ("commits", head.map(table::count)),
        ("format", Some(summary.version.clone())),
        ("requires", join_words(&summary.required_capabilities)),
    ];
    print_facts(facts, out)?;
    if full {
        print_facts(list_conventions(summary), out)?;
    }
    writeln!(out, "\nlevels")?;
    levels(summary, out)?;
    attributes(summary, full, out)?;
    for level in all_levels(summary) {
        details(level, full, out)?;
    }
    match &summary.user_metadata {
        Some(user) if full => {
            writeln!(out, "\nuser metadata\n  {}", serde_json::Value::Object(user.clone()))?;
        }
        Some(_) => writeln!(out, "\nuser metadata: shown with --full")?,
        None => {}
    }
    Ok(())
}

/// Prints the facts that are known, each after its name.
fn print_facts<const N: usize>(
    facts: [(&str, Option<String>); N],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut known = facts.into_iter().filter_map(|(name, text)| Some((name, text?)));
    known.try_for_each(|(name, text)| writeln!(out, "  {name:<12}{text}"))
}

/// Returns what the documents say of the layout.
fn list_conventions(summary: &StoreSummary) -> [(&str, Option<String>); 9] {
    let index = summary.object_index_convention.as_deref().unwrap_or("standard");
    let objects = |objects| table::format_count(objects, "object");
    [
        ("layout", Some(format!("family {}", summary.family))),
        ("CRS in full", summary.crs.as_ref().map(table::format_value)),
        ("offset", summary.coordinate_offset.as_ref().map(table::floats)),
        ("features", join_words(&summary.capabilities)),
        ("links", Some(summary.links_convention.clone())),
        ("objects", Some(index.to_owned())),
        ("strategy", Some(format!("{} across chunks", summary.cross_chunk_strategy))),
        ("parametric", summary.parametric_objects.map(objects)),
        ("headers", join_words(&summary.headers)),
    ]
}

/// Returns the kinds of level 0, each with its level.
fn contents(summary: &StoreSummary) -> impl Iterator<Item = (&str, &LevelSummary)> {
    summary.levels.first().into_iter().flat_map(|level| {
        let is_own =
            |kind: &&String| level.beside.iter().all(|one| one.kind.as_ref() != Some(kind));
        let own = summary.kinds.iter().find(is_own);
        let all = std::iter::once(level).chain(&level.beside);
        all.filter_map(move |one| Some((one.kind.as_ref().or(own)?.as_str(), one)))
    })
}

/// Says how much of a kind a level has, in the words of the kind.
fn describe_contents(kind: &str, level: &LevelSummary) -> String {
    // A level that cannot be read has a line of its own.
    let Ok(vertices) = u64::try_from(level.vertices) else { return "unknown".to_owned() };
    let objects = level.objects.map_or_else(String::new, |objects| {
        format!(" in {}", table::format_count(objects, "object"))
    });
    let count = |noun| table::format_count(vertices, noun);
    let links = level.links.iter().find(|links| links.delta == 0 && links.enumerated);
    let links = links.and_then(|links| links.links);
    let with = |noun| links.map_or_else(String::new, |n| table::format_count(n, noun) + ", ");
    match (kind, level.objects) {
        ("line", Some(objects)) => table::format_count(objects, "segment"),
        ("polyline" | "streamline" | "skeleton", Some(objects)) => {
            format!("{}, {}", table::format_count(objects, kind), count("vertex"))
        }
        ("graph", _) => format!("{}{}{objects}", with("edge"), count("node")),
        ("mesh", _) => format!("{}{}{objects}", with("face"), count("vertex")),
        ("point_cloud", _) => format!("{}{objects}", count("point")),
        _ => format!("{}{objects}", count("vertex")),
    }
}

/// Says from where to where an axis extends, with four digits of its length.
fn describe_extent(low: f64, high: f64, axis: &AxisSummary) -> String {
    let size = high - low;
    let digits = if size > 0.0 { 3.0 - size.log10().floor() } else { 3.0 };
    let digits = (0..=9).find(|n| f64::from(*n) >= digits).unwrap_or(9_u8).into();
    let unit = match (&axis.unit, axis.kind.as_str()) {
        (Some(unit), _) => format!(" {unit}"),
        (None, "space") => String::new(),
        (None, kind) => format!(" ({kind})"),
    };
    format!("{low:.digits$} to {high:.digits$}{unit}, length {size:.digits$}")
}

/// Formats the shape of a chunk or a bin, with the unit of all axes.
fn describe_chunk(shape: &[f64], summary: &StoreSummary) -> String {
    let mut units = summary.axes.iter().map(|axis| axis.unit.as_deref().unwrap_or_default());
    let first = units.next().unwrap_or_default();
    let unit = if units.all(|unit| unit == first) { first } else { "" };
    format!("{} {unit}", crosses(shape.iter().map(|x| table::number(*x)))).trim_end().to_owned()
}

/// Says how the vertices of the finest level are compressed.
fn describe_codecs(summary: &StoreSummary) -> String {
    let Some(level) = summary.levels.first() else { return "unknown".to_owned() };
    let codecs = if level.codecs.is_empty() { "none".to_owned() } else { level.codecs.join(", ") };
    match &level.shard_shape {
        Some(shard) => {
            format!("{codecs}, in shards of {} chunks", crosses(shard.iter().map(u64::to_string)))
        }
        None => codecs,
    }
}

fn crosses(sides: impl Iterator<Item = String>) -> String {
    sides.collect::<Vec<_>>().join(" × ")
}

/// Returns all levels, and further kinds in them.
fn all_levels(summary: &StoreSummary) -> impl Iterator<Item = &LevelSummary> {
    summary.levels.iter().flat_map(|level| std::iter::once(level).chain(&level.beside))
}

fn levels(summary: &StoreSummary, out: &mut dyn Write) -> anyhow::Result<()> {
    let titles = ">level, >vertices, >objects, >groups, >chunks, >size, chunk, type, built by";
    let rows = all_levels(summary).map(|level| {
        vec![
            name(level),
            table::format_optional(u64::try_from(level.vertices).ok()),
            table::format_optional(level.objects),
            table::format_optional(level.groups),
            table::format_optional(level.chunks),
            level.stored.map_or_else(|| "-".to_owned(), |stored| table::bytes(stored.bytes)),
            describe_chunk(&level.chunk_shape, summary),
            level.dtype.clone().unwrap_or_else(|| "-".to_owned()),
            describe_origin(level, summary),
        ]
    });
    Ok(table::print(out, "  ", titles.split(", "), rows)?)
}

/// Prints each attribute once, with the levels that have it where these are not all.
fn attributes(summary: &StoreSummary, full: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut found: Vec<(&AttributeSummary, Vec<String>)> = Vec::new();
    for level in all_levels(summary) {
        let is_own = |one: &&AttributeSummary| !one.is_derived && one.scope != "fragment";
        for attribute in level.attributes.iter().filter(|one| full || is_own(one)) {
            match found.iter_mut().find(|(known, _)| *known == attribute) {
                Some((_, levels)) => levels.push(name(level)),
                None => found.push((attribute, vec![name(level)])),
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nattributes")?;
    let count = all_levels(summary).count();
    let rows = found.into_iter().map(|(attribute, levels)| {
        vec![
            attribute.scope.to_owned(),
            attribute.name.clone(),
            type_words(attribute),
            attribute.unit.clone().unwrap_or_default(),
            if levels.len() == count { "all".to_owned() } else { levels.join(", ") },
            attribute.description.clone().unwrap_or_default(),
        ]
    });
    let titles = "of, name, type, unit, levels, description";
    Ok(table::print(out, "  ", titles.split(", "), rows)?)
}

/// Returns the name of a level, or of a further kind in it.
fn name(level: &LevelSummary) -> String {
    match &level.kind {
        Some(kind) => format!("{} {kind}", level.level),
        None => level.level.to_string(),
    }
}

fn describe_origin(level: &LevelSummary, summary: &StoreSummary) -> String {
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
    let since =
        level.stale.as_ref().map(|stale| format!(", outdated since commit {}", stale["since"]));
    let since = since.unwrap_or_default();
    let error = level.error.map(|error| describe_chunk(&[round_digits(error, 4)], summary));
    let error = error.map_or_else(String::new, |error| format!(", within {error}"));
    format!("{} from {parent}{error}{additive}{since}", level.method)
}

/// Prints what is wrong with a level, and with `full` its links.
fn details(level: &LevelSummary, full: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(fault) = &level.fault {
        writeln!(out, "\nlevel {}: {fault}", name(level))?;
    }
    if !level.geometries.is_empty() {
        let others = level.geometries.join(", ");
        writeln!(out, "\nlevel {}: other geometries: {others}", name(level))?;
    }
    if full && !level.links.is_empty() {
        writeln!(out, "\nlinks of level {}", name(level))?;
        for links in &level.links {
            writeln!(out, "  {}", link_words(level.level, links))?;
        }
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
    if words.starts_with("<U") {
        words = "text".to_owned();
    }
    if attribute.width != 1 {
        words.push_str(&format!(" x {}", attribute.width));
    }
    if let Some(categories) = attribute.categories {
        words.push_str(&format!(", {categories} categories"));
    }
    words
}

fn join_words(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}
