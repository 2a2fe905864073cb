//! The codecs of batches. Unpacking stops at a bound, so that a batch of a few bytes cannot take all memory.

use std::{
    borrow::Cow,
    io::{self, Read},
};

use bytes::BytesMut;
use kafka_protocol::{
    compression::{Compressor, Gzip, Lz4, Snappy, Zstd},
    records::Compression,
};

/// Why a batch's records cannot be unpacked.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum CannotUnpack {
    /// They are not what the codec packs.
    Malformed,
    /// They are larger than the bound.
    TooLarge,
}

impl From<io::Error> for CannotUnpack {
    fn from(_: io::Error) -> Self {
        Self::Malformed
    }
}

impl From<snap::Error> for CannotUnpack {
    fn from(_: snap::Error) -> Self {
        Self::Malformed
    }
}

/// Unpacks the records of a batch to at most `bound` bytes.
pub(super) fn unpack(codec: Compression, packed: &[u8], bound: usize) -> Result<Cow<'_, [u8]>, CannotUnpack> {
    let unpacked = match codec {
        Compression::None => return Ok(Cow::Borrowed(packed)),
        Compression::Gzip => read_all(flate2::read::MultiGzDecoder::new(packed), bound)?,
        Compression::Snappy => unpack_snappy(packed, bound)?,
        Compression::Lz4 => unpack_lz4(packed, bound)?,
        Compression::Zstd => read_all(zstd::Decoder::with_buffer(packed)?, bound)?,
    };
    Ok(Cow::Owned(unpacked))
}

fn read_all(reader: impl Read, bound: usize) -> Result<Vec<u8>, CannotUnpack> {
    let mut unpacked = Vec::new();
    // One more than may be, to see that there is more.
    reader.take(bound as u64 + 1).read_to_end(&mut unpacked)?;
    if unpacked.len() > bound { Err(CannotUnpack::TooLarge) } else { Ok(unpacked) }
}

/// Unpacks the records of a batch while they are read; `None` for a codec whose blocks are unpacked as a whole.
pub(super) fn unpacking(codec: Compression, packed: &[u8]) -> Result<Option<Box<dyn Read + '_>>, CannotUnpack> {
    Ok(match codec {
        Compression::None | Compression::Snappy => None,
        Compression::Gzip => Some(Box::new(flate2::read::MultiGzDecoder::new(packed))),
        Compression::Lz4 => Some(Box::new(Lz4Frame(Some(lz4::Decoder::new(packed)?)))),
        Compression::Zstd => Some(Box::new(zstd::Decoder::with_buffer(packed)?)),
    })
}

/// Sees to it that a frame has an end.
struct Lz4Frame<R: Read>(Option<lz4::Decoder<R>>);

impl<R: Read> Read for Lz4Frame<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(decoder) = &mut self.0 else { return Ok(0) };
        let count = decoder.read(into)?;
        if count == 0 && !into.is_empty() {
            self.0.take().map_or(Ok(()), |decoder| decoder.finish().1)?;
        }
        Ok(count)
    }
}

/// Of the decoders this one alone takes the end of the bytes for the end of the frame.
fn unpack_lz4(packed: &[u8], bound: usize) -> Result<Vec<u8>, CannotUnpack> {
    let mut decoder = lz4::Decoder::new(packed)?;
    let unpacked = read_all(&mut decoder, bound)?;
    decoder.finish().1?;
    Ok(unpacked)
}

/// Magic, version and the oldest compatible version, of snappy-java's stream.
const SNAPPY_JAVA: &[u8] = b"\x82SNAPPY\x00";
const SNAPPY_JAVA_HEADER: usize = 16;

/// Blocks of snappy-java, each behind its length; what has no such header is one block, as librdkafka may send it.
fn unpack_snappy(packed: &[u8], bound: usize) -> Result<Vec<u8>, CannotUnpack> {
    let mut unpacked = Vec::new();
    if !packed.starts_with(SNAPPY_JAVA) {
        unpack_block(packed, bound, &mut unpacked)?;
        return Ok(unpacked);
    }
    let mut rest = packed.get(SNAPPY_JAVA_HEADER..).ok_or(CannotUnpack::Malformed)?;
    while let Some((length, after)) = rest.split_first_chunk() {
        let block = after.get(..u32::from_be_bytes(*length) as usize).ok_or(CannotUnpack::Malformed)?;
        unpack_block(block, bound, &mut unpacked)?;
        rest = &after[block.len()..];
    }
    if rest.is_empty() { Ok(unpacked) } else { Err(CannotUnpack::Malformed) }
}

fn unpack_block(block: &[u8], bound: usize, unpacked: &mut Vec<u8>) -> Result<(), CannotUnpack> {
    // Its length is written before it.
    let (from, length) = (unpacked.len(), snap::raw::decompress_len(block)?);
    if from + length > bound {
        return Err(CannotUnpack::TooLarge);
    }
    unpacked.resize(from + length, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut unpacked[from..])?;
    unpacked.truncate(from + written);
    Ok(())
}

/// Packs records; `None` if the codec fails.
pub(super) fn pack(codec: Compression, records: &[u8]) -> Option<BytesMut> {
    let mut packed = BytesMut::new();
    let write = |to: &mut BytesMut| {
        to.extend_from_slice(records);
        Ok(())
    };
    let packing: anyhow::Result<()> = match codec {
        Compression::None => write(&mut packed),
        Compression::Gzip => Gzip::compress(&mut packed, write),
        Compression::Snappy => Snappy::compress(&mut packed, write),
        Compression::Lz4 => Lz4::compress(&mut packed, write),
        Compression::Zstd => Zstd::compress(&mut packed, write),
    };
    packing.is_ok().then_some(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODECS: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    #[test]
    fn what_every_codec_packs_it_unpacks() {
        let records: Vec<u8> = (0..100_000_u32).flat_map(|n| (n / 7).to_be_bytes()).collect();
        for codec in CODECS {
            let packed = pack(codec, &records).unwrap();
            assert_eq!(unpack(codec, &packed, records.len()).unwrap(), records.as_slice(), "{codec:?}");
        }
    }

    #[test]
    fn unpacking_stops_at_the_bound() {
        let zeros = vec![0; 10 << 20];
        for codec in &CODECS[1..] {
            let bomb = pack(*codec, &zeros).unwrap();
            assert_eq!(unpack(*codec, &bomb, zeros.len() - 1), Err(CannotUnpack::TooLarge), "{codec:?}");
        }
    }

    #[test]
    fn garbage_is_malformed_in_every_codec() {
        for codec in &CODECS[1..] {
            for garbage in [&b"\xff\xff\xff\xff no codec packs this"[..], b"\x82SNAPPY\x00", b"\x01\x02\x03", b""] {
                if let Ok(unpacked) = unpack(*codec, garbage, 1 << 20) {
                    // Nothing at all unpacks to nothing.
                    assert!(unpacked.is_empty() && garbage.is_empty(), "{codec:?}: {garbage:?}");
                }
            }
        }
    }

    #[test]
    fn a_part_of_what_a_codec_packs_is_malformed() {
        let records: Vec<u8> = (0..100_000_u32).flat_map(u32::to_be_bytes).collect();
        for codec in &CODECS[1..] {
            let packed = pack(*codec, &records).unwrap();
            for part in [packed.len() / 2, packed.len() - 1] {
                assert_eq!(unpack(*codec, &packed[..part], records.len()), Err(CannotUnpack::Malformed), "{codec:?}");
            }
        }
    }

    #[test]
    fn snappy_without_a_stream_is_one_block() {
        let block = snap::raw::Encoder::new().compress_vec(b"one block, one block, one block").unwrap();
        assert_eq!(unpack(Compression::Snappy, &block, 100).unwrap(), &b"one block, one block, one block"[..]);
    }
}
