"""Serving: requests, workloads, KV cache, and the state of one replica."""
