//! An object store that fails on purpose.
