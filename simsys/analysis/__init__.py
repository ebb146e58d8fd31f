"""What results mean: what limits a run, where its time goes, and how it scales.

Start with `bottlenecks.py`, rules over the metrics of one run, and `losses.py`, its time by cause. `scaling.py`
simulates a scenario on more and more nodes, `scaling_result.py` finds efficiency and the serial fraction.
May import: build, check, config, errors, metrics, plots, report, simulation, sums, units.
"""
