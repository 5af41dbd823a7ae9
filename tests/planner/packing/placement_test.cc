#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "planner/packing/free_space.h"
#include "planner/packing/part.h"
#include "planner/packing/problem.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

TEST_CASE("What is raised is the top, and nothing else is") {
  Skyline skyline(5);
  CHECK(skyline.Top({0, 5}) == 0);
  skyline.Raise({1, 3}, 7);
  CHECK(skyline.Top({0, 1}) == 0);
  CHECK(skyline.Top({0, 2}) == 7);
  CHECK(skyline.Top({2, 3}) == 7);
  CHECK(skyline.Top({3, 5}) == 0);
  skyline.Raise({2, 5}, 9);
  CHECK(skyline.Top({1, 2}) == 7);
  CHECK(skyline.Top({2, 3}) == 9);
  CHECK(skyline.Top({4, 5}) == 9);
}

TEST_CASE("A thousand raises agree with an array") {
  std::mt19937_64 random(3);
  for (const int columns : {1, 2, 3, 7, 8, 100}) {
    Skyline skyline(columns);
    std::vector<Bytes> tops(static_cast<size_t>(columns), 0);
    for (int round = 0; round < 1000; ++round) {
      const auto begin = static_cast<int32_t>(Uniform(random, 0, columns - 1));
      const auto end =
          static_cast<int32_t>(Uniform(random, begin + 1, columns));
      const Bytes top =
          *std::max_element(tops.begin() + begin, tops.begin() + end);
      REQUIRE(skyline.Top({begin, end}) == top);
      const Bytes raised = top + Uniform(random, 0, 9);
      skyline.Raise({begin, end}, raised);
      std::fill(tops.begin() + begin, tops.begin() + end, raised);
    }
  }
}

TEST_CASE("There is a column for each largest set of live buffers") {
  // a a . . .     {a, b} until a dies, then {b, c}; d is born after c died.
  // b b b b .
  // . . c . .
  // . . . . d
  const Columns columns =
      ComputeColumns({.buffers = {{.lower = 0, .upper = 2, .size = 1},
                                  {.lower = 0, .upper = 4, .size = 1},
                                  {.lower = 2, .upper = 3, .size = 1},
                                  {.lower = 4, .upper = 5, .size = 1},
                                  {.lower = 0, .upper = 5, .size = 0}}});
  CHECK(columns.count == 3);
  const int32_t expected[][2] = {{0, 1}, {0, 2}, {1, 2}, {2, 3}, {0, 0}};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(columns.ranges[i].begin == expected[i][0]);
    CHECK(columns.ranges[i].end == expected[i][1]);
  }
}

TEST_CASE("Nothing has no columns") { CHECK(ComputeColumns({}).count == 0); }

TEST_CASE("Buffers share a column exactly when they live at the same time") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 3000; ++round) {
    const Problem problem = RandomProblem(random, 16);
    const Columns columns = ComputeColumns(problem);
    std::set<int32_t> begins;
    for (size_t i = 0; i < problem.buffers.size(); ++i) {
      const Buffer& a = problem.buffers[i];
      const ColumnRange x = columns.ranges[i];
      if (a.size == 0) {
        CHECK(x.begin == x.end);
        continue;
      }
      CHECK(x.begin < x.end);
      CHECK(x.end <= columns.count);
      begins.insert(x.begin);
      for (size_t j = 0; j < i; ++j) {
        const Buffer& b = problem.buffers[j];
        const ColumnRange y = columns.ranges[j];
        const bool together =
            b.size > 0 && a.lower < b.upper && b.lower < a.upper;
        CHECK((x.begin < y.end && y.begin < x.end) == together);
      }
    }
    // No column is there in vain: in each something is born.
    CHECK(static_cast<int32_t>(begins.size()) == columns.count);
  }
}

TEST_CASE("What is freed merges with the gaps beside it, and is taken again") {
  BestFit heap(100);
  const BestFit::Block a = heap.Take(10, 1);
  const BestFit::Block b = heap.Take(20, 1);
  const BestFit::Block c = heap.Take(30, 1);
  const BestFit::Block top = heap.Take(1, 1);
  CHECK(heap.offset(a) == 100);
  CHECK(heap.offset(b) == 110);
  CHECK(heap.offset(c) == 130);
  CHECK(heap.offset(top) == 160);
  heap.Free(a);
  heap.Free(c);
  heap.Free(b);
  CHECK(heap.offset(heap.Take(60, 1)) == 100);
  heap.Free(top);  // nothing is above: it is part of what was never taken
  CHECK(heap.offset(heap.Take(70, 1)) == 160);
}

TEST_CASE("The tightest gap is taken, not the lowest") {
  BestFit heap(0);
  const BestFit::Block wide = heap.Take(100, 1);
  heap.Take(1, 1);
  const BestFit::Block tight = heap.Take(20, 1);
  heap.Take(1, 1);
  heap.Free(wide);
  heap.Free(tight);
  CHECK(heap.offset(heap.Take(20, 1)) == 101);
  CHECK(heap.offset(heap.Take(20, 1)) == 0);
  CHECK(heap.offset(heap.Take(80, 1)) == 20);
}

TEST_CASE("Padding is left for others, and is enough where it is needed") {
  BestFit heap(0);
  heap.Take(3, 1);
  CHECK(heap.offset(heap.Take(8, 8)) == 8);
  CHECK(heap.offset(heap.Take(5, 1)) == 3);
  const BestFit::Block gap = heap.Take(15, 1);  // [16, 31)
  heap.Take(1, 1);
  heap.Free(gap);
  // It would fit, but for its alignment.
  CHECK(heap.offset(heap.Take(14, 32)) == 32);
  CHECK(heap.offset(heap.Take(15, 16)) == 16);
}

TEST_CASE("The largest numbers do not wrap") {
  constexpr Bytes kMax = std::numeric_limits<Bytes>::max();
  BestFit heap(0);
  const BestFit::Block all = heap.Take(kMax, 1);
  CHECK(heap.offset(all) == 0);
  heap.Free(all);
  const BestFit::Block low = heap.Take(kMax - 1, 1);
  heap.Take(1, 1);
  heap.Free(low);
  CHECK(heap.offset(heap.Take(kMax - 1, 1)) == 0);
}

TEST_CASE("Blocks that are taken never overlap, and keep their alignment") {
  struct Taken {
    BestFit::Block block;
    Bytes begin;
    Bytes end;
  };
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    const Bytes floor = Uniform(random, 0, 50);
    const Bytes most = Bytes{1} << Uniform(random, 1, 20);
    BestFit heap(floor);
    std::vector<Taken> taken;
    for (int k = 0; k < 300; ++k) {
      if (!taken.empty() && Uniform(random, 0, 2) == 0) {
        const auto gone =
            taken.begin() + Uniform(random, 0, std::ssize(taken) - 1);
        heap.Free(gone->block);
        taken.erase(gone);
        continue;
      }
      const Bytes size = Uniform(random, 1, most);
      const Bytes alignment = Uniform(random, 1, 40);
      const BestFit::Block block = heap.Take(size, alignment);
      const Bytes begin = heap.offset(block);
      CHECK(begin >= floor);
      CHECK(begin % alignment == 0);
      for (const Taken& other : taken) {
        CHECK((begin + size <= other.begin || begin >= other.end));
        REQUIRE(heap.offset(other.block) == other.begin);
      }
      taken.push_back({block, begin, begin + size});
    }
    // With all gone nothing is left of it.
    std::shuffle(taken.begin(), taken.end(), random);
    for (const Taken& t : taken) heap.Free(t.block);
    CHECK(heap.offset(heap.Take(most, 1)) == floor);
  }
}

constexpr Bytes kMax = std::numeric_limits<Bytes>::max();

TEST_CASE("Spans that touch become one") {
  SpanSet set;
  CHECK(set.empty());
  set.Add(10, 20);
  set.Add(30, 40);
  CHECK(set.LowestGap(0, 10, 1).begin == 0);
  CHECK(set.LowestGap(0, 11, 1).begin == 40);
  CHECK(set.LowestGap(10, 10, 1).begin == 20);
  CHECK(set.LowestGap(10, 10, 1).end == 30);
  CHECK(set.LowestGap(10, 11, 1).steps == 2);
  set.Add(20, 30);
  CHECK(set.LowestGap(10, 1, 1).begin == 40);
  CHECK(set.LowestGap(10, 1, 1).end == kMax);
  CHECK(set.LowestGap(10, 1, 1).steps == 1);
  set.Clear();
  CHECK(set.empty());
}

TEST_CASE("A gap is entered at a multiple of the alignment") {
  SpanSet set;
  set.Add(0, 3);
  set.Add(11, 12);
  CHECK(set.LowestGap(0, 3, 8).begin == 8);
  CHECK(set.LowestGap(0, 4, 8).begin == 16);
}

// A hold as a plain table of bytes: one row of addresses for each column.
class TableHold {
 public:
  explicit TableHold(int32_t columns) : rows_(columns) {}

  Bytes LowestFit(ColumnRange range, Bytes size, Bytes alignment) const {
    for (Bytes at = 0;; at += alignment) {
      bool clear = true;
      for (int32_t c = range.begin; c < range.end; ++c) {
        for (Bytes byte = at; byte < at + size; ++byte) {
          clear = clear && !Taken(c, byte);
        }
      }
      if (clear) return at;
    }
  }

  void Occupy(ColumnRange range, Bytes begin, Bytes end) {
    for (int32_t c = range.begin; c < range.end; ++c) {
      if (static_cast<Bytes>(rows_[c].size()) < end) rows_[c].resize(end);
      for (Bytes byte = begin; byte < end; ++byte) rows_[c][byte] = true;
    }
  }

 private:
  bool Taken(int32_t column, Bytes byte) const {
    return byte < static_cast<Bytes>(rows_[column].size()) &&
           rows_[column][byte];
  }
  std::vector<std::vector<bool>> rows_;
};

TEST_CASE("The hold finds the gap that a table of bytes finds") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const int32_t columns = static_cast<int32_t>(Uniform(random, 1, 40));
    Hold hold(columns);
    for (int filling = 0; filling < 2; ++filling) {
      hold.Clear();
      TableHold table(columns);
      for (int k = 0; k < 40; ++k) {
        ColumnRange range;
        range.begin = static_cast<int32_t>(Uniform(random, 0, columns - 1));
        range.end =
            static_cast<int32_t>(Uniform(random, range.begin + 1, columns));
        const Bytes size = Uniform(random, 1, 9);
        const Bytes alignment = Uniform(random, 1, 4);
        const Bytes at = hold.LowestFit(range, size, alignment);
        REQUIRE(at == table.LowestFit(range, size, alignment));
        // Mostly there; sometimes further up, as fixed buffers are.
        const Bytes begin = at + (Uniform(random, 0, 3) == 0 ? 5 : 0);
        hold.Occupy(range, begin, begin + size);
        table.Occupy(range, begin, begin + size);
      }
    }
  }
}

TEST_CASE("Work grows with looking and is the same every time") {
  const auto fill = [] {
    Hold hold(8);
    int64_t before = hold.work();
    for (int32_t k = 0; k < 32; ++k) {
      const ColumnRange range{k % 4, k % 4 + 4};
      const Bytes at = hold.LowestFit(range, k + 1, 1);
      CHECK(hold.work() >= before);
      before = hold.work();
      hold.Occupy(range, at, at + k + 1);
    }
    return hold.work();
  };
  CHECK(fill() > 0);
  CHECK(fill() == fill());
}

}  // namespace
}  // namespace stowage::packing
