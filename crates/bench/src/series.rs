//! The same work on more and more data.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::limit;

/// The same work on more and more data, by one contender.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Series {
    #[serde(skip)]
    pub(crate) part: &'static str,
    pub(crate) work: String,
    pub(crate) who: String,
    /// Whether that is one of ours, whose growth has a figure.
    pub(crate) is_ours: bool,
    pub(crate) steps: Vec<Step>,
    /// The row of the last step, by its number on the page.
    pub(crate) last_row: usize,
}

/// One amount of data, and what it took.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Step {
    pub(crate) amount: Amount,
    pub(crate) seconds: f64,
    pub(crate) memory: Option<u64>,
}

/// How much data there was.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Amount {
    pub(crate) elements: u64,
    /// Files that hold it, where they were counted.
    pub(crate) files: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Amount {
    /// So many elements in a folder.
    pub(crate) fn measure(elements: u64, folder: &Path) -> anyhow::Result<Self> {
        let files = limit::list_files(folder)?;
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len());
        Ok(Self { elements, files: Some(files.len() as u64), bytes: Some(bytes.sum()) })
    }
}

impl Series {
    /// Amounts and seconds.
    pub(crate) fn points(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.steps.iter().map(|step| (step.amount.elements as f64, step.seconds))
    }

    /// By which power of the amount the time grows: the slope of the straight line through the
    /// logarithms.
    pub(crate) fn exponent(&self) -> f64 {
        let logs: Vec<(f64, f64)> = self.points().map(|(n, t)| (n.ln(), t.ln())).collect();
        let count = logs.len() as f64;
        let mean =
            |coordinate: fn(&(f64, f64)) -> f64| logs.iter().map(coordinate).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let both: f64 = logs.iter().map(|(a, b)| (a - x) * (b - y)).sum();
        both / logs.iter().map(|(a, _)| (a - x).powi(2)).sum::<f64>()
    }
}
