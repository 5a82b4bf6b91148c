//! `release`: makes the files of a release in `dist/`, and tries them in empty environments.
//!
//! ```text
//! zvf-VERSION-TARGET.tar.gz   the program, manual pages, completions, licences, notices;
//!                             for the C library of this machine, and static with musl
//! zvf_VERSION_amd64.deb       the same as a Debian package
//! zvf-*.whl, zvf-*.tar.gz     the Python package
//! *.tgz, viewer.tar.gz        the reader for JavaScript; the viewer as static files
//! crates/                     the crates, and ORDER, the order in which to publish them
//! NOTICES.txt, sbom.json      licences of all dependencies; the list of them (CycloneDX)
//! NOTES.md, SHA256SUMS        what changed; checksums of all files above
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::args::Args;
use crate::cargo_toml::members;
use crate::house::{House, list, list_with, remove_folder, say};
use crate::{no_std, publish, python, viewer};

/// What can be made and tried by itself.
struct ReleasePart {
    name: &'static str,
    make: fn(&Release<'_>) -> anyhow::Result<()>,
    check: fn(&Release<'_>) -> anyhow::Result<()>,
}

const PARTS: [ReleasePart; 4] = [
    ReleasePart { name: "program", make: make_program, check: check_program },
    ReleasePart { name: "wheel", make: make_wheel, check: check_wheel },
    ReleasePart { name: "npm", make: make_npm, check: |_| Ok(()) },
    ReleasePart { name: "crates", make: make_crates, check: check_crates },
];

/// The folder of a release, and how it is made.
struct Release<'a> {
    house: &'a House,
    dist: PathBuf,
    is_debug: bool,
}

impl Release<'_> {
    /// Returns what programs are built for: the quick trial only has the C library of this machine.
    fn targets(&self) -> &'static [&'static str] {
        if self.is_debug { &[GLIBC] } else { &[GLIBC, MUSL] }
    }

    /// Runs a line of the shell in the folder.
    fn in_dist(&self, line: &str) -> anyhow::Result<()> {
        self.house.line("env -C {} sh -c {}", &[&self.dist, &line]).run()
    }
}

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let (check, is_debug) = (args.flag("--check"), args.flag("--debug"));
    let names: Vec<_> = args.into_words().collect();
    for name in &names {
        ensure!(PARTS.iter().any(|part| name == part.name), "no part {}", name.display());
    }
    let release = Release { house, dist: house.path("dist"), is_debug };
    if check {
        release.in_dist("sha256sum --check --quiet SHA256SUMS")?;
    } else {
        if names.is_empty() {
            remove_folder(&release.dist)?;
        }
        fs::create_dir_all(&release.dist)?;
        write_lists(&release)?;
    }
    for part in PARTS.iter().filter(|part| names.is_empty() || names.iter().any(|n| n == part.name))
    {
        say(&format!("\n== {}", part.name));
        if check { (part.check)(&release)? } else { (part.make)(&release)? }
    }
    if check {
        return Ok(());
    }
    release.in_dist(
        "find . -type f ! -name SHA256SUMS -printf '%P\\n' | sort | xargs sha256sum > SHA256SUMS",
    )
}

/// Builds the programs, and packs each with its pages; one as a Debian package as well.
fn make_program(release: &Release<'_>) -> anyhow::Result<()> {
    let house = release.house;
    let root = house.empty_folder("release-program")?;
    for target in release.targets() {
        let name = format!("zvf-{VERSION}-{target}");
        write_tree(release, &build_program(release, target)?, &root.join(&name))?;
        pack(release, &root, &name, &name)?;
    }
    let deb = root.join("deb");
    fs::create_dir_all(deb.join("DEBIAN"))?;
    fs::rename(root.join(format!("zvf-{VERSION}-{GLIBC}")), deb.join("usr"))?;
    let glibc = house.program("getconf").arg("GNU_LIBC_VERSION").output().context("no glibc")?;
    let glibc = glibc.trim().trim_start_matches("glibc ").to_owned();
    fs::write(deb.join("DEBIAN/control"), control(&glibc))?;
    let target = release.dist.join(format!("zvf_{VERSION}_amd64.deb"));
    house.line("dpkg-deb --build --root-owner-group {} {}", &[&deb, &target]).run()
}

/// Builds the program for `target`, and returns its file.
fn build_program(release: &Release<'_>, target: &str) -> anyhow::Result<PathBuf> {
    let house = release.house;
    let build = house.cargo("build --locked -p zvf-cli");
    if release.is_debug {
        build.run()?;
        return Ok(house.target().join("debug/zvf"));
    }
    no_std::require(house, target)?;
    build.words("--profile dist --all-features --target").arg(target).run()?;
    Ok(house.target().join(target).join("dist/zvf"))
}

/// Writes the stripped program, its pages, licences and notices below `tree`.
fn write_tree(release: &Release<'_>, program: &Path, tree: &Path) -> anyhow::Result<()> {
    let house = release.house;
    let doc = tree.join("share/doc/zvf");
    let man = tree.join("share/man/man1");
    for folder in [&doc, &man, &tree.join("bin")] {
        fs::create_dir_all(folder)?;
    }
    fs::copy(program, tree.join("bin/zvf"))?;
    house.program("strip").arg(tree.join("bin/zvf")).run()?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(house.path(file), doc.join(file))?;
    }
    for file in ["NOTICES.txt", "sbom.json"] {
        fs::copy(release.dist.join(file), doc.join(file))?;
    }
    for (shell, file) in COMPLETIONS {
        let text = house.program(program).args(&["completions", shell]).output();
        let file = tree.join("share").join(file);
        fs::create_dir_all(file.parent().context("no folder")?)?;
        fs::write(file, text.context("no completions")?)?;
    }
    fs::write(man.join("zvf.1"), house.program(program).arg("man").output().context("no page")?)?;
    for page in list(&house.path("docs/src/commands"))? {
        let command = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(text) = house.program(program).args(&["man", &command]).output() {
            fs::write(man.join(format!("zvf-{command}.1")), text)?;
        }
    }
    Ok(())
}

/// Returns the description of the Debian package.
fn control(glibc: &str) -> String {
    format!(
        "Package: zvf\nVersion: {VERSION}\nArchitecture: amd64\nSection: science\nPriority: optional\n\
         Maintainer: The zvf developers\nDepends: libc6 (>= {glibc}), libgcc-s1\n\
         Description: stores of points, lines, streamlines, graphs, skeletons and meshes\n \
         Finds one object or one box among millions in milliseconds, in Zarr Vectors stores on\n \
         disk, over HTTP or in S3. Reads and writes 35 other formats.\n"
    )
}

/// Runs the demo with the unpacked program; installs and removes the package in an empty root.
fn check_program(release: &Release<'_>) -> anyhow::Result<()> {
    let house = release.house;
    let folder = house.empty_folder("release-check")?;
    for target in release.targets() {
        let name = format!("zvf-{VERSION}-{target}");
        let archive = release.dist.join(format!("{name}.tar.gz"));
        house.line("tar -xzf {} -C {}", &[&archive, &folder]).run()?;
        let program = folder.join(&name).join("bin/zvf");
        house.line("env -i -C {} {} demo {}", &[&folder, &program, &target]).run()?;
    }
    let root = folder.join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/updates"))?;
    fs::create_dir_all(root.join("var/lib/dpkg/info"))?;
    fs::write(root.join("var/lib/dpkg/status"), "")?;
    let forced = "--force-not-root --force-depends --force-script-chrootless";
    let dpkg = || house.line("dpkg --root {}", &[&root]).words(forced);
    let deb = release.dist.join(format!("zvf_{VERSION}_amd64.deb"));
    dpkg().arg("--install").arg(deb).run()?;
    let installed = root.join("usr/bin/zvf");
    house.line("env -i -C {} {} --version", &[&folder, &installed]).run()?;
    dpkg().words("--purge zvf").run()?;
    ensure!(!installed.exists(), "the Debian package leaves its program behind");
    Ok(())
}

/// Makes the wheel and the source archive, each of which is tried in a fresh environment.
fn make_wheel(release: &Release<'_>) -> anyhow::Result<()> {
    let house = release.house;
    python::run(house, Args::from_words(&["--wheel"]))?;
    let wheels = house.target().join(python::RELEASED);
    copy_files(&wheels, &release.dist, "gz")?;
    add_notices(release, &wheels)
}

/// Adds the notices to the wheel, whose compiled half contains the code that they are about.
fn add_notices(release: &Release<'_>, wheels: &Path) -> anyhow::Result<()> {
    let house = release.house;
    let python = python::environment(house, "python-wheel", &["wheel"])?;
    let folder = house.empty_folder("release-notices")?;
    let wheel = python::newest(wheels, "whl")?;
    house.line("{} -m wheel unpack --dest {} {}", &[&python, &folder, &wheel]).run()?;
    let tree = folder.join(format!("zvf-{VERSION}"));
    let licences = tree.join(format!("zvf-{VERSION}.dist-info/licenses"));
    fs::copy(release.dist.join("NOTICES.txt"), licences.join("NOTICES.txt"))?;
    house.line("{} -m wheel pack --dest-dir {} {}", &[&python, &release.dist, &tree]).run()
}

/// Runs the first notebook with the wheel, in an empty environment.
fn check_wheel(release: &Release<'_>) -> anyhow::Result<()> {
    let house = release.house;
    let folder = house.empty_folder("release-wheel")?;
    let environment = folder.join("env");
    house.line("python3 -m venv {}", &[&environment]).run()?;
    let python = environment.join("bin/python");
    let wheels = list_with(&release.dist, "whl")?;
    let is_released = |wheel: &PathBuf| wheel.display().to_string().contains("manylinux_");
    ensure!(wheels.len() == 1 && is_released(&wheels[0]), "expected one wheel, found {wheels:?}");
    let install = "{} -m pip install --quiet nbclient ipykernel pyarrow pandas polars";
    house.line(install, &[&python]).args(&wheels).run()?;
    let listing = house.line("{} -m zipfile -l", &[&python]).args(&wheels).output();
    let listing = listing.context("the wheel cannot be read")?;
    for wanted in ["LICENSE-MIT", "LICENSE-APACHE", "NOTICES.txt"] {
        ensure!(listing.contains(&format!("licenses/{wanted}")), "the wheel has no {wanted}");
    }
    let notebook = house.path("docs/notebooks/first-steps.ipynb");
    house.line("{} -c {} {}", &[&python, &python::RUN_NOTEBOOK, &notebook]).run()
}

/// Packs the reader for JavaScript, which is tried in Node, and the viewer as static files.
fn make_npm(release: &Release<'_>) -> anyhow::Result<()> {
    let house = release.house;
    let notices = release.dist.join("NOTICES.txt");
    viewer::run(house, Args::from_words(&["npm", &notices.display().to_string()]))?;
    copy_files(&house.target().join("viewer-npm"), &release.dist, "tgz")?;
    let program = house.build_command()?;
    let folder = house.empty_folder("release-viewer")?;
    house.program(program).words("view --write-page").arg(folder.join("viewer")).run()?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(house.path(file), folder.join("viewer").join(file))?;
    }
    fs::copy(notices, folder.join("viewer/NOTICES.txt"))?;
    pack(release, &folder, "viewer", "viewer")
}

/// Packs the crates, and writes the order in which to publish them.
fn make_crates(release: &Release<'_>) -> anyhow::Result<()> {
    publish::run(release.house, Args::from_words(&["--check"]))?;
    let to = release.dist.join("crates");
    fs::create_dir_all(&to)?;
    let members = members(release.house)?;
    let order = publish::order(&members)?;
    for name in &order {
        let file = format!("{name}-{VERSION}.crate");
        fs::copy(release.house.target().join("package").join(&file), to.join(&file))?;
    }
    fs::write(to.join("ORDER"), order.join("\n") + "\n").context("cannot write ORDER")
}

/// Fails unless every crate contains its licences and its README.
fn check_crates(release: &Release<'_>) -> anyhow::Result<()> {
    let crates = release.dist.join("crates");
    for name in fs::read_to_string(crates.join("ORDER"))?.lines() {
        let file = crates.join(format!("{name}-{VERSION}.crate"));
        let listing = release.house.program("tar").arg("-tzf").arg(file).output();
        let listing = listing.with_context(|| format!("{name} cannot be read"))?;
        for wanted in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            let line = format!("{name}-{VERSION}/{wanted}");
            ensure!(listing.lines().any(|found| found == line), "{name} has no {wanted}");
        }
    }
    Ok(())
}

/// Writes the notices, the list of dependencies, and the notes on the release.
fn write_lists(release: &Release<'_>) -> anyhow::Result<()> {
    let house = release.house;
    let metadata = house
        .cargo("metadata --locked --format-version 1")
        .output()
        .context("cargo metadata fails")?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut components = Vec::new();
    let used = used(house)?;
    for package in packages.iter().filter(|package| used.contains(&id_of(package))) {
        let (id, license) = (id_of(package), package["license"].as_str().unwrap_or("its file"));
        components.push(json!({
            "type": "library", "name": package["name"], "version": package["version"],
            "licenses": [{"expression": license}],
            "purl": format!("pkg:cargo/{}", id.replace(' ', "@")),
        }));
        let manifest = Path::new(package["manifest_path"].as_str().context("no path")?);
        for path in list(manifest.parent().context("no folder")?)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            let is_notice = NOTICES.iter().any(|start| name.starts_with(start));
            let is_foreign = !package["source"].is_null();
            if is_foreign
                && is_notice
                && let Ok(text) = fs::read_to_string(&path)
            {
                texts.entry(text).or_default().insert(format!("{id} ({license})"));
            }
        }
    }
    let mut notices = String::from("zvf contains code of these packages, under their licences.\n");
    for (text, users) in &texts {
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        notices += &format!("\n{}\n{}\n\n{}\n", "=".repeat(80), users.join(", "), text.trim_end());
    }
    fs::write(release.dist.join("NOTICES.txt"), notices)?;
    let sbom = json!({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "application", "name": "zvf", "version": VERSION}},
        "components": components});
    fs::write(release.dist.join("sbom.json"), serde_json::to_string_pretty(&sbom)?)?;
    let changes = house.read("CHANGELOG.md")?;
    let notes = changes.split("\n## ").nth(1).context("the changelog has no version")?;
    fs::write(release.dist.join("NOTES.md"), format!("# {notes}")).context("cannot write notes")
}

/// Returns the packages in the released programs and the wheel, as `NAME VERSION`.
fn used(house: &House) -> anyhow::Result<BTreeSet<String>> {
    let words = "tree --locked -p zvf-cli -p zvf-py -p zvf-wasm --all-features \
        --edges normal --prefix none --format {p}";
    let tree = house.cargo(words).output().context("cargo tree fails")?;
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?.trim_start_matches('v')))
    };
    Ok(tree.lines().filter_map(line).collect())
}

/// Returns name and version of a package in the output of `cargo metadata`.
fn id_of(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("name"), text("version"))
}

/// Packs `folder` below `root` as `dist/NAME.tar.gz`; the same content gives the same bytes.
fn pack(release: &Release<'_>, root: &Path, folder: &str, name: &str) -> anyhow::Result<()> {
    let file = release.dist.join(format!("{name}.tar.gz"));
    let tar = "tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -czf {} -C {} {}";
    release.house.line(tar, &[&file, &root, &folder]).run()
}

fn copy_files(from: &Path, to: &Path, ending: &str) -> anyhow::Result<()> {
    for file in list_with(from, ending)? {
        fs::copy(&file, to.join(file.file_name().context("no name")?))?;
    }
    Ok(())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const GLIBC: &str = "x86_64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";
/// How names of files with licences begin.
const NOTICES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/zvf"),
    ("fish", "fish/vendor_completions.d/zvf.fish"),
    ("zsh", "zsh/site-functions/_zvf"),
];
