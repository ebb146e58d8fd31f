"""Shipped models: `architectures.yaml` (numbers with sources) and `model_characteristics_db.json` with its schema.

The database is generated from the architectures by ``scripts/make_model_db.py``; simulations read the database only.
"""
