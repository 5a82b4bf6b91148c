//! Unpacks the archived store `ID` into the new folder `FOLDER`: `unpack ID FOLDER`.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let [id, folder] = args.as_slice() else { panic!("unpack ID FOLDER") };
    for (path, bytes) in archives::files(id) {
        let file = PathBuf::from(folder).join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
}
