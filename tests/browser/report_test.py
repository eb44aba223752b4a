#!/usr/bin/python3
"""Opens `reprise report` in Chromium: what it shows, its keys and sliders, hostile names, dark mode, and that panning
10^5 events stays smooth.

  report_test.py REPRISE CHECKOUT [--screenshots DIR]

Exit 0 ok, 1 wrong, 77 skipped: needs Debian's chromium, chromium-driver and python3-selenium (/usr/bin/python3).
"""

import argparse
import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from timeline_test import open_browser  # Skips without selenium.

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\u202e"
# Of a frame's script, which is what panning costs; the compositor's part is the browser's.
MOST_MS_P95 = 50
EVENTS = 100_000

PAN = """
const view = window.reprise, times = [], kept = {...view.state};
view.zoom(0.5);
for (let i = 0; i < 120; ++i) {
  const before = performance.now();
  view.state.from += (view.state.to - view.state.from) * 0.01 * (i % 40 < 20 ? 1 : -1);
  view.state.to = view.state.from + (view.state.to - view.state.from);
  view.clamp(); view.draw();
  times.push(performance.now() - before);
}
Object.assign(view.state, kept);
times.sort((a, b) => a - b);
return times[Math.floor(times.length * 0.95)];"""

# Pixels that are not the background.
INK = """
const canvas = document.getElementById('timeline');
const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
const seen = new Set();
for (let i = 0; i < data.length; i += 4 * 97) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
return seen.size;"""


def kineto(events, name):
    """A trace of one rank: kernels on two streams, each launched by an operator."""
    rows = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0,
             "dur": events * 10.0, "args": {}}]
    for i in range(events // 3):
        at = i * 30.0
        rows.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 20.0, "args": {}})
        rows.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 2,
                     "dur": 5.0, "args": {"correlation": i + 1}})
        rows.append({"ph": "X", "cat": "kernel", "name": f"{name}{i % 7}", "pid": 0, "tid": 7 + i % 2, "ts": at + 9,
                     "dur": 18.0, "args": {"device": 0, "stream": 7 + i % 2, "correlation": i + 1}})
    return {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": rows}


def run(*words):
    answer = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{words}: exit {answer.returncode}: {answer.stderr}")
    return answer


class Check:
    def __init__(self):
        self.errors = []

    def true(self, truth, what):
        if not truth:
            self.errors.append(what)


def check_page(check, browser, page, screenshots, name):
    browser.get(page.resolve().as_uri())
    logs = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    check.true(not logs, f"{name}: the console says {logs[:2]}")
    check.true(browser.execute_script("return window.hacked") is None, f"{name}: a name ran as script")
    loaded = browser.execute_script("return performance.getEntriesByType('resource').length")
    check.true(loaded == 0, f"{name}: it loaded {loaded} more files")
    if screenshots:
        browser.save_screenshot(str(screenshots / f"{name}.png"))


# The least height of a figure's text, in pixels of the screen.
TEXT = """
return Math.min(...Array.from(document.querySelectorAll('svg text')).map(each => {
  const svg = each.ownerSVGElement;
  return parseFloat(getComputedStyle(each).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}));"""


def check_narrow(check, browser, screenshots):
    """On a telephone tables and figures scroll, not the page, and figures can be read."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    if screenshots:
        browser.save_screenshot(str(screenshots / "narrow.png"))
    text = browser.execute_script(TEXT)
    check.true(text >= 9, f"a figure's text is {text:.1f} pixels high on 390")
    browser.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    widths = browser.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    check.true(widths[0] <= widths[1], f"the page is {widths[0]} wide on {widths[1]}")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def check_rows_on_paper(check, browser, reprise, folder):
    """More rows than the screen's timeline shows are printed, and scroll again afterwards. It shows the path's first."""
    files = []
    for rank in range(8):
        told = kineto(900 if rank == 7 else 90, "op")  # The last rank has the critical path.
        told["distributedInfo"] = {"rank": rank, "world_size": 8}
        files.append(folder / f"many{rank}.json")
        files[-1].write_text(json.dumps(told))
    trace, page = folder / "many.trace", folder / "many.html"
    run(reprise, "import", *files, "-o", trace)
    run(reprise, "report", trace, "-o", page)
    browser.get(page.resolve().as_uri())
    path = """const view = JSON.parse(document.getElementById('data').textContent).timeline, seen = window.reprise;
              const lane = Math.max(...view.path.map(entry => entry[0]));
              return [seen.rows[lane].name, 20 + 15 * lane - seen.state.top, document.getElementById('timeline').clientHeight];"""
    name, at, height = browser.execute_script(path)
    check.true(20 <= at < height, f"the critical path's row {name} is at {at} of {height}")
    heights = browser.execute_script("""const canvas = document.getElementById('timeline'), seen = [canvas.clientHeight];
        for (const name of ['beforeprint', 'afterprint']) {
          window.dispatchEvent(new Event(name)); seen.push(canvas.clientHeight);
        }
        return [seen, window.reprise.rows.length];""")
    (screen, paper, again), rows = heights
    check.true(screen < 20 + 15 * rows <= paper + 2 and again == screen, f"{rows} rows are drawn in {heights[0]}")


def check_sample(check, browser, reprise, checkout, folder, screenshots):
    """Two ranks of PyTorch DDP, one made late: verdict, finding, timeline, keys, sliders."""
    trace, page, figures = folder / "sample.trace", folder / "sample.html", folder / "svg"
    run(reprise, "import", checkout / "data/samples/kineto", "-o", trace)
    run(reprise, "report", trace, "-o", page, "--svg", figures)
    check.true({"breakdown.svg", "timeline.svg", "collectives.svg", "findings.svg", "fidelity.svg"} <=
               {figure.name for figure in figures.iterdir()}, "figures are missing")
    check_page(check, browser, page, screenshots, "sample")
    verdict = browser.execute_script("return document.querySelector('.verdict').textContent")
    check.true("rank 1 is late" in verdict, f"verdict: {verdict}")
    check.true(browser.execute_script(INK) >= 4, "the timeline is empty")
    dots = "return document.querySelectorAll('#fidelity circle').length"
    check.true(browser.execute_script(dots) >= 3, "predicted and measured steps are not drawn")
    # Keys: n goes to the path's first entry, Home shows all again.
    keys = """document.getElementById('timeline').dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}));
              return [window.reprise.state.from, window.reprise.state.to, document.getElementById('tip').textContent];"""
    whole = browser.execute_script(keys, "Home")
    near = browser.execute_script(keys, "n")
    check.true(near[1] - near[0] < whole[1] - whole[0], f"n does not zoom: {whole} {near}")
    check.true("critical path 1 of" in near[2], f"n says {near[2]}")
    # A slider shows what `reprise replay` says of the same step.
    browser.execute_script("""const input = document.querySelector('[data-axis=bandwidth]');
        input.value = 3; input.dispatchEvent(new Event('input'));""")
    shown = int(browser.execute_script("return document.querySelector('.answer').dataset.step"))
    analysis = json.loads(run(reprise, "analyze", trace, "--format", "json").stdout)
    step = analysis["critical_path_summary"]["step"]
    replayed = json.loads(run(reprise, "replay", trace, "--step", step, "--what-if", "bandwidth=2x", "--format",
                              "json").stdout)["window"]["predicted_ns"]
    check.true(shown == replayed, f"slider: {shown}, replay: {replayed}")
    light = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                            {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    check.true(light != dark, f"dark mode is as light: {dark}")
    if screenshots:
        browser.save_screenshot(str(screenshots / "dark.png"))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    # Printed, nothing to press is left.
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shows = "return document.querySelector(arguments[0]).getClientRects().length > 0"
    for pressed in (".keys", ".sliders input"):
        check.true(not browser.execute_script(shows, pressed), f"{pressed} is printed")
    check.true(browser.execute_script(shows, ".answer"), "the sliders' answer is not printed")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    check_narrow(check, browser, screenshots)
    both = folder / "both.html"
    run(reprise, "report", trace, trace, "-o", both)
    check_page(check, browser, both, screenshots, "diff")


PLAN = {"schema": "reprise.plan/1", "program_fingerprint": "sha256:0", "ranks": 2, "fusion": [], "buckets": [],
        "predicted": {"step_time_ns": 80_000_000, "baselines": {"none": 100_000_000}, "lower_bound_ns": 75_000_000,
                      "gap": 0.067},
        "search": {"seed": 0, "evaluations": 300, "best": [[1, 100_000_000], [40, 90_000_000], [200, 80_000_000]]}}


def check_plan(check, browser, reprise, folder, screenshots):
    """How the search came to a plan, above its bound, in the page's width."""
    plan, page = folder / "plan.json", folder / "plan.html"
    plan.write_text(json.dumps(PLAN))
    run(reprise, "report", plan, "-o", page)
    check_page(check, browser, page, screenshots, "plan")
    box = browser.execute_script("""const box = document.querySelector('#search svg').getBoundingClientRect();
        return [box.width, box.height, document.documentElement.clientWidth];""")
    check.true(box[0] > 300 and box[1] > 100 and box[0] <= box[2], f"the search is drawn in {box}")
    check.true(browser.execute_script("return document.querySelectorAll('#search circle').length") == 3,
               "the search's best plans are not drawn")


def check_large(check, browser, reprise, folder, screenshots):
    """10^5 events with names that try to break out."""
    source, trace, page = folder / "rank0.json.gz", folder / "large.trace", folder / "large.html"
    source.write_bytes(gzip.compress(json.dumps(kineto(EVENTS, HOSTILE)).encode(), 1))
    run(reprise, "import", source, "-o", trace)
    run(reprise, "report", trace, "-o", page)
    text = page.read_text()
    check.true("<img" not in text and text.count("<script") == 2, "a name stands in the page as it is")
    check.true("\u202e" not in text, "a mark that turns text around stands in the page")
    check_page(check, browser, page, screenshots, "large")
    events = browser.execute_script("return window.reprise.rows.reduce((sum, row) => sum + row.s.length, 0)")
    check.true(events >= EVENTS * 0.9, f"{events} events are drawn of {EVENTS}")
    # What else the machine does only adds: the best of a few pans is the page's own.
    p95 = min(browser.execute_script(PAN) for _ in range(5))
    check.true(p95 <= MOST_MS_P95, f"panning: {p95:.1f} ms a frame at p95, most {MOST_MS_P95}")
    print(f"browser: pan of {events} events: {p95:.1f} ms a frame at p95")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reprise", type=pathlib.Path)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path)
    options = parser.parse_args()
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            print(f"browser: skipped: needs {program} (apt install chromium chromium-driver)")
            return 77
    if options.screenshots:
        options.screenshots.mkdir(parents=True, exist_ok=True)
    check = Check()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        folder = pathlib.Path(directory)
        browser = open_browser(folder / "profile")
        try:
            check_sample(check, browser, options.reprise, options.checkout, folder, options.screenshots)
            check_plan(check, browser, options.reprise, folder, options.screenshots)
            check_rows_on_paper(check, browser, options.reprise, folder)
            check_large(check, browser, options.reprise, folder, options.screenshots)
        finally:
            browser.quit()
    for error in check.errors:
        print(f"browser: {error}", file=sys.stderr)
    return 1 if check.errors else 0


if __name__ == "__main__":
    sys.exit(main())
