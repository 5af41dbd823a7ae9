#ifndef STOWAGE_PLANNER_FIT_MIN_CUT_H_
#define STOWAGE_PLANNER_FIT_MIN_CUT_H_

// A minimum cut of a directed network: the cheapest set of edges whose removal disconnects the
// sink from the source (Dinic, 1970).
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
  /// Above the cost of any cut of finite edges.
  static constexpr int64_t kInfinite = int64_t{1} << 60;

  explicit MinCut(int vertices) : head_(static_cast<size_t>(vertices), -1) {}

  /// Precondition: the finite capacities sum to less than kInfinite.
  void AddEdge(int from, int to, int64_t capacity);

  /// The cost of a minimum cut; kInfinite or more if no finite one exists. Call it once.
  /// O(V^2 E) at worst; near linear on the shallow networks of recomputation.
  int64_t Solve(int source, int sink);

  /// After Solve: whether the vertex is on the source's side of the smallest
  /// such side.
  bool is_source_side(int vertex) const {
    return level_[static_cast<size_t>(vertex)] >= 0;
  }

 private:
  struct Edge {
    int to;
    int next;  // of the same vertex, -1 at the end; its reverse is at index ^ 1
    int64_t capacity;
  };
  bool FindLevels(int source, int sink);
  int64_t Augment(int source, int sink);

  std::vector<Edge> edges_;
  std::vector<int> head_, level_, next_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_MIN_CUT_H_
