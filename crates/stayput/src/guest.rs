//! `stayput guest`: what answers the requests of `study --on vm` in a virtual machine. It is for nobody else.

use anyhow::Context;
use std::io;

/// Answers requests on standard input until that ends.
pub fn run() -> anyhow::Result<()> {
    study::guest::answer_requests(io::stdin().lock(), io::stdout().lock()).context("cannot answer a request")
}
