//! The words for signals without data: addresses, priorities, RSTs, `MP_FASTCLOSE`.

use std::net::IpAddr;

use anabranch_wire::crypto::add_addr_hmac;
use anabranch_wire::{AddAddr, MpTcpRst, MptcpOption, RemoveAddr};

/// Parses identifier, address and port, as in `5,10.2.0.2,81`.
fn announced(value: &str) -> (u8, IpAddr, Option<u16>) {
    let mut parts = value.split(',');
    let id = parts.next().and_then(|id| id.parse().ok()).expect("an identifier");
    let address = parts.next().and_then(|a| a.parse().ok()).expect("an address");
    (id, address, parts.next().map(|port| port.parse().expect("a port")))
}

/// Returns the options of a line of the peer. `ours` and `theirs` are the keys.
pub(super) fn spoken(text: &str, ours: u64, theirs: u64) -> Vec<MptcpOption> {
    let forged = u64::from(text.split_whitespace().any(|word| word == "forged"));
    let mut options = Vec::new();
    for word in text.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        options.push(match key {
            "fastclose" => MptcpOption::FastClose { key: ours ^ forged },
            "prio" => MptcpOption::Prio { backup: value == "B" },
            "rst" => {
                let (reason, transient) = value.split_once(',').unwrap_or((value, ""));
                let reason = reason.parse().expect("a reason");
                MptcpOption::TcpRst(MpTcpRst { transient: transient == "T", reason })
            }
            "add" | "echo" => {
                let (address_id, address, port) = announced(value);
                let hmac = add_addr_hmac(theirs, ours, address_id, address, port) ^ forged;
                let hmac = (key == "add").then_some(hmac);
                MptcpOption::AddAddr(AddAddr { address_id, address, port, hmac })
            }
            "remove" => {
                let ids: Vec<u8> = value.split(',').map(|id| id.parse().expect("an id")).collect();
                MptcpOption::RemoveAddr(RemoveAddr::new(&ids).expect("one to eight"))
            }
            _ => continue,
        });
    }
    options
}

/// Describes an option of ours as a word. Verifies keys and HMACs.
pub(super) fn heard(option: &MptcpOption, ours: u64, theirs: u64) -> String {
    let right = |good: bool, word: String| if good { word } else { format!("WRONG-{word}") };
    match *option {
        MptcpOption::FastClose { key } => right(key == theirs, "fastclose".to_owned()),
        MptcpOption::Prio { backup } => format!("prio={}", if backup { "B" } else { "0" }),
        MptcpOption::AddAddr(AddAddr { address_id, address, port, hmac }) => {
            let port_word = port.map_or(String::new(), |port| format!(",{port}"));
            let what = format!("{address_id},{address}{port_word}");
            let expected = add_addr_hmac(ours, theirs, address_id, address, port);
            match hmac {
                None => format!("echo={what}"),
                Some(hmac) => right(hmac == expected, format!("add={what}")),
            }
        }
        MptcpOption::RemoveAddr(remove) => {
            let ids: Vec<String> = remove.ids().iter().map(u8::to_string).collect();
            format!("remove={}", ids.join(","))
        }
        other => format!("{other:?}").replace(' ', ""),
    }
}
