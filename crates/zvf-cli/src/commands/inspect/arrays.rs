//! `zvf inspect arrays`.

use std::io::Write;

use clap::Args;
use zvf::inspect::{self, ArrayEntry};

use crate::outcome::{CommandResult, refuse};
use crate::session::Session;
use crate::table;

/// List the arrays of a store with their chunks and sizes.
///
/// Sizes are those of the stored objects, documents included. Plain HTTP has no listing: there the command shows the
/// arrays that documents name, without sizes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf inspect arrays brain.zarrvectors
  zvf inspect arrays brain.zarrvectors 0/vertex_attributes
  zvf inspect arrays --json s3://bucket/brain.zarrvectors | jq '.arrays[] | [.path, .stored.bytes]'")]
pub(crate) struct Arrays {
    /// The store: a folder or a URL.
    store: String,
    /// List only arrays below this path.
    path: Option<String>,
}

impl Arrays {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let store = session.store(&self.store).await?;
        let mut arrays = session.during("listing", inspect::Arrays::list(&store)).await?;
        if let Some(path) = self.path.as_deref().map(|path| path.trim_matches('/')) {
            let below = |entry: &ArrayEntry| {
                entry
                    .path
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            arrays.arrays.retain(below);
            if arrays.arrays.is_empty() {
                return refuse(format!(
                    "no array lies below {path:?}; leave the path out to see all"
                ));
            }
        }
        session.print(&arrays, |out| print(&arrays, out))?;
        session.finish(&store)
    }
}

fn print(arrays: &inspect::Arrays, out: &mut dyn Write) -> anyhow::Result<()> {
    let size = |array: &ArrayEntry| array.stored.map(|stored| stored.bytes);
    let rows = arrays.arrays.iter().map(|array| {
        let mut codecs = array.codecs.join(" ");
        if let Some(shard) = &array.shard_shape {
            codecs = format!("shards of {} {codecs}", table::vector(shard));
        }
        vec![
            array.path.clone(),
            array.data_type.clone(),
            array.shape.as_ref().map_or_else(|| "one per chunk".to_owned(), table::vector),
            table::format_optional(array.chunks),
            size(array).map_or_else(|| "-".to_owned(), table::bytes),
            codecs.trim_end().to_owned(),
        ]
    });
    let titles = "array, type, shape, >chunks, >size, codecs";
    table::print(out, "", titles.split(", "), rows)?;
    let complete = if arrays.complete { "" } else { ", those that metadata names" };
    let found = table::format_count(arrays.arrays.len(), "array");
    // Without a listing no size is known.
    let mut sizes = arrays.arrays.iter().map(size);
    let total = sizes.try_fold(0_u64, |total, size| total.checked_add(size?));
    let total = total.filter(|_| arrays.complete).map(|total| format!(", {}", table::bytes(total)));
    writeln!(out, "{found}{complete}{}", total.unwrap_or_default())?;
    Ok(())
}
