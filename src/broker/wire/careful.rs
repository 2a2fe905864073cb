//! A frame that is decoded with suspicion.
//!
//! The protocol crate makes room for as many elements as an array claims to have, before it has read one. A claim of two
//! billion would end the process, and not by a panic that can be caught. So a large number that stands where such a
//! claim may stand is passed on as a small one. If it was the length of bytes or of a text, the bytes are asked for next
//! and given whole; if it was an array's, there are more fields than a request may have; else it was a number like any
//! other, and the frame is decoded once more as it is.

use bytes::{Buf, Bytes, TryGetError};
use kafka_protocol::protocol::buf::ByteBuf;

/// Fields of a request, at most.
const FIELDS: usize = 1 << 18;

/// A length that was passed on as a smaller one.
#[derive(Copy, Clone, Debug)]
struct Claim {
    told: usize,
    meant: usize,
}

/// The bytes of a request.
#[derive(Debug)]
pub(super) struct Careful {
    bytes: Bytes,
    /// What is read are parts of the request itself: whoever keeps one of them keeps all of it.
    shared: bool,
    /// How many more fields there may be.
    fields: usize,
    /// The bytes read since the last one without a continuation bit: their number in all, and how many they are.
    varint: (usize, u32),
    claim: Option<Claim>,
    doubted: bool,
    trusted: bool,
}

impl Careful {
    /// Passes no large number on. What is read are copies.
    pub(super) const fn new(bytes: Bytes) -> Self {
        Self { bytes, shared: false, fields: FIELDS, varint: (0, 0), claim: None, doubted: false, trusted: false }
    }

    /// For bytes that [`Careful::new`] has let pass: every number as it is.
    pub(super) fn trusted(bytes: Bytes) -> Self {
        Self { trusted: true, ..Self::new(bytes) }
    }

    /// What is read are parts of the bytes, if that is wanted.
    pub(super) fn sharing(self, shared: bool) -> Self {
        Self { shared, ..self }
    }

    /// Whether a number that was no length was passed on as another.
    pub(super) const fn doubted(&self) -> bool {
        self.doubted || self.claim.is_some()
    }

    /// Whatever comes next but bytes of the length that was claimed last.
    const fn next_field(&mut self) {
        self.fields = self.fields.saturating_sub(1);
        self.doubted |= self.claim.take().is_some();
    }

    const fn ended(requested: usize) -> TryGetError {
        TryGetError { requested, available: 0 }
    }
}

impl Buf for Careful {
    /// Nothing is left after too many fields.
    fn remaining(&self) -> usize {
        if self.fields == 0 { 0 } else { self.bytes.len() }
    }

    fn chunk(&self) -> &[u8] {
        if self.fields == 0 { &[] } else { &self.bytes }
    }

    fn advance(&mut self, count: usize) {
        self.next_field();
        self.bytes.advance(count);
    }

    /// Every length of the protocol's older versions.
    fn try_get_i32(&mut self) -> Result<i32, TryGetError> {
        if self.remaining() < size_of::<i32>() {
            return Err(Self::ended(size_of::<i32>()));
        }
        self.next_field();
        let number = self.bytes.get_i32();
        match usize::try_from(number) {
            Ok(meant) if !self.trusted && meant > self.bytes.len() => {
                self.doubted = true;
                // Refused as a length, harmless as anything else.
                Ok(-2)
            }
            Ok(meant) if !self.trusted && meant > FIELDS => {
                self.claim = Some(Claim { told: FIELDS, meant });
                Ok(FIELDS as i32)
            }
            _ => Ok(number),
        }
    }

    /// A truth value; or a byte of a variable-length number, which is a length and one in the flexible versions, or the
    /// number of a tag.
    fn try_get_u8(&mut self) -> Result<u8, TryGetError> {
        if self.remaining() < 1 {
            return Err(Self::ended(1));
        }
        let byte = self.bytes.get_u8();
        let (low, count) = self.varint;
        let number = low | (usize::from(byte & 0x7f) << (7 * count));
        if byte >= 0x80 && count < 4 {
            self.varint = (number, count + 1);
            return Ok(byte);
        }
        self.next_field();
        self.varint = (0, 0);
        if self.trusted || number <= FIELDS {
            return Ok(byte);
        }
        if number > self.bytes.len() + 1 {
            return Err(Self::ended(number));
        }
        // The lower bytes are passed on already; the highest one becomes as small as it may be.
        let highest = u8::from(low == 0);
        let told = low | (usize::from(highest) << (7 * count));
        self.claim = Some(Claim { told: told - 1, meant: number - 1 });
        Ok(highest)
    }
}

impl ByteBuf for Careful {
    fn peek_bytes(&mut self, range: std::ops::Range<usize>) -> Bytes {
        self.bytes.slice(range)
    }

    fn get_bytes(&mut self, size: usize) -> Bytes {
        let claimed = self.claim.take_if(|claim| claim.told == size);
        self.next_field();
        // They are there, or this ends it: no more is copied than has arrived.
        let part = self.bytes.split_to(claimed.map_or(size, |claim| claim.meant));
        if self.shared { part } else { Bytes::copy_from_slice(&part) }
    }
}
