"""The door for JAX (0.5 and newer): export a training step, verify it, bring state and plans back.

    import reprise.jax as rj
    rj.export(step, state, x, y, out="run", data=batches)   # then: reprise train -n RANKS run/step.hlo
    print(rj.verify("run"))                                  # 20 steps of both, every tensor
    state = rj.load_state("trained.safetensors", like=state)
    step = rj.apply("plan.json", step, exported="run")       # your own step under the plan
"""

from ..errors import RepriseError
from .applying import apply
from .exporting import Exported, export
from .state import load_state
from .verifying import Verified, verify

__all__ = ["Exported", "RepriseError", "Verified", "apply", "export", "load_state", "verify"]
