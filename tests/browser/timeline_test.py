#!/usr/bin/python3
"""Loads a Chrome trace into Chromium's DevTools (Performance panel) and checks the span that it shows.

  timeline_test.py FILE.json[.gz] [EXPECTED_SPAN_MS] [--screenshot FILE.png]
  timeline_test.py --self-test

Without EXPECTED_SPAN_MS, the span from the first start to the last end of the file's own complete events. Exit 0 ok,
1 wrong, 77 skipped with the reason: needs Debian's chromium, chromium-driver and python3-selenium (/usr/bin/python3).
"""

import argparse
import gzip
import json
import pathlib
import shutil
import sys
import tempfile
import time

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    print("browser: skipped: needs /usr/bin/python3 with python3-selenium")
    sys.exit(77)

PAGE = "devtools://devtools/bundled/devtools_app.html?panel=timeline"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1600,1000",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
LOAD_TIMEOUT_S = 60
# DevTools counts in microseconds, the writer in thousandths of one; both ends may be rounded.
TOLERANCE_MS = 0.002

# The panel's file input sits under several shadow roots.
FIND_INPUT = """
function find(root) {
  for (const e of root.querySelectorAll('*')) {
    if (e.matches('input[type=file]')) return e;
    const inner = e.shadowRoot && find(e.shadowRoot);
    if (inner) return inner;
  }
  return null;
}
return find(document);"""

# What the panel itself has parsed: its bounds in microseconds and how many events it kept.
READ_PANEL = """
const done = arguments[0];
(async () => {
  const bounds = await import('devtools://devtools/bundled/services/trace_bounds/trace_bounds.js');
  const timeline = await import('devtools://devtools/bundled/panels/timeline/timeline.js');
  const state = bounds.TraceBounds.BoundsManager.instance().state();
  const panel = timeline.TimelinePanel.TimelinePanel.instance();
  const events = panel.hasActiveTrace() ? panel.getTraceEngineRawTraceEventsForLayoutTests() : [];
  done(state && events.length ? [state.micro.entireTraceBounds.range, events.filter(e => e.ph === 'X').length] : null);
})().catch(error => done('' + error));"""


def wait_for(probe, seconds, until=bool):
    """The first answer of probe that will do, or its last one."""
    end = time.monotonic() + seconds
    while True:
        answer = probe()
        if until(answer) or time.monotonic() > end:
            return answer
        time.sleep(0.2)


def open_browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in FLAGS + [f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    browser = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    browser.set_script_timeout(60)
    return browser


def load(path, screenshot=None, seconds=LOAD_TIMEOUT_S):
    """(span in ms, complete events) as DevTools shows them; None if it shows none; text on an error."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:  # Chromium may still write to it.
        browser = open_browser(profile)
        try:
            browser.get(PAGE)
            chooser = wait_for(lambda: browser.execute_script(FIND_INPUT), 60)
            if not chooser:
                return "DevTools' Performance panel has no file input"
            chooser.send_keys(str(path.resolve()))
            answer = wait_for(lambda: browser.execute_async_script(READ_PANEL), seconds,
                              until=lambda found: isinstance(found, list))
            if screenshot:
                time.sleep(1)
                browser.save_screenshot(str(screenshot))
        finally:
            browser.quit()
    return (answer[0] / 1e3, answer[1]) if isinstance(answer, list) else answer


def own_span_ms(path):
    """(span in ms, complete events) of the file by itself."""
    data = path.read_bytes()
    parsed = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    events = parsed["traceEvents"] if isinstance(parsed, dict) else parsed
    complete = [e for e in events if e.get("ph") == "X"]
    end = max(e["ts"] + e["dur"] for e in complete)
    return (end - min(e["ts"] for e in complete)) / 1e3, len(complete)


def check(path, expected_ms=None, screenshot=None):
    """An error text, or None."""
    span_ms, count = own_span_ms(path)
    expected_ms = span_ms if expected_ms is None else expected_ms
    shown = load(path, screenshot)
    if not isinstance(shown, tuple):
        return f"{path}: DevTools shows no trace: {shown}"
    if abs(shown[0] - expected_ms) > TOLERANCE_MS:
        return f"{path}: DevTools shows {shown[0]:.3f} ms, expected {expected_ms:.3f} ms"
    if shown[1] != count:
        return f"{path}: DevTools kept {shown[1]} of {count} complete events"
    print(f"browser: ok: {path.name}: {shown[0]:.3f} ms, {shown[1]} events")
    return None


def self_test():
    """A good file passes, a wrong span and a broken file do not."""
    events = [{"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "compute"}}]
    for i in range(50):
        events.append({"ph": "X", "pid": 1 + i % 2, "tid": 1, "ts": 1 + i * 500.25, "dur": 400.125, "name": f"op{i}",
                       "cat": "compute", "args": {}})
    for phase, index in (("s", 3), ("f", 4)):
        slice_ = events[1 + index]
        events.append({"ph": phase, "id": 1, "pid": slice_["pid"], "tid": 1, "ts": slice_["ts"], "name": "path",
                       "cat": "critical", **({"bp": "e"} if phase == "f" else {})})
    with tempfile.TemporaryDirectory() as folder:
        good = pathlib.Path(folder) / "good.json.gz"
        good.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
        error = check(good, 49 * 0.50025 + 0.400125)
        if error:
            return error
        if not check(good, 30.0):
            return "a wrong span went unnoticed"
        broken = pathlib.Path(folder) / "broken.json"
        broken.write_text('{"traceEvents": [{"ph": "X", "ts": 1')
        if isinstance(load(broken, seconds=3), tuple):
            return "a broken file went unnoticed"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", type=pathlib.Path)
    parser.add_argument("expected_ms", nargs="?", type=float)
    parser.add_argument("--screenshot", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            print(f"browser: skipped: needs {program} (apt install chromium chromium-driver)")
            return 77
    if not options.file and not options.self_test:
        parser.error("FILE or --self-test")
    error = self_test() if options.self_test else check(options.file, options.expected_ms, options.screenshot)
    if error:
        print(f"browser: {error}", file=sys.stderr)
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
