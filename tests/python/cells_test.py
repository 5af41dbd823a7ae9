"""What a notebook's cell shows, in a browser: each page is in a frame of its own, runs there,
and nothing of it is read as the notebook's own."""

import unittest

import browser
import stowage
import support

# Of each frame: its heading, the maps that are drawn, and how many colours are in them.
FRAMES = """
tell('frames', [...document.querySelectorAll('iframe')].map((frame) => {
  const page = frame.contentDocument;
  const maps = [...page.querySelectorAll('figure canvas')];
  const colours = (map) => new Set(new Uint32Array(map.getContext('2d').getImageData(
      0, 0, map.width, map.height).data.buffer)).size;
  return {title: page.title, ready: page.body.dataset.ready,
          heading: page.querySelector('h1').textContent, colours: maps.map(colours),
          width: frame.clientWidth, height: frame.clientHeight,
          text: page.body.innerText};
}));
tell('images', [...document.querySelectorAll('main > svg')].map(
    (svg) => svg.querySelectorAll('path, rect, circle, polyline').length));
tell('top', [...document.querySelector('main').children].map((each) => each.tagName));
"""


@unittest.skipUnless(browser.COMMAND, "no chromium here (tools/setup.sh --checks)")
class CellsTest(support.TestCase):
    @classmethod
    def setUpClass(cls):
        options = {"batch": 8, "seq": 16, "device": "cpu", "threads": 1}
        cls.whole = stowage.plan("gpt-nano", **options)
        cls.small = stowage.plan("gpt-nano", budget="6MB", **options)

    def shown(self, *cells, script=""):
        answers = browser.ask("".join(each._repr_html_() for each in cells), FRAMES + script)
        self.assertEqual(answers["errors"], [])
        for frame in answers["frames"]:
            self.assertEqual(frame["ready"], "true")
            self.assertGreater(frame["width"], 1000)
            self.assertEqual(frame["height"], 640)
            for colours in frame["colours"]:
                self.assertGreater(colours, 5)
        return answers

    def test_plans_comparisons_frontiers_and_reports(self):
        packed = stowage.pack([(0, 2, 100), (0, 5, 50), (2, 5, 100)])
        with support.trainer() as trainer:
            report = trainer.report([trainer.step(*support.batch()) for _ in range(3)])
        answers = self.shown(self.small, self.whole.compare(self.small),
                             self.small.frontier(), report, packed)
        self.assertEqual(answers["top"], ["IFRAME", "IFRAME", "svg", "IFRAME", "svg"])
        plan, compared, run = answers["frames"]
        self.assertEqual(plan["heading"], "gpt-nano")
        self.assertEqual(compared["heading"], "gpt-nano and gpt-nano")
        self.assertEqual(run["heading"], "softmax_net")
        self.assertEqual([len(each["colours"]) for each in answers["frames"]], [1, 2, 2])
        self.assertIn(f"{self.small.arena_bytes / 2**20:.1f} MiB", plan["text"])
        for marks in answers["images"]:
            self.assertGreater(marks, 2)

    def test_a_cell_is_searched_like_the_page(self):
        answers = self.shown(self.small, script="""
            const page = document.querySelector('iframe').contentDocument;
            const field = page.getElementById('search');
            field.value = 'h.0.';
            field.dispatchEvent(new Event('input'));
            tell('hits', Number(page.getElementById('hits').dataset.count));
        """)
        self.assertGreater(answers["hits"], 10)

    def test_names_are_shown_and_never_run(self):
        def net(g, batch):
            support.softmax_net(g, batch)

        net.__name__ = """"'></iframe></script><script>throw 1</script>&lt;b&amp;"""
        answers = self.shown(stowage.plan(net, 8, device="cpu", threads=1))
        self.assertEqual(answers["top"], ["IFRAME"])
        self.assertEqual(answers["frames"][0]["heading"], net.__name__)


if __name__ == "__main__":
    support.main()
