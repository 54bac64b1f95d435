"""Figures: one chart is one function from rows to `alt.Chart`; `session` puts them on one time axis."""
