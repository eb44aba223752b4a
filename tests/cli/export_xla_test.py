#!/usr/bin/env python3
"""`reprise export --as xla`: the scheduled module trains to the same bits and is read by jaxlib; keys of buckets reach
the lowered HLO; a compiled module with other buckets is told apart.

REPRISE_JAX_PYTHON names interpreters with JAX, separated by colons; each is asked.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from command_case import ROOT, CommandCase

sys.path.insert(0, str(ROOT / "tests/gpu"))

PROGRAM = ROOT / "data/programs/mlp.2.hlo"
PYTHONS = [each for each in os.environ.get("REPRISE_JAX_PYTHON", "").split(":") if each]
# Two buckets and two alone; members of b0 are in another order than the program's.
BUCKETS = [["all-reduce.147", "all-reduce.135"], ["all-reduce.141", "all-reduce.153"]]
PARSE = """
import sys
from jax_hlo import xla_function
module = xla_function("hlo_module_from_text")(open(sys.argv[1]).read())
print(module.to_string().count("all-reduce-start("))
"""
# A step over two devices whose gradients have the shapes of the plan, in the order of the program.
STEP = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import json, sys
sys.path.insert(0, sys.argv[1])
import jax, numpy, reprise_xla
from jax.sharding import Mesh, PartitionSpec as P
try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map
shapes = [member["shape"] for member in sorted((each for bucket in reprise_xla.PLAN["buckets"]
          for each in bucket["collectives"]), key=lambda each: each["place"])]
grads = [numpy.ones(shape, numpy.float32) for shape in shapes]
step = shard_map(lambda tree: reprise_xla.psum(tree, "data"), mesh=Mesh(numpy.array(jax.devices()), ("data",)),
                 in_specs=P(), out_specs=P())
lowered = jax.jit(step).lower(grads)
compiled = lowered.compile(compiler_options=reprise_xla.compiler_options())
sums = compiled(grads)
print(json.dumps({"hlo": lowered.as_text("hlo"), "options": reprise_xla.compiler_options(), "flags": reprise_xla.xla_flags(),
                  "check": reprise_xla.check(compiled.as_text()), "sums": [float(each.ravel()[0]) for each in sums],
                  "keyed": reprise_xla.knows("combiner_key"), "shapes": shapes}))
"""

# Parameters in halves, gathered, and gradients scattered; the manifest alone says that the outputs are the state.
SHARDED = """HloModule sharded
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
ENTRY step {
  p0 = f32[8,16] parameter(0)
  p1 = f32[4,8] parameter(1)
  w0 = f32[16,16] all-gather(p0), replica_groups={{0,1}}, dimensions={0}
  w1 = f32[8,8] all-gather(p1), replica_groups={{0,1}}, dimensions={0}
  c0 = f32[16,16] cosine(w0)
  c1 = f32[8,8] cosine(w1)
  g0 = f32[8,16] reduce-scatter(c0), replica_groups={{0,1}}, dimensions={0}, to_apply=sum
  g1 = f32[4,8] reduce-scatter(c1), replica_groups={{0,1}}, dimensions={0}, to_apply=sum
  n0 = f32[8,16] subtract(p0, g0)
  n1 = f32[4,8] subtract(p1, g1)
  ROOT out = (f32[8,16], f32[4,8]) tuple(n0, n1)
}
"""
MANIFEST = {"schema": "reprise.manifest/1", "name": "sharded", "program": "sharded.hlo", "ranks": 2,
            "parameters": [{"index": i, "name": f"p{i}", "role": "state",
                            "init": {"kind": "uniform", "seed": i, "scale": 1}} for i in range(2)],
            "outputs": [{"index": i, "role": "state", "parameter": i} for i in range(2)]}


class Xla(CommandCase):
    def exported(self, buckets=None, order=(), fusion=()):
        reduced = buckets or BUCKETS
        plan = {"schema": "reprise.plan/1", "program_fingerprint": self.fingerprint(), "device": "cpu", "ranks": 2,
                "fusion": list(fusion), "order": list(order),
                "buckets": [{"unit": f"b{at}", "collectives": names} for at, names in enumerate(reduced)]}
        out = self.path / "xla"
        self.reprise("export", self.write("plan.json", json.dumps(plan)), "--as", "xla", "--program", PROGRAM, "-o", out,
                     "--force")
        return out

    def fingerprint(self):
        return re.search(r"sha256:\w+", self.reprise("hlo", PROGRAM).stdout)[0]

    def module(self, out):
        """reprise_xla of an exported folder, imported without JAX."""
        found = {"__file__": str(out / "reprise_xla.py")}
        exec(compile((out / "reprise_xla.py").read_text(), "reprise_xla.py", "exec"), found)
        return found

    def trained(self, program):
        told = json.loads(self.reprise("train", "-n", "2", program, "--steps", "3", "--warmup", "0", "--format",
                                       "json").stdout)
        return told["state_hash"], told["loss"]

    def test_the_scheduled_module_trains_to_the_same_bits(self):
        out = self.exported()
        for name in ("mlp.2.json", "digits.bin"):
            shutil.copy(ROOT / "data/programs" / name, out / name.replace("mlp.2", "scheduled"))
        text = (out / "scheduled.hlo").read_text()
        self.assertIn("is_scheduled=true", text)
        # In XLA's own opcodes: what inlining made of a product and a sum is both again.
        self.assertNotIn("multiply-add", text)
        self.assertEqual(self.trained(out / "scheduled.hlo"), self.trained(PROGRAM))

    def test_gathers_and_scatters_of_a_bucket_are_one_instruction_with_the_same_bits(self):
        program = self.write("sharded.hlo", SHARDED)
        self.write("sharded.json", json.dumps(MANIFEST))
        hashes = set()
        for buckets in ([], [["w0", "w1"], ["g1", "g0"]]):
            trace, plan = self.path / "t.trace", self.path / "plan.json"
            self.reprise("train", "-n", "2", program, "--steps", "3", "--trace", trace, "--force")
            self.reprise("optimize", trace, "--no-measure", "--evaluations", "1", "-o", plan, "--force")
            made = json.loads(plan.read_text())
            made.update({"fusion": [], "order": [], "buckets": [
                {"unit": f"b{at}", "collectives": names} for at, names in enumerate(buckets)]})
            plan.write_text(json.dumps(made))
            ran = self.reprise("train", "-n", "2", program, "--steps", "3", "--plan", plan, "--format", "json")
            out = self.path / "sharded"
            self.reprise("export", plan, "--as", "xla", "--program", program, "-o", out, "--force")
            self.write("sharded/scheduled.json", json.dumps(MANIFEST | {"program": "scheduled.hlo"}))
            again = self.reprise("train", "-n", "2", out / "scheduled.hlo", "--steps", "3", "--format", "json")
            hashes |= {json.loads(done.stdout)["state_hash"] for done in (ran, again)}
            text = (out / "scheduled.hlo").read_text()
            for kind in ("all-gather", "reduce-scatter"):
                self.assertEqual(text.count(f" {kind}("), 1 if buckets else 2, text)
            options = self.module(out)["PLAN"]["options"]
            self.assertEqual(options["xla_gpu_all_gather_combine_threshold_bytes"], 4 * (256 + 64) if buckets else 0)
            self.assertEqual(options["xla_gpu_reduce_scatter_combine_threshold_bytes"], 4 * (128 + 32) if buckets else 0)
        self.assertEqual(len(hashes), 1)

    def test_it_has_the_buckets_of_the_plan(self):
        out = self.exported()
        module = self.module(out)
        text = (out / "scheduled.hlo").read_text()
        self.assertEqual(module["check"](text), "")
        sizes = sorted(len(each) for each in module["reductions"](text))
        self.assertEqual(sizes[-3:], [1, 2, 2])
        # Another plan's module is not this plan's, nor is the program itself.
        self.assertIn("bucket b0", module["check"](PROGRAM.read_text()))
        other = self.exported([["all-reduce.147", "all-reduce.141"], ["all-reduce.135", "all-reduce.153"]])
        self.assertIn("bucket b0", module["check"]((other / "scheduled.hlo").read_text()))

    def test_gradients_get_the_keys_of_their_buckets(self):
        module = self.module(self.exported())
        members = {each["name"]: bucket["key"] for bucket in module["PLAN"]["buckets"] for each in bucket["collectives"]}
        self.assertEqual(members["all-reduce.147"], "b0")
        self.assertEqual(members["all-reduce.153"], "b1")
        keys = module["keys"]([([1024, 64], "f32"), ([1024], "f32"), ([1024, 1024], "f32")])
        self.assertEqual(keys, ["b0", "b1", "b0"])
        with self.assertRaisesRegex(ValueError, "another step"):
            module["keys"]([([7], "f32")])

    def test_a_plan_of_another_program_or_of_a_trace_is_refused(self):
        plan = self.write("plan.json", json.dumps({"schema": "reprise.plan/1", "program_fingerprint": "sha256:0",
                                                   "ranks": 2, "fusion": [], "buckets": [], "order": []}))
        done = self.reprise("export", plan, "--as", "xla", "-o", self.path / "x", status=3)
        self.assertIn("--program", done.stderr)
        done = self.reprise("export", plan, "--as", "xla", "--program", PROGRAM, "-o", self.path / "x", status=3)
        self.assertIn("sha256:0", done.stderr)

    @unittest.skipUnless(PYTHONS, "REPRISE_JAX_PYTHON names no interpreter")
    def test_jaxlib_reads_the_scheduled_module(self):
        out = self.exported()
        for python in PYTHONS:
            done = subprocess.run([python, "-c", PARSE, out / "scheduled.hlo"], capture_output=True, text=True, timeout=300,
                                  env=dict(os.environ, PYTHONPATH=str(ROOT / "tests/gpu")))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(int(done.stdout), len(self.module(out)["PLAN"]["buckets"]))

    @unittest.skipUnless(PYTHONS, "REPRISE_JAX_PYTHON names no interpreter")
    def test_keys_reach_the_lowered_hlo_and_options_the_compiler(self):
        out = self.exported()
        tried = 0
        for python in PYTHONS:
            done = subprocess.run([python, "-c", STEP, out], capture_output=True, text=True, timeout=300)
            if "No module named 'jax.experimental.xla_metadata'" in done.stderr:
                continue  # Older than 0.4.36.
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout.splitlines()[-1])
            found = re.findall(r' all-reduce\(.*combiner_key="?([^",}]*)', told["hlo"])
            self.assertEqual(len(found), len(told["shapes"]), python)
            self.assertEqual({key: found.count(key) for key in ("b0", "b1")}, {"b0": 2, "b1": 2})
            self.assertEqual(set(told["sums"]), {2.0})
            bytes_told = told["options"]["xla_gpu_all_reduce_combine_threshold_bytes"]
            # Without keys in this XLA, the largest bucket's size: 1024 x 1024 and 1024 x 64 floats.
            self.assertEqual(bytes_told, 1 << 40 if told["keyed"] else 4 * 1024 * (1024 + 64))
            self.assertIn(f"--xla_gpu_all_reduce_combine_threshold_bytes={bytes_told}", told["flags"])
            # XLA:CPU combines as it likes; what came of it is told, not assumed.
            self.assertIn("bucket", told["check"])
            tried += 1
        if not tried:
            self.skipTest("no interpreter has jax.experimental.xla_metadata")


if __name__ == "__main__":
    unittest.main()
