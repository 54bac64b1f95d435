"""The parts that all pages share: style and script. A page loads and runs nothing else."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

#: The page's content security policy: nothing from outside, and no script except its own. Even if a name
#: contained HTML that was not escaped, it could not run a script.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{}'"


def rendered(template: str, **given: Any) -> str:  # noqa: ANN401 - what a template takes
    """Return a page of a template that extends `base.html.j2`.

    Parameters
    ----------
    template
        The template's name.
    given
        The variables of the template; `base.html.j2` itself takes `title`.
    """
    from markupsafe import Markup

    style, script = _text("style.css"), _text("script.js")
    policy = _POLICY.format(b64encode(sha256(script.encode()).digest()).decode())
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),
            script=Markup(script),
            policy=policy,
            **given,
        )
    )


@cache
def _environment() -> jinja2.Environment:
    """Return the environment that reads templates."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("anabranch", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _text(name: str) -> str:
    """Return the text of a file of this package."""
    return files("anabranch.report").joinpath(name).read_text(encoding="utf-8")
