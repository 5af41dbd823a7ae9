"""docs/guides/importing.md lists the ATen ops that have a row, and no others."""

import pathlib
import re
import unittest

import support

from stowage._aten import ROWS


class ImportingTest(support.TestCase):
    def test_the_page_lists_the_rows(self):
        page = pathlib.Path("docs/guides/importing.md").read_text(encoding="utf-8")
        listed = page.partition("<!-- ATen ops -->\n")[2].partition("\n<!-- end -->")[0]
        rows = ", ".join(f"`{name.removesuffix('.default')}`" for name in sorted(ROWS))
        self.assertEqual(re.sub(r"\s+", " ", listed).strip(), rows,
                         "\nwrite this between the marks:\n" + rows)


if __name__ == "__main__":
    support.main()
