// Trainings of several ranks: what each keeps and sends, and what it starts from.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/uses.h"
#include "nn/models.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/support/thread_ranks.h"
#include "train/step_builder.h"
#include "train/training.h"

namespace stowage {
namespace {

ModelFn ModelOf(std::string_view name, ModelPurpose purpose) {
  return [=](int64_t batch) {
    return BuildModel(name, purpose, {.batch = batch});
  };
}

TrainingSpec Mlp(const Ranks& ranks) {
  return {.model = ModelOf("mlp", ModelPurpose::kTrain),
          .batch = 8,
          .ranks = ranks,
          .programs = {{.name = "evaluate",
                        .model = ModelOf("mlp", ModelPurpose::kEvaluate),
                        .batch = 4}},
          .optimizations = NoOptimizations()};
}

std::string ErrorOf(TrainingSpec spec) {
  const auto planner = TrainingPlanner::Make(std::move(spec), {});
  if (!planner.ok()) return planner.error().message;
  const auto plan = TrainingPlanner::Make(planner->spec(), {})->Plan();
  return plan.ok() ? "" : plan.error().message;
}

// Of 64 -> 128 -> 128 -> 10 with biases: elements, and those of a block of four, in
// whole fours.
constexpr int64_t kElements = 8192 + 128 + 16384 + 128 + 1280 + 10;
constexpr int64_t kBlocks = 2048 + 32 + 4096 + 32 + 320 + 4;

TEST_CASE("each of four ranks keeps a quarter of what is split, and sends it") {
  struct Kept {
    int64_t weights, states, wire;
  };
  const int64_t loss =
      3 * 4;  // of one element, which rank 0 has, to the others
  const int64_t gathered = 3 * 4 * kBlocks;
  // Joined in one bucket, whole, or in rows of blocks; backward reads two weights again.
  const std::map<Sharding, Kept> expected = {
      {Sharding::kNone,
       {kElements, 2 * kElements,
        4 * (kElements - 6531) + 3 * 4 * 6531 + loss}},
      {Sharding::kStates, {kElements, 2 * kBlocks, 2 * gathered + loss}},
      {Sharding::kGradients, {kElements, 2 * kBlocks, 2 * gathered + loss}},
      {Sharding::kWeights,
       {kBlocks, 2 * kBlocks, 2 * gathered + 3 * 4 * (4096 + 320) + loss}}};
  for (const Sharding shard : kShardings) {
    const Kept& kept = expected.at(shard);
    CAPTURE(ShardingName(shard));
    auto planner = TrainingPlanner::Make(Mlp({.ranks = 4, .shard = shard}), {});
    REQUIRE_MESSAGE(planner.ok(), planner.error().message);
    const auto plan = planner->Plan();
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    const Graph& graph = plan->step.graph;
    const auto elements = [&](Role role) {
      int64_t sum = 0;
      for (const ValueId id : graph.Leaves(role)) {
        sum += graph.value(id).type.shape.num_elements();
      }
      return sum;
    };
    CHECK(elements(Role::kParam) == kept.weights);
    CHECK(elements(Role::kState) == kept.states);
    CHECK(WireBytes(graph) == kept.wire);
    // Up to the padding of slots.
    const RegionBytes& regions = plan->step.plan.regions;
    CHECK(regions.state >= 4 * kept.states);
    CHECK(regions.state <= 4 * kept.states + 12 * kDefaultAlignment);
    CHECK(regions.weights <= 4 * kept.weights + 6 * kDefaultAlignment);
  }
}

// Of each exchange of `graph` how many products run while it is under way, by phase.
using Counts = std::vector<int64_t>;
std::map<Phase, Counts> ProductsBeside(const Graph& graph) {
  const Layouts layouts = ComputeLayouts(graph);
  std::map<Phase, Counts> products;
  for (const Exchange& each :
       ExchangesOf(graph, Uses(graph, layouts), layouts)) {
    int64_t count = 0;
    for (NodeId n = each.node; n < each.lands; ++n) {
      count += graph.node(n).op == OpKind::kMatMul;
    }
    products[graph.node(each.node).phase].push_back(count);
  }
  return products;
}

TEST_CASE("products run while gradients leave and weights come") {
  // fc3, fc2 and fc1 leave alone, each behind the product of the next gradient; behind
  // them the biases together, and the loss. That of fc3 has the two products of fc2
  // beside it, that of fc2 the one of fc1.
  const Counts sums = {2, 1, 0, 0, 0};
  // Of what has new blocks fc3 alone has a product behind it.
  const Counts updates = {1, 0, 0, 0, 0, 0};
  // fc1 is waited for; its bias and all else comes during the product before. Backward
  // reads fc3 and fc2 again, fc2 behind the products of fc3 and of its own gradient.
  const Counts forward = {0, 1, 1, 1, 1, 1};
  const Counts backward = {0, 2, 2, 1, 0, 0, 0};
  const std::map<Sharding, std::map<Phase, Counts>> expected = {
      {Sharding::kNone, {{Phase::kBackward, sums}}},
      {Sharding::kStates,
       {{Phase::kBackward, sums}, {Phase::kUpdate, updates}}},
      {Sharding::kGradients,
       {{Phase::kBackward, sums}, {Phase::kUpdate, updates}}},
      {Sharding::kWeights,
       {{Phase::kForward, forward}, {Phase::kBackward, backward}}}};
  for (const Sharding shard : kShardings) {
    CAPTURE(ShardingName(shard));
    auto planner = TrainingPlanner::Make(
        Mlp({.ranks = 2, .shard = shard, .bucket_bytes = 5120}), {});
    REQUIRE_MESSAGE(planner.ok(), planner.error().message);
    const auto plan = planner->Plan();
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    CHECK(ProductsBeside(plan->step.graph) == expected.at(shard));
  }
}

// What evaluation says before and after some steps of one rank.
std::vector<float> Evaluations(TrainingSpec spec, Collectives* rank) {
  const auto cpu = MakeCpuBackend({.threads = 1, .collectives = rank});
  const BatchPart part =
      PartOfRank(spec.batch, spec.ranks.ranks, spec.ranks.rank);
  auto training = Train(std::move(spec), *cpu);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  training->Initialize(/*seed=*/5);
  std::vector<float> x(8 * 64);
  std::vector<int32_t> labels(8);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * i % 17) / 16;
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<int32_t>(i % 10);
  }
  const auto write = [&](Runner& runner, int64_t first, int64_t count) {
    const auto rows = [&](const auto& all, int64_t width) {
      return std::span(all).subspan(static_cast<size_t>(first * width),
                                    static_cast<size_t>(count * width));
    };
    REQUIRE(runner.Write("x", rows(std::as_const(x), 64)).ok());
    REQUIRE(runner.Write("y", rows(std::as_const(labels), 1)).ok());
  };
  std::vector<float> losses;
  for (int64_t step = 0; step <= 3; ++step) {
    Runner& evaluate = *training->Find("evaluate");
    write(evaluate, 0, 4);
    REQUIRE(evaluate.Step() == StepCode::kOk);
    losses.push_back(*evaluate.ReadScalar("loss"));
    Runner& train = training->step();
    write(train, part.first, part.count);
    REQUIRE(train.Write("lr", 0.01f).ok());
    REQUIRE(train.Write("step", step + 1).ok());
    REQUIRE(train.Step() == StepCode::kOk);
    losses.push_back(*train.ReadScalar("loss"));
  }
  return losses;
}

TEST_CASE("programs beside the step read what ranks have split") {
  TrainingSpec micro_batches = Mlp({});
  micro_batches.optimizations->micro_batches = {2};
  const std::vector<float> expected = Evaluations(micro_batches, nullptr);
  for (const Sharding shard : kShardings) {
    CAPTURE(ShardingName(shard));
    testing::ThreadRanks ranks(2);
    std::vector<std::vector<float>> losses(2);
    ranks.Run([&](Collectives& rank) {
      losses[static_cast<size_t>(rank.rank())] = Evaluations(
          Mlp({.ranks = 2, .rank = rank.rank(), .shard = shard}), &rank);
    });
    CHECK(losses[0] == expected);
    CHECK(losses[1] == expected);
  }
}

TEST_CASE("what ranks cannot do together is said") {
  CHECK(ErrorOf(Mlp({.ranks = 9})) ==
        "[ranks] 9 ranks take a batch of 8; expected at least one example for "
        "each");
  CHECK(ErrorOf(Mlp({.ranks = 2, .rank = 2})) ==
        "[ranks] rank 2 is none of 2; expected 0 to 1");
  TrainingSpec muon = Mlp({.ranks = 2, .shard = Sharding::kStates});
  muon.training.optimizer = Muon{};
  CHECK(ErrorOf(muon) ==
        "[ranks] optimizer muon cannot update a block of a param by itself, as "
        "sharding states wants; expected any optimizer but adafactor, asgd, "
        "muon, nadam and "
        "rules of a program's own, or sharding none");
  TrainingSpec gradients = Mlp({.ranks = 2, .shard = Sharding::kGradients});
  gradients.training.gradients = {"*"};
  CHECK(ErrorOf(gradients) ==
        "[autodiff] sharding gradients leaves no rank with a whole gradient to "
        "give out; expected sharding none");
  TrainingSpec keeping = Mlp({.ranks = 2});
  keeping.programs.clear();
  keeping.model = [](int64_t batch) {
    GraphBuilder g("keeping");
    const Value x = g.Input("x", DType::kF32, {batch, 4});
    const Value w = g.Param("w", DType::kF32, {4, 1}, Init::Ones());
    // Of the inputs alone the mean would be that of all ranks.
    Assign(g.State("seen", DType::kF32, {4}),
           ReduceMean(Mul(x, Reshape(w, {4})), {0}));
    g.Output("loss", g.Name("loss", ReduceMean(MatMul(x, w), {0, 1})));
    return g.Finish();
  };
  CHECK(ErrorOf(keeping).find("\"seen\" (the model writes it") !=
        std::string::npos);
  keeping.training.allow_batch_change = true;
  CHECK(ErrorOf(keeping) ==
        "[ranks] the model writes its state \"seen\" by assign, which 2 ranks "
        "cannot do together; expected lerp_update, or one rank");
  TrainingSpec images = Mlp({.ranks = 2});
  images.model = ModelOf("cnn-small", ModelPurpose::kTrain);
  CHECK(ErrorOf(images).find("batch_norm normalizes by all examples of the "
                             "batch") != std::string::npos);
  CHECK(ParseSharding("half").error().message ==
        "[ranks] there is no sharding \"half\"; expected none, states, "
        "gradients or weights");
}

}  // namespace
}  // namespace stowage
