#ifndef STOWAGE_CLUSTER_RANK_COLLECTIVES_H_
#define STOWAGE_CLUSTER_RANK_COLLECTIVES_H_

// Implements collectives (runtime/backend.h) over any link. Sums are computed in rank order, as in
// (v0 + v1) + v2. In every run and for any order of messages, the sums of N ranks are therefore
// bit-equal to the sums of one rank that adds the gradients of N micro-batches one after the other.
//
// The values are divided into one block per rank. An all-reduce consists of a reduce-scatter and an
// all-gather. In the reduce-scatter, each rank receives the other ranks' values of its block, and
// adds them. In the all-gather, each rank receives the sums of the other blocks. A rank of N sends
// 2 (N - 1) / N of the reduced bytes, which is the lower bound of an all-reduce (Patarasuk and
// Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009). Messages to
// and from all other ranks are sent concurrently.
//
//   RankCollectives collectives(link);
//   collectives.AllReduce(DType::kF32, gradients, scratch);

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/link.h"
#include "ir/tensor_type.h"
#include "runtime/backend.h"

namespace stowage::cluster {

class RankCollectives : public Collectives {
 public:
  /// `link` must outlive this object.
  explicit RankCollectives(Link& link);

  int rank() const override { return link_.rank(); }
  int ranks() const override { return link_.ranks(); }

  bool AllReduce(DType dtype, std::span<std::byte> values,
                 std::span<std::byte> scratch) noexcept override;
  bool ReduceScatter(DType dtype, std::span<const std::byte> values,
                     std::span<std::byte> block,
                     std::span<std::byte> scratch) noexcept override;
  bool AllGather(std::span<const std::byte> block,
                 std::span<std::byte> values) noexcept override;

  /// Copies rank 0's `values` to the `values` of all ranks, which must have equal sizes. Rank 0
  /// sends one block to each rank, and an all-gather follows. Returns false if a rank or its link
  /// is lost.
  bool Broadcast(std::span<std::byte> values) noexcept;

 private:
  bool Gather(std::span<std::byte> values, size_t block) noexcept;
  bool Reduce(DType dtype, std::span<const std::byte> values, size_t block,
              std::span<std::byte> sum, std::span<std::byte> scratch) noexcept;

  Link& link_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<const std::byte*> parts_;  // The addends of a sum, by rank.
};

/// Returns the `text` of every rank, in rank order. All ranks must call this function, and all get
/// the same result. Returns kRankLost if a rank is lost.
Result<std::vector<std::string>> GatherTexts(RankCollectives& collectives,
                                             const std::string& text);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_RANK_COLLECTIVES_H_
