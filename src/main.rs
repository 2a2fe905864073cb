//! The program. Everything is in the library.

use std::process::ExitCode;

/// Here and not in the library: whoever links that has an allocator of his own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    stormglass::service::main(std::env::args_os())
}
