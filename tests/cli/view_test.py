#!/usr/bin/env python3
"""`reprise view`: the page of a report at an address of this machine alone, behind a path that must be known."""

import http.client
import signal
import subprocess
import unittest
import urllib.parse

from command_case import BIN, ROOT, CommandCase, end_all


class View(CommandCase):
    def setUp(self):
        super().setUp()
        self.reprise("import", ROOT / "data/samples/kineto", "-o", self.trace)

    def view(self, *words, under=()):
        """A running view and its address."""
        run = subprocess.Popen([*under, BIN / "reprise", "view", *map(str, words)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.stderr.close)
        self.addCleanup(end_all, run)
        line = run.stdout.readline().strip()
        self.assertTrue(line, run.stderr.read() if not line else "")
        return run, urllib.parse.urlsplit(line)

    def ask(self, address, path=None, method="GET", host=None):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        self.addCleanup(connection.close)
        connection.request(method, address.path if path is None else path, headers={"Host": host or address.netloc})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer

    def test_the_report_is_served_until_ctrl_c(self):
        run, address = self.view(self.trace)
        self.assertEqual(address.hostname, "127.0.0.1")
        self.assertRegex(address.path, r"^/[0-9a-f]{32}/$")
        output = self.path / "report.html"
        self.reprise("report", self.trace, "-o", output)
        for _ in range(2):
            status, page, answer = self.ask(address)
            self.assertEqual((status, page), (200, output.read_text()))
        self.assertEqual(answer.getheader("Cache-Control"), "no-store")
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(60), 128 + signal.SIGINT)
        with self.assertRaises(OSError):
            self.ask(address)

    def test_under_nohup_a_hangup_ends_nothing(self):
        run, address = self.view(self.trace, under=["nohup"])
        run.send_signal(signal.SIGHUP)
        self.assertEqual(self.ask(address)[0], 200)
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 128 + signal.SIGTERM)

    def test_who_does_not_know_the_path_gets_nothing(self):
        _, address = self.view(self.trace)
        for path in ("/", "/x/", address.path + "x", address.path[:-1], "//" + address.path, "http://x" + address.path):
            status, page, _ = self.ask(address, path)
            self.assertEqual((status, page), (404, ""), path)
        # A page of another site whose name leads here (DNS rebinding) says its own name.
        self.assertEqual(self.ask(address, host="evil.example")[:2], (404, ""))
        self.assertEqual(self.ask(address, method="POST")[0], 405)
        status, page, answer = self.ask(address, method="HEAD")
        self.assertEqual((status, page), (200, ""))
        self.assertGreater(int(answer.getheader("Content-Length")), 1000)
        self.assertEqual(self.ask(address, host=f"localhost:{address.port}")[0], 200)

    def test_two_addresses_differ(self):
        self.assertNotEqual(self.view(self.trace)[1].path, self.view(self.trace)[1].path)

    def test_a_report_that_was_written_is_shown_as_it_is(self):
        page = self.path / "report.html"
        self.reprise("report", self.trace, "-o", page)
        run, address = self.view(page)
        self.assertEqual(self.ask(address)[1], page.read_text())
        run.terminate()
        self.assertEqual(run.wait(60), 128 + signal.SIGTERM)

    def test_what_is_none_of_these_is_refused(self):
        self.reprise("view", self.write("x.txt", "hello"), status=3)
        self.reprise("view", self.path / "none.trace", status=3)
        _, address = self.view(self.trace)
        done = self.reprise("view", self.trace, "--port", address.port, status=4)
        self.assertIn("--port 0", done.stderr)


if __name__ == "__main__":
    unittest.main()
