//! Packets as a capture file holds them.

use crate::Medium;
use crate::capture::{DROPPED, Direction};
use pcap_parser::pcapng::{Block, EnhancedPacketBlock, InterfaceDescriptionBlock};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, PcapHeader, create_reader};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a section of pcapng begins, in either byte order.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The shortest block: a type, and a length twice.
const BLOCK_MIN: u32 = 12;
/// The longest block that is read.
const BLOCK_MAX: usize = 1 << 20;
/// The most interfaces that a section may have.
const INTERFACES_MAX: usize = 4096;

/// Why a recording cannot be read, or not further.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file could not be opened.
    #[error("the recording {path} cannot be opened: {source}")]
    Open {
        /// Where it should lie.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// It could not be read.
    #[error("the recording cannot be read behind byte {at}")]
    Read {
        /// Bytes that have been understood.
        at: u64,
    },
    /// It is neither pcap nor pcapng.
    #[error("this is no recording: it begins neither as pcap nor as pcapng does")]
    NotARecording,
    /// It ends within a block.
    #[error("the recording is cut off: it ends in the block at byte {at}")]
    CutOff {
        /// Where the block begins.
        at: u64,
    },
    /// A block contradicts itself.
    #[error("the recording is damaged: the block at byte {at} makes no sense")]
    Damaged {
        /// Where the block begins.
        at: u64,
    },
    /// A block is longer than is read.
    #[error("the recording has a block of more than 1 MiB at byte {at}")]
    TooLong {
        /// Where the block begins.
        at: u64,
    },
    /// A section has too many interfaces.
    #[error("the recording has more than 4096 interfaces")]
    TooManyInterfaces,
}

/// A capture file that is being read: pcapng, as [`Capture`](crate::capture::Capture) writes it, or pcap, as `tcpdump -w` does.
pub struct Recording {
    reader: Box<dyn PcapReaderIterator + Send>,
    /// It is pcapng.
    by_blocks: bool,
    /// Of the section that is being read; of a pcap file the one there is.
    interfaces: Vec<Interface>,
    /// What was wrong, once something was.
    broken: Option<RecordingError>,
    /// When the last packet was recorded.
    nanos: u64,
}

/// One packet of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it was recorded, in nanoseconds since the Unix epoch.
    pub nanos: u64,
    /// Which way it went, where that was recorded.
    pub direction: Option<Direction>,
    /// What it begins with: a `LINKTYPE_` number.
    pub link_type: i32,
    /// Its length; more than its bytes where these were cut.
    pub length: usize,
    /// What was recorded of it.
    pub bytes: Vec<u8>,
    /// What is said of it, if anything: its first comment.
    pub comment: Option<String>,
}

/// What its interface says of a packet.
#[derive(Clone, Copy)]
struct Interface {
    link_type: Linktype,
    /// Units of time in a second.
    resolution: u128,
    /// Seconds to be added.
    offset: i64,
}

impl Recording {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Open`], and what [`Recording::new`] says.
    pub fn open(path: impl AsRef<Path>) -> Result<Recording, RecordingError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| RecordingError::Open {
            path: path.to_path_buf(),
            source: Arc::new(source),
        })?;
        Recording::new(file)
    }

    /// Reads from anything.
    ///
    /// # Errors
    ///
    /// [`RecordingError::NotARecording`], and [`RecordingError::Read`] if nothing can be read.
    pub fn new(from: impl Read + Send + 'static) -> Result<Recording, RecordingError> {
        let reader = create_reader(BLOCK_MAX, Filling(from)).map_err(|error| match error {
            PcapError::ReadError => RecordingError::Read { at: 0 },
            _ => RecordingError::NotARecording,
        })?;
        Ok(Recording {
            by_blocks: reader.data().starts_with(&SECTION),
            reader,
            interfaces: Vec::new(),
            broken: None,
            nanos: 0,
        })
    }

    /// The next packet; `None` at the end. One that has no time of its own has that of the one before.
    ///
    /// # Errors
    ///
    /// Why there is no next one, and never will be.
    pub fn next_record(&mut self) -> Result<Option<Record>, RecordingError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let record = self.read_record();
        match &record {
            Ok(Some(record)) => self.nanos = record.nanos,
            Ok(None) => {}
            Err(error) => self.broken = Some(error.clone()),
        }
        record
    }

    fn read_record(&mut self) -> Result<Option<Record>, RecordingError> {
        loop {
            let at = self.reader.consumed() as u64;
            if self.by_blocks && is_shorter_than_itself(self.reader.data()) {
                return Err(RecordingError::Damaged { at });
            }
            match self.reader.next() {
                Ok((length, block)) => {
                    let taken = take(&mut self.interfaces, block, self.nanos)
                        .map_err(|trouble| trouble.at(at));
                    self.reader.consume(length);
                    match taken? {
                        Some(record) => return Ok(Some(record)),
                        None => continue,
                    }
                }
                Err(PcapError::Incomplete(_)) => {}
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::UnexpectedEof) => return Err(RecordingError::CutOff { at }),
                Err(PcapError::BufferTooSmall) => return Err(RecordingError::TooLong { at }),
                Err(PcapError::ReadError) => return Err(RecordingError::Read { at }),
                Err(_) => return Err(RecordingError::Damaged { at }),
            }
            if self.reader.refill().is_err() {
                return Err(RecordingError::Read { at });
            }
        }
    }
}

/// Whether a block of pcapng is shorter than its own type and lengths. The reader overlooks it in blocks of one type (a process's, 0x80000001), and
/// takes the difference. What is that short in the one byte order is nothing, or longer than is read, in the other.
fn is_shorter_than_itself(block: &[u8]) -> bool {
    let length = block.get(4..8).and_then(|length| length.try_into().ok());
    length.is_some_and(|length| {
        u32::from_le_bytes(length).min(u32::from_be_bytes(length)) < BLOCK_MIN
    })
}

/// What is wrong with a block.
enum Trouble {
    Damaged,
    TooManyInterfaces,
}

impl Trouble {
    fn at(self, at: u64) -> RecordingError {
        match self {
            Trouble::Damaged => RecordingError::Damaged { at },
            Trouble::TooManyInterfaces => RecordingError::TooManyInterfaces,
        }
    }
}

/// Learns what a block says, and takes the packet out of one that holds one; `before` is when the one before was recorded.
fn take(
    interfaces: &mut Vec<Interface>,
    block: PcapBlockOwned<'_>,
    before: u64,
) -> Result<Option<Record>, Trouble> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            interfaces.push(Interface::of_file(&header));
            Ok(None)
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interfaces.first().ok_or(Trouble::Damaged)?;
            let whole = u128::from(packet.ts_sec) * interface.resolution;
            let ticks = whole + u128::from(packet.ts_usec);
            let record = interface.record(ticks, packet.data, packet.caplen, packet.origlen)?;
            Ok(Some(record))
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            Ok(None)
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
            if interfaces.len() >= INTERFACES_MAX {
                return Err(Trouble::TooManyInterfaces);
            }
            interfaces.push(Interface::described(&description)?);
            Ok(None)
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interfaces
                .get(packet.if_id as usize)
                .ok_or(Trouble::Damaged)?;
            let ticks = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
            let record = interface.record(ticks, packet.data, packet.caplen, packet.origlen)?;
            Ok(Some(Record {
                direction: direction(&packet),
                comment: comment(&packet),
                ..record
            }))
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            let interface = interfaces.first().ok_or(Trouble::Damaged)?;
            // It has no time, and is cut where the interface cuts.
            let recorded = (packet.data.len() as u32).min(packet.origlen);
            let record = interface.record(0, packet.data, recorded, packet.origlen)?;
            Ok(Some(Record {
                nanos: before,
                ..record
            }))
        }
        PcapBlockOwned::NG(_) => Ok(None),
    }
}

impl Interface {
    /// The one interface of a pcap file.
    fn of_file(header: &PcapHeader) -> Interface {
        Interface {
            link_type: header.network,
            resolution: match header.is_nanosecond_precision() {
                true => 1_000_000_000,
                false => 1_000_000,
            },
            offset: 0,
        }
    }

    /// What a pcapng file says of one (draft-ietf-opsawg-pcapng §4.2: a power of ten, or with the highest bit set of two).
    fn described(description: &InterfaceDescriptionBlock<'_>) -> Result<Interface, Trouble> {
        let exponent = u32::from(description.if_tsresol & 0x7f);
        let base: u128 = if description.if_tsresol & 0x80 == 0 {
            10
        } else {
            2
        };
        Ok(Interface {
            link_type: description.linktype,
            resolution: base.checked_pow(exponent).ok_or(Trouble::Damaged)?,
            offset: description.if_tsoffset,
        })
    }

    fn record(
        &self,
        ticks: u128,
        data: &[u8],
        recorded: u32,
        length: u32,
    ) -> Result<Record, Trouble> {
        let bytes = data.get(..recorded as usize).ok_or(Trouble::Damaged)?;
        // What is beyond the clock's range stays at its end.
        let nanos = ticks.saturating_mul(1_000_000_000) / self.resolution;
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let nanos = nanos.saturating_add(i128::from(self.offset) * 1_000_000_000);
        Ok(Record {
            nanos: u64::try_from(nanos.max(0)).unwrap_or(u64::MAX),
            direction: None,
            link_type: self.link_type.0,
            length: length as usize,
            bytes: bytes.to_vec(),
            comment: None,
        })
    }
}

/// Bits 0 and 1 of `epb_flags` (§4.3.1).
fn direction(packet: &EnhancedPacketBlock<'_>) -> Option<Direction> {
    const FLAGS: u16 = 2;
    let flags = packet
        .options
        .iter()
        .find(|option| option.code.0 == FLAGS)?;
    let flags: [u8; 4] = flags.value.get(..4)?.try_into().ok()?;
    // The section's byte order, which the block's type shows.
    let flags = match packet.block_type {
        0x0000_0006 => u32::from_le_bytes(flags),
        _ => u32::from_be_bytes(flags),
    };
    match flags & 3 {
        1 => Some(Direction::Inbound),
        2 => Some(Direction::Outbound),
        _ => None,
    }
}

/// `opt_comment` (§3.5).
fn comment(packet: &EnhancedPacketBlock<'_>) -> Option<String> {
    const COMMENT: u16 = 1;
    let mut options = packet.options.iter();
    let comment = options.find(|option| option.code.0 == COMMENT)?;
    Some(String::from_utf8_lossy(comment.as_bytes().ok()?).into_owned())
}

/// Fills what it is given as far as it can: the parser takes less for the end.
struct Filling<R>(R);

impl<R: Read> Read for Filling<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.0.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// Why a packet of a recording is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Skipped {
    /// Only a part of it was recorded.
    Cut,
    /// The device does not carry what it begins with, nor can that be taken off.
    LinkType,
    /// It is no IP packet, and the device carries only those.
    NotIp,
    /// It went the other way.
    OtherDirection,
    /// It has been recorded before, as it arrived; this says that it was dropped.
    Dropped,
}

impl Skipped {
    /// Every reason, in the order of their counters.
    pub const ALL: [Skipped; 5] = [
        Skipped::Cut,
        Skipped::LinkType,
        Skipped::NotIp,
        Skipped::OtherDirection,
        Skipped::Dropped,
    ];

    /// The reason as reports spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Skipped::Cut => "cut",
            Skipped::LinkType => "link-type",
            Skipped::NotIp => "not-ip",
            Skipped::OtherDirection => "other-direction",
            Skipped::Dropped => "dropped",
        }
    }
}

impl Record {
    /// The packet as a device of this medium carries it: what a link puts in front of IP packets is taken off where it carries bare ones.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn packet(&self, medium: Medium) -> Result<&[u8], Skipped> {
        if (self.comment.as_ref()).is_some_and(|comment| comment.starts_with(DROPPED)) {
            return Err(Skipped::Dropped);
        }
        if self.bytes.len() < self.length {
            return Err(Skipped::Cut);
        }
        match (medium, Linktype(self.link_type)) {
            (Medium::Ethernet { .. }, Linktype::ETHERNET) => Ok(&self.bytes),
            (Medium::Ethernet { .. }, _) => Err(Skipped::LinkType),
            (Medium::Ip, link_type) => {
                let header = link_header(link_type, &self.bytes)?;
                let packet = self.bytes.get(header..).unwrap_or_default();
                match packet.first().map(|first| first >> 4) {
                    Some(4 | 6) => Ok(packet),
                    _ => Err(Skipped::NotIp),
                }
            }
        }
    }
}

/// How many bytes stand in front of the IP packet.
fn link_header(link_type: Linktype, bytes: &[u8]) -> Result<usize, Skipped> {
    let is_ip = |at: usize| matches!(bytes.get(at..at + 2), Some([0x08, 0x00] | [0x86, 0xdd]));
    let behind = |at: usize, header: usize| match is_ip(at) {
        true => Ok(header),
        false => Err(Skipped::NotIp),
    };
    match link_type {
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => Ok(0),
        Linktype::NULL | Linktype::LOOP => Ok(4),
        Linktype::LINUX_SLL => behind(14, 16),
        Linktype::LINUX_SLL2 => behind(0, 20),
        Linktype::ETHERNET => {
            // Up to two tags (802.1Q, 802.1ad).
            let is_tag =
                |at: usize| matches!(bytes.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
            let tags = (0..2).take_while(|tag| is_tag(12 + 4 * tag)).count();
            behind(12 + 4 * tags, 14 + 4 * tags)
        }
        _ => Err(Skipped::LinkType),
    }
}
