//! Threads of a run.

use std::io;
use std::sync::Arc;

use super::{Futex, Ordering, with_world};

/// A thread to be waited for.
#[derive(Debug)]
pub(crate) struct JoinHandle<T> {
    inner: shuttle::thread::JoinHandle<T>,
    /// 1 once the thread has nothing left to do.
    ended: Arc<Futex>,
}

impl<T> JoinHandle<T> {
    /// Waits on a word, so that the run's clock knows who sleeps.
    pub(crate) fn join(self) -> std::thread::Result<T> {
        while !self.is_finished() {
            self.ended.wait(0, None);
        }
        self.inner.join()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.ended.load(Ordering::Acquire) == 1
    }
}

#[derive(Debug, Default)]
pub(crate) struct Builder(shuttle::thread::Builder);

impl Builder {
    pub(crate) fn new() -> Self {
        Builder::default()
    }

    pub(crate) fn name(self, name: String) -> Self {
        Builder(self.0.name(name))
    }

    pub(crate) fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let ended = Arc::new(Futex::new(0));
        let end = End(Arc::clone(&ended));
        with_world(|world| world.awake += 1);
        let inner = self.0.spawn(move || {
            let _end = end;
            body()
        })?;
        Ok(JoinHandle { inner, ended })
    }
}

/// Says that a thread has ended, however that comes about.
struct End(Arc<Futex>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Release);
        self.0.wake_all();
        if let Some(due) = with_world(|world| world.fall_asleep()) {
            let _ = due.send(super::Waited::TimedOut);
        }
    }
}
