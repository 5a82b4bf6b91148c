//! Attributes of `groups`: their number, their names, and the groups that are ranges of ids.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde_json::Value;

use super::super::error::{At, MetadataError};
use super::super::fields::Fields;
use super::super::members::{Document, Member as _, Members, entries};
use super::Object;
use zvf_format::Class;

/// Attributes of `groups`, also as a group of arrays before 0.8.1.
///
/// ```
/// use zvf_metadata::arrays::{ArrayAttributes as _, GroupsAttrs};
///
/// let groups = GroupsAttrs { names: Some(vec!["left".into()]), ..GroupsAttrs::new(2) };
/// assert_eq!((groups.name(0).as_str(), groups.name(1).as_str()), ("left", "group_1"));
/// assert_eq!(GroupsAttrs::parse(groups.to_attributes()), Ok(groups));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupsAttrs {
    /// The tag: `groups`.
    pub zv_array: Option<String>,
    /// Number of rows.
    pub num_groups: u64,
    /// Groups that are ranges of ids. Their rows are empty.
    pub ranges: Option<Vec<GroupRange>>,
    /// The name of each row.
    pub names: Option<Vec<String>>,
    /// Unknown keys, which are kept.
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

impl GroupsAttrs {
    /// Describes `num_groups` groups without ranges or names.
    pub fn new(num_groups: u64) -> Self {
        Self { zv_array: Some("groups".to_owned()), num_groups, ..Self::default() }
    }

    /// Returns the name of row `i`, or a name derived from its number.
    pub fn name(&self, i: usize) -> String {
        let name = self.names.as_ref().and_then(|names| names.get(i));
        name.map_or_else(|| format!("group_{i}"), Clone::clone)
    }
}

impl Document for GroupsAttrs {
    fn members(&mut self, m: &mut Members<'_>) {
        m.tag(&mut self.zv_array);
        m.required("num_groups", &mut self.num_groups);
        let read = |f: &mut Fields<'_>, key| f.take(key, |at, v| entries(at, v, range));
        m.member("group_ranges", &mut self.ranges, read, |ranges| {
            let ranges = ranges.as_ref()?.iter();
            let ranges = ranges.map(|r| (r.group.to_string(), [r.start, r.stop].to_vec().into()));
            Some(Value::Object(ranges.collect()))
        });
        m.option("group_names", &mut self.names);
        m.extras(&mut self.extras);
    }
}

fn range(at: &At<'_>, key: String, value: Value) -> Result<GroupRange, MetadataError> {
    let at = at.name(&key);
    let group = key.parse().ok().filter(|group: &u64| group.to_string() == key);
    let Some(group) = group else {
        let error = MetadataError::rule(Class::BadTag, &at, "the number of a group", "another key");
        return Err(error.with_quote(&key));
    };
    match Vec::<i64>::read(&at, value)?.as_slice() {
        &[start, stop] => Ok(GroupRange { group, start, stop }),
        other => Err(MetadataError::rule(Class::BadShape, &at, "two ids", other.len())),
    }
}
