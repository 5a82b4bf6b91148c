//! `zvf formats`.

use clap::Args;
use serde_json::{Value, json};
use zvf::convert::Format;
use zvf::convert::format::{
    Attributes, Capabilities, GroupSupport, IdSupport, MissingFormat, UnitSupport,
};

use crate::outcome::CommandResult;
use crate::session::Session;
use crate::table;

/// List the formats that convert, create and query read and write, and what each can hold.
///
/// "stream" is read or written batch by batch, from standard input and to standard output. With a name, everything about
/// that format is listed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf formats
  zvf formats ply
  zvf formats --json | jq '.[] | select(.out) | .name'")]
pub(crate) struct Formats {
    /// Everything about this format only.
    #[arg(value_parser = super::how::format)]
    format: Option<Format>,
}

impl Formats {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        let listed =
            Format::ALL.iter().filter(|format| self.format.is_none_or(|one| one == **format));
        let missing = MissingFormat::ALL.iter().filter(|_| self.format.is_none());
        let all: Vec<Value> = listed
            .clone()
            .map(|format| describe(*format))
            .chain(missing.clone().map(describe_missing))
            .collect();
        session.print(&all, |out| {
            if let (Some(_), [Value::Object(one)]) = (self.format, all.as_slice()) {
                for (name, value) in one {
                    let text = match (value.as_bool(), value.as_array()) {
                        (Some(is), _) => if is { "yes" } else { "-" }.to_owned(),
                        (None, Some(list)) => {
                            let between =
                                if name == "options" { "\n                    " } else { ", " };
                            list.iter().map(table::format_value).collect::<Vec<_>>().join(between)
                        }
                        (None, None) => table::format_value(value),
                    };
                    writeln!(out, "{:<18}  {text}", name.replace('_', " "))?;
                }
                return Ok(());
            }
            let rows = listed.map(|format| {
                let can = format.capabilities();
                let stream = match (can.streams_in, can.streams_out && format.is_written()) {
                    (true, true) => "in, out",
                    (true, false) => "in",
                    (false, true) => "out",
                    (false, false) => "-",
                };
                let extension = format.extensions().first().filter(|_| !can.is_folder);
                vec![
                    format.token().to_owned(),
                    extension.map_or_else(|| "a folder".to_owned(), |end| format!(".{end}")),
                    if format.is_written() { "yes" } else { "-" }.to_owned(),
                    kinds(can),
                    summarize(can.vertex_attributes),
                    summarize(can.object_attributes),
                    stream.to_owned(),
                ]
            });
            let titles = "format, name, out, kinds, attributes, of objects, stream";
            table::print(out, "", titles.split(", "), rows)?;
            Ok(missing.into_iter().try_for_each(|missing| writeln!(out, "{missing}"))?)
        })
    }
}

fn describe(format: Format) -> Value {
    let can = format.capabilities();
    json!({
        "name": format.token(),
        "title": format.name(),
        "extensions": format.extensions(),
        "is_folder": can.is_folder,
        "in": true,
        "out": format.is_written(),
        "kinds": can.kinds.iter().map(|kind| kind.token()).collect::<Vec<_>>(),
        "several_kinds": can.several_kinds,
        "axes": [can.axes.0, can.axes.1],
        "positions": attributes(can.positions),
        "vertex_attributes": attributes(can.vertex_attributes),
        "object_attributes": attributes(can.object_attributes),
        "elements": can.elements,
        "element_attributes": attributes(can.element_attributes),
        "groups": groups(can.groups),
        "ids": ids(can.ids),
        "unit": unit(can.units),
        "streams_in": can.streams_in,
        "streams_out": can.streams_out && format.is_written(),
        "ranges": can.ranges,
        "options": can.options.iter().map(|(name, what)| format!("{name}: {what}")).collect::<Vec<_>>(),
    })
}

fn describe_missing(format: &MissingFormat) -> Value {
    json!({
        "name": format.token,
        "extensions": format.extensions,
        "in": false,
        "out": false,
        "missing_feature": format.feature,
    })
}

/// Names the kinds; the three of lines go together in all formats.
fn kinds(can: &Capabilities) -> String {
    let word = |kind: &zvf::Kind| match kind.token() {
        "point_cloud" => "points",
        "line" | "polyline" | "streamline" => "lines",
        token => token,
    };
    let name_all = |kinds: &[zvf::Kind]| {
        let mut words: Vec<&str> = kinds.iter().map(word).collect();
        words.dedup();
        words
    };
    let words = name_all(can.kinds);
    if words.len() == name_all(zvf::Kind::ALL).len() { "all".to_owned() } else { words.join(", ") }
}

/// Returns what attributes may be, without the list of types.
fn summarize(can: Attributes) -> String {
    match can {
        Attributes::Types([only]) => (*only).to_owned(),
        Attributes::Types(_) => "some numbers".to_owned(),
        Attributes::None | Attributes::Numbers | Attributes::All => attributes(can),
    }
}

fn attributes(can: Attributes) -> String {
    match can {
        Attributes::None => "-".to_owned(),
        Attributes::Types(types) => types.join(", "),
        Attributes::Numbers => "numbers".to_owned(),
        Attributes::All => "numbers, text".to_owned(),
    }
}

const fn groups(can: GroupSupport) -> &'static str {
    match can {
        GroupSupport::None => "-",
        GroupSupport::Members => "members",
        GroupSupport::Attributes => "members, attributes",
    }
}

fn ids(can: IdSupport) -> String {
    match can {
        IdSupport::None => "-".to_owned(),
        IdSupport::Order => "by order".to_owned(),
        IdSupport::Bits(bits) => format!("{bits} bits"),
    }
}

const fn unit(can: UnitSupport) -> &'static str {
    match can {
        UnitSupport::None => "-",
        UnitSupport::Fixed(unit) => unit,
        UnitSupport::Any => "any",
    }
}
