"""The bodies of requests and answers, as Pydantic models: the only place that has any."""
