#!/usr/bin/env python3
"""Writes the manual pages and shell completions of a program from its help pages: manual.py PROGRAM SHARE

SHARE is a prefix's share folder: man/man1/*.1.gz, bash-completion/completions, zsh/vendor-completions and
fish/vendor_completions.d come below it. The same input gives the same bytes.
"""
import dataclasses
import gzip
import pathlib
import re
import subprocess
import sys

EXIT_STATUS = [("0", "Done."), ("1", "The answer is no: a check or comparison failed."), ("2", "Wrong usage."),
               ("3", "Bad input."), ("4", "The environment lacks something, or a process was lost."),
               ("5", "Internal error."), ("128+N", "Ended by signal N.")]


@dataclasses.dataclass
class Page:
    """One help page: what it is for, its usage, options as (names, type, text), positionals, words below."""
    summary: str
    usage: str
    options: list
    positionals: list
    verbs: list
    notes: str


def rows(lines):
    """(head, text) of lines like "  -o,--output FILE   trace to write", continued where they are indented deeper."""
    found = []
    for line in lines:
        match = re.match(r"  (\S.*?)(?:\s{2,}|(?<=\S)$)(.*)", line)
        if match:
            found.append([match[1], match[2]])
        elif found and line.strip():
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    return found


def read_page(program, verb=None):
    text = subprocess.run([program, *([verb] if verb else []), "--help"], check=True, text=True,
                          capture_output=True).stdout
    head, usage, rest = re.match(r"(.*?)\nUsage: (.*?)\n(.*)", text, re.DOTALL).groups()
    sections, name = {"": []}, ""
    for line in rest.splitlines():
        title = re.fullmatch(r"(Positionals|Options|Subcommands):", line)
        if title:
            name = title[1]
            sections[name] = []
        elif not line.strip() and name in ("Options", "Subcommands"):
            name = ""
        else:
            sections[name].append(line)
    options = []
    for names, text in rows(sections.get("Options", [])):
        flags, _, kind = names.partition(" ")
        options.append((flags.split(","), kind, text))
    return Page(" ".join(head.split()), usage, options, rows(sections.get("Positionals", [])),
                rows(sections.get("Subcommands", [])), "\n".join(sections[""]).strip())


def troff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)


def manual(name, page, version):
    lines = [f'.TH {name.upper()} 1 "" "reprise {version}" "User commands"', ".SH NAME",
             f"{troff(name)} \\- {troff(page.summary[0].lower() + page.summary[1:].rstrip('.'))}", ".SH SYNOPSIS",
             f".B {troff(page.usage)}"]
    if page.notes:
        lines += [".SH DESCRIPTION", ".nf", troff(page.notes), ".fi"]
    for title, entries in (("ARGUMENTS", page.positionals), ("COMMANDS", page.verbs)):
        if entries:
            lines.append(f".SH {title}")
            for head, text in entries:
                lines += [".TP", f".B {troff(head)}", troff(text)]
    lines.append(".SH OPTIONS")
    for flags, kind, text in page.options:
        lines += [".TP", ".BR " + ' ", " '.join(troff(flag) for flag in flags) + (f' " {troff(kind)}"' if kind else ""),
                  troff(text)]
    lines.append(".SH EXIT STATUS")
    for status, text in EXIT_STATUS:
        lines += [".TP", f".B {status}", text]
    if page.verbs:
        lines += [".SH SEE ALSO", ", ".join(f".BR reprise\\-{verb} (1)" for verb, _ in page.verbs).replace(", ", "\n")]
    else:
        lines += [".SH SEE ALSO", ".BR reprise (1)"]
    return "\n".join(lines) + "\n"


# Where a page lists the words of an option below its options, by the option's type.
LISTED_BELOW = {"TARGET": r"^Of a \w+: (.*(?:\n  .*)*)", "KIND": r"^Kinds\b[^:]*: (.*(?:\n  .*)*)"}


def choices(page, kind, text):
    """Words that an option takes, where its help lists them: "table, json or csv (default table)", or the page below."""
    if kind in LISTED_BELOW:
        lists = re.findall(LISTED_BELOW[kind], page.notes, re.MULTILINE)
        return sorted({word for words in lists for word in words.split()})
    text = text.replace(" (default) ", " ")
    match = re.search(r"(?:^|: )((?:[\w-]+, )*[\w-]+,? or [\w-]+|(?:[\w-]+, )+[\w-]+)(?: \(default|: |$)", text)
    words = re.split(r", (?:or )?| or ", match[1]) if match and kind else []
    return words if len(words) > 1 else []


def bash(pages):
    cases = []
    for verb, page in pages.items():
        flags = " ".join(flag for names, _, _ in page.options for flag in names)
        values = "".join(f'\n        {"|".join(names)}) words="{" ".join(choices(page, kind, text))}" ;;'
                         for names, kind, text in page.options if choices(page, kind, text))
        cases.append(f'    {verb})\n      case "$before" in{values}\n'
                     f'        *) [[ $word == -* ]] && words="{flags}" ;;\n      esac ;;')
    return f"""# bash completion of reprise, made from its help pages
_reprise() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W "{" ".join(pages)} --help --version" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{chr(10).join(cases)}
  esac
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _reprise reprise
"""


def quoted(text):
    return text.replace("'", "'\\''")


def zsh(pages):
    def escaped(text):
        return quoted(re.sub(r"([\[\]:])", r"\\\1", text))

    cases = []
    for verb, page in pages.items():
        specs = []
        for names, kind, text in page.options:
            values = f"({' '.join(choices(page, kind, text))})" if choices(page, kind, text) else "_files"
            specs += [f"'{name}[{escaped(text)}]{f':{escaped(kind)}:{values}' if kind else ''}'" for name in names]
        cases.append(f"    {verb}) _arguments {' '.join(specs)} '*:file:_files' ;;")
    verbs = " ".join(f"'{verb}:{escaped(page.summary)}'" for verb, page in pages.items())
    return f"""#compdef reprise
# made from its help pages
_reprise() {{
  if (( CURRENT == 2 )); then
    local -a verbs=({verbs})
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{chr(10).join(cases)}
  esac
}}
_reprise "$@"
"""


def fish(pages):
    lines = ["# made from the help pages of reprise"]
    for verb, page in pages.items():
        lines.append(f"complete -c reprise -n __fish_use_subcommand -a {verb} -d '{quoted(page.summary)}'")
        for names, kind, text in page.options:
            flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in names)
            values = f" -xa '{' '.join(choices(page, kind, text))}'" if choices(page, kind, text) else " -r" if kind else ""
            lines.append(f"complete -c reprise -n '__fish_seen_subcommand_from {verb}' {flags}{values} "
                         f"-d '{quoted(text)}'")
    return "\n".join(lines) + "\n"


def main():
    program, share = sys.argv[1], pathlib.Path(sys.argv[2])
    version = subprocess.run([program, "--version"], check=True, text=True, capture_output=True).stdout.split()[-1]
    whole = read_page(program)
    pages = {verb: read_page(program, verb) for verb, _ in whole.verbs}
    files = {f"man/man1/reprise-{verb}.1.gz": manual(f"reprise-{verb}", page, version) for verb, page in pages.items()}
    files["man/man1/reprise.1.gz"] = manual("reprise", whole, version)
    files["bash-completion/completions/reprise"] = bash(pages)
    files["zsh/vendor-completions/_reprise"] = zsh(pages)
    files["fish/vendor_completions.d/reprise.fish"] = fish(pages)
    for name, text in files.items():
        path = share / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data, 9, mtime=0) if name.endswith(".gz") else data)


if __name__ == "__main__":
    main()
