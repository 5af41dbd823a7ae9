"""Packings of other planners' buffers."""

import numpy as np

import stowage
import support


class PackingsTest(support.TestCase):
    def test_rows_and_columns_are_one_problem(self):
        rows = [(0, 2, 1), (0, 5, 2), (2, 5, 1)]
        by_row = stowage.pack(rows)
        by_column = stowage.pack({"lower": [0, 0, 2], "upper": [2, 5, 5], "size": [1, 2, 1]})
        np.testing.assert_array_equal(by_row.offsets, by_column.offsets)
        # The image of planner/packing/problem.h: 3 bytes, and no fewer.
        self.assertEqual((by_row.height, by_row.lower_bound, by_row.optimal), (3, 3, True))
        self.assertEqual(sum(rows[i][2] for i in by_row.bound_buffers), 3)
        self.assertEqual(by_row.violations, [])
        self.assertEqual(by_row.offsets.dtype, np.int64)

    def test_no_two_that_live_at_once_share_a_byte(self):
        random = np.random.default_rng(3)
        lower = random.integers(0, 50, 200)
        table = {"lower": lower, "upper": lower + random.integers(1, 20, 200),
                 "size": random.integers(1, 1000, 200), "alignment": np.full(200, 64)}
        packed = stowage.pack(table)
        self.assertEqual(set(packed.offsets % 64), {0})
        ends = packed.offsets + table["size"]
        for i in range(200):
            for j in range(i):
                lives = (table["lower"][i] < table["upper"][j] and
                         table["lower"][j] < table["upper"][i])
                shares = packed.offsets[i] < ends[j] and packed.offsets[j] < ends[i]
                self.assertFalse(lives and shares)
        self.assertEqual(packed.height, ends.max())
        self.assertTrue(packed.svg.startswith("<svg"))

    def test_capacities(self):
        rows = [(0, 2, 6), (1, 3, 5)]
        self.assertEqual(stowage.pack(rows, capacity=11).height, 11)
        self.raises(stowage.BudgetTooSmall, "10", stowage.pack, rows, capacity=10)
        self.raises(stowage.InvalidArgument, "nan", stowage.pack, rows,
                    capacity=float("nan"))

    def test_what_is_no_problem(self):
        self.raises(stowage.InvalidArgument, "#0", stowage.pack, [(2, 2, 1)])
        self.raises(stowage.InvalidArgument, "no columns ['size']", stowage.pack,
                    {"lower": [0], "upper": [1]})
        self.raises(stowage.InvalidArgument, "(2,)", stowage.pack, [1, 2])
        self.raises(TypeError, "whole numbers", stowage.pack, [(0, 1, 2.5)])
        self.raises(stowage.InvalidArgument, "columns differ in length: lower 2, upper 1, "
                    "size 2", stowage.pack, {"lower": [0, 1], "upper": [1], "size": [1, 1]})
        self.raises(stowage.InvalidArgument, '"quick"', stowage.pack, [(0, 1, 1)],
                    packer="quick")

    def test_nothing_is_packed_in_nothing(self):
        packed = stowage.pack({"lower": [], "upper": [], "size": []})
        self.assertEqual((packed.height, len(packed.offsets)), (0, 0))


if __name__ == "__main__":
    support.main()
