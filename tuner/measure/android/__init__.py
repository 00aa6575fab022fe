"""Phones over adb: a candidate becomes a shared object that runs on the phone's DSP.

``adb`` speaks the adb server's protocol and knows nothing of candidates; ``link`` is the way to one
phone; ``call`` is one call of the phone's tool, with its scripts and the lock on the phone;
``phone`` is the kind of device. docs/measuring.md says which of this was proven on real parts and
which only on emulated phones.
"""
