"""No data parallelism: every rank trains for itself."""

from __future__ import annotations

from simsys.framework import DataParallel, register


@register("none")
class NoDataParallel(DataParallel):
    """No communication around the blocks."""

    same_every_step = same_first_step = True
    every_micro_batch = False
