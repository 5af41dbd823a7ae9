#include "tests/planner/fit/recompute/milp_steps.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage::testing {
namespace {

constexpr Bytes kAlignment = 256;

// A forward graph under construction; activations are (rows, width).
class Model {
 public:
  Model(std::string_view kind, uint64_t seed)
      : g_(StrCat(kind, "-", seed)), random_(seed), seed_(seed) {}

  int64_t Pick(int64_t low, int64_t high) {
    const auto count = static_cast<uint64_t>(high - low + 1);
    return low + static_cast<int64_t>(random_() % count);
  }
  int64_t Width() { return 32 * Pick(1, 8); }
  int64_t Rows() { return 128 * Pick(1, 4); }

  // Which argument of a call is computed first is the compiler's choice. So what
  // draws a number, or adds a param, has a statement of its own.
  Value Input(int64_t rows, int64_t width) {
    return g_.Input("x", DType::kF32, {rows, width});
  }
  Value Input() {
    const int64_t width = Width();
    return Input(Rows(), width);
  }
  Value Dense(Value x, int64_t width) {
    return MatMul(x, g_.Param(StrCat("w", params_++), DType::kF32,
                              {x.dim(1), width}, Init::Normal(0.02)));
  }
  Value Normed(Value x) {
    const int n = params_++;
    const Shape shape = {x.dim(1)};
    const Value beta = g_.Param(StrCat("beta", n), DType::kF32, shape);
    const Value gamma = g_.Param(StrCat("gamma", n), DType::kF32, shape);
    return LayerNorm(x, gamma, beta);
  }
  Value Bent(Value x) {
    switch (Pick(0, 3)) {
      case 0:
        return Relu(x);
      case 1:
        return GeluTanh(x);
      case 2:
        return Tanh(x);
      default:
        return Silu(x);
    }
  }

  // The loss is a cross-entropy, or, for every seventh seed, a mean of squares.
  Graph Step(Value x) {
    x = Dense(x, 8);
    if (seed_ % 7 == 1) {
      g_.Output("loss", ReduceMean(Square(x)));
    } else {
      const Value labels = g_.Input("labels", DType::kI32, {x.dim(0)});
      g_.Output("loss", CrossEntropy(x, labels));
    }
    Result<Graph> forward = g_.Finish();
    STOWAGE_CHECK(forward.ok());
    Result<Graph> step = BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
    STOWAGE_CHECK(step.ok());
    return std::move(*step);
  }

 private:
  GraphBuilder g_;
  std::mt19937_64 random_;
  uint64_t seed_;
  int params_ = 0;
};

Graph Chain(int64_t layers, int64_t bends, bool normed, uint64_t seed) {
  Model m("chain", seed);
  Value x = m.Input();
  for (int64_t i = 0; i < layers; ++i) {
    x = m.Dense(x, m.Width());
    for (int64_t k = 0; k < bends; ++k) x = m.Bent(x);
    if (normed) x = m.Normed(x);
  }
  return m.Step(x);
}

// Going down, four rows become one of twice the width; going up, the reverse.
// What came down is joined to what goes up, side by side or by a sum.
Graph UNet(int64_t depth, bool joined, uint64_t seed) {
  Model m("u-net", seed);
  const int64_t width = 16 * m.Pick(1, 4);
  Value x = m.Bent(m.Dense(m.Input(512, 32), width));
  std::vector<Value> skips;
  for (int64_t level = 0; level < depth; ++level) {
    skips.push_back(x);
    x = Reshape(x, {x.dim(0) / 4, x.dim(1) * 4});
    x = m.Bent(m.Dense(x, x.dim(1) / 2));
  }
  for (; !skips.empty(); skips.pop_back()) {
    const Value skip = skips.back();
    x = m.Dense(x, skip.dim(1) * 4);
    x = Reshape(x, {skip.dim(0), skip.dim(1)});
    x = joined ? Concat(std::vector{x, skip}, 1) : Add(x, skip);
    if (m.Pick(0, 1) == 0) x = m.Bent(x);
  }
  return m.Step(x);
}

Graph Residual(int64_t blocks, bool normed, uint64_t seed) {
  Model m("residual", seed);
  const int64_t width = m.Width();
  Value x = m.Dense(m.Input(), width);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t inside = m.Width();
    const Value inner = m.Dense(normed ? m.Normed(x) : x, inside);
    x = Add(x, m.Dense(m.Bent(inner), x.dim(1)));
  }
  return m.Step(x);
}

// A block of a transformer: attention, and feed-forward when `whole`.
Graph Attention(int64_t sequence, int64_t heads, bool whole, uint64_t seed) {
  Model m("attention", seed);
  const int64_t width = 16 * heads;
  Value x = m.Bent(m.Input(2 * sequence, width));
  const auto cut = [&](Value v) {
    return Reshape(v, {2, sequence, heads, 16});
  };
  const Value q = cut(m.Dense(x, width));
  const Value k = cut(m.Dense(x, width));
  const Value v = cut(m.Dense(x, width));
  const Value seen = Reshape(CausalAttention(q, k, v), {2 * sequence, width});
  x = Add(x, whole ? m.Dense(seen, width) : seen);
  return m.Step(x);
}

// Levels of branches, each of one or two layers, that meet side by side.
Graph Branches(int64_t levels, int64_t count, uint64_t seed) {
  Model m("branches", seed);
  const int64_t width = m.Width();
  Value x = m.Bent(m.Dense(m.Input(m.Rows(), 64), width));
  for (int64_t level = 0; level < levels; ++level) {
    std::vector<Value> ends;
    for (int64_t i = 0; i < count; ++i) {
      ends.push_back(m.Dense(x, m.Width()));
      if (m.Pick(0, 2) > 0) ends.back() = m.Bent(ends.back());
      if (m.Pick(0, 2) == 0) ends.back() = m.Dense(ends.back(), m.Width());
    }
    x = Concat(ends, 1);
  }
  return m.Step(x);
}

// Gates: several elementwise branches of few params, as in a gated unit.
Graph Gates(int64_t layers, uint64_t seed) {
  Model m("gates", seed);
  const int64_t first = m.Width();
  Value x = m.Dense(m.Input(), first);
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t width = m.Width();
    const Value gate = Sigmoid(m.Dense(x, width));
    x = Mul(m.Bent(m.Dense(x, width)), gate);
  }
  return m.Step(x);
}

std::string List(const std::vector<int64_t>& numbers) {
  std::string text = "[";
  for (const int64_t number : numbers) {
    if (text.size() > 1) text += ",";
    text += StrCat(number);
  }
  return text + "]";
}

}  // namespace

std::vector<Graph> MilpSteps() {
  std::vector<Graph> steps;
  uint64_t seed = 0;
  const auto add = [&](auto make, auto... arguments) {
    steps.push_back(make(arguments..., ++seed));
  };
  add(Chain, 1, 2, false);
  add(Chain, 2, 1, false);
  add(Chain, 3, 1, false);
  add(Chain, 4, 1, false);
  add(Chain, 5, 1, false);
  add(Chain, 2, 2, false);
  add(Chain, 3, 2, false);
  add(Chain, 2, 4, false);
  add(Chain, 3, 3, false);
  add(Chain, 1, 12, false);
  add(Chain, 2, 1, true);
  add(Chain, 2, 3, true);
  add(UNet, 1, true);
  add(UNet, 1, false);
  add(UNet, 1, true);
  add(UNet, 2, false);
  add(UNet, 2, true);
  add(UNet, 2, false);
  add(UNet, 2, true);
  add(UNet, 2, false);
  add(Residual, 1, false);
  add(Residual, 2, false);
  add(Residual, 2, false);
  add(Residual, 2, false);
  add(Residual, 3, false);
  add(Residual, 1, true);
  add(Residual, 1, true);
  add(Residual, 2, true);
  add(Attention, 64, 2, false);
  add(Attention, 32, 4, true);
  add(Attention, 128, 2, true);
  add(Branches, 1, 2);
  add(Branches, 1, 3);
  add(Branches, 1, 3);
  add(Branches, 1, 4);
  add(Branches, 2, 2);
  add(Branches, 2, 2);
  add(Gates, 1);
  add(Gates, 2);
  add(Gates, 2);
  return steps;
}

Bytes MilpScratch(const Graph& graph, const Node& node) {
  if (node.op != OpKind::kMatMul) return 0;
  return graph.value(node.results[0]).type.bytes() / 4;
}

std::string MilpProblem(const Graph& graph) {
  const Layouts layouts = ComputeLayouts(graph);
  const auto root = [&](ValueId id) { return layouts[Index(id)].root; };
  std::vector<NodeId> nodes;  // that are no views
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    if (!GetOpDef(graph.node(n).op).is_view()) nodes.push_back(n);
  }
  // The first node that writes into a param or state.
  std::vector<size_t> updated(Index(graph.num_values()), nodes.size() - 1);
  std::vector<int64_t> number(Index(graph.num_values()), -1);
  std::vector<int64_t> sizes;
  for (size_t k = nodes.size(); k-- > 0;) {
    for (const ValueId result : graph.node(nodes[k]).results) {
      if (root(result) != result) updated[Index(root(result))] = k;
    }
  }
  for (const NodeId n : nodes) {
    for (const ValueId result : graph.node(n).results) {
      if (root(result) != result) continue;
      number[Index(result)] = static_cast<int64_t>(sizes.size());
      sizes.push_back(AlignUp(graph.value(result).type.bytes(), kAlignment));
    }
  }

  std::string text = StrCat("{\"name\":", Quoted(graph.name()), ",\"nodes\":[");
  for (const NodeId n : nodes) {
    const Node& node = graph.node(n);
    size_t last = nodes.size() - 1;
    std::vector<int64_t> reads;
    for (const ValueId input : node.inputs) {
      last = std::min(last, updated[Index(root(input))]);
      const int64_t read = number[Index(root(input))];
      if (read >= 0 && std::ranges::count(reads, read) == 0) {
        reads.push_back(read);
      }
    }
    std::vector<int64_t> makes;
    for (const ValueId result : node.results) {
      if (root(result) == result) makes.push_back(number[Index(result)]);
    }
    if (n != nodes[0]) text += ",";
    text +=
        StrCat("{\"op\":", Quoted(OpName(node.op)),
               ",\"forward\":", node.phase == Phase::kForward,
               ",\"flops\":", NodeFlops(graph, node),
               ",\"scratch\":", AlignUp(MilpScratch(graph, node), kAlignment),
               ",\"last\":", last, ",\"reads\":", List(reads),
               ",\"makes\":", List(makes), "}");
  }
  std::vector<int64_t> outputs;
  for (const GraphOutput& output : graph.outputs()) {
    outputs.push_back(number[Index(root(output.value))]);
  }
  return text + StrCat("],\"bytes\":", List(sizes),
                       ",\"outputs\":", List(outputs), "}");
}

std::string MilpDigest(const std::string& problem) {
  Fnv1a hash;
  hash.Update(problem);
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) {
    digits += "0123456789abcdef"[hash.digest() >> shift & 15];
  }
  return digits;
}

}  // namespace stowage::testing
