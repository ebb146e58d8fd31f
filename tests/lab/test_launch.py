"""The launcher's parts that need no rank."""

from __future__ import annotations

import socket

import pytest

from simsys.errors import UsageError
from simsys.lab.launch import LOOPBACK, free_port, loopback_interface


def test_a_free_port() -> None:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, free_port()))


def test_a_port_in_use() -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        with pytest.raises(UsageError, match=r"lab\.port"):
            free_port(other.getsockname()[1])


def test_the_loopback_has_an_interface() -> None:
    assert loopback_interface().startswith("lo")
