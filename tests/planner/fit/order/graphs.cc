#include "tests/planner/fit/order/graphs.h"

#include <random>
#include <utility>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage::fit {
namespace {

// A forward graph under construction, of rows x width activations.
class Model {
 public:
  Model(std::string name, uint64_t seed) : g_(std::move(name)), random_(seed) {}

  int64_t Pick(int64_t low, int64_t high) {
    const auto width = static_cast<uint64_t>(high - low + 1);
    return low + static_cast<int64_t>(random_() % width);
  }
  Value Input(int64_t width) { return g_.Input("x", DType::kF32, {64, width}); }
  Value Dense(Value x, int64_t width) {
    const Value w = g_.Param(StrCat("w", params_++), DType::kF32,
                             {x.dim(1), width}, Init::Normal(0.02));
    return MatMul(x, w);
  }
  Value Activated(Value x) { return Pick(0, 1) == 0 ? Relu(x) : GeluTanh(x); }
  Value Loss(Value x) { return ReduceMean(Square(x)); }

  Graph Step(Value loss) {
    g_.Output("loss", loss);
    Result<Graph> forward = g_.Finish();
    STOWAGE_CHECK(forward.ok());
    Result<Graph> step = BuildTrainStep(*forward, "loss");
    STOWAGE_CHECK(step.ok());
    return std::move(*step);
  }

 private:
  GraphBuilder g_;
  std::mt19937_64 random_;
  int params_ = 0;
};

Graph Branches(int64_t count, int64_t depth, uint64_t seed) {
  Model m(StrCat("branches-", count, "x", depth), seed);
  std::vector<Value> ends(static_cast<size_t>(count), m.Input(64));
  for (int64_t level = 0; level < depth; ++level) {
    for (Value& end : ends) {
      end = m.Activated(m.Dense(end, 32 * m.Pick(1, 16)));
    }
  }
  for (Value& end : ends) end = m.Dense(end, 32);
  return m.Step(m.Loss(m.Dense(Concat(ends, 1), 16)));
}

Graph UShape(int64_t depth, int64_t blocks, uint64_t seed) {
  Model m(StrCat("u-shape-", depth, "x", blocks), seed);
  std::vector<Value> skips;
  Value x = m.Input(256);
  for (int64_t level = 0; level < depth; ++level) {
    for (int64_t b = 0; b < blocks; ++b) {
      x = m.Activated(m.Dense(x, 512 >> level));
    }
    skips.push_back(m.Dense(x, 256 >> level));
    x = m.Dense(x, 256 >> level);
  }
  while (!skips.empty()) {
    x = Concat(std::vector{m.Dense(x, skips.back().dim(1)), skips.back()}, 1);
    skips.pop_back();
    for (int64_t b = 0; b < blocks; ++b) {
      x = m.Activated(m.Dense(x, x.dim(1)));
    }
  }
  return m.Step(m.Loss(m.Dense(x, 16)));
}

Graph Heads(int64_t count, int64_t depth, uint64_t seed) {
  Model m(StrCat("heads-", count, "x", depth), seed);
  Value trunk = m.Input(128);
  for (int64_t level = 0; level < depth; ++level) {
    trunk = m.Activated(m.Dense(trunk, 256));
  }
  std::vector<Value> heads;
  for (int64_t h = 0; h < count; ++h) {
    heads.push_back(m.Dense(trunk, 64 * m.Pick(1, 32)));
  }
  for (Value& head : heads) head = m.Dense(m.Activated(head), 16);
  Value loss;
  for (const Value head : heads) {
    const Value own = m.Loss(head);
    loss = loss.ok() ? Add(loss, own) : own;
  }
  return m.Step(loss);
}

Graph Towers(int64_t count, int64_t depth, uint64_t seed) {
  Model m(StrCat("towers-", count, "x", depth), seed);
  const Value x = m.Input(64);
  std::vector<Value> towers;
  for (int64_t t = 0; t < count; ++t) {
    towers.push_back(m.Dense(x, 32 * m.Pick(1, 8)));
  }
  for (int64_t level = 0; level < depth; ++level) {
    for (Value& tower : towers) {
      const Value inner =
          m.Activated(m.Dense(tower, tower.dim(1) * m.Pick(1, 4)));
      tower = Add(tower, m.Dense(inner, tower.dim(1)));
    }
  }
  Value sum;
  for (const Value tower : towers) {
    const Value end = m.Dense(tower, 32);
    sum = sum.ok() ? Add(sum, end) : end;
  }
  return m.Step(m.Loss(sum));
}

}  // namespace

std::vector<Graph> OrderGraphs() {
  std::vector<Graph> graphs;
  for (int64_t size = 1; size <= 5; ++size) {
    const auto seed = static_cast<uint64_t>(size);
    graphs.push_back(Branches(2 + size, 1 + size, seed));
    graphs.push_back(UShape(1 + size, size, seed));
    graphs.push_back(Heads(2 * size, 1 + size, seed));
    graphs.push_back(Towers(1 + size, 2 * size, seed));
  }
  return graphs;
}

Graph RandomOrderGraph(uint64_t seed, int nodes) {
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t count) {
    return static_cast<size_t>(random() % count);
  };
  GraphBuilder g(StrCat("random-", seed));
  // Values are vectors of 64, 128, ... floats, so sizes are whole slots.
  std::vector<Value> values = {g.Input("x", DType::kF32, {64}),
                               g.Saved("saved", DType::kF32, {128})};
  std::vector<Value> params;
  const Value lr = g.Input("lr", DType::kF32, {});
  values.push_back(Relu(values[1]));
  for (int n = 1; n < nodes; ++n) {
    const Value a = values[pick(values.size())];
    const Value b = values[pick(values.size())];
    switch (pick(7)) {
      case 0:
        values.push_back(Relu(a));
        break;
      case 1:
        values.push_back(Slice(a, 0, 0, 64));  // a view
        break;
      case 2:
        values.push_back(a.dim(0) == b.dim(0) ? Add(a, b)
                                              : Concat(std::vector{a, b}, 0));
        break;
      case 3:
        values.push_back(Concat(std::vector{a, a}, 0));
        break;
      case 4: {  // something reads a param, and something updates it
        const Value w = g.Param(StrCat("w", n), DType::kF32, a.shape());
        values.push_back(Mul(a, w));
        if (n + 1 < nodes) {
          values.push_back(SgdUpdate(w, a, lr, Value(), 0));
          ++n;
        }
        break;
      }
      case 5:
        values.push_back(Copy(Slice(a, 0, a.dim(0) - 64, a.dim(0))));
        ++n;
        break;
      default:
        values.push_back(Copy(a));
    }
  }
  g.Output("last", values.back());
  Result<Graph> graph = g.Finish();
  STOWAGE_CHECK(graph.ok());
  return std::move(*graph);
}

}  // namespace stowage::fit
