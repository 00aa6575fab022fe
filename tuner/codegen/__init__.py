"""(problem, config) -> Hexagon object: code generators, each in killable worker processes."""
