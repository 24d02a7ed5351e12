"""The cases of the gated delta rule, shared by its forward, backward and step-by-step kernels.

A layout says how long the sequences are, how wide the heads, how the gates behave and how exact the
results must be; from a seed it makes the arguments.  Each kernel turns layouts into its own cases.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch

from pypto.gym.record import Arguments, Case, Outputs

INF = math.inf
# The largest error of an output by the largest of its golden. Sums of a few hundred products in
# FP32 stay far below; one rounding to BF16 alone is 4e-3 of the element.
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Layout:
    """What the inputs of a case look like.

    `gates` multiplies log gates that are mostly between 0 and −0.3; `closed` sets those of single
    steps.  With `alike`, all keys of a head point nearly the same way and all strengths are 1.
    """

    name: str
    sentence: str
    lengths: tuple[int, ...]
    Nqk: int = 2
    Nv: int = 4
    K: int = 64
    V: int = 64
    chunk: int = 64
    dtype: torch.dtype = torch.float32
    gates: float = 1.0
    closed: tuple[tuple[int, float], ...] = ()
    alike: bool = False
    l2norm: bool = True
    size: Literal["quick", "real"] = "quick"

    @property
    def sizes(self) -> dict[str, int]:
        """The extents, as listings show them."""
        return {
            "N": len(self.lengths), "T": sum(self.lengths), "Nqk": self.Nqk, "Nv": self.Nv,
            "K": self.K, "V": self.V,
        }  # fmt: skip


def random_inputs(layout: Layout, seed: int) -> dict[str, Any]:
    """The arguments of a forward pass; gates and states are always float32."""
    normal = partial(torch.randn, generator=torch.Generator().manual_seed(seed))
    N, T = len(layout.lengths), sum(layout.lengths)
    Nqk, Nv, K, V = layout.Nqk, layout.Nv, layout.K, layout.V
    q, k, v = normal(T, Nqk, K), normal(T, Nqk, K), normal(T, Nv, V)
    beta, initial_state = normal(T, Nv).sigmoid(), normal(N, Nv, K, V)
    g = torch.nn.functional.logsigmoid(normal(T, Nv) + 3.0) * layout.gates
    for step, gate in layout.closed:
        g[step] = gate
    if layout.alike:
        k, beta = normal(1, Nqk, K) + 0.1 * k, torch.ones_like(beta)
    if not layout.l2norm:
        q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    q, k, v, beta = (x.to(layout.dtype) for x in (q, k, v, beta))
    ends = torch.tensor([0, *layout.lengths]).cumsum(0, dtype=torch.int32)
    return {
        "q": q, "k": k, "v": v, "g": g, "beta": beta, "initial_state": initial_state,
        "cu_seqlens": ends, "scale": K**-0.5, "eps": 1e-6, "l2norm": layout.l2norm,
    }  # fmt: skip


def with_output_gradients(layout: Layout, seed: int) -> dict[str, Any]:
    """The arguments of a forward and backward pass."""
    normal = partial(torch.randn, generator=torch.Generator().manual_seed(seed + 1000))
    arguments = random_inputs(layout, seed)
    do = normal(arguments["v"].shape).to(layout.dtype)
    return arguments | {"do": do, "dfinal_state": normal(arguments["initial_state"].shape)}


def case(
    layout: Layout,
    inputs: Callable[[Layout, int], Arguments],
    run: Callable[..., Outputs],
    golden: Callable[..., Outputs],
    outputs: tuple[str, ...],
    chunked: bool = True,
) -> Case:
    """The case of a layout for one kernel; without `chunked` it takes no chunk size."""
    chunk = {"chunk": layout.chunk} if chunked else {}
    return Case(
        name=layout.name,
        sentence=layout.sentence,
        sizes=layout.sizes | chunk,
        inputs=partial(inputs, layout),
        run=partial(run, chunk_size=layout.chunk) if chunked else run,
        golden=golden,
        tolerances=dict.fromkeys(outputs, TOLERANCES[layout.dtype]),
        size=layout.size,
    )


# Closed gates at both ends of a chunk, twice within one, twice in a row across two, ordinary gates
# after each.
CLOSED = (0, 20, 40, 63, 64, 90, 127, 128)

LAYOUTS = (
    Layout("steps_1", "a single step", (1,)),
    Layout("steps_63", "one step less than a chunk", (63,)),
    Layout("steps_64", "just a chunk", (64,)),
    Layout("steps_65", "one step more than a chunk", (65,)),
    Layout("steps_100", "a last chunk that is not full", (100,)),
    Layout("steps_1026", "16 chunks and two steps", (1026,)),
    Layout("three_sequences", "sequences of 57, 2 and 5 steps", (57, 2, 5)),
    Layout("empty_sequences", "no steps first, between and last", (0, 30, 0, 70, 0)),
    Layout("many_sequences", "what a server sees at a time", (1, 130, 64, 1, 1, 7), Nv=2),
    Layout("one_head", "a query head for each value head", (100,), Nqk=2, Nv=2),
    Layout("wide_values", "values wider than keys", (100,), V=128),
    Layout("chunk_32", "small chunks", (100,), chunk=32),
    Layout("chunk_128", "chunks longer than two sequences", (57, 150, 2), chunk=128),
    Layout("unit_keys", "queries and keys that come with length 1", (100,), l2norm=False),
    Layout("alike_keys", "keys nearly alike: the hardest inverse", (130,), gates=0.0, alike=True),
    Layout("no_gate", "every gate 1: the plain delta rule", (100,), gates=0.0),
    Layout("steep_gates", "log gates down to some hundreds below 0", (100,), gates=300.0),
    Layout(
        "closed_gates",
        "log gates of -inf first, twice, and last in a chunk",
        (150, 20),
        closed=tuple((step, -INF) for step in CLOSED),
    ),
    Layout(
        "nearly_closed_gates",
        "log gates of -1e4 at the same places",
        (150, 20),
        closed=tuple((step, -1e4) for step in CLOSED),
    ),
    Layout("all_closed", "every log gate -inf", (70,), closed=tuple((t, -INF) for t in range(70))),
    Layout("bf16", "inputs in bf16", (100, 37), dtype=torch.bfloat16),
    Layout(
        "bf16_closed_gates",
        "inputs in bf16, log gates of -inf",
        (150, 20),
        dtype=torch.bfloat16,
        closed=tuple((step, -INF) for step in CLOSED),
    ),
)
LONG_FORWARD = Layout(
    "steps_32768", "one session of 512 chunks", (32768,), Nqk=1, Nv=1, K=128, V=128, size="real"
)
LONG_BACKWARD = Layout("steps_8192", "one session of 128 chunks", (8192,), Nqk=1, Nv=1, size="real")
# Steps one at a time, as decoding has them: a few for each of many sequences.
DECODING = (
    Layout("decode", "one step for each of eight sequences", (1,) * 8),
    Layout("speculate", "up to four steps for each of five sequences", (4, 1, 0, 3, 2)),
)
