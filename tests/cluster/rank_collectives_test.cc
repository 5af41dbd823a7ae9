#include "cluster/rank_collectives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cluster/link.h"
#include "tests/cluster/on_ranks.h"
#include "tests/cluster/rank_values.h"

namespace stowage::cluster {
namespace {

template <typename T>
std::span<std::byte> BytesOf(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// What every rank has after an all-reduce of the values of RankValues.
template <typename T>
std::vector<std::vector<T>> AllReduced(DType dtype, int ranks, size_t count,
                                       Bytes scratch_bytes) {
  std::vector<std::vector<T>> results(static_cast<size_t>(ranks));
  OnRanks(ranks, [&](Link& link) {
    RankCollectives collectives(link);
    std::vector<T>& values = results[static_cast<size_t>(link.rank())];
    values = RankValues<T>(link.rank(), count);
    std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes));
    if (!collectives.AllReduce(dtype, BytesOf(values), scratch)) values = {};
  });
  return results;
}

TEST_CASE("an all-reduce sums in rank order, for any number of elements") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const size_t count : {0, 1, 2, 5, 64, 1000, 4099}) {
      const auto bytes = static_cast<Bytes>(count * sizeof(float));
      const auto results = AllReduced<float>(DType::kF32, ranks, count,
                                             CollectiveScratch(bytes, ranks));
      const std::vector<float> sums = SumsInRankOrder<float>(ranks, count);
      CAPTURE(ranks);
      CAPTURE(count);
      for (const std::vector<float>& result : results) CHECK(result == sums);
    }
  }
}

TEST_CASE("scratch for a few lines at a time gives the same bits") {
  constexpr size_t kCount = 3000;
  const std::vector<float> sums = SumsInRankOrder<float>(4, kCount);
  // The order matters here: backwards the sums are others.
  std::vector<float> backwards = RankValues<float>(3, kCount);
  for (int rank = 2; rank >= 0; --rank) {
    const std::vector<float> more = RankValues<float>(rank, kCount);
    for (size_t i = 0; i < kCount; ++i) backwards[i] += more[i];
  }
  CHECK(backwards != sums);
  for (const Bytes scratch : {3 * 64, 3 * 192, 100'000}) {
    for (const auto& result :
         AllReduced<float>(DType::kF32, 4, kCount, scratch)) {
      CHECK(result == sums);
    }
  }
}

TEST_CASE("f64, i32 and i64 are summed as they are") {
  const auto f64 = AllReduced<double>(DType::kF64, 3, 100, 4096);
  CHECK(f64[1] == SumsInRankOrder<double>(3, 100));
  const auto i32 = AllReduced<int32_t>(DType::kI32, 3, 100, 4096);
  CHECK(i32[2] == SumsInRankOrder<int32_t>(3, 100));
  const auto i64 = AllReduced<int64_t>(DType::kI64, 3, 100, 4096);
  CHECK(i64[0] == SumsInRankOrder<int64_t>(3, 100));
}

// The 16-bit sums of 1, 2^-8 and 2^-8: to add the small ones first, or to round once,
// would give one more.
TEST_CASE("16-bit sums are rounded after each addition") {
  constexpr uint16_t kOne = 0x3F80, kTiny = 0x3B80;  // bf16
  std::vector<uint16_t> results(3);
  OnRanks(3, [&](Link& link) {
    RankCollectives collectives(link);
    std::vector<uint16_t> value = {link.rank() == 0 ? kOne : kTiny};
    std::vector<std::byte> scratch(128);
    if (collectives.AllReduce(DType::kBF16, BytesOf(value), scratch)) {
      results[static_cast<size_t>(link.rank())] = value[0];
    }
  });
  CHECK(results == std::vector<uint16_t>(3, kOne));
  constexpr uint16_t kHalfOne = 0x3C00, kHalfTiny = 0x1000;  // f16: 2^-11
  OnRanks(3, [&](Link& link) {
    RankCollectives collectives(link);
    std::vector<uint16_t> value = {link.rank() == 0 ? kHalfOne : kHalfTiny};
    std::vector<std::byte> scratch(128);
    if (collectives.AllReduce(DType::kF16, BytesOf(value), scratch)) {
      results[static_cast<size_t>(link.rank())] = value[0];
    }
  });
  CHECK(results == std::vector<uint16_t>(3, kHalfOne));
}

TEST_CASE(
    "a rank that throws is lost to the others, and heard of behind them") {
  // A byte of its own for each rank: those of a vector<bool> share one.
  std::array<bool, 3> done = {true, true, true};
  const auto run = [&] {
    OnRanks(3, [&](Link& link) {
      if (link.rank() == 1) throw std::runtime_error("no more");
      RankCollectives collectives(link);
      std::vector<float> values(4, 1);
      std::vector<std::byte> scratch(
          static_cast<size_t>(CollectiveScratch(16, 3)));
      const bool is_done =
          collectives.AllReduce(DType::kF32, BytesOf(values), scratch);
      done[static_cast<size_t>(link.rank())] = is_done;
    });
  };
  CHECK_THROWS_WITH_AS(run(), "no more", std::runtime_error);
  CHECK_FALSE(done[0]);
  CHECK_FALSE(done[2]);
}

TEST_CASE("a reduce-scatter gives each rank its block, and leaves the rest") {
  constexpr int kRanks = 4;
  // The last two are rounded up to whole granules.
  constexpr std::pair<size_t, size_t> kCases[] = {
      {1, 1}, {6, 2}, {8, 2}, {1001, 251}, {1001, 256}, {6, 4}};
  for (const auto& each : kCases) {
    const size_t count = each.first, block = each.second;
    const std::vector<float> sums = SumsInRankOrder<float>(kRanks, count);
    std::vector<std::vector<float>> blocks(kRanks);
    OnRanks(kRanks, [&](Link& link) {
      RankCollectives collectives(link);
      std::vector<float> values = RankValues<float>(link.rank(), count);
      std::vector<float> own(block, -1);
      std::vector<std::byte> scratch(static_cast<size_t>(CollectiveScratch(
          static_cast<Bytes>(kRanks * block * sizeof(float)), kRanks)));
      if (collectives.ReduceScatter(DType::kF32, BytesOf(values), BytesOf(own),
                                    scratch)) {
        blocks[static_cast<size_t>(link.rank())] = own;
      }
    });
    CAPTURE(count);
    for (size_t rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < block; ++i) {
        const size_t at = rank * block + i;
        CHECK(blocks[rank][i] == (at < count ? sums[at] : -1.0f));
      }
    }
  }
}

TEST_CASE("an all-gather puts the blocks in rank order") {
  for (const size_t size : {9, 10, 12}) {  // of three ranks, in blocks of 4
    std::vector<std::vector<uint8_t>> results(3);
    OnRanks(3, [&](Link& link) {
      RankCollectives collectives(link);
      std::vector<uint8_t> block(4), all(size);
      for (size_t i = 0; i < 4; ++i) {
        block[i] = static_cast<uint8_t>(link.rank() * 4 + static_cast<int>(i));
      }
      if (collectives.AllGather(BytesOf(block), BytesOf(all))) {
        results[static_cast<size_t>(link.rank())] = all;
      }
    });
    for (const auto& result : results) {
      REQUIRE(result.size() == size);
      for (size_t i = 0; i < size; ++i) CHECK(result[i] == i);
    }
  }
}

TEST_CASE("a broadcast gives all what rank 0 has") {
  for (const size_t size : {0, 1, 2, 3, 1000}) {
    std::vector<std::vector<float>> results(3);
    OnRanks(3, [&](Link& link) {
      RankCollectives collectives(link);
      std::vector<float> values = RankValues<float>(link.rank(), size);
      if (collectives.Broadcast(BytesOf(values))) {
        results[static_cast<size_t>(link.rank())] = values;
      }
    });
    for (const auto& result : results) {
      CHECK(result == RankValues<float>(0, size));
    }
  }
}

TEST_CASE("a rank sends 2 (N - 1) / N of what is all-reduced") {
  std::vector<int64_t> sent(4);
  OnRanks(4, [&](Link& link) {
    RankCollectives collectives(link);
    std::vector<float> values(4000);
    std::vector<std::byte> scratch(4096);
    if (collectives.AllReduce(DType::kF32, BytesOf(values), scratch)) {
      sent[static_cast<size_t>(link.rank())] = link.bytes_sent();
    }
  });
  CHECK(sent == std::vector<int64_t>(4, 2 * 3 * 4000));  // of 16,000 bytes
}

TEST_CASE("texts of all lengths are gathered") {
  std::vector<std::vector<std::string>> results(3);
  OnRanks(3, [&](Link& link) {
    RankCollectives collectives(link);
    const auto texts = GatherTexts(
        collectives, std::string(static_cast<size_t>(link.rank()) * 5, 'x'));
    if (texts.ok()) results[static_cast<size_t>(link.rank())] = *texts;
  });
  for (const auto& result : results) {
    CHECK(result == std::vector<std::string>{"", "xxxxx", "xxxxxxxxxx"});
  }
}

TEST_CASE("a rank that goes ends the others' waits") {
  std::vector<std::unique_ptr<Link>> links = ThreadLinks(3);
  std::vector<int> ended(3, -1);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      RankCollectives collectives(*links[rank]);
      std::vector<float> values(100);
      std::vector<std::byte> scratch(4096);
      ended[rank] =
          collectives.AllReduce(DType::kF32, BytesOf(values), scratch) ? 1 : 0;
    });
  }
  links[2].reset();
  for (std::thread& thread : threads) thread.join();
  CHECK(ended == std::vector<int>{0, 0, -1});
  CHECK(links[0]->failure() == "rank 2 has gone");
}

TEST_CASE("what a failed exchange was to send is not there any more") {
  std::vector<std::unique_ptr<Link>> links = ThreadLinks(3);
  links[2].reset();
  std::vector<std::byte> mine(8), theirs(8);
  const std::vector<Outgoing> to_1 = {{.to = 1, .bytes = mine}};
  const std::vector<Incoming> from_2 = {{.from = 2, .bytes = theirs}};
  CHECK_FALSE(links[0]->Exchange(to_1, from_2));
  const std::vector<Incoming> from_0 = {{.from = 0, .bytes = theirs}};
  CHECK_FALSE(links[1]->Exchange({}, from_0));
  CHECK(links[1]->failure() == "rank 2 has gone");
}

}  // namespace
}  // namespace stowage::cluster
