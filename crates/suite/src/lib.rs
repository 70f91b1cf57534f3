//! The ten restart-safety bullets as a suite, against the simulator and against real processes.
