//! Colour maps from a number in 0..1 to a colour, and colours of identities.

use std::str::FromStr;

use zvf_error::{Error, Result};
use zvf_format::Vocabulary as _;
use zvf_format::num::{f64_from_u64, mix_bits, to_u64};

use crate::error::setting_error;
use crate::view::dot;

/// Red, green and blue.
pub type Rgb = [u8; 3];

zvf_format::vocabulary! {
    /// A colour map from low to high values.
    ///
    /// ```
    /// use zvf_render::ColourMap;
    ///
    /// let map: ColourMap = "grey".parse()?;
    /// assert_eq!(map.colour(0.0), [0, 0, 0]);
    /// assert_eq!(map.colour(1.0), [255, 255, 255]);
    /// assert_eq!(map.colour(7.0), [255, 255, 255]); // beyond the end is the end
    /// # Ok::<(), zvf_error::Error>(())
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ColourMap {
        /// Violet, green, yellow: of evenly increasing brightness, and distinguishable with colour
        /// blindness.
        #[default]
        Viridis => "viridis",
        /// Black, purple, orange, white.
        Magma => "magma",
        /// Black to white.
        Grey => "grey",
        /// Blue, white, red: for values on both sides of a centre.
        Coolwarm => "coolwarm",
    }
    /// Returns its name.
    fn word;
}

impl ColourMap {
    /// Returns the colour at a fraction from 0 to 1, clamped.
    #[must_use]
    pub fn colour(self, share: f64) -> Rgb {
        let stops = self.stops();
        let ends = stops.iter().skip(1);
        let mut left = share.clamp(0.0, 1.0) * f64_from_u64(to_u64(ends.len()));
        for (from, to) in stops.iter().zip(ends) {
            if left <= 1.0 {
                return interpolate(*from, *to, left);
            }
            left -= 1.0;
        }
        stops.last().copied().unwrap_or(UNKNOWN)
    }

    const fn stops(self) -> &'static [Rgb] {
        match self {
            Self::Viridis => &VIRIDIS,
            Self::Magma => &MAGMA,
            Self::Grey => &GREY,
            Self::Coolwarm => &COOLWARM,
        }
    }
}

impl FromStr for ColourMap {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        Self::from_word(word)
            .ok_or_else(|| setting_error("colour map", "viridis, magma, grey or coolwarm", word))
    }
}

/// Returns a colour for an identity: always the same, and different from those of neighbouring ids.
pub(crate) fn identity_colour(id: u64) -> Rgb {
    let [hue, _, strength, value, ..] =
        mix_bits(id).to_le_bytes().map(|byte| f64::from(byte) / 256.0);
    from_hue(hue, 0.55 + 0.35 * strength, 0.6 + 0.3 * value)
}

/// Returns the colour of a text, by a hash of its bytes.
pub(crate) fn text_colour(text: &str) -> Rgb {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    identity_colour(text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv))
}

/// Returns the colour of a direction: the share of each axis is that of red, green and blue.
pub(crate) fn direction_colour(along: [f64; 3]) -> Rgb {
    let length = dot(along, along).sqrt();
    if length > 0.0 { along.map(|share| round_u8(255.0 * share.abs() / length)) } else { UNKNOWN }
}

/// Returns a colour darkened to `shade` / 255.
pub(crate) fn shade_colour(colour: Rgb, shade: u8) -> Rgb {
    colour.map(|part| round_u8(f64::from(part) * f64::from(shade) / 255.0))
}

/// Converts hue, saturation and value, each from 0 to 1.
fn from_hue(hue: f64, strength: f64, value: f64) -> Rgb {
    [5.0, 3.0, 1.0].map(|offset: f64| {
        let k = (offset + hue * 6.0).rem_euclid(6.0);
        round_u8(255.0 * value * (1.0 - strength * k.min(4.0 - k).clamp(0.0, 1.0)))
    })
}

fn interpolate(from: Rgb, to: Rgb, share: f64) -> Rgb {
    let [a, b, c] = from.map(f64::from);
    let [d, e, f] = to.map(f64::from);
    [(a, d), (b, e), (c, f)].map(|(from, to)| round_u8(from + (to - from) * share))
}

/// The colour of missing values.
pub(crate) const UNKNOWN: Rgb = [150, 150, 150];
/// The colour of geometry without an attribute.
pub(crate) const PLAIN: Rgb = [62, 104, 160];

/// Samples of the viridis map at even steps, which is in the public domain.
const VIRIDIS: [Rgb; 9] = [
    [68, 1, 84],
    [71, 44, 122],
    [59, 81, 139],
    [44, 113, 142],
    [33, 144, 141],
    [39, 173, 129],
    [92, 200, 99],
    [170, 220, 50],
    [253, 231, 37],
];
const MAGMA: [Rgb; 9] = [
    [0, 0, 4],
    [28, 16, 68],
    [79, 18, 123],
    [129, 37, 129],
    [181, 54, 122],
    [229, 80, 100],
    [251, 135, 97],
    [254, 194, 135],
    [252, 253, 191],
];
const GREY: [Rgb; 2] = [[0, 0, 0], [255, 255, 255]];
const COOLWARM: [Rgb; 3] = [[59, 76, 192], [221, 221, 221], [180, 4, 38]];

/// Returns the nearest byte, 0 for NaN.
#[expect(clippy::as_conversions, reason = "a cast that saturates is what is asked for")]
pub(crate) fn round_u8(x: f64) -> u8 {
    x.round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_maps_interpolate_their_stops() {
        for (map, share, colour) in [
            (ColourMap::Viridis, 0.0, [68, 1, 84]),
            (ColourMap::Viridis, 0.125, [71, 44, 122]),
            (ColourMap::Viridis, 1.0, [253, 231, 37]),
            (ColourMap::Grey, 0.5, [128, 128, 128]),
            (ColourMap::Coolwarm, 0.5, [221, 221, 221]),
            (ColourMap::Coolwarm, 0.75, [201, 113, 130]),
            (ColourMap::Magma, -5.0, [0, 0, 4]),
            (ColourMap::Magma, 5.0, [252, 253, 191]),
        ] {
            assert_eq!(map.colour(share), colour, "{map} at {share}");
        }
        for &map in ColourMap::ALL {
            assert_eq!(map.word().parse::<ColourMap>().unwrap(), map);
        }
        assert_eq!(
            "jet".parse::<ColourMap>().unwrap_err().sentence(),
            "colour map: expected viridis, magma, grey or coolwarm, found jet"
        );
    }

    #[test]
    fn converts_hues_to_rgb() {
        for (hue, colour) in [
            (0.0, [255, 0, 0]),
            (1.0 / 6.0, [255, 255, 0]),
            (1.0 / 3.0, [0, 255, 0]),
            (0.5, [0, 255, 255]),
            (2.0 / 3.0, [0, 0, 255]),
        ] {
            assert_eq!(from_hue(hue, 1.0, 1.0), colour, "{hue}");
        }
        assert_eq!(from_hue(0.3, 0.0, 0.5), [128, 128, 128]);
        assert_eq!(shade_colour([100, 200, 255], 51), [20, 40, 51]);
    }

    #[test]
    fn consecutive_ids_have_different_colours() {
        let differ = |a: Rgb, b: Rgb| {
            a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b))).sum::<u32>() > 60
        };
        let count =
            (0..100).filter(|id| differ(identity_colour(*id), identity_colour(id + 1))).count();
        assert!(count > 85, "{count} of 100");
        assert_eq!(text_colour("axon"), text_colour("axon"));
        assert_ne!(text_colour("axon"), text_colour("soma"));
    }

    #[test]
    fn rounds_and_clamps_to_bytes() {
        assert_eq!(
            [round_u8(-3.0), round_u8(254.5), round_u8(1e9), round_u8(f64::NAN)],
            [0, 255, 255, 0]
        );
    }
}
