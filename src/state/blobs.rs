//! Byte strings that do not fit where they belong, by number; the memory of freed ones is used again.

/// Byte strings in numbered slots.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    slots: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Blobs {
    /// A freed slot keeps its memory up to this (bytes): values of one store are of one size, mostly.
    const MAX_KEPT: usize = 1024;

    /// Keeps a copy of `bytes`; its number, `None` if there are 2^32 already.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Option<u32> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Vec::new());
                at
            }
        };
        let slot = self.slots.get_mut(at as usize)?;
        slot.clear();
        slot.extend_from_slice(bytes);
        Some(at)
    }

    /// The bytes of a number that was not freed.
    pub(super) fn get(&self, at: u32) -> &[u8] {
        self.slots.get(at as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Frees a number.
    pub(super) fn free(&mut self, at: u32) {
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        if slot.capacity() > Self::MAX_KEPT {
            *slot = Vec::new();
        }
        self.free.push(at);
    }

    /// Slots, free ones too.
    #[cfg(test)]
    pub(super) const fn slots(&self) -> usize {
        self.slots.len()
    }
}
