#ifndef STOWAGE_RUNTIME_ONE_RANK_H_
#define STOWAGE_RUNTIME_ONE_RANK_H_

// The ranks of a step that has one: every sum is what it sums, every block the whole.
//
//   OneRank alone;
//   alone.AllGather(block, values);  // a copy

#include <cstddef>
#include <cstring>
#include <span>

#include "ir/dtype.h"
#include "runtime/collectives.h"

namespace stowage {

class OneRank final : public Collectives {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }

  bool AllReduce(DType, std::span<std::byte>,
                 std::span<std::byte>) noexcept override {
    return true;
  }
  bool ReduceScatter(DType, std::span<const std::byte> values,
                     std::span<std::byte> block,
                     std::span<std::byte>) noexcept override {
    return AllGather(values, block);
  }
  bool AllGather(std::span<const std::byte> block,
                 std::span<std::byte> values) noexcept override {
    if (!values.empty())
      std::memcpy(values.data(), block.data(), values.size());
    return true;
  }
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_ONE_RANK_H_
