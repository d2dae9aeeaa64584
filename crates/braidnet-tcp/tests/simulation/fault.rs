//! Faults planted between the engine and the world, to see that the oracle finds them.

use crate::oracle::Law;
use braidnet_wire::tcp::TcpHeader;

/// What a faulty host does wrong, once it has come so far that it can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// One byte of what is delivered is changed.
    ByteChanged,
    /// One byte of what is delivered is left out.
    ByteLost,
    /// One piece of data is delivered twice, the second time behind its successor.
    PieceRepeated,
    /// Two pieces of data are delivered in the wrong order.
    PiecesSwapped,
    /// An acknowledgment goes back.
    AckGoesBack,
    /// What has not arrived is acknowledged.
    AckOfNothing,
    /// What has not arrived is acknowledged selectively.
    SackOfNothing,
    /// The announced right edge moves back.
    WindowShrinks,
    /// The engine is told of wider windows than the peer has announced.
    WindowIgnored,
    /// From some time on, nothing is sent.
    Silence,
    /// The timers are not looked at.
    NoTimers,
}

impl Fault {
    /// Every fault, and the laws of which it breaks at least one.
    pub const ALL: [(Fault, &'static [Law]); 11] = [
        (Fault::ByteChanged, &[Law::Bytes]),
        (Fault::ByteLost, &[Law::Bytes, Law::Events, Law::Memory]),
        (Fault::PieceRepeated, &[Law::Bytes]),
        (Fault::PiecesSwapped, &[Law::Bytes]),
        // A report of what came twice then seems to be one of what is held.
        (
            Fault::AckGoesBack,
            &[Law::AckMonotone, Law::RightEdge, Law::AckOfArrived],
        ),
        // What probes a closed window has arrived and is not taken: it shows when the peer lets go of it.
        (Fault::AckOfNothing, &[Law::AckOfArrived, Law::Released]),
        (Fault::SackOfNothing, &[Law::AckOfArrived]),
        (Fault::WindowShrinks, &[Law::RightEdge]),
        (Fault::WindowIgnored, &[Law::Window]),
        (Fault::Silence, &[Law::Progress, Law::Events]),
        (Fault::NoTimers, &[Law::Progress]),
    ];

    /// Changes the pieces of data that are delivered at once; says whether it could.
    pub fn on_delivery(self, pieces: &mut Vec<Vec<u8>>) -> bool {
        match self {
            Fault::ByteChanged => match pieces.last_mut().and_then(|piece| piece.last_mut()) {
                Some(byte) => *byte ^= 0x10,
                None => return false,
            },
            Fault::ByteLost => match pieces.last_mut() {
                // Alone, a byte that is lost is a byte that is late: it shows when the next comes, or the end.
                Some(piece) => drop(piece.remove(0)),
                None => return false,
            },
            Fault::PieceRepeated if pieces.len() > 1 => pieces.push(pieces[0].clone()),
            Fault::PiecesSwapped if pieces.len() > 1 && pieces[0] != pieces[1] => pieces.swap(0, 1),
            _ => return false,
        }
        true
    }

    /// Changes a header that is sent; says whether it could.
    pub fn on_transmit(self, header: &mut TcpHeader) -> bool {
        match self {
            Fault::AckGoesBack => header.ack = header.ack - 1,
            Fault::AckOfNothing => header.ack += 1,
            Fault::SackOfNothing if header.sack_count > 0 => header.sack[0].right += 1,
            Fault::WindowShrinks if header.window > 1 => header.window /= 2,
            _ => return false,
        }
        true
    }
}
