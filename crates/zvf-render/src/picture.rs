//! A finished picture, and writing it to a file.

use std::io::{self, Write};

use png::{BitDepth, ColorType, Compression, Encoder};

use zvf_error::{Error, Result};

use crate::canvas::{Canvas, Pixel};
use crate::colour::{ColourMap, Rgb, UNKNOWN, round_u8, shade_colour};
use crate::error::write_error;
use crate::ink::{Ink, Meaning};
use crate::legend::{self, Captions, Sheet, number};
use crate::options::{Ground, Options};
use crate::paint::{Drawn, Painter};
use crate::size::Size;

/// A picture.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf_query::{Query, Reader};
/// use zvf_render::{Options, Size, render};
///
/// let reader = Reader::new(zvf_store::Store::open(path, Default::default()).await?);
/// let options = Options { size: Size::new(64, 32)?, ..Options::default() };
/// let picture = render(&reader, &Query::all(), &options).await?;
/// assert_eq!((picture.size().width(), picture.points()), (64, 3));
///
/// let mut file = Vec::new();
/// picture.write_png(&mut file)?;
/// assert!(file.starts_with(b"\x89PNG"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    size: Size,
    transparent: bool,
    bytes: Vec<u8>, // row by row from the top; four per pixel where transparent, else three
    range: Option<[f64; 2]>,
    drawn: Drawn,
}

impl Picture {
    /// Converts the inks of the canvas to colours, and draws the legend over it.
    pub(crate) fn from_painter(
        painter: &Painter,
        captions: &Captions<'_>,
        options: &Options,
    ) -> Self {
        let Painter { canvas, meaning, drawn, .. } = painter;
        let range = match meaning {
            Meaning::Colours => None,
            Meaning::Numbers => options.range.or_else(|| value_range(canvas)),
        };
        // Without a range, no finite number is visible.
        let colours = Colours::new(options.map, *meaning, range.unwrap_or_default());
        let transparent = options.ground == Ground::Transparent;
        let mut bytes = Vec::with_capacity(canvas.size().area() * 4);
        for pixel in canvas.pixels() {
            let colour = match (is_drawn(pixel), options.ground) {
                (true, _) => shade_colour(colours.resolve(pixel.ink), pixel.shade),
                (false, Ground::Colour(ground)) => ground,
                (false, Ground::Transparent) => [0; 3],
            };
            bytes.extend(colour);
            if transparent {
                bytes.push(if is_drawn(pixel) { u8::MAX } else { 0 });
            }
        }
        let has_room = canvas.size().has_room(legend::ROOM);
        if options.legend.unwrap_or(has_room) {
            let ink = if options.ground == Ground::BLACK { [233, 236, 241] } else { [23, 26, 32] };
            let stride = if transparent { 4 } else { 3 };
            let mut sheet = Sheet { size: canvas.size(), bytes: &mut bytes, stride, ink };
            if let Some([low, high]) = range {
                let [least, most] = value_range(canvas).unwrap_or([low, high]);
                let below = if least < low { "≤ " } else { "" }.to_owned() + &number(low);
                let above = if most > high { "≥ " } else { "" }.to_owned() + &number(high);
                sheet.legend(painter.source.title(), options.map, [&below, &above]);
            }
            if has_room {
                sheet.scale_bar(&painter.camera, captions.unit);
                sheet.axes(&painter.camera, &captions.axes);
            }
        }
        Self { size: canvas.size(), transparent, bytes, range, drawn: *drawn }
    }

    /// Returns the size.
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Returns the numbers at the two ends of the colour map, if an attribute or the depth
    /// determines the colour and is visible. Depths are in pixels.
    pub const fn range(&self) -> Option<[f64; 2]> {
        self.range
    }

    /// Returns the number of drawn points.
    pub const fn points(&self) -> u64 {
        self.drawn.points
    }

    /// Returns the number of drawn lines: edges, and segments of polylines.
    pub const fn lines(&self) -> u64 {
        self.drawn.lines
    }

    /// Returns the number of drawn faces.
    pub const fn faces(&self) -> u64 {
        self.drawn.faces
    }

    /// Returns the number of vertices without a finite position: they and their elements are not
    /// drawn.
    pub const fn unplaced_vertices(&self) -> u64 {
        self.drawn.nowhere
    }

    /// Returns red, green, blue and opacity of the pixel in a column from the left and a row from the top.
    pub fn pixel(&self, column: u32, row: u32) -> Option<[u8; 4]> {
        if column >= self.size.width || row >= self.size.height {
            return None;
        }
        let stride = if self.transparent { 4 } else { 3 };
        match *self.bytes.get(self.size.index(column, row) * stride..)? {
            [red, green, blue, opaque, ..] if self.transparent => Some([red, green, blue, opaque]),
            [red, green, blue, ..] => Some([red, green, blue, u8::MAX]),
            _ => None,
        }
    }

    /// Writes it as a PNG file.
    ///
    /// # Errors
    ///
    /// When `out` cannot be written.
    pub fn write_png(&self, out: impl Write) -> Result<()> {
        let mut encoder = Encoder::new(out, self.size.width, self.size.height);
        encoder.set_color(if self.transparent { ColorType::Rgba } else { ColorType::Rgb });
        encoder.set_depth(BitDepth::Eight);
        encoder.set_compression(Compression::Balanced);
        let mut file = encoder.write_header().map_err(encoding_error)?;
        file.write_image_data(&self.bytes).map_err(encoding_error)?;
        file.finish().map_err(encoding_error)?;
        Ok(())
    }
}

/// Converts inks to colours.
struct Colours {
    table: Option<Vec<Rgb>>, // 256 steps of a map, where inks are numbers
    low: f64,
    extent: f64,
}

impl Colours {
    fn new(map: ColourMap, meaning: Meaning, [low, high]: [f64; 2]) -> Self {
        let steps = || (0..=u8::MAX).map(|step| map.colour(f64::from(step) / 255.0)).collect();
        let table = (meaning == Meaning::Numbers).then(steps);
        Self { table, low, extent: high - low }
    }

    fn resolve(&self, ink: Ink) -> Rgb {
        let Some(table) = &self.table else { return ink.as_colour() };
        let value = ink.as_number();
        // A constant value gets the middle of the map.
        let share = if self.extent == 0.0 { 0.5 } else { (value - self.low) / self.extent };
        if value.is_nan() || share.is_nan() {
            return UNKNOWN;
        }
        table.get(usize::from(round_u8(share * 255.0))).copied().unwrap_or(UNKNOWN)
    }
}

/// Returns the minimum and the maximum of the visible finite numbers.
fn value_range(canvas: &Canvas) -> Option<[f64; 2]> {
    let drawn = canvas.pixels().iter().filter(|pixel| is_drawn(pixel));
    let numbers = drawn.map(|pixel| pixel.ink.as_number()).filter(|x| x.is_finite());
    numbers.fold(None, |range, x| {
        let [low, high] = range.unwrap_or([x; 2]);
        Some([low.min(x), high.max(x)])
    })
}

fn is_drawn(pixel: &Pixel) -> bool {
    pixel.near > f32::NEG_INFINITY
}

#[expect(clippy::wildcard_enum_match_arm, reason = "whatever else there is goes into the error")]
fn encoding_error(error: png::EncodingError) -> Error {
    write_error(match error {
        png::EncodingError::IoError(error) => error,
        other => io::Error::other(other),
    })
}
