#!/usr/bin/env python3
"""`reprise export --as chakra`: read back by our reader with the same work and time, and by Chakra's own schema."""

import collections
import csv
import io
import json
import os
import pathlib
import subprocess
import unittest

from command_case import ROOT, CommandCase
from foreign_python import python_with

INPUTS = ROOT / "tests/golden/export_pge"
SHARED = pathlib.Path(os.environ.get("REPRISE_TRACES", ROOT.parent / "shared/traces"))
DLRM = SHARED / "kineto/dlrm_v100_8ranks/dlrm_kineto.tar.gz"
READ = """
import json, sys
from chakra.schema.protobuf.et_def_pb2 import GlobalMetadata, Node
from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd
file, head, told = openFileRd(sys.argv[1]), GlobalMetadata(), []
decodeMessage(file, head)
node = Node()
while decodeMessage(file, node):
    attributes = {each.name: getattr(each, each.WhichOneof("value")) for each in node.attr}
    told.append([node.id, node.name, node.type, node.duration_micros, list(node.ctrl_deps) + list(node.data_deps), attributes])
    node = Node()
print(json.dumps([head.version, told]))
"""


def fields(data):
    """(number, value) of a protobuf message's fields; of those with a length, their bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        value = varint()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def nodes_of(file):
    """[{id, name, microseconds, control, data, attributes}] of an .et file, whose messages follow their lengths."""
    data, at, nodes = file.read_bytes(), 0, []
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        told = list(fields(data[at:at + size]))
        at += size
        attributes = {}
        for number, value in told:
            if number == 10:
                (_, name), (kind, word) = fields(value)
                attributes[name.decode()] = kind, word
        first = dict(told)
        nodes.append({"id": first.get(1), "name": first.get(2), "type": first.get(3), "micros": first.get(7, 0),
                      "control": [value for number, value in told if number == 4],
                      "data": [value for number, value in told if number == 5], "attributes": attributes})
    return nodes[1:]


def fed_us(nodes):
    """When the last node ends as MLCommons' ETFeeder hands them out, which waits for data dependencies alone."""
    ends, left = {}, nodes
    while left:
        ready = [node for node in left if all(cause in ends for cause in node["data"])]
        assert ready, "a cycle"
        for node in ready:
            ends[node["id"]] = max((ends[cause] for cause in node["data"]), default=0) + node["micros"]
        left = [node for node in left if node["id"] not in ends]
    return max(ends.values())


def rounded(time_ns):
    return (int(time_ns) + 500) // 1000


class Chakra(CommandCase):
    def exported(self, *inputs):
        self.reprise("import", *inputs, "-o", self.trace)
        out = self.path / "chakra"
        self.reprise("export", self.trace, "--as", "chakra", "-o", out)
        again = self.path / "again.trace"
        self.reprise("import", *sorted(out.glob("*.et")), "-o", again)
        return out, again

    def rows(self, trace):
        return list(csv.DictReader(io.StringIO(self.reprise("export", trace, "--as", "csv", "-o", "-").stdout)))

    def device_work(self, trace):
        """[(rank, name, collective or not)] of what ran on devices' streams."""
        work = collections.Counter()
        for row in self.rows(trace):
            if row["kind"] in ("compute", "collective", "copy", "memset"):
                work[row["rank"], row["name"], row["kind"] == "collective"] += 1
        return work

    def step_ns(self, trace):
        told = json.loads(self.reprise("replay", trace, "--format", "json").stdout)
        return told["step_time_ns"]["predicted"]

    def test_the_same_work_comes_back(self):
        out, again = self.exported(*sorted(INPUTS.glob("rank*.json")))
        self.assertEqual(self.device_work(again), self.device_work(self.trace))
        self.assertEqual(json.loads((out / "comm_groups.json").read_text()), {"0": [0, 1]})

    def test_collectives_have_kind_size_and_group(self):
        _, again = self.exported(*sorted(INPUTS.glob("rank*.json")))
        for trace in (self.trace, again):
            told = json.loads(self.reprise("analyze", trace, "--format", "json").stdout)["collectives"]
            kinds = [(each["op"], each["bytes"]) for each in told]
            self.assertEqual(collections.Counter(kinds), {("all-gather", 16384): 2, ("all-reduce", 4000): 2})

    def test_one_step_is_asked_for(self):
        self.reprise("import", *sorted(INPUTS.glob("rank*.json")), "-o", self.trace)
        self.reprise("export", self.trace, "--as", "chakra", "--step", "1", "-o", self.path / "step")
        self.reprise("import", *sorted((self.path / "step").glob("*.et")), "-o", self.path / "again.trace")
        self.assertEqual(sum(collective for (_, _, collective), count in
                             self.device_work(self.path / "again.trace").items() for _ in range(count)), 4)
        done = self.reprise("export", self.trace, "--as", "chakra", "--step", "9", "-o", self.path / "none", status=3)
        self.assertIn("9", done.stderr)

    @unittest.skipUnless(DLRM.exists(), f"no {DLRM}")
    def test_eight_ranks_of_dlrm_replay_as_long(self):
        _, again = self.exported(DLRM)
        self.assertEqual(self.device_work(again), self.device_work(self.trace))
        before, after = self.step_ns(self.trace), self.step_ns(again)
        self.assertLess(abs(after / before - 1), 0.02)

    def test_a_feeder_that_waits_for_data_alone_takes_as_long(self):
        out, again = self.exported(*sorted(INPUTS.glob("rank*.json")))
        # Each rank's files hold its waits for others: the longest rank is the step. A node rounds twice.
        longest = max(fed_us(nodes_of(file)) for file in sorted(out.glob("*.et")))
        self.assertLess(abs(1000 * longest - self.step_ns(again)), 2000)

    def test_messages_say_from_whom_to_whom_as_a_feeder_reads_it(self):
        """ETFeederNode reads comm_src, comm_dst and comm_tag as int32, field 7, and the simulator asks for all three."""
        for rank, (op, peer) in enumerate((("send", "Dst Rank"), ("recv", "Src Rank"))):
            told = {"Collective name": op, peer: 1 - rank, "Group size": 2, "Process Group Ranks": "[0, 1]",
                    "dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000, "Process Group Name": "0"}
            events = [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": 10,
                       "dur": 5, "args": {"correlation": 4}},
                      {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
                       "pid": rank, "tid": 7, "ts": 20, "dur": 100,
                       "args": {"correlation": 4, "stream": 7, "device": rank, **told}}]
            (self.path / f"rank{rank}.json").write_text(json.dumps(
                {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}))
        out, _ = self.exported(*(self.path / f"rank{rank}.json" for rank in (0, 1)))
        for rank in (0, 1):
            attributes, = [node["attributes"] for node in nodes_of(out / f"step.{rank}.et") if node["type"] == 5 + rank]
            self.assertEqual([attributes[name] for name in ("comm_src", "comm_dst", "comm_tag")], [(7, 0), (7, 1), (7, 0)])
            self.assertEqual(attributes["comm_size"], (9, 4000))

    def test_chakras_own_jsonizer_and_visualizer_read_it(self):
        python = python_with("chakra", "REPRISE_CHAKRA_PYTHON")
        if python is None:
            self.skipTest("no Python with chakra; REPRISE_CHAKRA_PYTHON=PYTHON names one")
        out, _ = self.exported(*sorted(INPUTS.glob("rank*.json")))
        for rank in (0, 1):
            file = out / f"step.{rank}.et"
            for tool, end in (("jsonizer", "json"), ("visualizer", "graphml")):
                words = [python, "-m", f"chakra.src.{tool}.{tool}", "--input_filename", file,
                         "--output_filename", f"{file}.{end}"]
                done = subprocess.run(words, capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stderr)
            text, told, decoder = pathlib.Path(f"{file}.json").read_text(), [], json.JSONDecoder()
            while text:
                one, end = decoder.raw_decode(text)
                told.append(one)
                text = text[end:]
            ours = nodes_of(file)
            self.assertEqual([(int(node["id"]), int(node.get("durationMicros", 0)), [int(each) for each in node["dataDeps"]]
                               if "dataDeps" in node else []) for node in told[1:]],
                             [(node["id"], node["micros"], node["data"]) for node in ours])
            self.assertEqual(pathlib.Path(f"{file}.graphml").read_text().count("<edge "), sum(len(node["data"]) for node in ours))

    def test_chakras_own_schema_reads_it(self):
        python = python_with("chakra", "REPRISE_CHAKRA_PYTHON")
        if python is None:
            self.skipTest("no Python with chakra; REPRISE_CHAKRA_PYTHON=PYTHON names one")
        out, again = self.exported(*sorted(INPUTS.glob("rank*.json")))
        done = subprocess.run([python, "-c", READ, out / "step.0.et"], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        version, nodes = json.loads(done.stdout)
        self.assertEqual(version, "0.0.4")
        ours = [row for row in self.rows(again) if row["rank"] == "0"]
        self.assertEqual(collections.Counter(node[1] for node in nodes), collections.Counter(row["name"] for row in ours))
        ids = {node[0] for node in nodes}
        self.assertEqual(len(ids), len(nodes))
        self.assertTrue(all(cause in ids for node in nodes for cause in node[4]))
        self.assertEqual([node[5]["comm_type"] for node in nodes if node[2] == 7], [2, 0, 2, 0])


class Planned(CommandCase):
    """Of a plan: its predicted step, which our replay of the files gives again."""

    RUN, SAMPLE = ROOT / "tests/golden/traces/run.trace", ROOT / "data/samples/kineto"

    def exported(self, plan, *more):
        out = self.path / "chakra"
        self.reprise("export", plan, "--as", "chakra", "-o", out, *more)
        again = self.path / "again.trace"
        self.reprise("import", *sorted(out.glob("*.et")), "-o", again, "--force")
        replayed = json.loads(self.reprise("replay", again, "--format", "json").stdout)["step_time_ns"]["predicted"]
        analysis = json.loads(self.reprise("analyze", again, "--format", "json").stdout)
        return out, replayed, [(each["op"], each["bytes"]) for each in analysis["collectives"]]

    def check_gap(self, replayed, predicted):
        # Starts and ends are rounded to microseconds, each from the true time.
        self.assertLess(abs(replayed - predicted), 2000 + 1e-3 * predicted)

    def test_of_a_program_its_units_under_the_plan(self):
        if not self.RUN.exists():
            self.skipTest("no recorded run")
        steps, buckets = {}, {}
        for baseline in ("none", "ddp"):
            plan = self.path / f"{baseline}.json"
            self.reprise("optimize", self.RUN, "--no-measure", "--baseline", baseline, "-o", plan)
            told = json.loads(self.reprise("replay", self.RUN, "--plan", plan, "--format", "json").stdout)
            out, steps[baseline], collectives = self.exported(plan, "--trace", self.RUN, "--force")
            self.check_gap(steps[baseline], told["step_time_ns"]["predicted"])
            self.assertEqual({path.name for path in out.iterdir()}, {"comm_groups.json", "step.0.et", "step.1.et"})
            self.assertEqual(json.loads((out / "comm_groups.json").read_text()), {"0": [0, 1]})
            buckets[baseline] = len(collectives)
        self.assertGreater(buckets["none"], buckets["ddp"])

    def test_of_a_pytorch_job_a_collective_a_bucket(self):
        plan = self.path / "plan.json"
        self.reprise("optimize", self.SAMPLE, "--only", "buckets", "-o", plan)
        told = json.loads(plan.read_text())
        bytes_of = {each["name"]: each["bytes"] for each in told["gradients"]}
        # Three buckets that nobody recorded.
        names = list(bytes_of)
        told["buckets"] = [{"unit": f"b{at}", "collectives": part}
                           for at, part in enumerate((names[:2], names[2:5], names[5:]))]
        plan.write_text(json.dumps(told))
        out, replayed, collectives = self.exported(plan, "--trace", self.SAMPLE)
        self.assertEqual(collectives, [("all-reduce", sum(bytes_of[name] for name in bucket["collectives"]))
                                       for bucket in told["buckets"]])
        advice = self.reprise("export", plan, "--as", "chakra", "--trace", self.SAMPLE, "-o", self.path / "b").stderr
        step_ms = float(advice.split("predicted: a step of ")[1].split(" ms")[0])
        self.check_gap(replayed, 1e6 * step_ms)

    def test_the_plan_as_it_was_found_takes_the_time_that_it_states(self):
        plan = self.path / "plan.json"
        self.reprise("optimize", self.SAMPLE, "--only", "buckets", "-o", plan)
        _, replayed, _ = self.exported(plan, "--trace", self.SAMPLE)
        self.check_gap(replayed, json.loads(plan.read_text())["predicted"]["step_time_ns"])

    def test_what_is_missing_is_asked_for(self):
        plan, out = self.path / "plan.json", self.path / "x"
        self.reprise("optimize", self.SAMPLE, "--only", "buckets", "-o", plan)
        for words, told in ((["--trace", self.SAMPLE, "--step", "1"], "a plan of one step: --step is for a trace"),
                            ([], "plan.json is a plan: chakra needs the recording that it was made of too, --trace")):
            done = self.reprise("export", plan, "--as", "chakra", "-o", out, *words, status=3)
            self.assertIn(told, done.stderr)
        done = self.reprise("export", self.SAMPLE, "--as", "chakra", "-o", out, "--trace", self.SAMPLE, status=3)
        self.assertIn("--trace and --costs are for a plan", done.stderr)
        self.assertFalse(out.exists())

    def test_a_recording_of_something_else_is_refused(self):
        plan = self.path / "plan.json"
        self.reprise("optimize", self.SAMPLE, "--only", "buckets", "-o", plan)
        told = json.loads(plan.read_text())
        told["gradients"][0]["bytes"] *= 2
        plan.write_text(json.dumps(told))
        done = self.reprise("export", plan, "--as", "chakra", "-o", self.path / "x", "--trace", self.SAMPLE, status=3)
        self.assertIn("the gradients of", done.stderr)
        if self.RUN.exists():
            self.reprise("optimize", self.RUN, "--no-measure", "--baseline", "ddp", "-o", plan, "--force")
            done = self.reprise("export", plan, "--as", "chakra", "-o", self.path / "x", "--trace", self.SAMPLE, status=3)
            self.assertIn("no program", done.stderr)


if __name__ == "__main__":
    unittest.main()
