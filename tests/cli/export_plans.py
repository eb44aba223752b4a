"""A plan that the tests of `reprise export` share."""

import json

from command_case import CommandCase

# export_torch_worker.py's model, in the order in which backward makes gradients.
GRADIENTS = [("side.bias", [8]), ("side.weight", [8, 64]), ("last.bias", [8]), ("last.weight", [8, 64]),
             ("attention.out_proj.bias", [64]), ("attention.out_proj.weight", [64, 64]),
             ("attention.in_proj_bias", [192]), ("attention.in_proj_weight", [192, 64]),
             ("first.bias", [64]), ("first.weight", [64, 64])]


def bytes_of(shape):
    size = 4
    for extent in shape:
        size *= extent
    return size


def plan_of(buckets):
    """A plan of the model whose buckets hold so many gradients each, in ready order."""
    gradients = [{"name": f"gradient.{place}", "type": "float", "shape": "x".join(map(str, shape)),
                  "bytes": bytes_of(shape)} for place, (_, shape) in enumerate(GRADIENTS)]
    planned, at = [], 0
    for count in buckets:
        planned.append({"unit": f"b{len(planned)}", "collectives": [each["name"] for each in gradients[at:at + count]]})
        at += count
    return {"schema": "reprise.plan/1", "trace_fingerprint": "sha256:" + 64 * "0", "gradients": gradients,
            "single_cap": {"bytes": 4096, "step_time_ns": 110}, "device": "cpu", "ranks": 2, "fusion": [],
            "buckets": planned,
            "predicted": {"step_time_ns": 100, "baselines": {"ddp": 120}, "lower_bound_ns": 90, "gap": 0.1}}


class PlanCase(CommandCase):
    BUCKETS = [4, 2, 4]

    def setUp(self):
        super().setUp()
        self.plan = self.write("plan.json", json.dumps(plan_of(self.BUCKETS)))
