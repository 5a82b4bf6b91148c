//! Calls of the disk: recorded, faulted, and on real files.

use super::*;

fn parts(parts: &[&'static [u8]]) -> Vec<Bytes> {
    parts.iter().map(|part| Bytes::from_static(part)).collect()
}

#[test]
fn files_are_made_once_with_what_is_above_them() {
    let temp_dir = tempfile::tempdir().unwrap();
    let disk = Disk::with_recording();
    let file = temp_dir.path().join("a/b/c");
    disk.create(&file, &parts(&[b"one", b"", b"two"])).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"onetwo");
    let again = disk.create(&file, &parts(&[b"x"])).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    let many = temp_dir.path().join("many");
    disk.create(&many, &vec![Bytes::from_static(b"ab"); 3000]).unwrap();
    assert_eq!(fs::read(&many).unwrap().len(), 6000);
    let (a, b) = (temp_dir.path().join("a"), temp_dir.path().join("a/b"));
    let made = [Call::MakeDir(a), Call::MakeDir(b), Call::Create(file, "onetwo".into())];
    assert_eq!(disk.calls()[..3], made);
}

/// Runs itself where no file may have a byte.
#[test]
#[cfg(unix)]
fn a_write_that_fails_is_an_error() {
    if let Some(folder) = std::env::var_os("FULL_DISK") {
        let file = Path::new(&folder).join("a");
        Disk::default().create(&file, &parts(&[b"one"])).unwrap_err();
        return;
    }
    let temp_dir = tempfile::tempdir().unwrap();
    let test = "trap '' XFSZ; ulimit -f 0; exec \"$0\" a_write_that_fails_is_an_error";
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", test]).arg(std::env::current_exe().unwrap());
    let out = limited.env("FULL_DISK", temp_dir.path()).output().unwrap();
    assert!(out.status.success() && temp_dir.path().join("a").exists(), "{out:?}");
}

#[test]
fn one_call_fails_before_it_or_after_it_was_done() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = |name: &str| temp_dir.path().join(name);
    for is_late in [false, true] {
        let disk = Disk::default().with_failure_at(1, 28, is_late);
        let names = ["one", "two", "three"].map(|name| path(&format!("{name}{is_late}")));
        let made = names.clone().map(|name| disk.clone().make_dir(&name).map_err(|e| e.kind()));
        assert_eq!(made, [Ok(()), Err(io::ErrorKind::StorageFull), Ok(())]);
        assert_eq!(names.map(|name| name.exists()), [true, is_late, true]);
        assert_eq!(disk.call_count(), 3);
    }
}

#[test]
fn a_rename_is_never_over_something() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = |name: &str| temp_dir.path().join(name);
    let disk = Disk::default();
    for name in ["new/x", "full/y"] {
        disk.create(&path(name), &parts(&[b"1"])).unwrap();
    }
    disk.create(&path("file"), &parts(&[b"1"])).unwrap();
    disk.make_dir(&path("empty")).unwrap();
    assert!(disk.rename(&path("new"), &path("full")).is_err());
    assert!(disk.rename(&path("new"), &path("file")).is_err());
    disk.rename(&path("new"), &path("empty")).unwrap();
    assert_eq!(fs::read(path("empty/x")).unwrap(), b"1");
    assert!(disk.calls().is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn names_change_places() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = |name: &str| temp_dir.path().join(name);
    let disk = Disk::default();
    disk.create(&path("a/x"), &parts(&[b"1"])).unwrap();
    disk.create(&path("b/y"), &parts(&[b"2"])).unwrap();
    assert!(disk.exchange(&path("a"), &path("b")).unwrap());
    assert_eq!(fs::read(path("a/y")).unwrap(), b"2");
    assert!(disk.exchange(&path("a"), &path("none")).is_err());
    disk.sync_all(&File::open(temp_dir.path()).unwrap(), temp_dir.path()).unwrap();
    disk.sync_dir(temp_dir.path()).unwrap();
    disk.remove_all(&path("a")).unwrap();
    assert!(!path("a").exists());
}

#[test]
fn what_is_missing_is_an_error_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [present, absent] = ["there", "none"].map(|name| dir.path().join(name));
    fs::write(&present, "1").unwrap();
    let done = Disk::default().exchange(&present, &absent);
    assert!(matches!(done, Ok(false) | Err(_)), "{done:?}");
    assert_eq!(fs::read(&present).unwrap(), b"1");
}
