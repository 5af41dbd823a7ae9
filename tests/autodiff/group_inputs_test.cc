// Groups of params with optimizers, rates, momenta and decays of their own, which are inputs of
// the step, against the formulas; groups that ascend; the scalars that updates share.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/micro_batches.h"
#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "autodiff/rank_step.h"
#include "autodiff/step_scalars.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

// loss = the mean over the batch of x . body + y . head, so that gradients are constants.
Graph Lines(int64_t batch = 4, DType dtype = DType::kF32) {
  GraphBuilder g("lines");
  Value loss;
  for (const char* name : {"body", "head"}) {
    const Value w = g.Param(name, dtype, {2});
    const Value x = g.Input(std::string("x of ") + name, dtype, {batch, 2});
    const Value part = MulScalar(ReduceMean(Mul(x, w)), 2);
    loss = loss.ok() ? Add(loss, part) : part;
  }
  g.Output("loss", g.Name("loss", loss));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

// Their means over the batch, and thereby the gradients.
const std::map<std::string, std::vector<double>> kGradients = {
    {"body", {0.5, -2}}, {"head", {-1, 0.25}}};

Tensors LeavesOf(const Graph& step) {
  Tensors leaves = {{"x of body", {1, -4, 0, 0, 0.5, -1, 0.5, -3}},
                    {"x of head", {-4, 1, 0, 0, 1, 0, -1, 0}},
                    {"body", {1, -2}},
                    {"head", {0.5, 3}}};
  for (const ValueId id : step.Leaves(Role::kState)) {
    const ValueInfo& info = step.value(id);
    leaves[info.name].resize(
        static_cast<size_t>(info.type.shape.num_elements()));
  }
  return leaves;
}

Graph StepOf(const TrainOptions& options, DType dtype = DType::kF32) {
  const Result<Graph> step = BuildTrainStep(Lines(4, dtype), "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(Verify(*step).ok());
  const Result<Graph> parsed = ParseGraph(ToText(*step));
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  CHECK(Equal(*parsed, *step));
  return *step;
}

// The body by momentum with a rate, momentum and decay that change; the head by an ascending
// SGD with the rate of all.
const TrainOptions kTwo = {
    .optimizer = Sgd{},
    .groups = {{.pattern = "body",
                .lr_scale = 0.5,
                .optimizer = Momentum{.momentum = 0.5, .decay = 0.75},
                .name = "body",
                .inputs = {.lr = true, .momentum = true, .decay = true}},
               {.pattern = "head", .decay = 0.25, .maximize = true}}};

void CheckTwo(const Graph& step, double clip) {
  Tensors leaves = LeavesOf(step);
  std::map<std::string, std::vector<double>> w = {{"body", leaves["body"]},
                                                  {"head", leaves["head"]}};
  std::vector<double> velocity(2);
  for (int t = 1; t <= 4; ++t) {
    const double lr = 0.125 / t, own = 0.25 * t, momentum = 1 - 0.125 * t;
    const double decay = 0.0625 * t;
    leaves["lr"] = {lr};
    leaves["step"] = {static_cast<double>(t)};
    leaves["lr:body"] = {own};
    leaves["momentum:body"] = {momentum};
    leaves["decay:body"] = {decay};
    CarryOver(step, Interpret(step, leaves), &leaves);
    for (size_t i = 0; i < 2; ++i) {
      double& body = w["body"][i];
      velocity[i] = momentum * velocity[i] + clip * kGradients.at("body")[i] +
                    decay * body;
      body -= 0.5 * own * velocity[i];
      double& head = w["head"][i];
      head -= lr * (0.25 * head - clip * kGradients.at("head")[i]);
      CAPTURE(t);
      CAPTURE(i);
      CHECK(leaves["body"][i] == doctest::Approx(body).epsilon(1e-12));
      CHECK(leaves["head"][i] == doctest::Approx(head).epsilon(1e-12));
      CHECK(leaves["body.velocity"][i] ==
            doctest::Approx(velocity[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("a group has its own optimizer, whose settings are inputs") {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    CheckTwo(StepOf(kTwo, dtype), 1);
    TrainOptions clipped = kTwo;
    clipped.clip_norm = 1;
    // The squares are 0.25, 4, 1 and 0.0625.
    CheckTwo(StepOf(clipped, dtype), 1 / (std::sqrt(5.3125) + 1e-6));
  }
}

TEST_CASE("micro-batches have the inputs of groups once") {
  const Graph whole = Lines(4), half = Lines(2);
  const Graph* const halves[] = {&half, &half};
  const auto made = BuildMicroBatchedStep(whole, halves, "loss", kTwo);
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  CheckTwo(made->graph, 1);
}

TEST_CASE("rates of groups are f32, which ops read, or f64 with f64 params") {
  TrainOptions options = {.optimizer = AdamW{}};
  options.groups = {{.pattern = "*", .name = "all", .inputs = {.lr = true}}};
  const auto count = [](const Graph& step, OpKind op) {
    return std::ranges::count(step.nodes(), op,
                              [](const Node& n) { return n.op; });
  };
  const Graph step = StepOf(options);
  CHECK(step.value(*step.Find("lr:all")).type.ToString() == "f32()");
  CHECK(step.value(*step.Find("lr:all")).role == Role::kInput);
  CHECK(!step.Find("lr"));
  CHECK(count(step, OpKind::kAdamWUpdate) == 2);
  CHECK(count(step, OpKind::kCast) == 0);
  const Graph wide = StepOf(options, DType::kF64);
  CHECK(wide.value(*wide.Find("lr:all")).type.ToString() == "f64()");
  CHECK(count(wide, OpKind::kAdamWUpdate) == 0);
  options.groups.front().pattern = "body";
  CHECK(StepOf(options).Find("lr"));  // the head's
}

TEST_CASE("a group that ascends has the op of its optimizer") {
  const TrainOptions options = {
      .optimizer = Sgd{}, .groups = {{.pattern = "head", .maximize = true}}};
  const Graph step = StepOf(options);
  Tensors leaves = LeavesOf(step);
  leaves["lr"] = {0.5};
  leaves["step"] = {1};
  const Tensors values = Interpret(step, leaves);
  CHECK(values.at("new:head") == std::vector<double>{0, 3.125});
  CHECK(values.at("new:body") == std::vector<double>{0.75, -1});
}

TEST_CASE("params with the same settings share their scalars") {
  const auto scalars = [](int params) {
    GraphBuilder g("many");
    Value loss;
    for (int i = 0; i < params; ++i) {
      const Value w = g.Param("w" + std::to_string(i), DType::kF32, {3});
      loss = loss.ok() ? Concat(std::vector{loss, w}, 0) : w;
    }
    g.Output("loss", g.Name("loss", ReduceSum(Square(loss))));
    const Result<Graph> step =
        BuildTrainStep(*g.Finish(), "loss", {.optimizer = Adamax{}});
    REQUIRE(step.ok());
    return std::ranges::count_if(step->nodes(), [&](const Node& node) {
      return step->value(node.results[0]).type == TensorType{DType::kF32, {}};
    });
  };
  CHECK(scalars(1) > 0);
  CHECK(scalars(3) == scalars(1));
}

TEST_CASE("scalars of numbers are folded, and equal ones emitted once") {
  GraphBuilder g("scalars");
  StepScalars scalars(&g, DType::kF64);
  const StepScalar x = scalars.Of(g.Input("x", DType::kF32, {}));
  const StepScalar number =
      Sqrt(StepScalar(9)) + 1 - Max(StepScalar(2), 0.5) * 4 / 2;
  CHECK(number.Is(0));
  CHECK((x * 1 + 0).is_number() == false);
  // Small differences from 1 keep their digits.
  const StepScalar small = OneMinusPower(StepScalar(1 - 0x1p-52), 3);
  CHECK(scalars.As(small, DType::kF64).ok());
  g.Output("a", scalars.As(Power(x, 3) / OneMinusPower(0.5, x), DType::kF64));
  const int64_t nodes = g.graph().num_nodes();
  const Value again =
      scalars.As(Power(x, 3) / OneMinusPower(0.5, x), DType::kF64);
  CHECK(g.graph().num_nodes() == nodes);
  g.Output("b", again);
  g.Output("c",
           scalars.As(scalars.Choose(scalars.IsLess(x, 3), x, 7), DType::kF64));
  g.Output("d", scalars.As(small, DType::kF64));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  for (const double at : {2.0, 4.0}) {
    const Tensors values = Interpret(*graph, {{"x", {at}}});
    const auto output = [&](const char* name) {
      for (const GraphOutput& each : graph->outputs()) {
        if (each.name == name) return values.at(graph->value(each.value).name);
      }
      return std::vector<double>();
    };
    const double wanted = at * at * at / (1 - std::pow(0.5, at));
    CHECK(output("a")[0] == doctest::Approx(wanted).epsilon(1e-14));
    CHECK(output("c")[0] == (at < 3 ? at : 7));
    CHECK(output("d")[0] == doctest::Approx(3 * 0x1p-52).epsilon(1e-14));
  }
}

// --- Mistakes ---

Error ErrorOf(const ParamGroup& group, const Optimizer& optimizer = Sgd{}) {
  const Result<Graph> step = BuildTrainStep(
      Lines(), "loss", {.optimizer = optimizer, .groups = {group}});
  REQUIRE_FALSE(step.ok());
  return step.error();
}

TEST_CASE("inputs that a group cannot have are refused with the group") {
  CHECK(ErrorOf({.pattern = "*", .inputs = {.lr = true}}).message ==
        "[autodiff] param group \"*\" has inputs and no name; give it one");
  for (const Optimizer& optimizer :
       {Optimizer(Lion{}), Optimizer(Adafactor{}), Optimizer(Muon{}),
        Optimizer(AdamW{.moments = Moments::kBf16}),
        Optimizer(Momentum{.bf16_velocity = true})}) {
    const Error error = ErrorOf(
        {.pattern = "*", .name = "all", .inputs = {.decay = true}}, optimizer);
    CHECK(error.code == ErrorCode::kUnsupported);
    CHECK(error.message.find(std::string("the decay of ") +
                             std::string(OptimizerName(optimizer)) +
                             " is no input") != std::string::npos);
  }
  CHECK(ErrorOf({.pattern = "*", .name = "all", .inputs = {.momentum = true}},
                Adadelta{})
            .message.find("the momentum of adadelta is no input of a step, as "
                          "param group \"*\" wants") != std::string::npos);
  CHECK(ErrorOf({.pattern = "*", .optimizer = Adam{.beta2 = 1}}).message ==
        "[optimizer] beta2 is 1; expected at least 0 and below 1");

  GraphBuilder g("taken");
  const Value w = g.Param("w", DType::kF32, {2});
  g.Output("loss", ReduceSum(g.Name("lr:all", Mul(w, w))));
  const Result<Graph> step = BuildTrainStep(
      *g.Finish(), "loss",
      {.groups = {{.pattern = "w", .name = "all", .inputs = {.lr = true}}}});
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().message ==
        "[autodiff] graph \"taken\" has a value \"lr:all\", the name of an "
        "input of param group \"w\"; give the group another name");
}

TEST_CASE("settings out of range or that do not go together are refused") {
  const auto message = [](const Optimizer& optimizer) {
    const Status status = CheckOptimizer(optimizer);
    return status.ok() ? std::string() : status.error().message;
  };
  CHECK(message(NAdam{.momentum_decay = -1}) ==
        "[optimizer] momentum_decay is -1; expected a finite number of at "
        "least 0");
  CHECK(message(Adadelta{.rho = 1}).find("rho is 1") != std::string::npos);
  CHECK(message(Asgd{.lambd = -0.5}).find("lambd is -0.5") !=
        std::string::npos);
  CHECK(message(Rprop{.eta_minus = 1}).find("eta_minus is 1") !=
        std::string::npos);
  CHECK(message(Rprop{.eta_plus = 1}).find("eta_plus is 1") !=
        std::string::npos);
  CHECK(message(Rprop{.min_step = 2, .max_step = 1}).find("max_step is 1") !=
        std::string::npos);
  CHECK(message(Adagrad{.initial = -1}).find("initial is -1") !=
        std::string::npos);
  CHECK(message(RmsProp{.momentum = 1}).find("momentum is 1") !=
        std::string::npos);
  CHECK(message(AdamW{.moments = Moments::kBf16, .amsgrad = true}) ==
        "[optimizer] amsgrad is 1; expected 0 with moments of fewer bits, or "
        "8 rest bits");
  CHECK(message(Momentum{.bf16_velocity = true, .dampening = 0.5}) ==
        "[optimizer] dampening is 0.5; expected 0 with a velocity in bf16");
  CHECK(message(Adafactor{.eps1 = std::nan("")}).find("eps1 is nan") !=
        std::string::npos);
}

TEST_CASE("a group's optimizer that updates no block is refused in shards") {
  const Graph whole = Lines(4), part = Lines(2);
  const Graph* const parts[] = {&part};
  TrainOptions options = {.optimizer = Sgd{}};
  options.groups = {{.pattern = "head", .optimizer = NAdam{}}};
  const auto step =
      BuildRankStep(whole, part, parts, "loss",
                    {.ranks = 2, .shard = Sharding::kStates}, options);
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().message.find(
            "optimizer nadam cannot update a block of a param") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
