// The norms of nn/layers.h, the gated feed-forward part and the adapters, by numbers
// that PyTorch gave (group_norm, instance_norm, silu) or that are worked out by hand.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/layers.h"
#include "nn/lora.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using Numbers = std::vector<double>;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Graph Finished(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

std::string ErrorOf(GraphBuilder& g) {
  const Result<Graph> graph = g.Finish();
  REQUIRE_FALSE(graph.ok());
  return graph.error().message;
}

void CheckNear(const Numbers& actual, const Numbers& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  }
}

// (2, 4, 3)
const Numbers kX = {1,  2, 0, 0, 5, 7, 3, 6, 2, 2,  5, 7,
                    -1, 4, 4, 8, 0, 1, 2, 2, 9, -3, 5, 6};
const Numbers kWeight = {1, 2, 0.5, 1};
const Numbers kBias = {0, 0.5, -1, 0};

TEST_CASE("a row is divided by the root of its mean square") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF64, {2, 2});
  g.Output("y", RmsNorm(x, "norm", 1));
  const Graph graph = Finished(g);
  CHECK(graph.value(*graph.Find("norm.weight")).init == Init::Ones());
  // Mean squares 24 and 3, and 1 more.
  const Tensors values =
      Interpret(graph, {{"x", {-4, std::sqrt(32.0), 0, std::sqrt(6.0)}},
                        {"norm.weight", {2, 10}}});
  CheckNear(values.at("y"), {-1.6, 2 * std::sqrt(32.0), 0, 5 * std::sqrt(6.0)});
}

TEST_CASE("groups of channels are normalized in each example, as PyTorch's") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF64, {2, 4, 3});
  g.Output("y", GroupNorm(x, "gn", 2, 1e-3));
  const Graph graph = Finished(g);
  const Tensors values =
      Interpret(graph, {{"x", kX}, {"gn.weight", kWeight}, {"gn.bias", kBias}});
  CheckNear(values.at("y"),
            {-0.5703105996897979, -0.19010353322993268, -0.9505176661496633,
             -1.4010353322993265, 2.4010353322993265,   3.9218635981387875,
             -1.2989858999621773, -0.53016501434515,    -1.5552595285011865,
             -1.1105190570023726, 0.42712271423168224,  1.4522172283877188,
             -1.2073414033921102, 0.43903323759713087,  0.43903323759713087,
             4.012265900777047,   -1.256132950388524,   -0.5975830939928275,
             -1.1986728827037096, -1.1986728827037096,  -0.2715327634197313,
             -1.721831650098817,  0.3973457654074193,   0.6622429423456988});
}

TEST_CASE("each channel of each example is normalized, as PyTorch's") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF64, {2, 4, 3});
  g.Output("plain", InstanceNorm(x, "plain_norm", {.eps = 1e-3}));
  g.Output("affine", InstanceNorm(x, "in", {.affine = true, .eps = 1e-3}));
  const Graph graph = Finished(g);
  CHECK(graph.Leaves(Role::kParam).size() == 2);
  const Tensors values =
      Interpret(graph, {{"x", kX}, {"in.weight", kWeight}, {"in.bias", kBias}});
  CheckNear(values.at("plain"), {0.0,
                                 1.2238273448265007,
                                 -1.2238273448265007,
                                 -1.3586540593464191,
                                 0.3396635148366048,
                                 1.0189905445098144,
                                 -0.3921644015411567,
                                 1.3725754053940489,
                                 -0.9804110038528919,
                                 -1.29761771288815,
                                 0.1622022141110187,
                                 1.1354154987771312,
                                 -1.4140863003325992,
                                 0.7070431501662995,
                                 0.7070431501662995,
                                 1.4048232649170447,
                                 -0.8428939589502269,
                                 -0.561929305966818,
                                 -0.7070743142338425,
                                 -0.7070743142338425,
                                 1.4141486284676854,
                                 -1.4068866483476286,
                                 0.5793062669666705,
                                 0.8275803813809579});
  CheckNear(values.at("affine"), {0.0,
                                  1.2238273448265007,
                                  -1.2238273448265007,
                                  -2.2173081186928383,
                                  1.1793270296732095,
                                  2.537981089019629,
                                  -1.1960822007705785,
                                  -0.31371229730297556,
                                  -1.490205501926446,
                                  -1.29761771288815,
                                  0.1622022141110187,
                                  1.1354154987771312,
                                  -1.4140863003325992,
                                  0.7070431501662995,
                                  0.7070431501662995,
                                  3.3096465298340894,
                                  -1.1857879179004538,
                                  -0.6238586119336359,
                                  -1.3535371571169212,
                                  -1.3535371571169212,
                                  -0.2929256857661573,
                                  -1.4068866483476286,
                                  0.5793062669666705,
                                  0.8275803813809579});
}

TEST_CASE("a gated feed-forward part is PyTorch's") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF64, {2, 2});
  g.Output("y", GatedMlp(x, "mlp", 3));
  const Graph graph = Finished(g);
  CHECK(graph.value(*graph.Find("mlp.down_proj.weight")).type.shape ==
        Shape{3, 2});
  const Tensors values =
      Interpret(graph, {{"x", {1, -2, 0.5, 3}},
                        {"mlp.gate_proj.weight", {1, 0, -1, 0.5, 2, 1}},
                        {"mlp.up_proj.weight", {2, 1, 0, -1, 0.25, 3}},
                        {"mlp.down_proj.weight", {1, 2, -1, 0, 0.5, 0.5}}});
  CheckNear(values.at("y"), {0.46280527852228415, 0.42683285859810105,
                             -0.6080481634757593, 3.350218850937952});
}

TEST_CASE("an adapter begins as its linear layer, and alone is trained") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF64, {1, 2});
  const Value y = Lora(x, "fc", 3, {.rank = 2, .alpha = 6});
  g.Output("y", y);
  g.Output("loss", ReduceSum(y));
  const Graph graph = Finished(g);
  CHECK(graph.value(*graph.Find("fc.lora_A.weight")).init ==
        Init::Uniform(1 / std::sqrt(2.0)));
  CHECK(graph.value(*graph.Find("fc.lora_B.weight")).init == Init::Zeros());
  Tensors leaves = {{"x", {1, 2}},
                    {"fc.weight", {1, 0, 2, 0, 1, 1}},
                    {"fc.bias", {0.5, 0, 0}},
                    {"fc.lora_A.weight", {1, 0, 0, 0.5}},
                    {"fc.lora_B.weight", {0, 0, 0, 0, 0, 0}}};
  CheckNear(Interpret(graph, leaves).at("y"), {1.5, 2, 4});
  leaves["fc.lora_B.weight"] = {1, 0, 0, 1, 2, 0};
  // x A^T is (1, 1), times 6 / 2, and times B^T (3, 3, 6).
  CheckNear(Interpret(graph, leaves).at("y"), {4.5, 5, 10});

  const auto step =
      BuildTrainStep(graph, "loss",
                     {.optimizer = Momentum{},
                      .groups = {{.pattern = "*.lora_?.weight"},
                                 {.pattern = "*", .frozen = true}}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  std::vector<std::string> states;
  for (const ValueId id : step->Leaves(Role::kState)) {
    states.push_back(step->value(id).name);
    leaves[states.back()] = Numbers(
        static_cast<size_t>(step->value(id).type.shape.num_elements()), 0);
  }
  CHECK(states.size() == 2);
  for (const std::string& state : states) CHECK(Contains(state, "lora_"));
  leaves["lr"] = {0.25};
  leaves["step"] = {1};
  CarryOver(*step, Interpret(*step, leaves), &leaves);
  CHECK(leaves["fc.weight"] == Numbers{1, 0, 2, 0, 1, 1});
  CHECK(leaves["fc.bias"] == Numbers{0.5, 0, 0});
  // The gradient of B is (1, 1, 1)^T 3 (x A^T); that of A is 3 (B's column sums)^T x.
  CheckNear(leaves["fc.lora_B.weight"],
            {0.25, -0.75, -0.75, 0.25, 1.25, -0.75});
  CheckNear(leaves["fc.lora_A.weight"], {-1.25, -4.5, -0.75, -1});
}

TEST_CASE("a layer of the wrong input says which") {
  const auto error = [](auto build) {
    GraphBuilder g("test");
    const Value x = g.Input("x", DType::kF32, {2, 6, 4});
    build(x);
    return ErrorOf(g);
  };
  CHECK(Contains(error([](Value x) { GroupNorm(x, "gn", 4); }),
                 "[group_norm] \"gn\" has 4 groups over 6 channels of \"x\"; "
                 "the channels must be a positive multiple of the groups"));
  CHECK(Contains(error([](Value x) {
                   InstanceNorm(Reshape(x, {12, 4}), "in");
                 }),
                 "is f32(12, 4); expected a float tensor of rank 3 or more"));
  CHECK(Contains(error([](Value x) { RmsNorm(Less(x, x), "norm"); }),
                 "[rms_norm] the input of \"norm\""));
  CHECK(Contains(error([](Value x) { Lora(x, "q", 3, {.rank = 4}); }),
                 "[lora] \"q\" has rank 4 beside a weight (4, 3); expected 1 "
                 "to 3"));
  CHECK(Contains(error([](Value x) { Lora(x, "q", 3, {.rank = 0}); }),
                 "[lora] \"q\" has rank 0"));
  CHECK(Contains(
      error([](Value x) { Lora(x, "q", 3, {.rank = 1, .alpha = INFINITY}); }),
      "[lora] \"q\" has alpha inf; expected a finite number"));
}

}  // namespace
}  // namespace stowage
