//! The client: a thread of its own for each connection, kernel sockets.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::thread;
use std::time::Duration;

use over_tun::load::{Load, Measured};

/// Measures, and prints what the load says.
///
/// # Errors
/// If the server cannot be reached or goes away.
pub fn measure(to: IpAddr, time: Duration, connections: usize, load: Load) -> io::Result<()> {
    let work = || {
        let stream = TcpStream::connect((to, load.port()))?;
        stream.set_nodelay(matches!(load, Load::Echo))?;
        load.run(stream, time)
    };
    let results: Vec<io::Result<Measured>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..connections).map(|_| scope.spawn(work)).collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("clients do not panic"))
            .collect()
    });
    let mut sum = Measured::default();
    for result in results {
        sum.add(result?);
    }
    sum.print();
    Ok(())
}
