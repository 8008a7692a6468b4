//! The report's rules, restated in the plainest way over what a file of decisions says, line by line. It shares nothing with the
//! allocator: sets are searched from one end to the other, and a decision is held against all those that the rules allow.

use serde_json::Value;
use std::collections::BTreeMap;

/// What a play's decisions come to.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Lines of decisions.
    pub decisions: usize,
    /// CPUs that were given.
    pub given: usize,
    /// By job: time for which it had CPUs, summed over these, in ns.
    pub held_ns: Vec<u64>,
}

/// Holds every play in the lines of a file against the rules.
///
/// # Panics
/// When a decision is none that the rules allow.
pub fn judge(lines: &str) -> Vec<Verdict> {
    let mut plays: Vec<(Restated, Verdict)> = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line.get("policy").is_some() {
            plays.push((Restated::new(&line), Verdict::default()));
            continue;
        }
        let (rules, verdict) = plays.last_mut().expect("a heading comes first");
        rules.follow(&line);
        verdict.decisions += 1;
        verdict.given += line["decided"].as_array().unwrap().iter().filter(|d| !d["change"]["given"].is_null()).count();
        verdict.held_ns.clone_from(&rules.held_ns);
    }
    plays.into_iter().map(|(_, verdict)| verdict).collect()
}

#[derive(Clone, Default)]
struct Cpu {
    owner: Option<usize>,
    worker: Option<u64>,
    /// Since which step its owner has had nothing for it.
    idle: Option<u64>,
    history: Vec<u64>,
}

#[derive(Clone, Default)]
struct Job {
    wanted: usize,
    workers: u64,
    /// Without a CPU: with nothing to do, and stopped in the middle of a task.
    idle: Vec<u64>,
    stopped: Vec<u64>,
    asks_since: Option<u64>,
}

struct Restated {
    equal: bool,
    affinity: bool,
    priority: bool,
    history: usize,
    cpus: Vec<Cpu>,
    jobs: Vec<Job>,
    arrived: Vec<usize>,
    last: BTreeMap<u64, usize>,
    /// Who got which CPU, the latest last.
    got: Vec<(usize, usize)>,
    held_ns: Vec<u64>,
    time: u64,
    step: u64,
}

/// What is left of a line's decisions.
type Left = std::collections::VecDeque<(usize, Value)>;

impl Restated {
    fn new(heading: &Value) -> Self {
        let policy = heading["policy"].as_str().unwrap();
        let jobs = heading["jobs"].as_array().unwrap().len();
        Self {
            equal: policy == "equipartition",
            affinity: policy.starts_with("dynamic-affinity"),
            priority: policy != "dynamic-affinity-no-priority",
            history: heading["history"].as_u64().unwrap() as usize,
            cpus: vec![Cpu::default(); heading["cpus"].as_array().unwrap().len()],
            jobs: vec![Job::default(); jobs],
            arrived: Vec::new(),
            last: BTreeMap::new(),
            got: Vec::new(),
            held_ns: vec![0; jobs],
            time: 0,
            step: 0,
        }
    }

    fn follow(&mut self, line: &Value) {
        let at_ns = line["at_ns"].as_u64().unwrap();
        assert!(at_ns >= self.time, "time goes forward");
        for owner in self.cpus.iter().filter_map(|cpu| cpu.owner) {
            self.held_ns[owner] += at_ns - self.time;
        }
        (self.time, self.step) = (at_ns, self.step + 1);
        let decided = line["decided"].as_array().unwrap().iter();
        let mut left: Left = decided.map(|d| (d["cpu"].as_u64().unwrap() as usize, d["change"].clone())).collect();
        let step = &line["step"];
        let number = |value: &Value| value.as_u64().unwrap() as usize;
        let had: Vec<usize> = (0..self.jobs.len()).map(|job| self.has(job)).collect();
        let mut changes_shares = true;
        if let Some(arrive) = step.get("arrive") {
            let job = number(&arrive["job"]);
            self.jobs[job].wanted = number(&arrive["wanted"]);
            self.arrived.push(job);
            if self.equal { self.share_equally(&mut left) } else { self.ask(job, &mut left) }
        } else if let Some(want) = step.get("want") {
            changes_shares = !self.equal;
            self.want(number(&want["job"]), number(&want["wanted"]), &mut left);
        } else {
            self.depart(number(&step["depart"]["job"]), &mut left);
        }
        assert!(left.is_empty(), "more is decided than the rules say: {line}");
        if !changes_shares {
            assert_eq!(had, (0..self.jobs.len()).map(|job| self.has(job)).collect::<Vec<_>>(), "{line}");
        }
        for (job, &had) in had.iter().enumerate() {
            let asks = self.arrived.contains(&job) && self.useful(job) > 0;
            self.jobs[job].asks_since = if asks { self.jobs[job].asks_since.or(Some(at_ns)) } else { None };
            // Who has started keeps a CPU to its end.
            assert!(had == 0 || self.has(job) > 0 || !self.arrived.contains(&job), "{line}");
        }
        self.check_fair(line);
    }

    /// No CPU that a job wants is idle, and nobody who asks has two fewer than another.
    fn check_fair(&self, line: &Value) {
        let most = self.arrived.iter().map(|&job| self.has(job)).max().unwrap_or(0);
        for &job in &self.arrived {
            if self.equal {
                assert!(self.has(job) + 1 >= most, "{line}");
            } else if self.useful(job) > 0 {
                assert!(self.which(|cpu| cpu.owner.is_none() || cpu.idle.is_some()).is_empty(), "{line}");
                assert!(!self.priority || self.has(job) + 1 >= most, "{line}");
            }
        }
    }

    fn want(&mut self, job: usize, wanted: usize, left: &mut Left) {
        assert!((1..=self.cpus.len()).contains(&wanted));
        self.jobs[job].wanted = wanted;
        // Those without a CPU have nothing to do first, the last to be stopped first; then the CPUs that it got last.
        while self.runs(job) + self.jobs[job].stopped.len() > wanted && !self.jobs[job].stopped.is_empty() {
            let worker = self.jobs[job].stopped.pop().unwrap();
            self.jobs[job].idle.push(worker);
        }
        let mut fallen = Vec::new();
        while self.runs(job) > wanted {
            // Which one it got last only its own list knows: the one that is offered, or that is idle, is told by what follows.
            let cpu = self.latest(job);
            self.step += 1;
            self.cpus[cpu].idle = Some(self.step);
            fallen.push(cpu);
        }
        self.use_own(job, left);
        if self.equal {
            return;
        }
        self.ask(job, left);
        for cpu in fallen {
            if self.cpus[cpu].idle.is_some() && self.cpus[cpu].owner == Some(job) {
                self.offer(cpu, left);
            }
        }
    }

    fn depart(&mut self, job: usize, left: &mut Left) {
        self.arrived.retain(|&other| other != job);
        self.jobs[job] = Job::default();
        let mut freed = Vec::new();
        while self.has(job) > 0 {
            let (cpu, change) = left.pop_front().expect("all of its CPUs are taken");
            assert!(change == "taken" && self.cpus[cpu].owner == Some(job));
            let history = std::mem::take(&mut self.cpus[cpu].history);
            self.cpus[cpu] = Cpu { history, ..Cpu::default() };
            self.got.retain(|&(_, other)| other != cpu);
            freed.push(cpu);
        }
        if self.equal {
            self.share_equally(left);
        } else {
            freed.into_iter().for_each(|cpu| self.offer(cpu, left));
        }
    }

    /// Idle CPUs of a job go on, those that fell idle last first, with the workers that stand by.
    fn use_own(&mut self, job: usize, left: &mut Left) {
        loop {
            let idle = self.which(|cpu| cpu.owner == Some(job) && cpu.idle.is_some());
            let Some(last) = idle.into_iter().max_by_key(|&cpu| self.cpus[cpu].idle) else { return };
            if self.useful(job) == 0 {
                return;
            }
            let ready = self.ready(job);
            self.cpus[last].idle = None;
            if self.cpus[last].worker.is_some() && ready > 0 {
                continue;
            }
            if let Some(worker) = self.cpus[last].worker.take() {
                self.jobs[job].idle.push(worker);
            }
            self.seated(last, job, None, left);
        }
    }

    fn ask(&mut self, job: usize, left: &mut Left) {
        while self.useful(job) > 0 && self.has(job) < self.cpus.len() {
            let critical = self.critical(job);
            let desired = self.last.get(&critical[0]).copied().filter(|_| self.affinity);
            let free = self.which(|cpu| cpu.owner.is_none());
            let willing = self.which(|cpu| cpu.idle.is_some());
            let (allowed, worker) = match desired {
                Some(cpu) if free.contains(&cpu) || willing.contains(&cpu) => (vec![cpu], Some(critical[0])),
                _ if !free.is_empty() => (free, None),
                _ if !willing.is_empty() => (willing, None),
                _ => {
                    let most = self.arrived.iter().map(|&job| self.has(job)).max().unwrap_or(0);
                    if most <= self.has(job) + 1 {
                        return;
                    }
                    let victim = *self.arrived.iter().find(|&&job| self.has(job) == most).unwrap();
                    let worst = self.which(|cpu| cpu.owner == Some(victim));
                    match desired {
                        Some(cpu) if worst.contains(&cpu) => (vec![cpu], Some(critical[0])),
                        _ => (worst, None),
                    }
                }
            };
            let cpu = self.handed_over(job, left);
            assert!(allowed.contains(&cpu), "{cpu} of {allowed:?}");
            self.seated(cpu, job, worker, left);
        }
    }

    fn offer(&mut self, cpu: usize, left: &mut Left) {
        let asking: Vec<usize> = self.arrived.iter().copied().filter(|&job| self.useful(job) > 0).collect();
        let since = |job: usize| self.jobs[job].asks_since.unwrap_or(self.time);
        let Some(&first) = asking.iter().min_by_key(|&&job| (self.has(job), since(job))) else { return };
        let last_task = self.remembered(cpu).into_iter().find(|&worker| self.could_run(worker));
        let last_task = last_task.filter(|&worker| !self.priority || self.has(self.job_of(worker)) <= self.has(first));
        let job = last_task.map_or(first, |worker| self.job_of(worker));
        assert_eq!(self.handed_over(job, left), cpu);
        self.seated(cpu, job, last_task, left);
    }

    /// Whoever arrived first has one more of what doesn't divide; which CPUs, nobody says.
    fn share_equally(&mut self, left: &mut Left) {
        while let Some((cpu, change)) = left.pop_front() {
            if change == "taken" {
                self.taken(cpu);
            } else if let Some(job) = change["given"].as_u64() {
                assert_eq!(self.cpus[cpu].owner, None);
                self.step += 1;
                self.given(cpu, job as usize);
                self.cpus[cpu].idle = Some(self.step);
            } else {
                let job = self.cpus[cpu].owner.unwrap();
                self.cpus[cpu].idle = None;
                left.push_front((cpu, change));
                self.seated(cpu, job, None, left);
            }
        }
        let (jobs, cpus) = (self.arrived.len(), self.cpus.len());
        for (place, &job) in self.arrived.clone().iter().enumerate() {
            assert_eq!(self.has(job), cpus / jobs + usize::from(place < cpus % jobs), "equal shares");
            // Those that stand by go on without a word.
            self.use_own(job, left);
        }
    }

    /// A CPU is taken from whoever has it, and given to a job: which one it is.
    fn handed_over(&mut self, to: usize, left: &mut Left) -> usize {
        let (cpu, mut change) = left.pop_front().expect("a CPU is given");
        if self.cpus[cpu].owner.is_some() {
            assert_eq!(change, "taken");
            self.taken(cpu);
            change = left.pop_front().unwrap().1;
        }
        assert_eq!(change["given"].as_u64(), Some(to as u64));
        self.given(cpu, to);
        cpu
    }

    fn taken(&mut self, cpu: usize) {
        let owner = self.cpus[cpu].owner.unwrap();
        if let Some(worker) = self.cpus[cpu].worker.take() {
            if self.cpus[cpu].idle.is_some() {
                self.jobs[owner].idle.push(worker);
            } else {
                self.jobs[owner].stopped.push(worker);
                let time = self.time;
                self.jobs[owner].asks_since.get_or_insert(time);
            }
        }
        let history = std::mem::take(&mut self.cpus[cpu].history);
        self.cpus[cpu] = Cpu { history, ..Cpu::default() };
        self.got.retain(|&(_, other)| other != cpu);
    }

    fn given(&mut self, cpu: usize, to: usize) {
        self.cpus[cpu].owner = Some(to);
        self.got.push((to, cpu));
    }

    /// A worker begins on a CPU: `expected`, or the last of its job's to have run there, or else a critical one.
    fn seated(&mut self, cpu: usize, job: usize, expected: Option<u64>, left: &mut Left) {
        let (at, change) = left.pop_front().expect("a worker begins");
        let worker = change["seated"].as_u64().expect("a worker begins");
        let remembered = if self.equal { self.cpus[cpu].history.clone() } else { self.remembered(cpu) };
        let own = |worker: &u64| self.job_of(*worker) == job && self.could_run(*worker);
        let last = remembered.into_iter().take(self.history).find(own);
        let allowed = expected.or(last).map_or_else(|| self.critical(job), |worker| vec![worker]);
        assert!(at == cpu && allowed.contains(&worker), "{worker} of {allowed:?} on {cpu}");
        let job = &mut self.jobs[job];
        if job.stopped.contains(&worker) {
            job.stopped.retain(|&other| other != worker);
        } else {
            job.workers += u64::from(!job.idle.contains(&worker));
            job.idle.retain(|&other| other != worker);
        }
        self.last.insert(worker, cpu);
        let cpu = &mut self.cpus[cpu];
        cpu.worker = Some(worker);
        cpu.history.retain(|&other| other != worker);
        cpu.history.insert(0, worker);
    }

    fn which(&self, is: impl Fn(&Cpu) -> bool) -> Vec<usize> {
        (0..self.cpus.len()).filter(|&cpu| is(&self.cpus[cpu])).collect()
    }

    fn has(&self, job: usize) -> usize {
        self.which(|cpu| cpu.owner == Some(job)).len()
    }

    fn runs(&self, job: usize) -> usize {
        self.which(|cpu| cpu.owner == Some(job) && cpu.idle.is_none()).len()
    }

    /// The CPU that a job got last, of those on which it runs.
    fn latest(&self, job: usize) -> usize {
        let runs = |&&(owner, cpu): &&(usize, usize)| owner == job && self.cpus[cpu].idle.is_none();
        self.got.iter().rev().find(runs).unwrap().1
    }

    fn ready(&self, job: usize) -> usize {
        // A CPU that was just given counts once a worker sits there.
        let sits = self.which(|cpu| cpu.owner == Some(job) && cpu.idle.is_none() && cpu.worker.is_some()).len();
        self.jobs[job].wanted.saturating_sub(sits + self.jobs[job].stopped.len())
    }

    fn useful(&self, job: usize) -> usize {
        self.ready(job) + self.jobs[job].stopped.len()
    }

    fn job_of(&self, worker: u64) -> usize {
        worker as usize / self.cpus.len()
    }

    fn could_run(&self, worker: u64) -> bool {
        let job = self.job_of(worker);
        self.jobs[job].stopped.contains(&worker) || self.jobs[job].idle.contains(&worker) && self.ready(job) > 0
    }

    fn remembered(&self, cpu: usize) -> Vec<u64> {
        let length = if self.affinity { self.history } else { 0 };
        self.cpus[cpu].history.iter().copied().take(length).collect()
    }

    /// The workers that may be the most critical one.
    fn critical(&self, job: usize) -> Vec<u64> {
        let first = (job * self.cpus.len()) as u64;
        let job = &self.jobs[job];
        match (job.stopped.first(), job.idle.last()) {
            (Some(&stopped), _) => vec![stopped],
            (None, None) => vec![first + job.workers],
            (None, Some(&last)) if self.affinity || self.equal => vec![last],
            (None, Some(_)) => job.idle.clone(),
        }
    }
}
