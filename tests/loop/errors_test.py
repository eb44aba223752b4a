"""What errors.py tells apart, on samples made by hand."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import disturbance  # noqa: E402
import errors  # noqa: E402


class Errors(unittest.TestCase):
    def test_parts_multiply_to_the_whole(self):
        # The run's own prices replay 2 % low; the machine ran 10 % slower than in the recording; prices are 5 % high.
        steps = [100.0, 100.0, 100.0, 100.0]
        found = errors.sample(predicted_ns=100 * 0.98 * 1.05 / 1.1, own_ns=98, steps_ns=steps,
                              recorded_pace_ns=200, pace_ns=220)
        self.assertAlmostEqual(found["structure"], -0.02)
        self.assertAlmostEqual(found["pace"], 1 / 1.1 - 1)
        self.assertAlmostEqual(found["price"], 0.05)
        self.assertAlmostEqual(1 + found["total"],
                               (1 + found["structure"]) * (1 + found["pace"]) * (1 + found["price"]))
        self.assertEqual(found["spread"], 0)

    def test_errors_of_both_signs_do_not_cancel(self):
        samples = [errors.sample(100 * factor, 100 * factor, [100, 100, 100], 1, 1) for factor in (0.9, 1.1)]
        mean, worst = errors.mean_and_worst(samples, "structure")
        self.assertAlmostEqual(mean, 0.1)
        self.assertAlmostEqual(worst, 0.1)

    def test_the_worst_round_of_every_configuration_is_gated(self):
        good, bad = (errors.sample(own, own, [100, 100, 100], 1, 1) for own in (101, 106))
        self.assertEqual(list(errors.missed({"none": [good], "plan": [good]}, "none")), [])
        self.assertEqual(list(errors.missed({"none": [good], "plan": [good] * 9 + [bad]}, "none")),
                         ["plan: structural error 6.0 % worst, limit 5 %"])
        self.assertEqual(len(list(errors.missed({"none": [bad]}, "none"))), 2)

    def test_what_was_not_recorded_has_no_structure(self):
        found = errors.sample(110, None, [100, 100, 100], 1, 1)
        self.assertIsNone(found["structure"])
        self.assertAlmostEqual(found["price"], 0.1)
        self.assertIsNone(errors.mean_and_worst([found], "structure"))
        self.assertNotIn("structure", errors.describe([found]))

    def test_a_block_is_timed_at_least_once(self):
        with disturbance.Pace() as pace:
            pass
        self.assertGreater(pace.median_ns, 0)


if __name__ == "__main__":
    unittest.main()
