"""Recorded links: read, written, converted and summed up.

Four forms are known (docs/reference/traces.md): Mahimahi's delivery opportunities, pairs of second and
bits per second, Sabre's JSON, and a CSV of our own in which rate, delay and loss vary together.
"""

from anabranch.traces._read import FORMS, read
from anabranch.traces._trace import MAHIMAHI_BYTES, Step, Trace
from anabranch.traces._write import write

__all__ = ["FORMS", "MAHIMAHI_BYTES", "Step", "Trace", "read", "write"]
