//! Estimates, paired ratios, stop rules: pure functions of numbers.
