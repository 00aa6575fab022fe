"""Qualcomm's hexagon-sim: candidates run as on a phone, cycle by cycle.

It runs the driver under the QuRT of a Hexagon SDK (``qurt``), or as a program by itself with the
tools alone (``standalone``). ``call`` runs one contained process (``launch``), ``report`` and
``packets`` read what it says, ``device`` is the kind of device and a measurer for jobs without a
farm. Linking, the driver and its results are those of every DSP (:mod:`tuner.measure.dsp`).

Neither was at hand: all of this was run against stand-ins only (tests/rig/stand_in_sdk.py and
stand_in_tools.py).
"""
