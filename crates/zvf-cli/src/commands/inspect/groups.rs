//! `zvf inspect groups`.

use std::io::Write;

use clap::Args;
use zvf::format::num::to_u64;
use zvf::inspect::GroupView;
use zvf::question::find_groups;

use crate::outcome::CommandResult;
use crate::session::Session;
use crate::table;

/// Show groups of objects: their names, members and attributes.
///
/// Without arguments, all groups are listed. To read the geometry of their members use "zvf query --groups".
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf inspect groups tracts.zarrvectors
  zvf inspect groups sl3_streamlines.zarrvectors 0 group_1 --limit 100
  zvf inspect groups --json tracts.zarrvectors | jq '.[] | [.name, .members]'")]
pub(crate) struct Groups {
    /// The store: a folder or a URL.
    store: String,
    /// Numbers or names of groups.
    groups: Vec<String>,
    /// The level.
    #[arg(long, default_value_t = 0)]
    level: u32,
    /// How many members of each group to show; 0 shows all.
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: u64,
}

impl Groups {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let store = session.store(&self.store).await?;
        let level = session.level(&store, self.level).await?;
        let group_numbers = match self.groups.as_slice() {
            [] => None,
            names => Some(find_groups(&level, names).await?),
        };
        let max_members = table::limit(self.limit);
        let groups = GroupView::read(&level, group_numbers.as_deref(), max_members).await?;
        session.print(&groups, |out| print(&groups, out))?;
        session.finish(&store)
    }
}

fn print(groups: &[GroupView], out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(first) = groups.first() else {
        return Ok(writeln!(out, "the level has no groups")?);
    };
    let names = first.attributes.keys().map(String::as_str);
    let names = [">group", "name", ">members"].into_iter().chain(names).chain(["ids"]);
    let rows = groups.iter().map(|group| {
        let first_cells =
            [group.group.to_string(), group.name.clone(), table::count(group.members)];
        let attributes = group.attributes.values().map(table::format_value);
        first_cells.into_iter().chain(attributes).chain([members(group)]).collect()
    });
    Ok(table::print(out, "", names, rows)?)
}

fn members(group: &GroupView) -> String {
    match (group.range, &group.ids) {
        (Some([start, stop]), _) => format!("{start}..{stop}"),
        (None, ids) => {
            let ids = ids.as_deref().unwrap_or_default();
            let more = to_u64(ids.len()) < group.members;
            let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
            format!("{}{}", ids.join(", "), if more { ", …" } else { "" })
        }
    }
}
