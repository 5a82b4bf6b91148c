//! All contents of a store.

use std::collections::BTreeMap;

use zvf_metadata::{DataTypeKind, Node};
use zvf_store::{Caching, Store};

/// Returns the contents of each array by its path; a cell follows its key.
pub(crate) async fn contents(store: &Store) -> BTreeMap<String, Vec<Vec<u8>>> {
    let (nodes, mut all) = (store.nodes(), BTreeMap::new());
    for (key, text) in nodes.documents().await.unwrap() {
        let Node::Array(doc) = Node::parse(&text).unwrap() else { continue };
        let path = key.as_str();
        let content = if matches!(doc.data_type.kind(), DataTypeKind::Fixed(_)) {
            vec![nodes.dense(path).await.unwrap().unwrap().read_all().await.unwrap().to_vec()]
        } else if doc.rank() == 1 && doc.nonempty_chunks.is_none() {
            let rows = nodes.rows(path).await.unwrap().unwrap();
            let rows = rows.range(0..rows.count().await.unwrap()).await.unwrap();
            rows.iter().map(|row| row.to_vec()).collect()
        } else {
            let cells = nodes.cells(path).await.unwrap().unwrap();
            let keys: Vec<_> = cells.presence().await.unwrap().iter().collect();
            let payloads = cells.read_many(&keys, Caching::Once).await;
            let cells = keys.iter().zip(payloads.into_iter().map(Result::unwrap));
            let named = cells.filter_map(|(key, cell)| Some((key.to_string(), cell?)));
            named.map(|(key, cell)| [key.as_bytes(), &cell].concat()).collect()
        };
        all.insert(path.to_owned(), content);
    }
    all
}
