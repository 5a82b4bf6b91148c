//! `zvf inspect`: what a store is made of.

mod arrays;
mod blobs;
mod cells;
mod groups;
mod lineage;
mod objects;

use clap::Subcommand;

use self::arrays::Arrays;
use self::blobs::Blobs;
use self::cells::Cells;
use self::groups::Groups;
use self::lineage::Lineage;
use self::objects::Objects;
use crate::outcome::CommandResult;
use crate::session::Session;

/// Show the parts of a store: arrays, objects, groups, cells, links between levels, single blobs.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  zvf inspect arrays brain.zarrvectors
  zvf inspect objects tracts.zarrvectors 7,9 --level 1
  zvf inspect cells brain.zarrvectors 0.1.1
  zvf inspect blobs show store.tet")]
pub(crate) enum Inspect {
    Arrays(Arrays),
    Objects(Objects),
    Groups(Groups),
    Cells(Cells),
    Lineage(Lineage),
    #[command(subcommand)]
    Blobs(Blobs),
}

impl Inspect {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::Arrays(command) => command.run(session).await,
            Self::Objects(command) => command.run(session).await,
            Self::Groups(command) => command.run(session).await,
            Self::Cells(command) => command.run(session).await,
            Self::Lineage(command) => command.run(session).await,
            Self::Blobs(command) => command.run(session),
        }
    }
}
