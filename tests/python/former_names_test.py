"""Arguments and figures work by their former names, for one release, and warn."""

import support

import stowage


class FormerNamesTest(support.TestCase):
    def test_they_work_and_warn(self):
        with self.assertWarnsRegex(DeprecationWarning, "levers is now optimizations"):
            before = stowage.plan("mlp", 8, levers={"pieces": 2}, device="cpu", threads=1)
        now = stowage.plan("mlp", 8, optimizations={"micro_batches": 2}, device="cpu", threads=1)
        self.assertEqual(before.arena_bytes, now.arena_bytes)
        self.assertEqual((before.pieces, before.remade), (now.micro_batches, now.recomputed))
        self.assertEqual(now.micro_batches, 2)
        with self.assertWarnsRegex(DeprecationWarning, "keep is now recompute_keep"):
            self.raises(stowage.NotFound, "none*", stowage.plan, "mlp", 8, device="cpu",
                        threads=1, budget="1GB", keep=["none*"])
        with self.assertWarnsRegex(DeprecationWarning, "levers is now optimizations"):
            stowage.Trainer("mlp", 8, levers="none", device="cpu", threads=1).close()
        self.raises(TypeError, "given twice", stowage.plan, "mlp", 8, levers="none",
                    optimizations="none")


if __name__ == "__main__":
    support.main()
