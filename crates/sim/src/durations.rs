//! A distribution of times, kept in constant memory.

use hdrhistogram::Histogram;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Times as a histogram of 1 us resolution or 0.1 %, whichever is coarser, up to ten years.
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    histogram: Histogram<u64>,
    total_ns: u128,
    longest_ns: u64,
}

const MS_NS: f64 = 1e6;

impl Default for Durations {
    fn default() -> Self {
        // It grows to what it is given.
        let histogram = Histogram::new(3).expect("histograms can have three digits");
        Self { histogram, total_ns: 0, longest_ns: 0 }
    }
}

impl Durations {
    /// Adds one time.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        if self.histogram.record(ns / 1_000).is_err() {
            // Only where a histogram of all 64 bits does not fit memory.
            self.histogram.saturating_record(ns / 1_000);
        }
        self.total_ns += u128::from(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Self) {
        if self.histogram.add(&other.histogram).is_ok() {
            self.total_ns += other.total_ns;
            self.longest_ns = self.longest_ns.max(other.longest_ns);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their sum in ms.
    pub fn total_ms(&self) -> f64 {
        self.total_ns as f64 / MS_NS
    }

    /// Their mean in ms; none when there are none.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.total_ms() / self.count() as f64)
    }

    /// The time in ms that `share` of them don't exceed (0.5 = median), to the histogram's resolution; none when there are none.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        (self.count() > 0).then(|| self.histogram.value_at_quantile(share.clamp(0.0, 1.0)) as f64 / 1e3)
    }

    /// The longest in ms; none when there are none.
    pub fn longest_ms(&self) -> Option<f64> {
        (self.count() > 0).then_some(self.longest_ns as f64 / MS_NS)
    }

    /// How many fall into each bin between rising `edges_ms`, the lower edge included, to the histogram's resolution; those
    /// below the first and above the last edge are left out.
    pub fn counts(&self, edges_ms: &[f64]) -> Vec<u64> {
        let mut counts = vec![0; edges_ms.len().saturating_sub(1)];
        for (ms, count) in self.recorded() {
            if let Some(bin) = edges_ms.partition_point(|&edge| edge <= ms).checked_sub(1)
                && bin < counts.len()
            {
                counts[bin] += count;
            }
        }
        counts
    }

    /// The times that there are, in ms and rising, and how many of each, to the histogram's resolution.
    pub fn recorded(&self) -> impl Iterator<Item = (f64, u64)> {
        // The lowest value that a bin stands for, so that whole milliseconds stay whole.
        (self.histogram.iter_recorded())
            .map(|v| (self.histogram.lowest_equivalent(v.value_iterated_to()) as f64 / 1e3, v.count_at_value()))
    }
}

impl Serialize for Durations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Durations", 5)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("mean_ms", &self.mean_ms())?;
        fields.serialize_field("median_ms", &self.quantile_ms(0.5))?;
        fields.serialize_field("longest_ms", &self.longest_ms())?;
        fields.serialize_field("recorded", &self.recorded().collect::<Vec<_>>())?;
        fields.end()
    }
}
