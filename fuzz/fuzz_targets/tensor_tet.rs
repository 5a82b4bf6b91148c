//! A `.tet` file as the library opens it: every tensor read whole and in part, everything verified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_tensor::{Memory, Slice, TensorFile};

fuzz_target!(|blob: &[u8]| {
    let Ok(file) = TensorFile::from_bytes(blob.to_vec().into()) else { return };
    let memory = Memory::from_bytes(1 << 24);
    zvf_fuzz::now(async {
        drop(file.verify(true, &memory).await);
        for tensor in file.tensors().take(8) {
            let Ok(all) = tensor.slice(&Slice::all(), &memory).await else { continue };
            if let Some(view) = tensor.dense_view(&Slice::all()).unwrap() {
                assert_eq!(view.bytes(), all.bytes(), "a view is what a slice is");
            }
            let last: Vec<u64> = tensor.shape().iter().map(|n| n.saturating_sub(1)).collect();
            if let Ok(item) =
                tensor.slice(&Slice::from_bounds(&last, tensor.shape()), &memory).await
            {
                assert!(all.bytes().ends_with(item.bytes()), "the last element is the last");
            }
        }
    });
});
