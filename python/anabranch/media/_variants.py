"""Selects the variants of a master playlist that a player chooses from, by the rules of hls.js.

The rules are those of hls.js 1.7 in a Chromium without hardware decoders: `LevelController.onManifestLoaded`,
`filterAndSortMediaOptions` and `getStartCodecTier`. `tests/python/test_hlsjs_playlists.py` compares the
result with hls.js itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anabranch.media._hls import Variant

#: Codecs by the first four characters of their name, with the preference of hls.js: lower is better
#: (`sampleEntryCodesISO`). Codecs that such a Chromium cannot play are listed separately.
_VIDEO = {"avc1": 1.0, "avc3": 1.0, "av01": 0.8, "vp08": 1.0, "vp09": 0.9}
_AUDIO = {"mp4a": 1.0, "opus": 1.0, "Opus": 1.0, "flac": 0.9, "fLaC": 0.9, "FLAC": 0.9}
_UNPLAYED_VIDEO = {"hvc1", "hev1", "dvh1", "dvhe", "dva1", "dvav", "mp4v", "avc2", "avc4"}
_UNPLAYED_AUDIO = {"ac-3", "ec-3", "ac-4", "alac", "dtsc", "dtse", "dtsh", "mha1", "mhm1"}
#: The smallest and largest initial estimate of hls.js, bits per second: `abrEwmaDefaultEstimate` and
#: `abrEwmaDefaultEstimateMax`.
_ESTIMATE_BPS, _MOST_BPS = 500_000, 5_000_000


def chosen(variants: Sequence[Variant]) -> tuple[list[Variant], list[str]]:
    """Return the variants to choose from in order, and notes about the variants that are left out."""
    kept, notes = list(variants), []
    for what, rule in (
        ("have codecs that browsers do not play without hardware", _playable),
        ("have no pictures, and others have", _with_pictures),
        ("repeat another one", _different),
        ("have other codecs than the ones that are played", _of_one_codec_set),
        ("have the BANDWIDTH of another one", _of_different_rates),
    ):
        left = rule(kept)
        if left and len(left) < len(kept):
            names = ", ".join(f"`{one.uri[:60]}`" for one in kept if one not in left)
            notes.append(f"of the variants, {len(kept) - len(left)} {what}, as hls.js has it: {names}")
            kept = left
    return kept, notes


def sound_of(
    variant: Variant, audio: Sequence[tuple[int, dict[str, str]]], *, first: Variant
) -> tuple[int, dict[str, str]]:
    """Return the line and the attributes of the `EXT-X-MEDIA` that is played with a variant.

    It is the default of the group in `AUDIO`, or the group's first. Without `AUDIO`, hls.js selects among the
    members of all groups. Before these, it adds muxed sound if the master playlist's first variant declares
    an audio codec and no `AUDIO` (`onManifestLoaded`, `switchLevel`, `findTrackId`).

    Parameters
    ----------
    variant
        The variant.
    audio
        The `EXT-X-MEDIA` with sound of the master playlist.
    first
        The first variant of the master playlist.

    Returns
    -------
    tuple
        No attributes if the sound is muxed.
    """
    muxed: tuple[int, dict[str, str]] = (0, {})
    group = variant.attributes.get("AUDIO")
    members = [one for one in audio if group in (None, one[1]["GROUP-ID"])]
    has_muxed = any("URI" not in media for _, media in audio)
    declares = bool(_four(first, {*_AUDIO, *_UNPLAYED_AUDIO})) and "AUDIO" not in first.attributes
    if group is None and declares and not has_muxed:
        members.insert(0, muxed)
    members.sort(key=lambda member: member[1].get("DEFAULT") != "YES")
    return members[0] if members else muxed


def _codecs(variant: Variant) -> list[str]:
    """Return the declared codecs."""
    return [name.strip() for name in variant.attributes.get("CODECS", "").split(",") if name.strip()]


def _four(variant: Variant, kinds: Iterable[str]) -> str:
    """Return the first four characters of the first declared codec that is among `kinds`, or nothing."""
    return next((name[:4] for name in _codecs(variant) if name[:4] in kinds), "")


def _codec_set(variant: Variant) -> str:
    """Return the `codecSet` of hls.js: the video codec and the audio codec."""
    parts = _four(variant, {*_VIDEO, *_UNPLAYED_VIDEO}), _four(variant, {*_AUDIO, *_UNPLAYED_AUDIO})
    return ",".join(filter(None, parts))


def _playable(variants: list[Variant]) -> list[Variant]:
    """Return the variants without unplayable codecs."""
    unplayed = {*_UNPLAYED_VIDEO, *_UNPLAYED_AUDIO}
    return [one for one in variants if not any(name[:4] in unplayed for name in _codecs(one))]


def _with_pictures(variants: list[Variant]) -> list[Variant]:
    """Return the variants with pictures, if any has them and an audio codec is declared (hls.js #4881)."""

    def declares(one: Variant) -> bool:
        return bool(_four(one, {*_VIDEO, *_UNPLAYED_VIDEO})) or all(one.size)

    if not any(_four(one, {*_AUDIO, *_UNPLAYED_AUDIO}) for one in variants):
        return variants
    return [one for one in variants if declares(one)]


def _different(variants: list[Variant]) -> list[Variant]:
    """Return each variant once: one with equal attributes is a redundant stream, or differs in its sound."""
    names = ("BANDWIDTH", "RESOLUTION", "FRAME-RATE", "CODECS", "VIDEO-RANGE", "HDCP-LEVEL")
    found: dict[tuple[str | None, ...], Variant] = {}
    for one in variants:
        found.setdefault(tuple(one.attributes.get(name) for name in names), one)
    return list(found.values())


def _preference(codec_set: str) -> float:
    """Return the `codecsSetSelectionPreferenceValue` of hls.js: lower is better."""
    value = 0.0
    for name in codec_set.split(","):
        if name in _VIDEO:
            value = (_VIDEO[name] * 2 + value) / (3 if value else 2)
        else:
            value = (_AUDIO.get(name, 1.0) + value) / (2 if value else 1)
    return value


def _of_one_codec_set(variants: list[Variant]) -> list[Variant]:
    """Return the variants of the codec set that hls.js selects at the start and then keeps."""
    sets: dict[str, list[Variant]] = {}
    for one in sorted(variants, key=_rank):
        if _codec_set(one):
            sets.setdefault(_codec_set(one), []).append(one)
    if not sets:
        return variants
    first = variants[0].bandwidth_bps
    estimate = max(_ESTIMATE_BPS, min(first, _MOST_BPS))
    estimate = max(estimate, min(one.bandwidth_bps for one in variants if _codec_set(one)))
    heights = {name: min(min(one.size) for one in those) for name, those in sets.items()}
    rates = {name: min(one.frame_rate for one in those) for name, those in sets.items()}
    best = ""
    for name, those in sets.items():
        fits = (
            min(one.bandwidth_bps for one in those) <= estimate
            and heights[name] <= max(1080, min(heights.values()))
            and rates[name] <= max(30.0, min(rates.values()))
            and any(one.attributes.get("VIDEO-RANGE", "SDR") == "SDR" for one in those)
        )
        if (fits or len(sets) == 1) and (not best or _preference(name) < _preference(best)):
            best = name
    return sets[best] if best else variants


def _rank(one: Variant) -> tuple[int, float, int]:
    """Return the sort key of hls.js' levels: height, frame rate, mean rate."""
    mean = int(one.attributes.get("AVERAGE-BANDWIDTH", 0)) or one.bandwidth_bps
    return one.size[1], one.frame_rate, mean


def _of_different_rates(variants: list[Variant]) -> list[Variant]:
    """Return one variant for each BANDWIDTH.

    hls.js searches the levels from the highest down and takes the first that fits. Of several levels with
    equal rate it therefore only takes the last one.
    """
    best = {one.bandwidth_bps: one for one in sorted(variants, key=_rank)}
    return [one for one in variants if one is best[one.bandwidth_bps]]
