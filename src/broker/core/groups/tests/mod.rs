//! `joining`, `statics`, `sessions`, `offsets`: examples, each a short history of one group (`history`). `interleavings`:
//! random histories against what a group promises.

mod admin;
mod history;
mod interleavings;
mod joining;
mod offsets;
mod sessions;
mod statics;
