"""The gateway's goodput during a flood of SYNs: `make bench-flood`, as root.

A client downloads repeatedly through the gateway, in four ways in turn:

- alone;
- while the requested rate of SYNs is sent to an unused address, so that the machine must send and forward
  them;
- while the SYNs are sent to the gateway, whose backlog they fill;
- the same, but the host has the rules that `--setup-print --syn-limit` prints.

The goodput of the second way relative to the first is the machine's cost of the flood. The goodput of the
last two relative to the second is the gateway's cost.

`--line MBIT` limits the rate of the client's line, as on a real server. The test then shows whether the
flood takes capacity that the download needs, and not how processes share two processors.

If other programs keep the machine busy, goodputs mean little. The gateway's processor time minus that of the
same download without a flood is the cost of the SYNs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "live" / "gateway"))

import uplinks
from floods import poured
from throughput import build_examples, fetch, say, serving

from anabranch.live import host_setup
from anabranch.live.testbed import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

#: An address whose packets the host forwards to a device that discards them.
NOBODY = "10.77.9.99"
BACKLOG = 256
#: The SYNs per second from one source that the host's rules let pass.
LIMIT = 20


def counted(running: uplinks.Gateway) -> dict[str, int]:
    """Return the numbers of SYNs that the gateway accepted and refused, and of other packets."""
    metrics = running.metrics()
    return {
        "taken": metrics['packets_total{direction="from_client"}'],
        "shed": metrics['refused_total{reason="flood"}'],
        "answered": metrics['packets_total{direction="to_client"}'],
    }


def on_processor(running: uplinks.Gateway) -> float:
    """Return the processor time of the gateway's main thread, which writes no log, seconds."""
    # `ip netns exec` replaces itself by the program that it starts, so the process ID is the same.
    text = Path(f"/proc/{running.process.pid}/schedstat").read_text(encoding="ascii")
    return int(text.split()[0]) / 1e9


@contextmanager
def nowhere(bench: uplinks.Lab) -> Iterator[None]:
    """Make the host forward packets for an unused address to a device whose other end is not read."""
    bench.host.run("ip link add nowhere type veth peer name beyond")
    for device in ("nowhere", "beyond"):
        bench.host.run(f"ip link set {device} up")
    bench.host.run(f"ip route add {NOBODY}/32 dev nowhere")
    # The address is not that of the other end, which therefore drops the packets.
    bench.host.run(f"ip neigh add {NOBODY} lladdr 02:00:00:00:00:99 dev nowhere")
    yield
    bench.host.run("ip link del nowhere")


@contextmanager
def limited(bench: uplinks.Lab) -> Iterator[None]:
    """Make the host drop the SYNs of a source that sends too many, as an administrator may configure it."""
    rules = host_setup.flood_rules("anabranch0", LIMIT)
    bench.host.run("nft -f -", input="\n".join(rules))
    yield
    bench.host.run(f"nft delete {rules[0]}")


def transfer(bench: uplinks.Lab, size: int) -> float:
    """Download `size` bytes over one MPTCP connection. Return Gb/s, including start and handshake."""
    what = ("down", "1", str(size))
    with serving(bench.host, f"127.0.0.1:{uplinks.ORIGIN_PORT}", "tcp", *what):
        began = time.perf_counter()
        fetch(bench.client, f"{uplinks.V4}:{uplinks.PORT}", "mptcp", *what)
        return size * 8 / (time.perf_counter() - began) / 1e9


def conclude(ways: dict[str, list[float]], costs: dict[str, list[float]], rate: int) -> None:
    """Print the result of each way."""
    middle = {name: statistics.median(rates) for name, rates in ways.items()}
    for name, goodput in middle.items():
        say(f"{name:24} {goodput:6.2f} Gb/s  {goodput / middle['alone']:6.1%} of alone")
    for name, each in costs.items():
        cost_us = statistics.median(each)
        say(
            f"{name}: {middle[name] / middle['flood to nobody']:.1%} of what a flood to nobody leaves; "
            f"a SYN costs the gateway {cost_us:.2f} us, "
            f"{cost_us * rate / 1e6:.1%} of a processor at {rate:,} a second"
        )


def main() -> int:
    """Measure in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=800, help="what each download carries")
    parser.add_argument("--rate", type=int, default=50_000, help="SYNs a second")
    parser.add_argument("--sources", type=int, default=250, help="addresses that they come from")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--line", type=int, metavar="MBIT", help="what the client's line carries (default: any)"
    )
    given = parser.parse_args()
    lacks = missing()
    if lacks is not None:
        sys.stderr.write(f"bench-flood: skipped: {lacks}\n")
        return 4
    build_examples()
    size = given.megabytes * 1_000_000
    floods = (
        ("flood to nobody", NOBODY, nullcontext),
        ("flood to the gateway", uplinks.V4, nullcontext),
        ("flood, and a limit", uplinks.V4, limited),
    )
    unflooded: list[float] = []
    costs: dict[str, list[float]] = {name: [] for name, address, _ in floods if address != NOBODY}
    ways: dict[str, list[float]] = {"alone": [], **{name: [] for name, _, _ in floods}}
    bench = uplinks.Lab()
    try:
        if given.line is not None:
            bench.host.run(f"tc qdisc add dev up1 root tbf rate {given.line}mbit burst 256kb latency 50ms")
        with bench.gateway("--backlog", str(BACKLOG)) as running, nowhere(bench):
            transfer(bench, size // 4)
            for turn in range(given.rounds):
                spent = on_processor(running)
                ways["alone"].append(transfer(bench, size))
                unflooded.append(on_processor(running) - spent)
                for name, address, rules in floods:
                    with (
                        rules(*([bench] if rules is limited else [])),
                        poured(bench, address, given.sources, given.rate) as sent,
                    ):
                        time.sleep(0.5)
                        before, began, spent = counted(running), time.perf_counter(), on_processor(running)
                        ways[name].append(transfer(bench, size))
                        lasted = time.perf_counter() - began
                        spent, after = on_processor(running) - spent, counted(running)
                        half_open = running.metrics()["half_open_connections"]
                    rates = {key: (after[key] - before[key]) / lasted for key in after}
                    if name in costs:
                        beyond = spent - statistics.median(unflooded)
                        costs[name].append(beyond / (sent[0] * lasted) * 1e6)
                    told = ", ".join(f"{rate:,.0f} {key}" for key, rate in rates.items())
                    say(
                        f"round {turn + 1}: {name}: {sent[0]:,.0f} SYN/s sent; packets/s: {told}; "
                        f"{half_open} half open; {ways[name][-1]:.2f} Gb/s"
                    )
    finally:
        bench.close()
    conclude(ways, costs, given.rate)
    return 0


if __name__ == "__main__":
    sys.exit(main())
