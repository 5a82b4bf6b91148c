//! Conversion of icechunk errors.

use std::fmt::Display;

use icechunk::repository::RepositoryErrorKind;
use icechunk::session::SessionErrorKind;
use icechunk::storage::StorageErrorKind;
use icechunk::store::StoreErrorKind;
use zvf_error::Error;
use zvf_format::Class;

/// Converts an error of a repository, at `address`.
pub(crate) fn repository_error(
    address: &str,
    op: &'static str,
    error: &icechunk::repository::RepositoryError,
) -> Error {
    text_error(address, class_of_repository(&error.kind), op, &error.kind)
}

/// Converts an error of a session.
pub(crate) fn session_error(
    address: &str,
    op: &'static str,
    error: &icechunk::session::SessionError,
) -> Error {
    text_error(address, class_of_session(&error.kind), op, &error.kind)
}

/// Converts an error of a session's key store.
pub(crate) fn store_error(
    address: &str,
    op: &'static str,
    error: &icechunk::store::StoreError,
) -> Error {
    let class = class_of_store(&error.kind);
    text_error(address, class, op, &error.kind)
}

/// Converts an error of the storage of a repository.
pub(crate) fn storage_error(address: &str, error: &icechunk::StorageError) -> Error {
    text_error(address, class_of_storage(&error.kind), "open", &error.kind)
}

fn text_error(address: &str, class: Class, op: &'static str, error: &dyn Display) -> Error {
    let text = error.to_string();
    // The response of a server may contain addresses and secrets.
    let text = if text.starts_with(SERVER) { "the store refuses" } else { &text };
    Error::custom(class, format!("{address}: icechunk: {text}")).with_op(op)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest has no class of its own")]
fn class_of_store(kind: &StoreErrorKind) -> Class {
    match kind {
        StoreErrorKind::SessionError(kind) => class_of_session(kind),
        StoreErrorKind::RepositoryError(kind) => class_of_repository(kind),
        StoreErrorKind::InvalidKey { .. }
        | StoreErrorKind::InvalidIndex { .. }
        | StoreErrorKind::BadMetadata(_)
        | StoreErrorKind::BadChunkGridMetadata(_) => Class::InvalidArgument,
        _ => Class::Io,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest has no class of its own")]
fn class_of_session(kind: &SessionErrorKind) -> Class {
    match kind {
        SessionErrorKind::RepositoryError(kind) => class_of_repository(kind),
        SessionErrorKind::StorageError(kind) => class_of_storage(kind),
        SessionErrorKind::Conflict { .. } | SessionErrorKind::RebaseFailed { .. } => {
            Class::Conflict
        }
        SessionErrorKind::SnapshotNotFound { .. } => Class::NotFound,
        SessionErrorKind::InvalidIndex { .. }
        | SessionErrorKind::ZeroLengthChunk { .. }
        | SessionErrorKind::BadSnapshotChainForDiff => Class::InvalidArgument,
        _ => Class::Io,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest has no class of its own")]
fn class_of_repository(kind: &RepositoryErrorKind) -> Class {
    match kind {
        RepositoryErrorKind::StorageError(kind) => class_of_storage(kind),
        RepositoryErrorKind::SnapshotNotFound { .. }
        | RepositoryErrorKind::RepositoryDoesntExist => Class::NotFound,
        RepositoryErrorKind::ParentDirectoryNotClean => Class::AlreadyExists,
        RepositoryErrorKind::EmptyPrefixCreation => Class::InvalidArgument,
        RepositoryErrorKind::Conflict { .. } | RepositoryErrorKind::RepoInfoUpdated => {
            Class::Conflict
        }
        RepositoryErrorKind::ReadonlyStorage(_) | RepositoryErrorKind::ReadonlyRepository(_) => {
            Class::PermissionDenied
        }
        _ => Class::Io,
    }
}

fn class_of_storage(kind: &StorageErrorKind) -> Class {
    match kind {
        StorageErrorKind::Throttled { .. } => Class::Throttled,
        StorageErrorKind::IOError(error)
            if error.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Class::PermissionDenied
        }
        StorageErrorKind::IOError(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            Class::NoSpace
        }
        StorageErrorKind::CannotParseUrl { .. } | StorageErrorKind::BadPrefix(_) => {
            Class::InvalidArgument
        }
        StorageErrorKind::ObjectStore(error) => class_of_backend(error.as_ref()),
        StorageErrorKind::ObjectNotFound
        | StorageErrorKind::IOError(_)
        | StorageErrorKind::R2ConfigurationError(_)
        | StorageErrorKind::BadRedirect(_)
        | StorageErrorKind::Other(_) => Class::Io,
    }
}

/// Returns the class of an error of the backend below icechunk.
fn class_of_backend(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Class {
    match error.downcast_ref::<object_store::Error>() {
        Some(object_store::Error::PermissionDenied { .. }) => Class::PermissionDenied,
        Some(object_store::Error::Unauthenticated { .. }) => Class::Unauthenticated,
        Some(object_store::Error::NotSupported { .. }) => Class::Unsupported,
        Some(_) | None => Class::Io,
    }
}

/// The start of icechunk messages whose rest is the response of a server.
const SERVER: &str = "object store error";
