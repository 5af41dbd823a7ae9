// Losses that compare the examples of a batch with each other, taken in micro-batches: the
// step of the whole batch, by gradient caching.

#include "autodiff/gradient_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "autodiff/micro_batches.h"
#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/composites.h"
#include "ir/ops.h"
#include "ir/verify.h"
#include "nn/layers.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr int64_t kWidth = 6, kEmbedding = 4;

using ModelFn = std::function<Graph(int64_t batch)>;

Graph Finished(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

Value Unit(Value x) {
  return Div(x, BroadcastTo(Norm(x, 2, {1}, /*keep=*/true), x.shape()));
}

Value Encode(Value x, const std::string& name) {
  return Unit(
      Linear(Tanh(Linear(x, name + ".fc1", 8)), name + ".fc2", kEmbedding));
}

// 0, 1, ..., n - 1.
Value Diagonal(GraphBuilder& g, int64_t n) {
  return Iota(g, DType::kI32, 0, 1, n);
}

// CLIP: two encoders, a trained temperature, cross-entropy over rows and columns.
Graph Clip(int64_t batch) {
  GraphBuilder g("clip");
  const Value a = Encode(g.Input("a", DType::kF64, {batch, kWidth}), "text");
  const Value b = Encode(g.Input("b", DType::kF64, {batch, kWidth}), "image");
  const Value scale = Exp(g.Param("logit_scale", DType::kF64, {}));
  const Value scores = MatMul(a, Transpose(b));
  const Value logits = Mul(scores, BroadcastTo(scale, scores.shape()));
  const Value labels = Diagonal(g, batch);
  const Value loss = MulScalar(Add(CrossEntropy(logits, labels),
                                   CrossEntropy(Transpose(logits), labels)),
                               0.5);
  g.Output("loss", g.Name("loss", loss));
  g.Output("logits", logits);
  g.Output("embedding", a);
  return Finished(g);
}

// SimCLR: one encoder of two views, one behind the other along the batch.
Graph TwoViews(int64_t batch) {
  GraphBuilder g("two views");
  const Value views[] = {g.Input("a", DType::kF64, {batch, kWidth}),
                         g.Input("b", DType::kF64, {batch, kWidth})};
  const Value z = Encode(Concat(views, 0), "encoder");
  const Value scores = MulScalar(MatMul(z, Transpose(z)), 2.0);
  // Positives are in the other view.
  const Value positives =
      ReduceSum(Mul(Slice(z, 0, 0, batch), Slice(z, 0, batch, 2 * batch)));
  const Value loss =
      Sub(ReduceMean(LogSumExp(scores, {1})),
          MulScalar(positives, 2.0 / static_cast<double>(batch)));
  g.Output("loss", g.Name("loss", loss));
  return Finished(g);
}

// A mean over the examples, and a product of two such means, as a load-balancing loss is.
Graph Balanced(int64_t batch) {
  GraphBuilder g("balanced");
  const Value x = g.Input("a", DType::kF64, {batch, kWidth});
  const Value shares = Softmax(Linear(x, "router", 3));
  const Value y = Linear(Tanh(Linear(x, "fc1", 8)), "fc2", 1);
  const Value load = ReduceMean(Square(shares), {0});
  const Value importance = ReduceMean(shares, {0});
  const Value loss =
      Add(ReduceMean(Square(y)), ReduceSum(Mul(load, importance)));
  g.Output("loss", g.Name("loss", loss));
  g.Output("importance", importance);
  return Finished(g);
}

// What is compared with the batch's mean, of one embedding that two params make.
Graph Centred(int64_t batch) {
  GraphBuilder g("centred");
  const Value z = Encode(g.Input("a", DType::kF64, {batch, kWidth}), "encoder");
  const Value mean = ReduceMean(z, {0}, /*keep=*/true);
  const Value off = Sub(z, BroadcastTo(mean, z.shape()));
  const Value weights =
      Square(BroadcastTo(g.Param("w", DType::kF64, {kEmbedding}), z.shape()));
  g.Output("loss", g.Name("loss", Log(ReduceMean(Mul(Square(off), weights)))));
  return Finished(g);
}

// Embeddings as columns, the examples along the second axis.
Graph Columns(int64_t batch) {
  GraphBuilder g("columns");
  const Value x = g.Input("a", DType::kF64, {batch, kWidth});
  const Value w = g.Param("w", DType::kF64, {kEmbedding, kWidth});
  const Value z = Tanh(MatMul(w, Transpose(x)));
  const Value scores = MatMul(Transpose(z), z);
  g.Output("loss", g.Name("loss", CrossEntropy(scores, Diagonal(g, batch))));
  return Finished(g);
}

Tensors RandomLeaves(const Graph& graph) {
  Tensors leaves;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (!info.is_leaf()) continue;
    std::mt19937_64 random(std::hash<std::string>()(info.name));
    std::vector<double>& data = leaves[info.name];
    for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      data.push_back(IsIndex(info.type.dtype) ? 3 : unit - 0.5);
    }
  }
  leaves["lr"] = {0.1};
  leaves["step"] = {1};
  return leaves;
}

Result<MicroBatchedStep> StepOf(const ModelFn& model,
                                const std::vector<int64_t>& sizes,
                                const TrainOptions& options) {
  int64_t batch = 0;
  std::map<int64_t, Graph> parts;
  for (const int64_t size : sizes) {
    batch += size;
    if (!parts.contains(size)) parts.emplace(size, model(size));
  }
  std::vector<const Graph*> micro_batches;
  for (const int64_t size : sizes) micro_batches.push_back(&parts.at(size));
  return BuildMicroBatchedStep(model(batch), micro_batches, "loss", options);
}

// The largest difference of any output or param.
double Difference(const Tensors& a, const Tensors& b, const Graph& model) {
  std::vector<std::string> names;
  for (const GraphOutput& output : model.outputs()) {
    names.push_back(output.name);
  }
  for (const ValueId param : model.Leaves(Role::kParam)) {
    names.push_back(StrCat("new:", model.value(param).name));
  }
  double largest = 0;
  for (const std::string& name : names) {
    CAPTURE(name);
    REQUIRE(a.contains(name));
    REQUIRE(b.contains(name));
    REQUIRE(a.at(name).size() == b.at(name).size());
    for (size_t i = 0; i < a.at(name).size(); ++i) {
      largest = std::max(largest, std::abs(a.at(name)[i] - b.at(name)[i]));
    }
  }
  return largest;
}

TEST_CASE("losses that compare examples are those of the whole batch") {
  const struct {
    std::string name;
    ModelFn model;
  } cases[] = {{"clip", Clip},
               {"two views", TwoViews},
               {"balanced", Balanced},
               {"centred", Centred},
               {"columns", Columns}};
  for (const auto& each : cases) {
    CAPTURE(each.name);
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{6, 6}, {3, 3, 3, 3}, {5, 5, 2}, {1, 11}}) {
      CAPTURE(sizes.size());
      for (const TrainOptions& options :
           {TrainOptions{.optimizer = Sgd{}},
            TrainOptions{.optimizer = Sgd{}, .clip_norm = 0.01}}) {
        const Result<MicroBatchedStep> step =
            StepOf(each.model, sizes, options);
        REQUIRE_MESSAGE(step.ok(), step.error().message);
        CHECK(Verify(step->graph).ok());
        const Graph whole = each.model(12);
        const Result<Graph> at_once = BuildTrainStep(whole, "loss", options);
        REQUIRE_MESSAGE(at_once.ok(), at_once.error().message);
        const Tensors leaves = RandomLeaves(whole);
        CHECK(Difference(Interpret(*at_once, leaves),
                         Interpret(step->graph, leaves), whole) < 1e-12);
      }
    }
  }
}

TEST_CASE("a frozen param of the head has no gradient made") {
  const TrainOptions options{
      .optimizer = Sgd{},
      .groups = {{.pattern = "logit_scale", .frozen = true}}};
  const Result<MicroBatchedStep> step = StepOf(Clip, {2, 2}, options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  for (ValueId id = 0; id < step->graph.num_values(); ++id) {
    CHECK(step->graph.value(id).name.find("grad:logit_scale") ==
          std::string::npos);
  }
  const Graph whole = Clip(4);
  const Result<Graph> at_once = BuildTrainStep(whole, "loss", options);
  REQUIRE(at_once.ok());
  const Tensors leaves = RandomLeaves(whole);
  const std::vector<double> expected =
      Interpret(*at_once, leaves).at("new:text.fc1.weight");
  const std::vector<double> found =
      Interpret(step->graph, leaves).at("new:text.fc1.weight");
  REQUIRE(expected.size() == found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

// Embeddings and their gradients are of f16, in which those of this loss are zeros unless the
// head scales them.
TEST_CASE("the head scales the gradient of the loss") {
  const ModelFn model = [](int64_t batch) {
    GraphBuilder g("scaled");
    const Value z = Encode(g.Input("a", DType::kF16, {batch, kWidth}), "fc");
    const Value scores = MatMul(z, Transpose(z));
    const Value loss = CrossEntropy(scores, Diagonal(g, batch));
    g.Output("loss", g.Name("loss", MulScalar(loss, 1e-6)));
    return Finished(g);
  };
  for (const bool is_dynamic : {true, false}) {
    CAPTURE(is_dynamic);
    const TrainOptions options{
        .optimizer = Sgd{},
        .loss_scaling =
            LossScaling{.init_scale = 65536, .is_dynamic = is_dynamic}};
    const Result<MicroBatchedStep> step = StepOf(model, {4, 4, 4}, options);
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    const Result<Graph> at_once = BuildTrainStep(model(12), "loss", options);
    REQUIRE(at_once.ok());
    Tensors leaves = RandomLeaves(step->graph);
    leaves["lr"] = {1e6};
    leaves["loss_scale"] = {65536};
    leaves["loss_scale.good_steps"] = {0};
    leaves["loss_scale.skipped"] = {0};
    const Tensors found = Interpret(step->graph, leaves, Rounding::kTo16Bits);
    const Tensors expected = Interpret(*at_once, leaves, Rounding::kTo16Bits);
    double moved = 0, off = 0;
    for (size_t i = 0; i < leaves.at("fc.fc1.weight").size(); ++i) {
      const double right = expected.at("new:fc.fc1.weight")[i];
      moved = std::max(moved, std::abs(right - leaves.at("fc.fc1.weight")[i]));
      off = std::max(off, std::abs(right - found.at("new:fc.fc1.weight")[i]));
    }
    REQUIRE(moved > 0.01);
    CHECK(off < 0.1 * moved);
  }
}

// The two passes must drop the same elements: the loss that the step reports, of the first
// pass, then falls along the gradients of the second as it does by a difference quotient.
TEST_CASE("both passes draw the same dropouts") {
  const ModelFn model = [](int64_t batch) {
    GraphBuilder g("dropped");
    const Value x = g.Input("a", DType::kF64, {batch, kWidth});
    const Value h =
        Dropout(Tanh(Linear(x, "fc1", 16)), g.Input("seed", DType::kI64, {}),
                g.Input("step", DType::kI64, {}), 0.5, 0);
    const Value z = Linear(h, "fc2", kEmbedding);
    const Value scores = MatMul(z, Transpose(z));
    g.Output("loss", g.Name("loss", CrossEntropy(scores, Diagonal(g, batch))));
    return Finished(g);
  };
  const double lr = 1e-6;
  const Result<MicroBatchedStep> step =
      StepOf(model, {4, 4, 4}, {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  Tensors leaves = RandomLeaves(step->graph);
  leaves["lr"] = {lr};
  const Tensors first = Interpret(step->graph, leaves);
  double squared_norm = 0;
  Tensors moved = leaves;
  for (const ValueId param : step->graph.Leaves(Role::kParam)) {
    const std::string& name = step->graph.value(param).name;
    const std::vector<double>& next = first.at(StrCat("new:", name));
    for (size_t i = 0; i < next.size(); ++i) {
      const double gradient = (leaves.at(name)[i] - next[i]) / lr;
      squared_norm += gradient * gradient;
    }
    moved[name] = next;
  }
  const double fall =
      (first.at("loss")[0] - Interpret(step->graph, moved).at("loss")[0]) / lr;
  REQUIRE(squared_norm > 1e-3);
  CHECK(fall == doctest::Approx(squared_norm).epsilon(1e-4));
}

TEST_CASE("what cannot be cut is refused with the value where it begins") {
  const ModelFn with_state = [](int64_t batch) {
    GraphBuilder g("normalized");
    const Value x = g.Input("a", DType::kF64, {batch, kWidth});
    const Value y = BatchNorm(Linear(x, "fc", 8), "bn");
    g.Output("loss", g.Name("loss", ReduceMean(Square(y))));
    return Finished(g);
  };
  const Result<MicroBatchedStep> step = StepOf(with_state, {4, 4}, {});
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().code == ErrorCode::kUnsupported);
  CHECK(step.error().message.find("they would change") != std::string::npos);
  CHECK(step.error().message.find("normalized") != std::string::npos);
}

}  // namespace
}  // namespace stowage
