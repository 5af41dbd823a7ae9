// Training steps: the order of their nodes, and every error.

#include "autodiff/train_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/verify.h"
#include "tests/autodiff/built_step.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kI32 = DType::kI32;
using Strings = std::vector<std::string>;
using Numbers = std::vector<double>;

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
  // Emitted anew, the micro-batches would be called split_1 and split_2.
  const Graph forward = Build("swapped", [](GraphBuilder& g) {
    const std::vector<Value> micro_batches =
        Split(g.Param("w", kF32, {4}), 0, {2, 2});
    g.Name("aside", micro_batches[1]);
    g.Output("split_2", g.Name("split_2", micro_batches[0]));
    g.Name("split_1", micro_batches[1]);
    g.Output("loss", ReduceSum(Mul(micro_batches[0], micro_batches[1])));
  });
  const Result<Graph> linked =
      LinkBackward(forward, *BuildBackward(forward, "loss"), "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  const Tensors values = Interpret(*linked, {{"w", {1, 2, 3, 4}}});
  CHECK(values.at("split_2") == Numbers{1, 2});
  CHECK(values.at("split_1") == Numbers{3, 4});
  CHECK(values.at("grad:w") == Numbers{3, 4, 1, 2});
}

TEST_CASE(
    "a name that is taken is an error, however many micro-batches follow") {
  // The states of "w" need the name "w.m"; then comes a split in 64.
  const Graph forward = Build("taken", [](GraphBuilder& g) {
    const Value v = g.Param("v", kF32, {64});
    const std::vector<Value> micro_batches = Split(Tanh(v), 0, Axes(64, 1));
    const Value w = g.Param("w", kF32, {5});
    const Value other = g.Param("w.m", kF32, {5});
    const Value first = ReduceSum(Mul(micro_batches[0], micro_batches[63]));
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
  // The losses of its rows are wanted.
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
                   g.Output("losses", results[1]);
                 }),
           {.optimizer = Sgd{}});
  CHECK(CountOf(statistics, OpKind::kLinearCrossEntropy) == 1);
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
