"""The columns of the laboratory's tables: `#` is the number of a path, from 1."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anabranch.errors import Fault, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The columns of a path: the required ones and the optional ones.
LEG = ("rtt#_ms", "bw#_mbps", "loss#")
LEG_MORE = ("loss_up#", "queue#_packets")
#: The average lateness with which the emulator delivered a path's packets, in microseconds.
LATENESS = "emu#_late_mean_us"
#: The columns with the figures of a subflow.
SUBFLOW = ("sf#_bytes_acked", "sf#_retrans_segs", "sf#_cwnd_mean", "sf#_cwnd_median", "sf#_srtt_mean_ms")
#: The columns with a run's setting and figures.
RUN = ("run", "case", "proto", "cc", "trial", "pace", "dur", "goodput_mbps", "max_read_gap_s")
RUN_MORE = ("events", "tcp_rmem_max", "sched", "queue_p", "seed")
FILM = ("stalls",)
#: The columns of a handover, in a separate table or in a table of runs.
CUT = ("how", "mode", "cut_at_s", "resume_after_cut_s")
HANDOFF = (
    "run", "how", "mode", "cc", "trial", "cut_at_s", "resume_after_cut_s", "goodput_mbps",
    "sf1_retrans_segs", "sf2_retrans_segs",
)  # fmt: skip
HANDOFF_MORE = ("case", "dur", "pace", "max_read_gap_s")
PLAYED = ("startup_s", "rebuffer_count", "rebuffer_s", "lost_pictures", "displayed_pictures")
VLC = ("run", "case", "proto", "cc", "trial", "file", *PLAYED)
VLC_MORE = ("dur", "read_bytes")

# Further columns that the laboratory writes and that are not compared: counters of the emulator and its host,
# and values that repeat others. A minimum RTT is only the path's delay, in the kernel and in the simulator.
_EMULATOR = (
    "emu#_in_p", "emu#_out_p", "emu#_qdrop", "emu#_rndloss", "emu#_up_rndloss", LATENESS,
    "emu#_late_p99_us", "emu#_late_max_us", "emu_late_max_us", "emu_cpu_frac", "host_cpu_busy", "host_steal",
    "wall_s",
)  # fmt: skip
_SAID_AGAIN = (
    "goodput_10_end_mbps", "bytes", "connect_s", "max_gap_at_s", "mp_bytes_retrans", "mp_fallback",
    "n_subflows", "sf#_bytes_sent", "sf#_bytes_retrans", "sf#_data_segs_out", "sf#_min_rtt_ms",
    "sf#_rwnd_limited_us", "sf#_sndbuf_limited_us", "sf#_busy_us", "stall_start_s", "stall_s",
    "all_gaps_after_cut", "srv_RmAddr", "srv_SubflowStale", "rto", "tlp", "tlp_recovery", "spurious_rto",
    "sack_recovery", "fast_retrans", "slowstart_retrans", "hystart_train", "hystart_delay", "lost_retrans",
    "undo", "dsack_rx", "mp_reinjections", "penalised", "rwnd_blocked", "opp_reinj_rwnd", "opp_reinj_sndbuf",
    "rcv_collapsed", "rcv_pruned",
)  # fmt: skip
_SAID_BY_VLC = (
    "late_pcr_lines", "late_picture_lines", "lost_abuffers", "played_abuffers", "demux_discontinuity",
    "demux_corrupted", "time_ms", "wall_s",
)  # fmt: skip

#: The columns that each table may have.
OF_CASES = ("case", *LEG, *LEG_MORE)
OF_RUNS = (*RUN, *RUN_MORE, *LEG, *LEG_MORE, *SUBFLOW, *CUT, *_EMULATOR, *_SAID_AGAIN)
OF_FILMS = (*OF_RUNS, *FILM)
OF_HANDOFFS = (*HANDOFF, *HANDOFF_MORE, "seed", *SUBFLOW, *_EMULATOR, *_SAID_AGAIN)
OF_VLC = (*VLC, *VLC_MORE, *_SAID_BY_VLC)

_NUMBER = re.compile(r"\d+")


def numbered(names: Iterable[str], number: int) -> tuple[str, ...]:
    """Return columns of one path."""
    return tuple(name.replace("#", str(number)) for name in names)


def unknown(header: Sequence[str], known: Sequence[str], where: str) -> list[Fault]:
    """Return a fault for each unknown column, with the nearest known one."""
    names = set(known)
    faults = []
    for column in header:
        number = _NUMBER.search(column)
        if column in names or _NUMBER.sub("#", column, count=1) in names:
            continue
        names_here = [name.replace("#", number.group() if number else "1") for name in known]
        message = f"unknown column: `{column}`"
        close = nearest(column, names_here)
        hint = f"did you mean `{close}`?" if close else "groundtruth/README.md lists the columns of tables"
        faults.append(Fault(message=message, where=where, line=1, key=column, hint=hint))
    return faults
