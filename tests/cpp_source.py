"""What the gates need to know of a C++ source: its code without comments and literals, and its scopes.

No parser: a walk over tokens and braces, which code of ours (no macros that open scopes) allows. Each opening brace is
classified by the tokens before it: a namespace, a type, a function (outside of any function), or anything else. A
lambda is a part of the function that it stands in.
"""
import dataclasses
import pathlib
import re

FLOORS = ("data", "costmodel", "replay", "optimizer", "profiler", "runtime", "cli")
SUFFIXES = (".h", ".cc", ".cu")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)

_COMMENT_OR_LITERAL = re.compile(
    r'//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/'
    r'|(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:[^"\\\n]|\\.|\\\n)*"'
    r"|(?<![0-9a-zA-Z_])'(?:[^'\\\n]|\\.)+'", re.S)
_DIRECTIVE = re.compile(r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', re.M | re.S)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|\"_*\"|\n|\S")
_TYPE_WORDS = {"struct", "class", "union", "enum"}
_AFTER_PARAMETERS = {"()", "{}", "const", "noexcept", "override", "final", "try", "&"}


@dataclasses.dataclass
class Scope:
    kind: str  # namespace, type, alias or function
    name: str  # "" of an anonymous namespace
    outer: tuple  # names of the namespaces and types around it
    first: int  # line, from 1
    last: int

    @property
    def lines(self):
        return self.last - self.first + 1


def product_files(root, floors=FLOORS, suffixes=SUFFIXES):
    """Sources of the product, sorted by path."""
    root = pathlib.Path(root)
    return [path for floor in floors for path in sorted((root / floor).rglob("*")) if path.suffix in suffixes]


def without_comments(text):
    """The text with comments blanked and literals of one character's kind; lines keep their numbers."""
    def replace(match):
        token = match[0]
        if token.startswith(("//", "/*")):
            return re.sub(r"[^\n]", " ", token)
        return '"' + "_" * (len(token) - 2) + '"' if "\n" not in token else re.sub(r"[^\n]+", '"_"', token)
    return _COMMENT_OR_LITERAL.sub(replace, text)


def code_lines(text):
    """Number of lines with code: neither blank nor comment alone."""
    return sum(1 for line in without_comments(text).splitlines() if line.strip())


def _one_branch(code):
    """Blanks preprocessor lines, and what stands after #else or #elif: a brace may be opened in each branch."""
    out, skipping = [], []
    for line in _DIRECTIVE.sub(lambda match: match[0].replace("\\\n", "\n#"), code).split("\n"):
        word = re.match(r"\s*#\s*(\w*)", line)
        if word:
            if word[1] in ("if", "ifdef", "ifndef"):
                skipping.append(False)
            elif word[1] in ("else", "elif") and skipping:
                skipping[-1] = True
            elif word[1] == "endif" and skipping:
                skipping.pop()
        out.append("" if word or any(skipping) else line)
    return "\n".join(out)


def _flat(head):
    """The head's tokens without template parameters, attributes and what stands in brackets: () is one token."""
    flat, depth, i = [], 0, 0
    while i < len(head):
        token = head[i]
        if depth == 0 and token == "template" and head[i + 1:i + 2] == ["<"]:
            angles = 0
            for i in range(i + 1, len(head)):
                angles += {"<": 1, ">": -1}.get(head[i], 0)
                if angles == 0:
                    break
        elif token in "([" and len(token) == 1:
            depth += 1
        elif token in ")]" and len(token) == 1:
            depth -= 1
            if depth == 0 and token == ")" and flat[-1:] != ["alignas"]:
                flat.append("()")
        elif depth == 0:
            flat.append(token)
        i += 1
    return flat


def _kind(head, in_function):
    """What an opening brace after `head` begins: (kind, name)."""
    flat = _flat(head)
    if "namespace" in flat:
        return "namespace", "".join(flat[flat.index("namespace") + 1:])
    if flat[:1] == ["extern"] and len(flat) == 2 and flat[1].startswith('"'):
        return "namespace", "extern"
    if "=" not in flat:
        words = [i for i, token in enumerate(flat) if token in _TYPE_WORDS]
        first_call = flat.index("()") if "()" in flat else len(flat)
        if words and words[0] < (flat.index(":") if ":" in flat else first_call) and \
                (first_call == len(flat) or ":" in flat[:first_call]):
            name = [token for token in flat[words[0] + 1:flat.index(":") if ":" in flat else None]
                    if token not in ("class", "struct", "final", "alignas")]
            return "type", "".join(name)
    if in_function or "()" not in flat:
        return "block", ""
    call = flat.index("()")
    if "operator" in flat[:call + 1]:
        return "function", "operator" + "".join(flat[flat.index("operator") + 1:call])
    if "=" in flat:
        return "block", ""
    if flat[-1] not in _AFTER_PARAMETERS and "->" not in flat[call:] and "requires" not in flat:
        return "initializer", ""  # of a member, in a constructor's list
    start = call
    while start > 0 and (flat[start - 1] in ("::", "~") or re.match(r"\w", flat[start - 1])) and \
            not (start < call and re.match(r"\w", flat[start]) and re.match(r"\w", flat[start - 1])):
        start -= 1
    return "function", "".join(flat[start:call])


def scopes(text):
    """Namespaces, types, type aliases (these outside of functions) and functions of a source, by their ends."""
    found, stack, head, head_line, brackets, line = [], [], [], 0, 0, 1
    around = lambda *kinds: tuple(entry[1] for entry in stack if entry[0] in kinds)
    for token in _TOKEN.findall(_one_branch(without_comments(text))):
        if token == "\n":
            line += 1
            continue
        if token in ("(", "["):
            brackets += 1
        elif token in (")", "]"):
            brackets -= 1
        base = stack[-1][3] if stack else 0
        in_function = bool(around("function", "block", "initializer"))
        if token == "{":
            kind, name = ("block", "") if brackets > base else _kind(head, in_function)
            stack.append((kind, name, head_line or line, brackets, head))
            head, head_line = [], 0
        elif token == "}":
            if not stack:
                raise ValueError(f"line {line}: a brace closes nothing")
            kind, name, first, _, before = stack.pop()
            in_function = bool(around("function", "block", "initializer"))
            if kind in ("namespace", "type", "function") and not in_function:
                found.append(Scope(kind, name, around("namespace", "type"), first, line))
            # The expression goes on after the braces that it holds.
            goes_on = kind in ("initializer", "block") and not in_function
            head, head_line = (before + ["{}"], first) if goes_on else ([], 0)
        elif token == ";" and brackets == base:
            if not in_function and head[:1] == ["using"] and head[2:3] == ["="]:
                found.append(Scope("alias", head[1], around("namespace", "type"), head_line, line))
            head, head_line = [], 0
        elif token == ":" and head in (["public"], ["private"], ["protected"]):
            head, head_line = [], 0
        else:
            head_line = head_line or line
            head.append(token)
    if stack:
        raise ValueError(f"line {stack[-1][2]}: a brace is not closed")
    return found
