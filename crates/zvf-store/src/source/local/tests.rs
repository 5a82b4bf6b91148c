//! Local reads of real files in a temporary directory.

use std::fs;

use archives::inline;
use tempfile::TempDir;
use zvf_error::{Error, Result};
use zvf_format::Class;

use super::*;
use crate::options::OpenOptions;

fn key(name: &str) -> Key {
    Key::root().join(name).unwrap()
}

fn store(files: &[(&str, &[u8])]) -> (TempDir, Local) {
    let dir = TempDir::new().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let local = open(&dir, &OpenOptions::default());
    (dir, local)
}

fn open(dir: &TempDir, options: &OpenOptions) -> Local {
    Local::open(dir.path(), Budget::new(options)).unwrap()
}

fn load(local: &Local, get: Get) -> Result<Option<GetAnswer>> {
    inline(local.read_many(&[get])).pop().unwrap()
}

#[test]
fn a_read_waits_for_free_bytes_of_the_budget() {
    let (dir, _) = store(&[("a", &[7; 3000]), ("b", b"ab"), ("large", &[0; 5000])]);
    let options = OpenOptions { budget_bytes: 4096, cache_bytes: 0, ..OpenOptions::default() };
    let budget = Budget::new(&options);
    let local = Local::open(dir.path(), budget.clone()).unwrap();
    let reserved = budget.try_reserve(2048).unwrap().unwrap();
    let requests = ["a", "b", "large"].map(|name| Get::object(key(name)));
    let mut read = std::pin::pin!(local.read_many(&requests));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(read.as_mut().poll(&mut context).is_pending());
    drop(reserved);
    let std::task::Poll::Ready(answers) = read.as_mut().poll(&mut context) else {
        panic!("there is room now");
    };
    let lengths: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.map(|got| got.unwrap().bytes.len()).map_err(|e| e.class()))
        .collect();
    assert_eq!(lengths, [Ok(3000), Ok(2), Err(Class::LimitExceeded)]);
    assert_eq!(budget.free_bytes(), 4096);
}

#[test]
fn ranges_are_cut_out_of_files() {
    let (_dir, local) = store(&[("c/0", b"0123456789"), ("empty", b"")]);
    let c = key("c/0");
    type Row = (Get, Result<Option<&'static [u8]>, &'static str>);
    #[rustfmt::skip]
    let table: [Row; 14] = [
        (Get::object(c.clone()), Ok(Some(b"0123456789"))),
        (Get::range(c.clone(), 0, 10), Ok(Some(b"0123456789"))),
        (Get::range(c.clone(), 2, 3), Ok(Some(b"234"))),
        (Get::range(c.clone(), 10, 0), Ok(Some(b""))),
        (Get::suffix(c.clone(), 3), Ok(Some(b"789"))),
        (Get::suffix(c.clone(), 30), Ok(Some(b"0123456789"))),
        (Get::suffix(c.clone(), 0), Ok(Some(b""))),
        (Get::object(key("empty")), Ok(Some(b""))),
        (Get::suffix(key("empty"), 4), Ok(Some(b""))),
        (Get::object(key("c")), Ok(None)),
        (Get::object(key("c/1")), Ok(None)),
        (Get::object(key("c/0/1")), Ok(None)),
        (Get::range(c.clone(), 8, 3), Err("Truncated in c/0 at 8..11, size: expected one that holds the requested bytes, found 10; the object is truncated: copy it again, or run \"zvf repair --dry-run\"")),
        (Get::range(c, u64::MAX, u64::MAX), Err("Truncated in c/0 at 18446744073709551615..18446744073709551615, size: expected one that holds the requested bytes, found 10; the object is truncated: copy it again, or run \"zvf repair --dry-run\"")),
    ];
    for (get, expected) in table {
        let answer = load(&local, get.clone());
        let answer = answer.map(|got| got.map(|got| got.bytes)).map_err(|e| e.to_string());
        let expected = expected.map(|b| b.map(Bytes::from_static)).map_err(str::to_owned);
        assert_eq!(answer, expected, "{get:?}");
    }
}

#[test]
fn a_file_is_opened_once_for_all_its_ranges() {
    let body: Vec<u8> = (0..100_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    let (_dir, local) = store(&[("a", &body), ("b", b"b")]);
    let at = |start, len| Get::range(key("a"), start, len);
    let requests =
        [at(50_000, 10), at(0, 10), Get::object(key("b")), at(4000, 10), Get::suffix(key("a"), 5)];
    let answers = inline(local.read_many(&requests));
    let bytes: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().unwrap().bytes).collect();
    assert_eq!(bytes[0], body[50_000..50_010]);
    assert_eq!(bytes[1], body[..10]);
    assert_eq!(bytes[2], "b");
    assert_eq!(bytes[3], body[4000..4010]);
    assert_eq!(bytes[4], body[99_995..]);
    assert_eq!(local.stats(), IoStats { requests: 2, bytes_read: 10 + 4010 + 5 + 1, retries: 0 });
    const { assert!(MERGE_GAP_BYTES >= 3990) };
}

#[test]
fn thousands_of_files_are_read_in_order() {
    let dir = TempDir::new().unwrap();
    for i in 0..3000 {
        if i % 7 != 3 {
            fs::write(dir.path().join(i.to_string()), format!("cell {i}").repeat(i % 50)).unwrap();
        }
    }
    let local = open(&dir, &OpenOptions::default());
    let requests: Vec<_> = (0..3000).rev().map(|i| Get::object(key(&i.to_string()))).collect();
    let check = |answers: Vec<Result<Option<GetAnswer>>>| {
        for (i, answer) in (0..3000).rev().zip(answers) {
            let found = answer.unwrap().map(|got| got.bytes);
            let expected = (i % 7 != 3).then(|| Bytes::from(format!("cell {i}").repeat(i % 50)));
            assert_eq!(found, expected, "{i}");
        }
    };
    check(inline(local.read_many(&requests)));
    let one_thread = tokio::runtime::Builder::new_current_thread().build().unwrap();
    check(one_thread.block_on(local.read_many(&requests)));
    let two_workers =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    check(two_workers.block_on(async {
        tokio::spawn(async move { local.read_many(&requests).await }).await.unwrap()
    }));
}

#[test]
fn one_file_larger_than_the_budget_is_refused() {
    let (dir, _) = store(&[("small", &[1; 1000]), ("large", &[2; 5000])]);
    let options = OpenOptions { budget_bytes: 4096, cache_bytes: 0, ..OpenOptions::default() };
    let local = open(&dir, &options);
    assert_eq!(
        load(&local, Get::object(key("large"))).unwrap_err().to_string(),
        "LimitExceeded in large, bytes of one read: expected at most 4096, found 5000; \
         more than the limit allows: request less, or raise the limit",
    );
    assert!(load(&local, Get::object(key("small"))).unwrap().is_some());
    assert_eq!(
        load(&local, Get::range(key("large"), 10, 4096)).unwrap().unwrap().bytes,
        [2; 4096][..]
    );
}

#[test]
fn a_changed_file_is_another_version() {
    let (dir, local) = store(&[("a", b"0123456789")]);
    let old_version = load(&local, Get::object(key("a"))).unwrap().unwrap().version;
    let get = || Get::range(key("a"), 2, 3).with_version(old_version.clone());
    assert_eq!(load(&local, get()).unwrap().unwrap().bytes, "234");
    fs::write(dir.path().join("b"), b"9876543210").unwrap();
    fs::rename(dir.path().join("b"), dir.path().join("a")).unwrap();
    assert_eq!(
        load(&local, get()).unwrap_err().to_string(),
        "FileChanged in a at 2..5, the object was replaced while it was being read"
    );
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let (dir, _) = store(&[("file", b"")]);
    for (name, message) in [
        (
            "file",
            "InvalidArgument, it is a file, not a store; create a store from it with \"zvf create\"",
        ),
        ("none", "NotFound, no such file or folder"),
    ] {
        let budget = Budget::new(&OpenOptions::default());
        let error = Local::open(&dir.path().join(name), budget).unwrap_err();
        assert_eq!((error.to_string(), error.op()), (message.to_owned(), "open"));
    }
}

#[test]
fn names_are_listed_in_order() {
    let (dir, local) = store(&[
        ("z.json", b"12"),
        ("c/10/0", b"1"),
        ("c/9/0", b"123"),
        (".tmp-1-2", b""),
        ("c/.tmp-x/1", b""),
        ("odd\\name", b""),
    ]);
    fs::create_dir(dir.path().join("bare")).unwrap();
    let to_texts = |children: Vec<Child>| {
        children.iter().map(|c| format!("{} {}", c.name, c.is_dir)).collect::<Vec<_>>()
    };
    let top = inline(local.children(&Key::root())).unwrap();
    assert_eq!(to_texts(top), ["bare true", "c true", "z.json false"]);
    assert_eq!(to_texts(inline(local.children(&key("c"))).unwrap()), ["10 true", "9 true"]);
    for absent in ["none", "z.json", "bare"] {
        assert_eq!(inline(local.children(&key(absent))).unwrap(), []);
        assert_eq!(inline(local.list(&key(absent))).unwrap(), []);
    }
    let list = |prefix: &Key| {
        let found = inline(local.list(prefix)).unwrap();
        found.iter().map(|(key, size)| format!("{key} {size}")).collect::<Vec<_>>()
    };
    assert_eq!(list(&Key::root()), ["c/10/0 1", "c/9/0 3", "z.json 2"]);
    assert_eq!(list(&key("c/9")), ["c/9/0 3"]);

    // Listing without descriptors returns the same.
    let portable = portable::Dir::open(dir.path()).unwrap();
    let found = portable.listing(&key("c/9"), true).unwrap().unwrap();
    assert_eq!((&*found.entries[0].name, found.entries[0].size), ("0", 3));
    assert!(portable.listing(&key("none"), true).unwrap().is_none());
    let file = portable.file(&key("c/9/0")).unwrap().unwrap();
    assert_eq!(portable::read(&file.open, 1, 5).unwrap(), b"23");
    assert!(portable.file(&key("c/9")).unwrap().is_none());
    assert!(portable.file(&key("c/9/1")).unwrap().is_none());
    assert!(portable::Dir::open(&dir.path().join("z.json")).is_err());
}

#[cfg(unix)]
mod unix_only {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;

    #[test]
    fn links_are_followed_up_to_a_limit() {
        let (dir, local) = store(&[("a/x", b"x"), ("b/y", b"y")]);
        symlink("a/x", dir.path().join("file")).unwrap();
        symlink("../b", dir.path().join("a/to_b")).unwrap();
        symlink("..", dir.path().join("a/up")).unwrap();
        symlink("../a", dir.path().join("b/to_a")).unwrap();
        symlink("user@host.17", dir.path().join(".#file")).unwrap();
        let found = inline(local.list(&Key::root())).unwrap();
        let found: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(found, ["a/to_b/y", "a/x", "b/to_a/x", "b/y", "file"]);
        let portable = portable::Dir::open(dir.path()).unwrap();
        for (name, target) in [("broken", "nowhere"), ("loop", "loop"), ("below", "a/x/y")] {
            symlink(target, dir.path().join(name)).unwrap();
            let message = format!("{name:?} is a symbolic link that leads nowhere");
            let listed = inline(local.list(&Key::root())).unwrap_err();
            for error in [listed, inline(local.children(&Key::root())).unwrap_err()] {
                let cause = std::error::Error::source(&error).unwrap().to_string();
                assert_eq!((error.class(), cause), (Class::NotFound, message.clone()));
            }
            assert!(portable.listing(&Key::root(), false).is_err());
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        symlink("nowhere", dir.path().join("broken")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        assert_eq!(load(&local, Get::object(key("file"))).unwrap().unwrap().bytes, "x");
        assert_eq!(load(&local, Get::object(key("a/to_b/y"))).unwrap().unwrap().bytes, "y");
        assert!(load(&local, Get::object(key("broken"))).unwrap().is_none());
        let error = load(&local, Get::object(key("loop"))).unwrap_err();
        assert_eq!((error.class(), error.key()), (Class::Io, Some("loop")));
        assert!(load(&local, Get::object(key("loop/x"))).is_err());
    }

    #[test]
    fn pipes_do_not_block_a_reader() {
        let (dir, local) = store(&[]);
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            dir.path().join("pipe"),
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();
        let _listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        assert_eq!(inline(local.list(&Key::root())).unwrap().len(), 2);
        let (send, receive) = std::sync::mpsc::channel();
        let answers = std::thread::spawn(move || {
            for name in ["pipe", "socket"] {
                send.send(load(&local, Get::object(key(name))).map_err(|e| e.to_string())).unwrap();
            }
        });
        let next = || receive.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_err();
        let pipe =
            "Unsupported in pipe, kind of file \"not a regular file\": this build cannot read it";
        assert_eq!(next(), pipe);
        assert_eq!(next(), "Io in socket, uncategorized error (os error 6)");
        answers.join().unwrap();
    }

    #[test]
    fn unreadable_files_are_permission_errors() {
        let (dir, local) = store(&[("a/x", b"x"), ("closed/y", b"y")]);
        let lock = |name: &str, mode| {
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        lock("a/x", 0o000);
        lock("closed", 0o000);
        // The superuser may read everything, so the test checks nothing for that user.
        if fs::read(dir.path().join("a/x")).is_err() {
            for (name, message) in [
                ("a/x", "PermissionDenied in a/x, permission denied (os error 13)"),
                ("closed/y", "PermissionDenied in closed/y, permission denied (os error 13)"),
            ] {
                let error = load(&local, Get::object(key(name))).unwrap_err();
                assert_eq!(error.to_string(), message);
            }
            let error = inline(local.children(&key("closed"))).unwrap_err();
            assert_eq!((error.class(), error.op()), (Class::PermissionDenied, "list"));
            assert_eq!(inline(local.list(&Key::root())).unwrap_err().key(), Some("closed"));
        }
        lock("closed", 0o700);
    }

    #[test]
    fn the_store_that_was_opened_stays_the_store() {
        let dir = TempDir::new().unwrap();
        let (old, new) = (dir.path().join("s"), dir.path().join("t"));
        for (at, text) in [(&old, "old"), (&new, "new")] {
            fs::create_dir(at).unwrap();
            fs::write(at.join("a"), text).unwrap();
        }
        let local = Local::open(&old, Budget::new(&OpenOptions::default())).unwrap();
        fs::rename(&old, dir.path().join("u")).unwrap();
        fs::rename(&new, &old).unwrap();
        assert_eq!(load(&local, Get::object(key("a"))).unwrap().unwrap().bytes, "old");
    }

    #[test]
    fn every_error_of_the_system_has_a_class() {
        use rustix::io::Errno;
        for (code, class) in [
            (Errno::ACCESS, Class::PermissionDenied),
            (Errno::IO, Class::Io),
            (Errno::MFILE, Class::Io),
            (Errno::NOSPC, Class::NoSpace),
            (Errno::DQUOT, Class::NoSpace),
            (Errno::NOENT, Class::NotFound),
            (Errno::EXIST, Class::AlreadyExists),
            (Errno::TIMEDOUT, Class::Timeout),
            (Errno::NAMETOOLONG, Class::InvalidKey),
            (Errno::NOMEM, Class::LimitExceeded),
        ] {
            assert_eq!(Error::io("read", code.into()).class(), class, "{code}");
        }
    }
}
