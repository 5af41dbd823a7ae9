// A batch in micro-batches is the batch: 200 random models, whose losses are sums, means,
// quotients and worse, give the losses, outputs and params of the whole batch to 1e-12 in
// f64. Which of them follow from their parts, and which need gradient caching, is known by
// how they were made.

#include "autodiff/micro_batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "autodiff/split_model.h"
#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/composites.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "nn/image_nets.h"
#include "nn/layers.h"
#include "nn/losses.h"
#include "nn/recurrent.h"
#include "tests/support/interpret.h"
#include "tests/support/random_batch_model.h"

namespace stowage {
namespace {

using testing::kClasses;
using testing::kTime;
using testing::kWidth;
using testing::Random;
using testing::RandomBatchModel;

Tensors RandomLeaves(const Graph& graph, uint64_t seed) {
  Random random(seed);
  Tensors leaves;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (!info.is_leaf()) continue;
    std::vector<double>& data = leaves[info.name];
    for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
      const double unit = static_cast<double>(random.Below(1 << 20)) * 0x1p-20;
      data.push_back(IsIndex(info.type.dtype) ? std::floor(unit * kClasses)
                     : info.name == "mask"    ? unit
                                              : 2 * unit - 1);
    }
  }
  leaves["lr"] = {0.1};
  leaves["step"] = {1};
  return leaves;
}

// The largest difference of outputs and params, of numbers above 1 as a share of them.
double Difference(const Tensors& whole, const Tensors& split,
                  const std::vector<std::string>& names) {
  double largest = 0;
  for (const std::string& name : names) {
    REQUIRE(whole.at(name).size() == split.at(name).size());
    for (size_t i = 0; i < whole.at(name).size(); ++i) {
      const double a = whole.at(name)[i], b = split.at(name)[i];
      const double off = std::abs(a - b) / std::max(1.0, std::abs(a));
      largest = std::isfinite(off) ? std::max(largest, off)
                                   : std::numeric_limits<double>::infinity();
    }
  }
  return largest;
}

enum class Taken { kRefused, kInParts, kByCache };

// How the batch of a model is taken in so many micro-batches; if it is, that they make the
// batch.
Taken TakeApart(const std::function<Graph(int64_t batch)>& model, int64_t batch,
                int64_t micro_batches, uint64_t seed) {
  const TrainOptions options = {.optimizer = Sgd{}};
  const Graph whole = model(batch);
  const Graph small = model(batch / micro_batches);
  const Graph large = model(batch / micro_batches + 1);
  std::vector<const Graph*> parts(static_cast<size_t>(micro_batches), &small);
  for (int64_t i = 0; i < batch % micro_batches; ++i) {
    parts[static_cast<size_t>(i)] = &large;
  }
  const Result<MicroBatchedStep> step =
      BuildMicroBatchedStep(whole, parts, "loss", options);
  if (!step.ok()) {
    CHECK_MESSAGE(step.error().code == ErrorCode::kUnsupported,
                  step.error().message);
    return Taken::kRefused;
  }
  const Result<Graph> whole_step = BuildTrainStep(whole, "loss", options);
  REQUIRE_MESSAGE(whole_step.ok(), whole_step.error().message);
  std::vector<std::string> names;
  for (const GraphOutput& output : whole.outputs()) {
    names.push_back(output.name);
  }
  for (const ValueId param : whole.Leaves(Role::kParam)) {
    names.push_back(StrCat("new:", whole.value(param).name));
  }
  const Tensors leaves = RandomLeaves(whole, seed);
  CHECK(Difference(Interpret(*whole_step, leaves),
                   Interpret(step->graph, leaves), names) < 1e-12);
  // A head is differentiated before the first micro-batch.
  const bool has_head =
      std::ranges::any_of(step->graph.nodes(), [](const Node& node) {
        return node.origin == kTotals && node.phase == Phase::kBackward;
      });
  return has_head ? Taken::kByCache : Taken::kInParts;
}

// Whether its loss follows from those of micro-batches alone.
bool Splits(const std::function<Graph(int64_t batch)>& model, int64_t batch,
            int64_t micro_batches, uint64_t seed) {
  return TakeApart(model, batch, micro_batches, seed) == Taken::kInParts;
}

TEST_CASE("200 random models: micro-batches are the batch") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const RandomBatchModel model = {.seed = seed, .is_split = seed % 4 != 3};
    const int64_t batch = 5 + static_cast<int64_t>(seed % 5);
    const int64_t micro_batches = 2 + static_cast<int64_t>(seed / 5 % 4);
    CHECK(TakeApart([&](int64_t n) { return model.Build(n); }, batch,
                    micro_batches, seed) ==
          (model.is_split ? Taken::kInParts : Taken::kByCache));
  }
}

// The leaves of part `b` of `count`, cut along the first axis of the inputs.
Tensors PartOf(const Graph& part, const Tensors& leaves, int64_t b) {
  Tensors own = leaves;
  for (const ValueId id : part.Leaves(Role::kInput)) {
    const ValueInfo& info = part.value(id);
    const auto found = own.find(info.name);
    if (found == own.end() || info.type.shape.rank() == 0) continue;
    const auto size = info.type.shape.num_elements();
    const std::vector<double> all = found->second;
    found->second.assign(all.begin() + b * size, all.begin() + (b + 1) * size);
  }
  return own;
}

TEST_CASE("200 random models: parts are evaluated as the whole is") {
  int compared = 0, with_totals = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const RandomBatchModel model = {.seed = seed, .is_split = seed % 4 != 3};
    const int64_t size = 1 + static_cast<int64_t>(seed % 3);
    const int64_t parts = 2 + static_cast<int64_t>(seed / 5 % 4);
    const Graph whole = model.Build(size * parts), part = model.Build(size);
    const double share = 1.0 / static_cast<double>(parts);
    const Result<SplitEvaluation> split =
        SplitForEvaluation(whole, part, share);
    REQUIRE_MESSAGE(split.ok(), split.error().message);
    CHECK((split->outputs.at("loss").kind != BatchKind::kMixed) >=
          model.is_split);
    const Tensors all = RandomLeaves(whole, seed);
    Tensors leaves = all;
    const int rounds =
        split->totals.empty() ? 0 : split->totals.back().round + 1;
    with_totals += rounds > 0;
    for (const EvaluationTotal& total : split->totals) {
      const ValueId id = *split->graph.Find(total.input);
      leaves[total.input].resize(static_cast<size_t>(
          split->graph.value(id).type.shape.num_elements()));
    }
    for (int round = 0; round < rounds; ++round) {
      Tensors found;
      for (int64_t b = 0; b < parts; ++b) {
        const Tensors values =
            Interpret(split->totals_graph, PartOf(part, leaves, b));
        for (const EvaluationTotal& total : split->totals) {
          if (total.round != round) continue;
          JoinPart(total.kind, share, values.at(total.output),
                   &found[total.input]);
        }
      }
      for (const auto& [name, values] : found) leaves[name] = values;
    }
    std::map<std::string, std::vector<double>> outputs;
    for (int64_t b = 0; b < parts; ++b) {
      const Tensors values = Interpret(split->graph, PartOf(part, leaves, b));
      for (const auto& [name, output] : split->outputs) {
        JoinPart(output.kind, share, values.at(name), &outputs[name]);
      }
    }
    const Tensors expected = Interpret(whole, all);
    for (const auto& output : split->outputs) {
      const std::string& name = output.first;
      const BatchKind kind = output.second.kind;
      if (kind == BatchKind::kMixed || kind == BatchKind::kPerExample) continue;
      CAPTURE(name);
      ++compared;
      CHECK(Difference(expected, {{name, outputs.at(name)}}, {name}) < 1e-12);
    }
  }
  CHECK(compared > 250);
  CHECK(with_totals > 50);
}

// A graph of an input x (batch, 3, 4).
std::function<Graph(int64_t)> Of(
    const std::function<void(GraphBuilder&, Value x)>& build) {
  return [build](int64_t batch) {
    GraphBuilder g("model");
    build(g, g.Input("x", DType::kF64, {batch, kTime, kWidth}));
    Result<Graph> graph = g.Finish();
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    return *std::move(graph);
  };
}

TEST_CASE("broadcasts that one example does not need") {
  // As in a vision transformer.
  const auto with_token = Of([](GraphBuilder& g, Value x) {
    const int64_t batch = x.dim(0);
    const Value token =
        g.Param("token", DType::kF64, {1, 1, kWidth}, Init::Normal(0.5));
    const Value positions =
        g.Param("positions", DType::kF64, {1, kTime + 1, kWidth});
    Value h = Concat(std::vector{BroadcastTo(token, {batch, 1, kWidth}), x}, 1);
    h = Add(h, positions);
    g.Output("loss", g.Name("loss", ReduceMean(Square(Tanh(h)))));
  });
  for (const int64_t micro_batches : {2, 3})
    CHECK(Splits(with_token, 3, micro_batches, 1));
  // Every example beside every other.
  const auto paired = Of([](GraphBuilder& g, Value x) {
    const int64_t batch = x.dim(0);
    const Value w = g.Param("w", DType::kF64, {kWidth}, Init::Normal(0.5));
    const Value sums = ReduceSum(Mul(x, w), {1, 2});
    const Value all = BroadcastTo(Reshape(sums, {1, batch}), {batch, batch});
    g.Output("loss", g.Name("loss", ReduceSum(Square(all))));
  });
  for (const int64_t micro_batches : {2, 4}) {
    CHECK_FALSE(Splits(paired, 4, micro_batches, 1));
  }
}

TEST_CASE("what is the same for all examples is so no more as other rows") {
  const auto model = Of([](GraphBuilder& g, Value x) {
    const int64_t batch = x.dim(0);
    const Value w = g.Param("w", DType::kF64, {2, 1}, Init::Normal(0.5));
    const Value rows = Reshape(BroadcastTo(w, {2, batch}), {batch, 2});
    const Value h = Reshape(ReduceSum(x, {1}), {batch, 2, 2});
    g.Output("loss",
             g.Name("loss", ReduceMean(Square(Mul(rows, ReduceSum(h, {2}))))));
  });
  Splits(model, 4, 2, 1);  // right, or refused
  const auto given_out = Of([](GraphBuilder& g, Value x) {
    const int64_t batch = x.dim(0);
    const Value w = g.Param("w", DType::kF64, {2, 1}, Init::Normal(0.5));
    g.Output("rows", Reshape(BroadcastTo(w, {2, batch}), {batch, 2}));
    g.Output("loss", g.Name("loss", ReduceMean(Square(Mul(
                                        x, BroadcastTo(ReduceSum(w), {4}))))));
  });
  CHECK_FALSE(Splits(given_out, 4, 2, 1));
}

TEST_CASE("a loop that sums what it has summed over the examples") {
  for (const bool is_mean : {false, true}) {
    const auto model = Of([is_mean](GraphBuilder& g, Value x) {
      const int64_t batch = x.dim(0);
      const Value w =
          g.Param("w", DType::kF64, {kWidth, kWidth}, Init::Normal(0.5));
      const LoopResults run = Loop(
          g, kTime,
          {.carried = {Fill(g, 0, DType::kF64, {batch, kWidth})},
           .sliced = {Permute(x, {1, 0, 2})},
           .whole = {w}},
          [is_mean](LoopBody& body) {
            const Value h = Tanh(
                Add(MatMul(body.carried(0), body.whole(0)), body.sliced(0)));
            body.Next(0, h);
            body.Sum(is_mean ? ReduceMean(Square(h)) : ReduceSum(Square(h)));
          });
      g.Output("loss", g.Name("loss", run.summed[0]));
    });
    CHECK(Splits(model, 5, 2, 1));
  }
}

TEST_CASE("a constant of one number for all examples") {
  // As an exported recurrent layer has its first state.
  const auto with = [](double step) {
    return Of([step](GraphBuilder& g, Value x) {
      std::vector<double> numbers(static_cast<size_t>(x.dim(0) * kWidth), 0.5);
      for (size_t i = 1; i < numbers.size(); ++i) {
        numbers[i] = numbers[i - 1] + step;
      }
      const Value start = Constant(g, DType::kF64, {x.dim(0), kWidth},
                                   std::as_bytes(std::span(numbers)));
      const Value w = g.Param("w", DType::kF64, {kWidth}, Init::Normal(0.5));
      const Value h = Tanh(Add(Mul(start, w), ReduceSum(x, {1})));
      g.Output("loss", g.Name("loss", ReduceMean(Square(h))));
    });
  };
  CHECK(Splits(with(0), 5, 2, 1));
  CHECK_FALSE(Splits(with(0.25), 5, 2, 1));
}

TEST_CASE("a loss that is no output is looked at, too") {
  const auto named = [](bool is_mixed) {
    return Of([is_mixed](GraphBuilder& g, Value x) {
      const Value w = g.Param("w", DType::kF64, {kWidth}, Init::Normal(0.5));
      const Value errors = ReduceSum(Square(Mul(x, w)), {2});
      const Value mean = Div(ReduceSum(errors), ReduceSum(Square(x)));
      g.Name("loss", is_mixed ? Sqrt(mean) : mean);
      g.Output("examples", ReduceSum(errors, {1}));
    });
  };
  CHECK(Splits(named(false), 4, 2, 1));
  CHECK_FALSE(Splits(named(true), 4, 2, 1));
}

}  // namespace
}  // namespace stowage
