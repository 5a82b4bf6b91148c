//! What reading is measured against: the same files, by hand.

use std::path::PathBuf;

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, fstat, open};

/// Opens and reads each file into fresh memory, all of them held at once; how many bytes there are.
pub(crate) fn by_hand(paths: &[PathBuf]) -> usize {
    let mut kept = Vec::with_capacity(paths.len());
    for path in paths {
        let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let size = fstat(&file).unwrap().st_size as usize;
        let mut bytes: Vec<u8> = Vec::with_capacity(size);
        while bytes.len() < size {
            rustix::io::read(&file, spare_capacity(&mut bytes)).unwrap();
        }
        kept.push(bytes);
    }
    kept.iter().map(Vec::len).sum()
}

/// A read of a folder without a runtime: it never waits.
pub(crate) fn inline<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match work.as_mut().poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => unreachable!("a local read does not wait"),
    }
}
