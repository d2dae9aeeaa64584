//! Bounded first-in first-out rings between processors.
//!
//! [`spsc`] joins one producer to one consumer, [`mpsc`] many to one. Both take all their memory when they are made,
//! hold exactly the number of items asked for, never wait, and move runs of items for the price of one: the line
//! that carries "how far" crosses between processors once per run, not once per item.
//!
//! A full ring hands the items back; what becomes of them is the caller's full rule. Items left in a ring are dropped with
//! its last handle.
//!
//! A consumer that sleeps announces it, looks at the ring once more and then sleeps ([`Parker`](crate::parker::Parker)); a
//! producer pushes and then calls `unpark`.

pub mod mpsc;
pub mod spsc;
