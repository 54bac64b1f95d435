"""Figures. Each chart is a function from rows to `alt.Chart`; `session` puts them on one time axis."""
