//! Attributes of `groups`: their number, their names, and the groups that are ranges of ids.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde_json::Value;

use super::super::error::{At, MetadataError};
use super::super::fields::{Put, count, ints, object, texts};
use super::{Object, split_tag};
use zvf_format::Class;

/// Attributes of `groups`, also as a group of arrays before 0.8.1.
///
/// ```
/// use zvf_metadata::arrays::Groups;
///
/// let groups = Groups { names: Some(vec!["left".into()]), ..Groups::new(2) };
/// assert_eq!((groups.name(0).as_str(), groups.name(1).as_str()), ("left", "group_1"));
/// assert_eq!(Groups::parse(groups.to_attributes()), Ok(groups));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    /// The tag: `groups`.
    pub zv_array: Option<String>,
    /// Number of rows.
    pub num_groups: u64,
    /// Groups that are ranges of ids. Their rows are empty.
    pub ranges: Option<Vec<GroupRange>>,
    /// The name of each row.
    pub names: Option<Vec<String>>,
    /// Keys this crate does not know.
    pub extras: Object,
}

/// A group that holds every id from `start` up to `stop`. It may claim any number of ids, so never
/// expand it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupRange {
    /// The row of the group.
    pub group: u64,
    /// The first id.
    pub start: i64,
    /// One past the last id.
    pub stop: i64,
}

impl Groups {
    /// Describes `num_groups` groups without ranges or names.
    #[must_use]
    pub fn new(num_groups: u64) -> Self {
        Self { zv_array: Some("groups".to_owned()), num_groups, ..Self::default() }
    }

    /// Parses attributes.
    ///
    /// # Errors
    ///
    /// When the number of groups is missing, a key has a value of another type, or a range is not
    /// two ids under a group number.
    pub fn parse(attributes: Object) -> Result<Self, MetadataError> {
        let (mut fields, zv_array) = split_tag(attributes)?;
        Ok(Self {
            zv_array,
            num_groups: fields.require("num_groups", count)?,
            ranges: fields.take("group_ranges", |at, value| {
                object(at, value)?.into_iter().map(|(key, value)| range(at, &key, value)).collect()
            })?,
            names: fields.take("group_names", texts)?,
            extras: fields.into_remaining(),
        })
    }

    /// Returns the name of row `i`, or a name made from its number.
    #[must_use]
    pub fn name(&self, i: usize) -> String {
        let name = self.names.as_ref().and_then(|names| names.get(i));
        name.map_or_else(|| format!("group_{i}"), Clone::clone)
    }

    /// Returns the attributes.
    #[must_use]
    pub fn to_attributes(&self) -> Object {
        let ranges = self.ranges.as_ref().map(|ranges| {
            let entries =
                ranges.iter().map(|r| (r.group.to_string(), [r.start, r.stop].to_vec().into()));
            Value::Object(entries.collect())
        });
        Put::new()
            .put_some("zv_array", self.zv_array.as_deref())
            .put("num_groups", self.num_groups)
            .put_some("group_ranges", ranges)
            .put_some("group_names", self.names.clone())
            .with_extras(&self.extras)
    }
}

fn range(at: &At<'_>, key: &str, value: Value) -> Result<GroupRange, MetadataError> {
    let at = at.name(key);
    let group = key.parse().ok().filter(|group: &u64| group.to_string() == key);
    let Some(group) = group else {
        let error = MetadataError::rule(Class::BadTag, &at, "the number of a group", "another key");
        return Err(error.with_quote(key));
    };
    match ints(&at, value)?.as_slice() {
        &[start, stop] => Ok(GroupRange { group, start, stop }),
        other => Err(MetadataError::rule(Class::BadShape, &at, "two ids", other.len())),
    }
}
