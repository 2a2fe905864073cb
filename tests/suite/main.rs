//! Every test that needs no broker, in one binary.

mod cli;
