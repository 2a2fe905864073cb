//! `joining`, `statics`, `sessions`, `offsets`, `expiry`: examples, each a short history of one group (`history`).
//! `interleavings`: random histories against what a group promises. `room`: both about what groups take.

mod admin;
mod expiry;
mod history;
mod interleavings;
mod joining;
mod offsets;
mod room;
mod sessions;
mod statics;
