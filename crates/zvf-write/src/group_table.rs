//! Groups of objects, with their names and attributes.

use bytes::Bytes;
use zvf_error::Result;
use zvf_format::num::{i64s_to_le, to_u64};
use zvf_metadata::arrays::{
    ArrayAttributes as _, GroupRange, GroupsAttrs as GroupAttributes, Rows,
};
use zvf_metadata::path_segment;
use zvf_model::{Field, Kind, Members};
use zvf_store::{Build, DensePlan, RowPlan};

use crate::columns::decode_texts;
use crate::error::unfit_error;
use crate::geometry_path::GeometryPath;

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
    groups: Vec<(Option<String>, Members)>,
    fields: Vec<Field>,
}

impl GroupTable {
    /// Adds a group and returns its row.
    pub fn add(&mut self, name: Option<&str>, members: Members) -> u64 {
        self.groups.push((name.map(str::to_owned), members));
        to_u64(self.groups.len()) - 1
    }

    /// Adds an attribute of groups, with one row per group.
    pub fn add_field(&mut self, field: Field) {
        self.fields.push(field);
    }

    /// Writes the groups of a level with objects of this kind; nothing without groups.
    ///
    /// # Errors
    ///
    /// When the number of rows of an attribute differs from the number of groups, or an array
    /// cannot be written.
    pub async fn write(&self, build: &Build, kind: Kind, level: u32) -> Result<()> {
        self.write_at(build, GeometryPath::level(level), kind).await
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the names of the attributes.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| &*field.name)
    }

    /// Writes the groups at `geometry`.
    pub(crate) async fn write_at(
        &self,
        build: &Build,
        geometry: GeometryPath,
        kind: Kind,
    ) -> Result<()> {
        if self.groups.is_empty() {
            return Ok(());
        }
        let count = to_u64(self.groups.len());
        let mut says = GroupAttributes::new(count);
        if self.groups.iter().any(|(name, _)| name.is_some()) {
            let named = (0_u64..).zip(&self.groups);
            let named = named.map(|(i, (name, _))| name.clone().unwrap_or(format!("group_{i}")));
            says.names = Some(named.collect());
        }
        let (mut ranges, mut rows) = (Vec::new(), Vec::new());
        for (group, (_, members)) in (0_u64..).zip(&self.groups) {
            match members {
                Members::Range { start, stop } => {
                    ranges.push(GroupRange { group, start: *start, stop: *stop });
                    rows.push(Bytes::new());
                }
                Members::Ids(ids) => {
                    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
                    rows.push(i64s_to_le(&ids).into());
                }
            }
        }
        says.ranges = (!ranges.is_empty()).then_some(ranges);
        let plan = RowPlan { attributes: says.to_attributes(), ..RowPlan::default() };
        let mut sink = build.rows(&geometry.path("groups"), plan)?;
        for row in rows {
            sink.push(&row)?;
        }
        sink.finish(|_| {}).await?;
        for field in &self.fields {
            let column = decode_texts(field)?;
            if to_u64(column.len()) != count {
                let what = format!("the group attribute {:?}", &*field.name);
                let expected = format!("of {count} rows");
                return Err(unfit_error(kind, what, expected, column.len()));
            }
            let (dtype, width) = (column.dtype(), column.width());
            let shape = [count].into_iter().chain((width != 1).then_some(width.into())).collect();
            let plan = DensePlan {
                columns: (width != 1).then_some(width.into()),
                attributes: Rows::group_attribute(&field.name, dtype, shape).to_attributes(),
                ..DensePlan::new(dtype)
            };
            let path = geometry.path(&format!("group_attributes/{}", path_segment(&field.name)));
            let mut sink = build.dense(&path, plan)?;
            sink.push(column.bytes())?;
            sink.finish(|_| {}).await?;
        }
        Ok(())
    }
}
