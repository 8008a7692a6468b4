//! Events as the kernel's side tells them go in; packets of a trace come out, as soon as what they tell of is over.
//!
//! - *Scheduling* is told as the kernel's own tracer tells it: `sched_switch` and `sched_waking` of each CPU.
//! - A *dispatch interval* is a slice on its thread's track, named by what ended it; a move is an instant there.
//! - An *effective slice* is a slice on a track of its CPU, named by its thread. The kernel's own threads don't end one.

use super::perfetto::{
    Clock, ClockSnapshot, DebugAnnotation, FLAG_INTERRUPT, FtraceEvent, FtraceEventBundle, Process, ProcessTree,
    SEQUENCE_BEGINS, SchedSwitch, SchedWaking, SystemInfo, Thread, ThreadDescriptor, Trace, TracePacket,
    TrackDescriptor, TrackEvent, TrackEventType, Utsname,
};
use super::seconds::{CpuTimeline, Seconds};
use crate::intf::{self, Event, TID_IDLE, TID_INTERRUPT, TID_KERNEL, TID_OTHERS, ThreadEvent};
use prost::Message;
use std::collections::{BTreeMap, HashMap};

/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// Numbers of tracks: what all of a kind stand under, CPUs from `FIRST_CPU`, threads from `FIRST_THREAD`.
const SLICES: u64 = 1;
const LOSSES: u64 = 2;
const FIRST_CPU: u64 = 16;
const FIRST_THREAD: u64 = 1 << 32;

/// The priority of everybody, since it isn't watched: nice 0.
const PRIORITY: i32 = 120;

/// As the kernel has it in sched_switch.
const STATE_RUNNABLE: i64 = 0;
const STATE_SLEEPING: i64 = 1;
const STATE_UNINTERRUPTIBLE: i64 = 2;
const STATE_DEAD: i64 = 0x10;

/// What is known of a thread.
struct Known {
    tgid: u32,
    name: String,
    track: u64,
    /// Whether its track was told.
    is_told: bool,
}

/// What a CPU does.
#[derive(Default)]
struct CpuNow {
    /// Who has it, since when.
    running: Option<(u32, u64)>,
    slice: Option<EffectiveSlice>,
    is_told: bool,
    events: Vec<FtraceEvent>,
}

/// An effective slice that has not ended.
struct EffectiveSlice {
    holder: u32,
    /// Whether its beginning was seen, by a thread that is watched.
    is_counted: bool,
    since_ns: u64,
    until_ns: u64,
    cpu_ns: u64,
}

/// What was told until now, as far as what comes may refer to it: threads that live, and CPUs.
pub(super) struct Timeline {
    packets: Vec<TracePacket>,
    threads: HashMap<u32, Known>,
    cpus: BTreeMap<u16, CpuNow>,
    tracks: u64,
    lost: u64,
    last_ns: u64,
    seconds: Seconds,
    /// The boot-time clock less the monotonic one, in ns.
    offset_ns: u64,
    /// How many events were told.
    pub events: u64,
}

impl Timeline {
    /// A trace whose first packets say when it began on all clocks, and on which kernel.
    pub fn new(monotonic_ns: u64, boot_time_ns: u64, real_time_ns: u64, release: &str) -> Self {
        let offset_ns = boot_time_ns.saturating_sub(monotonic_ns);
        let mut timeline = Self {
            packets: Vec::new(),
            threads: HashMap::new(),
            cpus: BTreeMap::new(),
            tracks: 0,
            lost: 0,
            last_ns: monotonic_ns,
            seconds: Seconds::new(monotonic_ns),
            offset_ns,
            events: 0,
        };
        let clock = |clock_id, timestamp| Clock { clock_id, timestamp };
        let clocks = vec![
            clock(super::perfetto::CLOCK_BOOTTIME, boot_time_ns),
            clock(super::perfetto::CLOCK_MONOTONIC, monotonic_ns),
            clock(super::perfetto::CLOCK_REALTIME, real_time_ns),
        ];
        let packet = timeline.packet(monotonic_ns);
        let snapshot = Some(ClockSnapshot { clocks });
        timeline.packets.push(TracePacket { sequence_flags: SEQUENCE_BEGINS, clock_snapshot: snapshot, ..packet });
        let utsname = Some(Utsname { sysname: "Linux".into(), release: release.into() });
        let packet = timeline.packet(monotonic_ns);
        timeline.packets.push(TracePacket { system_info: Some(SystemInfo { utsname }), ..packet });
        for (uuid, name) in [(SLICES, "Effective slices"), (LOSSES, "Events that were lost")] {
            timeline.describe(TrackDescriptor { uuid, name: Some(name.into()), ..TrackDescriptor::default() });
        }
        for (tid, name) in [(TID_KERNEL, "kernel"), (TID_OTHERS, "other programs")] {
            timeline.name_thread(tid, tid, name);
        }
        timeline
    }

    /// Takes an event as the kernel's side tells it.
    pub fn take(&mut self, bytes: &[u8]) {
        if let Ok(thread) = bytemuck::try_pod_read_unaligned::<ThreadEvent>(bytes) {
            let name: Vec<u8> = thread.comm.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
            self.last_ns = thread.event.time_ns;
            self.name_thread(thread.event.tid, thread.event.other, &String::from_utf8_lossy(&name));
        } else if let Ok(event) = bytemuck::try_pod_read_unaligned::<Event>(bytes) {
            self.last_ns = event.time_ns;
            self.events += 1;
            match u32::from(event.kind) {
                intf::EVENT_WAKE => self.wake(&event),
                intf::EVENT_BEGIN => self.begin(&event),
                _ => self.switch(&event),
            }
        }
    }

    /// Says that until now so many events were lost, if that is news.
    pub fn lose(&mut self, lost: u64) {
        let more = lost.saturating_sub(self.lost);
        if more == 0 {
            return;
        }
        self.lost = lost;
        self.track(TrackEventType::Instant, self.last_ns, LOSSES, "events lost", &[("events", more)]);
        // Who has a CPU, and since when, is not known any more.
        for (&number, cpu) in &mut self.cpus {
            (cpu.running, cpu.slice) = (None, None);
            let events = std::mem::take(&mut cpu.events);
            let bundle = FtraceEventBundle { cpu: Some(number.into()), events, lost_events: true };
            self.packets.push(TracePacket {
                trusted_packet_sequence_id: SEQUENCE,
                ftrace_events: Some(bundle),
                ..TracePacket::default()
            });
        }
    }

    /// A second that stands for all, where anybody had a CPU.
    pub fn representative_second(&mut self) -> Option<CpuTimeline> {
        let running: Vec<(u16, (u32, u64))> =
            self.cpus.iter_mut().filter_map(|(&cpu, now)| Some((cpu, now.running.take()?))).collect();
        for (cpu, (tid, since_ns)) in running {
            self.had_cpu(cpu, tid, since_ns, self.last_ns);
        }
        self.seconds.representative(self.last_ns)
    }

    fn had_cpu(&mut self, cpu: u16, tid: u32, from_ns: u64, until_ns: u64) {
        let process = self.threads.get(&tid).map(|known| self.threads.get(&known.tgid).unwrap_or(known));
        let name = if tid == TID_IDLE { None } else { Some(process.map_or("", |known| &known.name)) };
        self.seconds.had(cpu, name, from_ns, until_ns);
    }

    /// The names by which living threads are known.
    pub fn living(&self) -> impl Iterator<Item = (u32, u32)> {
        let threads = self.threads.iter().filter(|&(&tid, _)| tid < TID_INTERRUPT);
        threads.map(|(&tid, known)| (tid, known.tgid))
    }

    /// A thread, and its process where it is the main one, are called so from now on.
    pub fn name_thread(&mut self, tid: u32, tgid: u32, name: &str) {
        match self.threads.get_mut(&tid) {
            Some(known) if known.tgid == tgid && known.name == name => return,
            Some(known) if known.tgid == tgid => name.clone_into(&mut known.name),
            _ => {
                self.tracks += 1;
                let track = FIRST_THREAD + self.tracks;
                self.threads.insert(tid, Known { tgid, name: name.into(), track, is_told: false });
            }
        }
        let threads = vec![Thread { tid: tid as i32, name: name.into(), tgid: tgid as i32 }];
        let process = Process { pid: tgid as i32, cmdline: vec![name.into()], cmdline_is_comm: true };
        let processes = if tid == tgid { vec![process] } else { Vec::new() };
        let packet = self.packet(self.last_ns);
        self.packets.push(TracePacket { process_tree: Some(ProcessTree { processes, threads }), ..packet });
    }

    /// What was told since the last time, as bytes that end with a packet.
    pub fn bytes(&mut self) -> Vec<u8> {
        for (&number, cpu) in &mut self.cpus {
            if !cpu.events.is_empty() {
                let events = std::mem::take(&mut cpu.events);
                let bundle = FtraceEventBundle { cpu: Some(number.into()), events, lost_events: false };
                self.packets.push(TracePacket {
                    trusted_packet_sequence_id: SEQUENCE,
                    ftrace_events: Some(bundle),
                    ..TracePacket::default()
                });
            }
        }
        Trace { packets: std::mem::take(&mut self.packets) }.encode_to_vec()
    }

    fn switch(&mut self, event: &Event) {
        let now_ns = event.time_ns;
        let (leaves, comes) = (event.tid, event.other);
        let (running, is_new) = {
            let cpu = self.cpus.entry(event.cpu).or_default();
            (cpu.running.take(), !std::mem::replace(&mut cpu.is_told, true))
        };
        if is_new {
            self.describe_cpu(event.cpu);
        }
        if let Some((_, since_ns)) = running.filter(|&(tid, _)| tid == leaves && is_watched(leaves)) {
            let track = self.track_of(leaves);
            self.track(TrackEventType::SliceBegin, since_ns, track, end_name(event), &[]);
            self.track(TrackEventType::SliceEnd, now_ns, track, "", &[]);
        }
        if let Some((tid, since_ns)) = running.filter(|&(tid, _)| tid == leaves) {
            self.had_cpu(event.cpu, tid, since_ns, now_ns);
        }
        if running.is_some_and(|(tid, _)| tid != leaves) {
            // The kernel left out a switch; whose the time was in between, nobody knows.
            let cpu = u64::from(event.cpu);
            self.track(TrackEventType::Instant, now_ns, LOSSES, "a switch that was not told", &[("cpu", cpu)]);
        }
        let state = match u32::from(event.end) {
            _ if !is_watched(leaves) => STATE_RUNNABLE,
            intf::END_QUANTUM | intf::END_SYNCHRONIZATION => STATE_RUNNABLE,
            intf::END_EXIT => STATE_DEAD,
            _ if event.is_uninterruptible != 0 => STATE_UNINTERRUPTIBLE,
            _ => STATE_SLEEPING,
        };
        self.push_switch(event.cpu, now_ns, (leaves, state), comes);
        if is_watched(leaves) && u32::from(event.end) == intf::END_EXIT {
            self.threads.remove(&leaves);
        }
        if event.moved_from > 0 {
            let track = self.track_of(comes);
            let (from, to) = (u64::from(event.moved_from) - 1, u64::from(event.cpu));
            self.track(TrackEventType::Instant, now_ns, track, "moved", &[("from_cpu", from), ("to_cpu", to)]);
        }
        let cpu = self.cpus.entry(event.cpu).or_default();
        cpu.running = Some((comes, now_ns));
        if let (Some(slice), Some((tid, since_ns))) = (&mut cpu.slice, running)
            && slice.holder == leaves
            && tid == leaves
        {
            slice.cpu_ns += now_ns - since_ns;
            slice.until_ns = now_ns;
        }
        if comes == TID_IDLE || comes == TID_KERNEL || cpu.slice.as_ref().is_some_and(|slice| slice.holder == comes) {
            return;
        }
        let next = EffectiveSlice {
            holder: comes,
            is_counted: is_watched(comes),
            since_ns: now_ns,
            until_ns: now_ns,
            cpu_ns: 0,
        };
        if let Some(slice) = cpu.slice.replace(next).filter(|slice| slice.is_counted) {
            let (track, name) = (FIRST_CPU + u64::from(event.cpu), self.name(slice.holder));
            self.track(TrackEventType::SliceBegin, slice.since_ns, track, &name, &[("cpu_ns", slice.cpu_ns)]);
            self.track(TrackEventType::SliceEnd, slice.until_ns, track, "", &[]);
        }
    }

    /// Somebody is watched from now on, who has the CPU already.
    fn begin(&mut self, event: &Event) {
        let running = self.cpus.entry(event.cpu).or_default().running;
        if let Some((tid, since_ns)) = running {
            self.had_cpu(event.cpu, tid, since_ns, event.time_ns);
        }
        let former = running.map_or(TID_OTHERS, |(tid, _)| tid);
        self.push_switch(event.cpu, event.time_ns, (former, STATE_RUNNABLE), event.tid);
        let cpu = self.cpus.entry(event.cpu).or_default();
        cpu.running = Some((event.tid, event.time_ns));
        // Its slice began unseen.
        cpu.slice = Some(EffectiveSlice {
            holder: event.tid,
            is_counted: false,
            since_ns: event.time_ns,
            until_ns: event.time_ns,
            cpu_ns: 0,
        });
    }

    fn wake(&mut self, event: &Event) {
        let is_interrupt = event.other == TID_INTERRUPT;
        let waking = SchedWaking {
            comm: self.name(event.tid),
            pid: event.tid as i32,
            prio: PRIORITY,
            target_cpu: event.cpu.into(),
        };
        let event_of_cpu = FtraceEvent {
            timestamp: event.time_ns + self.offset_ns,
            pid: Some(if is_interrupt { TID_IDLE } else { event.other }),
            common_flags: if is_interrupt { FLAG_INTERRUPT } else { 0 },
            sched_waking: Some(waking),
            sched_switch: None,
        };
        self.cpus.entry(event.cpu).or_default().events.push(event_of_cpu);
    }

    fn push_switch(&mut self, cpu: u16, now_ns: u64, (leaves, state): (u32, i64), comes: u32) {
        let switch = SchedSwitch {
            prev_comm: self.name(leaves),
            prev_pid: leaves as i32,
            prev_prio: PRIORITY,
            prev_state: state,
            next_comm: self.name(comes),
            next_pid: comes as i32,
            next_prio: PRIORITY,
        };
        let event = FtraceEvent {
            timestamp: now_ns + self.offset_ns,
            pid: Some(leaves),
            common_flags: 0,
            sched_switch: Some(switch),
            sched_waking: None,
        };
        self.cpus.entry(cpu).or_default().events.push(event);
    }

    fn describe_cpu(&mut self, cpu: u16) {
        self.describe(TrackDescriptor {
            uuid: FIRST_CPU + u64::from(cpu),
            name: Some(format!("CPU {cpu}")),
            parent_uuid: Some(SLICES),
            thread: None,
        });
    }

    fn describe(&mut self, descriptor: TrackDescriptor) {
        let packet = self.packet(self.last_ns);
        self.packets.push(TracePacket { track_descriptor: Some(descriptor), ..packet });
    }

    /// The track of a thread, which is described when it is first needed.
    fn track_of(&mut self, tid: u32) -> u64 {
        if !self.threads.contains_key(&tid) {
            // What named it was lost.
            self.name_thread(tid, tid, "");
        }
        let Some(known) = self.threads.get_mut(&tid) else { return LOSSES };
        let (uuid, pid) = (known.track, known.tgid as i32);
        if !std::mem::replace(&mut known.is_told, true) {
            let thread = Some(ThreadDescriptor { pid, tid: tid as i32 });
            self.describe(TrackDescriptor { uuid, thread, ..TrackDescriptor::default() });
        }
        uuid
    }

    fn track(&mut self, r#type: TrackEventType, at_ns: u64, track_uuid: u64, name: &str, numbers: &[(&str, u64)]) {
        let debug_annotations = (numbers.iter())
            .map(|&(name, number)| DebugAnnotation { name: name.into(), uint_value: Some(number) })
            .collect();
        let event = TrackEvent { debug_annotations, r#type: r#type.into(), track_uuid, name: name.into() };
        let packet = self.packet(at_ns);
        self.packets.push(TracePacket { track_event: Some(event), ..packet });
    }

    /// An empty packet of that time on the monotonic clock.
    fn packet(&self, at_ns: u64) -> TracePacket {
        let timestamp = at_ns + self.offset_ns;
        TracePacket { timestamp, trusted_packet_sequence_id: SEQUENCE, ..TracePacket::default() }
    }

    fn name(&self, tid: u32) -> String {
        match tid {
            TID_IDLE => "swapper".into(),
            tid => self.threads.get(&tid).map_or_else(String::new, |known| known.name.clone()),
        }
    }
}

fn is_watched(tid: u32) -> bool {
    tid != TID_IDLE && tid < TID_INTERRUPT
}

/// What ended an interval, in the words of the tables.
fn end_name(event: &Event) -> &'static str {
    match u32::from(event.end) {
        intf::END_QUANTUM => "quantum",
        intf::END_SEMAPHORE => "semaphore",
        intf::END_SYNCHRONIZATION => "yield",
        intf::END_SYSTEM_CALL => match u32::from(event.call) {
            intf::CALL_DISK => "disk",
            intf::CALL_NETWORK => "network",
            intf::CALL_PIPE => "pipe",
            intf::CALL_TIMER => "a time",
            intf::CALL_POLL => "several descriptors",
            intf::CALL_PROCESS => "a child",
            _ => "another system call",
        },
        intf::END_TLB_FAULT => "page fault",
        intf::END_EXIT => "exit",
        _ => "other",
    }
}
