"""Forward passes of serving teams: by segment, as one event each, or as multi-step runs in closed form.

`ServingPasses` is the component of an executor; `segment_passes`, `summed_passes`, `run_passes` and `occupying_passes`
are its implementations. They give engines steppers (`simsys.starter.Stepper`): `passes` (one by one), `closed_form`,
`occupied`, `drafting` and `pipeline_runs`. It may import `simsys.executors.communication` and what that imports, and
`simsys.costs`; not `simsys.serving`. Start with `serving_passes.py`, then `summed_passes.py` and `closed_form.py`.
"""
