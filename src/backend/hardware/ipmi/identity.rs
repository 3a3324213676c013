//! The identity of the machine behind a controller: the GUID that the controller reports, else the
//! serial number in the inventory of its field replaceable units (FRU).

use std::sync::Arc;

use super::program::Session;
use super::{ActError, Identity, Ipmi, NodeDesign, Proof};
use crate::identity::{serial, uuid};

/// Get System GUID, as bytes: what ipmitool makes of them differs between its versions.
const GET_GUID: [&str; 3] = ["raw", "0x06", "0x37"];

impl Ipmi {
    /// Observes whether it is the machine that the document means; mostly by one request.
    pub(super) async fn prove(
        &self,
        session: &Session,
        node: &NodeDesign,
    ) -> Result<(Identity, Proof), ActError> {
        let name = node.name.as_str();
        let designed = node.identity();
        let known = self.identities.known(name).unwrap_or_default();
        let uuids = [&designed.uuid, &known.uuid].map(Option::as_deref);
        let serials = [&designed.serial, &known.serial].map(Option::as_deref);
        let named = |list: &[Option<&str>]| list.iter().any(Option::is_some);
        let mut identity = Identity::default();
        if named(&uuids) || !named(&serials) {
            let said = self.ask_if_known(session, &GET_GUID).await?;
            identity.uuid = said.and_then(|said| guid(&said, &uuids));
        }
        if identity.uuid.is_none() || named(&serials[..1]) {
            let said = self.ask_if_known(session, &["fru", "print", "0"]).await?;
            identity.serial = said.and_then(|said| fru_serial(&said, &serials));
        }
        let proof = self.identities.judge(name, &designed, &identity);
        self.identities.observe(name, &designed, &identity);
        Ok((identity, proof.into_proof()))
    }
}

/// The GUID in the words of ipmitool: 16 bytes. Controllers send them in one of three orders; the one that
/// is expected counts, else that of RFC 4122.
fn guid(said: &str, expected: &[Option<&str>]) -> Option<Arc<str>> {
    let bytes: Option<Vec<u8>> = said
        .split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    let bytes = bytes.filter(|bytes| bytes.len() == 16)?;
    let of = |order: [usize; 16]| {
        let text: String = order
            .iter()
            .map(|at| format!("{:02x}", bytes[*at]))
            .collect();
        uuid(&text)
    };
    let orders = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15],
        [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
    ]
    .map(of);
    let is_expected = |found: &&Option<Arc<str>>| {
        let found = found.as_deref();
        found.is_some() && expected.contains(&found)
    };
    let chosen = orders.iter().find(is_expected);
    chosen.unwrap_or(&orders[0]).clone()
}

/// The serial number in a FRU inventory: the one that is expected, else that of the product, the chassis or
/// the board.
fn fru_serial(said: &str, expected: &[Option<&str>]) -> Option<Arc<str>> {
    let of = |name: &str| {
        let mut lines = said.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
        serial(value)
    };
    let found = ["Product Serial", "Chassis Serial", "Board Serial"].map(of);
    let is_expected = |found: &&Option<Arc<str>>| {
        let found = found.as_deref();
        let same = |wanted: &str| found.is_some_and(|found| found.eq_ignore_ascii_case(wanted));
        expected.iter().flatten().any(|wanted| same(wanted))
    };
    let chosen = found.iter().find(is_expected);
    chosen
        .cloned()
        .unwrap_or_else(|| found.iter().flatten().next().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_read_in_the_order_that_is_expected_and_a_placeholder_is_none() {
        let said = " 33 22 11 00 55 44 77 66 88 99 aa bb cc dd ee f1\n";
        let plain = "33221100-5544-7766-8899-aabbccddeef1";
        let mixed = "00112233-4455-6677-8899-aabbccddeef1";
        let reversed = "f1eeddcc-bbaa-9988-6677-445500112233";
        assert_eq!(guid(said, &[None]).as_deref(), Some(plain));
        for expected in [plain, mixed, reversed] {
            assert_eq!(
                guid(said, &[None, Some(expected)]).as_deref(),
                Some(expected)
            );
        }
        for none in [
            "00 00",
            &"00 ".repeat(16),
            &"ff ".repeat(16),
            "no bytes",
            "",
        ] {
            assert_eq!(guid(none, &[None]), None, "{none}");
        }
    }

    #[test]
    fn a_serial_number_of_the_inventory_is_that_of_the_product_unless_another_is_expected() {
        let said = " Chassis Serial        : C-7\n Board Mfg : x\n Board Serial : B-7\n Product Serial : 0123456789\n";
        assert_eq!(fru_serial(said, &[None]).as_deref(), Some("C-7"));
        assert_eq!(fru_serial(said, &[Some("b-7")]).as_deref(), Some("B-7"));
        assert_eq!(fru_serial("", &[None]), None);
    }
}
