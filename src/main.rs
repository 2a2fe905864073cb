//! The program. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    stormglass::service::main(std::env::args_os())
}
