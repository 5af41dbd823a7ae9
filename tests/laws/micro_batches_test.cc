// A batch in micro-batches is the batch: 200 random models, whose losses are sums, means,
// quotients and worse, give the losses, outputs and params of the whole batch to 1e-12 in
// f64, or are refused. Which of them can be split is known by how they were made.

#include "autodiff/micro_batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "ir/statistics.h"
#include "nn/conv_nets.h"
#include "nn/layers.h"
#include "nn/losses.h"
#include "nn/recurrent.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr int64_t kTime = 3, kWidth = 4, kClasses = 5;

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(bits_() % static_cast<uint64_t>(n));
  }
  bool Coin() { return Below(2) == 1; }

 private:
  std::mt19937_64 bits_;
};

// What a model hands to its loss.
struct Parts {
  GraphBuilder& g;
  int64_t batch;
  Value x, mask, labels, hidden;
  Value errors;  // (batch, time), or in another order of the same axes
  Value masks;   // as errors
};

Value Ones(Value like) {
  return Fill(*like.builder(), 1, like.dtype(), like.shape());
}

Value Scalar(Value like, double value) {
  return Fill(*like.builder(), value, like.dtype(), {});
}

// Of (batch, time, width); each example by itself.
Value Layer(Parts& p, Value h, int64_t which, const std::string& name) {
  const int64_t batch = p.batch;
  switch (which) {
    case 0:
      return Tanh(Linear(h, name, kWidth));
    case 1:
      return LayerNorm(h, name);
    case 2:  // from time to time
      return Permute(Softmax(Permute(h, {0, 2, 1})), {0, 2, 1});
    case 3:  // attention by hand
      return Add(h, MatMul(Softmax(MatMul(h, Permute(h, {0, 2, 1}))), h));
    case 4: {  // rows of all examples as one matrix
      const Value rows = Reshape(h, {batch * kTime, kWidth});
      return Reshape(Silu(Linear(rows, name, kWidth)), {batch, kTime, kWidth});
    }
    case 5: {  // time first, and its rows as one matrix
      const Value first =
          Reshape(Permute(h, {1, 0, 2}), {kTime * batch, kWidth});
      const Value rows =
          Reshape(Tanh(Linear(first, name, kWidth)), {kTime, batch, kWidth});
      return Permute(rows, {1, 0, 2});
    }
    case 6:
      return CumSum(h, 1);
    case 7: {  // two views of each example, one batch behind the other
      const Value both = Concat(std::vector{h, Neg(h)}, 0);
      const Value made = Tanh(Linear(both, name, kWidth));
      return Add(Slice(made, 0, 0, batch), Slice(made, 0, batch, 2 * batch));
    }
    case 8: {  // a loop over time
      const Value w =
          p.g.Param(name, DType::kF64, {kWidth, kWidth}, Init::Normal(0.5));
      const Value start = Fill(p.g, 0, DType::kF64, {batch, kWidth});
      const LoopResults run = Loop(
          p.g, kTime,
          {.carried = {start}, .sliced = {Permute(h, {1, 0, 2})}, .whole = {w}},
          [](LoopBody& body) {
            const Value next = Tanh(
                Add(MatMul(body.carried(0), body.whole(0)), body.sliced(0)));
            body.Next(0, next);
            body.Stack(next);
          });
      return Permute(run.stacked[0], {1, 0, 2});
    }
    case 9:  // by what is known of all inputs
      return Mul(
          h, BroadcastTo(Div(Sqrt(ReduceMean(Square(p.x))), ReduceSum(p.mask)),
                         h.shape()));
    case 10: {  // by the mean of each example
      const Value mean = ReduceMean(h, {1, 2}, true);
      return Sub(h, BroadcastTo(mean, h.shape()));
    }
    case 11: {  // as images of one channel
      Value c = Reshape(h, {batch, 1, kTime, kWidth});
      c = LocalResponseNorm(Conv(c, name, 2, {.padding = 1}));
      c = Pad(c, {0, 0, 0, 0}, {0, 0, 1, 1});
      c = AvgPool(MaxPool(c, {.kernel = 1}), {.kernel = 2, .stride = 1});
      return ReduceMean(Resize(c, {kTime, kWidth}), {1});
    }
    case 12: {
      const Value q = Reshape(h, {batch, kTime, 1, kWidth});
      const Value k = Rope(q);
      return Reshape(Attention(k, k, q), h.shape());
    }
    case 13:
      return RmsNorm(h, name);
    case 14:
      return Permute(GroupNorm(Permute(h, {0, 2, 1}), name, 2), {0, 2, 1});
    case 15:
      return Add(h, Gather(p.g.Param(name, DType::kF64, {kClasses, kWidth},
                                     Init::Normal(0.5)),
                           p.labels));
    case 16:
      return Concat(std::vector{TopK(h, 3).values, Slice(h, 2, 0, 1)}, 2);
    case 17:
      return Lstm(h, name, kWidth).y;
    case 18:  // a branch for all examples
      return Cond(
          p.g, Greater(ReduceSum(p.mask), Scalar(p.mask, 6)), {h},
          {[](CondBody& body) { return std::vector{Relu(body.operand(0))}; },
           [](CondBody& body) {
             return std::vector{Tanh(body.operand(0))};
           }})[0];
    default: {
      const Value is_large = Greater(p.mask, MulScalar(Ones(p.mask), 0.5));
      const Value all =
          BroadcastTo(Reshape(is_large, {batch, kTime, 1}), h.shape());
      return Where(all, h, Neg(h));
    }
  }
}
constexpr int64_t kLayers = 20;

// Layers from which no micro-batch comes back.
Value MixingLayer(Parts& p, Value h, int64_t which) {
  const int64_t batch = p.batch;
  switch (which) {
    case 0:  // normalized by the batch
      return Sub(h, BroadcastTo(ReduceMean(h, {0}, true), h.shape()));
    case 1:  // sorted, so to say
      return CumSum(h, 0);
    case 2: {  // every example with every other
      const Value rows = Reshape(h, {batch, kTime * kWidth});
      const Value scores = Softmax(MatMul(rows, Transpose(rows)));
      return Reshape(MatMul(scores, rows), {batch, kTime, kWidth});
    }
    case 3:  // by the largest of all
      return Div(h, BroadcastTo(ReduceMax(Abs(h)), h.shape()));
    default:  // the first example for all
      return Sub(h, BroadcastTo(Slice(h, 0, 0, 1), h.shape()));
  }
}
constexpr int64_t kMixingLayers = 5;

Value Weight(Parts& p) {
  return p.g.Param("own", DType::kF64, {kWidth}, Init::Normal(0.5));
}

Value SplitLoss(Parts& p, int64_t which) {
  const Value& e = p.errors;
  const Value& m = p.masks;
  switch (which) {
    case 0:
      return ReduceMean(e);
    case 1:
      return ReduceSum(e);
    case 2:  // a masked mean
      return Div(ReduceSum(Mul(e, m)), ReduceSum(m));
    case 3: {  // of those that count, at least one
      const Value counts =
          Cast(Greater(m, MulScalar(Ones(m), 0.2)), DType::kF64);
      const Value sum = ReduceSum(counts);
      return Div(ReduceSum(Mul(e, counts)), Maximum(sum, Ones(sum)));
    }
    case 4:  // of each example, and then of all
      return ReduceMean(Div(ReduceSum(Mul(e, m), {1}), ReduceSum(m, {1})));
    case 5:  // the batch's size as a number
      return MulScalar(ReduceSum(e), 1.0 / static_cast<double>(p.batch));
    case 6:
      return Add(ReduceMean(e), MulScalar(ReduceSum(Square(Weight(p))), 0.1));
    case 7:  // a sum, a mean and what has no examples
      return Add(Sub(ReduceSum(e), ReduceMean(Square(e))),
                 MulScalar(ReduceSum(Square(Weight(p))), 0.1));
    case 8: {  // by standardized weights
      const Value centred = Sub(m, BroadcastTo(ReduceMean(m), m.shape()));
      const Value spread = Sqrt(ReduceMean(Square(centred)));
      return ReduceMean(Mul(e, Div(centred, BroadcastTo(spread, m.shape()))));
    }
    case 9:
      return Div(ReduceSum(Mul(e, m)), Sqrt(ReduceSum(Square(m))));
    case 10:
      return Div(ReduceSum(Mul(e, m)), ReduceMax(m));
    case 11:  // a product over the examples
      return ReduceSum(MatMul(Reshape(e, {1, p.batch * kTime}),
                              Reshape(m, {p.batch * kTime, 1})));
    case 12:  // two quotients
      return Add(Div(ReduceSum(Mul(e, m)), ReduceSum(m)),
                 Div(ReduceSum(Square(e)), MulScalar(ReduceMean(m), 3.0)));
    case 13: {
      const Value logits = Linear(p.hidden, "head", kClasses);
      return ClassCrossEntropy(logits, p.labels,
                               {.ignored_label = 2,
                                .class_weights = {1, 2, 0.5, 1, 3},
                                .label_smoothing = 0.1});
    }
    case 14: {
      const Value logits = Linear(p.hidden, "head", kClasses);
      return Neg(Div(Add(ReduceMean(e), ReduceMean(LogSoftmax(logits))),
                     AddScalar(ReduceSum(Square(Weight(p))), 1)));
    }
    case 15:
      return CrossEntropy(Linear(p.hidden, "head", kClasses), p.labels);
    default:  // what is known of the inputs alone, beside what is not
      return Add(Mul(ReduceMean(Square(p.x)), ReduceSum(e)), ReduceSum(m));
  }
}
constexpr int64_t kSplitLosses = 17;

Value MixedLoss(Parts& p, int64_t which) {
  const Value& e = p.errors;
  switch (which) {
    case 0:
      return ReduceMax(e);
    case 1:
      return Sqrt(ReduceMean(e));
    case 2:
      return LogSumExp(e);
    case 3:
      return Square(ReduceMean(e));
    case 4:
      return Div(ReduceMean(e), StopGradient(ReduceSum(e)));
    case 5:
      return Variance(e);
    case 6: {
      const Value worst = TopK(Reshape(e, {p.batch * kTime}), 2).values;
      return ReduceMean(worst);
    }
    case 7:
      return ReduceMean(Mul(e, BroadcastTo(ReduceMean(e), e.shape())));
    default:
      return Div(ReduceSum(Mul(e, p.masks)),
                 ReduceSum(Mul(p.masks, Sigmoid(e))));
  }
}
constexpr int64_t kMixedLosses = 9;

struct Model {
  uint64_t seed;
  bool is_split;  // whether micro-batches make up the batch

  Graph Build(int64_t batch) const;
};

Graph Model::Build(int64_t batch) const {
  Random random(seed);
  GraphBuilder g("model");
  const Value x = g.Input("x", DType::kF64, {batch, kTime, kWidth});
  const Value mask = g.Input("mask", DType::kF64, {batch, kTime});
  const Value labels = g.Input("labels", DType::kI32, {batch, kTime});
  Parts p = {g, batch, x, mask, labels, x, {}, mask};
  const bool mixes_within = !is_split && random.Coin();
  const int64_t layers = 1 + random.Below(3);
  for (int64_t i = 0; i < layers; ++i) {
    p.hidden = Layer(p, p.hidden, random.Below(kLayers), StrCat("layer", i));
  }
  // So that whatever comes before is trained.
  p.hidden = Tanh(Linear(p.hidden, "last", kWidth));
  if (mixes_within)
    p.hidden = MixingLayer(p, p.hidden, random.Below(kMixingLayers));
  p.errors = ReduceSum(Square(Sub(p.hidden, x)), {2});
  const int64_t layout = random.Below(3);
  const auto laid_out = [&](Value value) {
    if (layout == 0) return value;
    if (layout == 1) return Reshape(value, {batch * kTime, 1});
    return Reshape(Transpose(value), {1, kTime * batch});
  };
  const bool is_split_loss = is_split || mixes_within;
  const int64_t which =
      random.Below(is_split_loss ? kSplitLosses : kMixedLosses);
  if (which != 4) {  // which reads both axes
    p.errors = laid_out(p.errors);
    p.masks = laid_out(p.masks);
  }
  g.Output("loss", g.Name("loss", is_split_loss ? SplitLoss(p, which)
                                                : MixedLoss(p, which)));
  if (random.Coin()) {
    g.Output("examples", ReduceSum(p.hidden, {1, 2}));
  }
  if (random.Coin()) {
    const Value right = Less(mask, MulScalar(Ones(mask), 0.5));
    g.Output("count", ReduceSum(Cast(right, DType::kI32)));
  }
  if (random.Coin()) g.Output("largest", ReduceMax(p.hidden));
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

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

// Whether the batch of a model can be taken in so many micro-batches; if so, that they
// make the batch.
bool Splits(const std::function<Graph(int64_t batch)>& model, int64_t batch,
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
    return false;
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
  return true;
}

TEST_CASE("200 random models: micro-batches are the batch, or are refused") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Model model = {.seed = seed, .is_split = seed % 4 != 3};
    const int64_t batch = 5 + static_cast<int64_t>(seed % 5);
    const int64_t micro_batches = 2 + static_cast<int64_t>(seed / 5 % 4);
    CHECK(Splits([&](int64_t n) { return model.Build(n); }, batch,
                 micro_batches, seed) == model.is_split);
  }
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
