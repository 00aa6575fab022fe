"""Qualcomm's hexagon-sim, of the Hexagon SDK: candidates run as on a phone, cycle by cycle.

``call`` runs one contained process (``launch``) and reads its report, ``device`` is the kind of
device and a measurer for jobs without a farm. Linking, the driver and its results are those of
every DSP (:mod:`tuner.measure.dsp`): a process runs a whole bundle, so booting QuRT is paid once.

No SDK was at hand: all of this was run against a stand-in only (tests/rig/stand_in_sdk.py).
"""
