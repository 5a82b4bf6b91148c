//! Compares the public names with those that `testdata/surface` records: commands with their
//! options, formats, and the names of the Python package.
//!
//! `ZVF_REWRITE=1 cargo test -p zvf-cli surface` records a change, so that the diff of the commit
//! shows it.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use zvf::convert::Format;

use crate::cli::Cli;

#[test]
fn no_command_and_no_option_changes_unseen() {
    let mut command = Cli::command();
    command.build();
    let mut lines = Vec::new();
    list_command(&command, "zvf", &mut lines);
    archives::check_surface("commands.txt", lines, is_bigger_build());
}

/// Adds a line for the command and each of its arguments, then its subcommands. Global options are
/// listed for `zvf` only.
fn list_command(command: &clap::Command, path: &str, lines: &mut Vec<String>) {
    let help = command.clone().render_help().to_string();
    let is_short = help.contains("Examples:\n  ") && help.lines().count() <= 60;
    assert!(is_short || path == "zvf", "60 lines and an example: {path}\n{help}");
    let aliases: Vec<&str> = command.get_all_aliases().collect();
    lines.push(format!("{path} {}", aliases.join(" ")).trim_end().to_owned());
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if id == "help" || id == "version" || argument.is_global_set() && path != "zvf" {
            continue;
        }
        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
        let short = argument.get_short_and_visible_aliases().unwrap_or_default();
        let mut names: Vec<String> = long.iter().map(|name| format!("--{name}")).collect();
        names.extend(short.iter().map(|name| format!("-{name}")));
        names.sort();
        if argument.is_positional() {
            names.push(id.to_owned());
        }
        let values: Vec<String> = match argument.get_action().takes_values() {
            true => {
                argument.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect()
            }
            false => Vec::new(),
        };
        let takes = match argument.get_num_args().map_or(0, |range| range.max_values()) {
            0 => "",
            1 => " VALUE",
            _ => " VALUES",
        };
        let needed = if argument.is_required_set() { " required" } else { "" };
        let values =
            if values.is_empty() { String::new() } else { format!(" {}", values.join("|")) };
        lines.push(format!("{path} {}{takes}{values}{needed}", names.join(" ")));
    }
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        list_command(subcommand, &format!("{path} {}", subcommand.get_name()), lines);
    }
}

#[test]
fn no_format_changes_unseen() {
    let formats = Format::ALL.iter().filter(|format| format.token() != "dots");
    let lines = formats.map(|format| {
        let directions = if format.is_written() { "read write" } else { "read" };
        format!("{} {} {directions}", format.token(), format.extensions().join(" "))
    });
    archives::check_surface("formats.txt", lines.collect(), is_bigger_build());
}

/// Returns whether the build has more than the default features, and so possibly more names than
/// the list.
fn is_bigger_build() -> bool {
    cfg!(any(
        feature = "xz",
        feature = "h5ad",
        feature = "icechunk",
        feature = "gcs",
        feature = "azure",
        feature = "reference"
    ))
}

#[test]
fn no_name_of_the_python_package_changes_unseen() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zvf-py/python/zvf");
    let mut lines = Vec::new();
    list_module(&package, "zvf", &mut lines);
    archives::check_surface("python.txt", lines, false);
}

/// Adds the public classes, functions and methods of the modules in a folder, and what each module
/// exports.
fn list_module(folder: &Path, module: &str, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_package = name == "__init__";
        if name.starts_with('_') && !is_package {
            continue;
        }
        let module = if is_package { module.to_owned() } else { format!("{module}.{name}") };
        if path.is_dir() {
            list_module(&path, &module, lines);
        } else if path.extension().is_some_and(|extension| extension == "py") {
            list_names(&fs::read_to_string(&path).unwrap(), &module, lines);
        }
    }
}

fn list_names(text: &str, module: &str, lines: &mut Vec<String>) {
    let exported = text.split_once("__all__").and_then(|(_, rest)| rest.split_once([']', ')']));
    for name in exported.map_or("", |(list, _)| list).split('"').skip(1).step_by(2) {
        lines.push(format!("{module} exports {name}"));
    }
    let mut class = None;
    for line in text.lines() {
        let word = line.trim_start().trim_start_matches("async ");
        let (indent, found) = (line.len() - line.trim_start().len(), word.split_once(' '));
        let Some((kind @ ("class" | "def"), rest)) = found.filter(|_| indent == 0 || indent == 4)
        else {
            class = class
                .filter(|_| indent > 0 || line.is_empty() || line.starts_with([')', '#', '"']));
            continue;
        };
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
        let is_private = name.starts_with('_') && name != "__init__";
        match (kind, indent) {
            ("class", 0) => class = Some(name).filter(|_| !is_private),
            ("def", 0) => class = None,
            _ => {}
        }
        let owner = match (indent, class) {
            (0, _) => module.to_owned(),
            (_, Some(class)) => format!("{module}.{class}"),
            _ => continue,
        };
        if !is_private {
            lines.push(format!("{owner} {kind} {name}"));
        }
    }
}
