//! What ICMP says of our segments (RFC 1122 §4.2.3.9, RFC 1191 §6.4).

use super::table::Table;
use super::{
    PATH_BLACK_HOLES, PATH_FORGOTTEN, PATH_PROBES_LOST, PATH_SHORTENED, PATH_WIDENED,
    REPORT_DOUBTED, REPORT_NOT_ON_ITS_WAY, REPORT_SHORT_ENOUGH, REPORT_STALE, REPORT_UNHEEDED, Tcp,
    UNDELIVERED, UNREACHABLE,
};
use crate::notes::{Arrival, News};
use braidnet_message::Message;
use braidnet_stream::Context;
use braidnet_tcp::Payload;
use braidnet_tcp::{Events, Heard, Report, Tcb};
use braidnet_wire::address::Address;
use braidnet_wire::tcp::PROTOCOL;
use braidnet_wire::time::Instant;

impl Tcp {
    /// The order-free part: finds the bucket of the connection that it is for.
    #[cold]
    pub(super) fn take_news(&self, message: &mut Message) {
        let Arrival { tuple, .. } = message.note_ref();
        let (bucket, hash) = self.flows.bucket_of(tuple, PROTOCOL);
        message.set_bucket(bucket.0);
        message.note_mut::<Arrival>().hash = hash;
    }

    /// The ordered part: tells the connection.
    #[cold]
    #[inline(never)]
    pub(super) fn news(
        &self,
        slot: Option<usize>,
        message: &Message,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let News {
            arrival,
            what,
            path_mtu,
        } = message.note();
        let Some((slot, connection)) = slot.and_then(|slot| Some((slot, table.touch(slot)?)))
        else {
            return cx.count(REPORT_STALE, 1);
        };
        let path_mtu = self.limits.now().paths.believed(path_mtu);
        let report = match what {
            News::REFUSED => Report::Refused,
            News::UNREACHABLE => Report::Unreachable,
            News::TOO_LONG => Report::TooLong { path_mtu },
            _ => Report::Undelivered,
        };
        let now = cx.now();
        let heard = connection.tcb.on_report(now, arrival.header.seq, report);
        match heard {
            Heard::NotOnItsWay => cx.count(REPORT_NOT_ON_ITS_WAY, 1),
            Heard::ShortEnough => cx.count(REPORT_SHORT_ENOUGH, 1),
            Heard::Unheeded => cx.count(REPORT_UNHEEDED, 1),
            Heard::Noted => cx.count(UNDELIVERED, 1),
            Heard::Doubted => cx.count(REPORT_DOUBTED, 1),
            Heard::Shortened => self.remember_path(arrival.tuple.remote, path_mtu, cx),
            Heard::Ended(events) => {
                cx.count(UNREACHABLE, 1);
                self.events(slot, events, table, cx);
            }
        }
    }

    /// The path to `remote` is shorter than was thought.
    fn remember_path(&self, remote: Address, mtu: u32, cx: &mut Context<'_>) {
        cx.count(PATH_SHORTENED, 1);
        let limits = self.limits.now().paths;
        let forgotten = self.paths.remember(&limits, (remote, mtu), cx.now());
        cx.count(PATH_FORGOTTEN, forgotten);
    }

    /// A connection has found out something of its path by itself.
    #[cold]
    pub(super) fn path_events(
        &self,
        slot: usize,
        events: Events,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let rows = [
            (Events::PATH_BLACK_HOLE, PATH_BLACK_HOLES),
            (Events::PATH_WIDENED, PATH_WIDENED),
            (Events::PATH_PROBE_LOST, PATH_PROBES_LOST),
        ];
        for (event, counter) in rows {
            cx.count(counter, u64::from(events.contains(event)));
        }
        if events.contains(Events::PATH_SHORTENED)
            && let Some(connection) = table.connection(slot)
        {
            let (remote, mtu) = (connection.tuple.remote, connection.tcb.path_mtu());
            self.remember_path(remote, mtu, cx);
        }
    }

    /// What a connection that begins is to know of its path.
    #[inline]
    pub(super) fn know_path<P: Payload>(&self, tcb: &mut Tcb<P>, remote: &Address, now: Instant) {
        if let Some(mtu) = self.paths.find(remote, now) {
            tcb.set_path_mtu(mtu);
        }
    }
}
