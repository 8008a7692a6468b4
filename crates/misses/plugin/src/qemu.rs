//! The few functions of qemu's plugin interface that are used, found by name in the process that loads us.
//!
//! They are the same from version 1 of the interface (qemu 6.0) on; what changed since, such as counting without a callback, is
//! left alone. Bound here rather than by a crate: the crate `qemu-plugin` is under the GPL, calls through two boxes at each
//! access, and must be built for one version of the interface. Found rather than linked, so that tests run without qemu.
//! Interface: <https://www.qemu.org/docs/master/devel/tcg-plugins.html>.

use libloading::os::unix::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

/// What qemu calls this plugin.
pub(crate) type PluginId = u64;

/// `qemu_info_t`
#[repr(C)]
pub struct Info {
    target_name: *const c_char,
    oldest_version: c_int,
    pub(crate) version: c_int,
    pub(crate) emulates_system: bool,
    pub(crate) smp_vcpus: c_int,
    max_vcpus: c_int,
}

/// A block of code under translation.
#[repr(C)]
pub(crate) struct Block {
    _opaque: [u8; 0],
}

/// An instruction of a block under translation.
#[repr(C)]
pub(crate) struct Instruction {
    _opaque: [u8; 0],
}

/// Where an access went.
#[repr(C)]
pub(crate) struct HardwareAddress {
    _opaque: [u8; 0],
}

pub(crate) type OnTranslation = unsafe extern "C" fn(id: PluginId, block: *mut Block);
pub(crate) type OnExecution = unsafe extern "C" fn(vcpu: c_uint, data: *mut c_void);
pub(crate) type OnAccess = unsafe extern "C" fn(vcpu: c_uint, access: u32, address: u64, data: *mut c_void);

/// `QEMU_PLUGIN_CB_NO_REGS`
pub(crate) const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`. Registering loads and stores apart makes qemu 7.2 tell of some accesses twice.
pub(crate) const LOADS_AND_STORES: c_int = 3;

impl Qemu {
    /// Whether this process is a qemu with version 2 of the interface or later, which brought scoreboards.
    pub fn has_version_2() -> bool {
        // SAFETY: the function isn't called.
        unsafe { Library::this().get::<unsafe extern "C" fn()>(c"qemu_plugin_scoreboard_new") }.is_ok()
    }
}

/// The longest that an instruction of x86 is.
const LONGEST_INSTRUCTION: usize = 15;

/// The bytes of an instruction.
pub(crate) struct Code {
    pub(crate) bytes: [u8; LONGEST_INSTRUCTION],
    pub(crate) length: usize,
}

impl Qemu {
    /// The bytes of an instruction under translation.
    ///
    /// # Safety
    /// The instruction is valid.
    pub unsafe fn bytes(&self, instruction: *mut Instruction) -> Code {
        let mut bytes = [0; LONGEST_INSTRUCTION];
        // SAFETY: up to version 2 of the interface the function takes the instruction alone, and returns where its bytes are; later it
        // copies them to where it is told, and returns how many. No pointer is as small, and an argument too many is ignored.
        unsafe {
            let length = (self.instruction_size)(instruction).min(LONGEST_INSTRUCTION);
            let returned = (self.instruction_data)(instruction, bytes.as_mut_ptr().cast(), length);
            if returned > LONGEST_INSTRUCTION {
                ptr::copy_nonoverlapping(ptr::with_exposed_provenance(returned), bytes.as_mut_ptr(), length);
            }
            Code { bytes, length }
        }
    }
}

macro_rules! functions {
    ($($field:ident = $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, under qemu's names without `qemu_plugin_`.
        pub(crate) struct Qemu {
            $(pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Qemu {
            /// Finds the functions in this process.
            ///
            /// # Errors
            /// What the dynamic linker says when one is missing.
            pub fn find() -> Result<Self, libloading::Error> {
                let process = Library::this();
                Ok(Self {
                    // SAFETY: qemu's functions of these names have these types.
                    $($field: *unsafe { process.get(stringify!($name))? },)*
                })
            }
        }
    };
}

functions! {
    register_translation = qemu_plugin_register_vcpu_tb_trans_cb(PluginId, OnTranslation);
    block_instructions = qemu_plugin_tb_n_insns(*const Block) -> usize;
    block_address = qemu_plugin_tb_vaddr(*const Block) -> u64;
    instruction = qemu_plugin_tb_get_insn(*const Block, usize) -> *mut Instruction;
    instruction_size = qemu_plugin_insn_size(*const Instruction) -> usize;
    instruction_data = qemu_plugin_insn_data(*const Instruction, *mut c_void, usize) -> usize;
    register_execution = qemu_plugin_register_vcpu_tb_exec_cb(*mut Block, OnExecution, c_int, *mut c_void);
    register_access = qemu_plugin_register_vcpu_mem_cb(*mut Instruction, OnAccess, c_int, c_int, *mut c_void);
    is_store = qemu_plugin_mem_is_store(u32) -> bool;
    hardware_address = qemu_plugin_get_hwaddr(u32, u64) -> *mut HardwareAddress;
    is_device = qemu_plugin_hwaddr_is_io(*const HardwareAddress) -> bool;
    physical_address = qemu_plugin_hwaddr_phys_addr(*const HardwareAddress) -> u64;
}
