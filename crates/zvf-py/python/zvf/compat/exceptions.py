"""The exceptions of the reference; where Python has a class of its own for the fault, they are that as well."""

from __future__ import annotations

from typing import Any

from zvf import errors as native


class ZVError(Exception):
    """Anything that goes wrong."""


class StoreError(ZVError):
    """A store cannot be created or opened."""


class MissingStoreError(StoreError, FileNotFoundError):
    """There is no store."""


class ExistingStoreError(StoreError, FileExistsError):
    """There is a store already."""


class ReadOnlyError(StoreError, PermissionError, ValueError):
    """The handle is read-only."""


class ShardedPresenceError(StoreError):
    """Presence cannot be listed where cells are in shards."""


class ShardOwnershipError(StoreError):
    """A cell lies outside the shard of a transaction."""


class MetadataError(ZVError, ValueError):
    """Metadata is missing or wrong, or data contradicts it."""


class SchemaConflict(MetadataError):
    """A schema, or data, contradicts what the store declares."""


class FormatError(ZVError, ValueError):
    """The format of a store is not one that is asked for."""


class ArrayError(ZVError, ValueError):
    """An array has the wrong shape or type, or cannot be read or written."""


class LevelError(StoreError, IndexError):
    """There is no such level."""


class MissingArrayError(StoreError, ArrayError, KeyError):
    """The level has no such array: no objects, no groups, or no attribute of that name."""

    __str__ = Exception.__str__


class MissingObjectError(ArrayError, IndexError, KeyError):
    """The level has no such object."""

    __str__ = Exception.__str__


class ChunkingError(ZVError, ValueError):
    """Positions cannot be put into chunks."""


class ConventionError(ZVError, ValueError):
    """A convention contradicts the store."""


class ValidationError(ZVError, ValueError):
    """A store breaks a rule."""


class IngestError(ZVError, ValueError):
    """A file of another format cannot be read."""


class ExportError(ZVError, ValueError):
    """A file of another format cannot be written."""


class CoarseningError(ZVError, ValueError):
    """A coarser level cannot be built."""


class DracoError(ZVError, NotImplementedError):
    """Draco failed."""


class EditError(ZVError, ValueError):
    """An edit cannot be applied."""


class ConcurrentEditError(ZVError, OSError):
    """Somebody else edits the store."""


ZVFError = ZVError


def translated(error: BaseException, argument: type[ZVError] = ArrayError) -> ZVError:
    """The exception of the reference for one of ours."""
    text = str(error)
    if isinstance(error, ZVError):
        return error
    if isinstance(error, native.NotFoundError):
        made: ZVError = MissingStoreError(text)
    elif isinstance(error, native.ExistsError):
        made = ExistingStoreError(text)
    elif isinstance(error, native.DeniedError):
        made = ReadOnlyError(text)
    elif isinstance(error, native.RangeError):
        made = LevelError(text)
    elif isinstance(error, native.ArgumentError) and ("no object index" in text or "there is no group" in text):
        made = MissingArrayError(text)
    elif isinstance(error, native.ConflictError) and argument is EditError:
        made = ConcurrentEditError(text)
    elif isinstance(error, (native.ArgumentError, native.UnknownNameError, ValueError, TypeError)):
        made = MetadataError(text) if "bounds" in text and argument is ArrayError and "outside" in text else argument(text)
    elif isinstance(error, native.CorruptError):
        made = ArrayError(text)
    else:
        made = StoreError(text)
    made.__cause__ = error
    return made


class translating:
    """Turns exceptions of ours into those of the reference."""

    def __init__(self, argument: type[ZVError] = ArrayError) -> None:
        self.argument = argument

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (native.Error, TypeError, ValueError)) and not isinstance(error, ZVError):
            raise translated(error, self.argument) from error
