//! Faults as they come.

use std::time::Duration;

use kafka_protocol::{messages::ApiKey, protocol::StrBytes};

use super::{Simulation, Slot};
use crate::{
    broker::core::faults::Rule,
    chaos::{
        bites::Bites,
        network::Network,
        pipeline::{GROUP, LINES, WORDS},
        plan::{Fault, Planned},
        view::{expel, grow, make_anew},
    },
    clock::Instant,
};

impl Simulation {
    /// Does the fault that is due.
    pub(super) fn strike(&mut self, now: Instant) -> Result<(), String> {
        let Some(Planned { fault, .. }) = self.coming.pop_front() else { return Ok(()) };
        self.log.say(now, format_args!("fault: {fault:?}"));
        let network = self.setting.network.clone();
        match fault {
            Fault::PauseBroker { span } => network.pause_broker(span),
            Fault::CrashBroker { down, unflushed } => {
                network.crash_broker(down);
                // What is lost for good goes out of the books; here and below.
                let lost = self.oracle.lose_output(unflushed)?;
                self.bites.note("CrashBroker, unflushed", lost > 0);
            }
            Fault::DeleteRecords { partition, uncommitted } => {
                let unread = self.oracle.delete_input(now, partition, uncommitted)?;
                self.bites.note("DeleteRecords", unread.is_some());
                self.bites.note("DeleteRecords, unread", unread > Some(0));
            }
            Fault::MakeAnew => {
                self.oracle.output_is_made_anew()?;
                make_anew(&network, WORDS);
                self.bites.note("MakeAnew", true);
            }
            Fault::MoveCoordinator { what, span } => {
                self.bites.note(format!("MoveCoordinator {what:?}"), true);
                network.move_coordinator(what, span);
            }
            Fault::TimeOutTransactions => {
                let count = network.time_out_transactions();
                self.bites.note("TimeOutTransactions", count > 0);
            }
            Fault::Compact => {
                let any = self.oracle.changelog().map(|topic| network.compact(topic)).contains(&true);
                self.bites.note("Compact", any);
            }
            Fault::Expel { member } => {
                let name = expel(&network, GROUP, member);
                self.log.say(now, format_args!("expelled: {name:?}"));
                self.bites.note("Expel", name.is_some());
            }
            Fault::Grow => {
                self.partitions += 1;
                grow(&network, LINES, self.partitions);
                self.bites.note("Grow", true);
            }
            Fault::Requests { api, partition, mishap, times, span } => {
                let topic = StrBytes::from_static_str(if api == ApiKey::Produce { WORDS } else { LINES });
                let partition = partition.map(|partition| (topic, partition));
                network.add_rule(Rule { api: Some(api), partition, from: now, until: now + span, times, mishap });
            }
            Fault::Replace { process, span } => self.replace(process, span, now),
            Fault::Kill { process, .. }
            | Fault::Stop { process, .. }
            | Fault::Pause { process, .. }
            | Fault::Cut { process, .. }
            | Fault::Hang { process, .. }
            | Fault::Bolts { process, .. } => {
                if let Some(slot) = self.slots.get_mut(process) {
                    harm(slot, &fault, (&network, &mut self.bites), now);
                }
            }
        }
        Ok(())
    }

    /// A process stands still, and another one is started in its place.
    fn replace(&mut self, process: usize, span: Duration, now: Instant) {
        let Some(slot) = self.slots.get_mut(process) else { return };
        let Some(mut process) = slot.process.take() else { return };
        self.bites.note("Replace", true);
        process.paused_until = now + span;
        self.ousted.push(process);
        slot.start_at = now;
    }
}

/// Does a fault of one process.
fn harm(slot: &mut Slot, fault: &Fault, (network, bites): (&Network, &mut Bites), now: Instant) {
    let Some(process) = &mut slot.process else { return };
    match *fault {
        Fault::Kill { calls, down, .. } => {
            process.host.die_after(calls);
            slot.down = down;
        }
        Fault::Stop { down, .. } => {
            process.drain(now);
            (slot.down, slot.stopping) = (down, true);
        }
        Fault::Pause { span, .. } => {
            bites.note("Pause", true);
            process.paused_until = now + span;
        }
        Fault::Cut { way, span, .. } => network.cut(process.host.id(), way, span),
        Fault::Hang { executor, .. } => bites.note("Hang", process.hang(executor, now)),
        Fault::Bolts { last, failures, panics, .. } => process.misbehave(last, failures, panics),
        Fault::Replace { .. }
        | Fault::PauseBroker { .. }
        | Fault::CrashBroker { .. }
        | Fault::MoveCoordinator { .. }
        | Fault::TimeOutTransactions
        | Fault::Compact
        | Fault::DeleteRecords { .. }
        | Fault::MakeAnew
        | Fault::Expel { .. }
        | Fault::Grow
        | Fault::Requests { .. } => {}
    }
}
