//! What the kernel's side and this one exchange, as `bpf/intf.h` has it. Records of perf are counted in the same structures.

#![allow(
    missing_docs,
    non_upper_case_globals,
    non_camel_case_types,
    dead_code,
    clippy::all,
    reason = "made by bindgen; the header has the comments"
)]

include!(concat!(env!("OUT_DIR"), "/intf.rs"));

impl ProgramStats {
    /// Nothing counted yet.
    pub fn none() -> Box<Self> {
        Box::new(bytemuck::Zeroable::zeroed())
    }

    /// Counts in each histogram what the kernel's side has counted in one for several.
    pub fn complete(&mut self) {
        let alone = std::mem::replace(&mut self.whole_alone, bytemuck::Zeroable::zeroed());
        self.acts[ACT_ALONE as usize].add(&alone);
        let mut whole = std::mem::replace(&mut self.whole_bursts, bytemuck::Zeroable::zeroed());
        whole.add(&alone);
        self.intervals.add(&whole);
        self.bursts.add(&whole);
        let after_peer = self.after_peer;
        self.acts[ACT_AFTER as usize].add(&after_peer);
        let (wakes, peer_blocks) = (self.wakes, self.peer_blocks);
        self.waits.add(&wakes);
        self.woken_blocks.add(&peer_blocks);
        let woken_blocks = self.woken_blocks;
        self.blocks.add(&woken_blocks);
    }

    /// Adds what another CPU, or thread, has counted.
    pub fn add(&mut self, more: &Self) {
        let longest = self.all_times().map(|times| times.longest_ns);
        let sums: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(self));
        let others: &[u64] = bytemuck::cast_slice(std::slice::from_ref(more));
        sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        // All but these are sums.
        let others = more.all_times().map(|times| times.longest_ns);
        for ((times, own), other) in self.all_times_mut().into_iter().zip(longest).zip(others) {
            times.longest_ns = own.max(other);
        }
    }

    pub fn all_times(&self) -> [&Times; 16] {
        let [alone, before, after, between] = &self.acts;
        [
            &self.intervals,
            &self.slices,
            &self.waits,
            &self.wakes,
            &self.idle_wakes,
            &self.blocks,
            &self.bursts,
            &self.cut_bursts,
            &self.cut_blocks,
            alone,
            before,
            after,
            between,
            &self.woken_blocks,
            &self.peer_blocks,
            &self.after_peer,
        ]
    }

    pub fn all_times_mut(&mut self) -> [&mut Times; 16] {
        let [alone, before, after, between] = &mut self.acts;
        [
            &mut self.intervals,
            &mut self.slices,
            &mut self.waits,
            &mut self.wakes,
            &mut self.idle_wakes,
            &mut self.blocks,
            &mut self.bursts,
            &mut self.cut_bursts,
            &mut self.cut_blocks,
            alone,
            before,
            after,
            between,
            &mut self.woken_blocks,
            &mut self.peer_blocks,
            &mut self.after_peer,
        ]
    }
}

impl Times {
    /// Adds the times of another.
    fn add(&mut self, more: &Self) {
        self.counts.iter_mut().zip(more.counts).for_each(|(count, more)| *count += more);
        self.total_ns += more.total_ns;
        self.longest_ns = self.longest_ns.max(more.longest_ns);
    }

    /// Adds one time.
    pub fn record(&mut self, ns: u64) {
        self.counts[crate::histogram::bin_of(ns)] += 1;
        self.total_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }
}
