//! Subcommands of `zvf edit`: one operation as arguments, which becomes one line of a script.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json, json};

use crate::arguments::{Ids, ids};

use super::select::{Select, number_or_text, position, to_fields, to_value, value};

/// One operation.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Set columns of vertices, or of objects with --scope object.
    Set(On<Set>),
    /// Move vertices.
    Move(On<Move>),
    /// Remove vertices; with --objects alone, objects.
    #[command(visible_aliases = ["delete", "remove"])]
    Rm(On<Rm>),
    /// Add vertices to an object, a new object, or points without objects.
    Add(On<Add>),
    /// Join objects into one.
    Merge(On<Join>),
    /// Split an object.
    Split(On<Cut>),
    /// Add, change and remove groups.
    Group(On<Group>),
    /// Add, rename and drop columns.
    Column(On<Column>),
    /// Add the contents of a file.
    Append(On<Append>),
}

/// An operation on a store.
#[derive(Debug, Args)]
pub(crate) struct On<T: Args> {
    /// The store.
    store: String,
    #[command(flatten)]
    does: T,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Columns and their values; null for absent.
    #[arg(required = true, value_name = "COLUMN=VALUE", value_parser = pair)]
    values: Vec<Pair>,
    /// The scope of the columns: vertex or object.
    #[arg(long, alias = "of", default_value = "vertex", value_parser = ["vertex", "object"])]
    scope: String,
    #[command(flatten)]
    select: Select,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where-to").required(true))]
pub(crate) struct Move {
    /// The new position.
    #[arg(long, value_name = "X,Y,..", group = "where-to", allow_hyphen_values = true, value_parser = position)]
    to: Option<Json>,
    /// The vector that is added to each position.
    #[arg(long, value_name = "DX,DY,..", group = "where-to", allow_hyphen_values = true, value_parser = position)]
    by: Option<Json>,
    #[command(flatten)]
    select: Select,
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    #[command(flatten)]
    select: Select,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Positions.
    // Hyphens are not allowed here: the options that follow would be taken for positions (`arguments::shield_positions`).
    #[arg(required = true, value_name = "X,Y,..", value_parser = position)]
    positions: Vec<Json>,
    /// The object that the vertices are added to [default: a new one, where the kind has objects].
    #[arg(long, value_name = "ID")]
    object: Option<i64>,
    /// Insert before this vertex of a polyline, or at start or end.
    #[arg(long, value_name = "N|start|end", requires = "object", value_parser = value)]
    at: Option<Json>,
    /// The skeleton vertex that becomes the parent of the first new one; each next one is a child of the one before.
    #[arg(long, value_name = "N", requires = "object")]
    parent: Option<i64>,
    /// Columns, and the value of all new vertices.
    #[arg(long = "value", value_name = "COLUMN=VALUE", value_parser = pair)]
    values: Vec<Pair>,
    /// The kind, where the store holds several.
    #[arg(long)]
    kind: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Join {
    /// The objects, in this order.
    #[arg(required = true, value_name = "IDS", value_parser = ids)]
    #[serde(serialize_with = "as_list")]
    objects: Vec<Ids>,
    /// The object that remains [default: the first].
    #[arg(long, value_name = "ID")]
    into: Option<i64>,
    /// How chains are joined: end to start, or where the gap is smallest.
    #[arg(long, value_parser = ["concat", "ends"])]
    join: Option<String>,
    /// Drop one of two joined ends at the same position.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    weld: bool,
}

#[derive(Debug, Args, Serialize)]
#[command(group = clap::ArgGroup::new("how").required(true))]
pub(crate) struct Cut {
    /// The object.
    #[arg(value_name = "ID")]
    object: i64,
    /// The first vertices of the new parts.
    #[arg(long, value_name = "N,..", value_delimiter = ',', group = "how")]
    at: Vec<i64>,
    /// Split into parts that no link joins.
    #[arg(long, group = "how")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    components: bool,
    /// Keep the vertex where a chain is split in both parts.
    #[arg(long, requires = "at")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    share: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Group {
    #[command(subcommand)]
    verb: GroupVerb,
}

#[derive(Debug, Subcommand, Serialize)]
#[serde(tag = "op")]
enum GroupVerb {
    /// Add a group.
    #[serde(rename = "group.add")]
    Add {
        /// Its name.
        name: String,
        /// Its members.
        #[arg(value_name = "IDS", value_parser = ids)]
        #[serde(serialize_with = "as_list")]
        members: Vec<Ids>,
    },
    /// Change the members of a group.
    #[serde(rename = "group.members")]
    Members {
        /// The group, by number or name.
        #[arg(value_parser = number_or_text)]
        group: Json,
        /// Replace all members by these.
        #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true)]
        set: Option<Ids>,
        /// Add these members.
        #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true)]
        add: Option<Ids>,
        /// Remove these members.
        #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true)]
        remove: Option<Ids>,
    },
    /// Give a group another name.
    #[serde(rename = "group.rename")]
    Rename {
        /// The group, by number or name.
        #[arg(value_parser = number_or_text)]
        group: Json,
        /// Its new name.
        name: String,
    },
    /// Set columns of a group.
    #[serde(rename = "group.set")]
    Set {
        /// The group, by number or name.
        #[arg(value_parser = number_or_text)]
        group: Json,
        /// Columns and their values.
        #[arg(required = true, value_name = "COLUMN=VALUE", value_parser = pair)]
        #[serde(serialize_with = "as_map")]
        values: Vec<Pair>,
    },
    /// Remove a group.
    #[serde(rename = "group.remove")]
    Remove {
        /// The group, by number or name.
        #[arg(value_parser = number_or_text)]
        group: Json,
    },
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Column {
    #[command(subcommand)]
    #[serde(flatten)]
    verb: ColumnVerb,
    /// The scope of the columns: vertex, object, link, group or fragment.
    #[arg(long, default_value = "vertex", global = true)]
    scope: String,
    /// The kind, where the store holds several.
    #[arg(long, global = true)]
    kind: Option<String>,
}

#[derive(Debug, Subcommand, Serialize)]
#[serde(tag = "op")]
enum ColumnVerb {
    /// Add a column.
    #[serde(rename = "column.add")]
    Add {
        /// Its name.
        name: String,
        /// Its type, such as float32, int64, bool or <U16.
        #[arg(long)]
        dtype: String,
        /// The number of values in one row.
        #[arg(long)]
        width: Option<u32>,
        /// The value of existing rows.
        #[arg(long, allow_hyphen_values = true, value_parser = value)]
        fill: Option<Json>,
        /// Its unit.
        #[arg(long)]
        unit: Option<String>,
        /// Its description.
        #[arg(long)]
        description: Option<String>,
    },
    /// Drop a column.
    #[serde(rename = "column.drop")]
    Drop {
        /// Its name.
        name: String,
    },
    /// Give a column another name.
    #[serde(rename = "column.rename")]
    Rename {
        /// Its name.
        name: String,
        /// Its new name.
        to: String,
    },
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Append {
    /// The file, as zvf create reads it.
    #[arg(value_parser = |text: &str| std::path::absolute(text))]
    file: PathBuf,
    /// The format [default: by the name of the file].
    #[arg(long)]
    format: Option<String>,
    /// The kind, where the store holds several.
    #[arg(long)]
    kind: Option<String>,
    /// Keep the ids of the file; an id that was used before is an error.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    keep_ids: bool,
}

impl Verb {
    /// Returns the store of the operation.
    pub(crate) fn store(&self) -> &str {
        match self {
            Self::Set(verb) => &verb.store,
            Self::Move(verb) => &verb.store,
            Self::Rm(verb) => &verb.store,
            Self::Add(verb) => &verb.store,
            Self::Merge(verb) => &verb.store,
            Self::Split(verb) => &verb.store,
            Self::Group(verb) => &verb.store,
            Self::Column(verb) => &verb.store,
            Self::Append(verb) => &verb.store,
        }
    }

    /// Returns the line of a script; `has_objects` returns whether the vertices of a kind belong to objects.
    pub(crate) fn to_line(
        &self,
        has_objects: impl FnOnce(Option<&str>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Json> {
        Ok(match self {
            Self::Set(On { does: set, .. }) if set.scope == "object" => {
                let mut line = set.select.to_json()?;
                if let Some(object) = line.as_object_mut().and_then(|line| line.remove("object")) {
                    line["objects"] = json!([object]);
                }
                line["values"] = to_map(&set.values);
                operation("object.set", &line)?
            }
            Self::Set(On { does: set, .. }) => json!({
                "op": "vertex.set", "vertices": set.select.to_json()?, "values": to_map(&set.values),
            }),
            Self::Move(On { does: verb, .. }) => {
                let vertices = verb.select.to_json()?;
                let fields = json!({"vertices": vertices, "to": verb.to, "by": verb.by});
                operation("vertex.move", &fields)?
            }
            Self::Rm(On { does: rm, .. }) if rm.select.is_objects_only() => {
                json!({"op": "object.remove", "objects": rm.select.objects})
            }
            Self::Rm(On { does: rm, .. }) => {
                json!({"op": "vertex.remove", "vertices": rm.select.to_json()?})
            }
            Self::Add(On { does: add, .. }) => add.to_line(has_objects)?,
            Self::Merge(On { does: verb, .. }) => operation("object.merge", verb)?,
            Self::Split(On { does: verb, .. }) => operation("object.split", verb)?,
            Self::Group(On { does: verb, .. }) => to_fields(&verb.verb)?.into(),
            Self::Column(On { does: verb, .. }) => to_fields(verb)?.into(),
            Self::Append(On { does: verb, .. }) => operation("append", verb)?,
        })
    }
}

impl Add {
    fn to_line(
        &self,
        has_objects: impl FnOnce(Option<&str>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Json> {
        let column = |(name, value): &Pair| {
            (name.clone(), Json::from(vec![value.clone(); self.positions.len()]))
        };
        let attributes: Map<String, Json> = self.values.iter().map(column).collect();
        let is_new = self.object.is_none() && has_objects(self.kind.as_deref())?;
        let parents = self.parent.map(|first| -> Vec<Json> {
            let chain = (1..self.positions.len()).map(|k| json!({"new": k - 1}));
            [json!({"index": first})].into_iter().chain(chain).collect()
        });
        let fields = json!({
            "positions": self.positions, "object": self.object, "kind": self.kind, "at": self.at,
            "parents": parents, "attributes": (!attributes.is_empty()).then_some(attributes),
        });
        operation(if is_new { "object.add" } else { "vertex.add" }, &fields)
    }
}

/// A column and its value.
type Pair = (String, Json);

/// Returns an operation with its fields.
fn operation(op: &str, settings: &impl Serialize) -> anyhow::Result<Json> {
    let mut line = Map::from_iter([("op".to_owned(), op.into())]);
    line.extend(to_fields(settings)?);
    Ok(line.into())
}

/// Parses `COLUMN=VALUE`.
fn pair(text: &str) -> Result<Pair, &'static str> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, text)| (name.to_owned(), to_value(text))).ok_or("expected COLUMN=VALUE")
}

fn to_map(values: &[Pair]) -> Json {
    values.iter().cloned().collect()
}

fn as_list<S: Serializer>(lists: &[Ids], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(lists.iter().flatten())
}

fn as_map<S: Serializer>(values: &[Pair], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        verb: Verb,
    }

    fn line(text: &str) -> Json {
        let args = std::iter::once("zvf").chain(text.split_whitespace());
        Line::try_parse_from(args).unwrap().verb.to_line(|kind| Ok(kind.is_none())).unwrap()
    }

    #[test]
    fn verbs_are_converted_to_script_lines() {
        #[rustfmt::skip]
        let table = [
            ("set s t=1.5 name=ax null=null --object 7 --index 0:3",
             json!({"op": "vertex.set", "vertices": {"object": 7, "index": {"from": 0, "to": 3}}, "values": {"t": 1.5, "name": "ax", "null": null}})),
            ("set s --scope object w=3 --object 7", json!({"op": "object.set", "values": {"w": 3}, "objects": [7]})),
            ("move s --object 7 --index -1 --by=-1,2.5", json!({"op": "vertex.move", "vertices": {"object": 7, "index": -1}, "by": [-1, 2.5]})),
            ("move s --nearest 1,2 --within 3 --to 4,5", json!({"op": "vertex.move", "vertices": {"nearest": [1, 2], "within": 3.0}, "to": [4, 5]})),
            ("rm s --objects 2..4,9", json!({"op": "object.remove", "objects": [2, 3, 9]})),
            ("delete s --ball 1,2:3", json!({"op": "vertex.remove", "vertices": {"ball": {"center": [1, 2], "radius": 3.0}}})),
            ("add s 1,2 3,4 --value t=5", json!({"op": "object.add", "positions": [[1, 2], [3, 4]], "attributes": {"t": [5, 5]}})),
            ("add s 1,2 --object 7 --at start", json!({"op": "vertex.add", "positions": [[1, 2]], "object": 7, "at": "start"})),
            ("add s 1,2 3,4 --object 7 --parent 4", json!({"op": "vertex.add", "positions": [[1, 2], [3, 4]], "object": 7, "parents": [{"index": 4}, {"new": 0}]})),
            ("add s 1,2 --kind point_cloud", json!({"op": "vertex.add", "positions": [[1, 2]], "kind": "point_cloud"})),
            ("merge s 1..3 3 --join ends --weld", json!({"op": "object.merge", "objects": [1, 2, 3], "join": "ends", "weld": true})),
            ("split s 1 --at 3,5 --share", json!({"op": "object.split", "object": 1, "at": [3, 5], "share": true})),
            ("group s add left 1 2", json!({"op": "group.add", "name": "left", "members": [1, 2]})),
            ("group s members 0 --add 3 --remove 1,2", json!({"op": "group.members", "group": 0, "add": [3], "remove": [1, 2]})),
            ("column s add t --dtype float32 --scope object", json!({"op": "column.add", "name": "t", "dtype": "float32", "scope": "object"})),
            ("column s rename t u", json!({"op": "column.rename", "name": "t", "to": "u", "scope": "vertex"})),
        ];
        for (text, expected) in table {
            assert_eq!(line(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for text in [
            "move s --by 1,x --all",
            "rm s",
            "set s t --all",
            "move s --index 1:2:3 --by 1",
            "rm s --bbox 1,2",
        ] {
            let args = std::iter::once("zvf").chain(text.split_whitespace());
            let line = Line::try_parse_from(args).map(|line| line.verb.to_line(|_kind| Ok(true)));
            assert!(!matches!(line, Ok(Ok(_))), "{text}");
        }
    }
}
