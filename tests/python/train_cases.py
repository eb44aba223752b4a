"""Exports, trains and compares; see train_test.py. Prints one line a step and rank count."""

import argparse
import subprocess
import sys
import tempfile

# Relative L2 of the change after 20 steps. Rounding sums otherwise moves a bfloat16 step by this much: see `permuted`.
TOLERANCE = {"decoder": 5e-2}
# What train does not run yet: (step, ranks or None for all): a part of the reason.
REFUSED = {}


def one(name, ranks, steps_run, keep):
    """In a process of its own: the number of devices is set once."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", ranks)
    import steps

    import reprise.jax as rj

    with tempfile.TemporaryDirectory() as temporary:
        out = f"{keep or temporary}/{name}.{ranks}"
        step = steps.make(name, ranks)
        rj.export(step.step, *steps.arguments(step, 0), out=out, data=step.batch, steps=steps_run)
        expected = REFUSED.get((name, ranks), REFUSED.get((name, None)))
        where = f"jax {jax.__version__} {name} {ranks} ranks"
        try:
            done = rj.verify(out, steps=steps_run, tolerance=TOLERANCE.get(name, 1e-4))
        except rj.RepriseError as error:
            reason = str(error).splitlines()[-1]
            print(f"{where}: refused: {reason}")
            return 0 if expected is not None and expected in str(error) else 1
        print(f"{where}: {'equal' if done else 'NOT equal'}, {len(done.tensors)} tensors, worst {done.worst.name} "
              f"{done.worst.error:.1e}, loss {done.loss[0]:.6g} and {done.loss[1]:.6g}")
        if not done:
            print(done)
        return 0 if done and expected is None else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--keep", default="")
    parser.add_argument("--one", action="store_true")
    flags = parser.parse_args()
    if flags.one:
        return one(flags.names[0], flags.ranks[0], flags.steps, flags.keep)
    names = flags.names or ["mlp", "decoder", "resnet", "lstm", "dropout", "fsdp", "auto"]
    failed = 0
    for name in names:
        for ranks in flags.ranks:
            words = [sys.executable, __file__, name, "--one", "--ranks", str(ranks), "--steps", str(flags.steps)]
            failed += subprocess.run([*words, "--keep", flags.keep], check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
