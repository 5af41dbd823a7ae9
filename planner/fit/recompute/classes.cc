#include "planner/fit/recompute/classes.h"

#include <cstdint>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/hash.h"
#include "ir/op_def.h"

namespace stowage::fit {
namespace {

constexpr int kDistance = 2;

uint64_t Mix(uint64_t a, uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 1099511628211u;
}

}  // namespace

std::vector<std::vector<size_t>> FindClasses(const Graph& graph,
                                             const Simulation& simulation,
                                             std::span<const size_t> gaps) {
  std::vector<uint64_t> hash(Index(graph.num_values()));
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    Fnv1a h;
    h.Update(info.type.ToString());
    h.Update(info.is_leaf() ? RoleName(info.role)
                            : OpName(graph.node(info.producer).op));
    hash[Index(id)] = Mix(h.digest(), static_cast<uint64_t>(info.result));
  }
  for (int distance = 0; distance < kDistance; ++distance) {
    std::vector<uint64_t> next = hash;
    for (const Node& node : graph.nodes()) {
      uint64_t inputs = 7;
      for (const ValueId input : node.inputs) {
        inputs = Mix(inputs, hash[Index(input)]);
      }
      for (const ValueId result : node.results) {
        next[Index(result)] = Mix(next[Index(result)], inputs);
        for (const ValueId input : node.inputs) {
          if (!graph.value(input).is_leaf()) {
            next[Index(input)] += hash[Index(result)] * 31;
          }
        }
      }
    }
    hash = std::move(next);
  }
  std::vector<std::vector<size_t>> classes;
  std::map<uint64_t, size_t> index;
  for (const size_t gap : gaps) {
    const ValueId id = simulation.gaps()[gap].value;
    const uint64_t key = Mix(hash[Index(id)], gap - simulation.first_gap(id));
    const auto [entry, is_new] = index.try_emplace(key, classes.size());
    if (is_new) classes.emplace_back();
    classes[entry->second].push_back(gap);
  }
  return classes;
}

}  // namespace stowage::fit
