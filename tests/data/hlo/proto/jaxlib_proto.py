"""XLA's own text of an HLO proto is the text that hlo_proto_text spells.

    jaxlib_proto.py PRINT_PROTO HLO_DIRECTORY TRACE_DIRECTORY

The protos are those in the nsys-jax zips and xplane files below TRACE_DIRECTORY, and those that
jaxlib makes of the dumps in HLO_DIRECTORY. What jaxlib (of 2024) has no word for is left out of
the comparison: stack frames, lone deduplicated names, and protos that it refuses, spells
unreadably or with async sugar, of which it must parse our text.
Exits with 77 where jaxlib or the files are absent.
"""
import difflib
import io
import lzma
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

try:
    from jaxlib import xla_extension
except ImportError:
    print("skipped: jaxlib is not installed")
    sys.exit(77)

# Above, a module takes jaxlib seconds.
LARGEST_BYTES = 2_000_000


def fields(message):
    """(number, value) of each field: an int, or bytes."""
    stream = io.BytesIO(message)

    def varint():
        value = shift = 0
        while True:
            byte = stream.read(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while stream.tell() < len(message):
        key = varint()
        kind = key & 7
        yield key >> 3, varint() if kind == 0 else stream.read({1: 8, 5: 4}.get(kind) or varint())


def all_of(message, number):
    return [value for found, value in fields(message) if found == number]


def protos_of_xplane(space):
    """The HloProtos of the plane /host:metadata: the bytes of its events' stats."""
    for plane in all_of(space, 1):
        if all_of(plane, 2) != [b"/host:metadata"]:
            continue
        for entry in all_of(plane, 4):
            for metadata in all_of(entry, 2):
                for stat in all_of(metadata, 5):
                    yield from all_of(stat, 6)


def recorded(traces):
    for path in sorted(traces.glob("nsys_jax/*/*.zip")):
        archive = zipfile.ZipFile(path)
        for name in archive.namelist():
            if name.endswith(".hlo.pb.xz"):
                yield name, lzma.decompress(archive.read(name))
    for path in sorted(traces.glob("xplane/jax*/*.pb")):
        for number, proto in enumerate(protos_of_xplane(path.read_bytes())):
            yield f"{path.name} {number}", proto


def made(dumps):
    for path in sorted(dumps.glob("*.hlo")):
        if path.stat().st_size > LARGEST_BYTES:
            continue
        try:
            module = xla_extension.hlo_module_from_text(path.read_text())
        except Exception:  # A later dialect: told by the test of the text parser.
            continue
        yield path.name, module.as_serialized_hlo_module_proto()


def module_of(proto):
    """The HloModuleProto of an HloProto (which holds it in field 1) or of itself."""
    return proto if all_of(proto, 3) and all_of(proto, 2) else all_of(proto, 1)[0]


def xla_text(proto):
    """XLA's text, or None where jaxlib refuses the proto."""
    try:
        module = xla_extension.HloModule.from_serialized_hlo_module_proto(module_of(proto))
    except Exception:  # jaxlib raises several types
        return None
    options = xla_extension.HloPrintOptions()
    options.print_large_constants = True
    options.print_operand_shape = False
    return module.to_string(options)


def comparable(text):
    text = re.split(r"\nFileNames\n", text)[0]
    text = re.sub(r" ?stack_frame_id=\d+", "", text)
    text = re.sub(r", metadata={(deduplicated_name=\"[^\"]*\")?}", "", text)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    # XLA spaces braces of literals by their depth, and counts planes in comments.
    return [re.sub(r" |/\*i\d=\d+\*/", "", line) if " constant(" in line else line
            for line in lines]


def reads(text):
    """What jaxlib's parser says against the text; empty if nothing."""
    try:
        xla_extension.hlo_module_from_text(text)
    except Exception as error:  # jaxlib raises several types
        return [str(error)]
    return []


def differences(proto, ours):
    theirs = xla_text(proto)
    # XLA writes some strings such that its own parser cannot read them, and sugar for async-start.
    if theirs is None or " async-start(" in ours or reads(theirs):
        return "parsed", reads("\n".join(comparable(ours)))
    return "equal", list(difflib.unified_diff(comparable(theirs), comparable(ours), "XLA", "ours",
                                              lineterm="", n=0))


def main():
    tool, dumps, traces = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    counts = {"equal": 0, "parsed": 0, "FAILED": 0}
    with tempfile.NamedTemporaryFile(suffix=".pb") as file:
        for name, proto in [*recorded(traces), *made(dumps)]:
            pathlib.Path(file.name).write_bytes(proto)
            run = subprocess.run([tool, file.name], capture_output=True, text=True, check=False)
            how, wrong = ("", [run.stderr]) if run.returncode else differences(proto, run.stdout)
            counts["FAILED" if wrong else how] += 1
            if wrong:
                print(f"FAILED  {name}\n    " + "\n    ".join(line[:700] for line in wrong[:12]))
    print(counts)
    if not sum(counts.values()):
        print("skipped: no protos")
        return 77
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
