//! Plays a workload of the simulator with real processes.
