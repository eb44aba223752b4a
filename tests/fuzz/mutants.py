"""Mutants of what Reprise reads that are still mostly in form: programs that lower, JSON that parses, traces whose
checksums hold. Each function takes a random.Random and bytes or text, and returns the same kind."""

import json
import pathlib
import re
import sqlite3
import struct
import tempfile
import zlib

UNARY = ("tanh", "exponential", "negate", "sqrt", "rsqrt", "log", "abs", "sign", "floor", "cosine", "logistic")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "atan2")
EXTREMES = (0, -1, 1, 2, 63, 64, 255, 256, 2**31 - 1, -2**31, 2**32, 2**53, 2**63 - 1, -2**63, 2**64 - 1, 10**30)
WORDS = ("", "x", "a" * 5000, "\x1b[2J", "\u202e", "../../etc/passwd", "/dev/zero", "=1+1", "NaN", "é\u0000")
INSTRUCTION = re.compile(r"^  (?:ROOT )?(\S+) = (\S+) ([\w-]+)\(([^()]*)\)", re.M)


def any_bytes(random, content):
    """A few bytes changed, cut out, doubled or appended."""
    content = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = random.randrange(len(content) + 1)
        length = random.choice((1, 1, 4, 64, 1000))
        what = random.randrange(5)
        if what == 0 and at < len(content):
            content[at] = random.randrange(256)
        elif what == 1:
            del content[at:at + length]
        elif what == 2:
            content[at:at] = content[at:at + length]
        elif what == 3:
            content[at:at] = random.randbytes(length % 65)
        elif random.random() < 0.2:
            del content[at:]
    return bytes(content)


def _number(random, value):
    return random.choice((random.choice(EXTREMES), value + random.choice((-1, 1)), value * 2, -value, value / 3,
                          1e308, 1e-308, str(value), None, [value]))


def _leaf(random, value):
    if isinstance(value, bool) or value is None or random.random() < 0.1:
        return random.choice((True, False, None, 0, "", [], {}, [[]], 1.5))
    if isinstance(value, (int, float)):
        return _number(random, value)
    if isinstance(value, str):
        return random.choice((random.choice(WORDS), value + "x", value[:-1], value * 3, 7, [value]))
    return random.choice(([], {}, None, 0, "x"))


def any_json(random, text):
    """JSON with a few nodes replaced, left out, doubled, swapped or moved."""
    try:
        tree = json.loads(text)
    except ValueError:
        return any_bytes(random, text.encode()).decode(errors="replace")
    for _ in range(random.choice((1, 1, 1, 2, 4, 10))):
        places = []  # (container, key) of every node.
        open_nodes = [tree]
        while open_nodes:
            node = open_nodes.pop()
            keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
            for key in keys:
                places.append((node, key))
                open_nodes.append(node[key])
        if not places:
            break
        container, key = random.choice(places)
        other, other_key = random.choice(places)
        what = random.randrange(8)
        if what < 4:
            container[key] = _leaf(random, container[key])
        elif what == 4:
            del container[key]
        elif what == 5 and isinstance(container, list):
            container.insert(random.randrange(len(container) + 1), container[key])
        elif what == 6 and isinstance(container, list):
            random.shuffle(container)
        else:
            try:
                container[key] = json.loads(json.dumps(other[other_key]))
            except (KeyError, IndexError, RecursionError):
                pass
    return json.dumps(tree)


def _edit_instruction(random, text):
    """One elementwise instruction with another opcode, or with operands of the same shape."""
    found = list(INSTRUCTION.finditer(text))
    if not found:
        return text
    chosen = random.choice(found)
    name, shape, opcode, operands = chosen.groups()
    group = UNARY if opcode in UNARY else BINARY if opcode in BINARY else None
    if group and "f32" in shape and random.random() < 0.5:
        return text[:chosen.start(3)] + random.choice(group) + text[chosen.end(3):]
    before = {match[1]: match[2] for match in found if match.start() < chosen.start()}
    names = [operand.strip() for operand in operands.split(",")]
    place = random.randrange(len(names))
    same = [each for each in before if before[each] == before.get(names[place]) and each != name]
    if not same:
        return text
    names[place] = random.choice(same)
    return text[:chosen.start(4)] + ", ".join(names) + text[chosen.end(4):]


def any_program(random, text):
    """HLO text: mostly still a program, with other opcodes, operands, sizes, constants, names or attributes."""
    if random.random() < 0.15:
        return any_bytes(random, text.encode()).decode(errors="replace")
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        what = random.random()
        lines = text.split("\n")
        at = random.randrange(len(lines))
        if what < 0.55:
            text = _edit_instruction(random, text)
        elif what < 0.65:  # One size everywhere.
            sizes = re.findall(r"(?<=[\[,])\d+(?=[\],])", text)
            if sizes:
                size = random.choice(sizes)
                text = re.sub(rf"(?<=[\[,]){size}(?=[\],])", str(random.choice((1, 2, 3, 7, 31, 64))), text)
        elif what < 0.73:
            text = re.sub(r"constant\(([-0-9.e]+)\)",
                          lambda match: f"constant({random.choice((match[1], '0', '1e30', '-1', 'nan', 'inf'))})", text)
        elif what < 0.80:  # A name, or a type, everywhere.
            old, new = random.choice((("f32", "bf16"), ("f32", "f64"), ("s32", "u8"), ("add", "add_"), ("reduce.", "r.")))
            text = text.replace(old, new)
        elif what < 0.90:
            number = re.search(r"\d+", lines[at])
            if number:
                lines[at] = lines[at][:number.start()] + str(random.choice(EXTREMES)) + lines[at][number.end():]
            text = "\n".join(lines)
        elif what < 0.94:
            lines[at] = re.sub(r", [\w_]+=\{[^{}]*\}", "", lines[at], count=1)
            text = "\n".join(lines)
        else:
            other = random.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            text = "\n".join(lines)
    return text


def _row_checksum(rows):
    crc = 0
    for row in rows:
        for value in row:
            kind, content = (b"i", struct.pack("<q", value)) if isinstance(value, int) else \
                (b"r", struct.pack("<d", value)) if isinstance(value, float) else (b"t", value.encode())
            crc = zlib.crc32(kind + struct.pack("<Q", len(content)) + content, crc)
    return crc


def _edit_table(random, database, table):
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")][1:]
    rows = [list(row) for row in database.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY id")]
    if not rows:
        return
    for _ in range(random.choice((1, 1, 3))):
        row = random.choice(rows)
        place = random.randrange(len(row))
        if isinstance(row[place], int):
            row[place] = max(-2**63, min(2**63 - 1, random.choice((row[place] + 1, -1, *EXTREMES))))
        elif isinstance(row[place], float):
            row[place] = random.choice((0.0, -1.0, 1e300, row[place] * 2))
        elif table == "embedded" and row[place].startswith("HloModule"):
            row[place] = any_program(random, row[place]).replace("\0", "")
        elif row[place].startswith(("{", "[")):
            row[place] = any_json(random, row[place]).replace("\0", "")
        else:
            row[place] = random.choice(WORDS + (row[place] + "x",)).replace("\0", "")
    if random.random() < 0.2:
        del rows[random.randrange(len(rows))]
    elif random.random() < 0.2:
        rows.append(list(random.choice(rows)))
    database.execute(f"DELETE FROM {table}")
    marks = ",".join("?" * (len(columns) + 1))
    rows = [[value.encode(errors="replace").decode() if isinstance(value, str) else value for value in row] for row in rows]
    database.executemany(f"INSERT INTO {table} VALUES({marks})", [[i, *row] for i, row in enumerate(rows)])
    database.execute("UPDATE checksum SET rows = ?, crc = ? WHERE name = ?", (len(rows), _row_checksum(rows), table))


def _edit_column(random, database, table):
    places = list(database.execute(f"SELECT segment, place, data FROM {table}"))
    if not places:
        return
    segment, place, data = random.choice(places)
    data = bytearray(data)
    for _ in range(random.choice((1, 1, 4))):
        if data:
            at = random.randrange(len(data))
            data[at] = data[at] & 0x80 | random.randrange(128)  # A varint stays as long as it is.
    database.execute(f"UPDATE {table} SET data = ?, crc = ? WHERE segment = ? AND place = ?",
                     (bytes(data), zlib.crc32(bytes(data)), segment, place))


def any_trace(random, content):
    """A trace whose tables and columns hold other values, under checksums that are right (data/trace/format.md)."""
    if random.random() < 0.1:
        return any_bytes(random, content)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "t")
        path.write_bytes(content)
        database = sqlite3.connect(path)
        tables = [row[0] for row in database.execute("SELECT name FROM checksum")]
        for _ in range(random.choice((1, 1, 2, 4))):
            if random.random() < 0.5:
                _edit_table(random, database, random.choice([each for each in tables if "segment" not in each]))
            else:
                _edit_column(random, database, random.choice(("event_column", "event_column", "dependency_column")))
        database.commit()
        database.close()
        return path.read_bytes()
