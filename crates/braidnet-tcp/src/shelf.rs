//! A place for what few connections have at a time.

/// Room for a `T` that takes no memory before something is first put there, and keeps it from then on: who loses segments may do so again.
#[derive(Clone, Debug)]
pub(crate) struct Shelf<T>(Option<Box<Option<T>>>);

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf(None)
    }
}

impl<T> Shelf<T> {
    /// Nothing lies there; the memory for it is taken now if it `is_reserved`.
    pub(crate) fn new(is_reserved: bool) -> Shelf<T> {
        Shelf(is_reserved.then(Box::default))
    }

    /// What lies there.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()?.as_ref()
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()?.as_mut()
    }

    /// Puts it there, in place of what there was.
    pub(crate) fn put(&mut self, thing: T) {
        match &mut self.0 {
            Some(place) => **place = Some(thing),
            None => self.0 = Some(Box::new(Some(thing))),
        }
    }

    /// Takes away what lies there.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.as_deref_mut()?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_once() {
        for is_reserved in [false, true] {
            let mut shelf = Shelf::new(is_reserved);
            assert_eq!(shelf.0.is_some(), is_reserved);
            assert!(shelf.get().is_none() && shelf.take().is_none());
            shelf.put(1);
            let place = shelf.get().map(std::ptr::from_ref);
            shelf.put(2);
            assert_eq!(shelf.get_mut(), Some(&mut 2));
            assert_eq!(shelf.take(), Some(2));
            assert_eq!(shelf.get(), None);
            shelf.put(3);
            assert_eq!(shelf.get().map(std::ptr::from_ref), place);
        }
        assert_eq!(size_of::<Shelf<[u64; 9]>>(), size_of::<usize>());
    }
}
