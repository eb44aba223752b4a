#!/usr/bin/env python3
"""State in and out: initial values and batches from tensor files, runs that another run takes up, losses that are no
numbers any more."""

import json
import struct
import sys
import unittest

from command_case import ROOT, CommandCase, reprise

PROGRAMS = ROOT / "data/programs"
CODES = {"F32": "f", "I32": "i", "U32": "I", "BF16": "H", "BOOL": "?", "F64": "d"}

# One step: w -= 0.5 * mean over ranks of x; count += 1; own += x[0:2]; half, key and mask move on too.
STEP = """HloModule step

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }

ENTRY main {
  w = f32[4] parameter(0)
  count = s32[] parameter(1)
  own = f32[2] parameter(2)
  half = bf16[2] parameter(3)
  key = u32[2] parameter(4)
  x = f32[4] parameter(5)
  frozen = f64[] parameter(6)
  one = s32[] constant(1)
  next_count = s32[] add(count, one)
  sum = f32[4] all-reduce(x), replica_groups={}, to_apply=add
  scale = f32[] constant(SCALE)
  scales = f32[4] broadcast(scale), dimensions={}
  move = f32[4] multiply(sum, scales)
  next_w = f32[4] subtract(w, move)
  front = f32[2] slice(x), slice={[0:2]}
  next_own = f32[2] add(own, front)
  next_half = bf16[2] convert(next_own)
  ones = u32[] constant(4000000000)
  many = u32[2] broadcast(ones), dimensions={}
  next_key = u32[2] add(key, many)
  squares = f32[4] multiply(next_w, next_w)
  zero = f32[] constant(0)
  loss = f32[] reduce(squares, zero), dimensions={0}, to_apply=add
  ROOT out = (f32[4], s32[], f32[2], bf16[2], u32[2], f32[]) tuple(next_w, next_count, next_own, next_half, next_key, loss)
}
"""


def write_safetensors(path, tensors):
    """`tensors`: name -> (type, shape, values)."""
    header, data = {}, b""
    for name, (kind, shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}{CODES[kind]}", *values)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    data = path.read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, stop = entry["data_offsets"]
        code = CODES[entry["dtype"]]
        raw = data[end + begin:end + stop]
        tensors[name] = (entry["dtype"], entry["shape"],
                         list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)))
    return tensors, header.get("__metadata__", {})


class State(CommandCase):
    def setUp(self):
        super().setUp()
        self.x = [[[float(step + 10 * rank + i) for i in range(4)] for rank in range(2)] for step in range(3)]

    def write_step(self, scale="0.25", **change):
        """The step for two ranks with its tensors; `change` replaces some of these."""
        self.write("step.hlo", STEP.replace("SCALE", scale))
        tensors = {
            "w": ("F32", [4], [1.0, 2.0, 3.0, 4.0]), "count": ("I32", [], [7]),
            "own": ("F32", [2, 2], [0.0, 1.0, 100.0, 101.0]), "half": ("BF16", [2], [0x3f80, 0x4000]),
            "key": ("U32", [2], [1, 4294967295]), "frozen": ("F64", [], [0.5]),
            "x": ("F32", [3, 2, 4], [v for step in self.x for rank in step for v in rank])}
        tensors.update(change)
        write_safetensors(self.path / "data.safetensors", tensors)

        def state(index, name, **more):
            return {"index": index, "name": name, "role": "state",
                    "init": {"kind": "tensor", "file": "data.safetensors", "name": name, **more}}

        manifest = {
            "schema": "reprise.manifest/1", "name": "step", "program": "step.hlo", "ranks": 2,
            "parameters": [state(0, "w"), state(1, "count"), state(2, "own", per_rank=True),
                           state(3, "half", per_rank=True) if tensors["half"][1] == [2, 2] else state(3, "half"),
                           state(4, "key"), {"index": 5, "name": "x", "role": "batch", "field": "x"},
                           state(6, "frozen")],
            "outputs": [{"index": i, "role": "state", "parameter": i} for i in range(5)] +
                       [{"index": 5, "role": "loss"}],
            "dataset": {"kind": "tensors", "file": "data.safetensors", "steps": 3,
                        "fields": [{"name": "x", "tensor": "x"}]}}
        self.write("step.json", json.dumps(manifest))
        return self.path / "step.hlo"

    def train(self, program, *arguments, status=0):
        done = reprise("train", program, "--warmup", 0, "--format", "json", *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def test_tensors_of_every_type_come_in_and_go_out(self):
        program = self.write_step(half=("BF16", [2, 2], [0x3f80, 0x4000, 0, 0]))
        out = self.path / "out.safetensors"
        self.train(program, "-n", 2, "--steps", 4, "--dump-state", out)
        tensors, metadata = read_safetensors(out)
        self.assertEqual(metadata["steps"], "4")
        self.assertEqual(list(tensors), ["w", "count", "own", "half", "key", "frozen"])
        w, own = [1.0, 2.0, 3.0, 4.0], [[0.0, 1.0], [100.0, 101.0]]
        for step in range(4):  # The fourth batch is the first again.
            x = self.x[step % 3]
            w = [a - 0.25 * (b + c) for a, b, c in zip(w, *x)]
            own = [[a + b for a, b in zip(mine, mine_x)] for mine, mine_x in zip(own, x)]
        self.assertEqual(tensors["w"], ("F32", [4], w))
        self.assertEqual(tensors["count"], ("I32", [], [11]))
        self.assertEqual(tensors["own"], ("F32", [2, 2], own[0] + own[1]))
        self.assertEqual(tensors["key"], ("U32", [2], [(v + 4 * 4000000000) % 2**32 for v in (1, 2**32 - 1)]))
        self.assertEqual(tensors["half"][:2], ("BF16", [2, 2]))
        self.assertEqual(tensors["frozen"], ("F64", [], [0.5]))

    def test_a_run_is_taken_up_where_it_ended_bit_for_bit(self):
        program = self.write_step(half=("BF16", [2, 2], [0x3f80, 0x4000, 0, 0]))
        whole = self.train(program, "-n", 2, "--steps", 5, "--dump-state", self.path / "whole.safetensors")
        for suffix in ("npz", "safetensors"):
            half, rest = self.path / f"half.{suffix}", self.path / "rest.safetensors"
            first = self.train(program, "-n", 2, "--steps", 2, "--dump-state", half)
            second = self.train(program, "-n", 2, "--steps", 3, "--state", half, "--dump-state", rest, "--force")
            self.assertEqual(rest.read_bytes(), (self.path / "whole.safetensors").read_bytes())
            self.assertEqual(first["loss"] + second["loss"], whole["loss"])
            self.assertEqual(second["state_hash"], whole["state_hash"])

    def test_shipped_programs_are_taken_up_bit_for_bit(self):
        for name, ranks, steps in (("mlp", 1, 20), ("mlp", 2, 20), ("gpt", 1, 4), ("gpt", 2, 4)):
            with self.subTest(name, ranks=ranks):
                program = PROGRAMS / f"{name}.{ranks}.hlo"
                paths = [self.path / f"{name}.{ranks}.{part}.safetensors" for part in ("whole", "half", "rest")]
                whole = self.train(program, "-n", ranks, "--steps", steps, "--dump-state", paths[0])
                self.train(program, "-n", ranks, "--steps", steps // 2, "--dump-state", paths[1])
                rest = self.train(program, "-n", ranks, "--steps", steps // 2, "--state", paths[1],
                                  "--dump-state", paths[2])
                self.assertEqual(paths[2].read_bytes(), paths[0].read_bytes())
                self.assertEqual(rest["loss"], whole["loss"][steps // 2:])

    def test_state_that_does_not_fit_is_refused_before_ranks_start(self):
        program = self.write_step()
        write_safetensors(self.path / "other.safetensors",
                          {"w": ("F32", [5], [0.0] * 5), "own": ("F32", [2], [0.0] * 2), "count": ("F32", [], [1.0])})
        said = self.train(program, "-n", 2, "--state", self.path / "other.safetensors", status=3)
        for words in ("'w' of ", "is f32[5], the program's is f32[4]", "'own' of ", "f32[2,2] (2 ranks first)",
                      "is f32[], the program's is s32[]", "has no 'half'", "and 1 more"):
            self.assertIn(words, said)
        self.assertNotIn("mpirun", said)
        said = self.train(PROGRAMS / "mlp.1.hlo", "--verify", "--state", self.path / "other.safetensors", status=2)
        self.assertIn("leave --state out", said)
        self.write_step(x=("F32", [3, 1, 4], [0.0] * 12))
        said = self.train(program, "-n", 2, status=3)
        self.assertIn("'x' is f32[3,1,4], the program's is f32[3,2,4]: steps, ranks, and the batch of one rank", said)

    def test_an_old_state_is_kept_unless_forced(self):
        out = self.write("out.npz", "old")
        said = self.train(self.write_step(), "-n", 2, "--dump-state", out, status=3)
        self.assertIn("--force", said)
        self.assertEqual(out.read_text(), "old")

    def test_state_that_differs_by_rank_without_saying_so_is_refused(self):
        program = self.write_step()
        said = self.train(program, "-n", 2, "--steps", 1, status=3)  # half becomes what own is.
        self.assertIn("rank 1 ends with another 'half' than rank 0", said)
        self.assertIn("per_rank", said)

    def test_a_loss_that_is_no_number_stops_the_run_with_its_unit(self):
        change = {"half": ("BF16", [2, 2], [0] * 4)}
        program = self.write_step("1e19", **change)
        out = self.path / "out.npz"
        said = self.train(program, "-n", 2, "--steps", 50, "--dump-state", out, status=3)
        # w grows to 1e20 in the first step; its squares leave f32.
        self.assertIn("step 1 of this run: the loss is not finite; the first that gave an infinity: ", said)
        self.assertIn("squares", said)
        self.assertFalse(out.exists())
        went_on = self.train(program, "-n", 2, "--steps", 5, "--allow-nan", "--dump-state", out)
        self.assertEqual(len(went_on["loss"]), 5)
        self.assertTrue(out.exists())
        nan = struct.unpack("<f", struct.pack("<I", 0x7fc00000))[0]
        # State that is NaN from the start, and nothing of the loss's, is not why.
        program = self.write_step("1e19", own=("F32", [2, 2], [nan] * 4), **change)
        said = self.train(program, "-n", 2, "--steps", 5, status=3)
        self.assertIn("the first that gave an infinity: ", said)
        self.assertNotIn("NaN", said)
        x = [1.0] * 24
        x[2 * 8] = nan  # Step 3, rank 0.
        program = self.write_step(x=("F32", [3, 2, 4], x), **change)
        said = self.train(program, "-n", 2, "--steps", 50, status=3)
        self.assertIn("step 3 of this run: the loss is not finite; the first unit that gave NaN: ", said)

    def test_a_skeleton_says_that_its_data_is_missing_and_can_be_timed(self):
        program = self.write("plain.hlo", STEP.replace("SCALE", "0.1").replace("replica_groups={}",
                                                                               "replica_groups={{0,1}}"))
        done = reprise("hlo", program, "--manifest", "-o", self.path / "plain.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = self.train(program, "-n", 2, status=3)
        self.assertIn("'FILL_IN' is the skeleton's placeholder", said)
        self.train(program, "-n", 2, "--steps", 2, "--made-up-data")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
