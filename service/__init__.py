"""The service: routes, access, the conductor that runs jobs, the client, and the command line.

``app`` makes the web application over a store, ``routers`` holds its routes, ``schemas`` the
bodies they take and give, ``auth`` who may call them. ``conductor`` runs the jobs. ``client``
talks to a service from elsewhere; ``cli`` is the ``hvxtune`` command.
"""
