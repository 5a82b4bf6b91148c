//! Real files of other programs, and every archived store packed and unpacked.

mod b2nd;
mod converted;
mod pack;
mod tet;
mod written;

use sha2::{Digest as _, Sha256};

/// Returns the digest of bytes in the form of the manifests.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
