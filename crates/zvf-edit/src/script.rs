//! Runs scripts: applies lines to transactions, and commits these.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::commit::{check_head, commit, commit_operation, open_journal, report};
use crate::error::{EditError, Result, refuse_if};
use crate::journal::Journal;
use crate::operation::{Bounds, Operation};
use crate::options::{CommitOptions, Refresh};
use crate::place::Place;
use crate::transaction::{NamedSelection, Transaction};

/// An editor that runs a script on a store.
#[derive(Debug)]
pub struct Editor {
    journal: Arc<Journal>,
    folder: PathBuf,
    defaults: CommitOptions,
    open: Option<OpenTransaction>,
    explicit: Option<bool>, // whether the script uses begin and commit
    named: HashMap<String, NamedSelection>,
    commits: Vec<Json>,
    notices: Vec<Json>,
}

#[derive(Debug)]
struct OpenTransaction {
    transaction: Transaction,
    options: CommitOptions,
}

/// The result of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The number of the line, from 1.
    pub line: u64,
    /// The operation of the line.
    pub op: String,
    /// The counts of selected and changed items and the new ids; after a commit, the head.
    pub fields: Json,
}

impl Reply {
    /// Returns the reply as one JSON object.
    pub fn to_json(&self) -> Json {
        let mut reply = json!({"line": self.line, "op": self.op});
        if let (Some(reply_fields), Some(more)) = (reply.as_object_mut(), self.fields.as_object()) {
            reply_fields.extend(more.clone());
        }
        reply
    }
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
            named: HashMap::new(),
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

    /// Runs a line of the script. Returns `None` for an empty line or a comment.
    ///
    /// # Errors
    ///
    /// The first error, with its line. The open transaction is dropped; earlier commits stay.
    pub fn line(&mut self, number: u64, text: &str) -> Result<Option<Reply>> {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Ok(None);
        }
        let parsed: Option<Json> = serde_json::from_str(trimmed).ok();
        let op = parsed.as_ref().and_then(|line| line["op"].as_str()).map(str::to_owned);
        let Some(line) = parsed.filter(Json::is_object) else {
            self.open = None;
            return Err(EditError::invalid("the line is no JSON object").with_line(number, None));
        };
        match self.step(&line) {
            // `step` refuses a line without an operation.
            Ok(fields) => Ok(Some(Reply { line: number, op: op.unwrap_or_default(), fields })),
            Err(error) => {
                self.open = None;
                Err(error.with_line(number, op.as_deref()))
            }
        }
    }

    fn step(&mut self, line: &Json) -> Result<Json> {
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
                let head = self.open.as_ref().map(|open| open.transaction.head());
                Ok(json!({"head": head}))
            }
            Ok(Operation::Commit {}) => {
                refuse_if(
                    self.open.is_none() || self.explicit != Some(true),
                    "there is no transaction to commit",
                )?;
                self.commit()
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
                let Some(open) = &mut self.open else { return Ok(Json::Null) };
                let done = open.transaction.apply_operation(operation?, line)?;
                let mut reply = json!({"selected": done.selected, "changed": done.changed});
                if !done.ids.is_empty() {
                    reply["ids"] = json!(done.ids);
                }
                Ok(reply)
            }
        }
    }

    fn begin(&mut self, options: CommitOptions) -> Result<()> {
        self.journal = self.journal.reopen()?;
        let mut transaction = Transaction::begin(&self.journal)?;
        transaction.folder.clone_from(&self.folder);
        check_head(&options, transaction.head())?;
        transaction.named = self.named.clone();
        self.open = Some(OpenTransaction { transaction, options });
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
        if self.open.is_some() {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<Json> {
        let Some(OpenTransaction { transaction, options }) = self.open.take() else {
            return Ok(Json::Null);
        };
        let committed = commit(&self.journal, transaction, &options)?;
        self.named = committed.named;
        self.notices.extend(committed.notices);
        match committed.report {
            None => Ok(json!({"head": self.journal.head()?, "changed": false})),
            Some(report) => {
                let reply =
                    json!({"head": report["head"], "txid": report["txid"], "changed": true});
                self.commits.push(report);
                Ok(reply)
            }
        }
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
