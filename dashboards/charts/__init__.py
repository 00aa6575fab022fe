"""Charts computed on the server: coordinates for SVG in templates; CSS sets the colours."""
