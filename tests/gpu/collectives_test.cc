// all_reduce, reduce_scatter, all_gather, all_gather_update and own_block of ranks that are
// threads, each with a queue of its own.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/link.h"
#include "gpu/emulator/emulator.h"
#include "gpu/kernel.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"
#include "tests/cluster/on_ranks.h"
#include "tests/gpu/fake_device.h"
#include "tests/gpu/grid_runner.h"
#include "tests/gpu/launch_builder.h"
#include "tests/support/elements.h"

namespace stowage::testing {
namespace {

using Elements = std::vector<double>;

// A queue of one of several ranks.
class RankQueue final : public gpu::EmulatedQueue {
 public:
  explicit RankQueue(cluster::Link& link) : link_(link) {}

  int rank() const override { return link_.rank(); }
  int ranks() const { return link_.ranks(); }
  int exchanges() const { return exchanges_; }

  void Launch(const gpu::KernelCall& call) override {
    RunTestGrid(call, {.seed = 5});
  }
  void Exchange(std::span<const gpu::PeerMessages> messages) override {
    ++exchanges_;
    CHECK(ExchangeOver(link_, messages));
  }

 private:
  cluster::Link& link_;
  int exchanges_ = 0;
};

// What a rank has; nearly every sum of such rounds.
Elements ValuesOf(DType dtype, int rank, int64_t count) {
  Elements values;
  for (int64_t i = 0; i < count; ++i) {
    const auto whole =
        static_cast<double>((i * 7919 + rank * 104'729) % 10'007);
    values.push_back(IsFloat(dtype) ? (whole - 5000) / (rank + 1.7) : whole);
  }
  return values;
}

double Rounded(DType dtype, double value) {
  std::byte bytes[8];
  EncodeElement(dtype, value, bytes);
  return DecodeElement(dtype, bytes);
}

// The sums over ranks, in their order, each rounded to the type.
Elements SumsOf(DType dtype, int ranks, int64_t count) {
  Elements sums(static_cast<size_t>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    const Elements values = ValuesOf(dtype, rank, count);
    for (size_t i = 0; i < sums.size(); ++i) {
      const double value = Rounded(dtype, values[i]);
      sums[i] = rank == 0 ? value : Rounded(dtype, sums[i] + value);
    }
  }
  return sums;
}

int64_t BlockOf(int64_t count, int64_t ranks) {
  return (count - 1) / ranks + 1;
}

// The part of a rank, zeros behind.
Elements PartOf(const Elements& whole, int64_t block, int rank) {
  Elements part(static_cast<size_t>(block));
  for (int64_t i = 0; i < block; ++i) {
    const int64_t at = rank * block + i;
    if (at < std::ssize(whole)) {
      part[static_cast<size_t>(i)] = whole[static_cast<size_t>(at)];
    }
  }
  return part;
}

// What result 0 holds at each rank once `build` has added the operands.
std::vector<Elements> Run(
    OpKind op, int ranks, Bytes workspace,
    const std::function<void(int rank, LaunchBuilder*)>& build) {
  std::vector<Elements> results(static_cast<size_t>(ranks));
  cluster::OnRanks(ranks, [&](cluster::Link& link) {
    RankQueue queue(link);
    LaunchBuilder builder(op, Attrs{{"ranks", int64_t{ranks}}});
    build(link.rank(), &builder);
    std::vector<std::byte> scratch(static_cast<size_t>(workspace) + 256);
    Launch launch = builder.launch();
    launch.workspace = std::span(scratch).first(static_cast<size_t>(workspace));
    gpu::GetKernel(op).enqueue(launch, queue);
    results[static_cast<size_t>(link.rank())] = builder.output(0);
    CHECK(builder.intact());
    const bool is_intact =
        std::ranges::all_of(std::span(scratch).last(256),
                            [](std::byte b) { return b == std::byte{}; });
    CHECK(is_intact);
    // Nothing is sent where there is nobody.
    CHECK((op == OpKind::kOwnBlock ? queue.exchanges() == 0
                                   : queue.exchanges() > 0));
  });
  return results;
}

Bytes ScratchOf(OpKind op, DType dtype, int64_t count, int64_t ranks) {
  const std::vector<TensorType> types = {{dtype, {count}}};
  const std::vector<TensorType> blocks = {{dtype, {BlockOf(count, ranks)}}};
  const Attrs attrs{{"ranks", ranks}};
  return gpu::GetKernel(op).workspace({op, types, {}, attrs}, blocks);
}

constexpr DType kSummed[] = {DType::kF32, DType::kF16, DType::kBF16,
                             DType::kI32, DType::kI64};

TEST_CASE("all_reduce sums in rank order, whatever its scratch holds") {
  for (const DType dtype : kSummed) {
    for (const int ranks : {2, 3, 5}) {
      for (const int64_t count : {1, 4, 1000, 3001}) {
        const Elements sums = SumsOf(dtype, ranks, count);
        const Bytes planned =
            ScratchOf(OpKind::kAllReduce, dtype, count, ranks);
        // A chunk of 256 bytes for each of the others is the least there is.
        for (const Bytes scratch : {planned, Bytes{256} * (ranks - 1)}) {
          for (const bool in_place : {false, true}) {
            CAPTURE(DTypeName(dtype));
            CAPTURE(ranks);
            CAPTURE(count);
            const auto all =
                Run(OpKind::kAllReduce, ranks, scratch,
                    [&](int rank, LaunchBuilder* of) {
                      of->Input(dtype, {count}, ValuesOf(dtype, rank, count));
                      if (in_place) of->OutputOver(0);
                      if (!in_place) of->Output(dtype, {count});
                    });
            for (const Elements& each : all) CHECK(each == sums);
          }
        }
      }
    }
  }
}

TEST_CASE("scratch for a chunk of each other rank is all that is asked for") {
  constexpr int64_t kMany = int64_t{1} << 28;
  CHECK(ScratchOf(OpKind::kAllReduce, DType::kF32, kMany, 4) ==
        3 * (Bytes{4} << 20));
  CHECK(ScratchOf(OpKind::kReduceScatter, DType::kBF16, 5, 2) == 256);
  CHECK(ScratchOf(OpKind::kAllReduce, DType::kF32, kMany, 1) == 0);
  const bool gathers_in_place =
      gpu::GetKernel(OpKind::kAllGather).workspace == nullptr;
  CHECK(gathers_in_place);
}

TEST_CASE("reduce_scatter gives each rank its block, and zeros behind") {
  for (const DType dtype : kSummed) {
    for (const int ranks : {2, 4}) {
      for (const auto& each : {std::pair<int64_t, int64_t>{1, 1},
                               {5, (4 + ranks) / ranks},
                               {1000, 1000 / ranks},
                               {2999, (2998 + ranks) / ranks},
                               {2999, 2048},
                               {5, 8}}) {
        const int64_t count = each.first, block = each.second;
        CAPTURE(DTypeName(dtype));
        CAPTURE(ranks);
        CAPTURE(count);
        CAPTURE(block);
        const auto all =
            Run(OpKind::kReduceScatter, ranks, Bytes{512} * (ranks - 1),
                [&](int rank, LaunchBuilder* of) {
                  of->Input(dtype, {count}, ValuesOf(dtype, rank, count));
                  of->Output(dtype, {block});
                });
        const Elements sums = SumsOf(dtype, ranks, count);
        for (int rank = 0; rank < ranks; ++rank) {
          CHECK(all[static_cast<size_t>(rank)] == PartOf(sums, block, rank));
        }
      }
    }
  }
}

TEST_CASE("blocks are gathered, and own_block is the way back") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8}) {
    for (const int ranks : {2, 3}) {
      for (const int64_t count : {1, 7, 300}) {
        CAPTURE(DTypeName(dtype));
        CAPTURE(ranks);
        CAPTURE(count);
        Elements whole;
        for (int64_t i = 0; i < count; ++i) {
          whole.push_back(static_cast<double>(i % 120 + 1));
        }
        const auto gathered =
            Run(OpKind::kAllGather, ranks, 0, [&](int rank, LaunchBuilder* of) {
              of->Input(dtype, {BlockOf(count, ranks)},
                        PartOf(whole, BlockOf(count, ranks), rank));
              of->Output(dtype, {count});
            });
        for (const Elements& each : gathered) CHECK(each == whole);
        const auto updated =
            Run(OpKind::kAllGatherUpdate, ranks, 0,
                [&](int rank, LaunchBuilder* of) {
                  of->Input(dtype, {count}, Elements(whole.size(), 9));
                  of->Input(dtype, {BlockOf(count, ranks)},
                            PartOf(whole, BlockOf(count, ranks), rank));
                  of->OutputOver(0);
                });
        for (const Elements& each : updated) CHECK(each == whole);
        const auto own =
            Run(OpKind::kOwnBlock, ranks, 0, [&](int, LaunchBuilder* of) {
              of->Input(dtype, {count}, whole);
              of->Output(dtype, {BlockOf(count, ranks)});
            });
        for (int rank = 0; rank < ranks; ++rank) {
          CHECK(own[static_cast<size_t>(rank)] ==
                PartOf(whole, BlockOf(count, ranks), rank));
        }
      }
    }
  }
}

}  // namespace
}  // namespace stowage::testing
