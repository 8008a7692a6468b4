//! Virtual machines whose clock counts instructions, in which a kernel schedules as it does on a machine of its own.
//!
//! By the host's clock, the kernel's own work, emulated, takes many times as long as on a machine, and whatever else the host does is seen. By
//! one that counts instructions neither is so. Virtual CPUs take turns on one of the host's all the same: replays execute a PAUSE now and then,
//! at which the next has its turn (`CHUNK`).

use vm::Vm;

/// An instruction takes a nanosecond: of eight busy CPUs each executes as many as a small real one does in four times the time. With slower
/// ones the kernel's own work takes so much of a slice that figures are no more those of a machine.
pub const ICOUNT_SHIFT: u8 = 0;

/// What a newly idle CPU's search takes at most, in ns. The kernel learns it; in an emulator, where another CPU may have its turn meanwhile,
/// it learns milliseconds while the machine boots, and then such CPUs search no more. So it is told.
const NEWIDLE_COST_NS: u32 = 20_000;

/// Lets the clock of a virtual machine count instructions, of `1 << shift` ns each.
pub fn count_instructions(vm: &mut Vm, shift: u8) {
    vm.icount_shift = Some(shift);
    // For the folder of what searches cost.
    vm.kernel_arguments.push("sched_verbose".into());
}

/// Text for the shell of the guest that tells its kernel what searches cost.
pub fn told_search_costs() -> String {
    let costs = "/sys/kernel/debug/sched/domains/cpu*/*/max_newidle_lb_cost";
    format!("for cost in {costs}; do echo {NEWIDLE_COST_NS} > $cost; done")
}
