"""How wrong simsys is: tables of measured runs, predictions of each row, their errors, and fits of profiles.

A reader in `tables` turns each row of a table into a `Case`: a measured value and the run that predicts it.
Start with `case.py` and `predict.py`, which simulates the runs; `errors.py` and `ranking.py` sum up. `calibrate.py`
fits coefficients of profiles (`problem.py`, `fit.py`).
May import: everything but cli, commands, simulator, testing.
"""
