// A batch taken in micro-batches: the same step as the whole batch, in less memory.

#include "autodiff/micro_batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "nn/gpt.h"
#include "nn/layers.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

Graph Classifier(int64_t batch, double dropout = 0) {
  GraphBuilder g("classifier");
  const Value x = g.Input("x", DType::kF64, {batch, 6});
  const Value y = g.Input("y", DType::kI32, {batch});
  Value h = Relu(Linear(x, "fc1", 8));
  if (dropout > 0) {
    const Value seed = g.Input("seed", DType::kI64, {});
    const Value step = g.Input("step", DType::kI64, {});
    h = Dropout(h, seed, step, dropout, 0);
  }
  g.Output("loss", g.Name("loss", CrossEntropy(Linear(h, "fc2", 5), y)));
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

Graph Gpt(int64_t batch, int64_t logit_chunk) {
  const GptConfig config{.name = "tiny",
                         .layers = 2,
                         .heads = 2,
                         .width = 8,
                         .vocabulary = 11,
                         .max_seq = 5};
  Result<Graph> graph = BuildGpt(config, ModelPurpose::kTrain,
                                 {.batch = batch,
                                  .seq = 5,
                                  .dtype = DType::kF64,
                                  .logit_chunk = logit_chunk});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// Leaves filled at random, the same for equal leaves.
Tensors RandomLeaves(const Graph& graph, int64_t classes) {
  Tensors leaves;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (!info.is_leaf()) continue;
    std::mt19937_64 random(std::hash<std::string>()(info.name));
    const bool integer = IsIndex(info.type.dtype);
    std::vector<double>& data = leaves[info.name];
    for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      data.push_back(integer ? std::floor(unit * static_cast<double>(classes))
                             : unit - 0.5);
    }
  }
  leaves["lr"] = {0.1};
  leaves["step"] = {3};
  return leaves;
}

// The largest difference between what two steps leave of the loss and params.
double Difference(const Graph& a, const Graph& b, int64_t classes) {
  const Tensors leaves = RandomLeaves(a, classes);
  const Tensors of_a = Interpret(a, leaves);
  const Tensors of_b = Interpret(b, leaves);
  double largest = std::abs(of_a.at("loss")[0] - of_b.at("loss")[0]);
  int compared = 0;
  for (const ValueId param : a.Leaves(Role::kParam)) {
    const std::string name = StrCat("new:", a.value(param).name);
    for (size_t i = 0; i < of_a.at(name).size(); ++i) {
      largest =
          std::max(largest, std::abs(of_a.at(name)[i] - of_b.at(name)[i]));
      ++compared;
    }
  }
  CHECK(compared > 100);
  return largest;
}

Graph InMicroBatches(const Graph& whole,
                     const std::vector<const Graph*>& micro_batches,
                     const TrainOptions& options) {
  const Result<MicroBatchedStep> step =
      BuildMicroBatchedStep(whole, micro_batches, "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(Verify(step->graph).ok());
  const Result<Graph> parsed = ParseGraph(ToText(step->graph));
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  CHECK(Equal(*parsed, step->graph));
  return step->graph;
}

std::string ErrorOf(const Graph& whole,
                    const std::vector<const Graph*>& micro_batches) {
  const Result<MicroBatchedStep> step =
      BuildMicroBatchedStep(whole, micro_batches, "loss");
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().code == ErrorCode::kInvalidArgument);
  return step.error().message;
}

TEST_CASE("equal micro-batches make the step of the whole batch") {
  const Graph whole = Classifier(12);
  const Graph micro_batch = Classifier(4);
  for (const TrainOptions& options :
       {TrainOptions{.optimizer = Sgd{}}, TrainOptions{.optimizer = AdamW{}},
        TrainOptions{.optimizer = Sgd{}, .clip_norm = 0.01}}) {
    const Result<Graph> step = BuildTrainStep(whole, "loss", options);
    REQUIRE(step.ok());
    const Graph micro_batches = InMicroBatches(
        whole, {&micro_batch, &micro_batch, &micro_batch}, options);
    CHECK(Difference(*step, micro_batches, 5) < 1e-12);
  }
}

TEST_CASE("micro-batches of different sizes count by their share") {
  const Graph whole = Classifier(7);
  const Graph three = Classifier(3);
  const Graph one = Classifier(1);
  const TrainOptions options{.optimizer = Sgd{}};
  const Result<Graph> step = BuildTrainStep(whole, "loss", options);
  REQUIRE(step.ok());
  const Graph micro_batches =
      InMicroBatches(whole, {&three, &three, &one}, options);
  CHECK(Difference(*step, micro_batches, 5) < 1e-12);
}

TEST_CASE(
    "a transformer can be taken in micro-batches, its loss fused or not") {
  for (const int64_t chunk : {0, 4}) {
    const Graph whole = Gpt(4, chunk);
    const Graph micro_batch = Gpt(1, chunk);
    const Result<Graph> step = BuildTrainStep(whole, "loss");
    REQUIRE(step.ok());
    const Graph micro_batches = InMicroBatches(
        whole, {&micro_batch, &micro_batch, &micro_batch, &micro_batch},
        TrainOptions{});
    CHECK(Difference(*step, micro_batches, 11) < 1e-10);
    int64_t products = 0;
    for (const Node& node : micro_batches.nodes()) {
      products += node.op == OpKind::kLinearCrossEntropy;
    }
    CHECK(products == 0);  // where it is used, the gradient makes the loss
  }
}

TEST_CASE("a batch in one micro-batch is the batch") {
  const Graph whole = Classifier(3);
  const Result<Graph> step = BuildTrainStep(whole, "loss");
  REQUIRE(step.ok());
  CHECK(ErrorOf(whole, {&whole}) ==
        "[autodiff] micro-batch \"classifier\" takes as much as the whole "
        "batch in "
        "every input; expected parts of it");
}

TEST_CASE(
    "values are named after their micro-batch, results as in a whole step") {
  const Graph whole = Classifier(4);
  const Graph micro_batch = Classifier(2);
  const Graph step = InMicroBatches(whole, {&micro_batch, &micro_batch}, {});
  for (const char* name : {"fc1/1", "fc1/2", "loss/1", "loss/2", "grad:loss/2",
                           "grad:fc1.weight", "new:fc1.weight", "loss"}) {
    CHECK_MESSAGE(step.Find(name).has_value(), name);
  }
  REQUIRE(step.outputs().size() == 1);
  CHECK(step.outputs()[0].name == "loss");
  CHECK(step.value(*step.Find("x")).type.shape == Shape{4, 6});
}

TEST_CASE("every micro-batch draws dropouts of its own") {
  const Graph whole = Classifier(4, 0.5);
  const Graph micro_batch = Classifier(2, 0.5);
  const Graph step = InMicroBatches(whole, {&micro_batch, &micro_batch}, {});
  std::vector<int64_t> ids;
  for (const Node& node : step.nodes()) {
    if (node.op == OpKind::kDropout) ids.push_back(node.attrs.Int("id"));
  }
  CHECK(ids == std::vector<int64_t>{0, 0, 1, 1});  // forward and backward
}

TEST_CASE("every micro-batch draws random numbers of its own") {
  const auto noisy = [](int64_t batch) {
    GraphBuilder g("noisy");
    const Value x = g.Input("x", DType::kF64, {batch, 6});
    const Value seed = g.Input("seed", DType::kI64, {});
    const Value step = g.Input("step", DType::kI64, {});
    const Value noise =
        Add(RandomNormal(seed, step, {batch, 6}, DType::kF64, 0),
            RandomUniform(seed, step, {batch, 6}, DType::kF64, 1));
    g.Output(
        "loss",
        g.Name("loss", ReduceMean(Square(Linear(Add(x, noise), "fc", 3)))));
    return *g.Finish();
  };
  const Graph whole = noisy(4), half = noisy(2);
  const Graph made = InMicroBatches(whole, {&half, &half}, {});
  std::vector<int64_t> ids;
  for (const Node& node : made.nodes()) {
    if (node.op == OpKind::kRandomNormal || node.op == OpKind::kRandomUniform) {
      ids.push_back(node.attrs.Int("id"));
    }
  }
  std::ranges::sort(ids);
  CHECK(ids == std::vector<int64_t>{0, 1, 2, 3});
}

TEST_CASE("micro-batches that do not make up the batch are refused") {
  const Graph whole = Classifier(7);
  const Graph three = Classifier(3);
  const Graph five = Classifier(5);
  CHECK(ErrorOf(whole, {&three, &three}) ==
        "[autodiff] the micro-batches take 6 of the 7 examples of input \"x\"; "
        "expected every example once");
  CHECK(ErrorOf(whole, {&three, &five}) ==
        "[autodiff] micro-batch \"classifier\" has input \"x\" of f64(5, 6), "
        "batch "
        "\"classifier\" has f64(7, 6); all inputs must be cut at the same "
        "examples");
  GraphBuilder g("other");
  const Value x = g.Input("x", DType::kF64, {3, 6});
  const Value w = g.Param("w", DType::kF64, {6});
  g.Output("loss", g.Name("loss", ReduceMean(Mul(x, w))));
  const Result<Graph> other = g.Finish();
  REQUIRE(other.ok());
  CHECK(ErrorOf(whole, {&*other, &*other}) ==
        "[autodiff] micro-batch \"other\" has param \"w\" of f64(6), batch "
        "\"classifier\" has none; build both with the same model");
}

// --- What micro-batches give out ---

// Outputs of all kinds.
Graph Outputs(int64_t batch) {
  GraphBuilder g("outputs");
  const Value x = g.Input("x", DType::kF64, {batch, 6});
  const Value y = g.Input("y", DType::kI32, {batch});
  const Value logits = Linear(x, "fc", 5);
  g.Output("logits", logits);
  g.Output("by class", Copy(Transpose(logits)));
  g.Output("largest", ReduceMean(ReduceMax(logits, {1})));
  g.Output("right", ReduceSum(Cast(Equal(ArgMax(logits), y), DType::kI32)));
  g.Output("top", ReduceMax(logits));
  g.Output("lengths", ReduceSum(Square(*g.Find("fc.weight"))));
  g.Output("loss", g.Name("loss", CrossEntropy(logits, y)));
  return *g.Finish();
}

std::vector<std::string> OutputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphOutput& output : graph.outputs()) {
    names.push_back(output.name);
  }
  return names;
}

TEST_CASE(
    "outputs of micro-batches are put together as they follow from the batch") {
  const Graph whole = Outputs(7), three = Outputs(3), one = Outputs(1);
  const TrainOptions options = {
      .optimizer = Sgd{}, .clip_norm = 0.5, .gradients = {"fc*"}};
  const Result<Graph> step = BuildTrainStep(whole, "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  const Graph micro_batches =
      InMicroBatches(whole, {&three, &three, &one}, options);
  const std::vector<std::string> names = OutputNames(micro_batches);
  CHECK(names.size() == 10);  // seven, two gradients and their norm
  CHECK(names == OutputNames(*step));
  const Tensors leaves = RandomLeaves(whole, 5);
  const Tensors expected = Interpret(*step, leaves);
  const Tensors actual = Interpret(micro_batches, leaves);
  for (const std::string& name : names) {
    CAPTURE(name);
    REQUIRE(actual.at(name).size() == expected.at(name).size());
    for (size_t i = 0; i < actual.at(name).size(); ++i) {
      CHECK(actual.at(name)[i] == doctest::Approx(expected.at(name)[i]));
    }
  }
  // The norm is that of the gradients as they are given out.
  double squares = 0;
  for (const std::string name : {"grad:fc.weight", "grad:fc.bias"}) {
    for (const double x : actual.at(name)) squares += x * x;
  }
  CHECK(actual.at("grad_norm")[0] == doctest::Approx(std::sqrt(squares)));
}

// Outputs that no parts of the batch know, one at a time.
std::string WhyNot(const std::function<Value(Value)>& output) {
  const auto build = [&](int64_t batch) {
    GraphBuilder g("outputs");
    const Value x = g.Input("x", DType::kF64, {batch, 6});
    const Value hidden = g.Name("hidden", Linear(x, "fc", 5));
    g.Output("loss", g.Name("loss", ReduceMean(Square(hidden))));
    g.Output("odd", g.Name("odd", output(hidden)));
    return *g.Finish();
  };
  const Graph whole = build(4), half = build(2);
  const Graph* const micro_batches[] = {&half, &half};
  const Result<MicroBatchedStep> step =
      BuildMicroBatchedStep(whole, micro_batches, "loss");
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().code == ErrorCode::kUnsupported);
  // An allowed change is the mean of what the micro-batches give out.
  CHECK(BuildMicroBatchedStep(whole, micro_batches, "loss",
                              {.allow_batch_change = true})
            .ok());
  return step.error().message;
}

TEST_CASE("an output that no micro-batches make is refused, with its reason") {
  const std::string before =
      "[micro-batches] graph \"outputs\" cannot take its batch in parts like "
      "\"outputs\": they would change \"odd\" (";
  const std::string after =
      "); take the batch whole, or allow the change (allow_batch_change, "
      "--allow-batch-change)";
  CHECK(WhyNot([](Value h) { return Exp(ReduceMean(h)); }) ==
        before +
            "\"odd\": exp is not linear in a sum, mean or maximum over the "
            "examples" +
            after);
  CHECK(WhyNot([](Value h) { return ReduceMean(Softmax(Transpose(h))); }) ==
        before + "\"softmax_1\": softmax runs along the examples" + after);
  CHECK(WhyNot([](Value h) { return ReduceMean(MatMul(h, Transpose(h))); }) ==
        before + "\"matmul_2\": matmul multiplies examples by one another" +
            after);
}

TEST_CASE("patterns of gradients to give out match params") {
  const Graph whole = Outputs(4), half = Outputs(2);
  const Graph* const micro_batches[] = {&half, &half};
  CHECK(BuildMicroBatchedStep(whole, micro_batches, "loss",
                              {.gradients = {"fc.w*", "fd*"}})
            .error()
            .message ==
        "[autodiff] pattern \"fd*\" of the gradients to give out matches none "
        "of the 2 params that are trained, such as \"fc.weight\"");
}

// --- States that a model writes ---

// loss = mean(x w s), whose gradient by w needs s as it was; then s moves towards
// the mean of x w, by a quarter, and is an output.
Graph Moving(int64_t batch) {
  GraphBuilder g("moving");
  const Value x = g.Input("x", DType::kF64, {batch, 6});
  const Value w = g.Param("w", DType::kF64, {6});
  const Value s = g.State("s", DType::kF64, {6});
  g.Output("loss", g.Name("loss", ReduceMean(Mul(Mul(x, w), s))));
  g.Output("s now", LerpUpdate(s, ReduceMean(Mul(x, w), {0}),
                               Fill(g, 0.25, DType::kF64, {})));
  return *g.Finish();
}

TEST_CASE(
    "a state that the model writes goes on from micro-batch to micro-batch") {
  const Graph whole = Moving(7), three = Moving(3), one = Moving(1);
  const TrainOptions options = {
      .optimizer = Sgd{}, .gradients = {"w"}, .allow_batch_change = true};
  const Graph* const micro_batches[] = {&three, &three, &one};
  CHECK(BuildMicroBatchedStep(whole, micro_batches, "loss", {}).error().code ==
        ErrorCode::kUnsupported);
  const Tensors leaves = RandomLeaves(whole, 5);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{7}, std::vector<int64_t>{3, 3, 1}}) {
    CAPTURE(sizes.size());
    const Result<Graph> in_one = BuildTrainStep(whole, "loss", options);
    REQUIRE_MESSAGE(in_one.ok(), in_one.error().message);
    const Graph step =
        sizes.size() == 1
            ? *in_one
            : InMicroBatches(whole, {&three, &three, &one}, options);
    const Tensors values = Interpret(step, leaves);

    std::vector<double> s = leaves.at("s"), gradient(6, 0.0);
    size_t row = 0;
    for (const int64_t size : sizes) {
      for (size_t k = 0; k < 6; ++k) {
        double sum = 0;
        for (size_t i = row; i < row + static_cast<size_t>(size); ++i) {
          sum += leaves.at("x")[6 * i + k];
        }
        gradient[k] += sum * s[k] / (6 * 7);
        const double mean = sum * leaves.at("w")[k] / static_cast<double>(size);
        s[k] += 0.25 * (mean - s[k]);
      }
      row += static_cast<size_t>(size);
    }
    for (size_t k = 0; k < 6; ++k) {
      CHECK(values.at("grad:w")[k] == doctest::Approx(gradient[k]));
      CHECK(values.at("s now")[k] == doctest::Approx(s[k]));
    }
  }
}

TEST_CASE("a model with totals writes its states") {
  const auto build = [](int64_t batch) {
    GraphBuilder g("moving");
    const Value x = g.Input("x", DType::kF64, {batch, 6});
    const Value m = g.Input("m", DType::kF64, {batch, 6});
    const Value w = g.Param("w", DType::kF64, {6});
    LerpUpdate(g.State("s", DType::kF64, {6}), ReduceMean(Mul(x, w), {0}),
               Fill(g, 0.25, DType::kF64, {}));
    g.Output("loss",
             g.Name("loss", Div(ReduceSum(Mul(Mul(x, w), m)), ReduceSum(m))));
    return *g.Finish();
  };
  const Graph whole = build(4), half = build(2);
  const Graph step = InMicroBatches(
      whole, {&half, &half}, {.optimizer = Sgd{}, .allow_batch_change = true});
  int updates = 0;
  for (const Node& node : step.nodes()) {
    updates += node.op == OpKind::kLerpUpdate;
  }
  CHECK(updates == 2);
}

TEST_CASE("what backward reads of a state is copied before it is written") {
  const Graph step = *BuildTrainStep(Moving(4), "loss");
  const ValueId old = *step.Find("old:s");
  CHECK(step.node(step.value(old).producer).op == OpKind::kCopy);
  // Not where backward does not ask.
  GraphBuilder g("forgetful");
  const Value w = g.Param("w", DType::kF64, {6});
  const Value s = g.State("s", DType::kF64, {6});
  g.Output("loss", ReduceMean(Mul(w, w)));
  LerpUpdate(s, w, Fill(g, 0.25, DType::kF64, {}));
  CHECK(!BuildTrainStep(*g.Finish(), "loss")->Find("old:s"));
}

}  // namespace
}  // namespace stowage
