//! The files and formats of a query: chosen, and refused, before any work; and what its answer may
//! lack.

use std::path::{Path, PathBuf};

use zvf::convert::Format;
use zvf::convert::format::MissingFormat;
use zvf::{Notice, Store};

use crate::outcome::{Usage, refuse};
use crate::target::is_device;

/// The formats with one row for each vertex; two of them hold elements too.
pub(super) const TABLES: &[Format] = &[
    Format::Npy,
    Format::Csv,
    Format::Jsonl,
    Format::Ply,
    #[cfg(feature = "arrow")]
    Format::Arrow,
    #[cfg(feature = "arrow")]
    Format::Arrows,
    #[cfg(feature = "arrow")]
    Format::Parquet,
];

/// Returns whether one file holds vertices and elements.
pub(super) const fn holds_elements(format: Format) -> bool {
    matches!(format, Format::Jsonl | Format::Ply)
}

/// Returns whether the format can be written batch by batch.
pub(super) const fn streams(format: Format) -> bool {
    !matches!(format, Format::Ply)
}

/// The files and formats of one query.
#[derive(Debug)]
pub(super) struct Output {
    /// The format of the answer.
    pub(super) format: Format,
    /// The file of the answer; `None` for standard output.
    pub(super) file: Option<PathBuf>,
    /// The file of edges or faces, and its format.
    pub(super) elements: Option<(PathBuf, Format)>,
}

impl Output {
    /// Chooses the formats: the given one, or those of the file names.
    ///
    /// # Errors
    ///
    /// [`Usage`] for names without a known format, and for edges and faces that have no table of their own.
    pub(super) fn choose(
        given: Option<Format>,
        json: bool,
        file: Option<&Path>,
        elements: Option<&Path>,
    ) -> Result<Self, Usage> {
        let file = file.filter(|path| path.as_os_str() != "-");
        let format = match (given, file) {
            (Some(format), _) => format,
            (None, Some(path)) => format_of_file("--output", path)?,
            (None, None) if json => Format::Jsonl,
            (None, None) => Format::Csv,
        };
        let elements = match elements {
            None => None,
            Some(_) if holds_elements(format) => {
                return refuse(
                    "this format writes edges and faces to the same file; leave --elements out",
                );
            }
            Some(path) => {
                let elements_format = match given.filter(|_| path.extension().is_none()) {
                    Some(format) => format,
                    None => format_of_file("--elements", path)?,
                };
                if holds_elements(elements_format) {
                    return refuse(format!(
                        "{} cannot hold a table of elements; name it .csv, .npy, .arrow, .arrows \
                         or .parquet",
                        path.display()
                    ));
                }
                Some((path.to_owned(), elements_format))
            }
        };
        Ok(Self { format, file: file.map(Path::to_owned), elements })
    }
}

/// Returns the format of a file name; devices and pipes take CSV.
fn format_of_file(option: &str, path: &Path) -> Result<Format, Usage> {
    if path.is_dir() {
        return refuse(format!("{} is a folder; name a file", path.display()));
    }
    if let Some(format) = Format::from_extension(path).filter(|format| TABLES.contains(format)) {
        return Ok(format);
    }
    if is_device(path) {
        return Ok(Format::Csv);
    }
    if let Some(missing) = MissingFormat::from_extension(path) {
        return refuse(missing.to_string());
    }
    let others: &[Format] = if option == "--output" { Format::ALL } else { &[] };
    let others = others.iter().filter(|format| format.is_written() && !TABLES.contains(format));
    let extension = |format: &Format| Some(format!(".{}", format.extensions().first()?));
    let extensions: Vec<String> = TABLES.iter().chain(others).filter_map(extension).collect();
    refuse(format!(
        "cannot tell the format of {option} {}; end it in one of {}, or give --format",
        path.display(),
        extensions.join(", ")
    ))
}

/// Refuses an answer that may lack attributes or links: those that no document declares and that
/// could not be listed in `store`. The answer has all attributes or named ones; links may matter.
///
/// # Errors
///
/// [`Usage`] with the groups that could not be listed, and how to name what they hold.
pub(super) fn check_lacking(
    store: &Store,
    all_attributes: bool,
    needs_links: bool,
) -> Result<(), Usage> {
    let declares = store.root().zarr_vectors.attribute_specs().is_some();
    let (mut attributes, mut links) = (Vec::new(), Vec::new());
    for notice in store.notices() {
        let Notice::CannotEnumerate { key } = notice else { continue };
        let name = key.name().unwrap_or_default();
        if matches!(name, "vertex_attributes" | "object_attributes") {
            attributes.push(key.as_str().to_owned());
        } else if key.segments().any(|part| part == "links" || part.starts_with("cross_chunk_link"))
        {
            links.push(key.as_str().to_owned());
        }
    }
    if all_attributes && !declares && !attributes.is_empty() {
        let text = format!(
            "the attributes in {} cannot be listed, and no metadata declares them; name them with \
             --attributes NAMES (or none), or leave them out with --allow-missing",
            attributes.join(", ")
        );
        return refuse(text);
    }
    if needs_links && !links.is_empty() {
        return refuse(format!(
            "the links in {} cannot be listed; leave them out with --no-elements, without a region, \
             or use those that are found with --allow-missing",
            links.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(args: (Option<Format>, Option<&str>, Option<&str>)) -> Result<Output, String> {
        let (format, file, elements) = args;
        let chosen = Output::choose(format, false, file.map(Path::new), elements.map(Path::new));
        chosen.map_err(|usage| usage.to_string())
    }

    #[test]
    fn file_names_determine_formats() {
        for (file, format) in [
            (None, Format::Csv),
            (Some("-"), Format::Csv),
            (Some("a.JSON"), Format::Jsonl),
            (Some("a.ply"), Format::Ply),
            (Some("/dev/null"), Format::Csv),
        ] {
            assert_eq!(choose((None, file, None)).unwrap().format, format, "{file:?}");
        }
        let chosen = choose((Some(Format::Npy), Some("a"), Some("b.csv"))).unwrap();
        assert_eq!((chosen.format, chosen.elements.unwrap().1), (Format::Npy, Format::Csv));
        let chosen = choose((Some(Format::Npy), Some("a"), Some("b"))).unwrap();
        assert_eq!(chosen.elements.unwrap().1, Format::Npy);
    }

    #[test]
    fn unknown_names_are_refused_with_a_list_of_formats() {
        for name in ["x.docx", "x.blend", "x"] {
            let error = choose((None, Some(name), None)).unwrap_err();
            let text = format!("cannot tell the format of --output {name}; ");
            assert!(error.starts_with(&text) && error.contains(".npy, .csv, .jsonl"), "{error}");
            assert!(error.contains(", .swc"), "{error}");
        }
        for (name, text) in [
            ("e.txt", "cannot tell the format of --elements e.txt"),
            ("e.ply", "e.ply cannot hold a table of elements"),
        ] {
            let error = choose((None, None, Some(name))).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        assert!(choose((Some(Format::Ply), None, Some("e.csv"))).is_err());
    }
}
