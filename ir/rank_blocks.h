#ifndef STOWAGE_IR_RANK_BLOCKS_H_
#define STOWAGE_IR_RANK_BLOCKS_H_

// How what ranks split is cut: into flat blocks of one size, one a rank, in order.
//
//   RankBlock(10, /*ranks=*/4, /*granule=*/1);  // 3: blocks of 3, 3, 3 and 1 elements
//   RankBlock(10, 4, 4);                        // 4: blocks of 4, 4, 2 and 0

#include <cstdint>

namespace stowage {

/// Elements of a rank's block of so many: as many as come to each, rounded up to a
/// multiple of `granule`. Preconditions: all are at least 1; elements + granule is no
/// overflow.
constexpr int64_t RankBlock(int64_t elements, int64_t ranks, int64_t granule) {
  const int64_t each = (elements - 1) / ranks + 1;
  return (each - 1) / granule * granule + granule;
}

}  // namespace stowage

#endif  // STOWAGE_IR_RANK_BLOCKS_H_
