//! A set-associative cache, line by line.

/// Where a line of memory goes in a cache, and which line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub set: u32,
    pub tag: u32,
}

/// A cache with least-recently-used replacement.
#[derive(Clone, Debug)]
pub struct LineCache {
    ways: usize,
    /// By set, the tags from the one used last to the one used first; 0 is nothing.
    tags: Vec<u32>,
}

impl LineCache {
    pub fn new(frames: usize, ways: usize) -> Self {
        Self { ways, tags: vec![0; frames] }
    }

    pub fn frames(&self) -> usize {
        self.tags.len()
    }

    pub fn sets(&self) -> usize {
        self.tags.len() / self.ways
    }

    /// Refers to a line, and tells whether that was a miss.
    pub fn refer(&mut self, line: Line) -> bool {
        let set = self.set(line);
        let found = set.iter().position(|&tag| tag == line.tag);
        let end = found.unwrap_or(set.len() - 1);
        set.copy_within(..end, 1);
        set[0] = line.tag;
        found.is_none()
    }

    /// Another CPU writes to a line: it is no longer valid here.
    pub fn invalidate(&mut self, line: Line) {
        if let Some(tag) = self.set(line).iter_mut().find(|tag| **tag == line.tag) {
            *tag = 0;
        }
    }

    fn set(&mut self, line: Line) -> &mut [u32] {
        &mut self.tags[line.set as usize * self.ways..][..self.ways]
    }
}

#[test]
fn the_line_used_first_goes_first() {
    let mut cache = LineCache::new(2, 2);
    let line = |tag| Line { set: 0, tag };
    assert!(cache.refer(line(1)) && cache.refer(line(2)) && !cache.refer(line(1)));
    assert!(cache.refer(line(3)), "in place of 2");
    assert!(!cache.refer(line(1)) && cache.refer(line(2)));
    cache.invalidate(line(1));
    assert!(cache.refer(line(1)) && !cache.refer(line(2)));
}
