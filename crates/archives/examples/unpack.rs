//! Unpacks the archived store `ID` into the new folder `FOLDER`: `unpack ID FOLDER`; with `all` as
//! `ID`, each store into a folder of its own below.

use std::env;
use std::path::Path;

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let [id, folder] = args.as_slice() else { panic!("unpack ID FOLDER") };
    let folder = Path::new(folder);
    match id.as_str() {
        "all" => {
            for id in archives::ids() {
                archives::write(&folder.join(&id), &archives::files(&id));
            }
        }
        id => archives::write(folder, &archives::files(id)),
    }
}
