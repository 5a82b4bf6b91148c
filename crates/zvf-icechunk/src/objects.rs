//! The objects of one snapshot as a backend. They never change; writing is refused.
//!
//! Not here: the choice of the snapshot; commits ([`changes`](crate::changes)).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use icechunk::format::snapshot::{NodeData, NodeSnapshot};
use icechunk::format::{ByteRange, Path as NodePath};
use icechunk::session::{Session, SessionError, SessionErrorKind};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use zvf_format::num::to_u64;

use crate::key::{CHUNKS, Key, name_of};

/// The objects of one snapshot.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotObjects {
    session: Arc<Session>,
    id: Arc<str>,
}

impl SnapshotObjects {
    pub(crate) fn new(session: Session) -> Self {
        let id = session.snapshot_id().to_string().into();
        Self { session: Arc::new(session), id }
    }

    /// Returns the metadata of an object without reading it.
    fn object_meta(&self, location: Path, size: u64) -> ObjectMeta {
        let (e_tag, version) = (Some(self.id.to_string()), None);
        ObjectMeta { location, last_modified: Default::default(), size, e_tag, version }
    }

    /// Returns the length of an object, and its bytes if they are in memory.
    async fn find(&self, key: &Key) -> Result<Option<(u64, Option<Bytes>)>> {
        match key {
            Key::Document(node) => {
                let node = none_if_absent(self.session.get_node(node).await)?;
                Ok(node.map(|node| (to_u64(node.user_data.len()), Some(node.user_data))))
            }
            Key::Chunk(node, at) => {
                let chunk = none_if_absent(self.session.get_chunk_ref(node, at).await)?;
                Ok(chunk.flatten().map(|payload| (payload.length(), None)))
            }
        }
    }

    /// Reads a part of an existing object.
    async fn read(&self, key: &Key, range: std::ops::Range<u64>) -> Result<Bytes> {
        let Key::Chunk(node, at) = key else { return Err(generic_error("a document was lost")) };
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let byte_range = ByteRange::Bounded(range.clone());
        let reader =
            self.session.get_chunk_reader(node, at, &byte_range).await.map_err(session_error)?;
        let bytes = reader
            .ok_or_else(|| generic_error("a chunk was lost"))?
            .await
            .map_err(session_error)?;
        match to_u64(bytes.len()) == range.end - range.start {
            true => Ok(bytes),
            false => Err(generic_error("a chunk is cut short")),
        }
    }

    /// Returns all nodes at and below `name`; an empty name is the root.
    async fn nodes(&self, name: &str) -> Result<Vec<NodeSnapshot>> {
        let nodes = self.session.list_nodes(&NodePath::root()).await.map_err(session_error)?;
        let nodes: std::result::Result<Vec<_>, SessionError> = nodes.collect();
        let mut nodes = nodes.map_err(session_error)?;
        nodes.retain(|node| is_at_or_below(&name_of(&node.path), name));
        Ok(nodes)
    }

    /// Returns the array that contains a prefix, so that only chunks are below the prefix.
    async fn enclosing_array(&self, prefix: &str) -> Result<Option<NodeSnapshot>> {
        let mut above = prefix;
        while let Some((shorter, _)) = above.rsplit_once('/') {
            above = shorter;
            let Some(node) = crate::key::node_path(above) else { return Ok(None) };
            if let Some(node) = none_if_absent(self.session.get_node(&node).await)? {
                return Ok(matches!(node.node_data, NodeData::Array { .. }).then_some(node));
            }
        }
        Ok(None)
    }

    /// Returns the chunks of an array: key and length.
    async fn chunks(&self, array: &NodeSnapshot) -> Result<Vec<(String, u64)>> {
        let chunks = self.session.all_node_chunks(array).await;
        let chunks = chunks
            .map_ok(|(node, chunk)| (Key::chunk_key(&node, &chunk.coord), chunk.payload.length()));
        chunks.try_collect().await.map_err(session_error)
    }

    async fn has_chunks(&self, array: &NodeSnapshot) -> Result<bool> {
        let chunks = self.session.all_node_chunks(array).await;
        let mut chunks = std::pin::pin!(chunks);
        chunks.next().await.transpose().map(|first| first.is_some()).map_err(session_error)
    }

    async fn list_all(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let mut found = Vec::new();
        for node in self.nodes(prefix).await? {
            found.push((Key::document_key(&node.path), to_u64(node.user_data.len())));
            if matches!(node.node_data, NodeData::Array { .. }) {
                found.extend(self.chunks(&node).await?);
            }
        }
        if found.is_empty()
            && let Some(array) = self.enclosing_array(prefix).await?
        {
            found = self.chunks(&array).await?;
            found.retain(|(key, _)| is_at_or_below(key, prefix));
        }
        found.sort();
        found.into_iter().map(|(key, size)| Ok(self.object_meta(Path::parse(key)?, size))).collect()
    }

    /// Lists one level below a prefix: objects, and the names of prefixes.
    async fn list_one(&self, prefix: &str) -> Result<(Vec<ObjectMeta>, BTreeSet<String>)> {
        let (mut objects, mut folders) = (Vec::new(), BTreeSet::new());
        let nodes = self.nodes(prefix).await?;
        if nodes.is_empty() {
            for meta in self.list_all(prefix).await? {
                let below = path_below(meta.location.as_ref(), prefix);
                match below.and_then(|rest| rest.split_once('/')) {
                    Some((first, _)) => drop(folders.insert(first.to_owned())),
                    None => objects.push(meta),
                }
            }
            return Ok((objects, folders));
        }
        for node in nodes {
            let name = name_of(&node.path);
            match path_below(&name, prefix) {
                Some(rest) => {
                    let first = rest.split_once('/').map_or(rest, |(first, _)| first);
                    folders.insert(first.to_owned());
                }
                None => {
                    let (key, size) = (Key::document_key(&node.path), to_u64(node.user_data.len()));
                    objects.push(self.object_meta(Path::parse(key)?, size));
                    let is_array = matches!(node.node_data, NodeData::Array { .. });
                    if is_array && self.has_chunks(&node).await? {
                        folders.insert(CHUNKS.to_owned());
                    }
                }
            }
        }
        Ok((objects, folders))
    }
}

impl fmt::Display for SnapshotObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "icechunk snapshot {}", self.id)
    }
}

#[async_trait]
impl ObjectStore for SnapshotObjects {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let absent = || Error::NotFound {
            path: location.to_string(),
            source: "the snapshot has no such key".into(),
        };
        let key = Key::parse(location.as_ref()).ok_or_else(absent)?;
        let (size, bytes) = self.find(&key).await?.ok_or_else(absent)?;
        let meta = self.object_meta(location.clone(), size);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            _ if options.head => 0..0,
            None => 0..size,
            Some(range) => {
                range.as_range(size).map_err(|error| generic_error(&error.to_string()))?
            }
        };
        let bytes = match bytes {
            Some(bytes) => slice(&bytes, &range)?,
            None => self.read(&key, range.clone()).await?,
        };
        let payload = GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed());
        let (attributes, extensions) = (Attributes::default(), Default::default());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), text_of(prefix));
        let all = async move {
            let listed: Result<Vec<ObjectMeta>> = store.list_all(&prefix).await;
            listed.map(|listed| stream::iter(listed.into_iter().map(Ok)))
        };
        stream::once(all).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = text_of(prefix);
        let (objects, folders) = self.list_one(&prefix).await?;
        let slash = if prefix.is_empty() { "" } else { "/" };
        let common_prefixes: std::result::Result<Vec<Path>, _> =
            folders.iter().map(|name| Path::parse(format!("{prefix}{slash}{name}"))).collect();
        let extensions = Default::default();
        Ok(ListResult { common_prefixes: common_prefixes?, objects, extensions })
    }

    async fn put_opts(
        &self,
        _at: &Path,
        _bytes: PutPayload,
        _how: PutOptions,
    ) -> Result<PutResult> {
        Err(read_only_error())
    }

    async fn put_multipart_opts(
        &self,
        _at: &Path,
        _how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only_error())
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        keys.map(|_key| Err(read_only_error())).boxed()
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _how: CopyOptions) -> Result<()> {
        Err(read_only_error())
    }
}

fn text_of(prefix: Option<&Path>) -> String {
    prefix.map(ToString::to_string).unwrap_or_default()
}

fn is_at_or_below(name: &str, prefix: &str) -> bool {
    name == prefix || path_below(name, prefix).is_some()
}

/// Returns the part of `name` below `prefix`, or `None` if it is not below.
fn path_below<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = match prefix {
        "" => name,
        _ => name.strip_prefix(prefix)?.strip_prefix('/')?,
    };
    (!rest.is_empty()).then_some(rest)
}

fn slice(bytes: &Bytes, range: &std::ops::Range<u64>) -> Result<Bytes> {
    let place =
        |at: u64| usize::try_from(at).map_err(|_too_long| generic_error("the object is too long"));
    Ok(bytes.slice(place(range.start)?..place(range.end)?))
}

/// Converts a session's not-found error to `None`.
fn none_if_absent<T>(found: std::result::Result<T, SessionError>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absence(&error.kind) => Ok(None),
        Err(error) => Err(session_error(error)),
    }
}

const fn is_absence(kind: &SessionErrorKind) -> bool {
    matches!(
        kind,
        SessionErrorKind::NodeNotFound { .. }
            | SessionErrorKind::NotAnArray { .. }
            | SessionErrorKind::InvalidIndex { .. }
    )
}

fn session_error(error: SessionError) -> Error {
    generic_error(&error.kind.to_string())
}

/// Returns an error of the repository that keeps only the text. The backend's response about an
/// internal file must not be mistaken for a response about an object.
fn generic_error(text: &str) -> Error {
    let text = text.replace("status code", "status");
    Error::Generic { store: "icechunk", source: text.into() }
}

fn read_only_error() -> Error {
    Error::NotSupported { source: "a snapshot is not written to; changes are commits".into() }
}
