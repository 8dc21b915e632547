"""Joint redraw: all columns behind a release, drawn back together under their known channels."""
