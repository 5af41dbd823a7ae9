// N ranks give, bit for bit, the losses and weights of one rank that takes N micro-batches, in
// every sharding, whatever the optimizations.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/gpt.h"
#include "nn/image_nets.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "tests/support/random_batch_model.h"
#include "tests/support/rank_runs.h"
#include "tests/support/thread_ranks.h"

namespace stowage {
namespace {

using testing::Content;
using testing::Differences;
using Net = testing::RankNet;
using How = testing::RankHow;

Result<Graph> GptOf(int64_t layers, int64_t width,
                    const ModelOptions& options) {
  return BuildGpt({.name = "tiny",
                   .layers = layers,
                   .heads = 2,
                   .width = width,
                   .vocabulary = 11,
                   .max_seq = 6},
                  ModelPurpose::kTrain, options);
}

Result<Graph> Gpt(int64_t batch) {
  return GptOf(2, 16, {.batch = batch, .seq = 6, .dropout = 0.1});
}

// With batch norms, whose averages are states of the model, and a count that is a sum.
Result<Graph> Images(int64_t batch) {
  GraphBuilder g("images");
  const Value x = g.Input("x", DType::kF32, {batch, 1, 8, 8});
  const Value labels = g.Input("labels", DType::kI32, {batch});
  Value h = Conv(x, "conv1", 5, {.padding = 1});
  h = MaxPool(Relu(BatchNorm(h, "bn1")), {.kernel = 2});
  h = Relu(BatchNorm(Conv(h, "conv2", 7, {.padding = 1}), "bn2"));
  const Value logits = Linear(Reshape(h, {batch, 7 * 16}), "fc", 5);
  g.Output("loss", g.Name("loss", CrossEntropy(logits, labels)));
  const Value right = Equal(ArgMax(logits), labels);
  g.Output("right", g.Name("right", ReduceSum(Cast(right, DType::kI32), {0})));
  return g.Finish();
}

// With params of 5,184 elements, which may have moments in eight bits: for four ranks,
// blocks of 1,536, and the last scale is that of 64 elements.
ModelFn WideGpt(DType dtype) {
  return [=](int64_t batch) {
    return GptOf(1, 36, {.batch = batch, .seq = 6, .dtype = dtype});
  };
}

// Of `rank`, or of one alone.
Content RunRank(const Net& net, const How& how, int64_t micro_batches,
                Collectives* rank) {
  const auto backend = MakeCpuBackend({.threads = 1, .collectives = rank});
  return testing::RunRank(net, how, micro_batches,
                          rank == nullptr ? 0 : rank->rank(), *backend);
}

// Of each rank, which takes its part in `micro_batches`.
std::vector<Content> RunRanks(const Net& net, const How& how,
                              int64_t micro_batches) {
  std::vector<Content> all(static_cast<size_t>(how.ranks));
  testing::ThreadRanks ranks(static_cast<int>(how.ranks));
  ranks.Run([&](Collectives& rank) {
    all[static_cast<size_t>(rank.rank())] =
        RunRank(net, how, micro_batches, &rank);
  });
  return all;
}

// Takes the outputs that have a part for each example from all, and gives the names of
// those of which the ranks' parts, one behind the other, are not the whole.
std::string TakeExamples(Content* one, std::vector<Content>* all) {
  std::string wrong;
  for (int64_t step = 1; step <= testing::kRankSteps; ++step) {
    const std::string name = StrCat("examples@", step);
    const auto whole = one->extract(name);
    if (whole.empty()) continue;
    std::vector<std::byte> joined;
    for (Content& rank : *all) {
      const auto part = rank.extract(name);
      if (part.empty()) continue;
      joined.insert(joined.end(), part.mapped().begin(), part.mapped().end());
    }
    if (joined != whole.mapped()) wrong += StrCat(" ", name);
  }
  return wrong;
}

std::string Compare(const Net& net, const How& how) {
  Content one = RunRank(net, {}, how.ranks, nullptr);
  std::vector<Content> all = RunRanks(net, how, 1);
  std::string wrong = TakeExamples(&one, &all);
  for (int r = 0; r < static_cast<int>(how.ranks); ++r) {
    const std::string names = Differences(one, all[static_cast<size_t>(r)], r);
    if (!names.empty()) wrong += StrCat("rank ", r, ": ", names);
    CHECK(all[static_cast<size_t>(r)].size() == one.size());
  }
  return wrong;
}

// A batch of 6 is 2, 2, 1 and 1 for four ranks.
const Net kGpt = {"gpt", Gpt, 6, {.optimizer = AdamW{}}};
const Net kClippedGpt = {
    "clipped gpt", Gpt, 6, {.optimizer = Lion{}, .clip_norm = 0.5}};
// Of examples with the label 4 the gradient is not a number, so that some ranks have what
// others lack; a scale that is too large at first is so for all.
Result<Graph> Picky(int64_t batch) {
  GraphBuilder g("picky");
  const Value x = g.Input("x", DType::kF32, {batch, 6});
  const Value labels = g.Input("labels", DType::kI32, {batch});
  const Value never =
      Fill(g, std::numeric_limits<double>::infinity(), DType::kF32, {batch, 1});
  const Value four = Fill(g, 4, DType::kI32, {batch});
  const Value is_four = Reshape(Equal(labels, four), {batch, 1});
  const Value factor =
      Where(is_four, never, Fill(g, 1, DType::kF32, {batch, 1}));
  const Value hidden =
      Linear(Mul(x, BroadcastTo(factor, {batch, 6})), "fc1", 9);
  const Value logits = Linear(Tanh(hidden), "fc2", 5);
  g.Output("loss", g.Name("loss", CrossEntropy(logits, labels)));
  return g.Finish();
}

const Net kPicky = {
    "picky",
    Picky,
    4,
    {.optimizer = AdamW{},
     .loss_scaling = LossScaling{.init_scale = 256, .growth_interval = 1}}};
const Net kScaledGpt = {"scaled gpt",
                        Gpt,
                        6,
                        {.optimizer = Lion{},
                         .clip_norm = 0.5,
                         .loss_scaling = LossScaling{.growth_interval = 2}}};
const Net kImages = {"images",
                     Images,
                     11,
                     {.optimizer = Momentum{.decay = 0.01},
                      .groups = {{.pattern = "*.bias", .lr_scale = 0.5},
                                 {.pattern = "conv1.weight", .frozen = true}},
                      .allow_batch_change = true}};

// A masked mean and a sum, over weights that sums round.
Result<Graph> Masked(int64_t batch) {
  GraphBuilder g("masked");
  const Value x = g.Input("x", DType::kF32, {batch, 6});
  const Value weights = Square(g.Input("weights", DType::kF32, {batch}));
  const Value y = Tanh(Linear(Tanh(Linear(x, "fc1", 9)), "fc2", 5));
  const Value errors = ReduceSum(Square(y), {1});
  const Value mean = Div(ReduceSum(Mul(errors, weights)), ReduceSum(weights));
  g.Output("loss", g.Name("loss", Add(mean, ReduceSum(errors))));
  g.Output("weights in all", ReduceSum(weights));
  return g.Finish();
}
const Net kMasked = {"masked", Masked, 6, {.optimizer = AdamW{}}};

TEST_CASE("ranks give the bits of one rank that takes as many micro-batches") {
  for (const Net& net :
       {kGpt, kClippedGpt, kImages, kPicky, kScaledGpt, kMasked}) {
    for (const int64_t ranks : {2, 4}) {
      for (const Sharding shard : kShardings) {
        CAPTURE(net.name);
        CAPTURE(ranks);
        CAPTURE(ShardingName(shard));
        CHECK(Compare(net, {.ranks = ranks, .shard = shard}) == "");
      }
    }
  }
}

TEST_CASE("200 random models: ranks are the batch, or are refused") {
  int compared = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const testing::RandomBatchModel model = {
        .seed = seed, .is_split = seed % 4 != 3, .dtype = DType::kF32};
    const int64_t ranks = seed % 2 == 0 ? 2 : 4;
    const Net net = {"random",
                     [&](int64_t batch) { return model.Build(batch); },
                     ranks + static_cast<int64_t>(seed / 2 % 3),
                     {.optimizer = Sgd{}}};
    const Result<SampledStep> step =
        BuildRankSteps(net.model, net.batch, {.ranks = ranks}, "loss",
                       net.options)(1, Sampling::kAll);
    if (!step.ok()) {
      CHECK_MESSAGE(step.error().code == ErrorCode::kUnsupported,
                    step.error().message);
      continue;
    }
    CHECK(model.is_split);
    ++compared;
    CHECK(Compare(net, {.ranks = ranks, .shard = kShardings[seed / 8 % 4]}) ==
          "");
  }
  // The others have a maximum over the examples among their outputs or in their loss.
  CHECK(compared > 50);
}

// Parts of other sizes than the micro-batches of one rank may be fused otherwise.
TEST_CASE(
    "ranks give the same bits in bf16, whatever is fused in their steps") {
  const ModelFn gpt = [](int64_t batch) {
    return BuildModel("gpt-nano", ModelPurpose::kTrain,
                      {.batch = batch, .seq = 32, .dtype = DType::kBF16});
  };
  const Net net = {"gpt-nano", gpt, 6, {.optimizer = AdamW{}}};
  CHECK(Compare(net, {.ranks = 2, .shard = Sharding::kStates}) == "");
  CHECK(Compare(net, {.ranks = 3}) == "");
}

TEST_CASE(
    "all ranks skip a step in which the gradients of some are no numbers") {
  std::vector<float> skipped;
  for (const Content& rank : RunRanks(kPicky, {.ranks = 4}, 1)) {
    for (int64_t step = 1; step <= testing::kRankSteps; ++step) {
      float each = -1;
      std::memcpy(&each, rank.at(StrCat("update_skipped@", step)).data(), 4);
      skipped.push_back(each);
    }
  }
  const std::vector<float> first(skipped.begin(),
                                 skipped.begin() + testing::kRankSteps);
  CHECK(std::ranges::count(first, 1) > 0);
  CHECK(std::ranges::count(first, 0) > 0);
  for (size_t i = 0; i < skipped.size(); ++i) {
    CHECK(skipped[i] == first[i % first.size()]);
  }
}

TEST_CASE("what an f16 param lacks of an f32 is split like other states") {
  const Net net = {"wide gpt",
                   WideGpt(DType::kF16),
                   4,
                   {.optimizer = AdamW{}, .loss_scaling = LossScaling{}}};
  for (const Sharding shard : kShardings) {
    CAPTURE(ShardingName(shard));
    CHECK(Compare(net, {.ranks = 2, .shard = shard}) == "");
  }
}

TEST_CASE("states of few bits are split where their scales and numbers are") {
  const Optimizer kCompact[] = {
      AdamW{.moments = Moments::kBf16}, Momentum{.bf16_velocity = true},
      AdamW{.moments = Moments::kDynamic8, .rest_bits = 8},
      AdamW{.moments = Moments::kCompanded8, .rest_bits = 8}};
  for (const Optimizer& optimizer : kCompact) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Net net = {"wide gpt", WideGpt(dtype), 6, {.optimizer = optimizer}};
      for (const auto& each : {std::pair{2, Sharding::kStates},
                               {4, Sharding::kStates},
                               {4, Sharding::kGradients},
                               {4, Sharding::kWeights}}) {
        const int ranks = each.first;
        const Sharding shard = each.second;
        CAPTURE(OptimizerName(optimizer));
        CAPTURE(ranks);
        CAPTURE(ShardingName(shard));
        CAPTURE(DTypeName(dtype));
        CHECK(Compare(net, {.ranks = ranks, .shard = shard}) == "");
      }
    }
  }
}

TEST_CASE("rules that update elements by themselves do so by blocks") {
  const Optimizer kByElements[] = {RAdam{},
                                   Adamax{},
                                   Adadelta{},
                                   Rprop{},
                                   AdamW{.amsgrad = true},
                                   RmsProp{.momentum = 0.5, .centered = true},
                                   Momentum{.dampening = 0.5},
                                   Adagrad{.initial = 0.5}};
  for (const Optimizer& optimizer : kByElements) {
    const Net net = {"gpt", Gpt, 6, {.optimizer = optimizer}};
    for (const Sharding shard : {Sharding::kStates, Sharding::kWeights}) {
      CAPTURE(OptimizerName(optimizer));
      CAPTURE(ShardingName(shard));
      CHECK(Compare(net, {.ranks = 4, .shard = shard}) == "");
    }
  }
}

TEST_CASE("ranks give the same bits where the budget of each is tight") {
  for (const Sharding shard : kShardings) {
    CAPTURE(ShardingName(shard));
    CHECK(Compare(kGpt, {.ranks = 2, .shard = shard, .tight = 1.05}) == "");
  }
}

// The order of sums is that of micro-batches, then ranks; or where sums are split with every
// micro-batch, of ranks, then micro-batches.
TEST_CASE(
    "what ranks split changes nothing where they take micro-batches, too") {
  const Net net = {"gpt", Gpt, 8, {.optimizer = Sgd{}}};
  const auto run = [&](Sharding shard) {
    return RunRanks(net, {.ranks = 2, .shard = shard}, 2);
  };
  const auto none = run(Sharding::kNone);
  const auto gradients = run(Sharding::kGradients);
  CHECK(none[0] == none[1]);
  CHECK(gradients[0] == gradients[1]);
  CHECK(none[0] == run(Sharding::kStates)[1]);
  const auto weights = run(Sharding::kWeights);
  CHECK(Differences(gradients[0], weights[0], 0) == "");
  CHECK(Differences(gradients[0], weights[1], 1) == "");
  // Both are sums of the same four gradients.
  for (int64_t step = 1; step <= testing::kRankSteps; ++step) {
    float losses[2];
    const std::string loss = StrCat("loss@", step);
    std::memcpy(&losses[0], none[0].at(loss).data(), 4);
    std::memcpy(&losses[1], gradients[0].at(loss).data(), 4);
    CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(1e-5));
  }
}

}  // namespace
}  // namespace stowage
