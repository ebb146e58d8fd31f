"""What results mean: what limits a run, where its time goes, what helps, and how it scales.

Start with `bottlenecks.py`, rules over the metrics of one run, and `losses.py`, its time by cause. `findings.py`
assigns losses to resources, `places.py` finds the link, rank or dimension, `remedies.py` and `serving_remedies.py`
list settings that may help, `gains.py` simulates these, and `analyze.py` joins all. `scaling.py` simulates a scenario
on more and more nodes, `scaling_result.py` finds efficiency, breakdown and best sizes, `scaling_fits.py` the serial
fraction.
May import: build, check, comparisons, config, errors, metrics, parallel, platform, plots, report, searches, shown,
simulation, sums, units.
"""
