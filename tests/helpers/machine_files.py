"""Descriptions of machines, in the form of the tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DGX_H100_MODELS = "".join(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu})\n" for gpu in range(8))


def matrix(
    gpus: int,
    nics: int,
    links: Mapping[tuple[int, int], str] | str,
    near: Mapping[tuple[int, int], str],
    numa: Sequence[int],
    far: str = "SYS",
) -> str:
    """The output of ``nvidia-smi topo -m``.

    Args:
        gpus: Number of GPUs.
        nics: Number of network cards.
        links: Cells of pairs of GPUs, lower number first; or one for all.
        near: Cells of (GPU, card), where they are not `far` (in another domain) or NODE.
        numa: NUMA domain of each GPU.
        far: Cell of GPUs in different domains.
    """
    names = [f"GPU{gpu}" for gpu in range(gpus)] + [f"NIC{nic}" for nic in range(nics)]

    def cell(row: int, column: int) -> str:
        one, other = min(row, column), max(row, column)
        if one == other:
            return " X "
        if other < gpus:
            if isinstance(links, str):
                return links
            return links.get((one, other), "NODE" if numa[one] == numa[other] else far)
        if one < gpus:
            return near.get((one, other - gpus), far)
        return "NODE"

    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for row, name in enumerate(names):
        cells = [name, *(cell(row, column) for column in range(len(names)))]
        lines.append("\t".join([*cells, *(["0-51,104-155", str(numa[row]), "N/A"] if row < gpus else [])]))
    legend = ["", "Legend:", "", "  X    = Self", "  NV#  = Connection traversing a bonded set of # NVLinks", ""]
    cards = ["NIC Legend:", "", *(f"  NIC{nic}: mlx5_{nic}" for nic in range(nics))]
    return "\n".join([*lines, *legend, *(cards if nics else [])]) + "\n"


def dgx_h100() -> str:
    """Eight H100 on NVSwitches, a card next to each, and two for storage."""
    near = {(gpu, gpu): "PXB" for gpu in range(8)} | {(gpu, 8 + gpu // 4): "NODE" for gpu in range(8)}
    return DGX_H100_MODELS + matrix(8, 10, "NV18", near, [0] * 4 + [1] * 4)


def h100_xml() -> str:
    """The same eight GPUs as NCCL writes them, with an NVLink for each of four switches."""
    links = "".join(
        f'<nvlink target="0000:0{switch}:00.0" count="{count}" tclass="0x068000"/>'
        for switch, count in zip((5, 6, 7, 8), (4, 5, 5, 4), strict=True)
    )
    cpus = []
    for cpu in range(2):
        bridges = []
        for gpu in range(4 * cpu, 4 * cpu + 4):
            bridges.append(
                f'<pci busid="0000:{gpu + 16:02x}:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">'
                f'<pci busid="0000:{gpu + 32:02x}:00.0" class="0x030200" vendor="0x10de" device="0x2330" '
                f'link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{gpu}" sm="90" rank="{gpu}" gdr="1">{links}'
                f'</gpu></pci><pci busid="0000:{gpu + 64:02x}:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" '
                f'link_width="16"><nic><net name="mlx5_{gpu}" dev="{gpu}" speed="400000" port="1"/></nic></pci>'
                "</pci>"
            )
        head = f'<cpu host_hash="0x1" numaid="{cpu}" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">'
        cpus.append(head + "".join(bridges) + "</cpu>")
    return '<system version="1">' + "".join(cpus) + "</system>\n"


def l40s_xml() -> str:
    """Eight L40S, two below each of four switches with a card, on two AMD sockets."""
    switch = (
        '<pci busid="0000:{0:02x}:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">'
        '<pci busid="0000:{1:02x}:00.0" class="0x030200" device="0x26b9" link_speed="16.0 GT/s" link_width="16">'
        '<gpu dev="{3}" sm="89" rank="{3}"/></pci>'
        '<pci busid="0000:{2:02x}:00.0" class="0x030200" device="0x26b9" link_speed="16.0 GT/s" link_width="16">'
        '<gpu dev="{4}" sm="89" rank="{4}"/></pci>'
        '<pci busid="0000:{5:02x}:00.0" class="0x020000"><nic><net name="mlx5_{6}" speed="200000"/></nic></pci></pci>'
    )
    cpus = [
        f'<cpu numaid="{cpu}" vendor="AuthenticAMD" familyid="175" modelid="1">'
        + "".join(
            switch.format(16 + each, 32 + 2 * each, 33 + 2 * each, 2 * each, 2 * each + 1, 64 + each, each)
            for each in (2 * cpu, 2 * cpu + 1)
        )
        + "</cpu>"
        for cpu in range(2)
    ]
    return '<system version="1">' + "".join(cpus) + "</system>"
