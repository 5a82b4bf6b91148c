//! Stores in repositories of versions: the repository has the history, and a commit is one commit of the repository.
//!
//! ```text
//! begin     pins the latest version of the branch, from which everything is read
//! commit    writes all changed keys atomically if the branch did not move; otherwise fails with Conflict
//! head      the number of commits up to the version: 0 is the repository as it was created
//! ```
//!
//! There is no journal. The small fields of a record are stored in the properties of the version, under `zvf`. Versions of
//! other programs have none, and their objects are not listed.
//!
//! Not here: the repository (`zvf_store::Versions`).

use std::sync::{Arc, OnceLock};

use object_store::memory::InMemory;
use serde_json::{Map, Value as Json, json};
use zvf_format::{Class, num};
use zvf_store::{Backend, CommitNote, CommittedVersion, Objects, OpenOptions, Versions};

use crate::changes::{Blob, Changes, KeyContents};
use crate::error::{Result, missing_commit_error, refused};
use crate::medium::{Medium, block_on};
use crate::options::CommitOptions;
use crate::stamp::{new_txid, writer_name};

/// A repository, pinned to one of its versions.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) versions: Arc<dyn Versions>,
    /// The id of the version.
    id: String,
    /// The versions up to this one, newest first.
    history: OnceLock<Vec<CommittedVersion>>,
    /// Whether a commit was made on this version.
    committed: OnceLock<()>,
}

impl Pinned {
    /// Pins the current version of the address.
    pub(crate) fn open_latest(versions: &Arc<dyn Versions>) -> Result<Self> {
        let id = block_on(versions.latest_version())?;
        Ok(Self::new(versions, id))
    }

    fn new(versions: &Arc<dyn Versions>, id: String) -> Self {
        let versions = Arc::clone(versions);
        Self { versions, id, history: OnceLock::new(), committed: OnceLock::new() }
    }

    /// Opens the objects of the version, and an empty medium in place of a journal.
    pub(crate) fn open_media(&self, options: &OpenOptions) -> Result<(Medium, Medium)> {
        let Backend { store, prefix, .. } = block_on(self.versions.open(&self.id))?;
        let none = Objects::new(Arc::new(InMemory::new()), &"".into(), options);
        Ok((Medium::Objects(Objects::new(store, &prefix, options)), Medium::Objects(none)))
    }

    /// Returns the versions up to this one, newest first.
    fn history(&self) -> Result<&[CommittedVersion]> {
        if let Some(history) = self.history.get() {
            return Ok(history);
        }
        let found = block_on(self.versions.history(&self.id))?;
        Ok(self.history.get_or_init(|| found))
    }

    /// Returns the number of this version; 0 for the first.
    fn number(&self) -> Result<u64> {
        Ok(num::to_u64(self.history()?.len().saturating_sub(1)))
    }

    /// Returns the number of commits up to this version, including one made on it.
    pub(crate) fn head(&self) -> Result<u64> {
        Ok(self.number()? + u64::from(self.committed.get().is_some()))
    }

    /// Returns the version with a number.
    fn version(&self, number: u64) -> Result<&CommittedVersion> {
        let (history, last) = (self.history()?, self.number()?);
        let found =
            last.checked_sub(number).and_then(|back| history.get(usize::try_from(back).ok()?));
        found.ok_or_else(|| missing_commit_error(number, last))
    }

    /// Pins an earlier version.
    pub(crate) fn open_at(&self, number: u64) -> Result<Self> {
        Ok(Self::new(&self.versions, self.version(number)?.id.clone()))
    }

    /// Commits changes. Returns their report.
    pub(crate) fn commit(
        &self,
        changes: &Changes,
        mut report: Json,
        (body, operations): (&Json, &[Json]),
        options: &CommitOptions,
    ) -> Result<Json> {
        let message = options.message.clone();
        let message = message.unwrap_or_else(|| match &options.undoes {
            Some(undone) => format!("undo of {undone:?}"),
            None => "edited with zvf".to_owned(),
        });
        let properties = commit_properties(&report, body, operations, options)?;
        let note = CommitNote { message, properties };
        let id = block_on(self.versions.commit(&self.id, changes.read_all()?, note))?;
        // A second commit on the same version is a conflict, so that this is the only one.
        let _ = self.committed.set(());
        report["head"] = json!(self.head()?);
        report["txid"] = json!(id);
        Ok(report)
    }

    /// Returns the fields of the record of a commit; few of them for one of another program.
    pub(crate) fn body(&self, number: u64) -> Result<Json> {
        let CommittedVersion { id, time, message, properties, .. } = self.version(number)?;
        let own = properties.get("zvf").filter(|own| own.is_object()).cloned();
        let mut body = own.unwrap_or_else(|| json!({}));
        body["head"] = json!(number);
        body["txid"] = json!(id);
        body["time"] = json!(time);
        body["message"] = json!(message);
        Ok(body)
    }

    /// Returns one commit with all its properties.
    pub(crate) fn show(&self, number: u64, options: &OpenOptions) -> Result<Json> {
        let mut shown = self.body(number)?;
        if number > 0 {
            shown["keys"] = self.read_changed_keys(number, options)?;
        }
        Ok(shown)
    }

    /// Returns the keys that a commit changed, with their lengths before and after; null where the repository does not list
    /// them.
    fn read_changed_keys(&self, number: u64, options: &OpenOptions) -> Result<Json> {
        let (before, after) = (self.open_at(number - 1)?, self.open_at(number)?);
        let keys = match block_on(self.versions.changed_keys(&before.id, &after.id)) {
            Err(error) if error.class() == Class::Unsupported => return Ok(Json::Null),
            keys => keys?,
        };
        let [(before, _), (after, _)] = [before.open_media(options)?, after.open_media(options)?];
        let len = |medium: &Medium, key: &str| -> Result<Option<u64>> {
            Ok(medium.metadata(key)?.map(|(len, _)| len))
        };
        let list: Result<Vec<Json>> = keys
            .iter()
            .map(|key| {
                Ok(json!({"key": key, "before": len(&before, key)?, "after": len(&after, key)?}))
            })
            .collect();
        Ok(json!(list?))
    }

    /// Returns the bytes at an earlier version of all keys that changed since, and the bodies of the commits since.
    pub(crate) fn contents_since(
        &self,
        number: u64,
        options: &OpenOptions,
    ) -> Result<(KeyContents, Vec<Json>)> {
        let then = self.open_at(number)?;
        if then.id == self.id {
            return Ok((KeyContents::new(), Vec::new()));
        }
        let (store, _) = then.open_media(options)?;
        if !store.exists("zarr.json")? {
            let text =
                format!("at commit {number} there was no store yet; take back fewer commits");
            return refused(text);
        }
        let keys = block_on(self.versions.changed_keys(&then.id, &self.id))?;
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let contents = store
            .get_all(&keys)?
            .into_iter()
            .map(|found| found.map(|found| Blob::Held(found.bytes)));
        let contents = keys.iter().map(|key| (*key).to_owned()).zip(contents).collect();
        let later = (number + 1..=self.number()?).rev().map(|at| self.body(at));
        Ok((contents, later.collect::<Result<_>>()?))
    }
}

/// Returns the properties of a commit: the fields of its record, without large ones.
fn commit_properties(
    report: &Json,
    body: &Json,
    operations: &[Json],
    options: &CommitOptions,
) -> Result<Map<String, Json>> {
    let mut extension = json!({
        "txid": new_txid(), "writer": writer_name(), "undoes": options.undoes, "report": report,
        "ids": body["ids"], "written": body["written"], "operations": operations,
    });
    for large in ["/operations", "/ids", "/written", "/report/objects"] {
        if serde_json::to_vec(&extension)?.len() <= MAX_PROPERTIES_BYTES {
            break;
        }
        if let Some(large) = extension.pointer_mut(large) {
            *large = Json::Null;
        }
    }
    let properties = [("author".to_owned(), json!(writer_name())), ("zvf".to_owned(), extension)];
    Ok(properties.into_iter().collect())
}

/// Maximum length of the properties of a version, as they are read with every list of versions.
const MAX_PROPERTIES_BYTES: usize = 64 << 10;
