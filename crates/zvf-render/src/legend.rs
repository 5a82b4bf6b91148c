//! The legend of a picture, as in the viewer: the source of the colours, their map and the numbers
//! at its ends; a scale bar; and the directions of the axes.

use zvf_format::num::{index_u32, saturating_floor_i64, usize_from_u32};

use crate::colour::{ColourMap, Rgb};
use crate::size::Size;
use crate::view::Camera;

/// The words of a legend: the names of the drawn axes, and their unit.
pub(crate) struct Captions<'a> {
    pub(crate) axes: [Option<String>; 3],
    pub(crate) unit: Option<&'a str>,
}

/// A picture that is drawn over.
pub(crate) struct Sheet<'a> {
    pub(crate) size: Size,
    /// The rows from the top, with `stride` bytes for each pixel; a fourth byte is its opacity.
    pub(crate) bytes: &'a mut [u8],
    pub(crate) stride: usize,
    /// The colour of letters.
    pub(crate) ink: Rgb,
}

impl Sheet<'_> {
    /// Draws the scale of the colours into the lower right corner.
    pub(crate) fn legend(&mut self, title: &str, map: ColourMap, ends: [&str; 2]) {
        let [low, high] = ends;
        let left = self.size.width.saturating_sub(RAMP + MARGIN);
        let top = self.size.height.saturating_sub(3 * LINE + MARGIN);
        self.text([left, top], title);
        for x in 0..RAMP {
            let colour = map.colour(f64::from(x) / f64::from(RAMP - 1));
            for y in 0..LINE - 4 {
                self.put([left + x, top + LINE + y], colour);
            }
        }
        self.text([left, top + 2 * LINE], low);
        let width = index_u32(high.chars().count() * GLYPH).min(RAMP);
        self.text([left + RAMP - width, top + 2 * LINE], high);
    }

    /// Draws a bar of a round length into the lower left corner.
    pub(crate) fn scale_bar(&mut self, camera: &Camera, unit: Option<&str>) {
        let most = (f64::from(RAMP) / camera.scale).min(f64::MAX);
        let power = 10_f64.powf(most.log10().floor());
        let rounded = [5.0, 2.0].map(|times| times * power).into_iter().find(|x| *x <= most);
        let length = rounded.unwrap_or(power);
        let text = number(length);
        let label = unit.map_or_else(|| text.clone(), |unit| format!("{text} {unit}"));
        let bar = self.size.height - MARGIN;
        self.text([MARGIN, bar - LINE], &label);
        for x in MARGIN..=MARGIN + nearest(length * camera.scale) {
            self.put([x, bar], self.ink);
            self.put([x, bar + 1], self.ink);
        }
    }

    /// Draws the directions of the axes above the scale bar, with their names.
    pub(crate) fn axes(&mut self, camera: &Camera, names: &[Option<String>; 3]) {
        let from = [MARGIN + ARM + GLYPH_WIDTH, self.size.height - 2 * MARGIN - LINE - ARM];
        let [x, y] = from.map(f64::from);
        let arms = camera.axis_ends().into_iter().zip(DIRECTIONS).zip(names);
        let drawn = arms.filter_map(|(arm, name)| Some((arm, name.as_ref()?)));
        for (([right, down], colour), name) in drawn {
            let at = |share: f64| [x + right * share, y + down * share].map(nearest);
            for step in 0..=ARM {
                self.put(at(step.into()), colour);
            }
            let [left, top] = at(f64::from(ARM + GLYPH_WIDTH));
            self.text([left.saturating_sub(GLYPH_WIDTH / 2), top.saturating_sub(LINE / 2)], name);
        }
    }

    fn text(&mut self, [left, top]: [u32; 2], text: &str) {
        for (at, letter) in (left..).step_by(GLYPH).zip(text.chars().take(MAX_LETTERS)) {
            let glyph = GLYPHS.chars().position(|known| known == letter).unwrap_or(UNKNOWN);
            for (y, row) in (top..).zip(FONT.lines()) {
                let dots = row.bytes().skip(glyph * GLYPH).take(GLYPH);
                for (x, _) in (at..).zip(dots).filter(|(_, dot)| *dot == b'#') {
                    self.put([x, y], self.ink);
                }
            }
        }
    }

    fn put(&mut self, [x, y]: [u32; 2], [red, green, blue]: Rgb) {
        if x >= self.size.width || y >= self.size.height {
            return;
        }
        let at = self.size.index(x, y) * self.stride;
        for (byte, value) in
            self.bytes.iter_mut().skip(at).zip([red, green, blue, u8::MAX]).take(self.stride)
        {
            *byte = value;
        }
    }
}

/// Formats a number like the viewer, with five digits.
pub(crate) fn number(x: f64) -> String {
    format!("{x:.4e}").parse::<f64>().unwrap_or(x).to_string()
}

/// Returns the pixel of a place; 0 for one that is left of the picture or above it.
fn nearest(at: f64) -> u32 {
    u32::try_from(saturating_floor_i64(at + 0.5)).unwrap_or(0)
}

/// The smallest picture in which the scale of the colours is readable.
pub(crate) const MIN_SIZE: Size = Size { width: RAMP + 2 * MARGIN, height: 3 * LINE + 2 * MARGIN };
/// The smallest picture with room for everything.
pub(crate) const ROOM: Size = Size { width: 2 * MIN_SIZE.width, height: 2 * MIN_SIZE.height };
/// The colours of the axes: those of their directions.
const DIRECTIONS: [Rgb; 3] = [[255, 0, 0], [0, 200, 0], [0, 0, 255]];
/// Pixels of the arm of an axis.
const ARM: u32 = 28;
/// Pixels between the legend and the edges, of its ramp, and from line to line.
const MARGIN: u32 = 16;
const RAMP: u32 = 180;
const LINE: u32 = 16;
const MAX_LETTERS: usize = 30;
/// Glyphs side by side, each this many pixels wide: from "6x13" of X11, which is in the public
/// domain.
const FONT: &str = include_str!("font.txt");
const GLYPH_WIDTH: u32 = 6;
const GLYPH: usize = usize_from_u32(GLYPH_WIDTH);
const GLYPHS: &str = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~≤≥";
const UNKNOWN: usize = 31; // ?
