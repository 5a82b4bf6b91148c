//! Documents of writers, and such documents with one fault each.

use std::boxed::Box;
use std::path::Path;
use std::string::String;
use std::sync::LazyLock;
use std::vec::Vec;

/// The name and text of a document.
pub(super) type Document = (&'static str, &'static str);

pub(super) static GOOD: LazyLock<Vec<Document>> = LazyLock::new(|| read("good"));
pub(super) static BROKEN: LazyLock<Vec<Document>> = LazyLock::new(|| read("broken"));

/// Reads the documents of a folder of `testdata`, in the order of their names.
fn read(folder: &str) -> Vec<Document> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/metadata");
    let files = std::fs::read_dir(testdata.join(folder)).unwrap();
    let mut documents: Vec<Document> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().into();
            (leak(name), leak(std::fs::read_to_string(&path).unwrap()))
        })
        .collect();
    documents.sort_unstable();
    documents
}
