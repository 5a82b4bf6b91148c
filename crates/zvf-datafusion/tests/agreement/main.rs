//! Every archived store answers SQL as it answers `zvf query`.

mod check;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_stores_say_the_same() {
    let folder = archives::scratch();
    let (mut passed, mut failed) = (0, Vec::new());
    for id in archives::ids() {
        let path = archives::kept(folder.path(), &id);
        let verdict = check::check(path.to_str().unwrap()).await;
        let verdict = verdict.unwrap_or_else(|error| panic!("{id}: {error}"));
        passed += verdict.passed;
        failed.extend(verdict.failed.into_iter().map(|line| format!("{id}: {line}")));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed > 500, "{passed}");
}
