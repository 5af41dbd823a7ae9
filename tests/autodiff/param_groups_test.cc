// Params that are trained otherwise than the rest: their updates against
// PyTorch's formulas for param groups, where a group's weight_decay and lr stand
// in place of the optimizer's (torch.optim.SGD and torch.optim.AdamW).

#include "autodiff/param_groups.h"

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
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr DType kF32 = DType::kF32;
using Strings = std::vector<std::string>;
using Numbers = std::vector<double>;

// loss = sum of a batch's rows of "wte" times x, plus sum of "fc.weight" times u,
// plus sum of "fc.bias" times b: gradients that the params do not change.
Graph Sums() {
  GraphBuilder g("sums");
  const Value tokens = g.Input("tokens", DType::kI32, {3});
  const Value wte = g.Param("wte", kF32, {3, 2});
  const Value weight = g.Param("fc.weight", kF32, {2, 2});
  const Value bias = g.Param("fc.bias", kF32, {2});
  const Value of_rows =
      ReduceSum(Mul(Gather(wte, tokens), g.Input("x", kF32, {3, 2})));
  const Value of_weight = ReduceSum(Mul(weight, g.Input("u", kF32, {2, 2})));
  const Value of_bias = ReduceSum(Mul(bias, g.Input("b", kF32, {2})));
  g.Output("loss", g.Name("loss", Add(Add(of_rows, of_weight), of_bias)));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

// The gradients by hand: row 0 of wte is read last, row 1 first and second, row
// 2 never.
const std::map<std::string, Numbers> kGradients = {
    {"wte", {5, -3, 0.5 + 2, -1 + 0.25, 0, 0}},
    {"fc.weight", {1, -0.5, 2, 4}},
    {"fc.bias", {0.125, -8}}};

Tensors Leaves() {
  return {{"tokens", {1, 1, 0}},
          {"x", {0.5, -1, 2, 0.25, 5, -3}},
          {"u", {1, -0.5, 2, 4}},
          {"b", {0.125, -8}},
          {"wte", {1, 2, -3, 4, 0.5, -0.25}},
          {"fc.weight", {-1, 0.75, 3, 0.5}},
          {"fc.bias", {10, -20}}};
}

Graph Step(const TrainOptions& options) {
  const Result<Graph> step = BuildTrainStep(Sums(), "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(Verify(*step).ok());
  const Result<Graph> parsed = ParseGraph(ToText(*step));
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  CHECK(Equal(*parsed, *step));
  return *step;
}

int CountOf(const Graph& graph, OpKind op) {
  return static_cast<int>(std::ranges::count(
      graph.nodes(), op, [](const Node& n) { return n.op; }));
}

// What PyTorch has for the params of one group.
struct Settings {
  double decay = 0;
  double lr_scale = 1;
  bool trained = true;
};
using SettingsOf = std::map<std::string, Settings>;  // by param

// One element of a param, and what an optimizer keeps for it.
struct Element {
  double w = 0, first = 0, second = 0;
};

void AdvanceSgd(Element& e, double g, double lr, double decay, int) {
  e.w -= lr * (g + decay * e.w);
}
void AdvanceMomentum(Element& e, double g, double lr, double decay, int) {
  e.first = 0.9 * e.first + g + decay * e.w;
  e.w -= lr * e.first;
}
void AdvanceAdamW(Element& e, double g, double lr, double decay, int t) {
  e.first = 0.9 * e.first + (1 - 0.9) * g;
  e.second = 0.999 * e.second + (1 - 0.999) * g * g;
  const double m_hat = e.first / (1 - std::pow(0.9, t));
  const double v_hat = e.second / (1 - std::pow(0.999, t));
  e.w -= lr * decay * e.w;
  e.w -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
}
using Advance = void (*)(Element&, double, double, double, int);

// Three steps of the graph beside three of the formula.
void CheckThreeSteps(const TrainOptions& options, Advance advance,
                     const SettingsOf& settings) {
  const Graph step = Step(options);
  Tensors leaves = Leaves();
  for (const ValueId id : step.Leaves(Role::kState)) {
    const ValueInfo& info = step.value(id);
    leaves[info.name].resize(
        static_cast<size_t>(info.type.shape.num_elements()));
  }
  std::map<std::string, std::vector<Element>> reference;
  double squares = 0;
  for (const auto& [param, gradient] : kGradients) {
    for (const double w : leaves.at(param))
      reference[param].push_back({.w = w});
    if (!settings.at(param).trained) continue;
    for (const double g : gradient) squares += g * g;
  }
  const double clip =
      options.clip_norm
          ? std::min(1.0, *options.clip_norm / (std::sqrt(squares) + 1e-6))
          : 1;
  for (int t = 1; t <= 3; ++t) {
    const double lr = 0.1 / t;  // it may change from step to step
    leaves["lr"] = {lr};
    leaves["step"] = {static_cast<double>(t)};
    const Tensors values = Interpret(step, leaves);
    if (options.clip_norm) {
      CHECK(values.at("grad_norm")[0] == doctest::Approx(std::sqrt(squares)));
    }
    CarryOver(step, values, &leaves);
    for (const auto& [param, gradient] : kGradients) {
      const Settings& of_param = settings.at(param);
      for (size_t i = 0; i < gradient.size(); ++i) {
        Element& element = reference.at(param)[i];
        if (of_param.trained) {
          advance(element, clip * gradient[i], lr * of_param.lr_scale,
                  of_param.decay, t);
        }
        const std::string of = param;
        CAPTURE(of);
        CAPTURE(i);
        CHECK(leaves.at(param)[i] == doctest::Approx(element.w).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("SGD decays matrices only, where a group has vectors without decay") {
  CheckThreeSteps({.optimizer = Sgd{.decay = 0.01},
                   .groups = {{.pattern = "*.bias", .decay = 0}}},
                  AdvanceSgd,
                  {{"wte", {.decay = 0.01}},
                   {"fc.weight", {.decay = 0.01}},
                   {"fc.bias", {}}});
}

TEST_CASE("params without decay keep what else their groups say") {
  const Strings patterns = {"*.bias", "wte"};
  const Result<std::vector<ParamGroup>> groups =
      WithoutDecay(Sums(),
                   {{.pattern = "wte", .decay = 7, .lr_scale = 0.25},
                    {.pattern = "fc.weight", .lr_scale = 3}},
                   patterns);
  REQUIRE_MESSAGE(groups.ok(), groups.error().message);
  CheckThreeSteps({.optimizer = AdamW{.decay = 0.5}, .groups = *groups},
                  AdvanceAdamW,
                  {{"wte", {.lr_scale = 0.25}},
                   {"fc.weight", {.decay = 0.5, .lr_scale = 3}},
                   {"fc.bias", {}}});
}

TEST_CASE("a pattern without decay leaves frozen params frozen") {
  const std::vector<ParamGroup> frozen = {{.pattern = "fc.*", .frozen = true}};
  const Strings all = {"*"};
  const Result<std::vector<ParamGroup>> groups =
      WithoutDecay(Sums(), frozen, all);
  REQUIRE(groups.ok());
  CheckThreeSteps({.optimizer = Sgd{.decay = 0.5}, .groups = *groups},
                  AdvanceSgd,
                  {{"wte", {}},
                   {"fc.weight", {.trained = false}},
                   {"fc.bias", {.trained = false}}});
  const auto message = [&](const Strings& patterns) {
    const auto refused = WithoutDecay(Sums(), frozen, patterns);
    REQUIRE(!refused.ok());
    return refused.error().message;
  };
  CHECK(
      message({"wte", "fc.bias"})
          .find(
              "pattern \"fc.bias\" of params without decay matches only frozen "
              "params of graph \"sums\"") != std::string::npos);
  CHECK(
      message({"ln*"}).find("pattern \"ln*\" of params without decay matches "
                            "no param of graph \"sums\", which has \"wte\"") !=
      std::string::npos);
}

TEST_CASE("a group may decay where the optimizer does not") {
  CheckThreeSteps(
      {.optimizer = Momentum{},
       .groups = {{.pattern = "fc.weigh?", .decay = 0.3}}},
      AdvanceMomentum,
      {{"wte", {}}, {"fc.weight", {.decay = 0.3}}, {"fc.bias", {}}});
}

TEST_CASE("embeddings learn at a tenth of the rate, with every optimizer") {
  const std::vector<ParamGroup> groups = {{.pattern = "wte", .lr_scale = 0.1}};
  const auto settings = [](double decay) {
    return SettingsOf{{"wte", {.decay = decay, .lr_scale = 0.1}},
                      {"fc.weight", {.decay = decay}},
                      {"fc.bias", {.decay = decay}}};
  };
  CheckThreeSteps({.optimizer = AdamW{}, .groups = groups}, AdvanceAdamW,
                  settings(0.01));
  CheckThreeSteps({.optimizer = Sgd{.decay = 0.02}, .groups = groups},
                  AdvanceSgd, settings(0.02));
  CheckThreeSteps({.optimizer = Momentum{.decay = 0.02}, .groups = groups},
                  AdvanceMomentum, settings(0.02));
}

TEST_CASE("groups hold under clipping, whose norm is of what is trained") {
  CheckThreeSteps({.optimizer = AdamW{},
                   .clip_norm = 0.5,
                   .groups = {{.pattern = "wte", .frozen = true},
                              {.pattern = "fc.*", .decay = 0, .lr_scale = 3}}},
                  AdvanceAdamW,
                  {{"wte", {.trained = false}},
                   {"fc.weight", {.lr_scale = 3}},
                   {"fc.bias", {.lr_scale = 3}}});
}

TEST_CASE("of several groups that match a param, the first applies") {
  CheckThreeSteps({.optimizer = Sgd{.decay = 0.5},
                   .groups = {{.pattern = "*.bias", .lr_scale = 2},
                              {.pattern = "fc.*", .decay = 0.25},
                              {.pattern = "*", .decay = 0, .lr_scale = 0}}},
                  AdvanceSgd,
                  {{"fc.bias", {.decay = 0.5, .lr_scale = 2}},
                   {"fc.weight", {.decay = 0.25}},
                   {"wte", {.decay = 0, .lr_scale = 0}}});
}

TEST_CASE("a frozen param has no gradient and no state, and stays as it is") {
  const TrainOptions frozen{
      .optimizer = AdamW{},
      .groups = {{.pattern = "fc.*", .decay = 7, .frozen = true}}};
  const Graph step = Step(frozen);
  Strings states;
  for (const ValueId id : step.Leaves(Role::kState)) {
    states.push_back(step.value(id).name);
  }
  CHECK(states == Strings{"wte.m", "wte.v"});
  for (const char* name : {"grad:fc.weight", "grad:fc.bias", "new:fc.weight",
                           "new:fc.bias", "fc.bias.m"}) {
    CHECK_FALSE_MESSAGE(step.Find(name).has_value(), name);
  }
  CheckThreeSteps(frozen, AdvanceAdamW,
                  {{"wte", {.decay = 0.01}},
                   {"fc.weight", {.trained = false}},
                   {"fc.bias", {.trained = false}}});
  // It is the step of the others alone.
  CHECK(ToText(step) == ToText(Step({.optimizer = AdamW{}, .wrt = {"wte"}})));
  CHECK(ToText(Step({.optimizer = AdamW{},
                     .wrt = {"fc.bias", "wte"},
                     .groups = frozen.groups})) == ToText(step));
}

TEST_CASE("groups that change nothing leave the graph as it is") {
  for (const std::optional<double> clip : {std::optional<double>(), {0.5}}) {
    const Graph plain = Step({.optimizer = AdamW{}, .clip_norm = clip});
    const Graph grouped = Step({.optimizer = AdamW{},
                                .clip_norm = clip,
                                .groups = {{.pattern = "wte", .decay = 0.01},
                                           {.pattern = "*", .lr_scale = 1}}});
    CHECK(ToText(grouped) == ToText(plain));
  }
}

TEST_CASE("params of one scale share one product with the learning rate") {
  const int plain = CountOf(Step({.optimizer = Sgd{}}), OpKind::kMul);
  const Graph step = Step({.optimizer = Sgd{},
                           .groups = {{.pattern = "fc.weight", .lr_scale = 0.1},
                                      {.pattern = "fc.bias", .lr_scale = 0.1},
                                      {.pattern = "wte", .lr_scale = 0.25}}});
  CHECK(CountOf(step, OpKind::kMul) == plain + 2);
  const Tensors leaves = [] {
    Tensors with_rate = Leaves();
    with_rate["lr"] = {0.5};
    with_rate["step"] = {1};
    return with_rate;
  }();
  const Tensors values = Interpret(step, leaves);
  CHECK(values.at("lr*0.1")[0] == doctest::Approx(0.05));
  CHECK(values.at("lr*0.25")[0] == doctest::Approx(0.125));
  const NodeId made = step.value(*step.Find("lr*0.1")).producer;
  CHECK(step.Describe(made) == "update of \"lr\"");
}

TEST_CASE("a forward value of the scaled rate's name keeps it") {
  GraphBuilder g("taken");
  const Value w = g.Param("w", kF32, {2});
  g.Output("loss", ReduceSum(g.Name("lr*0.5", Mul(w, w))));
  const Result<Graph> forward = g.Finish();
  REQUIRE(forward.ok());
  const Result<Graph> step = BuildTrainStep(
      *forward, "loss",
      {.optimizer = Sgd{}, .groups = {{.pattern = "w", .lr_scale = 0.5}}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  const Tensors values =
      Interpret(*step, {{"w", {1, -3}}, {"lr", {0.5}}, {"step", {1}}});
  CHECK(values.at("lr*0.5") == Numbers{1, 9});
  CHECK(values.at("new:w") == Numbers{0.5, -1.5});  // gradients 2 and -6
}

// --- In micro-batches ---

// Mean over the batch of (row of table by token + shift - y)^2.
Graph Regression(int64_t batch) {
  GraphBuilder g("regression");
  const Value tokens = g.Input("tokens", DType::kI32, {batch});
  const Value y = g.Input("y", kF32, {batch, 2});
  const Value table = g.Param("table", kF32, {3, 2});
  const Value shift = g.Param("shift", kF32, {2});
  const Value scale = g.Param("scale", kF32, {2});
  const Value h = Mul(Add(Gather(table, tokens), shift), scale);
  g.Output("loss", g.Name("loss", MeanSquaredError(h, y)));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

TEST_CASE("a batch in micro-batches has the groups of the whole batch") {
  const Graph whole = Regression(4);
  const Graph micro_batch = Regression(2);
  const Graph* const micro_batches[] = {&micro_batch, &micro_batch};
  const std::vector<ParamGroup> groups = {
      {.pattern = "table", .decay = 0, .lr_scale = 0.1},
      {.pattern = "sh*", .frozen = true}};
  for (const std::optional<double> clip : {std::optional<double>(), {0.125}}) {
    for (const Optimizer& optimizer :
         {Optimizer(Sgd{.decay = 0.5}), Optimizer(Momentum{.decay = 0.5}),
          Optimizer(AdamW{.decay = 0.5})}) {
      CAPTURE(OptimizerName(optimizer));
      const Result<MicroBatchedStep> made = BuildMicroBatchedStep(
          whole, micro_batches, "loss",
          {.optimizer = optimizer, .clip_norm = clip, .groups = groups});
      REQUIRE_MESSAGE(made.ok(), made.error().message);
      const Graph& step = made->graph;
      CHECK(Verify(step).ok());
      CHECK(CountOf(step, OpKind::kSgdUpdate) +
                CountOf(step, OpKind::kMomentumUpdate) +
                CountOf(step, OpKind::kAdamWUpdate) ==
            2);
      CHECK_FALSE(step.Find("grad:shift").has_value());
      for (const ValueId id : step.Leaves(Role::kState)) {
        CHECK(step.value(id).name.find("shift") == std::string::npos);
      }

      // Gradients by hand. d = (table[token] + shift) scale - y, and the loss is
      // the mean of d^2 over 8 numbers.
      Tensors leaves = {{"tokens", {2, 0, 2, 1}},
                        {"y", {1, -2, 0.5, 3, -1, 0.25, 2, 2}},
                        {"table", {0.5, -1, 2, 0.25, -0.75, 1.5}},
                        {"shift", {0.125, -0.5}},
                        {"scale", {1.5, -0.5}},
                        {"lr", {0.5}},
                        {"step", {1}}};
      for (const ValueId id : step.Leaves(Role::kState)) {
        const ValueInfo& info = step.value(id);
        leaves[info.name].resize(
            static_cast<size_t>(info.type.shape.num_elements()));
      }
      std::map<std::string, Numbers> gradients = {{"table", Numbers(6)},
                                                  {"scale", Numbers(2)}};
      double loss = 0;
      for (size_t row = 0; row < 4; ++row) {
        for (size_t j = 0; j < 2; ++j) {
          const size_t at = 2 * static_cast<size_t>(leaves["tokens"][row]) + j;
          const double sum = leaves["table"][at] + leaves["shift"][j];
          const double scale = leaves["scale"][j];
          const double d = sum * scale - leaves["y"][2 * row + j];
          loss += d * d / 8;
          gradients["table"][at] += 2 * d * scale / 8;
          gradients["scale"][j] += 2 * d * sum / 8;
        }
      }
      double squares = 0;
      for (const auto& [name, gradient] : gradients) {
        for (const double g : gradient) squares += g * g;
      }
      REQUIRE(std::sqrt(squares) > 0.125);
      const double factor = clip ? *clip / (std::sqrt(squares) + 1e-6) : 1;

      const Tensors values = Interpret(step, leaves);
      CHECK(values.at("loss")[0] == doctest::Approx(loss).epsilon(1e-12));
      const Advance advance =
          std::holds_alternative<Sgd>(optimizer)        ? AdvanceSgd
          : std::holds_alternative<Momentum>(optimizer) ? AdvanceMomentum
                                                        : AdvanceAdamW;
      Tensors after = leaves;
      CarryOver(step, values, &after);
      CHECK(after["shift"] == leaves["shift"]);
      for (const auto& [name, gradient] : gradients) {
        const bool is_table = name == "table";
        for (size_t i = 0; i < gradient.size(); ++i) {
          Element element{.w = leaves[name][i]};
          advance(element, factor * gradient[i], is_table ? 0.05 : 0.5,
                  is_table ? 0 : 0.5, 1);
          const std::string of = name;
          CAPTURE(of);
          CAPTURE(i);
          CHECK(after[name][i] == doctest::Approx(element.w).epsilon(1e-12));
        }
      }
    }
  }
}

// --- Mistakes ---

std::string ErrorOf(const TrainOptions& options) {
  const Result<Graph> step = BuildTrainStep(Sums(), "loss", options);
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().code == ErrorCode::kInvalidArgument);
  return step.error().message;
}

TEST_CASE("a pattern that matches no param is refused, with some there are") {
  CHECK(ErrorOf({.groups = {{.pattern = "*"}, {.pattern = "embed*"}}}) ==
        "[autodiff] pattern \"embed*\" of a param group matches no param of "
        "graph \"sums\", which has \"wte\", \"fc.weight\", \"fc.bias\"; "
        "expected the name of a param, where * is any run of characters and ? "
        "any one");
  // Inputs and other values are no params.
  CHECK(ErrorOf({.groups = {{.pattern = "tokens"}}})
            .find("\"tokens\" of a param group matches no param") !=
        std::string::npos);
  CHECK(ErrorOf({.groups = {{.pattern = ""}}}).find("pattern \"\"") !=
        std::string::npos);

  GraphBuilder g("many");
  Value sum;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) {
    const Value w = g.Param(name, kF32, {});
    sum = sum.ok() ? Add(sum, w) : w;
  }
  g.Output("loss", sum);
  const Status many =
      CheckParamGroups(*g.Finish(), Sgd{}, {{{.pattern = "w"}}});
  REQUIRE_FALSE(many.ok());
  CHECK(many.error().message.find(
            "which has \"a\", \"b\", \"c\", \"d\", \"e\" and 2 more; ") !=
        std::string::npos);
}

TEST_CASE("a decay or a scale out of range is refused with its group") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(ErrorOf({.groups = {{.pattern = "wte", .decay = -0.5}}}) ==
        "[autodiff] decay of param group \"wte\" is -0.5; expected a finite "
        "number of at least 0");
  CHECK(
      ErrorOf({.groups = {{.pattern = "*", .decay = infinity}}}) ==
      "[autodiff] decay of param group \"*\" is inf; expected a finite number "
      "of at least 0");
  CHECK(
      ErrorOf({.groups = {{.pattern = "*", .decay = nan}}}) ==
      "[autodiff] decay of param group \"*\" is nan; expected a finite number "
      "of at least 0");
  CHECK(
      ErrorOf({.groups = {{.pattern = "wte", .lr_scale = -1}}}) ==
      "[autodiff] lr_scale of param group \"wte\" is -1; expected a number of "
      "at least 0 that is finite in f32");
  for (const double scale : {nan, infinity, 1e39}) {
    CHECK(ErrorOf({.groups = {{.pattern = "wte", .lr_scale = scale}}})
              .find("lr_scale of param group \"wte\" is ") !=
          std::string::npos);
  }
}

TEST_CASE("a step in which all is frozen is refused") {
  const char* const message =
      "[autodiff] every param of graph \"sums\" that would be trained is "
      "frozen "
      "by a param group, and it has \"wte\", \"fc.weight\", \"fc.bias\"; leave "
      "at least one to train";
  CHECK(ErrorOf({.groups = {{.pattern = "*", .frozen = true}}}) == message);
  CHECK(ErrorOf({.wrt = {"wte"},
                 .groups = {{.pattern = "wte", .frozen = true}}}) == message);
}

TEST_CASE("a wrong name in wrt is told, whether a group freezes it or not") {
  CHECK(BuildTrainStep(
            Sums(), "loss",
            {.wrt = {"v"}, .groups = {{.pattern = "*", .frozen = true}}})
            .error()
            .message ==
        "[autodiff] graph \"sums\" has no param or input \"v\" to "
        "differentiate by");
}

TEST_CASE("micro-batches refuse what a whole batch refuses") {
  const Graph whole = Regression(4);
  const Graph micro_batch = Regression(2);
  const Graph* const micro_batches[] = {&micro_batch, &micro_batch};
  for (const ParamGroup& group :
       {ParamGroup{.pattern = "wte"}, ParamGroup{.pattern = "*", .decay = -1},
        ParamGroup{.pattern = "*", .lr_scale = -1},
        ParamGroup{.pattern = "*", .frozen = true}}) {
    const TrainOptions options{.groups = {group}};
    const Result<Graph> of_whole = BuildTrainStep(whole, "loss", options);
    const Result<MicroBatchedStep> of_micro_batches =
        BuildMicroBatchedStep(whole, micro_batches, "loss", options);
    REQUIRE_FALSE(of_whole.ok());
    REQUIRE_FALSE(of_micro_batches.ok());
    CHECK(of_micro_batches.error().code == ErrorCode::kInvalidArgument);
    CHECK(of_micro_batches.error().message == of_whole.error().message);
  }
}

}  // namespace
}  // namespace stowage
