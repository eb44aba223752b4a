"""As much of HLO text as ties a collective to the equation that it came from: instructions, operands, metadata.

Standard library only. Reading is line by line, as XLA prints modules; what is not understood is passed over."""

import collections
import dataclasses
import re

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
# Results of these are not their operand, element by element, even where they have as many.
_STRUCTURAL = {"parameter", "constant", "while", "conditional", "call", "custom-call", "dot", "convolution", "iota",
               "gather", "scatter", "tuple", "fusion", "sort", "dynamic-update-slice", "reduce-window"}
_COMMENT = re.compile(r"/\*.*?\*/")
_HEAD = re.compile(r"^\s*(ROOT )?%?([\w.\-]+) = ")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+)\s.*\{\s*$")
_ELEMENT = re.compile(r"^[\w.\-]+(#\d+)+$")
_BRACKET = re.compile(r"[(){}\[\]]")
_BRACKET_OR_COMMA = re.compile(r"[(){}\[\],]")
_ARRAY = re.compile(r"([a-z]+[0-9a-z]*)\[([0-9,]*)\]")


@dataclasses.dataclass
class Instruction:
    name: str
    opcode: str
    arrays: list  # of (type, dimensions): one, or those of a tuple
    operands: list  # names
    text: str  # what follows the operands
    computation: str
    root: bool = False

    def attribute(self, key):
        """The text of `key="…"` in the metadata, or empty."""
        match = re.search(rf'\b{key}="((?:[^"\\]|\\.)*)"', self.text)
        return match[1] if match else ""


@dataclasses.dataclass
class HloModule:
    header: str
    entry: str
    instructions: dict  # computation -> [Instruction]

    def collectives(self):
        """All collectives (started ones once), in the order of the text."""
        for instructions in self.instructions.values():
            for instruction in instructions:
                if instruction.opcode.removesuffix("-start") in COLLECTIVES:
                    yield instruction

    def ranks(self):
        """Devices that run the module together."""
        count = 1
        for key in ("replica_count", "num_partitions"):
            match = re.search(rf"\b{key}=(\d+)", self.header)
            count *= int(match[1]) if match else 1
        return count

    def parameters(self):
        """Entry parameters by number: (type, dimensions)."""
        found = {}
        for instruction in self.instructions[self.entry]:
            if instruction.opcode == "parameter":
                found[int(instruction.operands[0])] = instruction.arrays[0]
        return [found[i] for i in sorted(found)]

    def results(self):
        """Names of the instructions that the entry's root tuple returns."""
        for instruction in self.instructions[self.entry]:
            if instruction.root:
                return instruction.operands if instruction.opcode == "tuple" else [instruction.name]
        return []


def count(dimensions):
    """Elements of an array of these dimensions."""
    elements = 1
    for dimension in dimensions:
        elements *= dimension
    return elements


def _closing(text, start):
    """The place of the bracket that closes the one at `start`."""
    depth = 0
    for found in _BRACKET.finditer(text, start):
        depth += 1 if found[0] in "({[" else -1
        if depth == 0:
            return found.start()
    return len(text)


def _split(text):
    """Splits at the commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for found in _BRACKET_OR_COMMA.finditer(text):
        depth += (found[0] in "({[") - (found[0] in ")}]")
        if found[0] == "," and depth == 0:
            parts.append(text[start:found.start()])
            start = found.end()
    return [p.strip() for p in [*parts, text[start:]] if p.strip()]


def _instruction(line, computation):
    line = _COMMENT.sub("", line)
    head = _HEAD.match(line)
    if not head:
        return None
    rest = line[head.end():]
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.find(" ")
    shape, rest = rest[:end], rest[end:].lstrip()
    open_bracket = rest.find("(")
    if open_bracket < 0:
        return None
    close = _closing(rest, open_bracket)
    opcode = rest[:open_bracket]
    # A constant's are its elements: millions, where a step closes over its data.
    names = _split(rest[open_bracket + 1:close]) if opcode != "constant" else []
    operands = [part.split(" ")[-1].lstrip("%") for part in names]
    arrays = [(t, [int(d) for d in dims.split(",") if d]) for t, dims in _ARRAY.findall(shape)]
    return Instruction(head[2], opcode, arrays, operands, rest[close + 1:], computation, bool(head[1]))


def _add_elements(operand, instructions):
    """`tuple#1` is an element of a tuple since jaxlib 0.12: an instruction, as those are that older ones print."""
    base, *indices = operand.split("#") if _ELEMENT.match(operand) else [operand]
    for index in indices:
        name = f"{base}#{index}"
        if all(known.name != name for known in reversed(instructions)):
            arrays = next((known.arrays for known in instructions if known.name == base), [])
            # Right where no tuple holds another, as in programs that JAX makes.
            own = arrays[int(index):int(index) + 1] if int(index) < len(arrays) else arrays
            instructions.append(Instruction(name, "get-tuple-element", own, [base], f", index={index}", ""))
        base = name


def parse(text):
    """Reads a module's text."""
    module = HloModule("", "", {})
    computation = None
    for line in text.splitlines():
        if line.startswith("HloModule"):
            module.header = line
        elif computation is None:
            match = _COMPUTATION.match(line)
            if match:
                computation = match[2]
                module.instructions[computation] = []
                module.entry = computation if match[1] else module.entry
        elif line.startswith("}"):
            computation = None
        else:
            instruction = _instruction(line, computation)
            if instruction:
                for operand in instruction.operands:
                    _add_elements(operand, module.instructions[computation])
                module.instructions[computation].append(instruction)
    return module


def reached_results(module):
    """Which results of the entry each value reaches, element by element.

    {instruction: {result indices}}: through operations whose result has as many elements as the value; so a gradient
    reaches its own parameter's next value and moments, and not, through a norm of all gradients, every other."""
    order, whole = _without_tuples(module.instructions[module.entry])
    size, users = {}, collections.defaultdict(list)
    reached = collections.defaultdict(set)
    for index, name in enumerate(module.results()):
        reached[whole.get(name, name)].add(index)
    for instruction in order:
        size[instruction.name] = count(instruction.arrays[0][1]) if len(instruction.arrays) == 1 else None
        for operand in instruction.operands:
            users[whole.get(operand, operand)].append(instruction)
    for instruction in reversed(order):
        for user in users[instruction.name]:
            part = user.opcode == "get-tuple-element"
            if part or user.opcode not in _STRUCTURAL and size[user.name] == size[instruction.name]:
                reached[instruction.name] |= reached[user.name]
    return reached


def collectives_before(module):
    """{collective: the last collectives before it, in its own computation, that it waits for}."""
    found = {}
    for instructions in module.instructions.values():
        order, whole = _without_tuples(instructions)
        before = {}  # What a reader of each value waits for.
        for instruction in order:
            waits = frozenset().union(*(before.get(whole.get(o, o), ()) for o in instruction.operands))
            if instruction.opcode.removesuffix("-start") in COLLECTIVES:
                found[instruction.name] = waits
                waits = frozenset([instruction.name])
            before[instruction.name] = waits
    return found


def _without_tuples(instructions):
    """Instructions but for elements taken of tuples made here, and {name of such: the tuple's operand}. A barrier gives
    the tuple that it was given: of what jax.checkpoint computes again it says when, not from what."""
    tuples, whole, order = {}, {}, []
    for instruction in instructions:
        if instruction.opcode == "tuple":
            tuples[instruction.name] = instruction.operands
        elif instruction.opcode == "opt-barrier" and instruction.operands[0] in tuples:
            tuples[instruction.name] = tuples[instruction.operands[0]]
        index = re.search(r"\bindex=(\d+)", instruction.text) if instruction.opcode == "get-tuple-element" else None
        if index and instruction.operands[0] in tuples:
            operand = tuples[instruction.operands[0]][int(index[1])]
            whole[instruction.name] = whole.get(operand, operand)
        else:
            order.append(instruction)
    return order, whole
