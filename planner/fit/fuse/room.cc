#include "planner/fit/fuse/room.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "planner/lifetimes.h"

namespace stowage::fit {

Room::Room(const Graph& graph, const Plan& plan)
    : alignment_(plan.alignment), live_(Index(graph.num_nodes()) + 2, 0) {
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region != Region::kActivations &&
        buffer.region != Region::kWorkspace) {
      continue;
    }
    const Bytes slot = AlignUp(buffer.size, alignment_);
    live_[static_cast<size_t>(buffer.lower)] += slot;
    live_[static_cast<size_t>(buffer.upper)] -= slot;
  }
  std::partial_sum(live_.begin(), live_.end(), live_.begin());
  peak_ = *std::max_element(live_.begin(), live_.end());
}

bool Room::Take(NodeId begin, NodeId end, Bytes bytes, int count) {
  bytes = count * AlignUp(bytes, alignment_);
  for (NodeId t = begin; t < end; ++t) {
    if (live_[Index(t)] + bytes > peak_) return false;
  }
  for (NodeId t = begin; t < end; ++t) live_[Index(t)] += bytes;
  return true;
}

}  // namespace stowage::fit
