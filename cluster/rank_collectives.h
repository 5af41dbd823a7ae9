#ifndef STOWAGE_CLUSTER_RANK_COLLECTIVES_H_
#define STOWAGE_CLUSTER_RANK_COLLECTIVES_H_

// Collectives over any link, with sums in rank order: ((v0 + v1) + v2) + ... So N
// ranks get the bits that one rank gets that adds N micro-batches one after the other, on
// every run, whichever message comes first.
//
// A reduce-scatter is a direct exchange: each rank receives its block from all
// others, and adds. Then an all-gather gives every rank's block to all others. A
// rank sends 2 (N - 1) / N of the bytes that are reduced, which is the least that
// an all-reduce can do with (Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009); all links are busy at once.
//
//   RankCollectives collectives(link);
//   collectives.AllReduce(DType::kF32, gradients, scratch);

#include <cstddef>
#include <cstdint>
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
  /// `link` must outlive this.
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

  /// What rank 0 has in `values`, to all: a block to each rank, then an all-gather.
  bool Broadcast(std::span<std::byte> values) noexcept;

 private:
  bool Gather(std::span<std::byte> values, size_t block) noexcept;
  bool Reduce(DType dtype, std::span<const std::byte> values, size_t block,
              std::span<std::byte> sum, std::span<std::byte> scratch) noexcept;

  Link& link_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<const std::byte*> parts_;  // of a sum, by rank
};

/// The text of every rank, by rank, at every rank. Error kRankLost when one was lost.
Result<std::vector<std::string>> GatherTexts(RankCollectives& collectives,
                                             const std::string& text);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_RANK_COLLECTIVES_H_
