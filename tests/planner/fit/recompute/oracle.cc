#include "tests/planner/fit/recompute/oracle.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <queue>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "tests/support/random_graph.h"

namespace stowage::testing {
namespace {

struct World {
  std::vector<NodeId> nodes;       // that are no views, in order
  std::vector<int> bit;            // per value: which forward value, or -1
  std::vector<ValueId> root;       // per value
  std::vector<uint32_t> needs;     // per node of `nodes`: forward values read
  std::vector<uint32_t> gives;     // forward values made
  std::vector<Bytes> bytes_given;  // by all results
  std::vector<double> flops;
  std::vector<bool> again;    // may run again: no update in its way
  std::vector<Bytes> others;  // what else is there while it runs
  std::vector<int> maker;     // per forward value: its node in `nodes`
  std::vector<Bytes> size;    // per forward value
};

World Describe(const Graph& graph) {
  World w;
  const Layouts layouts = ComputeLayouts(graph);
  w.bit.assign(static_cast<size_t>(graph.num_values()), -1);
  for (const Layout& layout : layouts) w.root.push_back(layout.root);
  const auto root = [&](ValueId id) { return w.root[static_cast<size_t>(id)]; };
  std::vector<bool> lasts(static_cast<size_t>(graph.num_values()), false);
  for (const GraphOutput& output : graph.outputs()) {
    lasts[static_cast<size_t>(root(output.value))] = true;
  }
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    if (GetOpDef(node.op).is_view()) continue;
    w.nodes.push_back(n);
    uint32_t needs = 0;
    uint32_t gives = 0;
    Bytes bytes = 0;
    for (const ValueId input : node.inputs) {
      const int bit = w.bit[static_cast<size_t>(root(input))];
      if (bit >= 0) needs |= 1u << bit;
    }
    for (const ValueId result : node.results) {
      if (root(result) != result) continue;
      bytes += AlignUp(graph.value(result).type.bytes(), 256);
      if (node.phase != Phase::kForward || lasts[static_cast<size_t>(result)]) {
        continue;
      }
      const auto bit = static_cast<int>(w.size.size());
      if (bit >= 16) std::abort();
      w.bit[static_cast<size_t>(result)] = bit;
      w.size.push_back(AlignUp(graph.value(result).type.bytes(), 256));
      w.maker.push_back(static_cast<int>(w.nodes.size()) - 1);
      gives |= 1u << bit;
    }
    w.needs.push_back(needs);
    w.gives.push_back(gives);
    w.bytes_given.push_back(bytes);
    w.flops.push_back(NodeFlops(graph, node));
  }
  // Gradients and outputs, from their maker to their last reader.
  w.others.assign(w.nodes.size(), 0);
  for (size_t i = 0; i < w.nodes.size(); ++i) {
    for (const ValueId result : graph.node(w.nodes[i]).results) {
      if (root(result) != result || w.bit[static_cast<size_t>(result)] >= 0) {
        continue;
      }
      size_t last = i;
      for (size_t j = i; j < w.nodes.size(); ++j) {
        for (const ValueId input : graph.node(w.nodes[j]).inputs) {
          if (root(input) == result) last = j;
        }
      }
      if (lasts[static_cast<size_t>(result)]) last = w.nodes.size() - 1;
      for (size_t j = i + 1; j <= last; ++j) {
        w.others[j] += AlignUp(graph.value(result).type.bytes(), 256);
      }
    }
  }
  return w;
}

}  // namespace

std::optional<double> LeastExtraFlops(const Graph& graph, Bytes budget) {
  const World w = Describe(graph);
  // When each param is updated: a node that reads it cannot run again later.
  std::vector<size_t> until(w.nodes.size(), w.nodes.size());
  for (size_t i = 0; i < w.nodes.size(); ++i) {
    for (const ValueId input : graph.node(w.nodes[i]).inputs) {
      const ValueId leaf = w.root[static_cast<size_t>(input)];
      for (size_t j = 0; j < w.nodes.size(); ++j) {
        const Node& node = graph.node(w.nodes[j]);
        for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
          const ValueId updated = node.inputs[static_cast<size_t>(r)];
          if (w.root[static_cast<size_t>(updated)] == leaf) {
            until[i] = std::min(until[i], j);
          }
        }
      }
    }
  }
  const uint32_t sets = 1u << w.size.size();
  std::vector<Bytes> weight(sets, 0);
  for (uint32_t s = 1; s < sets; ++s) {
    const int low = __builtin_ctz(s);
    weight[s] = weight[s & (s - 1)] + w.size[static_cast<size_t>(low)];
  }
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> now(sets, infinity);
  now[0] = 0;
  using Entry = std::pair<double, uint32_t>;
  for (size_t i = 0; i < w.nodes.size(); ++i) {
    // Within a stage: drop anything, make anything again.
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (uint32_t s = 0; s < sets; ++s) {
      if (now[s] < infinity) queue.push({now[s], s});
    }
    const auto reach = [&](uint32_t s, double cost) {
      if (cost >= now[s]) return;
      now[s] = cost;
      queue.push({cost, s});
    };
    while (!queue.empty()) {
      const auto [cost, s] = queue.top();
      queue.pop();
      if (cost > now[s]) continue;
      for (size_t v = 0; v < w.size.size(); ++v) {
        if (s >> v & 1) {
          reach(s & ~(1u << v), cost);
          continue;
        }
        const auto m = static_cast<size_t>(w.maker[v]);
        if (m >= i || until[m] < i || (w.needs[m] & ~s) != 0 ||
            w.others[i] + weight[s | w.gives[m]] > budget) {
          continue;
        }
        reach(s | w.gives[m], cost + w.flops[m]);
      }
    }
    std::vector<double> next(sets, infinity);
    for (uint32_t s = 0; s < sets; ++s) {
      if (now[s] == infinity || (w.needs[i] & ~s) != 0 ||
          w.others[i] + weight[s] + w.bytes_given[i] > budget) {
        continue;
      }
      double& cost = next[s | w.gives[i]];
      cost = std::min(cost, now[s]);
    }
    now = std::move(next);
  }
  const double least = *std::min_element(now.begin(), now.end());
  if (least == infinity) return std::nullopt;
  return least;
}

Graph MakeSmallNet(uint64_t seed) {
  Rng rng(seed);
  GraphBuilder g(StrCat("net", seed));
  const int64_t batch = 16 * (1 + rng.Below(4));
  int params = 0;
  const auto linear = [&](Value x, int64_t width) {
    const Value weight = g.Param(StrCat("w", ++params), DType::kF32,
                                 {x.shape().back(), width}, Init::Normal(0.1));
    return MatMul(x, weight);
  };
  const auto bend = [&](Value x) {
    switch (rng.Below(4)) {
      case 0:
        return Relu(x);
      case 1:
        return GeluTanh(x);
      case 2:
        return Tanh(x);
      default:
        return Silu(x);
    }
  };
  const auto width = [&] { return 32 * (1 + rng.Below(6)); };
  Value x = g.Input("x", DType::kF32, {batch, width()});
  switch (seed % 4) {
    case 0: {  // a chain
      const int64_t layers = 3 + rng.Below(3);
      for (int64_t i = 0; i < layers; ++i) x = bend(linear(x, width()));
      break;
    }
    case 1: {  // a U-net: what comes down is joined to what goes up
      x = bend(linear(x, 192));
      const Value high = x;
      x = bend(linear(x, 96));
      const Value middle = x;
      x = bend(linear(x, 32));
      x = Concat(std::vector<Value>{linear(x, 96), middle}, 1);
      x = Concat(std::vector<Value>{linear(x, 128), high}, 1);
      break;
    }
    case 2: {  // a residual tower
      const int64_t c = width();
      x = linear(x, c);
      for (int i = 0; i < 2; ++i) {
        x = Add(x, linear(bend(linear(x, 2 * c)), c));
      }
      break;
    }
    default: {  // branches that meet
      x = linear(x, width());
      std::vector<Value> branches;
      const int64_t count = 2 + rng.Below(2);
      for (int64_t i = 0; i < count; ++i) {
        branches.push_back(bend(linear(x, width())));
        if (rng.Below(2) == 0) branches.back() = linear(branches.back(), 64);
      }
      x = Concat(branches, 1);
      break;
    }
  }
  x = linear(x, 8);
  g.Output("loss", ReduceMean(Square(x), {0, 1}));
  Result<Graph> graph = g.Finish();
  if (!graph.ok()) {
    std::fprintf(stderr, "%s\n", graph.error().message.c_str());
    std::abort();
  }
  return std::move(*graph);
}

}  // namespace stowage::testing
