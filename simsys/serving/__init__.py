"""Serving: requests, workloads, KV cache, and the engine."""
