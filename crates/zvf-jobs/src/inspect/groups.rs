//! Groups of objects: their names, sizes, members and attributes.

use async_recursion::async_recursion as boxed;
use serde::Serialize;
use serde_json::Value as Json;
use zvf_model::{LevelReader, Members};

use super::json;
use crate::Error;

/// One group of a level.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GroupView {
    /// Its number.
    pub group: u64,
    /// Its own name, or one derived from the number.
    pub name: String,
    /// Its number of members.
    pub members: u64,
    /// The ids of the first members, if they are listed.
    pub ids: Option<Vec<i64>>,
    /// The first id, and one past the last, if members are a range.
    pub range: Option<[i64; 2]>,
    /// Its attributes.
    pub attributes: serde_json::Map<String, Json>,
}

impl GroupView {
    /// Reads the groups `groups` of `level`, or all of them if that is `None`, each with its first
    /// `max_ids` ids.
    ///
    /// # Errors
    ///
    /// When there is no such group, or the groups cannot be read. A level without groups has none.
    #[boxed]
    pub async fn read(
        level: &LevelReader,
        groups: Option<&[u64]>,
        max_ids: usize,
    ) -> Result<Vec<Self>, Error> {
        let Some(catalogue) = level.groups().await? else {
            return match groups {
                None | Some([]) => Ok(Vec::new()),
                Some(_) => Err(no_groups_error()),
            };
        };
        let all: Vec<u64> = (0..catalogue.len()).collect();
        let group_numbers = groups.unwrap_or(&all);
        let members = catalogue.members(group_numbers).await?;
        let mut views: Vec<Self> = group_numbers
            .iter()
            .zip(&members)
            .map(|(group, members)| Self {
                group: *group,
                name: catalogue.name(*group).unwrap_or_default(), // their members were found
                members: members.len(),
                ids: match members {
                    Members::Ids(ids) => Some(ids.iter().take(max_ids).map(|id| id.0).collect()),
                    Members::Range { .. } => None,
                },
                range: match members {
                    Members::Ids(_) => None,
                    Members::Range { start, stop } => Some([*start, *stop]),
                },
                attributes: serde_json::Map::new(),
            })
            .collect();
        for attribute in level.group_attributes().await? {
            let values = attribute.rows(group_numbers).await?;
            for (at, view) in views.iter_mut().enumerate() {
                view.attributes.insert(attribute.name().to_owned(), json::row(&values, at));
            }
        }
        Ok(views)
    }
}

fn no_groups_error() -> Error {
    Error::new(zvf_format::Class::InvalidArgument, "groups", "a level with groups", "none")
}
