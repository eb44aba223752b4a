"""jaxlib reads what the printer writes, and prices it as the cost rules do.

    jaxlib_parse.py PRINT_MODULE DIRECTORY...

Every .hlo file is printed by PRINT_MODULE in three ways (as it is; renamed and without metadata;
with operand shapes) and parsed by jaxlib. Dumps of a later XLA than jaxlib's are first brought
back to its grammar, by rewriting attributes whose spelling it does not know. Flops and
transcendentals of a whole module must equal XLA's own. Exits with 77 where jaxlib is absent.
"""
import pathlib
import re
import subprocess
import sys

try:
    from jaxlib import xla_client, xla_extension
except ImportError:
    print("skipped: jaxlib is not installed")
    sys.exit(77)

VARIANTS = ([], ["--rename", "--no-metadata"], ["--operand-shapes"])
# An upper bound: parsing three variants of a file in jaxlib takes seconds a megabyte.
LARGEST_BYTES = 1_000_000


def older(text):
    """The same module in the grammar of 2024: iota groups, unspecified API versions."""
    text = re.sub(r"replica_groups=\[[\d,]*\]<=\[[\d,]*\](T\([\d,]*\))?", "replica_groups={}", text)
    return text.replace(", api_version=API_VERSION_UNSPECIFIED", "")


def parse(text):
    try:
        return xla_extension.hlo_module_from_text(text), ""
    except Exception as error:  # jaxlib raises several types
        return None, str(error)


def printed(tool, path, flags):
    run = subprocess.run([tool, str(path), *flags], capture_output=True, text=True, check=True)
    return run.stdout


def costs_differ(tool, path, module, client):
    ours = [float(word) for word in printed(tool, path, ["--cost"]).split()]
    theirs = xla_extension.hlo_module_cost_analysis(client, module)
    wrong = []
    # A custom call counts -1 flops in XLA ("unknown"), none here.
    unknown = {"flops": path.read_text().count("custom_call_target="), "transcendentals": 0}
    for name, mine in zip(("flops", "transcendentals"), ours):
        expected = theirs.get(name, 0)
        if abs(mine - expected) > unknown[name] + 1e-4 * expected:
            wrong.append(f"{name} {mine}, XLA {expected}")
    return wrong


def check(tool, path, client):
    original, why = parse(older(path.read_text()))
    if original is None:
        reason = why.strip().splitlines()[0][:150] if why else ""
        print(f"unread  {path.name}: jaxlib refuses the original: {reason}")
        return True
    problems = []
    for flags in VARIANTS:
        module, why = parse(older(printed(tool, path, flags)))
        if module is None:
            problems.append(f"{flags}: {why.strip()[-300:]}")
    problems += costs_differ(tool, path, original, client)
    print("\n    ".join([f"{'FAILED' if problems else 'ok'}  {path.name}", *problems]))
    return not problems


def main():
    tool = sys.argv[1]
    client = xla_client.make_cpu_client()
    paths = []
    for directory in sys.argv[2:]:
        paths += sorted(pathlib.Path(directory).glob("*.hlo"))
    paths = [path for path in paths if path.stat().st_size <= LARGEST_BYTES]
    good = [check(tool, path, client) for path in paths]
    print(f"{sum(good)} of {len(good)}")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
