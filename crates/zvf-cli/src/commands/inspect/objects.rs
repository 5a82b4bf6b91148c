//! `zvf inspect objects`.

use std::io::Write;

use clap::Args;
use zvf::format::num::to_u64;
use zvf::inspect::ObjectView;
use zvf::{Kind, LevelReader, ObjectId};

use crate::arguments::{Ids, ids};
use crate::outcome::CommandResult;
use crate::session::Session;
use crate::table;

/// Show objects: their rows, fragments, chunks and attributes, without reading vertices.
///
/// Without ids, the first objects of the index are listed. To read the geometry of objects use "zvf query --objects".
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf inspect objects tracts.zarrvectors
  zvf inspect objects tracts.zarrvectors 7,9 --level 1
  zvf inspect objects --json tracts.zarrvectors 7 | jq '.[0].bounds'")]
pub(crate) struct Objects {
    /// The store: a folder or a URL.
    store: String,
    /// Object ids: 7,9,20..30 (the end of a range is not included).
    #[arg(value_parser = ids, allow_hyphen_values = true)]
    ids: Option<Ids>,
    /// The level.
    #[arg(long, default_value_t = 0)]
    level: u32,
    /// Only objects of this kind, where the store holds several.
    #[arg(long)]
    kind: Option<Kind>,
    /// How many objects to list, and how many fragments of each object; 0 lists all.
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: u64,
}

impl Objects {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let store = session.store(&self.store).await?;
        let levels = session.kinds(&store, self.level, self.kind).await?;
        let limit = table::limit(self.limit);
        if let Some(ids) = &self.ids {
            let objects = read_objects(&levels, ids, limit).await?;
            session
                .print(&objects, |out| objects.iter().try_for_each(|object| print(object, out)))?;
        } else {
            let mut listed = Vec::new();
            for level in &levels {
                let index = level.objects().await?;
                let slots = index.map_or(0, |index| index.slots());
                let rows: Vec<u64> = (0..slots).take(limit).collect();
                let objects = match slots {
                    0 => Vec::new(),
                    _ => ObjectView::read_rows(level, &rows, 0).await?,
                };
                listed.push((level.kinds().first().copied(), objects, slots));
            }
            let all: Vec<&ObjectView> = listed.iter().flat_map(|(_, objects, _)| objects).collect();
            session.print(&all, |out| {
                for (n, (kind, objects, slots)) in listed.iter().enumerate() {
                    if let Some(kind) = kind.filter(|_| levels.len() > 1) {
                        writeln!(out, "{}{kind}", if n > 0 { "\n" } else { "" })?;
                    }
                    list(objects, *slots, out)?;
                }
                Ok(())
            })?;
        }
        session.finish(&store)
    }
}

/// Returns the objects of these ids, of whatever kind.
async fn read_objects(
    levels: &[LevelReader],
    ids: &[ObjectId],
    limit: usize,
) -> Result<Vec<ObjectView>, zvf::Error> {
    let Some((first, other_levels)) = levels.split_first() else { return Ok(Vec::new()) };
    if other_levels.is_empty() {
        return ObjectView::read_ids(first, ids, limit).await;
    }
    let mut objects = Vec::with_capacity(ids.len());
    for id in ids {
        let mut object_level = first;
        for level in other_levels {
            let Some(index) = level.objects().await? else { continue };
            if index.find(&[*id]).await?.iter().any(Option::is_some) {
                object_level = level;
            }
        }
        objects.extend(ObjectView::read_ids(object_level, &[*id], limit).await?);
    }
    Ok(objects)
}

fn list(objects: &[ObjectView], slots: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(first) = objects.first() else {
        return Ok(writeln!(out, "the level has no objects")?);
    };
    let names = first.attributes.keys().map(String::as_str);
    let names = [">id", ">row", ">fragments", ">chunks"].into_iter().chain(names);
    let rows = objects.iter().map(|object| {
        let first_cells = [object.id.to_string(), object.row.to_string()];
        let counts = [table::count(object.fragments), table::count(object.chunks)];
        let attributes = object.attributes.values().map(table::format_value);
        first_cells.into_iter().chain(counts).chain(attributes).collect()
    });
    table::print(out, "", names, rows)?;
    Ok(table::print_rest(out, "", slots.saturating_sub(to_u64(objects.len())))?)
}

fn print(object: &ObjectView, out: &mut dyn Write) -> anyhow::Result<()> {
    let kind = object.kind.as_ref().map(|kind| format!("{kind}, ")).unwrap_or_default();
    writeln!(out, "object {}: {kind}row {} of the index", object.id, object.row)?;
    if object.fragments == 0 {
        writeln!(out, "  no vertices: it was removed, or never had any")?;
    }
    let fragments = table::format_count(object.fragments, "fragment");
    writeln!(out, "  {fragments} in {}", table::format_count(object.chunks, "chunk"))?;
    if let Some([low, high]) = &object.bounds {
        writeln!(out, "  within {} to {}", table::floats(low), table::floats(high))?;
    }
    for (name, value) in &object.attributes {
        writeln!(out, "  {name} = {}", table::format_value(value))?;
    }
    for (chunk, fragment) in &object.references {
        writeln!(out, "    chunk {chunk}, fragment {fragment}")?;
    }
    let more = object.fragments.saturating_sub(to_u64(object.references.len()));
    Ok(table::print_rest(out, "    ", more)?)
}
