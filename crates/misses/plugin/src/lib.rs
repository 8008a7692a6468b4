//! A qemu plugin that models a guest machine's caches and says why its processes miss them.
//!
//! In go the guest's memory accesses, as qemu executes them; out comes a [`misses::Report`] in a file. It may touch that file, the
//! one that describes the machine, and the qemu that loads it.
//!
//! ```text
//! qemu-system-x86_64 -accel tcg,thread=single ... -plugin libstayput_misses.so,machine=guest.json,out=misses.json
//! ```
//!
//! `machine` is the guest's machine as JSON (what `serde_json::to_value` makes of a [`machine::Machine`]), or what Stayput takes
//! everywhere: a preset, an hwloc XML file, a synthetic string. Its CPU numbers are those of the guest: 0 is the first that qemu
//! starts. `out` receives the report whenever a section ends. With `others=off`, only the data of the processes of interest go
//! through the caches, which is faster, and nothing else pollutes them. With `tasks=on` the processes of
//! interest are the tasks that the kernel makes in a section, with all that they use of user space, and with `least-sets=2048` a
//! part of the sets of larger caches stands for all. qemu must run all CPUs on one thread; any version from
//! 6.0 on will do.

mod qemu;

use crate::qemu::{Block, Code, Info, Instruction, LOADS_AND_STORES, NO_REGISTERS, PluginId, Qemu};
use anyhow::{Context, anyhow, bail, ensure};
use machine::{CpuId, Machine};
use misses::Model;
use misses::report::Instructions;
use misses::tasks::TaskAddress;
use misses::window::{KERNEL, Place, SectionIndex};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::{self, ThreadId};

/// The version of the plugin interface that we are written for, which qemu reads when it has loaded us.
///
/// All versions have what we use, but qemu refuses a plugin for an interface older than it still knows: 1 is what qemu 6.0 to
/// 8.2 want, 9.0 and later at least 2.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Run by the dynamic linker as it loads us, hence before qemu reads the version.
#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = choose_version;

extern "C" fn choose_version() {
    if Qemu::has_version_2() {
        qemu_plugin_version.store(2, Ordering::Relaxed);
    }
}

/// Where the kernel of an x86-64 guest loads modules and compiled BPF programs, up to the end of memory.
const LOADED: u64 = 0xffff_ffff_c000_0000;

/// What all callbacks use.
struct Plugin {
    qemu: Qemu,
    model: OfOneThread<Model>,
    /// By CPU; each is written by the thread that runs this CPU only.
    executed: Vec<Executed>,
    out: PathBuf,
    others: bool,
    /// Whether the kernel's switches say whose accesses are.
    tasks: bool,
}

/// Instructions that a CPU has executed.
#[derive(Default)]
#[repr(align(64))]
struct Executed([AtomicU64; 3]);

/// Where an instruction lies, as a position in [`Executed`].
#[derive(Clone, Copy)]
enum Half {
    User = 0,
    Kernel = 1,
    Loaded = 2,
}

impl Half {
    fn containing(address: u64) -> Self {
        match address {
            LOADED.. => Self::Loaded,
            KERNEL.. => Self::Kernel,
            _ => Self::User,
        }
    }
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Whether the model wants to hear of accesses other than marks: most of a boot is over sooner without.
static IN_SECTION: AtomicBool = AtomicBool::new(false);

/// What belongs to the one thread that runs all CPUs. A lock took a third of all time, and a variable of that thread's a twentieth.
struct OfOneThread<T> {
    value: UnsafeCell<T>,
    owner: OnceLock<ThreadId>,
}

// SAFETY: the value is reached through callbacks of code that was translated, and no second thread gets past its first translation. A
// CPU that has begun on another thread translates its own first instructions, which no other executes.
unsafe impl<T: Send> Sync for OfOneThread<T> {}

impl<T> OfOneThread<T> {
    fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), owner: OnceLock::new() }
    }

    /// Ends the process on another thread than the first that asks.
    fn check_thread(&self) {
        let this = thread::current().id();
        if *self.owner.get_or_init(|| this) != this {
            eprintln!("stayput-misses: qemu runs CPUs on several threads; start it with `-accel tcg,thread=single`");
            process::exit(1)
        }
    }

    /// The value.
    ///
    /// # Safety
    /// By callbacks of translated code only, which don't call one another.
    #[expect(clippy::mut_from_ref, reason = "it is of one thread, and borrowed once at a time")]
    unsafe fn get(&self) -> &mut T {
        // SAFETY: as the caller says.
        unsafe { &mut *self.value.get() }
    }
}

/// qemu calls this once, before the guest starts.
///
/// # Safety
/// `info` and the `argc` strings at `argv` must be as qemu's interface says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let arguments = if argc > 0 {
        // SAFETY: qemu promises `argc` strings there, for as long as this call takes.
        unsafe { slice::from_raw_parts(argv, argc as usize) }
    } else {
        &[]
    };
    // SAFETY: as above.
    let arguments: Vec<_> = arguments.iter().map(|&text| unsafe { CStr::from_ptr(text) }.to_string_lossy()).collect();
    // SAFETY: qemu passes a valid description of itself.
    match install(id, unsafe { &*info }, arguments.iter().map(AsRef::as_ref)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("stayput-misses: {error}");
            -1
        }
    }
}

fn install<'a>(id: PluginId, info: &Info, arguments: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let (mut machine, mut out, mut others, mut tasks, mut least_sets) = (None, None, true, false, u64::MAX);
    for argument in arguments {
        match argument.split_once('=') {
            Some(("machine", name)) => machine = Some(name),
            Some(("out", path)) => out = Some(path.into()),
            Some(("others", "on")) => others = true,
            Some(("others", "off")) => others = false,
            Some(("tasks", "on")) => tasks = true,
            Some(("tasks", "off")) => tasks = false,
            Some(("least-sets", number)) => {
                least_sets = number.parse().with_context(|| format!("least-sets={number} is no number of sets"))?;
            }
            _ => bail!(
                "`{argument}` is none of its arguments: machine=FILE.json (or what `stayput topology` takes), out=FILE, \
                 others=on|off, tasks=on|off, least-sets=NUMBER"
            ),
        }
    }
    let out = out.context("it needs the argument out=FILE")?;
    ensure!(
        info.emulates_system,
        "it models a whole machine; use it with qemu-system-x86_64, not with qemu's user mode"
    );
    let machine = read_machine(machine.context("it needs the argument machine=FILE.json")?)?;
    let name = machine.name().to_owned();
    let model = if tasks { Model::of_tasks(machine, least_sets)? } else { Model::new(machine, others)? };
    let (guest, cpus) = (info.smp_vcpus.max(0) as usize, model.cpus());
    ensure!(guest == cpus, "the guest has {guest} CPUs and {name} has {cpus}; describe the guest's machine");
    let qemu = Qemu::find().map_err(|cause| {
        anyhow!(
            "qemu has no plugin interface that we know ({cause}); versions 6.0 and later have one unless built without"
        )
    })?;
    let register_translation = qemu.register_translation;
    let executed = (0..cpus).map(|_| Executed::default()).collect();
    let plugin = Plugin { qemu, model: OfOneThread::new(model), executed, out, others: others || tasks, tasks };
    let Ok(()) = PLUGIN.set(plugin) else { bail!("it is loaded twice") };
    // SAFETY: `id` is ours, and the callbacks have the types that qemu expects.
    unsafe { register_translation(id, translated) };
    Ok(())
}

/// A machine as JSON, or as all of Stayput takes it.
fn read_machine(text: &str) -> anyhow::Result<Machine> {
    if Path::new(text).extension().is_none_or(|extension| extension != "json") {
        return Ok(Machine::named(text)?);
    }
    let read = || Ok(serde_json::from_str(&fs::read_to_string(text)?)?);
    read().map_err(|cause: anyhow::Error| anyhow!("cannot read the machine in {text}: {cause}"))
}

impl Plugin {
    fn executed(&self) -> Vec<Instructions> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.executed
            .iter()
            .map(|Executed([user, kernel, loaded])| Instructions {
                user: load(user),
                kernel: load(kernel),
                loaded: load(loaded),
            })
            .collect()
    }

    /// Writes the report beside its place and then puts it there, so that a reader never sees half of one.
    fn write(&self, model: &Model) {
        let beside = self.out.with_extension("partial");
        let written = serde_json::to_vec_pretty(&model.report())
            .map_err(Into::into)
            .and_then(|report| fs::write(&beside, report))
            .and_then(|()| fs::rename(&beside, &self.out));
        if let Err(error) = written {
            eprintln!("stayput-misses: cannot write {}: {error}", self.out.display());
        }
    }
}

/// qemu has translated a block of code: from now on we hear when it's executed and what it accesses.
unsafe extern "C" fn translated(_: PluginId, block: *mut Block) {
    let Some(Plugin { qemu, model, others, tasks, .. }) = PLUGIN.get() else {
        return;
    };
    model.check_thread();
    // SAFETY: `block` is valid during this call, its instructions are numbered from 0, and the data that go with a callback
    // are numbers, never followed.
    unsafe {
        let instructions = (qemu.block_instructions)(block);
        let half = Half::containing((qemu.block_address)(block));
        let data = (instructions << 2 | half as usize) as *mut c_void;
        (qemu.register_execution)(block, executed, NO_REGISTERS, data);
        if *others || matches!(half, Half::User) {
            let code = |i| (i < instructions).then(|| qemu.bytes((qemu.instruction)(block, i)));
            let mut switches_at = None;
            for i in 0..instructions {
                let instruction: *mut Instruction = (qemu.instruction)(block, i);
                if switches_at == Some(i) {
                    continue;
                }
                if *tasks && matches!(half, Half::Kernel) {
                    let pair = code(i).zip(code(i + 1));
                    if let Some(offset) = pair.and_then(|(store, load)| switched_stack(&store, &load)) {
                        let load = (qemu.instruction)(block, i + 1);
                        let data = offset as usize as *mut c_void;
                        (qemu.register_access)(load, switched, NO_REGISTERS, LOADS_AND_STORES, data);
                        STACK_OFFSET.store(u64::from(offset), Ordering::Relaxed);
                        switches_at = Some(i + 1);
                        continue;
                    }
                }
                (qemu.register_access)(instruction, accessed, NO_REGISTERS, LOADS_AND_STORES, ptr::null_mut());
            }
        }
    }
}

/// A CPU enters a block of code.
unsafe extern "C" fn executed(vcpu: c_uint, data: *mut c_void) {
    let data = data as usize;
    if let Some(Executed(counts)) = PLUGIN.get().and_then(|plugin| plugin.executed.get(vcpu as usize)) {
        let count = &counts[(data & 3).min(Half::Loaded as usize)];
        count.store(count.load(Ordering::Relaxed) + (data >> 2) as u64, Ordering::Relaxed);
    }
}

/// Where in a task the kernel keeps its stack pointer while it doesn't run; 0 until that is seen.
static STACK_OFFSET: AtomicU64 = AtomicU64::new(0);

/// The offset in a task of its stack pointer, if these instructions are the kernel's switch from a task to another: `mov
/// %rsp, offset(%rdi)` and `mov offset(%rsi), %rsp`, of which there is one pair in the kernel (`__switch_to_asm`).
fn switched_stack(store: &Code, load: &Code) -> Option<u32> {
    let offset = |code: &Code, start: [u8; 3]| {
        let Code { bytes, length: 7 } = code else { return None };
        (bytes[..3] == start).then(|| u32::from_le_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]))
    };
    offset(store, [0x48, 0x89, 0xa7]).filter(|there| offset(load, [0x48, 0x8b, 0xa6]) == Some(*there))
}

/// A CPU loads the stack pointer of the task that it is to run.
unsafe extern "C" fn switched(vcpu: c_uint, _: u32, address: u64, offset: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    // SAFETY: this is such a callback.
    let model = unsafe { plugin.model.get() };
    model.switch(CpuId(vcpu), TaskAddress(address.wrapping_sub(offset as u64)));
}

/// A CPU accesses memory.
unsafe extern "C" fn accessed(vcpu: c_uint, access: u32, address: u64, _: *mut c_void) {
    if !IN_SECTION.load(Ordering::Relaxed) && Place::at(address).marked().is_none() {
        return;
    }
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    let qemu = &plugin.qemu;
    // SAFETY: this is such a callback, and what it calls of qemu's calls none.
    let model = unsafe { plugin.model.get() };
    // SAFETY: `access` is the one that this call is about.
    let is_store = || unsafe { (qemu.is_store)(access) };
    if plugin.tasks && address >= KERNEL {
        let task = TaskAddress(address.wrapping_sub(STACK_OFFSET.load(Ordering::Relaxed)));
        // Only who makes a task writes its stack pointer in another way than by switching from it.
        if model.may_be_task(task) && is_store() {
            model.birth(task);
        }
    }
    if model.is_unmodelled(CpuId(vcpu), address) {
        return;
    }
    let is_store = is_store();
    let physical = || {
        // SAFETY: as above; what is returned is valid until this call returns.
        unsafe {
            let at = (qemu.hardware_address)(access, address);
            (!at.is_null() && !(qemu.is_device)(at)).then(|| (qemu.physical_address)(at))
        }
    };
    if let Some(section) = model.access(CpuId(vcpu), address, is_store, physical) {
        model.begin_section(section, &plugin.executed());
        IN_SECTION.store(section != SectionIndex::OUTSIDE, Ordering::Relaxed);
        plugin.write(model);
    }
}
