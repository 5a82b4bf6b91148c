//! Verification of a `.tet` file: its rules, and on request every payload.
//!
//! ```text
//! O1 to O9, V1 to V6, F1 to F8    structure, by zvf_tet
//! R1                              a zstd payload decodes, to exactly the bytes of its chunk
//! Z1                              zone maps agree with the elements of each chunk
//! ```
//!
//! Payloads are decoded a few at a time, and none is kept. The format has no checksum: damage of a
//! raw payload is undetectable.

use async_recursion::async_recursion as boxed;
use std::fmt;
use std::ops::ControlFlow;

use zvf_error::{Error, Result};
pub use zvf_tet::TetSeverity as Weight;
use zvf_tet::{DECODED_CAP, TensorCodec};

use super::file::TensorFile;
use crate::error::in_dataset;
use crate::memory::Memory;

/// One finding of verification.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet/reject/24_zstd_garbage.tet");
/// use zvf_tensor::{Memory, TensorFile, Weight};
///
/// let file = TensorFile::open(path, &Default::default()).await?;
/// let faults = file.verify(true, &Memory::default()).await?;
/// assert_eq!((faults[0].rule, faults[0].weight), ("R1", Weight::Error));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    /// The rule, by its number.
    pub rule: &'static str,
    /// The severity.
    pub weight: Weight,
    /// What is wrong and where.
    pub error: Error,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.error)
    }
}

impl TensorFile {
    /// Returns the faults of the file, up to a limit; with `deep`, every compressed payload is
    /// decoded too, and zone maps are compared with the elements.
    ///
    /// # Errors
    ///
    /// When the file cannot be read; its faults are not errors.
    #[boxed]
    pub async fn verify(&self, deep: bool, memory: &Memory) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        {
            let parsed = self.container().view()?;
            let _told = parsed.check(&mut |finding| {
                let (rule, error) = (finding.rule.id(), finding.error.into());
                let weight = finding.severity;
                faults.push(Fault { rule, weight, error });
                if faults.len() < MAX_FAULTS {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        }
        if deep {
            self.verify_payloads(memory, &mut faults).await?;
            let max_bytes = memory.limit(self.memory_budget()).min(DECODED_CAP);
            self.verify_zones(max_bytes, &mut faults).await?;
        }
        Ok(faults)
    }

    async fn verify_payloads(&self, memory: &Memory, faults: &mut Vec<Fault>) -> Result<()> {
        let max_bytes = memory.limit(self.memory_budget()).min(DECODED_CAP);
        for tensor in self.tensors() {
            // Faults of a whole dataset were already reported.
            let Ok(lookup) = self.container().lookup(tensor.dataset()) else { continue };
            let Ok(plan) = lookup.select_all() else { continue };
            for touched in plan.tiles() {
                let Ok(touched) = touched else { break };
                if touched.row().codec() == TensorCodec::Raw || faults.len() >= MAX_FAULTS {
                    continue;
                }
                let coords = touched.tile().coords();
                let read = self.container().read_chunk(tensor.dataset(), coords, max_bytes).await;
                if let Err(error) = read {
                    let error = in_dataset(error, tensor.name());
                    if !error.class().is_damage() {
                        return Err(error);
                    }
                    faults.push(Fault { rule: "R1", weight: Weight::Error, error });
                }
            }
        }
        Ok(())
    }
}

/// The largest number of faults that are listed.
const MAX_FAULTS: usize = 10_000;
