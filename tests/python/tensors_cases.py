"""Files of tensors and their comparison; needs numpy."""

import json
import os
import tempfile
import unittest

import numpy as np

from reprise import RepriseError, compare, tensors


class Tensors(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def test_every_type_and_shape_comes_back_from_both_formats(self):
        values = {}
        for hlo in ("pred", "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "c64",
                    "c128", "f8e4m3fn", "f8e5m2", "s4", "u4", "s2", "u2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3b11fnuz",
                    "f8e4m3", "f8e3m4", "f8e8m0fnu", "f4e2m1fn"):
            dtype = next((d for d, name in tensors._HLO.items() if name == hlo), None)
            if dtype is None:
                continue  # An older ml_dtypes.
            raw = np.arange(6 * dtype.itemsize, dtype=np.uint8) % 2
            values[hlo] = raw.view(dtype).reshape(2, 3)
        values["scalar"], values["empty"] = np.float32(1.5).reshape(()), np.zeros((0, 3), np.float32)
        for name in ("a.safetensors", "a.npz"):
            tensors.save(self.path(name), values)
            back = tensors.load(self.path(name), {hlo: hlo for hlo in values})
            self.assertEqual(list(back), list(values))
            for key, value in values.items():
                self.assertEqual((back[key].dtype, back[key].shape, back[key].tobytes()),
                                 (value.dtype, value.shape, value.tobytes()), (name, key))

    def test_numbers_below_a_byte_are_stored_as_others_read_them(self):
        import ml_dtypes

        numbers = {"f": np.array([0.5, -448], ml_dtypes.float8_e4m3fn), "i": np.array([-8, 7], ml_dtypes.int4),
                   "n": np.array([0, 15], ml_dtypes.uint4)}
        for name in ("a.safetensors", "a.npz"):
            tensors.save(self.path(name), numbers)
            plain = tensors.load(self.path(name))
            self.assertEqual((plain["i"].dtype, plain["i"].tolist()), (np.int8, [-8, 7]))
            self.assertEqual((plain["n"].dtype, plain["n"].tolist()), (np.uint8, [0, 15]))
            self.assertEqual(plain["f"].tobytes(), b"\x30\xfe")
            powers = np.array([1, 2.0**-127, np.nan], ml_dtypes.float8_e8m0fnu)
            tensors.save(self.path(name), {"p": powers})
            self.assertEqual(tensors.load(self.path(name))["p"].tolist(), [127, 0, 255])
        # As numpy alone writes them, signs left out.
        np.savez(self.path("b.npz"), **numbers)
        back = tensors.load(self.path("b.npz"), {"f": "f8e4m3fn", "i": "s4", "n": "u4"})
        self.assertEqual([a.astype(float).tolist() for a in back.values()], [[0.5, -448], [-8, 7], [0, 15]])
        tensors.save(self.path("c.npz"), {"i": np.array([8], np.int8)})
        with self.assertRaisesRegex(RepriseError, "8 to 8 are not all s4"):
            tensors.load(self.path("c.npz"), {"i": "s4"})

    def test_the_header_is_as_specified(self):
        tensors.save(self.path("a.safetensors"), {"w": np.ones((2, 2), np.float32), "n": np.int32(3)})
        with open(self.path("a.safetensors"), "rb") as file:
            data = file.read()
        length = int.from_bytes(data[:8], "little")
        self.assertEqual(length % 8, 0)
        self.assertEqual(json.loads(data[8:8 + length]), {
            "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
            "n": {"dtype": "I32", "shape": [], "data_offsets": [16, 20]}})
        self.assertEqual(len(data), 8 + length + 20)

    def test_damaged_files_say_what_is_wrong(self):
        tensors.save(self.path("a.safetensors"), {"w": np.ones(4, np.float32)})
        with open(self.path("a.safetensors"), "rb") as file:
            data = file.read()
        for damaged, message in ((data[:-1], "needs 16"), (b"\xff" * 8 + data[8:], "header of"), (b"", "header of"),
                                 (data.replace(b"F32", b"F31"), "known are"), (b"\2" + b"\0" * 7 + b"[}", "not a file")):
            with open(self.path("b.safetensors"), "wb") as file:
                file.write(damaged)
            with self.assertRaisesRegex(RepriseError, message):
                tensors.load(self.path("b.safetensors"))
        with self.assertRaisesRegex(RepriseError, "No such file"):
            tensors.load(self.path("c.safetensors"))

    def test_nothing_is_left_where_writing_fails(self):
        with self.assertRaises(RepriseError):
            tensors.save(self.path("a.safetensors"), {"w": np.ones(1, np.longdouble)})
        self.assertEqual(os.listdir(self.directory), [])


class Compare(unittest.TestCase):
    def test_the_error_is_relative_to_the_change(self):
        before, b = {"w": np.zeros(2, np.float32)}, {"w": np.array([3, 4], np.float32)}
        found = compare.differences({"w": np.array([3, 4.5], np.float32)}, b, before)
        self.assertAlmostEqual(found[0].error, 0.5 / 5)

    def test_both_parts_of_a_complex_number_count(self):
        before, b = {"w": np.zeros(1, np.complex64)}, {"w": np.array([3 + 4j], np.complex64)}
        found = compare.differences({"w": np.array([3 + 4.5j], np.complex64)}, b, before)
        self.assertAlmostEqual(found[0].error, 0.5 / 5)

    def test_integers_missing_tensors_and_nan_are_never_nearly_equal(self):
        before = {"n": np.int32(0), "w": np.zeros(1, np.float32), "z": np.zeros(1, np.float32)}
        theirs = {"n": np.int32(2), "w": np.ones(1, np.float32), "z": np.zeros(1, np.float32)}
        ours = {"n": np.int32(3), "w": np.full(1, np.nan, np.float32), "z": np.zeros(1, np.float32)}
        self.assertEqual([d.error for d in compare.differences(ours, theirs, before)],
                         [float("inf"), float("inf"), 0.0])
        self.assertEqual(compare.differences({}, theirs, before)[0].error, float("inf"))

    def test_what_is_not_finite_in_both_alike_is_equal(self):
        inf, nan = float("inf"), float("nan")
        before = {"mask": np.array([0, -inf], np.float32), "best": np.array([inf, 1], np.float32)}
        theirs = {"mask": np.array([0, -inf], np.float32), "best": np.array([2, nan], np.float32)}
        self.assertEqual([d.error for d in compare.differences(dict(theirs), theirs, before)], [0.0, 0.0])
        for mask, best in (([0, inf], [2, nan]), ([0, -1], [2, nan]), ([nan, -inf], [2, 1])):
            ours = {"mask": np.array(mask, np.float32), "best": np.array(best, np.float32)}
            self.assertEqual(compare.differences(ours, theirs, before)[0].error, inf)


if __name__ == "__main__":
    unittest.main()
