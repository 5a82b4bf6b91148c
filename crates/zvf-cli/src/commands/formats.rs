//! `zvf formats`.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};
use zvf::convert::Format;
use zvf::convert::format::{
    Attributes, Capabilities, GroupSupport, IdSupport, MissingFormat, UnitSupport,
};

use crate::outcome::{CommandResult, Outcome};
use crate::session::Session;
use crate::table::{self, Table};

/// List the formats that convert, create and query read and write, and what each can hold.
///
/// "stream" is read or written batch by batch, from standard input and to standard output; "ranges" reads a box or
/// single objects without the rest.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf formats
  zvf formats --json | jq '.[] | select(.out) | .name'")]
pub(crate) struct Formats {}

impl Formats {
    #[expect(clippy::unused_self, reason = "commands are run alike")]
    pub(crate) fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        if session.json() {
            let all: Vec<Value> = Format::ALL
                .iter()
                .map(|format| describe(*format))
                .chain(MissingFormat::ALL.iter().map(describe_missing))
                .collect();
            table::json(&all, out)?;
            return Ok(Outcome::Clean);
        }
        let names = [
            "format",
            "names",
            "in",
            "out",
            "kinds",
            "vertex attributes",
            "object attributes",
            "groups",
            "ids",
            "unit",
            "stream",
            "ranges",
        ];
        let mut table = Table::new(&names);
        for format in Format::ALL {
            let can = format.capabilities();
            let yes = |is: bool| if is { "yes" } else { "-" }.to_owned();
            let extensions: Vec<String> =
                format.extensions().iter().map(|end| format!(".{end}")).collect();
            let stream = match (can.streams_in, can.streams_out && format.is_written()) {
                (true, true) => "in, out",
                (true, false) => "in",
                (false, true) => "out",
                (false, false) => "-",
            };
            table.row(vec![
                format.token().to_owned(),
                if can.is_folder { "a folder".to_owned() } else { extensions.join(" ") },
                yes(true),
                yes(format.is_written()),
                kinds(can),
                attributes(can.vertex_attributes),
                attributes(can.object_attributes),
                groups(can.groups).to_owned(),
                ids(can.ids),
                unit(can.units).to_owned(),
                stream.to_owned(),
                yes(can.ranges),
            ]);
        }
        table.print("", out)?;
        for missing in MissingFormat::ALL {
            writeln!(out, "{missing}")?;
        }
        Ok(Outcome::Clean)
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

fn kinds(can: &Capabilities) -> String {
    if can.kinds.len() == zvf::Kind::ALL.len() {
        return "all".to_owned();
    }
    let kinds: Vec<&str> = can.kinds.iter().map(|kind| kind.token()).collect();
    kinds.join(", ")
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
