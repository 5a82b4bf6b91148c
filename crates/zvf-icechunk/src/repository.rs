//! A repository: its versions, and commits to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use icechunk::format::SnapshotId;
use icechunk::format::snapshot::SnapshotInfo;
use icechunk::repository::VersionInfo;
use icechunk::session::{Session, SessionError, SessionErrorKind};
use icechunk::storage::{S3Credentials, S3Options, S3StaticCredentials, Storage};
use icechunk::{Repository, Store};
use object_store::path::Path;
use tokio::sync::{OnceCell, RwLock};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_publish::{Disk, ScratchDir};
use zvf_store::{Backend, CommitNote, CommittedVersion, ObjectStream, OpenOptions, Versions};

use crate::address::{Address, Location, Version};
use crate::changes::{self, Changes};
use crate::fault;
use crate::key::Key;
use crate::lock::FolderLock;
use crate::objects::SnapshotObjects;

/// The place that an address names in an icechunk repository; the repository is opened on first
/// use.
#[derive(Debug)]
pub(crate) struct IcechunkVersions {
    address: Address,
    storage_options: Vec<(String, String)>,
    opened: OnceCell<Arc<Repository>>,
}

impl IcechunkVersions {
    pub(crate) fn new(address: &str, options: &OpenOptions) -> Result<Self> {
        let address = Address::parse(address)?;
        let storage_options = options.storage_options.clone();
        Ok(Self { address, storage_options, opened: OnceCell::new() })
    }

    fn fail(&self, class: Class, text: impl std::fmt::Display) -> Error {
        Error::custom(class, format!("{}: {text}", self.address.text))
    }

    /// Returns the storage of the repository for icechunk.
    async fn storage(&self) -> Result<Arc<dyn Storage + Send + Sync>> {
        let storage = match &self.address.location {
            Location::Folder(path) => icechunk::new_local_filesystem_storage(path).await,
            Location::Server(url) => {
                let options = self.storage_options.iter().cloned().collect();
                icechunk::storage::new_http_storage(url, Some(options), None)
            }
            Location::Bucket { name, prefix } => {
                let (options, credentials) = s3_options(&self.storage_options)?;
                let prefix = Some(prefix.clone()).filter(|prefix| !prefix.is_empty());
                let name = name.clone();
                let none = Vec::new;
                icechunk::new_s3_object_store_storage(
                    options,
                    name,
                    prefix,
                    credentials,
                    none(),
                    none(),
                )
                .await
            }
        };
        storage.map_err(|error| fault::storage_error(&self.address.text, &error))
    }

    async fn repository(&self) -> Result<&Arc<Repository>> {
        self.opened
            .get_or_try_init(|| async {
                let missing = || {
                    let text = "expected an icechunk repository, found none; make one with \"zvf convert STORE\" and this address";
                    self.fail(Class::NotFound, text)
                };
                if let Location::Folder(path) = &self.address.location
                    && !path.is_dir()
                {
                    return Err(missing());
                }
                let opened = Repository::open(self.storage().await?).execute().await;
                let opened = opened.map_err(|error| {
                    let error = fault::repository_error(&self.address.text, "open", &error);
                    if error.class() == Class::NotFound { missing() } else { error }
                });
                opened.map(Arc::new)
            })
            .await
    }

    /// Returns an error that lists `names` if the branch or tag is not among them, or otherwise
    /// `error`.
    fn explain_unknown_name(
        &self,
        what: &str,
        name: &str,
        error: Error,
        names: &BTreeSet<String>,
    ) -> Error {
        if names.contains(name) {
            return error;
        }
        let list = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let list = if list.is_empty() { "none".to_owned() } else { list };
        let text = format!("expected a {what} of the repository, found {name:?}; it has {list}");
        self.fail(Class::NotFound, text)
    }

    async fn latest_id(&self) -> Result<SnapshotId> {
        let repository = self.repository().await?;
        let faulted = |error| fault::repository_error(&self.address.text, "open", &error);
        match &self.address.version {
            Version::Branch(name) => match repository.lookup_branch(name).await.map_err(faulted) {
                Ok(id) => Ok(id),
                Err(error) => {
                    let names = repository.list_branches().await.map_err(faulted)?;
                    Err(self.explain_unknown_name("branch", name, error, &names))
                }
            },
            Version::Tag(name) => match repository.lookup_tag(name).await.map_err(faulted) {
                Ok(id) => Ok(id),
                Err(error) => {
                    let names = repository.list_tags().await.map_err(faulted)?;
                    Err(self.explain_unknown_name("tag", name, error, &names))
                }
            },
            Version::Snapshot(id) => self.snapshot_id(id),
        }
    }

    fn snapshot_id(&self, id: &str) -> Result<SnapshotId> {
        SnapshotId::try_from(id).map_err(|_not_one| {
            let text =
                format!("expected the id of a snapshot, 20 letters and digits, found {id:?}");
            self.fail(Class::InvalidArgument, text)
        })
    }

    /// Opens a session to read a snapshot.
    async fn session(&self, version: &str) -> Result<Session> {
        let id = self.snapshot_id(version)?;
        let repository = self.repository().await?;
        let session = repository.readonly_session(&VersionInfo::SnapshotId(id)).await;
        session.map_err(|error| {
            let error = fault::repository_error(&self.address.text, "open", &error);
            if error.class() != Class::NotFound && !error.to_string().contains("not found") {
                return error;
            }
            let text = format!(
                "expected a snapshot of the repository, found {version}, which is none; \"zvf \
                 history log\" lists those of a branch"
            );
            self.fail(Class::NotFound, text)
        })
    }

    /// Prefixes the keys with the group of the store, as in the repository.
    fn add_group_prefix<T>(&self, objects: BTreeMap<String, T>) -> BTreeMap<String, T> {
        match self.address.group.as_str() {
            "" => objects,
            group => objects.into_iter().map(|(key, at)| (format!("{group}/{key}"), at)).collect(),
        }
    }

    fn branch(&self) -> Result<&str> {
        match (self.read_only_reason(), &self.address.version) {
            (None, Version::Branch(name)) => Ok(name),
            // Only a branch has no reason.
            (reason, _) => Err(self.fail(Class::Unsupported, reason.unwrap_or_default())),
        }
    }

    /// Excludes other commits of this crate, if icechunk cannot.
    async fn lock(&self) -> Result<Option<FolderLock>> {
        match &self.address.location {
            Location::Folder(path) => FolderLock::acquire(path).await.map(Some),
            Location::Bucket { .. } | Location::Server(_) => Ok(None),
        }
    }

    /// Commits `changes` in a session at the end of the branch.
    async fn commit_session(
        &self,
        session: Session,
        changes: &Changes,
        note: CommitNote,
    ) -> Result<String> {
        let address = self.address.text.as_str();
        let base = session.snapshot_id().to_string();
        let session = Arc::new(RwLock::new(session));
        let store = Store::from_session(Arc::clone(&session)).await;
        changes::apply(address, &store, changes).await?;
        let mut session = session.write().await;
        let properties: BTreeMap<_, _> = note.properties.clone().into_iter().collect();
        match session.commit(note.message.clone()).properties(properties).execute().await {
            Ok(id) => Ok(id.to_string()),
            Err(error) => self.settle_commit(error, &base, &note).await,
        }
    }

    /// Determines the outcome of a commit that failed with `error`: the history shows whether it
    /// exists.
    async fn settle_commit(
        &self,
        error: SessionError,
        base: &str,
        note: &CommitNote,
    ) -> Result<String> {
        if let SessionErrorKind::Conflict { .. } = &error.kind {
            return Err(self.branch_moved_error(base));
        }
        let error = fault::session_error(&self.address.text, "publish", &error);
        let found = async {
            let latest = self.latest_id().await?.to_string();
            let history = self.history(&latest).await?;
            let since = history.into_iter().take_while(|version| version.id != base);
            let mut matching = since.filter(|version| version.properties == note.properties);
            Ok::<_, Error>(matching.next().map(|version| version.id))
        };
        match found.await {
            Ok(Some(id)) => Ok(id),
            Ok(None) if error.class() == Class::Conflict => Err(self.branch_moved_error(base)),
            // The commit may still arrive, or may have arrived unseen.
            Ok(None) | Err(_) => {
                let text = format!(
                    "{}: whether the commit on {base} took effect is not known: {error}; ask \
                     \"zvf history log\"",
                    self.address.text
                );
                Err(Error::custom(Class::CommitUnknown, text))
            }
        }
    }

    fn branch_moved_error(&self, base: &str) -> Error {
        let text = format!(
            "{}: the branch is no longer at {base}: somebody committed meanwhile; do the edit again on what is there now",
            self.address.text
        );
        Error::custom(Class::Conflict, text)
    }
}

#[async_trait]
impl Versions for IcechunkVersions {
    fn read_only_reason(&self) -> Option<String> {
        let what = match (&self.address.version, &self.address.location) {
            (Version::Tag(name), _) => format!("the tag {name:?} never changes"),
            (Version::Snapshot(id), _) => format!("the snapshot {id} never changes"),
            (Version::Branch(_), Location::Server(_)) => "plain HTTP is read only".to_owned(),
            (Version::Branch(_), _) => return None,
        };
        Some(format!(
            "{what}; edit a branch (\"?branch=NAME\") of a repository in a folder or in S3"
        ))
    }

    async fn latest_version(&self) -> Result<String> {
        Ok(self.latest_id().await?.to_string())
    }

    async fn open(&self, version: &str) -> Result<Backend> {
        let store = Arc::new(SnapshotObjects::new(self.session(version).await?));
        let prefix = Path::parse(&self.address.group)
            .map_err(|error| self.fail(Class::InvalidArgument, format!("path: {error}")))?;
        Ok(Backend::new(store, prefix))
    }

    async fn history(&self, version: &str) -> Result<Vec<CommittedVersion>> {
        let id = self.snapshot_id(version)?;
        let faulted = |error| fault::repository_error(&self.address.text, "read", &error);
        let repository = self.repository().await?;
        let ancestry = repository.ancestry(&VersionInfo::SnapshotId(id)).await.map_err(faulted)?;
        ancestry.map_ok(to_committed_version).try_collect().await.map_err(faulted)
    }

    async fn changed_keys(&self, from: &str, to: &str) -> Result<BTreeSet<String>> {
        let version = |id: &str| self.snapshot_id(id).map(VersionInfo::SnapshotId);
        let (from, to) = (version(from)?, version(to)?);
        let diff = self.repository().await?.diff(&from, &to).await;
        let diff =
            diff.map_err(|error| fault::session_error(&self.address.text, "read", &error))?;
        if !diff.moved_nodes.is_empty()
            || !diff.deleted_groups.is_empty()
            || !diff.deleted_arrays.is_empty()
        {
            let text = "between the two versions arrays or groups were removed or moved, and \
             which chunks they had is not listed; use \"zvf history checkout\" instead";
            return Err(self.fail(Class::Unsupported, text));
        }
        let nodes =
            [&diff.new_groups, &diff.new_arrays, &diff.updated_groups, &diff.updated_arrays];
        let documents = nodes.into_iter().flatten().map(Key::document_key);
        let chunks = diff.updated_chunks.iter();
        let chunks = chunks.flat_map(|(node, at)| at.iter().map(|at| Key::chunk_key(node, at)));
        let keys = documents.chain(chunks);
        Ok(match self.address.group.as_str() {
            "" => keys.collect(),
            group => keys
                .filter_map(|key| Some(key.strip_prefix(group)?.strip_prefix('/')?.to_owned()))
                .collect(),
        })
    }

    async fn commit(
        &self,
        base: &str,
        changes: BTreeMap<String, Option<Bytes>>,
        note: CommitNote,
    ) -> Result<String> {
        let branch = self.branch()?;
        let changes = self.add_group_prefix(changes);
        for (key, bytes) in &changes {
            changes::check(&self.address.text, key, bytes.as_ref())?;
        }
        let repository = self.repository().await?;
        let _lock = self.lock().await?;
        let session = repository.writable_session(branch).await;
        let session = session
            .map_err(|error| fault::repository_error(&self.address.text, "write", &error))?;
        if session.snapshot_id().to_string() != base {
            return Err(self.branch_moved_error(base));
        }
        self.commit_session(session, &changes, note).await
    }

    async fn create(&self, objects: ObjectStream<'_>, note: CommitNote) -> Result<String> {
        let branch = self.branch()?;
        if branch != "main" {
            let text = format!("expected the branch main of a new repository, found {branch:?}");
            return Err(self.fail(Class::InvalidArgument, text));
        }
        let Location::Folder(path) = &self.address.location else {
            return self.create_in(self.storage().await?, objects, note).await;
        };
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) || path.is_file() {
            return Err(self.target_exists_error());
        }
        // Created beside its final path, so that it appears there only when it is complete.
        let (_scratch, made) = create_scratch(path)?;
        let storage = icechunk::new_local_filesystem_storage(&made).await;
        let storage = storage.map_err(|error| fault::storage_error(&self.address.text, &error))?;
        // Opened before the first write, so that write errors are reported by the sync.
        let held = File::open(&made).map_err(|error| Error::io("open", error))?;
        let id = self.create_in(storage, objects, note).await?;
        let published = publish(&Disk::default(), &held, &made, path);
        published.map_err(|error| Error::io("publish", error))?;
        Ok(id)
    }
}

impl IcechunkVersions {
    fn target_exists_error(&self) -> Error {
        let text = "expected a new or empty place, found something there; give another address, --overwrite replaces no repository";
        self.fail(Class::AlreadyExists, text)
    }

    /// Creates the repository in a temporary place, with one commit.
    async fn create_in(
        &self,
        storage: Arc<dyn Storage + Send + Sync>,
        objects: ObjectStream<'_>,
        note: CommitNote,
    ) -> Result<String> {
        let address = self.address.text.as_str();
        let faulted = |error| fault::repository_error(address, "write", &error);
        let made = Repository::create(storage).execute().await.map_err(faulted);
        let advise = |error: Error| {
            if error.class() == Class::AlreadyExists { self.target_exists_error() } else { error }
        };
        let made = made.map_err(advise)?;
        let session = made.writable_session("main").await.map_err(faulted)?;
        let session = Arc::new(RwLock::new(session));
        let store = Store::from_session(Arc::clone(&session)).await;
        changes::apply(address, &store, &self.groups_above()).await?;
        let group = self.address.group.clone();
        let slash = if group.is_empty() { "" } else { "/" };
        let placed = objects.map_ok(move |(key, bytes)| (format!("{group}{slash}{key}"), bytes));
        changes::put_all(address, &store, placed.boxed()).await?;
        let mut session = session.write().await;
        let properties: BTreeMap<_, _> = note.properties.into_iter().collect();
        let committed = session.commit(note.message).properties(properties).execute().await;
        let id = committed.map_err(|error| fault::session_error(address, "publish", &error))?;
        Ok(id.to_string())
    }

    /// Returns the groups that contain the group of the store.
    fn groups_above(&self) -> Changes {
        let parts: Vec<&str> =
            self.address.group.split('/').filter(|part| !part.is_empty()).collect();
        let groups = (0..parts.len()).map(|depth| {
            let above = parts[..depth].join("/");
            let slash = if above.is_empty() { "" } else { "/" };
            let document = Bytes::from_static(br#"{"zarr_format":3,"node_type":"group"}"#);
            (format!("{above}{slash}{}", crate::key::DOCUMENT), Some(document))
        });
        groups.collect()
    }
}

/// Renames the folder `made` to `path` once its contents are durable, and waits until the name is
/// durable.
fn publish(
    disk: &Disk,
    held: &File,
    made: &std::path::Path,
    path: &std::path::Path,
) -> std::io::Result<()> {
    disk.sync_all(held, made)?;
    disk.rename(made, path)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    disk.sync_dir(above.unwrap_or(std::path::Path::new(".")))
}

/// Creates a folder for temporary files beside `path`, and in it the folder for a new repository.
fn create_scratch(path: &std::path::Path) -> Result<(ScratchDir, PathBuf)> {
    let faulted = |error| Error::io("write", error);
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).map_err(faulted)?;
    }
    let scratch = ScratchDir::create_next_to(&Disk::default(), path)?;
    let made = scratch.path().join("repository");
    fs::create_dir(&made).map_err(faulted)?;
    Ok((scratch, made))
}

fn to_committed_version(info: SnapshotInfo) -> CommittedVersion {
    CommittedVersion {
        id: info.id.to_string(),
        time: info.flushed_at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        message: info.message,
        properties: info.metadata.into_iter().collect(),
    }
}

/// Returns the S3 settings for icechunk: the options, then the environment.
fn s3_options(given: &[(String, String)]) -> Result<(S3Options, Option<S3Credentials>)> {
    let mut words: HashMap<String, String> =
        given.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    let mut take = |names: &[&str]| {
        let configured = names.iter().find_map(|name| words.remove(*name));
        let environment = || {
            let named = names.iter().filter(|name| name.starts_with("aws_"));
            named.filter_map(|name| std::env::var(name.to_ascii_uppercase()).ok()).next()
        };
        configured.or_else(environment)
    };
    let is_yes = |word: Option<String>| word.is_some_and(|word| word == "true" || word == "1");
    let endpoint_url = take(&["aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url"]);
    let is_plain = endpoint_url.as_ref().is_some_and(|url| url.starts_with("http://"));
    let mut options = S3Options::default();
    options.region = take(&["aws_region", "aws_default_region", "region"]);
    options.anonymous = is_yes(take(&["aws_skip_signature", "skip_signature"]));
    options.allow_http = is_yes(take(&["aws_allow_http", "allow_http"])) || is_plain;
    options.endpoint_url = endpoint_url;
    let key = take(&["aws_access_key_id", "access_key_id"]);
    let secret = take(&["aws_secret_access_key", "secret_access_key"]);
    let session_token = take(&["aws_session_token", "aws_token", "session_token", "token"]);
    let credentials = match (options.anonymous, key, secret) {
        (true, _, _) => Some(S3Credentials::Anonymous),
        (false, Some(access_key_id), Some(secret_access_key)) => {
            let expires_after = None;
            Some(S3Credentials::Static(S3StaticCredentials {
                access_key_id,
                secret_access_key,
                session_token,
                expires_after,
            }))
        }
        (false, _, _) => None,
    };
    match words.into_keys().min() {
        None => Ok((options, credentials)),
        Some(name) => {
            let text = format!(
                "storage option: expected one for icechunk in S3 (aws_region, aws_endpoint, aws_access_key_id, aws_secret_access_key, aws_session_token, aws_skip_signature, aws_allow_http), found {name:?}"
            );
            Err(Error::custom(Class::InvalidArgument, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use zvf_publish::Call;

    use super::*;

    #[test]
    fn syncs_a_new_repository_before_the_rename_and_its_parent_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let (scratch, made) = create_scratch(&path).unwrap();
        fs::write(made.join("repo"), "bytes").unwrap();
        let left = zvf_publish::list_leftovers(&Disk::default(), &path).unwrap();
        assert!(
            left.len() == 1 && left[0].in_use,
            "a killed process leaves what \"zvf clean\" lists"
        );
        let (disk, handle) = (Disk::with_recording(), File::open(&made).unwrap());
        publish(&disk, &handle, &made, &path).unwrap();
        let renamed = Call::Rename(made, path.clone());
        let expected = [Call::SyncAll, renamed, Call::SyncDir(folder.path().to_owned())];
        assert_eq!(disk.calls(), expected);
        drop(scratch);
        assert_eq!(fs::read(path.join("repo")).unwrap(), b"bytes");
    }
}
