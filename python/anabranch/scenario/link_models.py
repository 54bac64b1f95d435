"""The tables of models and recordings: `model = "lte"`, `model = { name = "wifi" }`, `trace = "a.csv"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from anabranch.errors import did_you_mean, shown
from anabranch.plugins import module
from anabranch.scenario import units
from anabranch.scenario._base import LimitedRate, Name, PositiveTime, Share, Table, Time, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

Decibels = Annotated[float, quantity(units.decibels)]
Width = Annotated[int, quantity(units.width_mhz)]


#: The rate that TCP may be expected to get from a model, bits a second, for estimates of how long a run may
#: last: below what was measured (docs/concepts/link-model.md).
_LTE_BPS = {"tmobile-driving": 6e6, "att-driving": 2.5e6, "verizon-short": 2.5e6, "ghent": 15e6}
_STARLINK_BPS = {"static": 30e6, "moving": 10e6}
_WIFI_BPS = {"802.11a": 54e6, "802.11g": 54e6, "802.11n": 72e6, "802.11ac": 433e6}
_WIFI_SHARE = 0.2


class LinkModel(Table):
    """A model of a link: its keys, its plan and its name in a report."""

    #: How a report calls it.
    called: ClassVar[str]

    def plan(self, way: str, place: str) -> dict[str, Any]:
        """Return one direction's part of the plan; `place` names the path or link."""
        raise NotImplementedError

    @staticmethod
    def likely_bps(settings: Mapping[str, Any]) -> float:
        """Return what TCP may be expected to get of a model's part of the plan."""
        raise NotImplementedError


class Wifi(LinkModel):
    """An 802.11 station: its two directions share a channel, with others that name the same."""

    name: Literal["wifi"]
    standard: Literal["802.11a", "802.11g", "802.11n", "802.11ac"] = Field(
        default="802.11ac", description="the generation"
    )
    width: Width | None = Field(default=None, description="channel width; default: 80 MHz for ac, else 20")
    streams: Annotated[int, Field(ge=1, le=8)] = Field(default=1, description="spatial streams")
    phy_rate: LimitedRate | None = Field(default=None, description="fastest rate of the radio to be used")
    aggregate: Annotated[int, Field(ge=1, le=64)] = Field(
        default=64,
        description="most frames of an aggregate; 1 switches aggregation off; a and g never aggregate",
    )
    snr: Decibels = Field(default=35.0, description="mean signal to noise ratio")
    fading: Decibels = Field(default=3.0, description="its standard deviation in time")
    fading_memory: PositiveTime = Field(default=500_000_000, description="how fast it forgets")
    channel: Name | None = Field(default=None, description="paths that name the same one share the air")

    called: ClassVar[str] = "802.11"

    def plan(self, way: str, place: str) -> dict[str, Any]:
        """Return an 802.11 station; a channel without a name is its own."""
        del way
        return {
            "channel": f"path {place}" if self.channel is None else f"channel {self.channel}",
            "station": place,
            "standard": self.standard,
            "width_mhz": self.width or module().wifi_width(self.standard),
            "streams": self.streams,
            "phy_bps": self.phy_rate,
            "aggregate": self.aggregate,
            "snr_db": self.snr,
            "fading_db": self.fading,
            "memory_ns": self.fading_memory,
        }

    @staticmethod
    def likely_bps(settings: Mapping[str, Any]) -> float:
        """Return a share of the radio's rate."""
        return float(settings["phy_bps"] or _WIFI_BPS[settings["standard"]]) * _WIFI_SHARE


class Lte(LinkModel):
    """A cellular radio."""

    name: Literal["lte"]
    profile: Literal["tmobile-driving", "att-driving", "verizon-short", "ghent"] = Field(
        default="tmobile-driving", description="where the rate was measured"
    )
    mean: LimitedRate | None = Field(default=None, description="mean rate; default: the profile's own")
    bler: Annotated[Share, Field(lt=1)] = Field(default=0.1, description="share of transmissions that fail")

    called: ClassVar[str] = "LTE"

    def plan(self, way: str, place: str) -> dict[str, Any]:
        """Return one direction of a radio."""
        del place
        return {"direction": way, "profile": self.profile, "mean_bps": self.mean, "bler": self.bler}

    @staticmethod
    def likely_bps(settings: Mapping[str, Any]) -> float:
        """Return half of the mean rate, or what its profile had."""
        return float(settings["mean_bps"] or 2 * _LTE_BPS[settings["profile"]]) / 2


class Starlink(LinkModel):
    """A satellite terminal."""

    name: Literal["starlink"]
    profile: Literal["static", "moving"] = Field(default="static", description="where it was measured")
    mean: LimitedRate | None = Field(
        default=None, description="mean rate from the server; default: the profile's own"
    )
    phase: Annotated[Time, Field(lt=15 * 10**9)] | None = Field(
        default=None, description="how far the start lies in an epoch of 15 s; default: drawn"
    )

    called: ClassVar[str] = "Starlink"

    def plan(self, way: str, place: str) -> dict[str, Any]:
        """Return one direction of a terminal."""
        return {
            "direction": way,
            "terminal": place,
            "profile": self.profile,
            "phase_ns": self.phase,
            "mean_bps": self.mean,
        }

    @staticmethod
    def likely_bps(settings: Mapping[str, Any]) -> float:
        """Return what its profile had, and no more than its mean rate."""
        return float(min(settings["mean_bps"] or 1e9, _STARLINK_BPS[settings["profile"]]))


class Recording(Table):
    """A recording in a file."""

    file: str = Field(description="its path, relative to the scenario file")
    repeat: bool = Field(default=True, description="begin again at its end; false: its last step holds")


#: The models by name.
MODELS: dict[str, type[LinkModel]] = {"wifi": Wifi, "lte": Lte, "starlink": Starlink}

#: Names that stand for a model with a parameter.
SHORT: dict[str, dict[str, Any]] = {
    **{f"wifi-{end}": {"name": "wifi", "standard": f"802.11{end}"} for end in ("a", "g", "n", "ac")},
    **{name: {"name": name} for name in MODELS},
}


def expanded(value: object) -> dict[str, Any] | None:
    """Return a raw model as a table with the name of a class; None when it names none."""
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str) or name not in SHORT:
        return None
    return {**(value if isinstance(value, dict) else {}), **SHORT[name]}


def model_class(value: object) -> type[Table] | None:
    """Return the class of a raw model, if it names one."""
    table = expanded(value)
    return None if table is None else MODELS[table["name"]]


def _model(value: object) -> object:
    """Read a model: a name, or a table with a name and parameters."""
    if isinstance(value, Table):
        return value
    table = expanded(value)
    if table is not None:
        return table
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str):
        hint = 'for example model = "lte", or model = { name = "lte", mean = "20 Mbit/s" }'
        message = "a model is a name, or a table with a `name`"
        raise _fault(message, hint)
    message = f"unknown model: {shown(name)}"
    raise _fault(message, did_you_mean(name, SHORT))


def _fault(message: str, hint: str) -> PydanticCustomError:
    """Return a fault with a hint."""
    context = {"message": message, "hint": hint}
    return PydanticCustomError("quantity", "{message}", context)


def _trace(value: object) -> object:
    """Read a recording: a path, or a table."""
    return {"file": value} if isinstance(value, str) else value


Model = Annotated[Annotated[Wifi | Lte | Starlink, Field(discriminator="name")], BeforeValidator(_model)]
TraceFile = Annotated[Recording, BeforeValidator(_trace)]
