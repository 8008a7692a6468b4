//! What a running Linux kernel does with a workload: plays it under real schedulers, here or in a virtual machine.

pub mod play;
pub mod vm;
