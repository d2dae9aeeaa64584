//! STATUS (RFC 9293 §3.10.6): how things stand with the connections of a bucket, for who has it to itself between turns.

use super::table::Table;
use braidnet_stream::State;
use braidnet_tcp::TcpInfo;
use braidnet_wire::address::Tuple;

/// Of the connection with this tuple, whose [hash](crate::flows::Flows::bucket_of) is this, in what TCP keeps in its bucket;
/// `None` if there is none. Half-open ones and those in TIME-WAIT are connections too.
pub fn status(state: &mut dyn State, hash: u64, tuple: &Tuple) -> Option<TcpInfo> {
    let table = state.of::<Table>();
    let slot = table.find(hash, tuple)?;
    Some(table.connection(slot)?.tcb.status())
}

/// Bytes of that connection that wait to be sent for the first time; with them those that the head has handed down and TCP has not taken yet, for the head
/// thinks that there is room for `space` more. 0 if there is none.
pub fn unsent(state: &mut dyn State, hash: u64, tuple: &Tuple, space: u32) -> u32 {
    let table = state.of::<Table>();
    let slot = table.find(hash, tuple);
    let Some(connection) = slot.and_then(|slot| table.connection(slot)) else {
        return 0;
    };
    let told = (connection.tcb.send_space()).saturating_sub(connection.unreported_space);
    connection.tcb.unsent() + told.saturating_sub(space)
}

/// Whether some connection in what TCP keeps in a bucket is such; no more are looked at than it takes.
pub fn any(state: &mut dyn State, mut is_such: impl FnMut(&TcpInfo) -> bool) -> bool {
    let mut connections = state.of::<Table>().connections();
    connections.any(|connection| is_such(&connection.tcb.status()))
}

/// Of every connection in what TCP keeps in a bucket, appended to `all`.
pub fn statuses(state: &mut dyn State, all: &mut Vec<(Tuple, TcpInfo)>) {
    let connections = state.of::<Table>().connections();
    all.extend(connections.map(|connection| (connection.tuple, connection.tcb.status())));
}
