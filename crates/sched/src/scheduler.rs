//! The BPF side: loaded, read, unloaded.

#[allow(clippy::all, clippy::pedantic, clippy::restriction, warnings, reason = "made by libbpf-cargo")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/scheduler.skel.rs"));
}

use crate::intf::{CpuStats, MAX_CPUS};
use crate::machine_tree::MachineTree;
use crate::options::{Extent, Options};
use anyhow::{Context, bail};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, PrintLevel};
use skeleton::{SchedulerSkel, SchedulerSkelBuilder};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::Mutex;

/// The report's clock tick, in which CPU time is accumulated.
const TICK_NS: u64 = 10_000_000;
/// How long before the cap a process that woke counts as overdue, so that it runs before it: several ticks of a kernel's clock at
/// 250 Hz, and never more than half of the cap.
const MARGIN_NS: u64 = 20_000_000;
/// How long a process may be left waiting until the kernel throws the scheduler out. Well above what a crowd of a thousand on one CPU
/// waits.
const TIMEOUT_MS: u32 = 15_000;
/// The same where the scheduler is broken on purpose.
const FAULTY_TIMEOUT_MS: u32 = 2_000;

/// The first complaints of libbpf, which name the cause.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A loaded scheduler, in memory of the caller's. It is gone when this is dropped, and when this process ends, however it does.
pub struct Scheduler<'a> {
    skeleton: SchedulerSkel<'a>,
    link: Option<Link>,
    /// How many CPUs had come online when the places were last written.
    cpus_came: u32,
}

impl<'a> Scheduler<'a> {
    /// Loads it, and switches it on.
    pub fn load(
        memory: &'a mut MaybeUninit<OpenObject>,
        options: &Options,
        tree: &MachineTree,
    ) -> anyhow::Result<Self> {
        libbpf_rs::set_print(Some((PrintLevel::Debug, if options.verbose { show } else { keep })));
        let cpus = libbpf_rs::num_possible_cpus().context("the number of CPUs can't be read")?;
        if cpus > MAX_CPUS as usize {
            bail!("this machine has {cpus} CPUs; the scheduler is built for up to {MAX_CPUS}");
        }
        let refused = |error: libbpf_rs::Error| anyhow::anyhow!("the kernel refused the scheduler: {}", cause(&error));

        let mut open = SchedulerSkelBuilder::default().open(memory).map_err(refused)?;
        let parameters = options.parameters();
        let Some(rodata) = open.maps.rodata_data.as_deref_mut() else { bail!("the scheduler has no parameters") };
        let ns = |ms: f64| (ms * 1e6) as u64;
        (rodata.quantum_ns, rodata.tick_ns) = (ns(parameters.quantum_ms), TICK_NS);
        (rodata.decay_rule, rodata.decay_ticks) = parameters.decay.rule();
        let max_wait_ns = ns(parameters.max_wait_ms);
        rodata.wake_limit_ns = max_wait_ns - MARGIN_NS.min(max_wait_ns / 2);
        rodata.share_limit_ns = ns(parameters.max_behind_ms);
        rodata.far_share_limit_ns = ns(parameters.max_far_behind_ms);
        rodata.nr_cpus = cpus as u32;
        rodata.scalable = parameters.scalable;
        rodata.by_cgroup = !matches!(options.extent(), Extent::Command);
        rodata.fault = options.fault();
        let Some(bss) = open.maps.bss_data.as_deref_mut() else { bail!("the scheduler has no boosts") };
        (bss.phi.by_distance, bss.phi.time) = (parameters.phi_p, parameters.phi_t);
        (bss.phi.time_boost, bss.phi.fade_per_tick) = (u32::from(parameters.complex), 1);
        let operations = open.struct_ops.affinity_mut();
        operations.timeout_ms = if options.fault() == 0 { TIMEOUT_MS } else { FAULTY_TIMEOUT_MS };
        if matches!(options.extent(), Extent::Machine) {
            // Else it is but for those in its class.
            operations.flags = 0;
        }

        let skeleton = open.load().map_err(refused)?;
        let mut scheduler = Self { skeleton, link: None, cpus_came: 0 };
        scheduler.write_places(tree)?;
        scheduler.link = Some(scheduler.skeleton.maps.affinity.attach_struct_ops().map_err(refused)?);
        Ok(scheduler)
    }

    /// Says where each CPU of the tree is. Of others it stays as it was: unknown, or what it was before they went offline.
    pub fn write_places(&mut self, tree: &MachineTree) -> anyhow::Result<()> {
        let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() else { bail!("the scheduler has no places") };
        for (cpu, place) in &tree.places {
            let Some(known) = bss.places.get_mut(*cpu as usize) else {
                bail!("the scheduler has no place for CPU {cpu}")
            };
            known.group = place.group;
        }
        Ok(())
    }

    /// Whether a CPU has come online since this was last asked.
    pub fn has_new_cpu(&mut self) -> bool {
        let Some(bss) = self.skeleton.maps.bss_data.as_deref() else { return false };
        // SAFETY: the pointer is to a live value, which the kernel writes.
        let came = unsafe { std::ptr::read_volatile(&raw const bss.cpus_came) };
        came != std::mem::replace(&mut self.cpus_came, came)
    }

    /// Why the kernel ended it; none while it is on.
    pub fn ending(&self) -> Option<String> {
        let bss = self.skeleton.maps.bss_data.as_deref()?;
        // SAFETY: the pointer is to a live value, which the kernel writes.
        let ending = unsafe { std::ptr::read_volatile(&raw const bss.ending) };
        if ending.kind == 0 {
            return None;
        }
        let text = |bytes: &[i8]| {
            let text = CStr::from_bytes_until_nul(bytemuck::cast_slice(bytes)).unwrap_or_default();
            text.to_string_lossy().into_owned()
        };
        let (reason, message) = (text(&ending.reason), text(&ending.message));
        Some(if message.is_empty() { reason } else { format!("{reason} ({message})") })
    }

    /// What all CPUs have counted since it was loaded.
    pub fn stats(&self) -> anyhow::Result<CpuStats> {
        const UNREAD: &str = "the scheduler's statistics can't be read";
        let of_cpus = self.skeleton.maps.stats.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let mut sum = CpuStats::none();
        for bytes in of_cpus.context(UNREAD)?.context(UNREAD)? {
            sum.add(CpuStats::from_bytes(&bytes)?);
        }
        Ok(sum)
    }

    /// Switches it off: the kernel's own scheduler goes on with everything.
    pub fn unload(&mut self) {
        self.link = None;
    }
}

/// What libbpf complained of first, which names the cause; else its error.
fn cause(error: &libbpf_rs::Error) -> String {
    let complaints = COMPLAINTS.lock().map(|complaints| complaints.join("; ")).unwrap_or_default();
    if complaints.is_empty() { error.to_string() } else { complaints }
}

/// How many complaints are kept.
const KEPT: usize = 2;

fn keep(level: PrintLevel, text: String) {
    if let (PrintLevel::Warn, Ok(mut complaints)) = (level, COMPLAINTS.lock())
        && complaints.len() < KEPT
    {
        complaints.push(text.lines().next().unwrap_or_default().trim_start_matches("libbpf: ").trim().to_owned());
    }
}

fn show(_: PrintLevel, text: String) {
    eprint!("{text}");
}
