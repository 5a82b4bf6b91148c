//! The formats that this build lacks, so that errors and lists can name the required feature.

use std::fmt;
use std::path::Path;

/// A format that this build lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingFormat {
    /// Its name in commands.
    pub token: &'static str,
    /// The extensions of its files, without the first dot.
    pub extensions: &'static [&'static str],
    /// The feature that provides it.
    pub feature: &'static str,
}

impl MissingFormat {
    /// Every format that this build lacks.
    pub const ALL: &'static [Self] = &[
        #[cfg(not(feature = "h5ad"))]
        Self::new("h5ad", &["h5ad"], "h5ad"),
        #[cfg(not(feature = "arrow"))]
        Self::new("arrow", &["arrow", "feather", "ipc"], "arrow"),
        #[cfg(not(feature = "arrow"))]
        Self::new("arrows", &["arrows"], "arrow"),
        #[cfg(not(feature = "arrow"))]
        Self::new("geoarrow", &["geoarrow", "geo.arrow"], "arrow"),
        #[cfg(not(feature = "arrow"))]
        Self::new("geoparquet", &["geoparquet", "geo.parquet"], "arrow"),
        #[cfg(not(feature = "arrow"))]
        Self::new("parquet", &["parquet"], "arrow"),
    ];

    #[cfg(not(all(feature = "h5ad", feature = "arrow")))]
    const fn new(
        token: &'static str,
        extensions: &'static [&'static str],
        feature: &'static str,
    ) -> Self {
        Self { token, extensions, feature }
    }

    /// Returns the missing format with this name in commands.
    pub fn from_token(token: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.token.eq_ignore_ascii_case(token))
    }

    /// Returns the missing format of the extension of a file name.
    pub fn from_extension(path: &Path) -> Option<Self> {
        let end = path.extension()?.to_str()?;
        let has =
            |format: &&Self| format.extensions.iter().any(|own| own.eq_ignore_ascii_case(end));
        Self::ALL.iter().find(has).copied()
    }
}

impl fmt::Display for MissingFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, feature, .. } = self;
        write!(
            f,
            "{token} needs the feature {feature}, which this build lacks: cargo install --path crates/zvf-cli --features {feature}"
        )
    }
}
