"""Files beside the database: artifacts by digest, durable and private."""
