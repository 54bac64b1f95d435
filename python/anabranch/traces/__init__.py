"""Recordings of links: reading, writing, converting and summarising.

Five formats are known (docs/reference/traces.md): Mahimahi's delivery opportunities, pairs of second and bits
per second, Pensieve's pairs of second and Mb/s, Sabre's JSON, and our own CSV, in which rate, delay and loss
vary together.
"""

from anabranch.traces._doubts import doubts
from anabranch.traces._facts import GAPS, RATES, TIMES, RecordingFacts
from anabranch.traces._read import FORMS, read
from anabranch.traces._trace import MAHIMAHI_BYTES, Step, Trace
from anabranch.traces._write import write

__all__ = [
    "FORMS",
    "GAPS",
    "MAHIMAHI_BYTES",
    "RATES",
    "TIMES",
    "RecordingFacts",
    "Step",
    "Trace",
    "doubts",
    "read",
    "write",
]
