"""Which unit does what and when.

``topology`` has the units, ``costs`` the time of each layer on them, ``tasks`` what planners take.
``sequence`` plans for one input (``cut`` where a network is large), ``stream`` for many
(``simulation`` runs such plans), ``vtcm`` places tensors, ``mesh`` splits layers over equal
elements. ``solver`` is what they share.
"""
