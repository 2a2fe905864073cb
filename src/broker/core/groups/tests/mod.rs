//! `joining`, `statics`, `sessions`, `offsets`, `expiry`: examples, each a short history of one group (`history`). `interleavings`:
//! random histories against what a group promises.

mod admin;
mod expiry;
mod history;
mod interleavings;
mod joining;
mod offsets;
mod sessions;
mod statics;
