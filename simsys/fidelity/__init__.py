"""How wrong simsys is: tables of measured runs, what it predicts for each row, and the errors.

A *reader* (`readers.py` names them all) knows one kind of table by its header and turns each row into a `Case`: a
measured value and the run that predicts it. `predict.py` simulates the runs, `errors.py` and `ranking.py` sum up.
"""
