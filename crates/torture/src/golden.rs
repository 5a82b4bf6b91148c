//! Good blobs to edit in addition to the corpus: shard indexes, metalayers with a type, whole frames and files, and
//! documents.

use std::fs;

use anyhow::Context as _;
use archives::hostile::{Document, Kind};
use zvf_b2nd::MetalayerName;

use crate::testdata_folder;

/// A blob to edit.
pub(crate) struct Golden {
    /// Kind and name.
    pub(crate) id: String,
    pub(crate) blob: Vec<u8>,
    pub(crate) kind: Kind,
}

/// Returns all of these blobs.
pub(crate) fn list_golden() -> anyhow::Result<Vec<Golden>> {
    let mut golden = vec![make_shard_index(false), make_shard_index(true), make_b2nd_metalayer()];
    for (folder, name, kind) in FOLDERS {
        golden.extend(read_files(folder, name, kind)?);
    }
    Ok(golden)
}

/// Returns an index of four cells, two of them absent.
fn make_shard_index(checksum: bool) -> Golden {
    let mut blob = Vec::new();
    for word in [0, 16, u64::MAX, u64::MAX, 16, 32, u64::MAX, u64::MAX] {
        blob.extend_from_slice(&word.to_le_bytes());
    }
    if checksum {
        blob.extend_from_slice(&[0x2a, 0x5c, 0x88, 0x59]);
    }
    let (id, kind) = ("shard_index/four_cells".to_owned(), Kind::ShardIndex { cells: 4, checksum });
    Golden { id, blob, kind }
}

/// Returns a metalayer of shape (7, 5) in chunks of (4, 3) and blocks of (2, 2), of `<i4`.
fn make_b2nd_metalayer() -> Golden {
    let mut blob = vec![0x97, 0, 2];
    blob.push(0x92);
    for extent in [7_i64, 5] {
        blob.push(0xd3);
        blob.extend(extent.to_le_bytes().iter().rev());
    }
    for extents in [[4_i32, 3], [2, 2]] {
        blob.push(0x92);
        for extent in extents {
            blob.push(0xd2);
            blob.extend(extent.to_le_bytes().iter().rev());
        }
    }
    blob.extend_from_slice(b"\x00\xdb\x00\x00\x00\x03<i4");
    let kind = Kind::Metalayer(MetalayerName::B2nd);
    Golden { id: "caterva/b2nd".to_owned(), blob, kind }
}

/// Returns the small files of a folder of fixtures.
fn read_files(folder: &str, name: &str, kind: fn() -> Kind) -> anyhow::Result<Vec<Golden>> {
    let mut golden = Vec::new();
    let path = testdata_folder().join(folder);
    for file in fs::read_dir(&path).with_context(|| format!("cannot list {folder}"))? {
        let path = file?.path();
        let small = path.metadata().is_ok_and(|data| data.is_file() && data.len() <= SMALL);
        if small && path.file_stem().is_some_and(|stem| stem != "manifest" && stem != "reject") {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let blob = fs::read(&path).with_context(|| format!("cannot read {file}"))?;
            golden.push(Golden { id: format!("{name}/{file}"), blob, kind: kind() });
        }
    }
    golden.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(golden)
}

/// A folder below `testdata`, the name of its files in reports, and their kind.
type Folder = (&'static str, &'static str, fn() -> Kind);

/// Folders of good files.
const FOLDERS: [Folder; 5] = [
    ("caterva/frames", "frame", || Kind::Frame),
    ("tet", "tet", || Kind::Tet { export: false }),
    ("documents/root", "root_json", || Kind::Document(Document::Root)),
    ("documents/level", "level_json", || Kind::Document(Document::Level)),
    ("documents/array", "array_json", || Kind::Document(Document::Array)),
];

/// The largest file that is used, in bytes: larger files take longer and test little more.
const SMALL: u64 = 4096;
