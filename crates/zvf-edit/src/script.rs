//! Scripts: their operations, with the members of each, and the editor that applies lines to
//! transactions and commits these.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use zvf_query::predicate::Scope;

use crate::append::Append;
use crate::commit::{check_head, commit, commit_operation, open_journal, report};
use crate::error::{EditError, OrFail, Result, refuse_if, refused};
use crate::geometry::Geometry;
use crate::journal::Journal;
use crate::new_column::AddColumn;
use crate::new_rows::{Fields, read_named};
use crate::objects::{NewObject, ObjectSelector};
use crate::options::{CommitOptions, Refresh};
use crate::place::Place;
use crate::reshape::{Merge, Split};
use crate::transaction::{EarlierNames, OperationResult, Transaction};
use crate::vertices::{AddVertices, Affine};

/// An editor that runs a script on a store.
#[derive(Debug)]
pub struct Editor {
    journal: Arc<Journal>,
    folder: PathBuf,
    defaults: CommitOptions,
    open: Option<(Transaction, CommitOptions)>,
    explicit: Option<bool>, // whether the script uses begin and commit
    named: EarlierNames,
    commits: Vec<Json>,
    notices: Vec<Json>,
}

impl Editor {
    /// Opens a store for writing, and applies pending commits. File names in the script are relative to `folder`.
    ///
    /// # Errors
    ///
    /// When there is no store, or a pending commit cannot be applied.
    pub fn open(store: impl Into<Place>, folder: &Path, defaults: CommitOptions) -> Result<Self> {
        let journal = open_journal(&store.into(), &defaults)?;
        if !defaults.dry_run {
            journal.begin_writing()?;
            journal.apply_all_pending()?;
        }
        Ok(Self {
            journal,
            folder: folder.to_owned(),
            defaults,
            open: None,
            explicit: None,
            named: EarlierNames::default(),
            commits: Vec::new(),
            notices: Vec::new(),
        })
    }

    /// Returns the current head of the store.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn head(&self) -> Result<u64> {
        self.journal.head()
    }

    /// Runs a line of the script. Returns its number and operation, with the counts of selected and
    /// changed items and the new ids, or with the head after a commit; `None` for an empty line or a
    /// comment.
    ///
    /// # Errors
    ///
    /// The first error, with its line. The open transaction is dropped; earlier commits stay.
    pub fn line(&mut self, number: u64, text: &str) -> Result<Option<Json>> {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Ok(None);
        }
        let Some(line) = serde_json::from_str(trimmed).ok().filter(Json::is_object) else {
            self.open = None;
            return Err(EditError::invalid("the line is no JSON object").with_line(number, None));
        };
        let mut reply = json!({"line": number, "op": line["op"]});
        match self.step(&line, &mut reply) {
            Ok(()) => Ok(Some(reply)),
            Err(error) => {
                self.open = None;
                Err(error.with_line(number, line["op"].as_str()))
            }
        }
    }

    /// Runs a line, and adds its results to the reply.
    fn step(&mut self, line: &Json, reply: &mut Json) -> Result<()> {
        match Operation::parse(line) {
            Ok(Operation::Begin { message, if_head, bounds }) => {
                refuse_if(
                    self.explicit == Some(false),
                    "operations came before the first begin; put them into a transaction",
                )?;
                refuse_if(self.open.is_some(), "a transaction is open already; they do not nest")?;
                self.explicit = Some(true);
                let mut options = self.defaults.clone();
                options.message = message.or(options.message);
                options.if_head = if_head.or(options.if_head);
                if let Some(bounds) = bounds {
                    options.refuse_bounds = bounds == Bounds::Refuse;
                }
                self.begin(options)?;
                reply["head"] =
                    json!(self.open.as_ref().map(|(transaction, _)| transaction.snap.head));
                Ok(())
            }
            Ok(Operation::Commit {}) => {
                refuse_if(
                    self.open.is_none() || self.explicit != Some(true),
                    "there is no transaction to commit",
                )?;
                self.commit(reply)
            }
            operation => {
                if self.open.is_none() {
                    refuse_if(
                        self.explicit == Some(true),
                        "the operation stands outside a transaction",
                    )?;
                    self.explicit = Some(false);
                    self.begin(self.defaults.clone())?;
                }
                let Some((transaction, _)) = &mut self.open else { return Ok(()) };
                let done = transaction.apply_operation(operation?, line)?;
                reply["selected"] = json!(done.selected);
                reply["changed"] = json!(done.changed);
                if !done.ids.is_empty() {
                    reply["ids"] = json!(done.ids);
                }
                Ok(())
            }
        }
    }

    fn begin(&mut self, options: CommitOptions) -> Result<()> {
        self.journal = self.journal.reopen()?;
        let mut transaction = Transaction::begin(&self.journal)?;
        transaction.folder.clone_from(&self.folder);
        check_head(&options, transaction.snap.head)?;
        transaction.earlier = self.named.clone();
        self.open = Some((transaction, options));
        Ok(())
    }

    /// Ends the script, and commits a transaction without begin.
    ///
    /// # Errors
    ///
    /// When the commit fails, or a transaction is left open.
    pub fn finish(&mut self) -> Result<()> {
        refuse_if(
            self.explicit == Some(true) && self.open.take().is_some(),
            "the script ends with a transaction open; it was dropped",
        )?;
        self.commit(&mut Json::Null)
    }

    fn commit(&mut self, reply: &mut Json) -> Result<()> {
        let Some((transaction, options)) = self.open.take() else { return Ok(()) };
        let committed = commit(&self.journal, transaction, &options)?;
        self.named = committed.named;
        self.notices.extend(committed.notices);
        let changed = committed.report.is_some();
        match committed.report {
            None => reply["head"] = json!(self.journal.head()?),
            Some(report) => {
                reply["head"] = report["head"].clone();
                reply["txid"] = report["txid"].clone();
                self.commits.push(report);
            }
        }
        reply["changed"] = json!(changed);
        Ok(())
    }

    /// Returns the report of the script, as the command prints it. Where the head cannot be read, it is 0, and the report
    /// has that error unless there is another.
    pub fn report(&self, error: Option<&EditError>) -> Json {
        let head = self.journal.head();
        let error = error.or(head.as_ref().err());
        let head = head.as_ref().copied().unwrap_or(0);
        report(&self.journal, head, self.defaults.dry_run, &self.commits, &self.notices, error)
    }
}

/// Rebuilds the coarser levels of a store in one commit.
///
/// # Errors
///
/// When there is no store, or a level cannot be rebuilt.
pub fn refresh(store: impl Into<Place>, how: Refresh, options: &CommitOptions) -> Result<Json> {
    let journal = open_journal(&store.into(), options)?;
    let transaction = Transaction::begin(&journal)?;
    let options = CommitOptions { refresh: how, ..options.clone() };
    commit_operation(&journal, transaction, (json!({"op": "refresh"}), Vec::new()), &options)
}

/// One line of a script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
enum Operation {
    #[serde(rename = "begin")]
    Begin { message: Option<String>, if_head: Option<u64>, bounds: Option<Bounds> },
    #[serde(rename = "commit")]
    Commit {},
    #[serde(rename = "vertex.set")]
    SetVertices { vertices: Json, values: Option<Fields>, each: Option<Fields> },
    #[serde(rename = "vertex.move")]
    MoveVertices { vertices: Json, to: Option<Json>, by: Option<Json>, affine: Option<Affine> },
    #[serde(rename = "vertex.add")]
    AddVertices(AddVertices),
    #[serde(rename = "vertex.remove")]
    RemoveVertices { vertices: Json, links: Option<String> },
    #[serde(rename = "vertex.parent")]
    SetParent { vertex: Json, parent: Json },
    #[serde(rename = "object.add")]
    AddObject(NewObject),
    #[serde(rename = "object.replace")]
    ReplaceObject(NewObject),
    #[serde(rename = "object.remove")]
    RemoveObjects(ObjectSelector),
    #[serde(rename = "object.set")]
    SetObjects {
        objects: Option<Vec<i64>>,
        groups: Option<Vec<Json>>,
        r#where: Option<String>,
        values: Option<Fields>,
        each: Option<Fields>,
    },
    #[serde(rename = "object.copy")]
    CopyObject { object: i64, id: Option<i64>, by: Option<Json>, r#as: Option<String> },
    #[serde(rename = "object.merge")]
    MergeObjects(Merge),
    #[serde(rename = "object.split")]
    SplitObject(Split),
    #[serde(rename = "object.reverse")]
    ReverseObjects(ObjectSelector),
    #[serde(rename = "object.reroot")]
    RerootObject { object: i64, index: Json },
    #[serde(rename = "link.add")]
    AddLinks { links: Vec<Vec<Json>>, attributes: Option<Fields>, kind: Option<String> },
    #[serde(rename = "link.remove")]
    RemoveLinks { links: Option<Vec<Vec<Json>>>, touching: Option<Json>, kind: Option<String> },
    #[serde(rename = "link.set")]
    SetLinks {
        links: Option<Vec<Vec<Json>>>,
        all: Option<bool>,
        values: Option<Fields>,
        each: Option<Fields>,
        kind: Option<String>,
    },
    #[serde(rename = "group.add")]
    AddGroup { name: Option<String>, members: Option<Vec<i64>>, values: Option<Fields> },
    #[serde(rename = "group.members")]
    ChangeMembers {
        group: Json,
        set: Option<Vec<i64>>,
        add: Option<Vec<i64>>,
        remove: Option<Vec<i64>>,
    },
    #[serde(rename = "group.rename")]
    RenameGroup { group: Json, name: String },
    #[serde(rename = "group.set")]
    SetGroup { group: Json, values: Fields },
    #[serde(rename = "group.remove")]
    RemoveGroup { group: Json },
    #[serde(rename = "column.add")]
    AddColumn(AddColumn),
    #[serde(rename = "column.drop")]
    DropColumn { scope: Option<Scope>, name: String, kind: Option<String> },
    #[serde(rename = "column.rename")]
    RenameColumn { scope: Option<Scope>, name: String, to: String, kind: Option<String> },
    #[serde(rename = "fragment.set")]
    SetFragment {
        object: Option<i64>,
        index: Option<i64>,
        chunk: Option<Vec<i64>>,
        fragment: Option<i64>,
        values: Fields,
        kind: Option<String>,
    },
    #[serde(rename = "append")]
    Append(Append),
    #[serde(rename = "expect")]
    Expect(Fields),
}

/// How a commit treats a vertex outside the bounds of the store.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Bounds {
    Grow,
    Refuse,
}

impl Operation {
    /// Parses a line of a script.
    fn parse(line: &Json) -> Result<Self> {
        let members = line.as_object();
        let mut members = members.or_refused(|| "the line is no JSON object".to_owned())?.clone();
        match members.shift_remove("op") {
            Some(Json::String(name)) => read_named(name, members),
            _ => refused("the field \"op\" is missing"),
        }
    }
}

impl Transaction {
    /// Applies one operation, in the form of a line of a script. The transaction should be dropped
    /// where it fails.
    pub(crate) fn apply(&mut self, line: &Json) -> Result<OperationResult> {
        self.apply_operation(Operation::parse(line)?, line)
    }

    /// Applies the operation that a line states.
    fn apply_operation(&mut self, operation: Operation, line: &Json) -> Result<OperationResult> {
        if !matches!(operation, Operation::Append(_)) {
            self.kinds.iter_mut().try_for_each(Geometry::number_added)?;
        }
        let done = match operation {
            Operation::Begin { .. } | Operation::Commit {} => refused("transactions do not nest"),
            Operation::SetVertices { vertices, values, each } => {
                self.set_vertices(&vertices, &values, &each)
            }
            Operation::MoveVertices { vertices, to, by, affine } => {
                self.move_vertices(&vertices, to, by, affine)
            }
            Operation::AddVertices(new) => self.add_vertices(&new),
            Operation::RemoveVertices { vertices, links } => {
                self.remove_selected(&vertices, links.as_deref())
            }
            Operation::SetParent { vertex, parent } => self.set_parent(&vertex, &parent),
            Operation::AddObject(new) => self.add_object(&new),
            Operation::ReplaceObject(new) => self.replace_object(&new),
            Operation::RemoveObjects(selector) => self.remove_objects(&selector),
            Operation::SetObjects { objects, groups, r#where, values, each } => {
                self.set_objects(&ObjectSelector { objects, groups, r#where }, &values, &each)
            }
            Operation::CopyObject { object, id, by, r#as } => {
                self.copy_object(object, id, by.as_ref(), r#as)
            }
            Operation::MergeObjects(merge) => self.merge_objects(&merge),
            Operation::SplitObject(split) => self.split_object(&split),
            Operation::ReverseObjects(selector) => self.reverse_objects(&selector),
            Operation::RerootObject { object, index } => self.reroot_object(object, &index),
            Operation::AddLinks { links, attributes, kind } => {
                self.add_links(&links, &attributes, kind.as_deref())
            }
            Operation::RemoveLinks { links, touching, kind } => {
                self.remove_links(links, touching, kind.as_deref())
            }
            Operation::SetLinks { links, all, values, each, kind } => {
                self.set_links(links, all, (&values, &each), kind.as_deref())
            }
            Operation::AddGroup { name, members, values } => self.add_group(name, members, &values),
            Operation::ChangeMembers { group, set, add, remove } => {
                self.change_members(&group, set, add, remove)
            }
            Operation::RenameGroup { group, name } => self.rename_group(&group, name),
            Operation::SetGroup { group, values } => self.set_group(&group, &values),
            Operation::RemoveGroup { group } => self.remove_group(&group),
            Operation::AddColumn(new) => self.add_column(&new),
            Operation::DropColumn { scope, name, kind } => {
                self.drop_column(scope.unwrap_or_default(), &name, kind.as_deref())
            }
            Operation::RenameColumn { scope, name, to, kind } => {
                self.rename_column(scope.unwrap_or_default(), &name, to, kind.as_deref())
            }
            Operation::SetFragment { object, index, chunk, fragment, values, kind } => {
                let found = match (object, chunk) {
                    (Some(id), None) => self.fragment_of_object(id, index),
                    (None, Some(chunk)) => {
                        self.fragment_of_chunk(&chunk, fragment, kind.as_deref())
                    }
                    _ => refused(
                        "\"object\" and \"index\", or \"chunk\" and \"fragment\" are wanted",
                    ),
                };
                self.set_fragment(found?, &values)
            }
            Operation::Append(append) => self.append(&append),
            Operation::Expect(expect) => self.expect(expect),
        }?;
        self.operations.push(line.clone());
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_member_is_named_with_what_was_expected_and_found() {
        let nothing = "expected a value, found null";
        for (line, words) in [
            (json!([]), vec!["no JSON object"]),
            (json!({"object": 1}), vec!["\"op\" is missing"]),
            (json!({"op": "vertex.mvoe"}), vec!["vertex.mvoe", "vertex.move"]),
            (json!({"op": "commit", "message": "x"}), vec!["message"]),
            (json!({"op": "vertex.parent", "vertex": {}}), vec!["missing", "parent"]),
            (json!({"op": "vertex.remove", "vertexes": {}}), vec!["vertexes", "vertices"]),
            (json!({"op": "object.copy", "object": "a"}), vec!["object: ", "\"a\"", "i64"]),
            (json!({"op": "object.copy", "object": 1.5}), vec!["object: ", "1.5", "i64"]),
            (json!({"op": "object.copy", "object": 1, "id": null}), vec!["id: ", nothing]),
            (
                json!({"op": "column.drop", "name": "a", "scope": "row"}),
                vec!["scope: ", "row", "vertex"],
            ),
            (json!({"op": "begin", "if_head": -1}), vec!["if_head: ", "-1"]),
        ] {
            let error = Operation::parse(&line).unwrap_err();
            assert_eq!(error.class, zvf_format::Class::InvalidArgument);
            for word in words {
                assert!(error.message.contains(word), "{word}: {error}");
            }
        }
    }

    #[test]
    fn a_member_that_is_there_has_a_value() {
        let column = json!({"op": "column.add", "name": "a", "dtype": "float32", "fill": null});
        assert!(matches!(Operation::parse(&column), Ok(Operation::AddColumn(_))));
        let removal = json!({"op": "object.remove", "objects": [1, -2], "where": "object.a > 1"});
        assert!(matches!(Operation::parse(&removal), Ok(Operation::RemoveObjects(_))));
        assert!(matches!(Operation::parse(&json!({"op": "commit"})), Ok(Operation::Commit {})));
    }
}
