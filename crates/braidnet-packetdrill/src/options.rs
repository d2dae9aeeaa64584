//! Options of sockets as getsockopt(2) and setsockopt(2) carry them, in bytes.

use crate::errno::Errno;
use braidnet::Duration;
use braidnet::inet::ip::DEFAULT_TTL;
use braidnet::socket::{OptionName, Socket, SocketOption, Sockets};
use braidnet::tcp::PathMtuDiscovery;

/// Reads an `int`.
pub(crate) fn int(bytes: &[u8]) -> Result<i32, Errno> {
    let bytes = bytes.first_chunk().ok_or(Errno(libc::EINVAL))?;
    Ok(i32::from_ne_bytes(*bytes))
}

/// Reads what turns something on or off.
pub(crate) fn switch(bytes: &[u8]) -> Result<bool, Errno> {
    Ok(int(bytes)? != 0)
}

pub(crate) fn set(
    sockets: &mut Sockets,
    socket: Socket,
    (level, name): (i32, i32),
    value: &[u8],
) -> Result<(), Errno> {
    let name = OptionName::from_numbers(level, name)?;
    let number = match (level, value) {
        // Options of IP may be single bytes.
        (libc::SOL_IP, [byte, ..]) if value.len() < 4 => i32::from(*byte),
        _ => int(value)?,
    };
    let is_on = number != 0;
    let least = |least: i32| match number >= least {
        true => Ok(number as u32),
        false => Err(Errno(libc::EINVAL)),
    };
    let seconds = || Ok::<_, Errno>(Duration::from_secs(least(1)?.into()));
    let option = match name {
        OptionName::ReuseAddress => SocketOption::ReuseAddress(is_on),
        // The last stands in the upper half.
        OptionName::LocalPorts => SocketOption::LocalPorts(number as u16, (number >> 16) as u16),
        OptionName::BindWithoutPort => SocketOption::BindWithoutPort(is_on),
        OptionName::NoDelay => SocketOption::NoDelay(is_on),
        OptionName::Cork => SocketOption::Cork(is_on),
        OptionName::KeepAlive => SocketOption::KeepAlive(is_on),
        OptionName::MaximumSegment => {
            let bytes = u16::try_from(number).map_err(|_| Errno(libc::EINVAL))?;
            SocketOption::MaximumSegment(bytes)
        }
        OptionName::Linger => {
            let time = int(value.get(4..).unwrap_or_default())?;
            let time = Duration::from_secs(u64::try_from(time).unwrap_or(0));
            SocketOption::Linger(is_on.then_some(time))
        }
        OptionName::ReceiveBuffer => SocketOption::ReceiveBuffer(least(0)?),
        OptionName::SendBuffer => SocketOption::SendBuffer(least(0)?),
        OptionName::NotSentLowWater => SocketOption::NotSentLowWater(number as u32),
        OptionName::KeepIdle => SocketOption::KeepIdle(seconds()?),
        OptionName::KeepInterval => SocketOption::KeepInterval(seconds()?),
        OptionName::KeepCount => {
            let probes = u8::try_from(number).map_err(|_| Errno(libc::EINVAL))?;
            SocketOption::KeepCount(probes)
        }
        OptionName::UserTimeout => {
            let time = Duration::from_millis(least(0)?.into());
            SocketOption::UserTimeout(is_on.then_some(time))
        }
        // -1 is what a socket begins with.
        OptionName::TimeToLive if number == -1 => SocketOption::TimeToLive(DEFAULT_TTL),
        OptionName::TimeToLive => {
            let hops = u8::try_from(number).map_err(|_| Errno(libc::EINVAL))?;
            SocketOption::TimeToLive(hops)
        }
        // The ECN field below it is TCP's own, and what lies above is not looked at.
        OptionName::DifferentiatedServices => {
            SocketOption::DifferentiatedServices((number >> 2 & 0x3f) as u8)
        }
        // `IP_PMTUDISC_INTERFACE` and `IP_PMTUDISC_OMIT` are not among them.
        OptionName::PathMtuDiscovery => {
            let choice = PathMtuDiscovery::ALL.get(least(0)? as usize);
            SocketOption::PathMtuDiscovery(*choice.ok_or(Errno(libc::EINVAL))?)
        }
        OptionName::FastOpen => SocketOption::FastOpen(least(0)?),
        OptionName::FastOpenWithoutCookie => SocketOption::FastOpenWithoutCookie(is_on),
        OptionName::FastOpenConnect if !(0..=1).contains(&number) => {
            return Err(Errno(libc::EINVAL));
        }
        OptionName::FastOpenConnect => SocketOption::FastOpenConnect(is_on),
        OptionName::Broadcast => SocketOption::Broadcast(is_on),
        // No number stands for it.
        OptionName::Ecn | OptionName::CongestionControl => {
            return Err(Errno(libc::ENOPROTOOPT));
        }
        // No number leads there.
        OptionName::PathProbing => return Err(Errno(libc::ENOPROTOOPT)),
    };
    Ok(sockets.set_option(socket, option)?)
}

pub(crate) fn get(
    sockets: &mut Sockets,
    socket: Socket,
    (level, name): (i32, i32),
) -> Result<Vec<u8>, Errno> {
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
        let error = sockets.take_error(socket)?;
        let number = error.map_or(0, |error| Errno::from(error).0);
        return Ok(number.to_ne_bytes().to_vec());
    }
    let bounded = |number: u128| i32::try_from(number).unwrap_or(i32::MAX);
    let number = match sockets.option(socket, OptionName::from_numbers(level, name)?)? {
        SocketOption::ReuseAddress(on)
        | SocketOption::NoDelay(on)
        | SocketOption::Cork(on)
        | SocketOption::KeepAlive(on)
        | SocketOption::Broadcast(on)
        | SocketOption::FastOpenWithoutCookie(on)
        | SocketOption::BindWithoutPort(on)
        | SocketOption::FastOpenConnect(on) => i32::from(on),
        SocketOption::MaximumSegment(bytes) => i32::from(bytes),
        // As Linux does, which takes as much again for its own records.
        SocketOption::ReceiveBuffer(bytes) | SocketOption::SendBuffer(bytes) => {
            bounded(2 * u128::from(bytes))
        }
        SocketOption::LocalPorts(first, last) => i32::from(first) | i32::from(last) << 16,
        SocketOption::NotSentLowWater(bytes) => bytes as i32,
        SocketOption::PathMtuDiscovery(choice) => choice as i32,
        SocketOption::FastOpen(pending) => bounded(pending.into()),
        SocketOption::KeepIdle(time) | SocketOption::KeepInterval(time) => {
            bounded(time.as_secs().into())
        }
        SocketOption::KeepCount(probes) => i32::from(probes),
        SocketOption::UserTimeout(time) => bounded(time.unwrap_or_default().as_millis()),
        SocketOption::TimeToLive(hops) => i32::from(hops),
        SocketOption::DifferentiatedServices(point) => i32::from(point) << 2,
        SocketOption::Ecn(_) | SocketOption::CongestionControl(_) => {
            return Err(Errno(libc::ENOPROTOOPT));
        }
        SocketOption::PathProbing(_) => return Err(Errno(libc::ENOPROTOOPT)),
        SocketOption::Linger(time) => {
            let on = i32::from(time.is_some()).to_ne_bytes();
            let time = bounded(time.unwrap_or_default().as_secs().into()).to_ne_bytes();
            return Ok([on, time].concat());
        }
    };
    Ok(number.to_ne_bytes().to_vec())
}
