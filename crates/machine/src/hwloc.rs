//! Machines that hwloc reads: this host, and synthetic strings.
//!
//! hwloc is loaded when a topology is first asked for, so that whoever names CPUs needs neither the library nor the time
//! that it takes to load. It hands over what it found as XML, which is read like anybody's file.
//!
//! Signatures and numbers below are those of hwloc 2's public header, `hwloc.h`. That it is hwloc 2 is told by the ABI
//! number in the library's name, and checked again by the version that its XML states.

use crate::cpu::quoted;
use crate::error::MachineError;
use crate::host;
use crate::linux::{self, control_group, process, system};
use crate::record::MachineRecord;
use crate::synthetic;
use crate::tree::Source;
use crate::xml;
use libloading::Library;
use std::env;
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::io;
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// hwloc 2 by its ABI number; older and newer ones write another XML.
const LIBRARY: &str = "libhwloc.so.15";

/// `HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED`: CPUs that we may not use are in the tree as well.
const INCLUDE_DISALLOWED: c_ulong = 1;

/// `HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST`
const BLACKLIST: c_ulong = 1;

/// `HWLOC_TYPE_FILTER_KEEP_ALL`
const KEEP_ALL: c_int = 0;

/// Where hwloc looks for plugins.
const PLUGINS_PATH: &str = "HWLOC_PLUGINS_PATH";

/// Reads this host: all online CPUs, those that we may not use marked with the reason.
pub(crate) fn host() -> Result<MachineRecord, MachineError> {
    let failed = MachineError::Host;
    let hwloc = hwloc()?;
    let mut topology = hwloc.topology().map_err(failed)?;
    // The x86 backend would bind this thread to every CPU in turn, to learn what Linux has said already.
    topology.leave_out(c"x86").and_then(|()| topology.load()).map_err(failed)?;
    if !topology.is_this_system() {
        return Err(failed(
            "the environment (HWLOC_XMLFILE or HWLOC_SYNTHETIC) makes hwloc describe another machine; unset it, or \
             name that machine"
                .into(),
        ));
    }
    let mut record = topology.record().map_err(failed)?;
    record.name = "host".into();
    record.source = Source::Host;
    record.offline_cpus = system::offline_cpus();
    let allowed = linux::allowed_cpus().map_err(|e| failed(format!("sched_getaffinity: {e}")))?;
    let mut cpuset = None;
    record.tree.for_each_pu(&mut |cpu, pu| {
        pu.forbidden_by = (!allowed.contains(cpu)).then(|| {
            let cpuset = cpuset.get_or_insert_with(control_group::cpuset);
            host::forbidden_by(cpu, cpuset.as_ref())
        });
    });
    Ok(record)
}

/// Builds the machine that an hwloc synthetic string describes.
pub(crate) fn from_synthetic(description: &str) -> Result<MachineRecord, MachineError> {
    let failed = |cause: &str| MachineError::Synthetic { description: quoted(description), cause: cause.into() };
    let c_description = (CString::new(description).ok().filter(|_| description.is_ascii()))
        .ok_or_else(|| failed("it holds characters other than plain ASCII"))?;
    synthetic::check(description).map_err(|cause| failed(&cause))?;
    let hwloc = hwloc()?;
    let mut topology = hwloc.topology().map_err(|cause| failed(&cause))?;
    topology.describe(&c_description).map_err(|_| failed(&synthetic::refusal(description)))?;
    topology.load().map_err(|cause| failed(&cause))?;
    let mut record = topology.record().map_err(|cause| failed(&cause))?;
    record.name = description.into();
    record.source = Source::Synthetic(description.into());
    Ok(record)
}

/// `hwloc_topology_t`
type RawTopology = *mut c_void;

/// The functions of hwloc that are used here.
struct Hwloc {
    topology_init: unsafe extern "C" fn(*mut RawTopology) -> c_int,
    topology_destroy: unsafe extern "C" fn(RawTopology),
    topology_set_flags: unsafe extern "C" fn(RawTopology, c_ulong) -> c_int,
    topology_set_icache_types_filter: unsafe extern "C" fn(RawTopology, c_int) -> c_int,
    topology_set_components: unsafe extern "C" fn(RawTopology, c_ulong, *const c_char) -> c_int,
    topology_set_synthetic: unsafe extern "C" fn(RawTopology, *const c_char) -> c_int,
    topology_load: unsafe extern "C" fn(RawTopology) -> c_int,
    topology_is_thissystem: unsafe extern "C" fn(RawTopology) -> c_int,
    topology_export_xmlbuffer: unsafe extern "C" fn(RawTopology, *mut *mut c_char, *mut c_int, c_ulong) -> c_int,
    free_xmlbuffer: unsafe extern "C" fn(RawTopology, *mut c_char),
    /// Since hwloc 2.4.
    cpukinds_get_info: Option<CpukindsGetInfo>,
    /// Keeps the functions where they are.
    #[cfg_attr(not(test), expect(dead_code, reason = "held, not used"))]
    library: Library,
}

type CpukindsGetInfo =
    unsafe extern "C" fn(RawTopology, c_uint, *mut c_void, *mut c_int, *mut c_uint, *mut *mut c_void, c_ulong) -> c_int;

/// hwloc, loaded when first asked for; used by one thread at a time.
static HWLOC: LazyLock<Result<Mutex<Hwloc>, String>> = LazyLock::new(|| Hwloc::open(LIBRARY).map(Mutex::new));

fn hwloc() -> Result<MutexGuard<'static, Hwloc>, MachineError> {
    match &*HWLOC {
        Ok(hwloc) => Ok(hwloc.lock().unwrap_or_else(PoisonError::into_inner)),
        Err(cause) => Err(MachineError::NoHwloc(cause.clone())),
    }
}

impl Hwloc {
    fn open(file: &str) -> Result<Self, String> {
        let open = || {
            // SAFETY: hwloc and the libraries that it needs have no initialiser or finaliser that asks anything of the
            // process, and nothing unloads them while the static lives.
            let library = unsafe { Library::new(file) }?;
            // SAFETY: each type is that of the function's declaration in hwloc.h, which the ABI number in the library's
            // name stands for; the pointers are kept beside the library, and only as long.
            unsafe {
                Ok(Self {
                    topology_init: *library.get("hwloc_topology_init")?,
                    topology_destroy: *library.get("hwloc_topology_destroy")?,
                    topology_set_flags: *library.get("hwloc_topology_set_flags")?,
                    topology_set_icache_types_filter: *library.get("hwloc_topology_set_icache_types_filter")?,
                    topology_set_components: *library.get("hwloc_topology_set_components")?,
                    topology_set_synthetic: *library.get("hwloc_topology_set_synthetic")?,
                    topology_load: *library.get("hwloc_topology_load")?,
                    topology_is_thissystem: *library.get("hwloc_topology_is_thissystem")?,
                    topology_export_xmlbuffer: *library.get("hwloc_topology_export_xmlbuffer")?,
                    free_xmlbuffer: *library.get("hwloc_free_xmlbuffer")?,
                    cpukinds_get_info: library.get("hwloc_cpukinds_get_info").ok().map(|symbol| *symbol),
                    library,
                })
            }
        };
        // What the dynamic linker says stands behind libloading's own words.
        open().map_err(|e: libloading::Error| e.source().map_or_else(|| e.to_string(), ToString::to_string))
    }

    /// A topology that nothing was read into.
    fn topology(&self) -> Result<Topology<'_>, String> {
        let mut raw = ptr::null_mut();
        // SAFETY: hwloc writes a topology of its own to `raw`, or returns an error.
        let result = without_plugins(|| unsafe { (self.topology_init)(&mut raw) });
        check("hwloc_topology_init", result).map(|()| Topology { hwloc: self, raw })
    }
}

/// Calls `init`, which is `hwloc_topology_init`, and hides hwloc's plugins from it where that is safe.
///
/// Plugins find devices, which are no part of our machines, and loading their libraries takes longer than all else. hwloc
/// can be told to leave them alone by a variable only, which it reads nowhere else; it is removed again, so that no program
/// that we start inherits it. C code of another thread could read the environment meanwhile, so with other threads around
/// the plugins are loaded, and nothing but time is lost. Whoever sets `HWLOC_PLUGINS_PATH` gets them too.
fn without_plugins<T>(init: impl FnOnce() -> T) -> T {
    if env::var_os(PLUGINS_PATH).is_some() || !process::is_only_thread() {
        return init();
    }
    // SAFETY: this is the only thread of the process, so nobody reads or writes the environment at the same time.
    unsafe { env::set_var(PLUGINS_PATH, "") };
    let result = init();
    // SAFETY: as above; without plugins hwloc starts no thread.
    unsafe { env::remove_var(PLUGINS_PATH) };
    result
}

/// A topology of hwloc's; destroyed when dropped.
struct Topology<'a> {
    hwloc: &'a Hwloc,
    /// From a successful `hwloc_topology_init`, and not destroyed.
    raw: RawTopology,
}

impl Topology<'_> {
    /// Makes hwloc do without one of its components; before [`Self::load`].
    fn leave_out(&mut self, component: &CStr) -> Result<(), String> {
        // SAFETY: `raw` is a live topology that is not loaded, and hwloc only reads the name.
        let result = unsafe { (self.hwloc.topology_set_components)(self.raw, BLACKLIST, component.as_ptr()) };
        check("hwloc_topology_set_components", result)
    }

    /// Makes the topology that of a synthetic string instead of this host's; before [`Self::load`].
    fn describe(&mut self, description: &CStr) -> Result<(), String> {
        // SAFETY: `raw` is a live topology that is not loaded, and hwloc copies what it needs of the string.
        let result = unsafe { (self.hwloc.topology_set_synthetic)(self.raw, description.as_ptr()) };
        check("hwloc_topology_set_synthetic", result)
    }

    fn load(&mut self) -> Result<(), String> {
        // SAFETY: `raw` is a live topology that is not loaded, as both setters need it; they take plain numbers.
        unsafe {
            check("hwloc_topology_set_flags", (self.hwloc.topology_set_flags)(self.raw, INCLUDE_DISALLOWED))?;
            let filtered = (self.hwloc.topology_set_icache_types_filter)(self.raw, KEEP_ALL);
            check("hwloc_topology_set_icache_types_filter", filtered)?;
        }
        // SAFETY: `raw` is a live topology, and each of ours is loaded once.
        check("hwloc_topology_load", unsafe { (self.hwloc.topology_load)(self.raw) })
    }

    fn is_this_system(&self) -> bool {
        // SAFETY: `raw` is a live topology, and the function only reads it.
        unsafe { (self.hwloc.topology_is_thissystem)(self.raw) != 0 }
    }

    /// What was loaded, with neither a name nor a source.
    fn record(&self) -> Result<MachineRecord, String> {
        let mut record = xml::parse(self.xml()?.to_bytes())?;
        // hwloc's XML has the ranks that somebody forced, but not those that hwloc itself found; the order is the same.
        for (kind, index) in record.core_kinds.iter_mut().zip(0..) {
            kind.efficiency = self.efficiency(index);
        }
        Ok(record)
    }

    /// What was loaded, in hwloc's XML.
    fn xml(&self) -> Result<CString, String> {
        let (mut text, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: `raw` is a live topology; hwloc writes to the two places, which are ours, and 0 stands for no flags.
        let result = unsafe { (self.hwloc.topology_export_xmlbuffer)(self.raw, &mut text, &mut bytes, 0) };
        check("hwloc_topology_export_xmlbuffer", result)?;
        // SAFETY: hwloc ends the text with a zero byte, and nobody else changes or frees it.
        let xml = unsafe { CStr::from_ptr(text) }.to_owned();
        // SAFETY: the text came from this topology, which is alive, and wasn't freed before.
        unsafe { (self.hwloc.free_xmlbuffer)(self.raw, text) };
        Ok(xml)
    }

    /// The rank of a kind of core from the weakest (0); none where hwloc can't rank them.
    fn efficiency(&self, kind: c_uint) -> Option<u32> {
        let get_info = self.hwloc.cpukinds_get_info?;
        let mut efficiency = -1;
        // SAFETY: `raw` is a live topology, hwloc refuses indices that it doesn't have, writes to `efficiency` alone, and
        // takes null for what isn't wanted; 0 stands for no flags.
        let result =
            unsafe { get_info(self.raw, kind, ptr::null_mut(), &mut efficiency, ptr::null_mut(), ptr::null_mut(), 0) };
        (result == 0).then_some(efficiency).and_then(|rank| rank.try_into().ok())
    }
}

impl Drop for Topology<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` is a live topology, and what was borrowed from it is gone.
        unsafe { (self.hwloc.topology_destroy)(self.raw) }
    }
}

/// What a function of hwloc that returns -1 and sets `errno` says.
fn check(function: &str, result: c_int) -> Result<(), String> {
    match result {
        0 => Ok(()),
        _ => Err(format!("{function}: {}", io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, preset};

    #[test]
    fn hwloc_reads_what_we_write_as_xml() {
        type SetXmlbuffer = unsafe extern "C" fn(RawTopology, *const c_char, c_int) -> c_int;
        for name in preset::names() {
            let machine = Machine::named(name).unwrap();
            let hwloc = hwloc().unwrap();
            let mut topology = hwloc.topology().unwrap();
            let xml = CString::new(machine.to_xml()).unwrap();
            let bytes = xml.as_bytes_with_nul().len() as c_int;
            // SAFETY: the type is that of hwloc.h; the topology is live and not loaded, and the text outlives it.
            let result = unsafe {
                let set_xmlbuffer = hwloc.library.get::<SetXmlbuffer>("hwloc_topology_set_xmlbuffer").unwrap();
                set_xmlbuffer(topology.raw, xml.as_ptr(), bytes)
            };
            check("hwloc_topology_set_xmlbuffer", result).unwrap();
            topology.load().unwrap();
            let back = Machine::try_from(topology.record().unwrap()).unwrap();
            assert_eq!(back.usable_cpus(), machine.usable_cpus(), "{name}");
            assert_eq!(back.objects().count(), machine.objects().count(), "{name}");
        }
    }

    #[test]
    fn the_environment_is_left_alone_while_other_threads_run() {
        // Tests run beside the thread that started them.
        let before = env::var_os(PLUGINS_PATH);
        assert_eq!(without_plugins(|| env::var_os(PLUGINS_PATH)), before);
    }

    #[test]
    fn a_missing_library_is_named() {
        let cause = Hwloc::open("libhwloc.so.0").err().unwrap();
        assert!(cause.contains("libhwloc.so.0: cannot open shared object file"), "{cause}");
        let sentence = MachineError::NoHwloc(cause).to_string();
        assert!(sentence.contains("libhwloc15") && sentence.contains("--place 0,1"), "{sentence}");
    }
}
