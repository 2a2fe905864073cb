//! Requests out of nothing. A decoder asks its buffer for the numbers and the bytes of a request; a buffer that answers
//! with made-up ones makes a decoder a generator: of every request in every version, and always well-formed.

use bytes::{Buf, Bytes, TryGetError};
use kafka_protocol::protocol::buf::ByteBuf;

/// Reads after which everything is zero, so that arrays within arrays end.
const READS: usize = 300;

/// What is made up is taken from here.
#[derive(Debug)]
pub(super) struct Pool {
    /// Texts and bytes, found by their lengths: those that earlier answers have told, and a batch of records.
    pub(super) known: Vec<Bytes>,
}

/// A buffer that makes up what it is asked for.
#[derive(Debug)]
pub(super) struct Inventor<'a> {
    pool: &'a Pool,
    state: u64,
    reads: usize,
    fixed: [u8; 16],
}

impl<'a> Inventor<'a> {
    pub(super) fn new(pool: &'a Pool, seed: u64) -> Self {
        let mut this = Self { pool, state: seed, reads: 0, fixed: [0; 16] };
        this.refill();
        this
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn one_of(&mut self, numbers: &[i64]) -> i64 {
        self.reads += 1;
        if self.reads > READS {
            return 0;
        }
        let known = self.draw().is_multiple_of(4).then(|| self.draw() as usize % self.pool.known.len().max(1));
        let length = known.and_then(|at| self.pool.known.get(at)).map(|bytes| bytes.len() as i64);
        length.unwrap_or_else(|| numbers[self.draw() as usize % numbers.len()])
    }

    /// For what is read byte by byte: truth values, small numbers, ids of topics.
    fn refill(&mut self) {
        for at in 0..self.fixed.len() {
            self.fixed[at] = [0, 0, 1, 2, 3, 255][self.draw() as usize % 6];
        }
    }
}

impl Buf for Inventor<'_> {
    fn remaining(&self) -> usize {
        usize::MAX >> 1
    }

    fn chunk(&self) -> &[u8] {
        &self.fixed
    }

    fn advance(&mut self, _: usize) {
        self.refill();
    }

    fn try_get_u8(&mut self) -> Result<u8, TryGetError> {
        // Of a variable-length number: one more than a length.
        let number = self.one_of(&[0, 0, 1, 1, 2, 2, 3]);
        Ok(u8::try_from(number + i64::from(number > 3)).map_or(0, |byte| byte & 0x7f))
    }

    fn try_get_i16(&mut self) -> Result<i16, TryGetError> {
        Ok(self.one_of(&[-1, 0, 0, 1, 1, 2]) as i16)
    }

    fn try_get_i32(&mut self) -> Result<i32, TryGetError> {
        Ok(self.one_of(&[-1, 0, 0, 1, 1, 2, 10, 1_000, 30_000]) as i32)
    }

    fn try_get_i64(&mut self) -> Result<i64, TryGetError> {
        Ok(self.one_of(&[-2, -1, 0, 0, 1, 2, 3, 1_700_000_000_000, i64::MAX]))
    }
}

impl ByteBuf for Inventor<'_> {
    fn peek_bytes(&mut self, range: std::ops::Range<usize>) -> Bytes {
        Bytes::from(vec![0; range.len()])
    }

    fn get_bytes(&mut self, size: usize) -> Bytes {
        let known: Vec<_> = self.pool.known.iter().filter(|bytes| bytes.len() == size).collect();
        match known.len() {
            0 => Bytes::from(vec![b'a'; size]),
            some => known[self.draw() as usize % some].clone(),
        }
    }
}
