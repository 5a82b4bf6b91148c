//! `zvf render`: pictures of stores of every kind, unpacked and packed.

use std::fs;

use crate::stores::{Folder, store, zvf};

/// Returns the pixels of a picture that are not white, and all pixels.
fn pixels(path: &str) -> (usize, Vec<[u8; 3]>) {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    let pixels: Vec<[u8; 3]> = bytes.chunks(3).map(|pixel| pixel.try_into().unwrap()).collect();
    (pixels.iter().filter(|pixel| **pixel != [255; 3]).count(), pixels)
}

#[test]
fn every_kind_is_drawn() {
    for (id, noun, max_pixels) in [
        ("pc3_basic", "points", 30_000),
        ("sl3_streamlines", "lines", 30_000),
        ("gr3_pyramid", "lines", 30_000),
        ("ms3_tri", "faces", 30_000),
    ] {
        let old = store(id);
        let folder = Folder::new();
        let path = folder.at("a.png");
        let args = ["render", "--json", old.arg(), "-o", &path, "--size", "200"];
        let json = zvf(&args).json();
        let count = json[noun].as_u64().unwrap();
        assert!(count > 0, "{id}: {json}");
        let (drawn, image) = pixels(&path);
        assert_eq!(image.len(), 200 * 200);
        assert!(drawn > 50 && drawn < max_pixels, "{id}: {drawn} pixels for {count} {noun}");

        // A packed store gives the same picture.
        let packed = folder.at("a.tet");
        zvf(&["pack", old.arg(), &packed]).clean();
        let second_path = folder.at("b.png");
        zvf(&["render", &packed, "-o", &second_path, "--size", "200"]).clean();
        assert_eq!(pixels(&second_path).1, image, "{id}");
        assert_eq!(folder.0.path().read_dir().unwrap().count(), 3, "no other file is left over");
    }
}

#[test]
fn options_select_what_is_drawn() {
    let old = store("sl3_streamlines");
    let folder = Folder::new();
    let path = folder.at("a.png");
    let draw = |options: &[&str]| {
        let draw = ["render", old.arg(), "--overwrite", "-o", &path, "--size", "100x60"];
        let args = [&draw[..], options].concat();
        let text = zvf(&args).clean();
        (text, pixels(&path).1)
    };
    let (text, image) = draw(&[]);
    assert!(text.starts_with(&format!("{path}: ")) && text.contains(" lines in "), "{text}");
    let (text_of_object, object_image) = draw(&["--objects", "2"]);
    assert!(text_of_object.contains(" lines in ") && object_image != image);
    let (text_with_colours, _) = draw(&["--colour", "fa", "--range", "0:1", "--view", "top"]);
    assert!(text_with_colours.contains(", colours from 0 to 1 in "), "{text_with_colours}");
    let (text_of_empty, empty_image) = draw(&["--where", "fa > 100"]);
    assert!(text_of_empty.contains(": nothing in "), "{text_of_empty}");
    assert!(empty_image.iter().all(|pixel| *pixel == [255; 3]));
    assert_ne!(draw(&["--bbox", "300,200,200:350,250,260"]).1, image);
    assert_ne!(draw(&["--axes", "z,y"]).1, image);
}

#[test]
fn invalid_requests_leave_no_file() {
    let old = store("sl3_streamlines");
    let folder = Folder::new();
    let path = folder.at("a.png");
    for (options, code, expected) in [
        (
            &["--colour", "fb"][..],
            2,
            "zvf: there is no vertex attribute \"fb\": there is code, fa; did you \
             mean \"fa\"?",
        ),
        (&["--axes", "x,w"], 2, "zvf: there is no axis \"w\"; the axes are x, y, z"),
        (
            &["--axes", "x,x"],
            2,
            "zvf: axes: expected one to three different axes of the store, found \
             [0, 0] of 3",
        ),
    ] {
        let args = [&["render", old.arg(), "-o", &path], options].concat();
        assert_eq!(zvf(&args).refused(code), expected);
        assert!(!folder.0.path().join("a.png").exists());
    }
    zvf(&["render", "no/such/store", "-o", "a.jpg"]).refused_with(2, "a.jpg does not end in .png");
    fs::write(&path, "mine").unwrap();
    let error = zvf(&["render", old.arg(), "-o", &path]).refused(4);
    assert!(error.ends_with("a.png already exists; use --overwrite to replace it"), "{error}");
}
