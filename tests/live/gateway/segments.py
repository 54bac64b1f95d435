"""A client with hand-written segments, against the gateway and against this host's kernel."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import select
import socket
import struct
import threading
import time

from uplinks import HUNG_S, PORT, Origin, checksum

from anabranch.live.testbed import inside

FIN, SYN, RST, ACK = 1, 2, 4, 16
MPTCP_OPTION = 30
#: The address at which the kernel serves for comparison with the gateway.
KERNEL_V4 = "10.77.1.1"
#: The network of the hand-written clients.
OWN_NET = "10.77.50"
MPTCP = 262
_TUN = struct.pack("16sH22x", b"byhand0", 1 | 0x1000)
_SETIFF = 0x400454CA
#: How long a client waits for an answer that may not arrive, s.
SILENCE_S = 0.15


class KernelOrigin(Origin):
    """A server on the host's kernel that replaces the gateway and its origin."""

    def __init__(self, space, talk):
        self.talk, self.heard, self.faults, self.accepted = talk, [], [], 0
        self._listener = space.socket(protocol=MPTCP)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((KERNEL_V4, PORT))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()


class ByHand:
    """A TUN device in the client's namespace that sends hand-written packets."""

    def __init__(self, lab):
        with inside(lab.client.name):
            self._device = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(self._device, _SETIFF, _TUN)
        lab.client.run("ip link set byhand0 up")
        lab.client.run("sysctl -qw net.ipv4.ip_forward=1")
        lab.client.run(f"ip route add {OWN_NET}.0/24 dev byhand0")
        lab.host.run(f"ip route add {OWN_NET}.0/24 via 10.77.1.2 dev up1")
        self._waiting = []

    def close(self):
        os.close(self._device)

    def send(self, packet):
        os.write(self._device, packet)

    def read(self, port, seconds):
        """Return the next segment to a port; None if none arrives in time."""
        until = time.monotonic() + seconds
        while True:
            for at, segment in enumerate(self._waiting):
                if segment["to"] == port:
                    return self._waiting.pop(at)
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._device], [], [], left)[0]:
                return None
            packet = os.read(self._device, 65536)
            if packet[0] >> 4 == 4 and packet[9] == 6:
                self._waiting.append(_segment(packet))


def _segment(packet):
    """Parse the fields of a TCP segment over IPv4."""
    tcp = packet[(packet[0] & 15) * 4 : struct.unpack("!H", packet[2:4])[0]]
    _, to, seq, ack, offset, flags, window = struct.unpack("!HHIIBBH", tcp[:16])
    length = (offset >> 4) * 4
    return {
        "to": to,
        "seq": seq,
        "ack": ack,
        "flags": flags,
        "window": window,
        "options": dict(_options(tcp[20:length])),
        "signals": [body[0] & 0xF0 for kind, body in _options(tcp[20:length]) if kind == MPTCP_OPTION],
        "payload": tcp[length:],
    }


def _options(data):
    while data and data[0] != 0:
        if data[0] == 1:
            data = data[1:]
            continue
        yield data[0], data[2 : data[1]]
        data = data[data[1] :]


class Talker:
    """One hand-written connection."""

    def __init__(self, device, address, window=65_535):
        self.device, self.address, self.window = device, address, window
        self.source = f"{OWN_NET}.{random.randrange(1, 255)}"
        self.port = random.randrange(1024, 65_000)
        self.first = self.seq = random.getrandbits(32)
        self.ack, self.key, self.keys = 0, random.getrandbits(64) | 1, None

    def say(self, flags, options=b"", payload=b"", *, ahead=0, ack=None, window=None):
        """Send a segment whose sequence number is `ahead` of the end of the last one."""
        options += b"\1" * (-len(options) % 4)
        ack = (self.ack if ack is None else ack) if flags & ACK else 0
        window = self.window if window is None else window
        offset = 5 + len(options) // 4 << 4
        seq = self.seq + ahead & 0xFFFFFFFF
        head = struct.pack("!HHIIBBHHH", self.port, PORT, seq, ack & 0xFFFFFFFF, offset, flags, window, 0, 0)
        tcp = head + options + payload
        ends = socket.inet_aton(self.source) + socket.inet_aton(self.address)
        odd = b"\0" * (len(tcp) % 2)
        total = checksum(ends + struct.pack("!HH", 6, len(tcp)) + tcp + odd)
        tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0) + ends
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        self.device.send(ip + tcp)

    def hear(self, seconds=HUNG_S):
        """Return the next segment from the peer."""
        return self.device.read(self.port, seconds)

    def all(self, seconds=SILENCE_S):
        """Return the peer's segments until none has arrived for `seconds`."""
        return list(iter(lambda: self.hear(seconds), None))

    def open(self, *, multipath=False, options=b"\2\4\5\xb4"):
        """Complete the handshake. MPTCP segments carry no timestamps and no SACK."""
        capable = bytes([MPTCP_OPTION, 4, 1, 1]) if multipath else b""
        self.say(SYN, options + capable)
        answer = self.hear()
        assert answer is not None
        assert answer["flags"] == SYN | ACK
        self.seq, self.ack = self.first + 1 & 0xFFFFFFFF, answer["seq"] + 1 & 0xFFFFFFFF
        third = b""
        if multipath:
            other = struct.unpack("!Q", answer["options"][MPTCP_OPTION][2:10])[0]
            self.keys = (self.key, other)
            third = bytes([MPTCP_OPTION, 20, 1, 1]) + struct.pack("!QQ", *self.keys)
        self.say(ACK, third)
        return self

    def position(self, whose, offset):
        """Return the data sequence number of an offset in the stream of one side's key."""
        first = int.from_bytes(hashlib.sha256(struct.pack("!Q", self.keys[whose])).digest()[-8:], "big")
        return first + 1 + offset & (1 << 64) - 1

    def data(self, payload, *, heard=0, said=0, **more):
        """Send data in order. With MPTCP, `heard` and `said` are the bytes received and sent before."""
        signal = b""
        if self.keys:
            place = struct.pack("!QQ", self.position(1, heard), self.position(0, said))
            where = struct.pack("!IH", self.seq - self.first & 0xFFFFFFFF, len(payload))
            signal = bytes([MPTCP_OPTION, 26, 0x20, 0x0F]) + place + where
        self.say(ACK, signal, payload, **more)
        self.seq = self.seq + len(payload) & 0xFFFFFFFF

    def acknowledge(self, heard):
        """Acknowledge the first `heard` bytes of the peer's MPTCP stream."""
        self.say(ACK, bytes([MPTCP_OPTION, 12, 0x20, 0x03]) + struct.pack("!Q", self.position(1, heard)))

    def heard_up_to(self, segment):
        """Move the acknowledgement to the end of a segment's payload."""
        self.ack = segment["seq"] + len(segment["payload"]) & 0xFFFFFFFF


def brief(segment):
    """Return the flags, payload length and MPTCP subtype of a segment."""
    letters = "".join(
        name for bit, name in ((SYN, "S"), (FIN, "F"), (RST, "R"), (ACK, "A")) if segment["flags"] & bit
    )
    option = segment["options"].get(MPTCP_OPTION)
    return letters, len(segment["payload"]), option[0] >> 4 if option else None
