#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "planner/packing/repack.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

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
