//! Blocks as arrays of tasks: submitted, watched, and taken into the study's journal in their order, each wholly or not at all.
//!
//! It doesn't matter in which order blocks end, how often a task runs, or whether the study command ran meanwhile: whoever comes later finds
//! in the folder what was submitted and what is there.

use super::Distributed;
use super::block_result::BlockResult;
use super::folder::{BlockWork, Folder, Submission, TaskFailure};
use super::options::SlurmSite;
use super::queue::{self, QueueError, QueuedTask};
use crate::engine::{EngineError, Event, Queue, RunnerError};
use crate::host::unix_seconds;
use crate::record::Ending;
use crate::session::Session;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

/// So often it is looked what tasks have left in the folder.
const LOOK: Duration = Duration::from_millis(100);

/// The shortest time between two questions to the controller, which many ask; and the longest, while nothing happens.
const ASK_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];

/// So long after the end of its task a block may come to be seen: file systems over a network take their time. The second is for tasks that
/// ended well, which have left a block.
const GRACE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];

/// So long it is waited at the end for the queue to empty, or for a controller that is away.
const LONGEST_END: Duration = Duration::from_secs(30);

/// Of so many submissions at most it is asked at once.
const NAMES_OF_A_QUESTION: usize = 200;

/// A block that was lost so often is given up.
const LOSSES_TO_GIVE_UP: u32 = 3;

/// What runs the blocks of a study on Slurm.
pub struct Cluster {
    /// Where the study command and its tasks meet.
    pub folder: Folder,
    /// This program, as nodes find it, with the words that make it a task; folder and number come after them.
    pub program: Vec<OsString>,
    /// The folder in which programs are run, as nodes find it.
    pub directory: PathBuf,
}

/// A task that was submitted.
#[derive(Clone, Debug)]
struct Attempt {
    submission: u32,
    name: String,
    index: usize,
    since: Instant,
    /// Whether it surely reached the queue.
    is_sure: bool,
}

/// A block of what is under way.
#[derive(Debug)]
pub(super) struct Block<K: Distributed> {
    work: BlockWork<K::Turn>,
    result: Option<BlockResult<K::Trial>>,
    attempt: Option<Attempt>,
    /// Since when its task is known to have ended without a block, how long that may be, and how it ended.
    ended: Option<(Instant, Duration, String)>,
    /// What Slurm said of its task last.
    seen: Option<QueuedTask>,
    pub(super) losses: u32,
}

impl<K: Distributed> Block<K> {
    pub(super) fn new(work: BlockWork<K::Turn>) -> Self {
        Self { work, result: None, attempt: None, ended: None, seen: None, losses: 0 }
    }

    /// Takes its task for lost, for a cause in words; gives the sentence that says so.
    fn lose(&mut self, cause: &str) -> Result<String, RunnerError> {
        (self.attempt, self.ended, self.seen) = (None, None, None);
        self.losses += 1;
        let number = self.work.block + 1;
        if self.losses < LOSSES_TO_GIVE_UP {
            return Ok(format!("block {number} is submitted again: {cause}"));
        }
        Err(RunnerError::Broken(format!(
            "block {number} was lost {} times, at last: {cause}; what was measured is kept, and the same command tries again",
            self.losses
        )))
    }

    /// What came of it in `result`, if that is what was to be run.
    fn check(&self, plan: &K, study: &str, result: &BlockResult<K::Trial>) -> Result<(), &'static str> {
        if result.header.study != study || result.header.block != self.work.block {
            return Err("it is of another study or block");
        }
        let (turns, trials) = (&self.work.turns, &result.trials);
        match trials.len() == turns.len() && turns.iter().zip(trials).all(|(turn, trial)| plan.is_of(turn, trial)) {
            true => Ok(()),
            false => Err("it has other trials than were to be run"),
        }
    }
}

/// What the controller answered, and when it was asked.
type Answer = (Instant, Result<Vec<QueuedTask>, QueueError>);

/// Asks the controller in a thread of its own, since it may take seconds to answer, or not be there.
#[derive(Debug)]
struct Watcher {
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
    is_asking: bool,
    asked: Option<Instant>,
    interval: Duration,
}

impl Watcher {
    fn new() -> Self {
        let (sender, answers) = mpsc::channel();
        Self { sender, answers, is_asking: false, asked: None, interval: ASK_EVERY[0] }
    }

    /// Something has happened, so that it is worth asking.
    fn wake(&mut self) {
        self.interval = ASK_EVERY[0];
    }

    /// Asks for the tasks called `names`, unless that was done not long ago; gives what was answered meanwhile.
    fn ask(&mut self, names: &[String]) -> Option<Answer> {
        let is_due = self.asked.is_none_or(|asked| asked.elapsed() >= self.interval);
        if !self.is_asking && is_due && !names.is_empty() {
            (self.is_asking, self.asked) = (true, Some(Instant::now()));
            let (sender, names) = (self.sender.clone(), names.to_vec());
            thread::spawn(move || {
                let asked = Instant::now();
                sender.send((asked, queue::tasks(&names)))
            });
        }
        match self.answers.try_recv() {
            Ok(answer) => {
                self.is_asking = false;
                self.interval = (self.interval * 3 / 2).min(ASK_EVERY[1]);
                Some(answer)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }
}

/// Runs all that is left of the study in `session`: the blocks of `works`, each so many turns, at `site`, between which nothing is decided.
///
/// # Errors
/// When the journal can't be written, a signal asks us to end, or the study can't go on. What was done is kept, in the journal or in
/// the folder; and nothing is left in the queue, unless whoever is logged in has left.
pub fn run_all<K: Distributed>(
    session: &mut Session<K>,
    cluster: &Cluster,
    site: &SlurmSite,
    works: impl IntoIterator<Item = (u32, Vec<K::Turn>)>,
    watch: &mut dyn FnMut(Event),
) -> Result<Ending, EngineError> {
    let plan = session.plan().clone();
    let mut under_way = UnderWay::new(cluster, &plan, site);
    let works = works.into_iter().map(|(block, turns)| BlockWork { block, turns }).collect();
    under_way.run(session, works, watch)?;
    under_way.end(watch);
    Ok(Ending::Finished)
}

/// The blocks that are under way.
pub(super) struct UnderWay<'a, K: Distributed> {
    cluster: &'a Cluster,
    plan: &'a K,
    site: &'a SlurmSite,
    pub(super) blocks: Vec<Block<K>>,
    watcher: Watcher,
    /// Names of what was submitted of them.
    names: Vec<String>,
    /// Names of all that was submitted before. A task that was run twice may still be in the queue, and a controller that crashed
    /// takes what ended shortly before for running.
    earlier: Vec<String>,
    last_number: u32,
    /// Whether the controller didn't answer when it was asked last, and why.
    away: Option<String>,
    /// Of a model, where its clock is.
    clock_s: f64,
}

impl<'a, K: Distributed> UnderWay<'a, K> {
    pub(super) fn new(cluster: &'a Cluster, plan: &'a K, site: &'a SlurmSite) -> Self {
        let (blocks, names, earlier) = (Vec::new(), Vec::new(), vec![site.survey_name()]);
        let watcher = Watcher::new();
        let (last_number, away, clock_s) = (0, None, 0.0);
        Self { cluster, plan, site, blocks, watcher, names, earlier, last_number, away, clock_s }
    }

    /// Runs the blocks of `works` to the end of all of them.
    pub(super) fn run(
        &mut self,
        session: &mut Session<K>,
        works: Vec<BlockWork<K::Turn>>,
        watch: &mut dyn FnMut(Event),
    ) -> Result<(), EngineError> {
        self.blocks = works.into_iter().map(Block::new).collect();
        self.clock_s = K::clock_s(session.trials());
        self.take_up();
        let ran = self.run_to_end(session, watch);
        match &ran {
            Ok(()) => self.forget_submissions(),
            Err(EngineError::Runner(RunnerError::Interrupted { signal }))
                if *signal == nix::sys::signal::Signal::SIGHUP as i32 =>
            {
                let path = self.cluster.folder.path().with_extension("");
                watch(Event::Note(&format!(
                    "what was submitted runs on; `stayput {} --attach {}` goes on with it",
                    K::COMMAND,
                    path.display()
                )));
            }
            Err(_) => self.cancel_all(watch),
        }
        ran
    }

    /// Finds what was submitted of these blocks by a command that has ended since.
    fn take_up(&mut self) {
        let folder = &self.cluster.folder;
        for submission in folder.submissions::<K::Turn>() {
            self.last_number = self.last_number.max(submission.number);
            let name = submission.name();
            if submission.study != self.site.study || self.names.contains(&name) {
                continue;
            }
            let mut is_ours = false;
            for (index, work) in submission.blocks.iter().enumerate() {
                if let Some(block) = self.blocks.iter_mut().find(|block| block.work == *work) {
                    let (submission, since, name) = (submission.number, Instant::now(), name.clone());
                    // Nobody knows whether it was submitted before that command was killed.
                    block.attempt = Some(Attempt { submission, name, index, since, is_sure: false });
                    is_ours = true;
                }
            }
            if is_ours {
                self.names.push(name);
            } else {
                // Of a plan that has changed since, or of blocks that are in the journal.
                let _ = queue::cancel(&name);
                folder.forget_submission(submission.number);
            }
        }
    }

    fn run_to_end(&mut self, session: &mut Session<K>, watch: &mut dyn FnMut(Event)) -> Result<(), EngineError> {
        loop {
            if let Some(signal) = launch::interruption() {
                return Err(RunnerError::Interrupted { signal }.into());
            }
            self.take_in(session, watch)?;
            if self.blocks.is_empty() {
                return Ok(());
            }
            self.give_up_lost(watch)?;
            self.submit(watch)?;
            if let Some(answer) = self.watcher.ask(&self.names) {
                self.learn(answer, watch);
            }
            self.tell(watch);
            thread::sleep(LOOK);
        }
    }

    /// Takes in what is whole, as far as no block before it is missing.
    pub(super) fn take_in(
        &mut self,
        session: &mut Session<K>,
        watch: &mut dyn FnMut(Event),
    ) -> Result<(), EngineError> {
        self.collect(watch)?;
        while self.blocks.first().is_some_and(|block| block.result.is_some()) {
            let block = self.blocks.remove(0);
            self.merge(session, block, watch)?;
        }
        Ok(())
    }

    /// Reads what tasks have left in the folder.
    fn collect(&mut self, watch: &mut dyn FnMut(Event)) -> Result<(), RunnerError> {
        let folder = &self.cluster.folder;
        let names = folder.names().map_err(|error| {
            RunnerError::Broken(format!("cannot see what tasks have left in {}: {error}", folder.path().display()))
        })?;
        let mut found: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        for name in &names {
            let Some(rest) = name.strip_prefix("block-") else { continue };
            if let Some(block) = rest.strip_suffix(".trials").and_then(|block| block.parse().ok()) {
                found.insert(block, None);
            } else if let Some((block, submission)) = rest.strip_suffix(".failed").and_then(|rest| rest.split_once('.'))
                && let (Ok(block), Ok(submission)) = (block.parse(), submission.parse())
            {
                // A block that is whole is, whoever failed at it.
                found.entry(block).or_insert(Some(submission));
            }
        }
        for block in self.blocks.iter_mut().filter(|block| block.result.is_none()) {
            match found.get(&block.work.block) {
                None => {}
                Some(None) => {
                    let path = folder.result(block.work.block);
                    let read = BlockResult::read(&path);
                    let checked = read.and_then(|result| {
                        block.check(self.plan, &self.site.study, &result).map(|()| result).map_err(str::to_owned)
                    });
                    self.watcher.wake();
                    match checked {
                        Ok(result) => block.result = Some(result),
                        Err(why) => {
                            folder.forget(&path);
                            let lost = block.lose(&format!("what was left of it can't be used: {why}"))?;
                            watch(Event::Note(&lost));
                        }
                    }
                }
                Some(Some(submission)) => {
                    let path = folder.failure(block.work.block, *submission);
                    let failure: Option<TaskFailure> = folder.read(&path).ok();
                    folder.forget(&path);
                    self.watcher.wake();
                    let Some(TaskFailure { cause, is_final, .. }) = failure else { continue };
                    if is_final {
                        return Err(RunnerError::Broken(format!("{cause}; what was measured is kept")));
                    }
                    if block.attempt.as_ref().is_some_and(|attempt| attempt.submission == *submission) {
                        watch(Event::Note(&block.lose(&cause)?));
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a whole block into the study.
    fn merge(
        &mut self,
        session: &mut Session<K>,
        block: Block<K>,
        watch: &mut dyn FnMut(Event),
    ) -> Result<(), EngineError> {
        let Block { work, result: Some(BlockResult { mut trials, disturbed, .. }), .. } = block else { return Ok(()) };
        trials.iter_mut().for_each(|trial| self.plan.put_at(trial, &mut self.clock_s));
        disturbed.iter().filter_map(K::disturbed).for_each(&mut *watch);
        let from = session.trials().len();
        session.add_block(trials, disturbed)?;
        session.trials()[from..].iter().filter_map(K::ended).for_each(&mut *watch);
        self.cluster.folder.forget(&self.cluster.folder.result(work.block));
        Ok(())
    }

    /// Takes blocks for lost whose tasks have ended for long enough.
    fn give_up_lost(&mut self, watch: &mut dyn FnMut(Event)) -> Result<(), RunnerError> {
        for block in self.blocks.iter_mut().filter(|block| block.result.is_none()) {
            if let Some((since, grace, cause)) = &block.ended
                && since.elapsed() > *grace
            {
                let cause = cause.clone();
                watch(Event::Note(&block.lose(&cause)?));
            }
        }
        Ok(())
    }

    /// Submits all blocks that are neither there nor submitted.
    fn submit(&mut self, watch: &mut dyn FnMut(Event)) -> Result<(), RunnerError> {
        let is_left = |block: &&mut Block<K>| block.result.is_none() && block.attempt.is_none();
        let blocks: Vec<BlockWork<K::Turn>> =
            self.blocks.iter_mut().filter(is_left).map(|block| block.work.clone()).collect();
        if blocks.is_empty() {
            return Ok(());
        }
        let folder = &self.cluster.folder;
        // A number that no earlier submission has, though its file be gone.
        self.last_number = (self.last_number + 1).max(unix_seconds() as u32);
        let submission = Submission { study: self.site.study.clone(), number: self.last_number, blocks };
        let name = submission.name();
        // Known before it exists: whoever is killed between leaves nothing that can't be found.
        folder
            .keep(&submission)
            .map_err(|error| RunnerError::Broken(format!("cannot write to {}: {error}", folder.path().display())))?;
        self.names.push(name.clone());
        let script = script(&self.cluster.program, folder.path(), submission.number);
        let is_sure = match queue::submit(
            self.site,
            &name,
            submission.blocks.len(),
            [&self.cluster.directory, folder.path()],
            &script,
        ) {
            Ok(()) => true,
            // It may have been submitted all the same.
            Err(QueueError::Away(why)) => {
                if self.away.is_none() {
                    watch(Event::Note(&format!("{}; it is waited for", QueueError::Away(why.clone()))));
                }
                self.away = Some(why);
                false
            }
            Err(QueueError::Interrupted { signal }) => return Err(RunnerError::Interrupted { signal }),
            Err(error) => return Err(RunnerError::Broken(error.to_string())),
        };
        let since = Instant::now();
        for (index, work) in submission.blocks.iter().enumerate() {
            if let Some(block) = self.blocks.iter_mut().find(|block| block.work.block == work.block) {
                let (submission, name) = (submission.number, name.clone());
                block.attempt = Some(Attempt { submission, name, index, since, is_sure });
            }
        }
        self.watcher.wake();
        Ok(())
    }

    /// Takes note of what the controller says.
    fn learn(&mut self, (asked, answer): Answer, watch: &mut dyn FnMut(Event)) {
        let tasks = match answer {
            Ok(tasks) => tasks,
            Err(QueueError::Interrupted { .. }) => return,
            Err(error) => {
                if self.away.is_none() {
                    watch(Event::Note(&format!("{error}; it is waited for")));
                }
                self.away = Some(error.to_string());
                self.watcher.wake();
                return;
            }
        };
        self.away = None;
        for block in self.blocks.iter_mut().filter(|block| block.result.is_none()) {
            let Some(attempt) = block.attempt.as_ref().filter(|attempt| attempt.since <= asked) else { continue };
            let is_its = |task: &&QueuedTask| task.name == attempt.name && task.index == Some(attempt.index);
            // Of several under one number, which a controller that crashed may have started, one that isn't over counts.
            let task = tasks.iter().filter(is_its).min_by_key(|task| task.has_ended());
            let ended = match task {
                Some(task) if !task.has_ended() => None,
                Some(task) => {
                    let grace = GRACE[usize::from(task.state == "COMPLETED")];
                    let node = if task.node.is_empty() { String::new() } else { format!(" on {}", task.node) };
                    let why = if task.reason == "None" { String::new() } else { format!(" ({})", task.reason) };
                    Some((grace, format!("Slurm says {}{why}{node}", task.state)))
                }
                None if !attempt.is_sure && block.seen.is_none() => {
                    // It was never submitted, or its end is long ago.
                    (block.attempt, block.ended) = (None, None);
                    continue;
                }
                None => Some((GRACE[0], "Slurm doesn't know its task any more".to_owned())),
            };
            block.seen = task.cloned().or(block.seen.take());
            block.ended = match (ended, block.ended.take()) {
                (None, _) => None,
                (Some(_), Some(before)) => Some(before),
                (Some((grace, cause)), None) => Some((Instant::now(), grace, cause)),
            };
        }
    }

    /// Tells where the blocks are.
    fn tell(&self, watch: &mut dyn FnMut(Event)) {
        let mut queue = Queue::default();
        for block in &self.blocks {
            let seen = block.seen.as_ref();
            if block.result.is_some() {
                queue.whole += 1;
            } else if seen.is_some_and(QueuedTask::is_running) {
                queue.running += 1;
            } else {
                queue.pending += 1;
                let reason = seen.map(|task| task.reason.as_str()).filter(|reason| *reason != "None");
                queue.why = if queue.why.is_empty() { reason.unwrap_or_default() } else { queue.why };
            }
        }
        if self.away.is_some() {
            queue.why = "the controller doesn't answer";
        }
        watch(Event::Queue(queue));
    }

    /// Takes all that was submitted out of the queue.
    fn cancel_all(&mut self, watch: &mut dyn FnMut(Event)) {
        let left = self.blocks.iter().filter(|block| block.result.is_none() && block.attempt.is_some()).count();
        let mut failed = None;
        for name in std::mem::take(&mut self.names) {
            failed = queue::cancel(&name).err().or(failed);
        }
        match failed {
            Some(error) => watch(Event::Note(&format!(
                "what is in the queue could not be cancelled: {error}; `scancel --name=stayput-{}-...` does it",
                self.site.study
            ))),
            None => {
                // Whoever goes on doesn't take what we have cancelled for lost.
                let folder = &self.cluster.folder;
                folder.forget_submissions();
                if left == 0 {
                    return;
                }
                let blocks = if left == 1 { "block is" } else { "blocks are" };
                watch(Event::Note(&format!("{left} {blocks} taken out of Slurm's queue")));
            }
        }
    }

    /// After the last of the blocks the folder has nothing of what was submitted.
    fn forget_submissions(&mut self) {
        self.earlier.append(&mut self.names);
        let folder = &self.cluster.folder;
        folder.forget_submissions();
    }

    /// At the end of the study nothing is in the queue, and the folder isn't needed any more.
    pub(super) fn end(&mut self, watch: &mut dyn FnMut(Event)) {
        self.take_up();
        self.forget_submissions();
        let begun = Instant::now();
        for names in std::mem::take(&mut self.earlier).chunks(NAMES_OF_A_QUESTION) {
            if let Err(error) = empty_queue(names, begun) {
                watch(Event::Note(&format!("{error}, so that it isn't known whether something is left in its queue")));
                break;
            }
        }
        self.cluster.folder.remove();
    }
}

/// Waits until nothing called `names` is in the queue, and takes out what stays. A task that has left its block ends by itself.
fn empty_queue(names: &[String], begun: Instant) -> Result<(), QueueError> {
    let mut has_cancelled = false;
    loop {
        match queue::tasks(names) {
            Ok(tasks) => {
                let left: Vec<&String> = names
                    .iter()
                    .filter(|name| tasks.iter().any(|task| task.name == **name && !task.has_ended()))
                    .collect();
                if left.is_empty() {
                    return Ok(());
                }
                if begun.elapsed() > GRACE[0] && !std::mem::replace(&mut has_cancelled, true) {
                    left.into_iter().try_for_each(|name| queue::cancel(name))?;
                }
            }
            Err(error @ QueueError::Interrupted { .. }) => return Err(error),
            Err(error) if begun.elapsed() > LONGEST_END => return Err(error),
            Err(_) => {}
        }
        if begun.elapsed() > LONGEST_END {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// What Slurm runs as each task.
fn script(program: &[OsString], folder: &Path, number: u32) -> String {
    let words = program.iter().map(|word| word.to_string_lossy().into_owned());
    let words = words.chain([folder.to_string_lossy().into_owned(), number.to_string()]);
    // A program of ours that itself calls `srun` isn't bound by it.
    format!("#!/bin/sh\nexport SLURM_CPU_BIND=none\nexec {}\n", shell_words::join(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Comparison;

    #[test]
    fn a_block_is_given_up_when_it_was_lost_three_times_and_says_why() {
        let mut block = Block::<Comparison>::new(BlockWork { block: 6, turns: Vec::new() });
        assert_eq!(block.lose("a").unwrap(), "block 7 is submitted again: a");
        block.lose("b").unwrap();
        let error = block.lose("Slurm says NODE_FAIL on n2").unwrap_err().to_string();
        assert!(
            error.starts_with("block 7 was lost 3 times, at last: Slurm says NODE_FAIL on n2; what was"),
            "{error}"
        );
    }

    #[test]
    fn what_slurm_runs_is_one_line_whatever_the_folder_is_called() {
        let script = script(&["/opt/my stayput".into(), "task".into()], Path::new("/home/a b/'x'.slurm"), 3);
        let line = script.lines().last().unwrap();
        let words = shell_words::split(line).unwrap();
        assert_eq!(words, ["exec", "/opt/my stayput", "task", "/home/a b/'x'.slurm", "3"]);
    }
}
