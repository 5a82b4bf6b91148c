//! Names of objects and of files, images of streamlines, and the output of a command that refuses.

use std::fs;
use std::path::Path;

use crate::stores::{Folder, done, store, zvf};

#[test]
fn the_object_of_a_file_has_its_name() {
    let folder = Folder::new();
    let store = folder.at("a.zarrvectors");
    for (name, text) in [
        ("cell_7205.swc", "1 1 0 0 0 1 -1\n2 1 2 2 0 1 1\n"),
        ("cell_7205.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"),
    ] {
        let file = folder.write(name, text);
        done(&["create", "-q", "--overwrite", &file, &store]);
        let object = done(&["inspect", "objects", "--json", &store, "0"]).out;
        assert!(object.contains("\"cell_7205\""), "{name}: {object}");
        let out = folder.at("a.glb");
        done(&["convert", "-q", "--overwrite", &file, &out]);
        let text = String::from_utf8_lossy(&fs::read(&out).unwrap()).into_owned();
        assert!(text.contains("\"cell_7205\""), "{name}: {text}");
    }
}

#[test]
fn a_query_writes_the_named_format_whatever_the_file_is_called() {
    let folder = Folder::new();
    let file = folder.write("a.swc", "1 1 0 0 0 1 -1\n2 1 2 2 0 1 1\n");
    let store = folder.at("a.zarrvectors");
    done(&["create", "-q", &file, &store]);
    let [named, other] = [folder.at("part.swc"), folder.at("part")];
    done(&["query", &store, "-o", &named]);
    done(&["query", &store, "--format", "swc", "-o", &other]);
    assert_eq!(fs::read(&named).unwrap(), fs::read(&other).unwrap());
    let piped = done(&["query", &store, "--format", "swc", "-o", "-"]).out;
    assert_eq!(piped.as_bytes(), fs::read(&named).unwrap());
    let error = zvf(&["query", &store, "--format", "swc"]).refused(2);
    assert!(error.ends_with("--format swc needs --output FILE"), "{error}");
    zvf(&["query", &store, "--format", "docx"]).refused_with(2, "expected one of npy, ");
    let ran = done(&["query", &store, "-o", &folder.at("part.json")]);
    assert!(ran.err.contains("a JSON value in each line"), "{}", ran.err);
}

#[test]
fn each_object_is_written_to_a_file_of_its_own() {
    let folder = Folder::new();
    let tree = |x: i32| format!("1 1 {x} 1 0 1 -1\n2 1 2 2 0 1 1\n");
    let files = [folder.write("left.swc", tree(5)), folder.write("b c.swc", tree(7))];
    let store = folder.at("all.zarrvectors");
    done(&["create", "-q", &files[0], &files[1], &store]);
    let pattern = folder.at("out/{name}.swc");
    done(&["convert", "-q", "--dry-run", &store, &pattern]);
    assert!(!Path::new(&folder.at("out")).exists());
    done(&["convert", &store, &pattern]);
    for (name, x) in [("left", "5 1 0"), ("b c", "7 1 0")] {
        let text = fs::read_to_string(folder.at(&format!("out/{name}.swc"))).unwrap();
        assert!(text.contains(x), "{name}: {text}");
    }
    // One existing file prevents all outputs.
    fs::remove_file(folder.at("out/left.swc")).unwrap();
    let error = zvf(&["convert", "-q", &store, &pattern]).refused(4);
    assert!(error.ends_with("b c.swc already exists; use --overwrite to replace it"), "{error}");
    assert!(!Path::new(&folder.at("out/left.swc")).exists());
    done(&["convert", "-q", &store, &folder.at("ids/{id}.obj"), "--objects", "1"]);
    let names: Vec<_> = fs::read_dir(folder.at("ids")).unwrap().collect();
    assert_eq!((names.len(), Path::new(&folder.at("ids/1.obj")).exists()), (1, true));
    let unknown = ["convert", "-q", &store, &folder.at("some/{id}.swc"), "--objects", "1,999"];
    zvf(&unknown).refused_with(2, "999");
    assert!(!Path::new(&folder.at("some")).exists());
    for (input, output, message) in [
        (&store, folder.at("same/{name}"), "cannot tell the format of"),
        (&files[0], pattern, "create a store from the input first"),
    ] {
        zvf(&["convert", input, &output]).refused_with(2, message);
    }
    let one = folder.write("one.swc", tree(5) + "3 1 9 9 9 1 -1\n");
    let store = folder.at("two.zarrvectors");
    done(&["create", "-q", &one, &store]);
    zvf(&["convert", &store, &folder.at("x/{name}.swc")])
        .refused_with(2, "two objects would be written to");
}

#[test]
fn an_image_of_streamlines_can_be_named() {
    let folder = Folder::new();
    let lines = folder.write("a.jsonl", "{\"object\":0,\"positions\":[[-5,6,0],[1,2,3]]}\n");
    let (tck, trk) = (folder.at("a.tck"), folder.at("a.trk"));
    done(&["convert", "-q", "--kind", "streamline", &lines, &tck]);
    let mut image = vec![0_u8; 352];
    image[..4].copy_from_slice(&348_i32.to_le_bytes());
    for (axis, size) in [90_i16, 91, 92].into_iter().enumerate() {
        image[42 + 2 * axis..44 + 2 * axis].copy_from_slice(&size.to_le_bytes());
    }
    image[254] = 1;
    let affine = [2.0_f32, 0.0, 0.0, -90.0, 0.0, 2.0, 0.0, -126.0, 0.0, 0.0, 2.0, -72.0];
    for (n, x) in affine.into_iter().enumerate() {
        image[280 + 4 * n..284 + 4 * n].copy_from_slice(&x.to_le_bytes());
    }
    let nifti = folder.write("t1.nii", image);
    let check = |reference: &str, out: &str| {
        let made = done(&["convert", "--overwrite", &tck, out, "--reference", reference]);
        assert!(!made.err.contains("no image"), "{}", made.err);
        let bytes = fs::read(out).unwrap();
        let size = |at: usize| i16::from_le_bytes([bytes[at], bytes[at + 1]]);
        assert_eq!([size(6), size(8), size(10)], [90, 91, 92]);
        let rows = bytes[440..488].chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap()));
        assert_eq!(rows.collect::<Vec<_>>(), affine);
    };
    check(&nifti, &trk);
    check(&trk, &folder.at("b.trk"));
    let again = folder.at("again.jsonl");
    done(&["convert", "-q", &trk, &again]);
    assert!(fs::read_to_string(&again).unwrap().contains("[[-5.0,6.0,0.0],[1.0,2.0,3.0]]"));
    zvf(&["convert", &tck, &folder.at("x.csv"), "--reference", &nifti])
        .refused_with(2, "--reference is for TRK and TRX output only");
    zvf(&["convert", &tck, &folder.at("x.trk"), "--reference", &lines])
        .refused_with(2, "expected a NIfTI-1 or TRK file");
}

#[test]
fn columns_with_slashes_are_attached_and_found() {
    let folder = Folder::new();
    let store = folder.at("a.zarrvectors");
    let points = folder.write("a.csv", "x,y,object,dose/mg,a%b\n1,2,0,3,4\n5,6,1,7,8\n");
    let table = folder.write("b.csv", "id,mass/kg,..\n0,5,a\n1,6,b\n");
    done(&["create", "-q", &points, &store]);
    done(&["attach", "-q", &store, &table, "--key", "id"]);
    let root = fs::read_to_string(folder.at("a.zarrvectors/zarr.json")).unwrap();
    assert!(root.contains(r#""mass%2Fkg":{"dtype":"int64"}"#), "{root}");
    let twice = folder.write("c.csv", "id,n,n\n0,5,6\n");
    let refused = zvf(&["attach", &store, &twice, "--key", "id"]).refused(3);
    assert!(refused.contains("found \"n\" twice"));
    done(&["edit", "append", "-q", &store, &points]);
    let script =
        r#"{"op":"column.rename","scope":"object","name":"mass/kg","to":"mass"}"#.to_owned() + "\n";
    done(&["edit", "-q", &store, "--script", &folder.write("s.jsonl", script)]);
    done(&["validate", "-q", &store]);
    let count = |condition: &str| {
        done(&["query", "-q", &store, "--count", "--where", condition]).out.trim().to_owned()
    };
    for (condition, vertices) in [
        ("`dose/mg` > 3", 2),
        ("`dose%2Fmg` > 3", 2),
        ("`a%b` = 4", 2),
        ("object.mass = 6", 1),
        ("object.`..` = 'a'", 1),
    ] {
        assert!(count(condition).starts_with(&format!("{vertices} ")), "{condition}");
    }
    let read = done(&["query", "-q", &store, "--attributes", "dose/mg", "--objects", "1"]).out;
    assert!(read.contains("5,6,7"), "{read}");
    for condition in ["a%b = 4", "\"a%b\" > 3"] {
        zvf(&["query", &store, "--where", condition]).refused_with(2, "backquotes");
    }
}

#[test]
fn a_store_gets_levels_in_place_only_with_the_option() {
    let folder = Folder::new();
    let store = folder.at("a.zarrvectors");
    done(&["create", "-q", &folder.write("a.csv", "x,y\n1,2\n5,6\n"), &store]);
    zvf(&["pyramid", &store, "--levels", "1"])
        .refused_with(2, "a.zarrvectors are built in place only with --in-place");
    let pack = folder.at("a.tet");
    done(&["pack", "-q", &store, &pack]);
    let error = zvf(&["pyramid", &pack, "--in-place"]).refused(2);
    assert!(error.ends_with("unpack it with zvf unpack"), "{error}");
}

/// The table of exit codes in the overview of commands.
#[test]
fn exit_codes_are_those_of_the_documentation() {
    let folder = Folder::new();
    let (good, bad) = (folder.write("a.csv", "x,y\n1,2\n"), folder.write("b.csv", "x,y\n1,oops\n"));
    let (store, other) = (folder.at("a.zarrvectors"), folder.at("b.zarrvectors"));
    let swc = folder.write("a.swc", "1 1 0 0 0 1 -1\n");
    let trees = folder.at("trees.zarrvectors");
    done(&["create", "-q", &good, &store]);
    done(&["create", "-q", &swc, &trees]);
    let url = format!("file://{store}");
    for (code, args) in [
        (0, &["validate", "-q", &store][..]),
        (2, &["query", &store, "--attributes", "z"]),
        (2, &["query", &store, "--where", "z > 1 2"]),
        (2, &["query", &store, "--kind", "mesh"]),
        (2, &["query", &trees, "--objects", "9"]),
        (2, &["query", &trees, "--groups", "left"]),
        (2, &["query", &store, "--no-such-option"]),
        (2, &["create", "-", "-", &other]),
        (3, &["create", &bad, &other]),
        (4, &["query", &store, "--level", "3"]),
        (4, &["inspect", "objects", &trees, "9"]),
        (4, &["info", &other]),
        (4, &["create", &folder.at("no.csv"), &other]),
        // A taken name is refused before the input is read, even behind a URL.
        (4, &["create", &bad, &store]),
        (4, &["create", &bad, &url]),
    ] {
        let ran = zvf(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_change_is_made_although_its_report_cannot_be_printed() {
    let folder = Folder::new();
    let store = folder.at("a.zarrvectors");
    done(&["create", "-q", &folder.write("a.csv", "x,y,object\n1,2,0\n5,6,1\n7,8,2\n"), &store]);
    let script = folder.write("s.jsonl", "{\"op\":\"object.remove\",\"objects\":[0]}\n");
    let run = |args: &[&str], out: std::process::Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_zvf"));
        let ended = command.args(args).stdout(out).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let (_, closed) = std::io::pipe().unwrap();
    let edit = ["edit", &store, "--replies", "--script", &script];
    assert_eq!(run(&edit, closed.into()).0, Some(0));
    let full = || fs::File::create("/dev/full").unwrap().into();
    let (code, error) = run(&["edit", "rm", &store, "--objects", "1"], full());
    assert!(code == Some(4) && error.contains("but what was done stays"), "{error}");
    assert_eq!(run(&["--help"], full()).0, Some(4));
    assert!(done(&["query", &store, "--count"]).out.starts_with("1 vertex"));
}

/// Names of files are bytes; JSON and messages replace what is not UTF-8.
#[cfg(target_os = "linux")]
#[test]
fn files_without_utf_8_names_are_written_and_never_others() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::new();
    let store = folder.at("a.zarrvectors");
    done(&["create", "-q", &folder.write("a.csv", "x,y\n1,2\n5,6\n"), &store]);
    for (command, end, format, code) in [
        ("render", ".png", None, 0),
        ("query", ".csv", None, 0),
        ("query", ".ply", Some("--format=swc"), 2),
    ] {
        let name = [b"\xff", end.as_bytes()].concat();
        let file = Path::new(&store).with_file_name(std::ffi::OsStr::from_bytes(&name));
        let mut zvf = std::process::Command::new(env!("CARGO_BIN_EXE_zvf"));
        zvf.args([command, "--json", &store, "-o"]).arg(&file).args(format);
        let ran = zvf.output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{command}: {ran:?}");
        assert_eq!(file.exists(), code == 0, "{command}");
    }
}

#[test]
fn faces_that_cannot_be_read_are_named_by_each_output() {
    let store = store("suites/draco_faces");
    let folder = Folder::new();
    for name in ["a.ply", "a.glb", "a.csv"] {
        let file = folder.at(name);
        for command in [
            ["convert", store.arg(), &file, "--overwrite"].as_slice(),
            &["query", store.arg(), "-o", &file, "--overwrite"],
        ] {
            let ran = zvf(command);
            let said = format!("{}{}", ran.out, ran.err);
            assert!(said.contains("cannot be read and are left out"), "{command:?}: {said}");
        }
    }
}

#[test]
fn the_attribute_of_a_leading_axis_is_kept_by_each_way_out() {
    let store = store("suites/leading_axis");
    let folder = Folder::new();
    let genes = |file: &str| {
        let text = zvf(&["convert", file, "-", "--to", "csv", "-q"]).clean();
        let mut rows = text.lines().map(|row| row.split(',').map(str::to_owned));
        let column = rows.next().unwrap().position(|name| name == "gene").expect(&text);
        let mut genes: Vec<String> = rows.map(|mut row| row.nth(column).unwrap()).collect();
        genes.sort();
        genes
    };
    let expected = genes(store.arg());
    assert_eq!(expected, ["A", "A", "B", "B"]);
    for name in ["a.csv", "a.parquet", "a.zarrvectors"] {
        let file = folder.at(name);
        zvf(&["convert", store.arg(), &file, "-q"]).clean();
        assert_eq!(genes(&file), expected, "{name}");
    }
}
