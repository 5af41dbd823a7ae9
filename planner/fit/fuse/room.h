#ifndef STOWAGE_PLANNER_FIT_FUSE_ROOM_H_
#define STOWAGE_PLANNER_FIT_FUSE_ROOM_H_

// Where values may live longer than they do in a plan: as long as the sum of what is live
// stays at or below its peak.
//
//   Room room(graph, plan);
//   if (room.Take(begin, end, bytes)) { ... }  // [begin, end), in nodes

#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage::fit {

class Room {
 public:
  /// Linear in buffers and nodes. `plan` is for `graph`.
  Room(const Graph& graph, const Plan& plan);

  /// Takes `bytes` in [begin, end), `count` times, if all fit below the peak. Linear in
  /// nodes.
  bool Take(NodeId begin, NodeId end, Bytes bytes, int count = 1);

 private:
  Bytes alignment_;
  std::vector<Bytes> live_;  // by time
  Bytes peak_ = 0;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_FUSE_ROOM_H_
