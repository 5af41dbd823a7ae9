#include "autodiff/ranks.h"

#include "autodiff/optimizer.h"
#include "base/errors.h"
#include "base/strings.h"
#include "ir/element_groups.h"

namespace stowage {
std::string_view ShardingName(Sharding sharding) {
  switch (sharding) {
    case Sharding::kNone:
      return "none";
    case Sharding::kStates:
      return "states";
    case Sharding::kGradients:
      return "gradients";
    case Sharding::kWeights:
      break;
  }
  return "weights";
}

Result<Sharding> ParseSharding(std::string_view name) {
  for (const Sharding sharding : kShardings) {
    if (name == ShardingName(sharding)) return sharding;
  }
  return InvalidArgumentError("[ranks] there is no sharding ", Quoted(name),
                              "; expected none, states, gradients or weights");
}

Status CheckRanks(const Ranks& ranks) {
  if (ranks.ranks < 1) {
    return InvalidArgumentError("[ranks] there are ", ranks.ranks,
                                " ranks; expected at least 1");
  }
  if (ranks.rank < 0 || ranks.rank >= ranks.ranks) {
    return InvalidArgumentError("[ranks] rank ", ranks.rank, " is none of ",
                                ranks.ranks, "; expected 0 to ",
                                ranks.ranks - 1);
  }
  if (ranks.bucket_bytes < 1) {
    return InvalidArgumentError("[ranks] a bucket has ", ranks.bucket_bytes,
                                " bytes; expected at least 1");
  }
  return {};
}

int64_t BlockGranule(int64_t elements) {
  return elements < kMinElementsIn8Bit ? 4 : kMomentBlock;
}

int64_t BlockElements(int64_t elements, int64_t ranks) {
  return RankBlock(elements, ranks, BlockGranule(elements));
}

std::string OwnName(std::string_view name) { return StrCat("own:", name); }

}  // namespace stowage
