//! An array of which most is never touched.

/// With lines of 16 bytes, a page of memory.
const PAGE: u64 = 256;

/// Something for each line of a memory, in pages that come when they are first written to.
#[derive(Clone, Debug)]
pub(crate) struct Sparse<T>(Vec<Option<Box<[T; PAGE as usize]>>>);

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + Default> Sparse<T> {
    /// What stands at a position: the default where nothing was written.
    #[inline]
    pub fn get(&self, position: u64) -> T {
        match self.0.get((position / PAGE) as usize) {
            Some(Some(page)) => page[(position % PAGE) as usize],
            _ => T::default(),
        }
    }

    /// What stands at a position, to be written.
    #[inline]
    pub fn at(&mut self, position: u64) -> &mut T {
        let page = (position / PAGE) as usize;
        if page >= self.0.len() {
            self.0.resize(page + 1, None);
        }
        let page = self.0[page].get_or_insert_with(|| Box::new([T::default(); PAGE as usize]));
        &mut page[(position % PAGE) as usize]
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}
