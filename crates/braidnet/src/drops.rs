//! What is dropped, in the capture.

use braidnet_device::capture::Capture;
use braidnet_stream::DropWatch;

/// Records every packet that a stack drops once more, with the reason, in the capture around its device, which [notes drops](Capture::note_drops): for
/// [`StackConfig::drop_watch`](crate::StackConfig::drop_watch).
///
/// ```
/// use braidnet::device::capture::Capture;
/// use braidnet::device::{Capabilities, memory};
/// use braidnet::{Stack, StackConfig, recording_drops};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("braidnet-doc-drops-{}.pcapng", std::process::id()));
/// let capture = Capture::create(&path, 0)?;
/// capture.note_drops();
/// let (near, _far) = memory::wire(Capabilities::ip(1500), 256);
/// let mut config = StackConfig::new("10.77.0.2".parse()?);
/// config.drop_watch = Some(recording_drops(&capture));
/// let stack = Stack::new(&config, capture.around("near", near))?;
/// # std::fs::remove_file(path)?;
/// # drop(stack);
/// # Ok(())
/// # }
/// ```
pub fn recording_drops(capture: &Capture) -> DropWatch {
    let capture = capture.clone();
    DropWatch::new(move |dropped| {
        capture.dropped(dropped.trace.address(), (dropped.module, dropped.reason));
    })
}
