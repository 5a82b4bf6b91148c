//! A frame of Caterva or B2ND as the library opens it: read whole and in part.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_store::RangedFile;
use zvf_tensor::{BlockArray, Memory, Slice};

fuzz_target!(|blob: &[u8]| {
    let memory = Memory::from_bytes(1 << 24);
    zvf_fuzz::now(async {
        let file = RangedFile::from_bytes(blob.to_vec().into());
        let Ok(array) = BlockArray::from_file(file).await else { return };
        drop(array.user_metadata(1 << 20).await);
        let Ok(all) = array.slice(&Slice::all(), &memory).await else { return };
        let last: Vec<u64> = array.shape().iter().map(|n| n.saturating_sub(1)).collect();
        if !last.is_empty() && !all.bytes().is_empty() {
            let item = array.slice(&Slice::from_bounds(&last, array.shape()), &memory).await;
            // All blocks were sound a moment ago.
            assert!(all.bytes().ends_with(item.unwrap().bytes()), "the last item is the last");
        }
    });
});
