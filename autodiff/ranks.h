#ifndef STOWAGE_AUTODIFF_RANKS_H_
#define STOWAGE_AUTODIFF_RANKS_H_

// How many ranks take a step together, and what each of them keeps.
//
// Every rank has a part of the batch. With kNone each keeps everything. The others split
// what is kept into blocks, one a rank (Rajbhandari et al. 2020, ZeRO): a rank updates
// its own block of a param alone, by its own block of the gradient's sum, and so keeps
// only that much of the optimizer's states; the blocks are gathered afterwards. With
// kGradients a sum is split as soon as a micro-batch of the batch has added to it, and with
// kWeights a param is split too, gathered before it is read and dropped after. Losses and
// weights are, bit for bit, the same in all four.
//
// Blocks are cut where updates by chance draw numbers, every four elements, and where
// moments in eight bits share scales, so that a block is updated as it is in the whole
// (BlockGranule).

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

enum class Sharding : uint8_t { kNone, kStates, kGradients, kWeights };
/// All of them, from the least that is split to the most.
inline constexpr std::array<Sharding, 4> kShardings = {
    Sharding::kNone, Sharding::kStates, Sharding::kGradients,
    Sharding::kWeights};
/// "none", "states", "gradients", "weights".
std::string_view ShardingName(Sharding sharding);
/// Error kInvalidArgument for anything but these.
Result<Sharding> ParseSharding(std::string_view name);

/// What a bucket holds at most, unless a single gradient is larger.
inline constexpr Bytes kBucketBytes = Bytes{1} << 20;

struct Ranks {
  int64_t ranks = 1;
  /// Decides by which numbers dropouts draw, and nothing else.
  int64_t rank = 0;
  Sharding shard = Sharding::kNone;
  /// Gradients of fewer bytes are joined until there are so many, and leave together.
  Bytes bucket_bytes = kBucketBytes;
};

/// Error kInvalidArgument: no ranks, a rank outside them, a bucket of no bytes.
Status CheckRanks(const Ranks& ranks);

/// What blocks of a param of so many elements are whole multiples of: 4 elements, or
/// kMomentBlock of a param that may have moments in eight bits.
int64_t BlockGranule(int64_t elements);
/// The elements of a rank's block of a param of so many, at least one.
int64_t BlockElements(int64_t elements, int64_t ranks);

/// What this rank's block of the param or state `name` is called: "own:w".
std::string OwnName(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_RANKS_H_
