//! Relationships of annotations: to their objects, and to the groups of these objects.
//!
//! An annotation requested by its id ends with the ids of each relationship; `object/ID` and
//! `group/NUMBER` list the annotations of one object and of one group. Viewers do not support
//! negative ids, so these are omitted.

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::fragment::Fragment;
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, to_u64};
use zvf_model::{Kind, LevelReader, ObjectId};
use zvf_query::Query;

use super::error::check_size;
use super::segments::object_of;

/// The relationships of the annotations of a level.
#[derive(Debug)]
pub(crate) struct Relations {
    kind: Kind,
    level: LevelReader,
    kinds: Vec<Relation>,
}

/// A relationship.
#[derive(Clone, Copy, Debug)]
enum Relation {
    /// To the object of an annotation.
    Object,
    /// To the groups of that object, by number.
    Group,
}

impl Relation {
    const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Group => "group",
        }
    }
}

impl Relations {
    pub(crate) async fn new(kind: Kind, level: &LevelReader) -> Result<Self> {
        let mut kinds = Vec::new();
        if level.objects().await?.is_some() {
            kinds.push(Relation::Object);
            if level.groups().await?.is_some_and(|groups| !groups.is_empty()) {
                kinds.push(Relation::Group);
            }
        }
        Ok(Self { kind, level: level.clone(), kinds })
    }

    /// Returns their description in `info`.
    pub(crate) fn describe(&self) -> Json {
        let entry = |kind: &Relation| json!({"id": kind.name(), "key": kind.name()});
        self.kinds.iter().map(entry).collect()
    }

    /// Returns the query for everything related by the relationship `name` to the object or the
    /// group `id`; `None` if one of them does not exist.
    pub(crate) async fn query(
        &self,
        level: &LevelReader,
        name: &str,
        id: u64,
    ) -> Result<Option<Query>> {
        let query = match self.kinds.iter().find(|kind| kind.name() == name) {
            None => return Ok(None),
            Some(Relation::Object) => {
                let (Some(object), Some(index)) = (object_of(id), level.objects().await?) else {
                    return Ok(None);
                };
                if index.find(&[object]).await? == [None] {
                    return Ok(None);
                }
                Query::all().of_objects([object])
            }
            Some(Relation::Group) => match level.groups().await? {
                Some(groups) if id < groups.len() => Query::all().in_groups([id]),
                Some(_) | None => return Ok(None),
            },
        };
        let query = query.of_kind(self.kind).at_level(level.level());
        Ok(Some(query.limit_bytes(MAX_RELATED_BYTES)))
    }

    /// Appends the ids of each relationship to the record of an annotation of these objects.
    pub(crate) async fn push(&self, objects: &[ObjectId], record: &mut Vec<u8>) -> Result<()> {
        for relation in &self.kinds {
            let ids: Vec<u64> = match relation {
                Relation::Object => {
                    objects.iter().filter_map(|id| u64::try_from(id.0).ok()).collect()
                }
                Relation::Group => self.groups_of(objects).await?,
            };
            check_size("a list of ids", to_u64(ids.len()), u32::MAX.into())?;
            record.extend(index_u32(ids.len()).to_le_bytes());
            record.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        }
        Ok(())
    }

    async fn groups_of(&self, objects: &[ObjectId]) -> Result<Vec<u64>> {
        let Some(groups) = self.level.groups().await? else { return Ok(Vec::new()) };
        // A document may state any number of groups.
        check_size("a number of groups", groups.len(), MAX_GROUPS)?;
        let (mut found, mut next) = (Vec::new(), 0);
        while next < groups.len() {
            let some: Vec<u64> = (next..groups.len().min(next + GROUPS_AT_ONCE)).collect();
            next += GROUPS_AT_ONCE;
            let members = groups.members(&some).await?;
            let has_one = some.into_iter().zip(members);
            let has_one = has_one.filter(|(_, all)| objects.iter().any(|id| all.contains(*id)));
            found.extend(has_one.map(|(group, _)| group));
        }
        Ok(found)
    }
}

/// Returns the objects that a row of a chunk belongs to; none if the level has no objects.
pub(crate) async fn find_objects(
    level: &LevelReader,
    key: &ChunkKey,
    row: u64,
) -> Result<Vec<ObjectId>> {
    let Some(index) = level.objects().await? else { return Ok(Vec::new()) };
    let keys = std::slice::from_ref(key);
    let Some(owners) = level.owners(keys, None).await? else { return Ok(Vec::new()) };
    let fragments = level.fragments(keys).await.pop().transpose()?;
    let (Some(owners), Some(fragments)) = (owners.chunks.first(), fragments) else {
        return Ok(Vec::new());
    };
    let view = fragments.view();
    // A range of a few bytes may claim more rows than can be iterated.
    let holds = |fragment: &u64| match view.get(*fragment) {
        Some(Fragment::Range { start, count }) => (start..start + count).contains(&row),
        Some(listed @ Fragment::Rows(_)) => listed.rows().any(|vertex| vertex == row),
        None => false,
    };
    let mut rows: Vec<u64> = (0..view.len())
        .filter(holds)
        .flat_map(|fragment| owners.fragment_owners(fragment))
        .collect();
    rows.sort_unstable();
    rows.dedup();
    index.ids_of(&rows).await
}

/// The number of groups whose members are in memory together.
const GROUPS_AT_ONCE: u64 = 256;
/// The largest number of groups that are searched for an object; the same limit as for conditions
/// of queries.
const MAX_GROUPS: u64 = 1 << 22;
/// The memory limit of the geometry related to one object or group, in bytes.
const MAX_RELATED_BYTES: u64 = 1 << 28;
