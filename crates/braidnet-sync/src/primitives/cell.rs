//! A cell that no model looks into.

/// A cell entered through closures, so that the model checker can see when it is entered and left.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T: ?Sized>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, enter: impl FnOnce(*mut T) -> R) -> R {
        enter(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, enter: impl FnOnce(*const T) -> R) -> R {
        enter(self.0.get())
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}
