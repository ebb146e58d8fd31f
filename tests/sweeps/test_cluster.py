from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from simsys.errors import SimsysError, UsageError
from simsys.sweeps.cluster import DaskWorkers, check_address, run_shard
from simsys.sweeps.evaluate import CRASHED, OK
from simsys.sweeps.export import write_all
from simsys.sweeps.run import on_cluster, run_sweep
from simsys.sweeps.store import Store
from simsys.sweeps.worker import Setting, Task
from simsys.user_modules import UserModules
from tests.helpers.sweeps import BASE, POISONED, InThisProcess, experiment, plan

distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.skipif(os.name != "posix", reason="needs signals")]


def tables(folder: Path) -> list[bytes]:
    with Store(folder) as store:
        return [path.read_bytes() for path in write_all(store, "toy")]


def test_a_sweep_on_a_cluster_equals_a_local_one(tmp_path: Path) -> None:
    sweep = {"over": {"parallelism.tp_degree": [1, 2, 7], "training.batch_size_per_gpu": [1, 10**6]}}
    found = plan(tmp_path, sweep)
    run_sweep(found, tmp_path / "here", InThisProcess)
    assert run_sweep(found, tmp_path / "there", on_cluster("local:2")).simulated == 6
    assert tables(tmp_path / "here") == tables(tmp_path / "there")


def test_a_killed_worker_and_poisonous_points_cost_no_other_row(tmp_path: Path) -> None:
    experiment(tmp_path, {})
    patterns = ["auto", "exits:A", "ring_allreduce"]
    poison = [Task(index, text, {POISONED: text}) for index, text in enumerate(patterns)]
    good = [Task(10 + index, f"good {index}", {"simulation.seed": index}) for index in range(12)]
    setting = Setting(BASE, tmp_path, UserModules([tmp_path]))
    with DaskWorkers(setting, "local:2") as workers:
        pids = workers.client.run(os.getpid)
        killer = threading.Timer(1.0, os.kill, (next(iter(pids.values())), signal.SIGKILL))
        killer.start()
        shards = [poison, good[:3], good[3:6], good[6:9], good[9:]]
        rows = [row for batch in workers.rows(shards) for row in batch]
        killer.join()
    states = {row.key: row.state for row in rows}
    assert len(rows) == len(states) == 15
    assert states.pop("exits:A") == CRASHED
    assert set(states.values()) == {OK}


def test_a_cluster_that_loses_all_workers_is_an_error(tmp_path: Path) -> None:
    setting = Setting(BASE, tmp_path, UserModules())
    with DaskWorkers(setting, "local:1", absent_s=1.0) as workers:
        cluster: Any = workers.client.cluster
        cluster.scale(0)
        for _ in range(100):
            if not workers.client.scheduler_info()["workers"]:
                break
            time.sleep(0.1)
        with pytest.raises(SimsysError, match=r"no worker for 1 s; the same command continues"):
            list(workers.rows([[Task(0, "key", {})]]))


def test_a_cluster_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simsys.sweeps.cluster.CONNECT_S", 0.5)
    setting = Setting(BASE, tmp_path, UserModules())
    with pytest.raises(UsageError, match="no Dask scheduler answers"), DaskWorkers(setting, "tcp://127.0.0.1:9"):
        pass


@pytest.mark.parametrize("address", ["local:0", "local:x", "local:", "host", "8", "http://host:1"])
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--cluster"):
        check_address(address)


def test_a_worker_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a Dask worker has simsys"):
        run_shard("0.0.0", Setting(BASE, tmp_path, UserModules()), [], 1.0)
