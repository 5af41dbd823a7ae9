#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CLASSES_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CLASSES_H_

// Classes of gaps that play the same part in layers of the same form.
//
// Two gaps are of one class if the nodes that produce their values, and the nodes around
// these up to a distance of two, are equal but for names. A network of 48 equal layers has
// about as many classes as one layer has values, so a search that changes whole classes,
// or tries the first and the last member of each, does not grow with the depth.
//
//   for (const std::vector<size_t>& members : FindClasses(graph, simulation, gaps)) ...

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

/// The classes of the gaps at the given places in simulation.gaps(), which rise. Members and
/// classes are in the order of the gaps. Linear in values and operands.
std::vector<std::vector<size_t>> FindClasses(const Graph& graph,
                                             const Simulation& simulation,
                                             std::span<const size_t> gaps);

/// Calls `visit` with the first member that has the given fate, and with the last.
/// `visit` may change the fate of the member.
template <typename Visit>
void ForEachOfFate(const std::vector<std::vector<size_t>>& classes,
                   const std::vector<Fate>& fates, Fate fate, Visit visit) {
  for (const std::vector<size_t>& members : classes) {
    const auto has_fate = [&](size_t gap) { return fates[gap] == fate; };
    const auto first = std::ranges::find_if(members, has_fate);
    if (first == members.end()) continue;
    const size_t last =
        *std::find_if(members.rbegin(), members.rend(), has_fate);
    visit(*first);
    if (last != *first) visit(last);
  }
}

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_CLASSES_H_
