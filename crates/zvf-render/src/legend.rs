//! The legend of a picture, as in the viewer: what is coloured, its map, and the numbers at both
//! ends.

use zvf_format::num::index_u32;

use crate::colour::{ColourMap, Rgb};
use crate::size::Size;

/// A picture that is drawn over.
pub(crate) struct Sheet<'a> {
    pub(crate) size: Size,
    /// The rows from the top, with `stride` bytes for each pixel; a fourth byte is its opacity.
    pub(crate) bytes: &'a mut [u8],
    pub(crate) stride: usize,
}

impl Sheet<'_> {
    /// Draws a legend into the lower right corner.
    pub(crate) fn legend(&mut self, title: &str, map: ColourMap, ends: [&str; 2], ink: Rgb) {
        let [low, high] = ends;
        let left = self.size.width.saturating_sub(RAMP + MARGIN);
        let top = self.size.height.saturating_sub(3 * LINE + MARGIN);
        self.text([left, top], title, ink);
        for x in 0..RAMP {
            let colour = map.colour(f64::from(x) / f64::from(RAMP - 1));
            for y in 0..LINE - 4 {
                self.put([left + x, top + LINE + y], colour);
            }
        }
        self.text([left, top + 2 * LINE], low, ink);
        let width = index_u32(high.chars().count() * GLYPH).min(RAMP);
        self.text([left + RAMP - width, top + 2 * LINE], high, ink);
    }

    fn text(&mut self, [left, top]: [u32; 2], text: &str, ink: Rgb) {
        for (at, letter) in (left..).step_by(GLYPH).zip(text.chars().take(MAX_LETTERS)) {
            let glyph = GLYPHS.chars().position(|known| known == letter).unwrap_or(UNKNOWN);
            for (y, row) in (top..).zip(FONT.lines()) {
                let dots = row.bytes().skip(glyph * GLYPH).take(GLYPH);
                for (x, _) in (at..).zip(dots).filter(|(_, dot)| *dot == b'#') {
                    self.put([x, y], ink);
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

/// The smallest picture in which a legend is readable.
pub(crate) const MIN_SIZE: Size = Size { width: RAMP + 2 * MARGIN, height: 3 * LINE + 2 * MARGIN };
/// Pixels between the legend and the edges, of its ramp, and from line to line.
const MARGIN: u32 = 16;
const RAMP: u32 = 180;
const LINE: u32 = 16;
const MAX_LETTERS: usize = 30;
/// Glyphs side by side, each this many pixels wide: from "6x13" of X11, which is in the public
/// domain.
const FONT: &str = include_str!("font.txt");
const GLYPH: usize = 6;
const GLYPHS: &str = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~≤≥";
const UNKNOWN: usize = 31; // ?
