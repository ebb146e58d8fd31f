"""Shipped model characteristics (`model_characteristics_db.json`) and the JSON schema they follow."""
