//! Waiting for the bus, or a memory controller.
//!
//! Each CPU has at most one miss under way, so a bus with `n` other CPUs is a closed queue: its customers think for `Z` ns
//! and then hold the bus for `S` ns, the same every time. By mean-value analysis (Reiser and Lavenberg, J. ACM 27(2), 1980) a
//! customer finds the queue of a system without itself. With that taken as `n/(n+1)` of the whole queue (Schweitzer's
//! approximation), and with the service under way half over on average (as in M/D/1), the response time `R` of the bus obeys
//!
//! ```text
//! R = S + n S (R - S/2) / (Z + R)      a quadratic in R;  wait = R - S
//! ```
//!
//! and at least `(n + 1) S - Z`, since a bus that is never free serves one of `n + 1` customers every `S`. The wait tends to
//! that of the M/D/1 queue, `S u / (2 (1-u))`, for many CPUs that offer a utilisation `u`, and never exceeds `n S`. Lazowska
//! et al., "Quantitative System Performance", 1984, has all of these parts (chapters 5 to 7). Against a simulated bus it errs
//! by less than a tenth with up to 8 CPUs, and by a quarter at most with more as they saturate the bus (tested). `Z` is the
//! mean over the other CPUs: ours is taken to be like them.

/// One in the fixed-point numbers of [`Bus`], which sum without drift.
const ONE: f64 = (1i64 << 32) as f64;

/// What CPUs ask of one bus.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bus {
    /// Sum of the shares of time for which the CPUs would hold it if it were never busy.
    offered: i64,
    /// CPUs that ask anything of it.
    asking: u32,
}

/// The share of its time for which a CPU would hold the bus if it were never busy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand(u32);

impl Demand {
    pub fn new(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * ONE).min(f64::from(u32::MAX)) as u32)
    }
}

impl Bus {
    /// A CPU asks for `new` instead of `old`.
    pub fn replace(&mut self, old: Demand, new: Demand) {
        self.offered = self.offered - i64::from(old.0) + i64::from(new.0);
        self.asking = self.asking - u32::from(old.0 > 0) + u32::from(new.0 > 0);
    }

    /// How long a miss waits, in services, with what a CPU itself asks for left out.
    #[inline]
    pub fn wait_services(&self, own: Demand) -> f64 {
        let offered = self.offered - i64::from(own.0);
        if offered == 0 {
            return 0.0;
        }
        waiting(f64::from(self.asking - u32::from(own.0 > 0)), offered as f64 / ONE)
    }
}

/// How long a miss waits behind `n` other CPUs that offer a utilisation of `offered` together, in services.
fn waiting(n: f64, offered: f64) -> f64 {
    // In units of the service time: offered = n / (Z + 1).
    let think = (n / offered - 1.0).max(0.0);
    let b = n + 1.0 - think;
    let response = 0.5 * (b + (b * b + 4.0 * think - 2.0 * n).sqrt());
    (response - 1.0).max(n - think)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn many_others_are_an_open_queue_with_fixed_service() {
        for offered in [0.1, 0.5, 0.8] {
            let open = offered / (2.0 * (1.0 - offered));
            assert!((waiting(1e7, offered) / open - 1.0).abs() < 1e-4);
        }
    }

    #[test]
    fn waiting_is_bounded_and_grows_with_what_is_asked() {
        for n in 1..64 {
            let n = f64::from(n);
            let mut before = 0.0;
            for step in 1..=100 {
                let wait = waiting(n, n * f64::from(step) / 100.0);
                assert!(wait >= before && wait <= n, "{n} {step} {wait}");
                before = wait;
            }
        }
    }

    #[test]
    fn demands_come_and_go_without_a_trace() {
        let mut bus = Bus::default();
        let demands = [0.1, 0.0, 0.7].map(Demand::new);
        for demand in demands {
            bus.replace(Demand::default(), demand);
        }
        assert_eq!(bus.asking, 2);
        for demand in demands {
            bus.replace(demand, Demand::default());
        }
        assert_eq!((bus.offered, bus.asking), (0, 0));
    }

    /// Customers that think for an exponential time and then hold the bus for 1, first come first served.
    fn simulated_wait(customers: usize, think: f64, services: usize) -> f64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut think_time = || -think * (1.0 - random.random::<f64>()).ln();
        let mut arrivals: Vec<f64> = (0..customers).map(|_| think_time()).collect();
        let (mut free_at, mut waited) = (0.0f64, 0.0);
        for _ in 0..services {
            let next = (0..customers).min_by(|&a, &b| arrivals[a].total_cmp(&arrivals[b])).unwrap();
            let starts = free_at.max(arrivals[next]);
            waited += starts - arrivals[next];
            free_at = starts + 1.0;
            arrivals[next] = free_at + think_time();
        }
        waited / services as f64
    }

    #[test]
    fn a_simulated_bus_makes_misses_wait_as_long() {
        // One of 4 or 8 alike sees the others, each of which asks for 1 in think + 1 (the report's machine has 4 CPUs).
        for (customers, think) in
            [(2, 9.0), (2, 2.0), (4, 15.0), (4, 5.0), (4, 2.0), (4, 0.5), (8, 10.0), (8, 5.0), (32, 60.0), (32, 30.0)]
        {
            let others = (customers - 1) as f64;
            let modelled = waiting(others, others / (think + 1.0));
            let simulated = simulated_wait(customers, think, 200_000);
            let within = if customers > 8 { 0.25 } else { 0.1 };
            assert!((modelled - simulated).abs() < within * simulated, "{customers} {think}: {modelled} {simulated}");
        }
    }
}
