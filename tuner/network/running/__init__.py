"""Networks on the simulator.

``calls`` turns a layer into calls of its kernel (``storage`` has the tensors as kernels want them),
``execution`` runs one after the other. ``steps``, ``offload`` and ``image`` run all as one program
for the DSP, which ``predicted`` holds against a plan.
"""
