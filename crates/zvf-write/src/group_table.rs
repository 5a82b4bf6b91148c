//! The groups of a level that is written without a [`Writer`](crate::Writer).

use zvf_error::Result;
use zvf_model::{Field, Kind, Members};
use zvf_store::Build;

use crate::geometry_path::GeometryPath;
use crate::objects::Objects;

/// Groups of objects with their names, and attributes of groups.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use zvf_store::{Build, BuildOptions};
/// use zvf_model::{Kind, Members, ObjectId};
/// use zvf_write::GroupTable;
/// # let dir = tempfile::tempdir()?;
/// # let build = Build::begin(dir.path().join("x").to_str().unwrap(), BuildOptions::default()).await?;
///
/// let mut groups = GroupTable::default();
/// assert_eq!(groups.add(Some("left"), Members::Ids(vec![ObjectId(7)])), 0);
/// assert_eq!(groups.add(None, Members::Range { start: 0, stop: 4 }), 1);
/// groups.write(&build, Kind::Polyline, 1).await?;
/// # build.abandon().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct GroupTable {
    objects: Objects,
}

impl GroupTable {
    /// Adds a group and returns its row.
    pub fn add(&mut self, name: Option<&str>, members: Members) -> u64 {
        self.objects.group(name.map(str::to_owned), members)
    }

    /// Adds an attribute of groups, with one row per group.
    pub fn add_field(&mut self, field: Field) {
        self.objects.group_field(field);
    }

    /// Writes the groups of a level with objects of this kind; nothing without groups.
    ///
    /// # Errors
    ///
    /// When the number of rows of an attribute differs from the number of groups, or an array
    /// cannot be written.
    pub async fn write(&self, build: &Build, kind: Kind, level: u32) -> Result<()> {
        self.objects.write_groups(build, GeometryPath::level(level), kind).await
    }
}
