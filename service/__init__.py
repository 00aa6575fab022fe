"""The service: routes, access, the conductor that runs jobs, the client, and the command line.

``app`` makes the web application over a store. A request passes ``admission`` and ``auth`` before
its route; ``routers`` holds the routes, ``schemas`` their bodies. ``server`` is the process that
serves, ``conductor`` the one that runs jobs. ``client`` talks to a service from elsewhere; ``cli``
is the ``hvxtune`` command."""
