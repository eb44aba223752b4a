"""Libraries of the checkout, as CMake knows them (targets.json in the build), and whose a source or a header is.

A source belongs to the targets that list it. A header belongs to the library that has a source of its name in its
folder, else to any library of its folder; and to `libraries_of_header` it makes no difference which.
"""
import dataclasses
import json
import pathlib

import cpp_source


@dataclasses.dataclass
class Target:
    name: str
    type: str
    folder: pathlib.Path  # relative to the checkout
    sources: list  # relative to the checkout; generated ones are left out
    generated: list
    links: list  # of the project's targets, as stated
    headers_of: list  # targets whose inline headers it uses without linking them


class Rooms:
    def __init__(self, root, build):
        self.root, self.build = pathlib.Path(root).resolve(), pathlib.Path(build).resolve()
        listed = json.loads((self.build / "targets.json").read_text())
        names = {entry["name"] for entry in listed}
        self.targets, self.of_source, self.in_folder = {}, {}, {}
        for entry in listed:
            folder = pathlib.Path(entry["folder"])
            sources = [pathlib.Path(folder, source).resolve() for source in entry["sources"] if "$<" not in source]
            ours = [path.relative_to(self.root) for path in sources
                    if path.is_relative_to(self.root) and not path.is_relative_to(self.build)]
            target = Target(entry["name"], entry["type"], folder.resolve().relative_to(self.root), ours,
                            [path for path in sources if path.is_relative_to(self.build)],
                            [link for link in entry["links"] if link in names], entry["headers_of"])
            self.targets[target.name] = target
            for path in ours:
                self.of_source.setdefault(path, []).append(target.name)
            self.in_folder.setdefault(target.folder, []).append(target.name)

    def libraries_of_header(self, header):
        """Names of the targets, one of which is enough to state for whoever includes it."""
        for suffix in (".cc", ".cu"):
            if (owners := self.of_source.get(header.with_suffix(suffix))):
                return set(owners)
        return set(self.in_folder.get(header.parent, []))

    def reached(self, name):
        """The target and all that it links, directly or not."""
        found, waiting = set(), [name]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting += self.targets[at].links
        return found

    def may_include(self, name):
        """The targets whose headers a target's sources may include."""
        return self.reached(name).union(*(self.reached(other) for each in self.reached(name)
                                          for other in self.targets[each].headers_of))

    def includes(self, path):
        """(line, header) of the project's headers that a file names, both relative to the checkout."""
        text = (self.root / path).read_text()
        for match in cpp_source.INCLUDE.finditer(text):
            header = pathlib.Path(match[2])
            if match[1] == '"' and (self.root / header).is_file():
                yield text.count("\n", 0, match.start()) + 1, header

    def product(self):
        """The product's libraries and programs: those outside of tests/."""
        return [target for target in self.targets.values() if target.sources and target.folder.parts[:1] != ("tests",)]
