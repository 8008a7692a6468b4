//! Virtual machines whose clock counts instructions, in which a kernel schedules as it does on a machine of its own.
//!
//! An emulator lets virtual CPUs take turns on the host's. By the host's clock, a slice is over while its CPU waits for its turn. By one that
//! counts instructions, they run side by side, and what the host does otherwise isn't seen. Replays execute a PAUSE now and then, at which
//! the next CPU has its turn (`CHUNK`).

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
