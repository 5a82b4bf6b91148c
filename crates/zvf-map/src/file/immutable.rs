//! Whether anyone can write to an open file.
//!
//! ```text
//! on a disk of this machine    by the kind of file system: others change behind the system's back
//! nobody may write             no permission to write, for no one
//! nobody is writing            a read lease can be had, which the system refuses while someone has the
//!                              file open for writing; it is given back at once
//! ```
//!
//! The owner and root can change the permission again; see
//! [`MappedFile::map_if_immutable`](super::MappedFile::map_if_immutable). If one of the three
//! cannot be determined, the answer is no.

use std::fs::{File, Metadata};

#[cfg(target_os = "linux")]
pub(super) fn is_closed_to_writers(file: &File, about: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    about.mode() & WRITE_BITS == 0 && lies_on_a_local_disk(file) && has_no_writer(file)
}

/// Returns false: without leases there is no way to know who has a file open.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_closed_to_writers(_file: &File, _about: &Metadata) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn lies_on_a_local_disk(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|about| {
        // The width of the type depends on the system; all of these fit in 32 bits.
        u32::try_from(about.f_type).is_ok_and(|kind| LOCAL_FILE_SYSTEMS.contains(&kind))
    })
}

/// Returns whether no one has the file open for writing.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "leases are taken by the C library")]
fn has_no_writer(file: &File) -> bool {
    use std::os::fd::AsRawFd as _;

    let fd = file.as_raw_fd();
    // SAFETY: the descriptor is open as long as `file` is; each call takes one number. The signal of a
    // lease that is broken while it is held is set to one that is ignored unless someone asked for it.
    unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) == 0
    }
}

/// Sets the signal of a lease; the same number on every Linux architecture that Rust supports.
#[cfg(target_os = "linux")]
const F_SETSIG: libc::c_int = 10;
#[cfg(target_os = "linux")]
const WRITE_BITS: u32 = 0o222;
/// Magic numbers of ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs, ramfs, overlay, `SquashFS`, EROFS and ISO 9660.
#[cfg(target_os = "linux")]
const LOCAL_FILE_SYSTEMS: [u32; 11] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0x0102_1994,
    0x8584_58F6,
    0x794C_7630,
    0x7371_7368,
    0xE0F5_E1E2,
    0x9660,
];

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_files_that_nobody_can_write_to_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack.tet");
        let writer = File::create(&path).unwrap();
        let closed = || {
            let file = File::open(&path).unwrap();
            is_closed_to_writers(&file, &file.metadata().unwrap())
        };
        for mode in [0o644, 0o464, 0o446] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(!closed(), "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        assert!(!closed(), "it is open for writing");
        drop(writer);
        let file = File::open(&path).unwrap();
        // Not every file system that tests run on is known or supports leases.
        assert_eq!(closed(), lies_on_a_local_disk(&file) && has_no_writer(&file));
    }
}
