"""Analysis of results: bottlenecks, losses and scaling."""
