# SPDX-License-Identifier: MIT
# formats_test.py - what readers of the formats of a report find in FOLDER/report.*, a line for each fact.
import sys
import xml.etree.ElementTree
from html.parser import HTMLParser


def junit(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    print("junit", root.get("name"), root.get("tests"), root.get("failures"), root.get("errors"))
    for suite in root.findall("testsuite"):
        cases = suite.findall("testcase")
        failed = [case for case in cases if case.find("failure") is not None]
        broken = [case for case in cases if case.find("error") is not None]
        assert int(suite.get("tests")) == len(cases)
        assert float(suite.get("time")) > 0 and not any(case.get("time") for case in cases)
        assert int(suite.get("failures")) == len(failed) and int(suite.get("errors")) == len(broken)
        print("suite", suite.get("name"), len(cases), len(failed), len(broken))
        for case in failed:
            print("failure", case.get("name"), "|", case.find("failure").get("message"))


class Page(HTMLParser):
    """What a reader sees of the summary, and of which elements it is made."""

    def __init__(self):
        super().__init__()
        self.rows, self.tags, self.row, self.said = [], set(), None, ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.row = []
        elif tag in ("td", "th"):
            self.row.append("")

    def handle_endtag(self, tag):
        if tag == "tr":
            self.rows.append([cell.strip() for cell in self.row])
            self.row = None

    def handle_data(self, data):
        self.said += data
        if self.row:
            self.row[-1] += data


def summary(path):
    page = Page()
    with open(path, encoding="utf-8") as file:
        page.feed(file.read())
    assert len({len(row) for row in page.rows}) == 1
    print("summary", len(page.rows[0]), "columns", ", ".join(page.rows[0][1:]))
    for row in page.rows:
        if row[0] == "queries":
            print("summary", *row)
    print("summary tags", *sorted(page.tags))
    print("summary says", page.said.strip().split("\n")[0])


folder = sys.argv[1]
junit(folder + "/report.junit.xml")
summary(folder + "/report.html")
