//! Opens a store of points with attributes and reads a box of it: the work that `cargo xtask walk`
//! measures.

use zvf_model::Bounds;
use zvf_query::{Query, Reader};

fn main() {
    let store = archives::Unpacked::new("pc3_bins_attrs");
    let region = Bounds::new(&[10.0; 3], &[90.0; 3]).expect("three sides");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let answer = runtime.block_on(async {
        let reader = Reader::new(store.open().await);
        reader.run(&Query::all().in_region(region)).await
    });
    assert!(!answer.expect("a sound store").batch.is_empty(), "the box has points");
}
