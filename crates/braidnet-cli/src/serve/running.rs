//! A running server: from the device to the end.

use super::report::{self, Status};
use super::settings::{Setup, What};
use crate::failure::Failure;
use braidnet::device::capture::Capture;
use braidnet::device::impair::Impairment;
use braidnet::device::qemu::FRAME_MAX;
use braidnet::device::several::Several;
use braidnet::device::{Device, DropReason, Offloads};
use braidnet::tcp::Setting;
use braidnet::{Server, ServerBuilder, StackConfig, StackError, recording_drops};
use braidnet_service::http::{FileThreads, Files};
use braidnet_service::meter::Meter;
use braidnet_service::{Chargen, Daytime, Discard, Echo};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Threads that read files for HTTP.
const FILE_THREADS: usize = 2;
/// How often the status is shown, and looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often a draining server is looked at.
const DRAIN_TICK: Duration = Duration::from_millis(10);
/// How long resets may take to leave.
const FAREWELL: Duration = Duration::from_millis(200);

/// Serves until a signal comes.
pub fn run(setup: Setup) -> Result<(), Failure> {
    // From here on Ctrl-C ends the run in order, whatever has been made by then.
    let signals = watch_signals()?;
    let running = Serving::start(&setup, &signals)?;
    let Serving { names, title, .. } = &running;
    let devices = (running.queues, &running.offloads[..]);
    report::started(&setup, names, title, devices);
    let ended = running.watch(&signals);
    running.end(&setup, &signals)?;
    ended
}

struct Serving {
    server: Server,
    /// Only where there is HTTP.
    files: Option<FileThreads>,
    meter: Meter,
    capture: Option<Capture>,
    impairment: Option<Impairment>,
    names: Vec<String>,
    title: String,
    queues: usize,
    /// By device.
    offloads: Vec<Offloads>,
}

impl Serving {
    fn start(setup: &Setup, signals: &Receiver<i32>) -> Result<Serving, Failure> {
        let files = Files::new();
        let builder = offer(ServerBuilder::new(stack(setup)), setup, &files)?;
        let builder = setup.placing.of(builder);
        let (devices, names, title) = carry(setup, signals)?;
        // A capture empties its file: what will be refused is refused before.
        builder.check(&devices).map_err(refused_stack)?;
        let meter = Meter::new();
        let impairment = (setup.impair.as_ref()).map(|(out, back)| Impairment::new(out, back));
        let capture = (setup.pcap.as_ref()).map(|pcap| match pcap.ring {
            None => Capture::create(&pcap.file, 0),
            Some(ring) => Capture::create_ring(&pcap.file, ring, 0),
        });
        let capture = capture.transpose();
        let capture = capture.map_err(|error| Failure::Runtime(error.to_string()))?;
        let builder = match &capture {
            Some(capture) => {
                capture.note_drops();
                builder.watch_drops(recording_drops(capture))
            }
            None => builder,
        };
        let devices = devices.wrapped(|number, device| {
            let device: Box<dyn Device> = match &impairment {
                Some(impairment) => Box::new(impairment.around(device)),
                None => device,
            };
            let device = meter.around(device);
            match &capture {
                Some(capture) => Box::new(capture.around(&names[number], device)),
                None => Box::new(device),
            }
        });
        let queues = devices.capabilities().queues;
        let offloads = devices.devices().iter().map(|one| one.offloads).collect();
        let server = builder.start(devices).map_err(refused_stack)?;
        let has_http = setup
            .services
            .iter()
            .any(|offer| matches!(offer.what, What::Http(_)));
        let files = if has_http {
            let threads = files.start(FILE_THREADS, &server.jobs());
            Some(threads.map_err(|error| {
                Failure::Runtime(format!("no thread can be made to read files: {error}"))
            })?)
        } else {
            None
        };
        Ok(Serving {
            server,
            files,
            meter,
            capture,
            impairment,
            names,
            title,
            queues,
            offloads,
        })
    }

    /// Shows how it goes until a signal comes or the device is gone.
    fn watch(&self, signals: &Receiver<i32>) -> Result<(), Failure> {
        let mut status = Status::new(&self.meter);
        loop {
            match signals.recv_timeout(TICK) {
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.server.is_broken() {
                // What the processor said when it panicked is above; stopping names it.
                return Ok(());
            }
            if self.server.is_gone() {
                return Err(self.gone());
            }
            status.show(&self.server, &self.meter);
        }
    }

    /// What became of the device.
    fn gone(&self) -> Failure {
        let name = self.names.join(" and ");
        let received = self.meter.received();
        let is_lost =
            (received.drops()).any(|(reason, _)| reason == DropReason::ReceiveFramingLost);
        Failure::Runtime(match is_lost {
            true => format!(
                "{name}: its peer sent a length that no frame has, more than {FRAME_MAX} bytes, and was cut off: it does not frame as qemu does, or has lost its place"
            ),
            false => format!(
                "{name} was removed while it was in use, or its peer has left: start again to make it anew"
            ),
        })
    }

    /// Lets connections finish for a while, resets the rest, and takes everything down. A second signal cuts it short.
    fn end(self, setup: &Setup, signals: &Receiver<i32>) -> Result<(), Failure> {
        if !self.server.is_gone() && !self.server.is_broken() {
            self.server.drain();
            self.wait_for_none(setup.drain, signals);
            self.server.abort_all();
            self.wait_for_none(FAREWELL, signals);
        }
        let Serving {
            server,
            files,
            meter,
            capture,
            impairment,
            ..
        } = self;
        let (counters, open) = (server.counters(), server.connections());
        drop(files);
        let stopped = server.stop();
        report::ended(&counters, &meter, open);
        if let Some(impairment) = impairment {
            report::impaired(&impairment);
        }
        stopped.map_err(|error| {
            Failure::Runtime(format!(
                "{error}; this is a fault of braidnet: please report it"
            ))
        })?;
        let Some(capture) = capture else {
            return Ok(());
        };
        let written = capture.flush();
        report::captured(&capture.seen());
        written.map_err(|error| Failure::Runtime(error.to_string()))
    }

    fn wait_for_none(&self, at_most: Duration, signals: &Receiver<i32>) {
        let until = Instant::now() + at_most;
        while self.server.connections() > 0 && Instant::now() < until {
            if signals.recv_timeout(DRAIN_TICK).is_ok() {
                return;
            }
        }
    }
}

/// Makes the devices, or takes them over; what they are called, each by itself, and all with what there is to be said of them.
fn carry(
    setup: &Setup,
    signals: &Receiver<i32>,
) -> Result<(Several, Vec<String>, String), Failure> {
    let mut carried = Vec::new();
    for attached in &setup.devices {
        let queues = setup.placing.queues;
        carried.push(attached.carrier.carry(attached.host, queues, signals)?);
    }
    let names = carried.iter().map(|carried| carried.name.clone()).collect();
    let titles: Vec<_> = carried
        .iter()
        .map(|carried| carried.title.clone())
        .collect();
    let mut devices = carried.into_iter().map(|carried| carried.device);
    let Some(first) = devices.next() else {
        unreachable!("there is one in any case");
    };
    let several = devices.fold(Several::of(first), Several::and);
    let several = match setup.is_apart {
        true => several.apart(),
        false => several,
    };
    Ok((several, names, titles.join(" and ")))
}

/// A channel that brings the signals that end the run.
fn watch_signals() -> Result<Receiver<i32>, Failure> {
    let refused =
        |error: std::io::Error| Failure::Runtime(format!("signals cannot be watched: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
    let (bring, brought) = channel();
    std::thread::Builder::new()
        .name("braidnet-signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if bring.send(signal).is_err() {
                    return;
                }
            }
        })
        .map_err(refused)?;
    Ok(brought)
}

fn stack(setup: &Setup) -> StackConfig {
    let mut addresses = setup.devices.iter().map(|attached| {
        let own = attached.addresses.iter();
        own.map(|own| (own.address, own.prefix)).collect::<Vec<_>>()
    });
    let first = addresses.next().unwrap_or_default();
    let mut config = StackConfig::new(first[0].0);
    config.addresses = first;
    config.further_addresses = addresses.collect();
    config.routes.clone_from(&setup.routes);
    config.forwards = setup.forwards;
    config.memory_bytes = setup.memory_bytes;
    config.connections = setup.connections;
    config.resolution = setup.resolution;
    config.icmp_errors = setup.icmp_errors;
    config.batch = setup.batch;
    config.tcp.congestion = setup.congestion;
    config.tcp.ecn = setup.ecn;
    config.tcp.path_probing = setup.path_probing;
    config.tcp.time_to_live = setup.ttl;
    config.tcp.differentiated_services = setup.dscp;
    Setting::FastOpen(setup.fast_open).apply(&mut config.tcp);
    // The services send whole messages, whose last bytes are not to wait for company.
    config.tcp.nagle = false;
    config
}

fn offer(
    mut builder: ServerBuilder,
    setup: &Setup,
    files: &Files,
) -> Result<ServerBuilder, Failure> {
    for offer in &setup.services {
        let port = offer.port;
        builder = match &offer.what {
            What::Echo => builder.tcp(port, Echo).udp(port, Echo),
            What::Discard => builder.tcp(port, Discard).udp(port, Discard),
            What::Daytime => builder.tcp(port, Daytime::new()),
            What::Chargen => builder.tcp(port, Chargen),
            What::Http(directory) => {
                let service = files
                    .directory(directory)
                    .map_err(|error| Failure::Runtime(error.to_string()))?;
                builder.tcp(port, service)
            }
        };
    }
    Ok(builder)
}

fn refused_stack(error: StackError) -> Failure {
    match error {
        StackError::Interface(_) | StackError::Buckets(_) | StackError::Plan(_) => {
            Failure::Usage(error.to_string())
        }
        _ => Failure::Runtime(error.to_string()),
    }
}
