"""Machine loops, loop nest and schedule, brought together by the names of Halide's loops."""

from __future__ import annotations

from tuner.codegen.halide.loop_origins import (
    LoopOrigin,
    NestLine,
    read_nest,
)

NEST = """produce packed:
  for x:
    packed(...) = ...
consume packed:
  produce C:
    for y.yo in [0, 3]:
      produce sums:
        vectorized x.xi in [0, 31]:
          sums(...) = ...
        for r:
          vectorized x.xi in [0, 31]:
            sums(...) = ...
      consume sums:
        vectorized x.xi in [0, 31]:
          C(...) = ...
"""
SCHEDULE = """
    Func C = pipeline.get_func(2);
    Func sums = pipeline.get_func(1);
    Var v_x("x");
    Var v_xi("xi");
    Var v_y("y");
    Var v_yo("yo");
    RVar v_r_x("r$x");
    C.split(v_y, v_yo, v_yi, 4, TailStrategy::RoundUp);
    sums.compute_at(C, v_yo);
    sums.vectorize(v_xi);
    sums.update(0).reorder(v_xi, v_r_x);
    elsewhere.unroll(v_y);
"""
OUTER = LoopOrigin("C", 0, "y.yo")
INNER = LoopOrigin("sums", 1, "r")


def test_a_loop_nest_tells_function_stage_and_dimension() -> None:
    lines = read_nest(NEST)
    assert lines[1] == NestLine("for x:", 1, LoopOrigin("packed", 0, "x"))
    found = [line.loop for line in lines if line.loop]
    assert found == [
        LoopOrigin("packed", 0, "x"),
        OUTER,
        LoopOrigin("sums", 0, "x.xi"),
        INNER,
        LoopOrigin("sums", 1, "x.xi"),
        LoopOrigin("C", 0, "x.xi"),
    ]
