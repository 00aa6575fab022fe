"""Charts that the server computes: numbers ready for SVG in a template, colours left to CSS."""
