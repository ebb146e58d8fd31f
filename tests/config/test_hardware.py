"""Hardware profiles: what ships is plausible and sourced, and what a user writes is checked."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.build.cluster import build_cluster
from simsys.build.device import build_device_spec
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import (
    GpuProfile,
    load_engine,
    load_fabric,
    load_gpu,
    load_node,
    overlaid,
    profile_names,
)
from simsys.config.hardware_schema import Profile, is_covered, leaves
from simsys.config.network import NetworkConfig
from simsys.errors import ConfigError, UnknownNameError, UsageError
from simsys.model.operators import OperatorKind
from simsys.model.work import Kernel
from simsys.platform.device_spec import kernel_seconds
from tests.helpers.each_case import each_case

LOADERS = {"gpu": load_gpu, "node": load_node, "fabric": load_fabric, "engine": load_engine}
SHIPPED = [(kind, name) for kind in ("gpu", "node", "fabric", "engine") for name in profile_names(kind)]  # type: ignore[arg-type]
GPUS = profile_names("gpu")
NODES = profile_names("node")
UNPRICED = {"A100-PCIE", "GH200-96GB", "Gaudi2", "Gaudi3", "H100-SXM-350W", "H20", "MI250", "MI325X", "RTX-5090"}
UNPRICED |= {
    "A40",
    "H200-NVL",
    "RTX-3090",
    "RTX-6000-Ada",
    "Arc-Pro-B60",
    "Max-1550",
    "TPU-v5p",
    "TPU-v6e",
    "TPU-v7x",
    "Trainium2",
}
UNEVEN = {"B300", "GB300", "Gaudi3", "RTX-3090", "RTX-4090", "RTX-5090", "Trainium2"}
"""Blackwell Ultra traded 8-bit integers for 4-bit floats, GeForce halves sums in fp32, others are as fast in 8 bit."""
CARDS = {"A10", "A10G", "L4", "L40S", "RTX-4090", "RTX-5090", "RTX-A6000", "RTX-PRO-6000", "T4", "Arc-Pro-B60"}
CARDS |= {"A40", "RTX-3090", "RTX-6000-Ada"}
"""GPUs with graphics memory."""

HBM_BYTES_PER_S = (0.9e12, 8e12)
GDDR_BYTES_PER_S = (0.3e12, 1.8e12)


@pytest.fixture
def user_folder(tmp_path: Path) -> Path:
    for kind in LOADERS:
        (tmp_path / f"{kind}s").mkdir()
    return tmp_path


def write_gpu(folder: Path, name: str, text: str) -> Path:
    path = folder / "gpus" / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# --- what ships ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_shipped_profile_loads_is_named_after_its_file_and_survives_json(kind: str, name: str) -> None:
    profile: Profile = LOADERS[kind](name)
    assert profile.name == name
    assert type(profile).model_validate(json.loads(profile.model_dump_json())) == profile


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_every_shipped_number_has_a_source_that_is_not_the_user(kind: str, name: str) -> None:
    profile: Profile = LOADERS[kind](name)
    numbers = [
        path
        for path, value in leaves(profile.model_dump(exclude={"aliases", "sources", "fits", "price"}))
        if isinstance(value, int | float | tuple)
    ]
    assert numbers
    for path in numbers:
        assert is_covered(path, profile.sources), path
    assert "user" not in profile.sources.values()


def test_what_is_promised_ships() -> None:
    assert {"V100-SXM-32GB", "A100-SXM-80GB", "H100-SXM", "H200-SXM", "B200-SXM", "MI300X", "RTX-A6000"} <= set(GPUS)
    assert {"dgx-v100", "dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "mi300x-platform"} <= set(NODES)
    assert {"infiniband-hdr", "infiniband-ndr", "roce-400g"} <= set(profile_names("fabric"))
    assert {"vllm", "tensorrt-llm", "sglang", "pytorch", "megatron"} <= set(profile_names("engine"))


@pytest.mark.parametrize("name", GPUS)
def test_peaks_are_dense_and_double_as_the_width_halves(name: str) -> None:
    peak = {dtype: rates for dtype, rates in load_gpu(name).peak.items() if name not in UNEVEN or dtype[-1] in "62"}
    for rates in peak.values():
        if rates.sparse is not None:
            assert rates.sparse == pytest.approx(2 * rates.dense, rel=0.025)  # L40S: 362.05 beside 733
    for narrow, wide in (("fp8", "bf16"), ("int8", "bf16"), ("bf16", "tf32"), ("fp4", "fp8")):
        if narrow in peak and wide in peak and not (name in UNEVEN and narrow in ("int8", "fp4")):
            assert peak[narrow].dense == pytest.approx(2 * peak[wide].dense, rel=0.025)  # type: ignore[index]
    if "bf16" in peak:
        assert peak["bf16"].dense == peak["fp16"].dense
    assert 8e12 < peak["fp32"].dense < 400e12


@pytest.mark.parametrize(
    ("name", "dtype", "tflop_per_s"),
    [
        ("V100-SXM-32GB", "fp16", 125),
        ("A100-SXM-40GB", "bf16", 312),
        ("A100-SXM-80GB", "bf16", 312),
        ("H100-SXM", "bf16", 989.4),
        ("H100-SXM", "fp8", 1978.9),
        ("H200-SXM", "bf16", 989.4),
        ("B200-SXM", "bf16", 2250),
        ("B200-SXM", "fp4", 9000),
        ("L40S", "fp8", 733),
        ("L4", "bf16", 121),
        ("RTX-A6000", "bf16", 154.8),
        ("MI300X", "bf16", 1307.4),
    ],
)
def test_dense_peaks_are_those_of_the_datasheets(name: str, dtype: str, tflop_per_s: float) -> None:
    assert build_device_spec(load_gpu(name)).peak_flop_per_s[dtype] == pytest.approx(tflop_per_s * 1e12)


@pytest.mark.parametrize("name", GPUS)
def test_shipped_gpu_is_physically_plausible(name: str) -> None:
    gpu = load_gpu(name)
    low, high = GDDR_BYTES_PER_S if name in CARDS else HBM_BYTES_PER_S
    assert low <= gpu.memory_bandwidth <= high
    assert 15 * 2**30 <= gpu.memory < 300 * 2**30
    assert gpu.memory % 2**29 == 0  # sold in GiB
    assert 70 <= (gpu.tdp or 500) <= 1400  # Google states none
    assert gpu.pcie.bandwidth <= gpu.link.bandwidth < gpu.memory_bandwidth
    assert 1e-7 < gpu.link.latency < 1e-5


@pytest.mark.parametrize("name", GPUS)
def test_shipped_price_is_dated(name: str) -> None:
    price = load_gpu(name).price
    if name in UNPRICED:
        assert price is None
        return
    assert price is not None
    assert 0.1 < price.usd_per_hour < 20
    assert price.as_of is not None
    assert date(2025, 1, 1) <= price.as_of <= date(2026, 12, 31)
    assert price.source != "user"


@pytest.mark.parametrize("name", NODES)
def test_shipped_node_holds_a_shipped_gpu_and_does_not_exceed_its_links(name: str) -> None:
    node = load_node(name)
    gpu = load_gpu(node.gpu)
    assert gpu.name == node.gpu  # by its full name
    assert node.interconnect.bandwidth <= gpu.link.bandwidth
    assert node.nics.bandwidth <= gpu.pcie.bandwidth or gpu.vendor == "Intel"  # Gaudi has ports of its own
    assert node.host is not None
    assert gpu.pcie.bandwidth < node.host.memory_bandwidth < node.gpus_per_node * gpu.memory_bandwidth
    assert 4 <= node.gpus_per_node <= 72


def test_newer_fabrics_are_faster() -> None:
    speeds = [load_fabric(f"infiniband-{rate}").bandwidth for rate in ("edr", "hdr", "ndr", "xdr")]
    assert speeds == [12.5e9, 25e9, 50e9, 100e9]


def test_engines_are_ordered_as_measured() -> None:
    layer = {name: load_engine(name).per_layer for name in profile_names("engine")}
    compiled = layer.pop("maxtext")  # into one program
    assert compiled == 0.0
    assert all(1e-6 < seconds < 2e-3 for seconds in layer.values())
    launch = {name: load_engine(name).launch_per_layer or 0.0 for name in layer}
    assert launch["tensorrt-llm-cpp"] < min(launch["sglang"], launch["gpt-fast"])
    recorded = {name for name in layer if load_engine(name).cuda_graphs is not None}
    serving = {
        "vllm",
        "vllm-v0",
        "sglang",
        "tensorrt-llm",
        "tensorrt-llm-cpp",
        "deepspeed-mii",
        "deepspeed-inference",
        "lmdeploy",
    }
    assert recorded == {*serving, "gpt-fast"}


# --- the runtime form ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GPUS)
@each_case("kind", list(OperatorKind))
def test_every_shipped_gpu_runs_every_kind_of_kernel_slower_than_its_peaks(name: str, kind: OperatorKind) -> None:
    spec = build_device_spec(load_gpu(name))
    for dtype, peak in spec.peak_flop_per_s.items():
        seconds = kernel_seconds(spec, Kernel(kind, 1e12, 1e9, rows=4096, dtype=dtype))
        assert seconds >= max(1e12 / peak, 1e9 / spec.memory_bytes_per_s) * (1.0 - 1e-12)


@given(st.sampled_from(GPUS), st.sampled_from(["default", "fp8", "fp4"]), st.floats(0, 1e9))
def test_shipped_curves_stay_within_their_points_and_reach_them(name: str, dtype: str, rows: float) -> None:
    curves = build_device_spec(load_gpu(name)).curves["gemm"]
    curve = curves.get(dtype, curves["default"])
    compute, memory = curve.at(rows)
    assert min(curve.compute) - 1e-12 <= compute <= max(curve.compute) + 1e-12
    assert min(curve.memory) - 1e-12 <= memory <= max(curve.memory) + 1e-12
    assert [curve.at(point) for point in curve.rows] == list(zip(curve.compute, curve.memory, strict=True))


def test_runtime_form_holds_si_units() -> None:
    spec = build_device_spec(load_gpu("H100-SXM"))
    assert spec.memory_bytes == pytest.approx(79.11 * 2**30)  # what programs see of 80 GiB
    assert spec.memory_bytes_per_s == 3.35e12
    assert (spec.link_bytes_per_s, spec.link_latency_s, spec.tdp_watt) == (450e9, 0.3e-6, 700.0)
    assert 2e-6 < spec.floor_s["gemm"]["bf16"] < 8e-6
    assert 8e-6 < spec.floor_s["decode_attention"]["default"] < 15e-6
    assert spec.usd_per_hour == 6.88
    assert build_device_spec(load_gpu({"extends": "H100-SXM", "price": None})).usd_per_hour == 0.0


@pytest.mark.parametrize(
    ("hardware", "gigabytes_per_s"),
    [
        ({"profile": "dgx-a100"}, 409.6 / 8),
        ({"profile": "dgx-h100"}, 614.4 / 8),
        ({"profile": "dgx-h100", "gpus_per_node": 2}, 614.4 / 8),  # fewer GPUs keep their share
        ({"profile": "dgx-h100", "num_nodes": 4}, 614.4 / 8),
        ({"gpu": "H100-SXM"}, 100.0),
        ({"gpu": {"extends": "H100-SXM", "host": {"memory_bandwidth": "200 GB/s"}}}, 200.0),
    ],
)
def test_gpus_share_the_hosts_of_their_nodes(hardware: dict[str, Any], gigabytes_per_s: float) -> None:
    spec = build_cluster(HardwareConfig(**hardware), NetworkConfig()).spec
    assert spec.host_update_bytes_per_s == pytest.approx(0.45 * gigabytes_per_s * 1e9, rel=1e-12)


def test_a_profile_need_not_describe_a_host() -> None:
    assert build_device_spec(load_gpu({"extends": "H100-SXM", "host": None})).host_update_bytes_per_s == 0.0


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alias", "name"), [(alias, name) for name in GPUS for alias in load_gpu(name).aliases])
def test_short_names_and_case_do_not_matter(alias: str, name: str) -> None:
    assert load_gpu(alias).name == load_gpu(alias.lower()).name == load_gpu(name.upper()).name == name


@pytest.mark.parametrize("kind", LOADERS)
def test_unknown_name_lists_or_suggests(kind: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown {kind} profile 'qqqq'; known: "):
        LOADERS[kind]("qqqq")


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'H100-SXM'"):
        load_gpu("H100-SMX")


def test_every_alias_names_one_profile_only() -> None:
    for kind, load in LOADERS.items():
        names = [name.lower() for name in profile_names(kind)]  # type: ignore[arg-type]
        aliases = [alias.lower() for name in names for alias in load(name).aliases]
        assert len({*aliases, *names}) == len(aliases) + len(names)


def test_an_alias_is_not_inherited_and_a_file_of_that_name_comes_first(user_folder: Path) -> None:
    write_gpu(user_folder, "mine", "extends: H100-SXM\naliases: [H100 of ours]\n")
    assert load_gpu("h100 OF ours", [user_folder]).name == "mine"
    assert load_gpu("H100", [user_folder]).name == "H100-SXM"
    write_gpu(user_folder, "H100", "extends: A100-SXM-80GB\n")
    assert load_gpu("H100", [user_folder]).name == "H100"


def test_a_mistyped_instance_type_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'p5\.48xlarge'"):
        load_node("p5.48xlarg")
    with pytest.raises(UnknownNameError, match=r"did you mean 'a3-mega'"):
        load_node("a3-mgea")


def test_names_do_not_leave_the_folder(user_folder: Path) -> None:
    (user_folder / "secret.yaml").write_text("name: secret\n", encoding="utf-8")
    with pytest.raises(UnknownNameError):
        load_gpu("../secret", [user_folder])


# --- a user's own profiles ----------------------------------------------------------------------------------------


def test_inline_profile_extends_a_shipped_one() -> None:
    base = load_gpu("H100-SXM")
    gpu = load_gpu({"extends": "H100", "memory": "94 GB", "peak": {"fp8": {"dense": "1.5 PFLOP/s"}}})
    assert (gpu.memory, gpu.peak["fp8"].dense, gpu.peak["bf16"]) == (94e9, 1.5e15, base.peak["bf16"])
    assert gpu.name == "H100-SXM (changed)"
    assert gpu.sources["memory"] == gpu.sources["peak.fp8.dense"] == "user"
    assert gpu.sources["tdp"] == base.sources["tdp"]


def test_file_extends_a_file_and_takes_its_name_from_its_own(user_folder: Path) -> None:
    write_gpu(user_folder, "big-h100", "extends: H100-SXM\nmemory: 141 GB\n")
    write_gpu(user_folder, "slow-big", "extends: big-h100\ntdp: 350 W\nsources: {tdp: power cap of our lab}\n")
    gpu = load_gpu("Slow-Big", [user_folder])
    assert (gpu.name, gpu.memory, gpu.tdp) == ("slow-big", 141e9, 350.0)
    assert (gpu.sources["memory"], gpu.sources["tdp"]) == ("user", "power cap of our lab")
    assert "big-h100" in profile_names("gpu", [user_folder])
    assert "big-h100" not in GPUS


def test_users_file_hides_the_shipped_one_and_a_short_name(user_folder: Path) -> None:
    write_gpu(user_folder, "H100", "extends: A100-SXM-80GB\n")
    assert load_gpu("H100", [user_folder]).memory_bandwidth == load_gpu("A100").memory_bandwidth


def test_environment_names_folders(user_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (user_folder / "hardware_profiles").mkdir()
    (user_folder / "gpus").rename(user_folder / "hardware_profiles" / "gpus")
    write_gpu(user_folder / "hardware_profiles", "mine", "extends: L4\n")
    monkeypatch.setenv("SIMSYS_PATH", str(user_folder))
    assert load_gpu("mine").name == "mine"


def test_what_has_been_read_counts_until_a_file_that_takes_part_changes(user_folder: Path) -> None:
    def memory(given: Any = "mine") -> float:
        return load_gpu(given, [user_folder]).memory

    write_gpu(user_folder, "base", "extends: L4\nmemory: 10 GB\n")
    write_gpu(user_folder, "mine", "extends: base\n")
    assert load_gpu("mine", [user_folder]) is load_gpu("mine", [user_folder])
    assert memory() == 10e9
    write_gpu(user_folder, "base", "extends: L4\nmemory: 110 GB\n")
    assert memory() == 110e9
    (user_folder / "fits" / "gpus").mkdir(parents=True)
    fit = write_gpu(user_folder / "fits", "base", "memory: 12 GB\n")
    assert memory() == 12e9
    with overlaid({("gpu", "base"): {"memory": "13 GB"}}):
        assert memory() == 13e9
    assert memory({"extends": "mine", "tdp": "99 W"}) == 12e9
    fit.unlink()
    assert memory() == 110e9
    write_gpu(user_folder, "mine", "extends: base\nmemory: 1100 GB\n")
    assert memory() == 1100e9


def test_a_changed_price_keeps_no_date_or_source_of_the_old_one() -> None:
    price = load_gpu({"extends": "H100", "price": {"usd_per_hour": "2 $/h"}}).price
    assert price is not None
    assert (price.usd_per_hour, price.as_of, price.source) == (2.0, None, "user")


@pytest.mark.parametrize("kind", ["gpu", "node"])
def test_a_plain_price_is_that_of_the_user(user_folder: Path, kind: str) -> None:
    base, load = {"gpu": ("H100-SXM", load_gpu), "node": ("dgx-h100", load_node)}[kind]
    (user_folder / f"{kind}s" / "mine.yaml").write_text(f"extends: {base}\nprice: 2.5 $/h\n", encoding="utf-8")
    for written in ({"extends": base, "price": "2.5 $/h"}, "mine"):
        price = load(written, [user_folder]).price  # type: ignore[operator]
        assert (price.usd_per_hour, price.as_of, price.source) == (2.5, None, "user")
    with pytest.raises(ConfigError, match=r"2\.5 has no unit; write e\.g\. '2\.5 \$/h'"):
        load({"extends": base, "price": 2.5})  # type: ignore[operator]


def test_a_plain_peak_is_dense_and_its_source_the_user() -> None:
    gpu = load_gpu({"extends": "H100", "peak": {"bf16": "1750 TFLOP/s"}})
    assert (gpu.peak["bf16"].dense, gpu.peak["bf16"].sparse) == (1.75e15, None)
    assert gpu.peak["fp8"] == load_gpu("H100").peak["fp8"]
    assert gpu.sources["peak.bf16"] == "user"
    with pytest.raises(ConfigError, match=r"peak\.bf16\.dense: 1750 has no unit"):
        load_gpu({"extends": "H100", "peak": {"bf16": 1750}})


def test_a_profile_of_a_few_settings_that_extends_none_is_one_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        load_gpu({"price": "2.5 $/h"})
    (problem,) = caught.value.problems
    assert problem.message.startswith("a gpu profile without 'extends' lacks vendor, peak, memory")


def test_a_whole_profile_of_the_users_own_needs_no_sources() -> None:
    data = load_gpu("L4").model_dump(mode="json", exclude={"sources", "fits", "price"}, exclude_none=True)
    assert load_gpu({**data, "name": "own"}).sources["memory"] == "user"


def test_a_changed_number_loses_its_fit_and_a_source_below_it(user_folder: Path) -> None:
    fit = (
        "fits:\n  efficiency.gemm: {fitted_on: 96 GEMMs, error: 7 %}\n  link.latency: {fitted_on: pings, error: 0.1}\n"
    )
    write_gpu(user_folder, "fitted", f"extends: H100-SXM\n{fit}")
    assert load_gpu("fitted", [user_folder]).fits["efficiency.gemm"].error == 0.07
    changed = {"extends": "fitted", "link": {"latency": "2 us"}, "sources": {"link": "our ping test"}}
    gpu = load_gpu(changed, [user_folder])
    assert gpu.fits["efficiency.gemm"].error == 0.07
    assert "link.latency" not in gpu.fits
    assert "link.latency" not in gpu.sources
    assert gpu.sources["link"] == "our ping test"


def test_extending_in_a_circle_is_an_error_at_its_line(user_folder: Path) -> None:
    write_gpu(user_folder, "a", "extends: b\n")
    write_gpu(user_folder, "b", "memory: 1 GB\nextends: a\n")
    with pytest.raises(ConfigError, match=r"b\.yaml:2:10: extends: .*circle: a extends b extends a"):
        load_gpu("a", [user_folder])
    write_gpu(user_folder, "H100-SXM", "extends: h100-sxm\n")
    with pytest.raises(UsageError, match="circle: H100-SXM extends H100-SXM"):
        load_gpu("H100", [user_folder])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: H100-SXM\nmemory: 94\n", r"x\.yaml:2:9: memory: 94 has no unit"),
        ("extends: H100-SXM\nmemory: 94 GB/s\n", r"x\.yaml:2:9: memory: .* is a bandwidth, a size is needed"),
        ("extends: H100-SXM\n\ntdp: -1 W\n", r"x\.yaml:3:6: tdp: '-1 W' is negative"),
        ("extends: H100-SXM\nlink: {latency: .nan}\n", r"x\.yaml:2:17: link\.latency: "),
        ("extends: H100-SXM\nmemmory: 1 GB\n", r"x\.yaml:2:1: .*unknown key 'memmory', did you mean 'memory'"),
        ("extends: H100-SXM\nlink: {kind: nvlik}\n", r"x\.yaml:2:14: link\.kind: .*did you mean 'nvlink'"),
        ("extends: H100-SXM\npeak: {bf17: {dense: 1 TFLOP/s}}\n", r"x\.yaml:2:8: .*bf17"),
        ("extends: H100-SXN\n", r"x\.yaml:1:10: extends: unknown gpu profile 'H100-SXN', did you mean"),
        ("extends: [H100-SXM]\n", r"x\.yaml:1:10: extends: 'extends' is the name of a gpu profile"),
        ("extends: H100-SXM\nsources: {memry: me}\n", r"x\.yaml.*sources names 'memry', .*did you mean 'memory'"),
        ("extends: H100-SXM\nsources: me\n", r"x\.yaml:2:10: sources: a mapping"),
        ("extends: H100-SXM\nfits: {tdp: {fitted_on: x, error: 2}}\n", r"x\.yaml:2:35: fits\.tdp\.error"),
        ("extends: H100-SXM\nprice: {usd_per_hour: 1 $/h, as_of: soon}\n", r"x\.yaml:2:37: price\.as_of"),
        ("name: x\nvendor: me\n", r"missing required key 'peak'"),
    ],
)
def test_mistakes_are_reported_where_they_stand(user_folder: Path, text: str, message: str) -> None:
    write_gpu(user_folder, "x", text)
    with pytest.raises(ConfigError, match=message):
        load_gpu("x", [user_folder])


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "at least 1"),
        ([{"rows": 8, "compute": 0.5, "memory": 0.5}, {"rows": 8, "compute": 0.5, "memory": 0.5}], "increasing rows"),
        ([{"rows": 0, "compute": 0.5, "memory": 0.5}], "at least 1"),
        ([{"rows": 1, "compute": 0, "memory": 0.5}], "above zero"),
        ([{"rows": 1, "compute": 0.5, "memory": 1.2}], "above 1"),
    ],
)
def test_impossible_curves_are_refused(points: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_gpu({"extends": "H100", "efficiency": {"gemm": {"default": points}}})


def test_curves_need_a_default() -> None:
    data = load_gpu("L4").model_dump(mode="json")
    data["efficiency"]["conv"] = {"fp16": data["efficiency"]["conv"]["default"]}
    with pytest.raises(ConfigError, match=r"efficiency\.conv: an entry named 'default' is needed"):
        load_gpu(data)


def test_a_mistake_written_inline_is_not_blamed_on_the_shipped_file() -> None:
    with pytest.raises(ConfigError) as caught:
        load_gpu({"extends": "H100", "memory": "3"})
    assert [(problem.path, problem.file) for problem in caught.value.problems] == [("memory", "")]


@pytest.mark.parametrize("field", ["memory", "tdp", "link.latency", "efficiency.gemm", "kernel_floor"])
def test_a_number_without_a_source_is_an_error(field: str) -> None:
    data = load_gpu("H100-SXM").model_dump(mode="json")
    data["sources"] = {path: said for path, said in data["sources"].items() if not path.startswith(field)}
    with pytest.raises(ConfigError, match=f"no source for {field}"):
        load_gpu(data)


def test_profiles_are_frozen() -> None:
    gpu: GpuProfile = load_gpu("L4")
    with pytest.raises(ValueError, match="frozen"):
        gpu.memory = 1.0


def test_a_memory_that_is_given_is_what_programs_see() -> None:
    shipped, changed = load_gpu("H100"), load_gpu({"extends": "H100", "memory": "94 GB"})
    assert build_device_spec(shipped).memory_bytes == shipped.memory - (shipped.memory_reserved or 0)
    assert changed.memory_reserved is None
    assert "memory_reserved" not in changed.sources
    assert build_device_spec(changed).memory_bytes == 94e9
    both = load_gpu({"extends": "H100", "memory": "94 GB", "memory_reserved": "1 GB"})
    assert build_device_spec(both).memory_bytes == 93e9
