"""The whole run on a GPU, small."""

import io

import torch
from prior_art_case import TINY
from rowloom.prior_art.implementations import MAKERS, make
from rowloom.prior_art.inputs import Case
from rowloom.prior_art.measure import measure
from rowloom.prior_art.progress import Progress


def test_every_number_of_a_gpu_is_there(cuda):
    gpu = torch.device(cuda, 0)
    names = [name for name in MAKERS if name not in ("torch_compile", "rl_kernel")]
    found = measure(make(names, gpu), Case(gpu, 64, "interleaved"), TINY, True, Progress(io.StringIO()))
    assert found.ceilings is not None
    assert set(found.ceilings) == {str(positions) for positions in TINY.positions}
    assert all(speed > 0.0 for ceiling in found.ceilings.values() for speed in ceiling.values())
    for name, result in found.plain.items():
        assert "unavailable" not in result, result
        if name.startswith("rowloom"):
            assert result["batch_invariance"]["batch_invariant"] is True, name
        for at in result["accuracy_latency"].values():
            assert at["fwd_rel_err"] == 0.0
            assert at["host_us"]["fwd"] > 0.0
            assert at["peak_extra_bytes"]["backward"] >= 0
            if name != "rowloom_checked":
                assert at["kernel_us"]["forward"] > 0.0
            if name in ("rowloom", "rowloom_f64"):
                # The plan that the call makes, since what was cached is dropped before.
                assert at["peak_extra_bytes"]["forward"] > 0
                assert at["bwd_planned_us"] > 0.0
                assert at["plan_us"] > 0.0
            if name == "rowloom_f64":
                assert at["correctly_rounded"] == 1.0
