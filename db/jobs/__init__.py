"""Jobs: their queue, their claims, their trials, and what is told of them."""
