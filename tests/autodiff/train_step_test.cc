// Training steps: the order of their nodes, their arithmetic over several steps
// against formulas written out here, and every error.

#include "autodiff/train_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/verify.h"
#include "ir/weight_type.h"
#include "math/small_floats.h"
#include "math/split_master.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;
constexpr DType kI32 = DType::kI32;
using Strings = std::vector<std::string>;
using Numbers = std::vector<double>;

Graph Build(const char* name,
            const std::function<void(GraphBuilder&)>& describe) {
  GraphBuilder g(name);
  describe(g);
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

Graph Step(const Graph& forward, const TrainOptions& options) {
  const Result<Graph> step = BuildTrainStep(forward, "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(Verify(*step).ok());
  return *step;
}

// The nodes after the forward part, each as its op and what it is for.
Strings Order(const Graph& step) {
  Strings order;
  for (NodeId id = 0; id < step.num_nodes(); ++id) {
    const Node& node = step.node(id);
    if (node.phase == Phase::kForward) continue;
    order.push_back(std::string(OpName(node.op)) + " " +
                    step.value(node.results.front()).name);
  }
  return order;
}

Strings OutputNames(const Graph& graph) {
  Strings names;
  for (const GraphOutput& output : graph.outputs()) {
    names.push_back(output.name);
  }
  return names;
}

Graph Perceptron() {
  return Build("mlp", [](GraphBuilder& g) {
    const Value x = g.Input("x", kF32, {32, 64});
    const Value w1 = g.Param("w1", kF32, {64, 128});
    const Value b1 = g.Param("b1", kF32, {128});
    const Value w2 = g.Param("w2", kF32, {128, 10});
    const Value y = g.Input("y", kI32, {32});
    const Value z1 = g.Name("z1", Add(MatMul(x, w1), b1));
    const Value z2 = g.Name("z2", MatMul(g.Name("h1", Relu(z1)), w2));
    g.Output("loss", g.Name("loss", CrossEntropy(z2, y)));
  });
}

TEST_CASE(
    "an update follows on the last node that its param or gradient needs") {
  const Graph step = Step(Perceptron(), {.optimizer = Sgd{}});
  // w2 has its gradient one node before grad:h1, which still reads w2.
  CHECK(Order(step) == Strings{"fill grad:loss", "cross_entropy_grad grad:z2",
                               "matmul grad:w2", "matmul grad:h1",
                               "sgd_update new:w2", "relu_grad grad:z1",
                               "reduce_sum grad:b1", "sgd_update new:b1",
                               "matmul grad:w1", "sgd_update new:w1"});
  CHECK(OutputNames(step) == Strings{"loss"});
  CHECK(step.Describe(step.value(*step.Find("new:w2")).producer) ==
        "update of \"w2\"");
}

TEST_CASE("no gradient outlives its update") {
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{}), Optimizer(Momentum{}), Optimizer(AdamW{})}) {
    const Graph step = Step(Perceptron(), {.optimizer = optimizer});
    for (const std::string name : {"w1", "b1", "w2"}) {
      const ValueId gradient = *step.Find("grad:" + name);
      NodeId last = kNoNode;
      for (NodeId id = 0; id < step.num_nodes(); ++id) {
        for (const ValueId input : step.node(id).inputs) {
          if (input == gradient) last = id;
        }
      }
      CHECK(last == step.value(*step.Find("new:" + name)).producer);
    }
  }
}

TEST_CASE("every node is for a line of the model, its own or its origin's") {
  const Graph model = Perceptron();
  const Graph step = Step(model, {.optimizer = AdamW{}});
  const auto line = [](const Graph& graph, std::string_view name) {
    return graph.value(*graph.Find(name)).source.line;
  };
  for (const std::string name : {"z1", "h1", "z2", "loss", "w1", "b1"}) {
    CHECK(line(model, name) > 0);
    CHECK(line(step, name) == line(model, name));
  }
  CHECK(line(step, "grad:w2") == line(model, "z2"));
  CHECK(line(step, "grad:z1") == line(model, "h1"));
  CHECK(line(step, "new:w1") == line(model, "w1"));
  CHECK(line(step, "w1.m") == line(model, "w1"));
  for (const Node& node : step.nodes()) {
    const std::string file = step.value(node.results.front()).source.file;
    CHECK(file.ends_with("train_step_test.cc"));
  }
}

TEST_CASE("with clipping, the updates come last, after the norm") {
  const Graph step = Step(Perceptron(), {.optimizer = Sgd{}, .clip_norm = 1.0});
  const Strings order = Order(step);
  REQUIRE(order.size() > 4);
  CHECK(Strings(order.end() - 4, order.end()) ==
        Strings{"minimum minimum_1", "sgd_update new:w1", "sgd_update new:b1",
                "sgd_update new:w2"});
  CHECK(OutputNames(step) == Strings{"loss", "grad_norm"});
}

TEST_CASE("a param used twice is updated once, by the sum of its gradients") {
  // loss = sum (w * w * x): gradient 2 w x
  const Graph forward = Build("twice", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {3});
    g.Output("loss", ReduceSum(Mul(Mul(w, w), g.Input("x", kF32, {3}))));
  });
  const Graph step = Step(forward, {.optimizer = Sgd{}});
  int updates = 0;
  for (const Node& node : step.nodes()) {
    updates += node.op == OpKind::kSgdUpdate;
  }
  CHECK(updates == 1);
  const Tensors values = Interpret(
      step,
      {{"w", {1, 2, 3}}, {"x", {1, -1, 2}}, {"lr", {0.5}}, {"step", {1}}});
  CHECK(values.at("new:w") == Numbers{0, 4, -3});
}

TEST_CASE("only the params asked for are trained, in one graph that verifies") {
  const Graph step = Step(Perceptron(), {.optimizer = AdamW{}, .wrt = {"b1"}});
  Strings states;
  for (const ValueId id : step.Leaves(Role::kState)) {
    states.push_back(step.value(id).name);
  }
  CHECK(states == Strings{"b1.m", "b1.v"});
  CHECK(!step.Find("new:w1"));
}

TEST_CASE("a step input that the forward graph has already is shared") {
  const Graph forward = Build("dropout", [](GraphBuilder& g) {
    const Value seed = g.Input("seed", DType::kI64, {});
    const Value step = g.Input("step", DType::kI64, {});
    const Value w = g.Param("w", kF32, {8});
    g.Output("loss", ReduceSum(Dropout(w, seed, step, 0.5, 1)));
  });
  const Graph step = Step(forward, {.optimizer = AdamW{}});
  CHECK(step.Leaves(Role::kInput).size() == 3);  // seed, step, lr
}

TEST_CASE("a constant of the forward graph is not made again in backward") {
  const Graph forward = Build("constant", [](GraphBuilder& g) {
    const float numbers[] = {1, 2, 3};
    const Value c = Constant(g, kF32, {3}, std::as_bytes(std::span(numbers)));
    g.Output("loss", ReduceSum(Mul(g.Param("w", kF32, {3}), c)));
  });
  const Graph backward = *BuildBackward(forward, "loss");
  CHECK(backward.Leaves(Role::kSaved).empty());
  const Graph step = Step(forward, {.optimizer = Sgd{}});
  int constants = 0;
  for (const Node& node : step.nodes()) {
    constants += node.op == OpKind::kConstant;
  }
  CHECK(constants == 1);
  const Tensors values =
      Interpret(step, {{"w", {0, 0, 0}}, {"lr", {1}}, {"step", {1}}});
  CHECK(values.at("new:w") == Numbers{-1, -2, -3});
}

TEST_CASE("names of forward values stay; backward values give way") {
  // Both graphs have a view called permute_1.
  const Graph forward = Build("clash", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {2, 3});
    const Value h = Sin(Transpose(w));
    g.Output("loss", ReduceSum(Mul(Transpose(h), w)));
  });
  const Graph backward = *BuildBackward(forward, "loss");
  const Result<Graph> linked = LinkBackward(forward, backward, "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  CHECK(Verify(*linked).ok());
  for (const ValueInfo& info : forward.values()) {
    const auto id = linked->Find(info.name);
    REQUIRE(id);
    CHECK(linked->value(*id).type == info.type);
  }
  // d/dw sum(sin(w) w) = cos(w) w + sin(w)
  const Numbers w = {0.5, -1, 2, 0, 1.5, -0.25};
  const Tensors values = Interpret(*linked, {{"w", w}});
  for (size_t i = 0; i < w.size(); ++i) {
    CHECK(values.at("grad:w")[i] ==
          doctest::Approx(std::cos(w[i]) * w[i] + std::sin(w[i])));
  }
}

TEST_CASE("results of one node keep names that would come fresh in turn") {
  // Emitted anew, the pieces would be called split_1 and split_2.
  const Graph forward = Build("swapped", [](GraphBuilder& g) {
    const std::vector<Value> pieces = Split(g.Param("w", kF32, {4}), 0, {2, 2});
    g.Name("aside", pieces[1]);
    g.Output("split_2", g.Name("split_2", pieces[0]));
    g.Name("split_1", pieces[1]);
    g.Output("loss", ReduceSum(Mul(pieces[0], pieces[1])));
  });
  const Result<Graph> linked =
      LinkBackward(forward, *BuildBackward(forward, "loss"), "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  const Tensors values = Interpret(*linked, {{"w", {1, 2, 3, 4}}});
  CHECK(values.at("split_2") == Numbers{1, 2});
  CHECK(values.at("split_1") == Numbers{3, 4});
  CHECK(values.at("grad:w") == Numbers{3, 4, 1, 2});
}

TEST_CASE("a name that is taken is an error, however many pieces follow") {
  // The states of "w" need the name "w.m"; then comes a split in 64.
  const Graph forward = Build("taken", [](GraphBuilder& g) {
    const Value v = g.Param("v", kF32, {64});
    const std::vector<Value> pieces = Split(Tanh(v), 0, Axes(64, 1));
    const Value w = g.Param("w", kF32, {5});
    const Value other = g.Param("w.m", kF32, {5});
    const Value first = ReduceSum(Mul(pieces[0], pieces[63]));
    g.Output("loss", Add(first, ReduceSum(Mul(w, other))));
  });
  const Result<Graph> step = BuildTrainStep(forward, "loss");
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().message.find("[state] the name \"w.m\" is taken") == 0);
}

// --- A loss that is made with its gradients ---

// A linear layer, and its loss over 7 classes: of logits as a value, or of 2
// rows of logits at a time. `more` may add to what the graph gives.
Graph Classifier(bool chunked,
                 const std::function<void(Value loss)>& more = {}) {
  return Build("classifier", [&](GraphBuilder& g) {
    const Value x = g.Input("x", DType::kF64, {5, 3});
    const Value w1 = g.Param("w1", DType::kF64, {3, 4});
    const Value w2 = g.Param("w2", DType::kF64, {7, 4});
    const Value y = g.Input("y", kI32, {5});
    const Value h = g.Name("h", Tanh(MatMul(x, w1)));
    const Value loss = chunked ? LinearCrossEntropy(h, w2, y, 2)
                               : CrossEntropy(MatMul(h, w2, false, true), y);
    g.Output("loss", g.Name("loss", loss));
    if (more) more(loss);
  });
}

int CountOf(const Graph& graph, OpKind op) {
  return static_cast<int>(std::ranges::count(
      graph.nodes(), op, [](const Node& n) { return n.op; }));
}

double Flops(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes()) {
    const OpDef& def = GetOpDef(node.op);
    if (def.flops == nullptr) continue;
    OpArgsStorage storage;
    std::vector<TensorType> results;
    for (const ValueId id : node.results) {
      results.push_back(graph.value(id).type);
    }
    sum += def.flops(MakeOpArgs(graph, node, &storage), results);
  }
  return sum;
}

Tensors ClassifierLeaves() {
  Tensors leaves = {{"y", {6, 0, 3, 3, 1}}, {"lr", {0.5}}, {"step", {1}}};
  const auto fill = [&](const char* name, size_t count, double frequency) {
    for (size_t i = 0; i < count; ++i) {
      leaves[name].push_back(std::sin(frequency * static_cast<double>(i + 1)));
    }
  };
  fill("x", 15, 1);
  fill("w1", 12, 2);
  fill("w2", 28, 3);
  return leaves;
}

TEST_CASE("a loss by chunks of logits is made with its gradients, once") {
  for (const std::optional<double> clip : {std::optional<double>(), {0.25}}) {
    const TrainOptions options{.optimizer = Sgd{}, .clip_norm = clip};
    const Graph plain = Step(Classifier(false), options);
    const Graph step = Step(Classifier(true), options);
    CHECK(CountOf(step, OpKind::kLinearCrossEntropy) == 0);
    CHECK(CountOf(step, OpKind::kLinearCrossEntropyGrad) == 1);
    CHECK(OutputNames(step) == OutputNames(plain));
    const ValueInfo& loss = step.value(*step.Find("loss"));
    CHECK(step.node(loss.producer).op == OpKind::kLinearCrossEntropyGrad);
    CHECK(loss.role == Role::kOutput);
    CHECK(Flops(step) == Flops(plain));
    const Tensors got = Interpret(step, ClassifierLeaves());
    const Tensors want = Interpret(plain, ClassifierLeaves());
    for (const char* name : {"loss", "new:w1", "new:w2"}) {
      CAPTURE(std::string(name));
      for (size_t i = 0; i < want.at(name).size(); ++i) {
        CHECK(got.at(name)[i] ==
              doctest::Approx(want.at(name)[i]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("a backward graph by chunks keeps neither logits nor statistics") {
  const Graph forward = Classifier(true);
  const Graph backward = *BuildBackward(forward, "loss");
  Strings saved;
  for (const ValueId id : backward.Leaves(Role::kSaved)) {
    saved.push_back(backward.value(id).name);
  }
  CHECK(saved == Strings{"h"});
  const Result<Graph> linked = LinkBackward(forward, backward, "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  CHECK(OutputNames(*linked) == Strings{"loss", "grad:w1", "grad:w2"});
  CHECK(CountOf(*linked, OpKind::kLinearCrossEntropy) == 0);
  const Tensors got = Interpret(*linked, ClassifierLeaves());
  const Tensors want = Interpret(
      *LinkBackward(Classifier(false),
                    *BuildBackward(Classifier(false), "loss"), "loss"),
      ClassifierLeaves());
  for (size_t i = 0; i < want.at("grad:w2").size(); ++i) {
    CHECK(got.at("grad:w2")[i] ==
          doctest::Approx(want.at("grad:w2")[i]).epsilon(1e-12));
  }
}

TEST_CASE("a loss that something else reads is made where it stood") {
  // Read by a node.
  const Graph read = Step(
      Classifier(
          true,
          [](Value loss) { loss.builder()->Output("perplexity", Exp(loss)); }),
      {.optimizer = Sgd{}});
  CHECK(CountOf(read, OpKind::kLinearCrossEntropy) == 1);
  CHECK(OutputNames(read) == Strings{"loss", "perplexity"});
  // Not itself what is differentiated.
  const Graph forward = Build("scaled", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {3, 2});
    const Value part =
        g.Name("part", LinearCrossEntropy(g.Input("x", kF32, {4, 2}), w,
                                          g.Input("y", kI32, {4}), 3));
    g.Output("part", part);
    g.Output("loss", MulScalar(part, 2));
  });
  const Graph scaled = Step(forward, {.optimizer = Sgd{}});
  CHECK(CountOf(scaled, OpKind::kLinearCrossEntropy) == 1);
  // Its log-sum-exp is wanted.
  const Graph statistics =
      Step(Build("statistics",
                 [](GraphBuilder& g) {
                   const Value leaves[] = {g.Input("x", kF32, {4, 2}),
                                           g.Param("w", kF32, {3, 2}),
                                           g.Input("y", kI32, {4})};
                   const std::vector<Value> results =
                       g.Emit(OpKind::kLinearCrossEntropy, leaves,
                              {{"chunk", int64_t{3}}, {"blocks", kNoBlocks}});
                   g.Output("loss", results[0]);
                   g.Output("log_sum_exp", results[1]);
                 }),
           {.optimizer = Sgd{}});
  CHECK(CountOf(statistics, OpKind::kLinearCrossEntropy) == 1);
}

// --- Arithmetic ---
// loss = mean over 4 rows of (x w + b - y)^2, w of 2 and b of 1 element.

Graph Regression() {
  return Build("regression", [](GraphBuilder& g) {
    const Value x = g.Input("x", kF32, {4, 2});
    const Value w = g.Param("w", kF32, {2, 1});
    const Value b = g.Param("b", kF32, {1});
    const Value y = g.Input("y", kF32, {4, 1});
    g.Output("loss", MeanSquaredError(Add(MatMul(x, w), b), y));
  });
}

constexpr double kX[4][2] = {{1, 2}, {-1, 0.5}, {0.25, -2}, {3, 1}};
constexpr double kY[4] = {1, -2, 0.5, 4};

// Params p = (w0, w1, b) and what an optimizer keeps for them.
struct Reference {
  double p[3] = {0.5, -0.25, 0.125};
  double first[3] = {};   // velocity, or first moment
  double second[3] = {};  // second moment

  double Loss() const {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += Error(i) * Error(i);
    return sum / 4;
  }
  double Error(int i) const {
    return kX[i][0] * p[0] + kX[i][1] * p[1] + p[2] - kY[i];
  }
  double Gradient(int j) const {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      sum += 2 * Error(i) * (j < 2 ? kX[i][j] : 1) / 4;
    }
    return sum;
  }
  double GradientNorm() const {
    return std::sqrt(Gradient(0) * Gradient(0) + Gradient(1) * Gradient(1) +
                     Gradient(2) * Gradient(2));
  }
};

// Three steps of the graph beside three of `advance`, which gets the gradients
// (times `clip`, 1 or the clip factor), the learning rate and the step's
// number.
void CheckThreeSteps(const TrainOptions& options,
                     const std::function<void(Reference&, const double*, double,
                                              int)>& advance) {
  const Graph step = Step(Regression(), options);
  Reference reference;
  Tensors leaves = {{"w", {0.5, -0.25}}, {"b", {0.125}}};
  for (const double(&row)[2] : kX) {
    leaves["x"].insert(leaves["x"].end(), {row[0], row[1]});
  }
  leaves["y"] = Numbers(kY, kY + 4);
  for (const ValueId id : step.Leaves(Role::kState)) {
    const ValueInfo& info = step.value(id);
    leaves[info.name].resize(
        static_cast<size_t>(info.type.shape.num_elements()));
  }
  for (int t = 1; t <= 3; ++t) {
    const double lr = 0.1 / t;  // it may change from step to step
    leaves["lr"] = {lr};
    leaves["step"] = {static_cast<double>(t)};
    const Tensors values = Interpret(step, leaves);
    CHECK(values.at("loss")[0] == doctest::Approx(reference.Loss()));
    double clip = 1;
    if (options.clip_norm) {
      const double norm = reference.GradientNorm();
      CHECK(values.at("grad_norm")[0] == doctest::Approx(norm));
      clip = std::min(1.0, *options.clip_norm / (norm + 1e-6));
    }
    double gradients[3];
    for (int j = 0; j < 3; ++j) gradients[j] = clip * reference.Gradient(j);
    advance(reference, gradients, lr, t);
    CarryOver(step, values, &leaves);
    const double actual[3] = {leaves["w"][0], leaves["w"][1], leaves["b"][0]};
    for (int j = 0; j < 3; ++j) {
      CHECK(actual[j] == doctest::Approx(reference.p[j]).epsilon(1e-12));
    }
  }
}

TEST_CASE("three steps of SGD with decay follow the formula") {
  CheckThreeSteps({.optimizer = Sgd{.decay = 0.01}},
                  [](Reference& r, const double* g, double lr, int) {
                    for (int j = 0; j < 3; ++j)
                      r.p[j] -= lr * (g[j] + 0.01 * r.p[j]);
                  });
}

TEST_CASE("three steps of momentum follow the formula") {
  CheckThreeSteps({.optimizer = Momentum{.momentum = 0.8, .decay = 0.02}},
                  [](Reference& r, const double* g, double lr, int) {
                    for (int j = 0; j < 3; ++j) {
                      r.first[j] = 0.8 * r.first[j] + g[j] + 0.02 * r.p[j];
                      r.p[j] -= lr * r.first[j];
                    }
                  });
}

void AdvanceAdamW(Reference& r, const double* g, double lr, int t) {
  for (int j = 0; j < 3; ++j) {
    r.first[j] = 0.9 * r.first[j] + (1 - 0.9) * g[j];
    r.second[j] = 0.999 * r.second[j] + (1 - 0.999) * g[j] * g[j];
    const double m_hat = r.first[j] / (1 - std::pow(0.9, t));
    const double v_hat = r.second[j] / (1 - std::pow(0.999, t));
    r.p[j] -= lr * 0.01 * r.p[j];
    r.p[j] -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
  }
}

TEST_CASE("three steps of AdamW follow the formula") {
  CheckThreeSteps({.optimizer = AdamW{}}, AdvanceAdamW);
}

TEST_CASE(
    "three clipped steps follow the formula, whether the clip bites or not") {
  // The first gradient's norm is between 5 and 6.
  CHECK(Reference().GradientNorm() > 5);
  CHECK(Reference().GradientNorm() < 6);
  for (const double max_norm : {0.5, 100.0}) {
    CheckThreeSteps({.optimizer = AdamW{}, .clip_norm = max_norm},
                    AdvanceAdamW);
    CheckThreeSteps({.optimizer = Sgd{}, .clip_norm = max_norm},
                    [](Reference& r, const double* g, double lr, int) {
                      for (int j = 0; j < 3; ++j) r.p[j] -= lr * g[j];
                    });
  }
}

TEST_CASE(
    "a bf16 param moves as its f32 weight does, by steps it cannot tell") {
  // loss = sum w x, so that gradients are x whatever w is. Ten steps of 1e-4
  // leave w = 1 where it is, for the next bf16 number is 2^-8 away.
  const Numbers x = {1, -2, 0.5};
  const Graph forward = Build("sum", [](GraphBuilder& g) {
    const Value w = g.Param("w", kBF16, {3});
    const Value product = Mul(w, g.Input("x", kBF16, {3}));
    g.Output("loss", ReduceSum(Cast(product, kF32)));
  });
  const Graph step = Step(forward, {.optimizer = AdamW{}});
  Strings states;
  for (const ValueId id : step.Leaves(Role::kState)) {
    states.push_back(step.value(id).name + " " +
                     step.value(id).type.ToString());
  }
  CHECK(states == Strings{"w.delta i16(3)", "w.m f32(3)", "w.v f32(3)"});
  Tensors leaves = {{"w", {1, -2, 3}}, {"x", x}, {"lr", {1e-4}}};
  for (const char* state : {"w.delta", "w.m", "w.v"}) leaves[state] = {0, 0, 0};
  Reference reference{.p = {1, -2, 3}};
  for (int t = 1; t <= 10; ++t) {
    leaves["step"] = {static_cast<double>(t)};
    AdvanceAdamW(reference, x.data(), 1e-4, t);
    CarryOver(step, Interpret(step, leaves), &leaves);
    for (size_t j = 0; j < 3; ++j) {
      const auto weight =
          math::FloatToBFloat16(static_cast<float>(leaves["w"][j]));
      const auto delta = static_cast<int16_t>(leaves["w.delta"][j]);
      CHECK(math::Join({weight, delta}) ==
            doctest::Approx(reference.p[j]).epsilon(1e-6));
    }
  }
  CHECK(leaves["w"] == Numbers{1, -2, 3});
  CHECK(reference.p[0] < 0.9991);
}

// --- Names and mistakes ---

TEST_CASE("optimizers are found by the names they have") {
  for (const char* name :
       {"sgd", "momentum", "momentum-bf16", "nesterov", "rmsprop", "adagrad",
        "adam", "adamw", "adamw-bf16", "adamw8bit", "flash-adamw", "lion",
        "adafactor", "muon"}) {
    const Result<Optimizer> optimizer = ParseOptimizer(name);
    REQUIRE(optimizer.ok());
    CHECK(OptimizerName(*optimizer) == name);
  }
  CHECK(ParseOptimizer("lamb").error().message ==
        "[optimizer] there is no optimizer \"lamb\"; expected sgd, momentum, "
        "momentum-bf16, nesterov, rmsprop, adagrad, adam, adamw, adamw-bf16, "
        "adamw8bit, flash-adamw, lion, adafactor or muon");
  CHECK(NamedOptimizers().size() == 14);
}

TEST_CASE("every optimizer has a learning rate to start from") {
  CHECK(DefaultLearningRate(Sgd{}) == 0.1);
  CHECK(DefaultLearningRate(Momentum{}) == 0.02);
  CHECK(DefaultLearningRate(AdamW{}) == 0.001);
  CHECK(DefaultLearningRate(Nesterov{}) == 0.02);
  // PyTorch's defaults.
  CHECK(DefaultLearningRate(RmsProp{}) == 0.01);
  CHECK(DefaultLearningRate(Adagrad{}) == 0.01);
  CHECK(DefaultLearningRate(Adam{}) == 0.001);
  CHECK(DefaultLearningRate(Adafactor{}) == 0.01);
  CHECK(DefaultLearningRate(Muon{}) == 0.001);
  // A tenth of AdamW's, as its paper advises.
  CHECK(DefaultLearningRate(Lion{}) == 0.0001);
}

TEST_CASE("states are named after their param") {
  CHECK(StateNames(Sgd{}, "w", {kF32, {5}}).empty());
  CHECK(StateNames(Momentum{}, "w", {kF32, {5}}) == Strings{"w.velocity"});
  CHECK(StateNames(AdamW{}, "fc.w", {kF32, {5}}) ==
        Strings{"fc.w.m", "fc.w.v"});
  CHECK(StateNames(Nesterov{}, "w", {kF32, {5}}) == Strings{"w.velocity"});
  CHECK(StateNames(RmsProp{}, "w", {kF32, {5}}) == Strings{"w.v"});
  CHECK(StateNames(Adagrad{}, "w", {kF32, {5}}) == Strings{"w.v"});
  CHECK(StateNames(Adam{}, "w", {kBF16, {5}}) == Strings{"w.m", "w.v"});
  CHECK(StateNames(Adam{}, "w", {DType::kF16, {5}}) ==
        Strings{"w.rest", "w.m", "w.v"});
  CHECK(StateNames(Momentum{}, "w", {kBF16, {5}}) == Strings{"w.velocity"});
  CHECK(StateNames(AdamW{}, "fc.w", {kBF16, {5}}) ==
        Strings{"fc.w.delta", "fc.w.m", "fc.w.v"});
}

TEST_CASE("moments in fewer bits have states of their own") {
  const Optimizer by_8bit = *ParseOptimizer("adamw8bit");
  const Shape large{64, 64}, small{64, 63};
  const Strings coded = {"w.m", "w.v", "w.m_scale", "w.v_scale"};
  CHECK(StateNames(by_8bit, "w", {kF32, large}) == coded);
  CHECK(StateNames(by_8bit, "w", {kF32, small}) == Strings{"w.m", "w.v"});
  const auto states = [&](const char* name, DType dtype, const Shape& shape) {
    GraphBuilder g("model");
    const Value w = g.Param("w", dtype, shape);
    g.Output("loss", g.Name("loss", Cast(ReduceSum(Square(w)), kF32)));
    const Result<Graph> forward = g.Finish();
    REQUIRE(forward.ok());
    const Result<Graph> step =
        BuildTrainStep(*forward, "loss", {.optimizer = *ParseOptimizer(name)});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    CHECK(step->Find("seed").has_value() ==
          (std::string_view(name).ends_with("-bf16")));
    Strings types;
    for (const ValueId id : step->Leaves(Role::kState)) {
      const ValueInfo& info = step->value(id);
      types.push_back(info.name + " " + info.type.ToString());
    }
    return types;
  };
  CHECK(states("adamw8bit", kF32, large) ==
        Strings{"w.m u8(64, 64)", "w.v u8(64, 64)", "w.m_scale f32(16)",
                "w.v_scale f32(16)"});
  CHECK(states("adamw8bit", kBF16, large) ==
        Strings{"w.delta u8(64, 64)", "w.m u8(64, 64)", "w.v u8(64, 64)",
                "w.m_scale f32(16)", "w.v_scale f32(16)"});
  CHECK(states("flash-adamw", kBF16, small) ==
        Strings{"w.delta u8(64, 63)", "w.m f32(64, 63)", "w.v f32(64, 63)"});
  CHECK(states("adamw-bf16", kF32, small) ==
        Strings{"w.m bf16(64, 63)", "w.v bf16(64, 63)"});
  CHECK(states("adamw-bf16", kBF16, small) ==
        Strings{"w.delta i16(64, 63)", "w.m bf16(64, 63)", "w.v bf16(64, 63)"});
  CHECK(states("momentum-bf16", kF32, small) ==
        Strings{"w.velocity bf16(64, 63)"});
  CHECK(states("momentum-bf16", kBF16, small) ==
        Strings{"w.delta i16(64, 63)", "w.velocity bf16(64, 63)"});
}

TEST_CASE("what compact states are not for is refused") {
  GraphBuilder g("model");
  const Value w = g.Param("w", DType::kF64, {64, 64});
  g.Output("loss", g.Name("loss", ReduceSum(Square(w))));
  const Result<Graph> forward = g.Finish();
  for (const char* name :
       {"momentum-bf16", "adamw-bf16", "adamw8bit", "flash-adamw"}) {
    const Result<Graph> step =
        BuildTrainStep(*forward, "loss", {.optimizer = *ParseOptimizer(name)});
    REQUIRE_FALSE(step.ok());
    CHECK(step.error().message ==
          StrCat("[optimizer] ", name,
                 " updates params in f32 or bf16; \"w\" is f64(64, 64)"));
  }
}

TEST_CASE("constants out of range have their message") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  struct Row {
    TrainOptions options;
    const char* message;
  };
  const Row rows[] = {
      {{.optimizer = Sgd{.decay = -0.5}},
       "[optimizer] decay is -0.5; expected a finite number of at least 0"},
      {{.optimizer = Sgd{.decay = infinity}},
       "[optimizer] decay is inf; expected a finite number of at least 0"},
      {{.optimizer = Momentum{.momentum = 1}},
       "[optimizer] momentum is 1; expected at least 0 and below 1"},
      {{.optimizer = AdamW{.beta1 = -0.1}},
       "[optimizer] beta1 is -0.1; expected at least 0 and below 1"},
      {{.optimizer = AdamW{.beta2 = nan}},
       "[optimizer] beta2 is nan; expected at least 0 and below 1"},
      {{.optimizer = AdamW{.rest_bits = 12}},
       "[optimizer] rest_bits is 12; expected 8 or 16"},
      {{.optimizer = AdamW{.eps = 0}},
       "[optimizer] eps is 0; expected a finite number above 0"},
      {{.optimizer = Lion{.beta2 = 1}},
       "[optimizer] beta2 is 1; expected at least 0 and below 1"},
      {{.optimizer = Adafactor{.beta2_decay = 0}},
       "[optimizer] beta2_decay is 0; expected a finite number below 0"},
      {{.optimizer = Adafactor{.eps2 = 0}},
       "[optimizer] eps is 0; expected a finite number above 0"},
      {{.optimizer = Adafactor{.clip = -1}},
       "[optimizer] clip is -1; expected a finite number above 0"},
      {{.optimizer = Muon{.momentum = 1.5}},
       "[optimizer] momentum is 1.5; expected at least 0 and below 1"},
      {{.optimizer = Muon{.iterations = 0}},
       "[optimizer] iterations is 0; expected 1 to 100"},
      {{.optimizer = Nesterov{.momentum = -1}},
       "[optimizer] momentum is -1; expected at least 0 and below 1"},
      {{.optimizer = RmsProp{.alpha = 1}},
       "[optimizer] alpha is 1; expected at least 0 and below 1"},
      {{.optimizer = Adagrad{.eps = -1}},
       "[optimizer] eps is -1; expected a finite number above 0"},
      {{.optimizer = Adam{.decay = -1}},
       "[optimizer] decay is -1; expected a finite number of at least 0"},
      {{.clip_norm = 0.0},
       "[optimizer] clip_norm is 0; expected a finite number above 0"},
      {{.wrt = {"x"}},
       "[autodiff] cannot train \"x\", whose role is input; expected a param"},
      {{.wrt = {"v"}},
       "[autodiff] graph \"regression\" has no param or input \"v\" to "
       "differentiate by"},
  };
  for (const Row& row : rows) {
    const Result<Graph> step =
        BuildTrainStep(Regression(), "loss", row.options);
    CAPTURE(row.message);
    REQUIRE(!step.ok());
    CHECK(step.error().message == row.message);
  }
}

TEST_CASE(
    "a forward graph may not use the names of the step's inputs "
    "otherwise") {
  const Graph lr = Build("a", [](GraphBuilder& g) {
    g.Output("loss",
             ReduceSum(Mul(g.Param("w", kF32, {2}), g.Input("lr", kF32, {2}))));
  });
  CHECK(BuildTrainStep(lr, "loss").error().message ==
        "[autodiff] graph \"a\" has a value \"lr\"; the step needs this name "
        "for its learning rate");
  const Graph step = Build("b", [](GraphBuilder& g) {
    g.Output("loss", ReduceSum(Mul(g.Param("w", kF32, {2}),
                                   g.Input("step", kF32, {2}))));
  });
  CHECK(BuildTrainStep(step, "loss").error().message ==
        "[autodiff] \"step\" in graph \"b\" is input f32(2); the step needs "
        "this name for an input i64()");
}

TEST_CASE("a backward graph links only to the graph it was built from") {
  const auto build = [](const char* name, int64_t size, const char* hidden) {
    return Build(name, [&](GraphBuilder& g) {
      const Value w = g.Param("w", kF32, {size});
      const Value h = g.Name(hidden, Exp(w));
      g.Output("loss", ReduceSum(h));
    });
  };
  const Graph backward = *BuildBackward(build("one", 3, "h"), "loss");
  CHECK(LinkBackward(build("two", 3, "other"), backward, "loss")
            .error()
            .message ==
        "[autodiff] graph \"one.backward\" reads \"h\", which graph \"two\" "
        "does not have; link a backward graph to the graph that it was built "
        "from");
  CHECK(LinkBackward(build("two", 5, "h"), backward, "loss").error().message ==
        "[autodiff] graph \"one.backward\" reads \"h\" as f32(3), in graph "
        "\"two\" it is f32(5); link a backward graph to the graph that it was "
        "built from");
}

}  // namespace
}  // namespace stowage
