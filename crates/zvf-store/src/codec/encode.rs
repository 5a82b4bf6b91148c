//! Applies the codec chains of Zarr: from the payload of a chunk to its stored bytes.
//!
//! ```text
//! none      the framed payload as it is: never copied
//! zstd      one frame, without a checksum of its own
//! gzip      one member, without a time, so that the same bytes give the same bytes
//! blosc     one Blosc 1 chunk with blocks of the size asked for
//! crc32c    the bytes, then their CRC-32C; never copied either
//! ```
//!
//! Not here: framing (`build`), decoding (the other files of this module).

use std::fmt;
use std::io::Write as _;

use bytes::Bytes;
use flate2::write::GzEncoder;
#[cfg(not(target_arch = "wasm32"))]
use zstd::zstd_safe::{self, CCtx, CParameter};
use zvf_blosc::{Compressor, Settings as BloscSettings, Shuffle};
use zvf_error::{Error, Result, quote};
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected};
use zvf_metadata::{Blosc, CodecKind, CodecSpec};

use super::{Chain, Scratch};
use crate::error::WithOp as _;

/// The codec chain of an array, from bytes to bytes. No chain changes the data that is read back.
///
/// ```
/// use zvf_store::CodecPipeline;
///
/// let chain = CodecPipeline::zstd(3).with_crc32c();
/// let names: Vec<_> = chain.metadata().iter().map(|codec| codec.name().to_owned()).collect();
/// assert_eq!(names, ["zstd", "crc32c"]);
/// assert!(CodecPipeline::empty().metadata().is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodecPipeline {
    steps: Vec<Step>, // in the order in which they are taken
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Blosc(BloscSettings),
    Zstd { level: i32, checksum: bool },
    Gzip { level: u32 },
    Crc32c,
}

impl CodecPipeline {
    /// Returns the empty chain: parts of the payload can be read by range.
    pub const fn empty() -> Self {
        Self { steps: Vec::new() }
    }

    /// Returns the Zstandard chain at `level`; 0 is the library's default, as in the reference
    /// implementation.
    pub fn zstd(level: i32) -> Self {
        Self { steps: vec![Step::Zstd { level, checksum: false }] }
    }

    /// Returns the Gzip chain at `level`, 0 to 9; encoding with another level fails.
    pub fn gzip(level: u32) -> Self {
        Self { steps: vec![Step::Gzip { level }] }
    }

    /// Returns the chain to one Blosc 1 chunk, whose blocks can be read separately.
    pub fn blosc(settings: BloscSettings) -> Self {
        Self { steps: vec![Step::Blosc(settings)] }
    }

    /// Returns the same chain followed by a CRC-32C, unless it already has one.
    #[must_use]
    pub fn with_crc32c(mut self) -> Self {
        if self.steps.last() != Some(&Step::Crc32c) {
            self.steps.push(Step::Crc32c);
        }
        self
    }

    /// Returns the chain of the `codecs` of an array document, without the codec from items to
    /// bytes.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] for a codec that this build does not write,
    /// [`Class::InvalidArgument`] for an invalid level.
    pub fn from_specs(codecs: &[CodecSpec]) -> Result<Self> {
        codecs.iter().map(Step::from_spec).collect::<Result<_, _>>().map(|steps| Self { steps })
    }

    /// Returns the chain in the form of an array document, to follow the codec from items to bytes.
    pub fn metadata(&self) -> Vec<CodecSpec> {
        self.steps.iter().map(Step::metadata).collect()
    }

    /// Encodes `plain`.
    ///
    /// # Errors
    ///
    /// When a codec of the chain fails, or the result does not read back.
    pub fn pack(&self, plain: Bytes) -> Result<Bytes> {
        self.encode(vec![plain], &mut Encoder::default()).map(join)
    }

    /// Decodes `stored`, if the result is at most `cap` bytes.
    ///
    /// # Errors
    ///
    /// When the bytes do not decode, or decode to more than `cap`.
    pub fn unpack(&self, stored: Bytes, cap: u64) -> Result<Bytes> {
        let chain = Chain::new(self.steps.iter().map(Step::reverse).collect());
        chain.decode(stored, cap, &mut Scratch::default())
    }

    /// Encodes a chunk that is given in parts, and returns it in parts; `scratch` is reused between
    /// chunks.
    pub(crate) fn encode(&self, parts: Vec<Bytes>, scratch: &mut Encoder) -> Result<Vec<Bytes>> {
        let packed = self.steps.iter().any(|step| *step != Step::Crc32c);
        let plain = packed.then(|| parts.clone());
        let stored =
            self.steps.iter().try_fold(parts, |parts, step| step.encode(parts, scratch))?;
        plain.map_or(Ok(()), |plain| self.check(&plain, &stored, scratch))?;
        Ok(stored)
    }

    /// Decodes the output again, and compares it with the input.
    fn check(&self, plain: &[Bytes], stored: &[Bytes], scratch: &mut Encoder) -> Result<()> {
        let chain = Chain::new(self.steps.iter().map(Step::reverse).collect());
        let back = chain.decode(join(stored.to_vec()), len(plain), &mut scratch.back)?;
        if is_joined(&back, plain) {
            return Ok(());
        }
        let expected = "what was packed, when it is read back";
        Err(Error::new(Class::Codec, "cell", expected, "something else"))
    }
}

fn level_error(what: &'static str, expected: Expected, found: i64) -> Error {
    Error::new(Class::InvalidArgument, what, expected, found)
}

fn gzip_level_error(found: i64) -> Error {
    level_error("level of gzip", Expected::Between(0, MAX_GZIP_LEVEL.into()), found)
}

const MAX_GZIP_LEVEL: u32 = 9;

impl Step {
    fn from_spec(codec: &CodecSpec) -> Result<Self> {
        let blosc = if let CodecKind::Blosc(blosc) = codec.kind() { settings(blosc) } else { None };
        if let Some(settings) = blosc {
            Ok(Self::Blosc(settings))
        } else if let CodecKind::Zstd { level, checksum } = *codec.kind() {
            let level = i32::try_from(level).map_err(|_out_of_range| {
                let expected = Expected::Between(i32::MIN.into(), i32::MAX.into());
                level_error("level of zstd", expected, level)
            })?;
            Ok(Self::Zstd { level, checksum })
        } else if let CodecKind::Gzip { level } = *codec.kind() {
            let valid_level = u32::try_from(level).ok().filter(|level| *level <= MAX_GZIP_LEVEL);
            Ok(Self::Gzip { level: valid_level.ok_or_else(|| gzip_level_error(level))? })
        } else if *codec.kind() == CodecKind::Crc32c {
            Ok(Self::Crc32c)
        } else {
            Err(Error::new(Class::Unsupported, "codec", "one that zvf writes", quote(codec.name())))
        }
    }

    /// Returns the step that decodes this one.
    const fn reverse(&self) -> super::Step {
        match self {
            Self::Blosc(_) => super::Step::Blosc,
            Self::Zstd { .. } => super::Step::Zstd,
            Self::Gzip { .. } => super::Step::Gzip,
            Self::Crc32c => super::Step::Crc32c,
        }
    }

    fn metadata(&self) -> CodecSpec {
        match self {
            Self::Blosc(settings) => CodecSpec::blosc(Blosc {
                typesize: Some(settings.typesize.into()),
                cname: Some(settings.compressor.name().to_owned()),
                clevel: Some(settings.level.into()),
                shuffle: Some(settings.filter.name().to_owned()),
                blocksize: Some(settings.block_size.into()),
            }),
            Self::Zstd { level, checksum } => CodecSpec::zstd((*level).into(), *checksum),
            Self::Gzip { level } => CodecSpec::gzip((*level).into()),
            Self::Crc32c => CodecSpec::crc32c(),
        }
    }

    fn encode(&self, mut parts: Vec<Bytes>, scratch: &mut Encoder) -> Result<Vec<Bytes>> {
        match self {
            Self::Blosc(settings) => {
                let packed = scratch.blosc.encode(&join(parts), settings);
                packed.map(|packed| vec![packed.into()]).map_err(|error| {
                    let (class, found) = (error.class(), error.to_string());
                    Error::new(class, "blosc", "bytes and settings of one chunk", quote(&found))
                })
            }
            Self::Zstd { level, checksum } => {
                let joined = join(parts);
                scratch.zstd(&joined, *level, *checksum).map(|bytes| vec![bytes])
            }
            Self::Gzip { level } => gzip(&join(parts), *level).map(|bytes| vec![bytes]),
            Self::Crc32c => {
                let sum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
                parts.push(Bytes::copy_from_slice(&sum.to_le_bytes()));
                Ok(parts)
            }
        }
    }
}

/// Returns the Blosc settings of a document, if they can be written; with a block size of 0 the
/// encoder chooses.
fn settings(blosc: &Blosc) -> Option<BloscSettings> {
    let default = BloscSettings::default();
    let block_size = blosc.blocksize.filter(|size| *size > 0);
    Some(BloscSettings {
        compressor: Compressor::from_name(blosc.cname.as_deref().unwrap_or("zstd"))?,
        level: blosc.clevel.map_or(Some(default.level), |level| u8::try_from(level).ok())?,
        filter: Shuffle::from_name(blosc.shuffle.as_deref().unwrap_or("noshuffle"))?,
        typesize: u8::try_from(blosc.typesize.unwrap_or(1)).unwrap_or(1), // as Blosc does
        block_size: u32::try_from(block_size.unwrap_or(default.block_size.into())).ok()?,
    })
}

/// Encoder state that is reused from one chunk to the next.
#[derive(Default)]
pub(crate) struct Encoder {
    blosc: zvf_blosc::Encoder,
    #[cfg(not(target_arch = "wasm32"))]
    zstd: Option<CCtx<'static>>,
    back: Scratch,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// Returns an error: nothing is written in a browser.
    #[cfg(target_arch = "wasm32")]
    fn zstd(&self, _plain: &[u8], _level: i32, _checksum: bool) -> Result<Bytes> {
        Err(Error::new(Class::Unsupported, "zstd", "a codec that this build writes", "zstd"))
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn zstd(&mut self, plain: &[u8], level: i32, checksum: bool) -> Result<Bytes> {
        let context = match &mut self.zstd {
            Some(context) => context,
            none => {
                let created = CCtx::try_create();
                none.insert(created.ok_or_else(|| encode_error("zstd", "no memory"))?)
            }
        };
        let zstd_error = |code| encode_error("zstd", zstd_safe::get_error_name(code));
        context.set_parameter(CParameter::CompressionLevel(level)).map_err(zstd_error)?;
        context.set_parameter(CParameter::ChecksumFlag(checksum)).map_err(zstd_error)?;
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
        context.compress2(&mut packed, plain).map_err(zstd_error)?;
        packed.shrink_to_fit();
        Ok(packed.into())
    }
}

/// Takes the bytes in one piece, because the output of zlib-rs, which other crates of a program may
/// enable, depends on the pieces.
fn gzip(plain: &[u8], level: u32) -> Result<Bytes> {
    if level > MAX_GZIP_LEVEL {
        return Err(gzip_level_error(level.into()));
    }
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    let encoded = encoder.write_all(plain).and_then(|()| encoder.finish());
    encoded.map(Bytes::from).with_op("encode")
}

/// Concatenates the parts.
pub(crate) fn join(parts: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(parts) {
        Ok([part]) => part,
        Err(parts) => parts.concat().into(),
    }
}

/// Returns whether `whole` is those parts, one after the other.
pub(crate) fn is_joined(mut whole: &[u8], parts: &[Bytes]) -> bool {
    for part in parts {
        let Some(rest) = whole.strip_prefix(part.as_ref()) else { return false };
        whole = rest;
    }
    whole.is_empty()
}

/// Returns the total length of the parts.
pub(crate) fn len(parts: &[Bytes]) -> u64 {
    parts.iter().map(|part| to_u64(part.len())).sum()
}

#[cfg(not(target_arch = "wasm32"))]
fn encode_error(codec: &'static str, why: &str) -> Error {
    Error::new(Class::Codec, codec, "a stream", quote(why))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(parts: &[&[u8]]) -> Vec<Bytes> {
        parts.iter().map(|part| Bytes::copy_from_slice(part)).collect()
    }

    #[test]
    fn levels_that_gzip_does_not_have_are_refused() {
        let pack = |level| CodecPipeline::gzip(level).pack(Bytes::from_static(b"bytes"));
        assert!(pack(9).is_ok());
        assert_eq!(
            pack(10).unwrap_err().to_string(),
            "InvalidArgument, level of gzip: expected 0 to 9, found 10"
        );
    }

    #[test]
    fn uncompressed_chunks_are_not_copied() {
        let payload = Bytes::from(vec![7; 100]);
        let framed = vec![Bytes::from_static(b"head"), payload.clone()];
        let coded =
            CodecPipeline::empty().with_crc32c().encode(framed, &mut Encoder::default()).unwrap();
        assert_eq!(coded.len(), 3);
        assert_eq!(coded[1].as_ptr(), payload.as_ptr());
    }

    #[test]
    fn bytes_typed_by_hand() {
        /// A codec chain, the pieces of its input, and the encoded bytes.
        type Row<'a> = (CodecPipeline, &'a [&'a [u8]], &'a [u8]);
        #[rustfmt::skip]
        let table: [Row<'_>; 4] = [
            (CodecPipeline::empty(), &[b"ab", b"c"], b"abc"),
            (CodecPipeline::empty().with_crc32c(), &[b"1234", b"56789"], b"123456789\x83\x92\x06\xe3"),
            (CodecPipeline::empty().with_crc32c().with_crc32c(), &[b"123456789"], b"123456789\x83\x92\x06\xe3"),
            // One stored block, no time, unknown system.
            (CodecPipeline::gzip(0), &[b"ab", b"c"],
             b"\x1f\x8b\x08\0\0\0\0\0\x04\xff\x01\x03\0\xfc\xffabc\xc2\x41\x24\x35\x03\0\0\0"),
        ];
        for (codecs, pieces, stored) in table {
            let coded = codecs.encode(parts(pieces), &mut Encoder::default()).unwrap();
            assert_eq!(join(coded), stored, "{codecs:?}");
        }
    }

    #[test]
    fn a_level_that_a_codec_does_not_have_is_refused() {
        for (spec, class) in [
            (CodecSpec::gzip(9), None),
            (CodecSpec::gzip(10), Some(Class::InvalidArgument)),
            (CodecSpec::gzip(-1), Some(Class::InvalidArgument)),
            (CodecSpec::zstd(-5, false), None),
            (CodecSpec::zstd(1 << 40, false), Some(Class::InvalidArgument)),
        ] {
            let pipeline = CodecPipeline::from_specs(std::slice::from_ref(&spec));
            assert_eq!(pipeline.err().map(|error| error.class()), class, "{spec:?}");
        }
    }

    proptest! {
        #[test]
        fn every_chain_round_trips(
            content in prop::collection::vec(0_u8..9, 0..5000),
            chain_index in 0_usize..8,
            cut: prop::sample::Index,
        ) {
            let chains = [
                CodecPipeline::empty(),
                CodecPipeline::zstd(0),
                CodecPipeline::zstd(-3).with_crc32c(),
                CodecPipeline::zstd(19),
                CodecPipeline::blosc(BloscSettings { block_size: 512, ..BloscSettings::default() }),
                CodecPipeline::blosc(BloscSettings {
                    compressor: Compressor::Lz4,
                    filter: Shuffle::Bits,
                    typesize: 8,
                    ..BloscSettings::default()
                })
                .with_crc32c(),
                CodecPipeline::gzip(6),
                CodecPipeline::gzip(1).with_crc32c(),
            ];
            let codecs = &chains[chain_index];
            let (front, tail) = content.split_at(cut.index(content.len() + 1));
            let mut encoder = Encoder::default();
            let stored = join(codecs.encode(parts(&[front, tail]), &mut encoder).unwrap());
            let joined_stored = join(codecs.encode(parts(&[&content]), &mut encoder).unwrap());
            prop_assert_eq!(&stored, &joined_stored);
            let metadata = codecs.metadata();
            prop_assert_eq!(&CodecPipeline::from_specs(&metadata).unwrap(), codecs);
            let steps = metadata.iter().map(super::super::coding::step).collect::<Result<_, _>>();
            let chain = Chain::new(steps.unwrap());
            let decoded =
                chain.decode(stored, content.len() as u64, &mut Scratch::default()).unwrap();
            prop_assert_eq!(decoded, content);
        }
    }
}
