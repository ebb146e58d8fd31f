"""Kernels made with known coefficients give these back; what is wrong with a table is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from simsys.build.device import build_device_spec
from simsys.cli import cli
from simsys.config.hardware import load_gpu, overlaid
from simsys.errors import ConfigError, UsageError
from simsys.fidelity.kernel_fit import KernelFit, fit_kernels, overlay_of
from simsys.fidelity.tables.kernel_rows import is_kernel_table
from simsys.fidelity.tables.table import Table, read_table
from simsys.model.operators import OperatorKind
from simsys.model.work import Kernel
from simsys.platform.device_spec import kernel_seconds

TRUE = {
    ("gpu", "H100-SXM"): {
        "efficiency": {
            "gemm": {
                "bf16": [{"rows": 64, "compute": 0.6, "memory": 0.8}, {"rows": 8192, "compute": 0.75, "memory": 0.8}]
            },
            "decode_attention": {"bf16": [{"rows": 1, "compute": 0.5, "memory": 0.7}]},
        },
        "kernel_floor": {"gemm": "5 us", "decode_attention": "9 us"},
    }
}


def gemm(m: int, n: int, k: int) -> Kernel:
    nbytes = 2.0 * (n * k + m * k + m * n)
    return Kernel(OperatorKind.GEMM, 2.0 * m * n * k, nbytes, rows=m, columns=n, inner=k, dtype="bf16")


def attention(batch: int, context: int) -> Kernel:
    return Kernel(OperatorKind.DECODE_ATTENTION, 0.0, 4096.0 * batch * context, rows=batch, dtype="bf16")


def gemm_table(tmp_path: Path) -> Table:
    with overlaid(TRUE):
        spec = build_device_spec(load_gpu("H100"))
    lines = ["system,gemm_dtype,shape,m,n,k,latency_us"]
    for n, k in ((8192, 8192), (4096, 4096), (10240, 8192)):
        for power in range(14):
            seconds = kernel_seconds(spec, gemm(2**power, n, k))
            lines.append(f"h100_sxm,bfloat16,{n}x{k},{2**power},{n},{k},{seconds * 1e6}")
    return written(tmp_path, lines)


def written(tmp_path: Path, lines: list[str]) -> Table:
    path = tmp_path / "kernels.csv"
    path.write_text("\n".join(lines))
    return read_table(path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> KernelFit:
    [found] = fit_kernels(gemm_table(tmp_path_factory.mktemp("kernels")))
    return found


def test_products_give_back_floor_bandwidth_and_curve(fitted: KernelFit) -> None:
    assert (fitted.gpu, fitted.kind, fitted.dtype, fitted.kernels) == ("H100-SXM", "gemm", "bf16", 42)
    assert fitted.floor_s == pytest.approx(5e-6, rel=0.05)
    assert fitted.points[0]["memory"] == pytest.approx(0.8, rel=0.03)
    assert fitted.points[-1]["compute"] == pytest.approx(0.75, rel=0.03)
    assert fitted.error < 0.01
    assert fitted.error_unseen < 0.03


def test_decode_attention_gives_back_floor_and_bandwidth(tmp_path: Path) -> None:
    with overlaid(TRUE):
        spec = build_device_spec(load_gpu("H100"))
    lines = ["system,kv_cache_dtype,batch_size,step,latency_us"]
    for batch in (1, 8, 64):
        for power in range(5, 15):
            seconds = kernel_seconds(spec, attention(batch, 2**power))
            lines.append(f"h100_sxm,bfloat16,{batch},{2**power},{seconds * 1e6}")
    [found] = fit_kernels(written(tmp_path, lines))
    assert found.floor_s == pytest.approx(9e-6, rel=0.02)
    assert found.points[0]["memory"] == pytest.approx(0.7, rel=0.02)


def test_a_gpu_with_the_fit_predicts_the_kernels(fitted: KernelFit) -> None:
    kernel = gemm(3000, 8192, 8192)
    with overlaid(TRUE):
        expected_s = kernel_seconds(build_device_spec(load_gpu("H100")), kernel)
    with overlaid(overlay_of([fitted])):
        spec = build_device_spec(load_gpu("H100"))
    assert kernel_seconds(spec, kernel) == pytest.approx(expected_s, rel=0.02)
    assert kernel_seconds(spec, kernel._replace(dtype="fp16")) == kernel_seconds(spec, kernel)


def test_of_the_kernels_of_several_frameworks_the_middle_one_counts(fitted: KernelFit, tmp_path: Path) -> None:
    header, *rows = (tmp_path / gemm_table(tmp_path).file).read_text().splitlines()
    slower = [",".join([*row.split(",")[:-1], str(60.0 + float(row.split(",")[-1]))]) for row in rows]
    faster = [",".join([*row.split(",")[:-1], str(0.9 * float(row.split(",")[-1]))]) for row in rows]
    assert fit_kernels(written(tmp_path, [header, *slower, *rows, *faster])) == [fitted]
    assert fit_kernels(written(tmp_path, [header, *slower, *rows])) == [fitted]  # of two, the faster one


def test_a_gpu_of_the_same_chip_has_the_fits_of_the_other(tmp_path: Path) -> None:
    header, *rows = (tmp_path / gemm_table(tmp_path).file).read_text().splitlines()
    names = ("b200_sxm", "gb200")
    both = [row.replace("h100_sxm", name) for name in names for row in rows]
    found = fit_kernels(written(tmp_path, [header, *rows, *both]))
    assert [each.gpu for each in found] == ["H100-SXM", "B200-SXM"]
    [alone] = fit_kernels(written(tmp_path, [header, *both[len(rows) :]]))
    assert alone.gpu == "GB200"


def test_blocks_with_scales_of_their_own_are_a_dtype_with_the_peak_of_fp8(tmp_path: Path) -> None:
    header, *rows = (tmp_path / gemm_table(tmp_path).file).read_text().splitlines()
    plain, block = (
        fit_kernels(written(tmp_path, [header, *(row.replace("bfloat16", name) for row in rows)]))[0]
        for name in ("fp8", "fp8_block")
    )
    assert (block.dtype, block.floor_s, block.points) == ("fp8_block", plain.floor_s, plain.points)
    with overlaid(overlay_of([replace(plain, gpu="MI300X")])):  # of whose blocks nothing is known
        alike = build_device_spec(load_gpu("MI300X"))
    assert alike.curves["gemm"]["fp8_block"] == alike.curves["gemm"]["fp8"]
    assert alike.peak_flop_per_s["fp8_block"] == alike.peak_flop_per_s["fp8"]


def test_tables_of_kernels_are_told_from_runs(tmp_path: Path) -> None:
    assert is_kernel_table(gemm_table(tmp_path))
    assert not is_kernel_table(written(tmp_path, ["id,system,gpus,collective,bytes,time_us", "1,a,2,c,3,4"]))


def test_too_few_kernels_bad_cells_and_missing_columns(tmp_path: Path) -> None:
    head = "system,gemm_dtype,shape,m,n,k,latency_us"
    with pytest.raises(UsageError, match="no GPU and dtype has 20 kernels or more that a fit describes"):
        fit_kernels(written(tmp_path, [head, "h100_sxm,bfloat16,a,1,2,3,4"]))
    with pytest.raises(ConfigError, match=r"kernels\.csv:2:27: latency_us: '0' is not a number above 0"):
        fit_kernels(written(tmp_path, [head, *["h100_sxm,bfloat16,a,1,2,3,0"] * 30]))
    with pytest.raises(ConfigError, match=r"column 'latency_us' is missing, did you mean 'latency'"):
        fit_kernels(written(tmp_path, [head.replace("_us", ""), "h100_sxm,bfloat16,a,1,2,3,4"]))


def test_kernels_alone_are_written_as_fits_of_their_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gemm_table(tmp_path)
    out = tmp_path / "root" / "hardware_profiles"
    result = CliRunner().invoke(cli, ["calibrate", str(tmp_path / "kernels.csv"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "H100-SXM gemm bf16" in result.stdout
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path / "root"))
    gpu = load_gpu("H100")
    assert gpu.kernel_floor["gemm"]["default"] == pytest.approx(5e-6, rel=0.1)
    assert gpu.fits["efficiency.gemm.bf16"].fitted_on == "42 kernels"
    assert "kernels.csv" in gpu.sources["kernel_floor"]
