//! The use of the forty bytes of options. The unit tests of `subflow/options.rs` check all combinations.

use anabranch_mptcp::{Announcement, Config};
use anabranch_wire::MptcpOption;

use crate::dialect::{Script, config};

#[test]
fn the_third_packets_option_goes_before_sack() {
    let mut s = Script::multipath_client(config(), 1);
    // A mapping without a DATA_ACK does not show that the keys have arrived, so they are sent again. They
    // leave 40 - 12 - 20 = 8 bytes, and a SACK block needs 12.
    s.peer(100, ". 101:201 ack=1 map=100+100@101");
    let answer = s.us(100, ". 1:1 ack=1 mpc-keys");
    assert!(answer.sack.is_empty() && answer.dss.is_none());
    assert_eq!(answer.options_len(), 32);
    s.peer(110, ". 1:101 ack=1 dack8=0 map=0+100@1");
    s.us(110, ". ack=201 dack8=200");
}

#[test]
fn a_signal_goes_before_sack_and_an_announcement_before_all() {
    let two = [(5, "2001:db8::5", Some(81)), (6, "10.2.0.1", None)];
    let announce = two.map(|(address_id, address, port)| Announcement {
        address_id,
        address: address.parse().expect("an address"),
        port,
    });
    let mut s = Script::multipath(Config { announce: announce.to_vec(), ..config() }, 50);
    // Identifier, IPv6 address, port and HMAC need 30 bytes. 12 bytes of timestamps would not fit.
    let add = s.us(50, ". 1:1 ack=1 add=5,2001:db8::5,81");
    assert!(add.timestamps.is_none() && add.dss.is_none());
    assert_eq!(add.options_len(), 32);
    s.peer(60, ". ack=1 dack4=0 echo=5,2001:db8::5,81");
    let add = s.us(60, ". add=6,10.2.0.1");
    assert!(add.timestamps.is_some() && add.options_len() == 28);
    s.peer(70, ". ack=1 dack4=0 echo=6,10.2.0.1");
    // Three blocks wait. 40 - 12 - 12 (DSS) leave space for one, and with two signals for none.
    for (from, to) in [(101, 201), (301, 401), (501, 601)] {
        s.peer(100, &format!(". {from}:{to} ack=1 dack4=0 map={}+100@{from}", from - 1));
    }
    s.us(100, ". dack8=0 sack=101:201");
    s.us(100, ". dack8=0 sack=301:401");
    s.us(100, ". dack8=0 sack=501:601");
    let now = s.now;
    s.connection().set_backup(now, [10, 1, 0, 1].into(), true);
    s.connection().handle_address_removed(now, [10, 2, 0, 1].into());
    let told = s.us(100, ". dack8=0 prio=B remove=6");
    assert!(told.sack.is_empty() && told.options_len() == 32);
}

#[test]
fn a_data_fin_makes_room_for_a_signal_and_is_repeated() {
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.us(100, ". dack8=100");
    s.shutdown(200);
    // 12 bytes of timestamps and 28 of DSS use all 40.
    assert_eq!(s.us(200, ". dack8=100 map=0+1@0 dfin").options_len(), 40);
    let now = s.now;
    s.connection().set_backup(now, [10, 1, 0, 1].into(), true);
    let told = s.us(200, ". dack8=100 prio=B");
    assert_eq!(told.mptcp, [MptcpOption::Prio { backup: true }]);
    assert!(told.dss.is_some_and(|dss| !dss.data_fin && dss.mapping.is_none()));
    s.us(400, ". dack8=100 map=0+1@0 dfin");
}
