#!/usr/bin/env python3
"""What the package does without JAX and without numpy: HLO text, the map, roles, plans, manifests."""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cli" / "python"))
# pylint: disable=wrong-import-position
from reprise import RepriseError, hlo, manifest, mapping, plan, roles

MODULE = """HloModule jit_step, num_partitions=2, entry_computation_layout={(f32[2,3]{1,0})->(f32[2,3]{1,0})}

FileNames
1 "step.py"

%add.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main.9 (p0: f32[2,3], p1: f32[2,3], p2: f32[4]) -> (f32[2,3], f32[2,3], f32[]) {
  %p0 = f32[2,3]{1,0} parameter(0)
  %p1 = f32[2,3]{1,0} parameter(1), metadata={op_name="state[\\'w\\']"}
  %p2 = f32[4]{0} parameter(2)
  %psum.1 = f32[6]{0} all-reduce(%r0), channel_id=1, to_apply=%add.1, metadata={op_name="jit(step)/b/psum"}
  %psum.2 = (f32[2,3]{1,0}, /*index=1*/f32[2,3]{0,1}) all-reduce(%p0, %p1), to_apply=%add.1
  %x = f32[2,3]{1,0} get-tuple-element(%psum.2), index=0
  %y = f32[2,3]{0,1} get-tuple-element(%psum.2), index=1
  %s = f32[2,3]{1,0} reshape(%psum.1)
  %t = (f32[2,3]{1,0}, f32[2,3]{1,0}) tuple(%s, %x)
  %u = f32[2,3]{1,0} get-tuple-element(%t), index=0
  %v = f32[2,3]{1,0} get-tuple-element(%t), index=1
  %n = f32[] reduce(%y, %zero), dimensions={0,1}, to_apply=%add.1
  ROOT %out = (f32[2,3]{1,0}, f32[2,3]{1,0}, f32[]) tuple(%u, %v, %n)
}
"""


CHAINS = """HloModule m, num_partitions=2

ENTRY %e (x: f32[4], y: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %y = f32[4]{0} parameter(1)
  %x.0 = f32[4]{0} all-reduce(%x), to_apply=%add
  %y.0 = f32[4]{0} all-reduce(%y), to_apply=%add
  %y.1 = f32[4]{0} all-reduce(%y.0), to_apply=%add
  %x.1 = f32[4]{0} all-reduce(%x.0), to_apply=%add
  ROOT %r = f32[4]{0} subtract(%x.1, %y.1)
}
"""

SLICES = """HloModule m, num_partitions=2

ENTRY main {
  p = f32[1,4]{1,0} parameter(0)
  q = f32[1,4]{1,0} parameter(1)
  sent = (f32[1,4]{1,0}, f32[1,4]{1,0}) all-to-all(p, q), channel_id=1, replica_groups={{0,1}}
  u = f32[1,4]{1,0} get-tuple-element(sent), index=0
  v = f32[1,4]{1,0} get-tuple-element(sent), index=1
  ROOT r = f32[2,4]{1,0} concatenate(u, v), dimensions={0}
}
"""


def equation(number, results, *, operand=0, shape=(2, 3), scope="", primitive="psum", before=()):
    return {"equation": number, "operand": operand, "kind": mapping.KINDS[primitive], "primitive": primitive,
            "axes": ["data"], "type": "f32", "shape": list(shape), "count": hlo.count(shape), "region": "", "entry": True,
            "scope": scope, "source": "step.py:1", "results": set(results), "before": frozenset(before)}


def mapped(*entries):
    return {"collectives": [{"collective": name, "kind": kind, "type": "f32", "equation": number, "operand": 0,
                             "merged": list(merged)} for name, kind, number, merged in entries], "equations": []}


class Hlo(unittest.TestCase):
    def test_a_module_is_read_with_tables_comments_and_tuples(self):
        module = hlo.parse(MODULE)
        self.assertEqual(module.ranks(), 2)
        self.assertEqual(module.entry, "main.9")
        self.assertEqual(module.parameters(), [("f32", [2, 3]), ("f32", [2, 3]), ("f32", [4])])
        self.assertEqual(module.results(), ["u", "v", "n"])
        self.assertEqual([c.name for c in module.collectives()], ["psum.1", "psum.2"])

    def test_elements_of_a_constant_are_no_operands(self):
        table = '  %table = f32[2,2]{1,0} constant({ { 1, 2 }, { (3), 4 } }), metadata={op_name="jit(step)/a"}\n'
        module = hlo.parse(MODULE.replace("  %p2 =", table + "  %p2 ="))
        made = {instruction.name: instruction for instruction in module.instructions[module.entry]}
        self.assertEqual((made["table"].opcode, made["table"].operands), ("constant", []))
        self.assertIn('op_name="jit(step)/a"', made["table"].text)
        self.assertEqual(made["n"].operands, ["y", "zero"])

    def test_short_text_as_jax_0_4_dumps_it_reads_the_same(self):
        short = re.sub(r" \([^()]*\) -> .* \{", " {", MODULE.replace("%", ""))
        module = hlo.parse(short)
        self.assertEqual((module.entry, module.results()), ("main.9", ["u", "v", "n"]))
        self.assertEqual([c.name for c in module.collectives()], ["psum.1", "psum.2"])

    def test_elements_of_tuples_as_jaxlib_0_12_prints_them_read_the_same(self):
        kept = [line for line in MODULE.splitlines() if not line.startswith(("  %u =", "  %v =", "  %y ="))]
        text = "\n".join(kept).replace("%u, %v", "%t#0, f32[2,3]{1,0} %t#1").replace("%y, %zero", "%psum.2#1, %zero")
        modules = [hlo.parse(MODULE), hlo.parse(text)]
        found = [{c["collective"]: c["results"] for c in mapping.operands_of(module)} for module in modules]
        self.assertEqual(found[0], found[1])
        self.assertEqual(modules[1].results(), ["t#0", "t#1", "n"])

    def test_a_collective_reaches_results_through_reshapes_and_tuples_but_not_through_a_sum(self):
        found = {c["collective"]: c["results"] for c in mapping.operands_of(hlo.parse(MODULE))}
        self.assertEqual(found, {"psum.1": {0}, "psum.2:0": {1}, "psum.2:1": set()})


class Map(unittest.TestCase):
    def test_pairs_follow_the_results_that_are_reached_not_the_order(self):
        equations = [equation(0, {1}), equation(1, {0}), equation(2, set())]
        built = mapping.build(hlo.parse(MODULE), equations, ["a", "b", "loss"])
        self.assertEqual([(e["collective"], e["equation"], e["reaches"]) for e in built["collectives"]],
                         [("psum.1", 1, ["a"]), ("psum.2:0", 0, ["b"]), ("psum.2:1", 2, [])])

    def test_an_equation_that_xla_merged_into_another_is_listed_there(self):
        equations = [equation(0, {1}), equation(1, {0}), equation(2, set()), equation(3, {0})]
        built = mapping.build(hlo.parse(MODULE), equations, ["a", "b", "loss"])
        self.assertEqual([e["merged"] for e in built["collectives"]], [[[3, 0]], [], []])

    def test_chains_of_equal_collectives_are_paired_by_what_they_wait_for(self):
        chains = [equation(0, {0}, shape=(4,)), equation(1, {0}, shape=(4,), before=[0]),
                  equation(2, {0}, shape=(4,)), equation(3, {0}, shape=(4,), before=[2])]
        built = mapping.build(hlo.parse(CHAINS), chains, ["r"])
        self.assertEqual([(e["collective"], e["equation"]) for e in built["collectives"]],
                         [("x.0", 0), ("y.0", 2), ("y.1", 3), ("x.1", 1)])

    def test_the_arrays_of_an_all_to_all_are_slices_of_one_operand(self):
        equations = [equation(0, set(), shape=(2, 4), primitive="all_to_all")]
        built = mapping.build(hlo.parse(SLICES), equations, ["r"])
        self.assertEqual([(e["collective"], e["equation"]) for e in built["collectives"]], [("sent", 0)])

    def test_a_collective_of_partitioning_has_no_equation(self):
        built = mapping.build(hlo.parse(MODULE), [], ["a", "b", "loss"])
        self.assertEqual([e["equation"] for e in built["collectives"]], [None, None, None])


class Plans(unittest.TestCase):
    MAP = mapped(("psum.1", "all-reduce", 3, []), ("psum.2", "all-reduce", 0, [[7, 0]]), ("ag.1", "all-gather", 1, []),
                 ("psum.3", "all-reduce", 2, []))

    def plan(self, buckets, order=()):
        return {"schema": "reprise.plan/1", "buckets": buckets, "order": list(order)}

    def names(self, plan_json):
        return [(b.name, b.members, b.chunks) for b in plan.buckets(plan_json, self.MAP).buckets]

    def test_all_reduces_in_no_bucket_run_by_themselves(self):
        found = self.names(self.plan([{"unit": "b0", "collectives": ["psum.1", "psum.3:0"], "chunks": 2}]))
        self.assertEqual(found, [("psum.2", [(0, 0)], 1), ("b0", [(3, 0), (2, 0)], 2)])

    def test_the_order_of_the_plan_is_kept_chunks_together(self):
        found = self.names(self.plan([{"unit": "b0", "collectives": ["psum.1", "psum.2"], "chunks": 2}],
                                     ["psum.3", "dot.1", "b0#0", "b0#1"]))
        self.assertEqual([name for name, _, _ in found], ["psum.3", "b0"])

    def test_a_merged_equation_takes_its_members_result(self):
        found = plan.buckets(self.plan([]), self.MAP).buckets
        self.assertEqual([b.merged for b in found if b.name == "psum.2"], [{(7, 0): (0, 0)}])

    def test_a_plan_of_another_program_is_refused_by_name(self):
        with self.assertRaisesRegex(RepriseError, "bucket b0 names psum.9"):
            self.names(self.plan([{"unit": "b0", "collectives": ["psum.9"]}]))

    def test_halves_of_complex_numbers_are_one_member(self):
        entries = [dict(entry) for entry in self.MAP["collectives"]]
        entries[0]["type"] = "c64"
        split = [{"unit": "b0", "collectives": ["psum.1:0", "psum.3"]}, {"unit": "b1", "collectives": ["psum.1:1"]}]
        found = plan.buckets(self.plan(split), self.MAP | {"collectives": entries})
        self.assertIn(("b0", [(3, 0), (2, 0)]), [(b.name, b.members) for b in found.buckets])
        self.assertIn(("b1: psum.1:1", "its other half stands in an earlier bucket"), found.unexpressed)
        whole = [{"unit": "b0", "collectives": ["psum.1:0", "psum.1:1"]}]
        found = plan.buckets(self.plan(whole), self.MAP | {"collectives": entries})
        self.assertIn(("b0", [(3, 0)]), [(b.name, b.members) for b in found.buckets])

    def test_fusion_is_reported_as_not_expressed(self):
        given = self.plan([]) | {"fusion": [{"unit": "f0", "ops": ["a", "b"]}]}
        self.assertIn(("1 fused groups", "XLA fuses by itself"), plan.buckets(given, self.MAP).unexpressed)

    def test_what_is_no_plan_says_so(self):
        with self.assertRaisesRegex(RepriseError, "schema"):
            plan.load({"schema": "reprise.optimize/1"})
        with self.assertRaisesRegex(RepriseError, "imported trace"):
            plan.load({"schema": "reprise.plan/1", "gradients": []})
        with self.assertRaisesRegex(RepriseError, "no plan"):
            plan.load("/nowhere/plan.json")


def leaf(path, shape=(2,), dtype="float32"):
    return roles.Leaf(tuple(path.split(".")) if path else (), shape, dtype)


class Roles(unittest.TestCase):
    def test_state_is_what_comes_back_in_its_structure(self):
        state = roles.Argument("state", [leaf("p.w"), leaf("n", (), "int32")], True)
        x = roles.Argument("x", [leaf("", (2,))], False)
        results = [leaf("0.p.w"), leaf("0.n", (), "int32"), leaf("1", ())]
        self.assertEqual(roles.next_values([state, x], results), [0, None])

    def test_equal_structures_pair_by_name_where_the_result_has_names_else_in_order(self):
        a, b = (roles.Argument(name, [leaf("w")], True) for name in ("a", "b"))
        self.assertEqual(roles.next_values([a, b], [leaf("b.w"), leaf("a.w")]), [1, 0])
        self.assertEqual(roles.next_values([a, b], [leaf("0.w"), leaf("1.w")]), [0, 1])

    def test_what_another_argument_holds_a_part_of_comes_after_it(self):
        p, moments = roles.Argument("p", [leaf("w")], False), roles.Argument("m", [leaf("mu.w"), leaf("nu.w")], False)
        frozen = roles.Argument("frozen", [leaf("w")], False)
        results = [leaf("0.w"), leaf("1.mu.w"), leaf("1.nu.w"), leaf("2", ())]
        self.assertEqual(roles.next_values([p, frozen, moments], results), [0, None, 1])
        inner = [leaf("0.0.w"), leaf("0.1.mu.w"), leaf("0.1.nu.w"), leaf("1.w")]
        self.assertEqual(roles.next_values([p, frozen, moments], inner), [0, 3, 1])

    def test_equal_structures_pair_by_what_follows_them_where_no_name_tells(self):
        a, b = (roles.Argument(name, [leaf("w")], False) for name in ("a", "b"))
        asked = []

        def tell(places, parts):
            asked.append((places, parts))
            return {(place, part): 0.1 if (place, part) in ((0, 1), (1, 0)) else 1.2 for place in places for part in parts}

        self.assertEqual(roles.next_values([a, b], [leaf("0.w"), leaf("1.w")], None, tell), [1, 0])
        self.assertEqual(roles.next_values([a, b], [leaf("0.w")], None, tell), [None, 0])
        self.assertEqual(roles.next_values([a], [leaf("0.w"), leaf("1.w")], None, tell), [1])
        self.assertEqual(asked, [([0, 1], [0, 1]), ([0, 1], [0]), ([0], [0, 1])])
        self.assertEqual(roles.next_values([a, b], [leaf("a.w"), leaf("b.w")], None, tell), [0, 1])
        self.assertEqual(roles.next_values([a], [leaf("0.w")], None, tell), [0])
        self.assertEqual(len(asked), 3, "asked where names tell")
        third = [leaf("0.w"), leaf("1.w"), leaf("2.w"), leaf("3.gradient.w")]
        c, d = (roles.Argument(name, [leaf("w")], False) for name in ("c", "d"))
        self.assertEqual(roles.next_values([a, b, c, d], third, None, tell), [1, 0, 2, None])

    def test_a_batch_that_looks_like_a_result_is_a_batch_where_something_else_is_donated(self):
        state, x = roles.Argument("s", [leaf("w")], True), roles.Argument("x", [leaf("")], False)
        results = [leaf("0.w"), leaf("1")]
        self.assertEqual(roles.next_values([state, x], results), [0, None])
        self.assertEqual(roles.next_values([state, x], results, batch={0}), [None, 1])

    def test_a_number_is_not_updated_by_the_loss(self):
        state, rate = roles.Argument("s", [leaf("w")], False), roles.Argument("rate", [leaf("", ())], False)
        for batch in (None, set()):
            self.assertEqual(roles.next_values([state, rate], [leaf("0.w"), leaf("1", ())], batch), [0, None])
            self.assertEqual(roles.next_values([state, rate], [leaf("s.w"), leaf("rate", ())], batch), [0, 1])
            two = [leaf("0.w"), leaf("1", ()), leaf("2", ())]
            self.assertEqual(roles.next_values([state, rate], two, batch), [0, 1])

    def test_a_key_that_comes_back_is_state_though_it_is_not_donated(self):
        state = roles.Argument("s", [leaf("w")], True)
        for kind, shape in (("key<fry>", ()), ("uint32", (2,))):
            key = roles.Argument("key", [leaf("", shape, kind)], False)
            self.assertEqual(roles.next_values([state, key], [leaf("0.w"), leaf("1", shape, kind)]), [0, 1])

    def test_donated_state_that_does_not_come_back_is_refused(self):
        state = roles.Argument("state", [leaf("w")], True)
        with self.assertRaisesRegex(RepriseError, "argument state is donated"):
            roles.check_donated([state], [None], [leaf("0", ())], None)

    def test_state_of_which_a_leaf_changes_its_shape_is_told_by_that_leaf(self):
        state = roles.Argument("state", [leaf("h", (3,)), leaf("w")], True)
        results = [leaf("0.h", (4,)), leaf("0.w"), leaf("1", ())]
        why = "state.h goes in as float32.3. and comes out, in result 0.h, as float32.4."
        self.assertRegex(roles.changed_leaf(state, results), why)
        with self.assertRaisesRegex(RepriseError, why):
            roles.check_donated([state], [None], results, None)
        other = [leaf("0.h", (4,)), leaf("0.v"), leaf("1.h", (4,)), leaf("1.w", (9,)), leaf("2.h", (3,))]
        self.assertEqual(roles.changed_leaf(state, other), "")

    def test_an_array_is_state_where_its_next_value_stands_in_order_or_has_its_name(self):
        p, x = roles.Argument("p", [leaf("w")], False), roles.Argument("x", [leaf("")], False)
        both = lambda *rest: roles.next_values([p, x], [leaf("0.w"), *rest])
        self.assertEqual(both(leaf("1"), leaf("2", ())), [0, 1])
        self.assertEqual(both(leaf("1.loss", ()), leaf("1.recon")), [0, None])
        self.assertEqual(both(leaf("1.loss", ()), leaf("1.x")), [0, 2])
        self.assertEqual(both(leaf("new_x"), leaf("loss", ())), [0, 1])
        for rest in ((leaf("1", ()), leaf("2")), (leaf("1.aux"), leaf("1.loss", ()))):
            with self.assertRaisesRegex(RepriseError, r"has the shape and type of argument x.*batch='x'"):
                both(*rest)
            self.assertEqual(roles.next_values([p, x], [leaf("0.w"), *rest], {1}), [0, None])
            self.assertIsNotNone(roles.next_values([p, x], [leaf("0.w"), *rest], set())[1])
        self.assertEqual(roles.next_values([x, p], [leaf("0", ()), leaf("1"), leaf("2.w")]), [1, 2])
        self.assertEqual(roles.next_values([x], [leaf("0", ()), leaf("1")]), [1])
        with self.assertRaisesRegex(RepriseError, "has the shape and type of argument x"):
            roles.next_values([x, p], [leaf("0.w"), leaf("1")])

    def test_state_may_come_back_in_another_type(self):
        state = roles.Argument("s", [leaf("m", (2,), "bfloat16"), leaf("w", (2,))], False)
        x = roles.Argument("x", [leaf("")], False)
        back = [leaf("0.m"), leaf("0.w"), leaf("1", ())]
        self.assertEqual(roles.next_values([state, x], back), [0, None])
        self.assertEqual(roles.next_values([state, x], back, {0}), [None, 0])
        own = roles.Argument("t", [leaf("m"), leaf("w")], False)
        self.assertEqual(roles.next_values([state, own], back), [None, 0])
        numbers = roles.Argument("xy", [leaf("0", (), "int32"), leaf("1", (), "int32")], False)
        self.assertEqual(roles.next_values([numbers], [leaf("1.0", ()), leaf("1.1", ())]), [None])

    def test_a_single_array_of_another_type_is_asked_about_where_its_next_value_would_stand(self):
        w, m = roles.Argument("w", [leaf("a"), leaf("b")], False), roles.Argument("m", [leaf("", (2,), "bfloat16")], False)
        back = [leaf("0.a"), leaf("0.b"), leaf("1"), leaf("2", ())]
        with self.assertRaisesRegex(RepriseError, "m is bfloat16.*float32"):
            roles.next_values([w, m], back)
        self.assertEqual(roles.next_values([w, m], back, {1}), [0, None])
        self.assertEqual(roles.next_values([w, m], [*back[:2], leaf("1", ()), leaf("2")]), [0, None])
        self.assertEqual(roles.next_values([w, roles.Argument("m", m.leaves, True)], back), [0, 2])

    def test_the_loss_is_the_scalar_called_so(self):
        results = [leaf("m.accuracy", ()), leaf("m.loss", ()), leaf("m.step", (), "int32")]
        self.assertEqual(roles.pick_loss(results, set()), 1)
        self.assertEqual(roles.pick_loss(results, set(), "accuracy"), 0)
        self.assertEqual(roles.pick_loss([leaf("", ())], set()), 0)
        self.assertIsNone(roles.pick_loss([leaf("w")], set()))
        self.assertEqual(roles.pick_loss([leaf("rows", (1,)), leaf("loss", ())], set()), 1)
        self.assertEqual(roles.pick_loss([leaf("w"), leaf("1", (1,))], set()), 1)
        with self.assertRaisesRegex(RepriseError, "'a', 'b'"):
            roles.pick_loss([leaf("a", ()), leaf("b", ())], set())
        with self.assertRaisesRegex(RepriseError, "names 0 results"):
            roles.pick_loss(results, set(), "perplexity")


class Manifests(unittest.TestCase):
    def test_parameters_outputs_and_batches_are_listed(self):
        built = manifest.build("step", "step.hlo", 2,
                               [{"name": "s.w", "role": "state", "per_rank": True}, {"name": "x", "role": "batch"}],
                               [{"role": "state", "parameter": 0}, {"role": "loss"}],
                               {"file": "batches.safetensors", "steps": 3})
        self.assertEqual(json.loads(manifest.dumps(built)), built)
        self.assertEqual(built["parameters"][0]["init"],
                         {"kind": "tensor", "file": "state.safetensors", "name": "s.w", "per_rank": True})
        self.assertEqual(built["dataset"], {"kind": "tensors", "file": "batches.safetensors", "steps": 3,
                                            "fields": [{"name": "x", "tensor": "x"}]})
        self.assertEqual(built["outputs"][1], {"index": 1, "role": "loss"})


if __name__ == "__main__":
    unittest.main()
