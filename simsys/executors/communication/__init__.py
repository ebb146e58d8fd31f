"""How ranks communicate: steps on links, closed forms of idle links, or loads of occupied ones.

Each is a component of an executor (`base.Communication`) and decides when collectives, messages, transfers between
teams and the hidden states of pipelines arrive. `queued` orders collectives of a group with unknown ends.
It may import `simsys.executors.component` and what that imports, the platform and `simsys.costs`; neither the passes
of serving (`simsys.executors.steps`) nor the programs of training (`simsys.executors.iterations`).
Start with `base.py`, then `closed_form.py`, the shortest.
"""
