//! `zvf render`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::{Value, json};
use zvf::question::axis_names;
use zvf::render::{ColourBy, ColourMap, Ground, Options, Picture, Size, View, render};
use zvf::{Kind, LevelRule, Mode, Query};

use zvf::Error;

use crate::arguments::{Ids, find_axis, ids, level_rule, word};
use crate::commands::query::region::bbox;
use crate::commands::query::with_advice;
use crate::outcome::{CommandResult, Outcome, Usage};
use crate::session::Session;
use crate::table::{self, format_count};
use crate::target::{Out, check_extension};

/// Draw a level: an image of its points, lines or faces from one viewpoint.
///
/// The projection is orthographic. The geometry is read batch by batch and not kept, so the store
/// may be of any size. The
/// image takes 16 bytes of memory per pixel.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf render brain.zarrvectors -o brain.png
  zvf render brain.zarrvectors --level 2 -o coarse.png --size 640x480
  zvf render scan.zarrvectors -o scan.png --colour intensity --range 0:255 --colormap magma --view top
  zvf render s3://bucket/tracts.zarrvectors -o part.png --bbox 0,0,0:50,50,50 --background black")]
pub(crate) struct Render {
    /// The store: a folder or a URL.
    store: String,
    /// The image: a PNG file, written atomically.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Replace the image if it exists.
    #[arg(long)]
    overwrite: bool,
    /// The level: a number, or a rule: vertices=N, bytes=SIZE, error=X, screen=WIDTH/PIXELS.
    #[arg(long, value_name = "N|RULE", default_value = "0", value_parser = level_rule)]
    level: LevelRule,
    /// Draw this kind, where the store holds several.
    #[arg(long)]
    kind: Option<Kind>,
    /// The size in pixels: width and height, or one for a square.
    #[arg(long, value_name = "WxH", default_value = "1024x1024", value_parser = word::<Size>)]
    size: Size,
    /// The viewpoint: top, front, side, corner; right, left, anterior, posterior, superior,
    /// inferior; or degrees around the third axis and above the plane of the others [default:
    /// corner; top where there are two axes].
    #[arg(long, value_name = "VIEW", value_parser = word::<View>, allow_hyphen_values = true)]
    view: Option<View>,
    /// The axes that are drawn, two or three, by name or number [default: the first three].
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    axes: Vec<String>,
    /// Draw only this box, which fills the image: its lowest and its highest corner.
    #[arg(long, value_name = "X,Y,Z:X,Y,Z", allow_hyphen_values = true)]
    bbox: Option<String>,
    /// Only these objects: 7,9,20..30 (the end of a range is not included).
    #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true)]
    objects: Option<Ids>,
    /// Only rows for which this is true, such as "intensity > 3".
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true)]
    predicate: Option<String>,
    /// The source of the colour: plain, object, depth, direction, an axis, or an attribute (also
    /// object.NAME or fragment.NAME; vertex.plain for an attribute with one of these names)
    /// [default: the third axis for points, the direction for streamlines, object for others].
    #[arg(long, alias = "color", value_name = "WHAT")]
    colour: Option<ColourBy>,
    /// The colour map of numbers: viridis, magma, grey or coolwarm.
    #[arg(long = "colormap", alias = "map", value_name = "MAP", default_value = "viridis", value_parser = word::<ColourMap>)]
    map: ColourMap,
    /// The values at both ends of the map [default: the visible minimum and maximum].
    #[arg(long, value_name = "LOW:HIGH", value_parser = range, allow_hyphen_values = true)]
    range: Option<[f64; 2]>,
    /// The width of points and lines in pixels [default: by their number].
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(1..=64))]
    width: Option<u32>,
    /// The background: white, black or transparent.
    #[arg(long = "background", alias = "ground", default_value = "white", value_parser = word::<Ground>)]
    ground: Ground,
    /// Draw a legend: the scale of the colours, a scale bar, and the directions of the axes
    /// [default: yes, from 424x160 pixels].
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true,
        default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    legend: Option<bool>,
}

impl Render {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let begun = Instant::now();
        let rule = "images are written as PNG only";
        check_extension(&self.output, "png", rule, self.overwrite)?;
        let reader = session.reader(&self.store).await?;
        let options = self.options(&axis_names(reader.store()))?;
        let query = self.query(&options)?;
        let drawn = session.during("drawing", render(&reader, &query, &options)).await;
        let picture = with_advice(&reader, drawn).await?;
        let mut file = Out::file(&self.output, session.interrupt())?;
        picture.write_png(&mut file)?;
        file.finish()?;
        let seconds = begun.elapsed().as_secs_f64();
        session.print(&self.json(&picture, seconds), |out| {
            Ok(writeln!(
                out,
                "{}: {} in {seconds:.2} s",
                self.output.display(),
                sentence(&picture)
            )?)
        })?;
        session.print_store_notices(reader.store())?;
        let nowhere = picture.unplaced_vertices();
        let nowhere = (nowhere > 0).then(|| {
            format!("{} left out: the position is not finite", format_count(nowhere, "vertex"))
        });
        session.print_notices(nowhere)?;
        Ok(Outcome::Clean)
    }

    fn options(&self, names: &[String]) -> anyhow::Result<Options> {
        let axis = |name: &String| {
            find_axis(name, names).ok_or_else(|| {
                let known = names.join(", ");
                Usage::new(format!("there is no axis {name:?}; the axes are {known}"))
            })
        };
        let axes: Result<Vec<usize>, Usage> = self.axes.iter().map(axis).collect();
        let axes = axes?;
        Ok(Options {
            size: self.size,
            view: self.view,
            axes: (!axes.is_empty()).then_some(axes),
            bounds: self.bbox.as_deref().map(bbox).transpose()?,
            colour: self.colour.clone().unwrap_or_default(),
            map: self.map,
            range: self.range,
            width: self.width,
            ground: self.ground,
            legend: self.legend,
        })
    }

    fn query(&self, options: &Options) -> anyhow::Result<Query> {
        let mut query = Query::all().level(self.level);
        if let Some(bounds) = options.bounds {
            // Geometry that crosses the box is cut at its faces.
            query = query.in_region(bounds).mode(Mode::Clip);
        }
        query.kind = self.kind;
        query.objects.clone_from(&self.objects);
        if let Some(text) = &self.predicate {
            query = query.filter(text.parse().map_err(Error::from)?);
        }
        Ok(query)
    }

    fn json(&self, picture: &Picture, seconds: f64) -> Value {
        json!({
            "store": self.store,
            "file": self.output.display().to_string(),
            "width": picture.size().width(),
            "height": picture.size().height(),
            "points": picture.points(),
            "lines": picture.lines(),
            "faces": picture.faces(),
            "nowhere": picture.unplaced_vertices(),
            "range": picture.range(),
            "seconds": seconds,
        })
    }
}

/// Describes the contents of a picture.
fn sentence(picture: &Picture) -> String {
    let counts =
        [(picture.points(), "point"), (picture.lines(), "line"), (picture.faces(), "face")];
    let mut words = table::counts(counts.into_iter().filter(|(count, _)| *count > 0));
    if words.is_empty() {
        words.push_str("nothing");
    }
    let range = picture.range().map(|[low, high]| {
        let [low, high] = [low, high].map(table::number);
        format!(", colours from {low} to {high}")
    });
    format!("{words}{}", range.unwrap_or_default())
}

fn range(text: &str) -> Result<[f64; 2], String> {
    let finite = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    let ends = text.split_once(':').and_then(|(low, high)| finite(low).zip(finite(high)));
    let (low, high) = ends.ok_or_else(|| "expected two numbers, such as 0:255".to_owned())?;
    Ok([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_colours_and_ranges() {
        assert_eq!(ColourBy::from("object"), ColourBy::Object);
        assert_eq!(ColourBy::from("vertex.object"), ColourBy::Named("vertex.object".into()));
        assert_eq!(ColourBy::from("object.mass"), ColourBy::Named("object.mass".into()));
        assert_eq!(range("-1:2.5"), Ok([-1.0, 2.5]));
        for text in ["", "1", "1:", "0:inf", "a:b"] {
            assert_eq!(range(text).unwrap_err(), "expected two numbers, such as 0:255");
        }
    }
}
