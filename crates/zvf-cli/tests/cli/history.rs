//! `zvf history log` and `undo`, `zvf divide`.

use crate::stores::{store, zvf};

#[test]
fn commits_are_undone_by_what_the_log_prints() {
    let store = store("pl2_negative");
    let query = || zvf(&["query", store.arg(), "--format", "csv"]).clean();
    let mut states = vec![query()];
    for object in ["0", "1", "2"] {
        let is_removed =
            || zvf(&["inspect", "objects", store.arg(), object]).clean().contains("was removed");
        assert!(!is_removed());
        zvf(&["edit", "rm", store.arg(), "--objects", object]).clean();
        assert!(is_removed());
        states.push(query());
    }
    let log = zvf(&["history", "log", store.arg(), "--json"]).json();
    let id = log[0]["txid"].as_str().unwrap();
    zvf(&["history", "undo", store.arg(), "1"])
        .refused_with(2, "commit 1 is not the last one in effect, which is 3");
    for which in [&[id][..], &[], &["1"]] {
        let args = &[&["history", "undo", store.arg()], which].concat();
        zvf(args).clean();
        states.pop();
        assert_eq!(query(), states[states.len() - 1], "{args:?}");
    }
}
