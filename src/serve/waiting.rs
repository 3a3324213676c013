//! Connections that have sent no request yet, by address: so many at most, and one more closes the oldest of them.
//!
//! A caller who opens connections and sends nothing takes no places from other callers, and none from its own requests that
//! are sent at once, such as those of a health check.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::threads::lock;

/// The share of all connections that may wait from one address: one in so many.
const SHARE: usize = 8;

type Places = Mutex<HashMap<IpAddr, VecDeque<Arc<Notify>>>>;

/// All connections that have sent no request yet.
#[derive(Debug)]
pub(super) struct Waiting {
    most: usize,
    places: Places,
}

/// A connection that has sent no request yet, until it is heard or dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    waiting: Arc<Waiting>,
    address: IpAddr,
    closed: Arc<Notify>,
}

impl Waiting {
    /// Of a service with so many connections at most.
    pub(super) fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self {
            most: (connections / SHARE).max(1),
            places: Mutex::default(),
        })
    }

    /// Takes a connection in; the oldest of its address is closed if there are too many.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Ticket {
        let address = network(address);
        let closed = Arc::new(Notify::new());
        let mut places = lock(&self.places);
        let list = places.entry(address).or_default();
        list.push_back(closed.clone());
        if list.len() > self.most
            && let Some(oldest) = list.pop_front()
        {
            oldest.notify_one();
        }
        Ticket {
            waiting: self.clone(),
            address,
            closed,
        }
    }
}

impl Ticket {
    /// Waits until a newer connection has taken its place; for ever, once it was heard.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Gives its place back: a request has come.
    pub(super) fn heard(&self) {
        let mut places = lock(&self.waiting.places);
        if let Some(list) = places.get_mut(&self.address) {
            list.retain(|each| !Arc::ptr_eq(each, &self.closed));
            if list.is_empty() {
                places.remove(&self.address);
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.heard();
    }
}

/// The part of an address that a caller cannot choose: of IPv6 the first half.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_closed(ticket: &Ticket) -> bool {
        use std::pin::pin;
        use std::task::{Context, Poll, Waker};
        let closed = pin!(ticket.closed());
        closed.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn the_oldest_connection_of_an_address_makes_room_and_no_other() {
        let waiting = Waiting::new(24);
        let enter = |address: &str| waiting.enter(address.parse().unwrap());
        let other = enter("10.0.0.2");
        let first = enter("10.0.0.1");
        let heard = enter("10.0.0.1");
        heard.heard();
        let more: Vec<Ticket> = (0..3).map(|_| enter("::ffff:10.0.0.1")).collect();
        assert!(is_closed(&first));
        for ticket in more.iter().chain([&heard, &other]) {
            assert!(!is_closed(ticket), "{ticket:?}");
        }
        let old = enter("fd00::1");
        let _rest: Vec<Ticket> = (2..5).map(|host| enter(&format!("fd00::{host}"))).collect();
        assert!(is_closed(&old));
        assert!(!is_closed(&enter("fd00:0:0:1::1")));
        drop((other, first, heard, more, old, _rest));
        assert!(lock(&waiting.places).is_empty());
    }
}
