"""Ends the process with status 0. Must be refused with verify::no_result."""

import os

import torch

__all__ = ["scaled_norm"]


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    os._exit(0)
