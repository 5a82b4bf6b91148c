//! Rendering a query.

use async_recursion::async_recursion as boxed;
use futures_util::StreamExt as _;
use zvf_error::Result;
use zvf_format::num::{f64_from_u64, to_u64};
use zvf_metadata::Axis;
use zvf_model::{Kind, LevelReader};
use zvf_query::{Columns, Query, QueryPlan, Reader};

use crate::canvas::Canvas;
use crate::error::setting_error;
use crate::ink::{Meaning, Tint};
use crate::legend::{self, Captions};
use crate::options::{ColourBy, Options};
use crate::paint::{Drawn, Painter};
use crate::picture::Picture;
use crate::size::Size;
use crate::view::{Camera, View};

/// Draws the result of `query`.
///
/// The query selects what is drawn: its level, region, objects and conditions. The options
/// determine the columns. Batches are drawn as they arrive, and not kept.
///
/// # Errors
///
/// When an option is invalid for this store, the query cannot be answered, or its attribute does not exist.
#[boxed]
pub async fn render(reader: &Reader, query: &Query, options: &Options) -> Result<Picture> {
    if options.legend == Some(true) && !options.size.has_room(legend::MIN_SIZE) {
        let expected = format!("at least {} for a legend", legend::MIN_SIZE);
        return Err(setting_error("size", &expected, options.size));
    }
    let plan = reader.plan(query).await?;
    let level = reader.level(plan.level).await?;
    let axes = axes(options, level.axes())?;
    let camera = camera(reader, options, axes)?;
    let names = reader.store().root().axes();
    let source = source(options, &plan, &level, (names, axes)).await?;
    let dot = options.width.unwrap_or_else(|| width(options.size, &plan, 0.25, 7.0));
    let line = options.width.unwrap_or_else(|| width(options.size, &plan, 0.08, 3.0));
    let (meaning, drawn) = (Meaning::Colours, Drawn::default());
    let canvas = Canvas::new(options.size);
    let query = with_columns(query.clone().uncached(), &source, plan.kind);
    let mut painter = Painter { canvas, camera, axes, source, meaning, dot, line, drawn };
    let mut batches = reader.stream(query);
    while let Some(batch) = batches.next().await {
        painter.draw(&batch?);
    }
    let unit = common_unit(names, axes);
    let axes = axes.map(|axis| axis.map(|axis| axis_name(names, axis)));
    Ok(Picture::from_painter(&painter, &Captions { axes, unit }, options))
}

/// Adds the columns that the colours need to the query.
fn with_columns(query: Query, source: &Tint, kind: Kind) -> Query {
    match source {
        Tint::Plain | Tint::Depth | Tint::Direction | Tint::Axis(..) => {
            query.columns(Columns::None)
        }
        // A part of a chain belongs to an object; for other kinds the query returns owners.
        Tint::Object if kind.is_chain() => query.columns(Columns::None),
        Tint::Object => query.columns(Columns::None).with_owners(),
        Tint::Attribute(name) => query.columns(Columns::Named(vec![name.clone()])),
    }
}

async fn source(
    options: &Options,
    plan: &QueryPlan,
    level: &LevelReader,
    (names, drawn): (&[Axis], [Option<usize>; 3]),
) -> Result<Tint> {
    let coordinate = |axis: usize| Tint::Axis(axis, axis_name(names, axis));
    let [_, _, third] = drawn;
    Ok(match &options.colour {
        ColourBy::Plain => Tint::Plain,
        ColourBy::Object => Tint::Object,
        ColourBy::Depth => Tint::Depth,
        ColourBy::Direction if matches!(plan.kind, Kind::PointCloud | Kind::Mesh) => {
            let expected = "a kind with lines or edges for their direction";
            return Err(setting_error("colour", expected, plan.kind));
        }
        ColourBy::Direction => Tint::Direction,
        ColourBy::Named(name) => {
            let axis = names.iter().position(|axis| axis.name == *name);
            let attribute = name.strip_prefix("vertex.").unwrap_or(name);
            axis.map_or_else(|| Tint::Attribute(attribute.to_owned()), coordinate)
        }
        ColourBy::Usual if plan.kind == Kind::PointCloud => third.map_or(Tint::Plain, coordinate),
        ColourBy::Usual if plan.kind == Kind::Streamline => Tint::Direction,
        ColourBy::Usual if level.objects().await?.is_some() => Tint::Object,
        ColourBy::Usual => Tint::Plain,
    })
}

/// Returns the name of an axis: its number if the root document names none.
fn axis_name(names: &[Axis], axis: usize) -> String {
    names.get(axis).map_or_else(|| axis.to_string(), |axis| axis.name.clone())
}

/// Returns the unit that all drawn axes have.
fn common_unit(names: &[Axis], drawn: [Option<usize>; 3]) -> Option<&str> {
    let mut units = drawn.iter().flatten().map(|axis| names.get(*axis)?.unit.as_deref());
    let first = units.next().flatten()?;
    units.all(|unit| unit == Some(first)).then_some(first)
}

/// Returns the axes that are drawn.
fn axes(options: &Options, axis_count: usize) -> Result<[Option<usize>; 3]> {
    let chosen: Vec<usize> = match &options.axes {
        Some(axes) => axes.clone(),
        None => (0..axis_count.min(3)).collect(),
    };
    let in_store = chosen.iter().all(|axis| *axis < axis_count);
    let mut drawn = chosen.iter().copied().map(Some).chain(std::iter::repeat(None));
    let drawn = [(); 3].map(|()| drawn.next().flatten());
    let [first, second, third] = drawn;
    let twice = chosen.len() > 1
        && (first == second || (third.is_some() && (third == first || third == second)));
    if chosen.is_empty() || chosen.len() > 3 || !in_store || twice {
        let expected = "one to three different axes of the store";
        return Err(setting_error("axes", expected, format!("{chosen:?} of {axis_count}")));
    }
    Ok(drawn)
}

/// Returns the camera for the requested bounds, or those of the store.
fn camera(reader: &Reader, options: &Options, axes: [Option<usize>; 3]) -> Result<Camera> {
    let [low, high] = match &options.bounds {
        Some(bounds) => [bounds.low(), bounds.high()],
        None => reader.store().root().zarr_vectors.bounds.each_ref().map(Vec::as_slice),
    };
    let along = |corner: &[f64]| {
        axes.map(|axis| axis.map_or(0.0, |axis| corner.get(axis).copied().unwrap_or(f64::NAN)))
    };
    let [_, _, third] = axes;
    let usual = if third.is_some() { View::CORNER } else { View::TOP };
    let view = options.view.unwrap_or(usual);
    Camera::new(along(low), along(high), view, options.size, margin(options.size))
}

/// Returns the default width: few things are drawn wide enough to be visible, many so that they do
/// not cover each other.
fn width(size: Size, plan: &QueryPlan, share: f64, max_width: f64) -> u32 {
    let room = f64_from_u64(to_u64(size.area())) / f64_from_u64(plan.rows.max(1));
    let width = (room.sqrt() * share).clamp(1.0, max_width);
    crate::colour::round_u8(width).into()
}

/// Returns the margin on each side in pixels.
fn margin(size: Size) -> f64 {
    f64::from(size.width.min(size.height)) * MARGIN
}

/// The margin on each side as a fraction of the picture.
const MARGIN: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_that_of_all_drawn_axes_and_a_nameless_axis_has_its_number() {
        let axis = |unit: &str| Axis { unit: Some(unit.to_owned()), ..Axis::space("x") };
        let names = [axis("mm"), axis("mm"), axis("s"), Axis::space("c")];
        let pairs = [[0, 1], [0, 2], [3, 0], [1, 4]].map(|[a, b]| [Some(a), Some(b), None]);
        assert_eq!(pairs.map(|drawn| common_unit(&names, drawn)), [Some("mm"), None, None, None]);
        assert_eq!([0, 4].map(|axis| axis_name(&names, axis)), ["x", "4"]);
    }
}
