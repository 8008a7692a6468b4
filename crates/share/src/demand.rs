//! How many CPUs a job is taken to be able to use: what it says, but no more than it is seen to use.
//!
//! A job that can't use what it asks for would keep CPUs from others for ever. So it is watched over windows of [`WINDOW_NS`]: the CPU
//! time that it took, the time for which it had CPUs, and how many of its threads were running or ready to run whenever we looked. When it
//! left [`WASTE`] of a CPU or more unused, and that wasn't for want of a CPU, what it was seen to use is all that it gets from then on. That ends
//! when more of its threads are seen to be ready than it may have CPUs: the very next time that we look.
//!
//! What a job says when doesn't matter for that, so that one gains nothing by saying it again.

/// How long a job is watched before it is judged, in ns.
pub const WINDOW_NS: u64 = 500_000_000;

/// How much of a CPU a job may leave unused: what one of its threads may wait for others at most, half of the time.
const WASTE: f64 = 0.5;

/// How much of a CPU counts as none: threads that do a little now and then.
const LITTLE: f64 = 0.25;

/// What is known of a job's demand.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// What it says; none when it has said nothing.
    said: Option<u32>,
    /// The most that it gets, when it was seen to use less than it had.
    cap: Option<u32>,
    /// When the window began, and the CPU time that the job had taken by then.
    since_ns: u64,
    cpu_ns: u64,
    /// CPUs that it had, summed over the time of the window, until `held_until_ns`.
    held_ns: u64,
    held_until_ns: u64,
    /// How often we looked, and threads that were ready or running then, summed, and the most.
    looks: u32,
    ready: u64,
    most_ready: u32,
    /// The most ready threads of the window before.
    before: u32,
    /// How often it was capped.
    caps: u32,
}

impl Demand {
    /// A job that starts now.
    pub fn new(now_ns: u64) -> Self {
        Self { since_ns: now_ns, held_until_ns: now_ns, ..Self::default() }
    }

    /// It says that it can use so many CPUs; 0 says nothing.
    pub fn says(&mut self, cpus: u32) {
        self.said = (cpus > 0).then_some(cpus).or(self.said);
    }

    /// What it says.
    pub fn said(&self) -> Option<u32> {
        self.said
    }

    /// How often it was held to less than it asked for.
    pub fn caps(&self) -> u32 {
        self.caps
    }

    /// It had `held` CPUs until now.
    pub fn held(&mut self, now_ns: u64, held: usize) {
        self.held_ns += held as u64 * (now_ns - self.held_until_ns);
        self.held_until_ns = now_ns;
    }

    /// We look at it: `ready` of its threads are running or ready to run, it has taken `cpu_ns` of CPU time in all, and `held` CPUs are its own.
    pub fn looked(&mut self, now_ns: u64, held: usize, ready: u32, cpu_ns: u64) {
        self.held(now_ns, held);
        self.looks += 1;
        self.ready += u64::from(ready);
        self.most_ready = self.most_ready.max(ready);
        if self.cap.is_some_and(|cap| ready > cap) {
            self.cap = Some(ready);
        }
        let window_ns = now_ns - self.since_ns;
        if window_ns < WINDOW_NS {
            return;
        }
        let used = cpu_ns.saturating_sub(self.cpu_ns) as f64 / window_ns as f64;
        let had = self.held_ns as f64 / window_ns as f64;
        // On a busy machine threads are ready and don't run: that is no fault of the job.
        let seen = used.max(self.ready as f64 / f64::from(self.looks));
        if had - seen >= WASTE {
            let cap = (seen - LITTLE).ceil().max(1.0) as u32;
            self.caps += u32::from(self.cap.is_none_or(|before| cap < before));
            self.cap = Some(cap);
        } else if self.cap.zip(self.said).is_some_and(|(cap, said)| cap >= said) {
            self.cap = None;
        }
        (self.since_ns, self.cpu_ns) = (now_ns, cpu_ns);
        (self.held_ns, self.looks, self.ready) = (0, 0, 0);
        (self.before, self.most_ready) = (self.most_ready, 0);
    }

    /// How many CPUs it is taken to be able to use.
    pub fn wanted(&self) -> u32 {
        match self.said {
            Some(said) => said.min(self.cap.unwrap_or(said)).max(1),
            // Of who says nothing, as many as were ready at once of late.
            None => self.most_ready.max(self.before).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK_NS: u64 = 100_000_000;

    /// A job that holds `held` CPUs and keeps `busy` threads busy on them, looked at `looks` times more.
    fn watch(demand: &mut Demand, now_ns: &mut u64, cpu_ns: &mut u64, looks: u32, held: usize, busy: u32) {
        for _ in 0..looks {
            *now_ns += LOOK_NS;
            *cpu_ns += LOOK_NS * u64::from(busy.min(held as u32));
            demand.looked(*now_ns, held, busy, *cpu_ns);
        }
    }

    #[test]
    fn who_uses_what_it_has_gets_what_it_asks_for() {
        let (mut demand, mut now_ns, mut cpu_ns) = (Demand::new(0), 0, 0);
        demand.says(8);
        assert_eq!(demand.wanted(), 8);
        watch(&mut demand, &mut now_ns, &mut cpu_ns, 20, 3, 8);
        assert_eq!((demand.wanted(), demand.caps()), (8, 0));
    }

    #[test]
    fn who_lies_is_held_to_what_it_uses_however_often_it_says_more() {
        let (mut demand, mut now_ns, mut cpu_ns) = (Demand::new(0), 0, 0);
        demand.says(8);
        watch(&mut demand, &mut now_ns, &mut cpu_ns, 5, 8, 1);
        assert_eq!((demand.wanted(), demand.caps()), (1, 1));
        for said in [1, 9, 100] {
            demand.says(said);
            assert_eq!(demand.wanted(), 1);
        }
        watch(&mut demand, &mut now_ns, &mut cpu_ns, 50, 1, 1);
        assert_eq!((demand.wanted(), demand.caps()), (1, 1));
    }

    #[test]
    fn who_hangs_is_left_one_and_gets_back_what_it_uses_again() {
        let (mut demand, mut now_ns, mut cpu_ns) = (Demand::new(0), 0, 0);
        demand.says(6);
        watch(&mut demand, &mut now_ns, &mut cpu_ns, 5, 6, 0);
        assert_eq!(demand.wanted(), 1);
        // Its threads wake up: we see it the first time that we look.
        watch(&mut demand, &mut now_ns, &mut cpu_ns, 1, 1, 6);
        assert_eq!(demand.wanted(), 6);
        watch(&mut demand, &mut now_ns, &mut cpu_ns, 10, 6, 6);
        demand.says(7);
        assert_eq!(demand.wanted(), 7, "the cap is lifted");
    }

    #[test]
    fn who_changes_its_mind_all_the_time_is_judged_by_what_it_held() {
        // It holds 8 CPUs nine tenths of the time, and 1 for the rest, and uses 1.
        let (mut demand, mut cpu_ns) = (Demand::new(0), 0);
        for look in 1..=5_u64 {
            demand.says(8);
            demand.held(look * LOOK_NS - LOOK_NS / 10, 8);
            demand.says(1);
            cpu_ns += LOOK_NS;
            demand.looked(look * LOOK_NS, 1, 1, cpu_ns);
        }
        demand.says(8);
        assert_eq!(demand.wanted(), 1);
    }

    #[test]
    fn a_busy_machine_is_no_fault_of_the_job() {
        let mut demand = Demand::new(0);
        demand.says(4);
        for look in 1..=10 {
            demand.looked(look * LOOK_NS, 4, 4, look * LOOK_NS);
        }
        assert_eq!((demand.wanted(), demand.caps()), (4, 0));
    }

    #[test]
    fn of_who_says_nothing_ready_threads_are_counted() {
        let (mut demand, mut now_ns, mut cpu_ns) = (Demand::new(0), 0, 0);
        assert_eq!(demand.wanted(), 1);
        watch(&mut demand, &mut now_ns, &mut cpu_ns, 1, 1, 5);
        assert_eq!(demand.wanted(), 5);
        watch(&mut demand, &mut now_ns, &mut cpu_ns, 11, 5, 2);
        assert_eq!(demand.wanted(), 2);
        demand.says(0);
        assert_eq!((demand.said(), demand.wanted()), (None, 2));
    }
}
