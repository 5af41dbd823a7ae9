#include "planner/packing/best_fit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

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

}  // namespace
}  // namespace stowage::packing
