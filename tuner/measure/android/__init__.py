"""Phones over adb: a candidate becomes a shared object that runs on the phone's DSP.

``adb`` speaks the adb server's protocol and knows nothing of candidates. ``shared_object`` links,
``queue_file`` and ``results`` are the files between host and DSP, ``call`` is one call of the
phone's tool, ``verdict`` says what an entry came to, ``phone`` is the device the farm drives.
docs/devices.md says what of this was proven on real parts and what only on emulated phones.
"""
