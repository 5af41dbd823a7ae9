#ifndef STOWAGE_PLANNER_FIT_MIN_CUT_H_
#define STOWAGE_PLANNER_FIT_MIN_CUT_H_

// Computes a minimum cut of a directed network (Dinic, 1970). A minimum cut is a set of edges with
// the smallest sum of capacities whose removal disconnects the sink from the source.
//
//   MinCut network(4);
//   network.AddEdge(0, 1, 5);  ...
//   int64_t cost = network.Solve(0, 3);
//   network.is_source_side(1);

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stowage::fit {

class MinCut {
 public:
  /// The capacity of edges that no finite cut contains.
  static constexpr int64_t kInfinite = int64_t{1} << 60;

  /// Creates a network without edges, with vertices 0 to `vertices` - 1.
  explicit MinCut(int vertices) : head_(static_cast<size_t>(vertices), -1) {}

  /// Adds an edge. The sum of all capacities, except those of kInfinite, must be below kInfinite.
  void AddEdge(int from, int to, int64_t capacity);

  /// Returns the sum of capacities of a minimum cut. If every cut has an edge of capacity
  /// kInfinite, returns a number of at least kInfinite. Must be called only once. O(V^2 E) in the
  /// worst case, and nearly linear for the shallow networks of recomputation.
  int64_t Solve(int source, int sink);

  /// Returns whether `vertex` is on the source side of the minimum cut. If there are several
  /// minimum cuts, the source side is the smallest possible. Requires that Solve has been called.
  bool is_source_side(int vertex) const {
    return level_[static_cast<size_t>(vertex)] >= 0;
  }

 private:
  struct Edge {
    int to;
    // The next edge of the same vertex, or -1. The reverse of an edge is at its index ^ 1.
    int next;
    int64_t capacity;
  };
  bool FindLevels(int source, int sink);
  int64_t Augment(int source, int sink);

  std::vector<Edge> edges_;
  std::vector<int> head_, level_, next_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_MIN_CUT_H_
