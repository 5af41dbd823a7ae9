#include "planner/fit/min_cut.h"

#include <algorithm>

namespace stowage::fit {

void MinCut::AddEdge(int from, int to, int64_t capacity) {
  const auto add = [&](int a, int b, int64_t c) {
    edges_.push_back({b, head_[static_cast<size_t>(a)], c});
    head_[static_cast<size_t>(a)] = static_cast<int>(edges_.size()) - 1;
  };
  add(from, to, capacity);
  add(to, from, 0);
}

bool MinCut::FindLevels(int source, int sink) {
  level_.assign(head_.size(), -1);
  level_[static_cast<size_t>(source)] = 0;
  std::vector<int> queue = {source};
  for (size_t k = 0; k < queue.size(); ++k) {
    const auto vertex = static_cast<size_t>(queue[k]);
    for (int e = head_[vertex]; e >= 0;
         e = edges_[static_cast<size_t>(e)].next) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      int& level = level_[static_cast<size_t>(edge.to)];
      if (edge.capacity == 0 || level >= 0) continue;
      level = level_[vertex] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[static_cast<size_t>(sink)] >= 0;
}

// Pushes flow along one path of rising levels; 0 when there is none left. The
// path is a list, not a recursion: chains can be as long as the graph.
int64_t MinCut::Augment(int source, int sink) {
  std::vector<int> path;  // edges
  int vertex = source;
  while (vertex != sink) {
    int& e = next_[static_cast<size_t>(vertex)];
    const auto leads_on = [&](int index) {
      const Edge& edge = edges_[static_cast<size_t>(index)];
      return edge.capacity > 0 && level_[static_cast<size_t>(edge.to)] ==
                                      level_[static_cast<size_t>(vertex)] + 1;
    };
    while (e >= 0 && !leads_on(e)) e = edges_[static_cast<size_t>(e)].next;
    if (e >= 0) {
      path.push_back(e);
      vertex = edges_[static_cast<size_t>(e)].to;
      continue;
    }
    if (path.empty()) return 0;
    const int back = path.back();
    path.pop_back();
    vertex = edges_[static_cast<size_t>(back ^ 1)].to;
    int& dead = next_[static_cast<size_t>(vertex)];
    dead = edges_[static_cast<size_t>(dead)].next;
  }
  int64_t flow = kInfinite;
  for (const int e : path) {
    flow = std::min(flow, edges_[static_cast<size_t>(e)].capacity);
  }
  for (const int e : path) {
    edges_[static_cast<size_t>(e)].capacity -= flow;
    edges_[static_cast<size_t>(e ^ 1)].capacity += flow;
  }
  return flow;
}

int64_t MinCut::Solve(int source, int sink) {
  int64_t total = 0;
  while (total < kInfinite && FindLevels(source, sink)) {
    next_ = head_;
    while (const int64_t flow = Augment(source, sink)) {
      total += flow;
      if (total >= kInfinite) break;
    }
  }
  return total;
}

}  // namespace stowage::fit
