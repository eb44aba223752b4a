#!/usr/bin/env python3
"""Draws an exported timeline (`reprise analyze --chrome`) as a picture: a few thin lanes a rank, the critical path in
red over them.

  timeline_picture.py FILE.json[.gz] OUT.svg|OUT.png [--from MS] [--to MS] [--title TEXT]

Times count from the start of the critical path, or of the file without one. A PNG is the SVG as Chromium shows it.
"""

import argparse
import gzip
import html
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

LANES = {"host": ("host-op", "runtime", "annotation"), "compute": ("compute", "copy", "memset", "feed"),
         "network": ("communication", "wait")}
LANE_OF = {category: lane for lane, categories in LANES.items() for category in categories}
LANE_OF_PATH = {"kernel": "compute", "copy": "compute", "collective": "network"}  # Else the host's.
COLOURS = {"host-op": "#c9d3df", "runtime": "#9fb2c8", "annotation": "#e9edf2", "compute": "#3f9b5f", "copy": "#c9a227",
           "memset": "#c9a227", "feed": "#c9a227", "communication": "#4a7fc1", "wait": "#b9d0ec"}
LEGEND = (("host", "#9fb2c8"), ("compute", "#3f9b5f"), ("copy", "#c9a227"), ("communication", "#4a7fc1"))
PATH_COLOUR = "#d1242f"
WIDTH, LEFT, RIGHT, TOP, LANE, GAP, AXIS = 1200, 92, 16, 46, 10, 8, 22


class Timeline:
    """Slices by rank and lane, and the critical path; times in ms."""

    def __init__(self, path):
        data = path.read_bytes()
        events = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.slices, self.path = {}, []
        for event in events:
            if event["ph"] != "X":
                continue
            name, category = names[event["pid"]], event["cat"]
            start, end = event["ts"] / 1e3, (event["ts"] + event["dur"]) / 1e3
            if category == "critical-path":
                lane = LANE_OF_PATH.get(self.track(events, event), "host")
                self.path.append((start, end, f"rank {event['args']['rank']}", lane))
            elif category in LANE_OF:
                self.slices.setdefault((name, LANE_OF[category]), []).append((start, end, category))
        self.path.sort()
        self.ranks = [name for pid, name in sorted(names.items()) if name.startswith("rank ")]

    _tracks = None

    def track(self, events, event):
        if self._tracks is None:
            self._tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        return self._tracks[event["pid"], event["tid"]]

    def rows(self):
        """(rank, lane) from top to bottom; empty lanes are left out."""
        return [(rank, lane) for rank in self.ranks for lane in LANES if (rank, lane) in self.slices]

    def bounds(self):
        spans = self.path or [piece for pieces in self.slices.values() for piece in pieces]
        return min(piece[0] for piece in spans), max(piece[1] for piece in spans)


def merged(pieces, scale):
    """Slices of one colour that touch on the screen, as one."""
    result = {}
    for start, end, category in sorted(pieces):
        x, right = scale(start), max(scale(end), scale(start) + 0.4)
        runs = result.setdefault(COLOURS[category], [])
        if runs and x <= runs[-1][1] + 0.3:
            runs[-1][1] = max(runs[-1][1], right)
        else:
            runs.append([x, right])
    return sorted(result.items(), key=lambda item: item[0] != COLOURS["annotation"])


def places(rows):
    """The top of each row; ranks are set apart."""
    tops, y, last = {}, TOP, None
    for rank, lane in rows:
        y += GAP if last not in (None, rank) else 0
        tops[rank, lane] = y
        y += LANE
        last = rank
    return tops, y


def ticks(length):
    step = next(step for step in (m * 10 ** e for e in range(-3, 7) for m in (1, 2, 5)) if length / step <= 12)
    return [i * step for i in range(int(length / step + 1e-9) + 1)]


def draw(timeline, first, last, title):
    zero, end = timeline.bounds()
    first, last = zero + first, zero + last if last is not None else end
    scale = lambda ms: LEFT + (min(max(ms, first), last) - first) * (WIDTH - LEFT - RIGHT) / (last - first)
    tops, bottom = places(timeline.rows())
    height = bottom + AXIS + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
           f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="14">{html.escape(title)}</text>']
    x = LEFT
    for name, colour in LEGEND + (("critical path", PATH_COLOUR),):
        out.append(f'<rect x="{x}" y="27" width="10" height="10" fill="{colour}"/>'
                   f'<text x="{x + 14}" y="36">{name}</text>')
        x += 30 + 7 * len(name)
    for tick in ticks(last - first):
        at = scale(first + tick)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}" stroke="#e3e6ea"/>'
                   f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{first - zero + tick:g} ms</text>')
    for rank in timeline.ranks:
        mine = [top for (name, _), top in tops.items() if name == rank]
        if mine:
            out.append(f'<text x="{LEFT - 8}" y="{(min(mine) + max(mine) + LANE) / 2 + 4}" text-anchor="end">'
                       f'{html.escape(rank)}</text>')
    for row, top in tops.items():
        shown = [piece for piece in timeline.slices[row] if piece[1] > first and piece[0] < last]
        for colour, runs in merged(shown, scale):
            out += [f'<rect x="{x:.1f}" y="{top + 1}" width="{right - x:.1f}" height="{LANE - 2}" fill="{colour}"/>'
                    for x, right in runs]
    out += path_lines(timeline, tops, scale, first, last)
    return "\n".join(out + ["</svg>"]) + "\n"


def path_lines(timeline, tops, scale, first, last):
    """One line along the lanes that the path is on, upright where it changes lane or rank."""
    points = []
    for start, end, rank, lane in timeline.path:
        if end <= first or start >= last:
            continue
        top = tops.get((rank, lane), tops.get((rank, "host"), tops.get((rank, "compute"))))
        if top is None:
            continue
        y = top + LANE / 2
        if points and points[-1][1] == y:
            points[-1] = (scale(end), y)
        else:
            points += [(scale(start), y), (scale(end), y)]
    text = " ".join(f"{x:.1f},{y}" for x, y in points)
    return [f'<polyline points="{text}" fill="none" stroke="{PATH_COLOUR}" stroke-width="2.5" stroke-linejoin="round"/>']


def save(svg, out):
    if out.suffix == ".svg":
        out.write_text(svg)
        return 0
    chromium = shutil.which("chromium")
    if not chromium:
        print("timeline_picture: a PNG needs chromium (apt install chromium)", file=sys.stderr)
        return 77
    height = svg.split('height="')[1].split('"')[0]
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "picture.svg"
        page.write_text(svg)
        subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{height}",
                        f"--screenshot={out.resolve()}", page.as_uri()], check=True, capture_output=True, timeout=120)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--from", dest="first", type=float, default=0.0)
    parser.add_argument("--to", dest="last", type=float)
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    title = options.title or options.file.name
    return save(draw(Timeline(options.file), options.first, options.last, title), options.out)


if __name__ == "__main__":
    sys.exit(main())
