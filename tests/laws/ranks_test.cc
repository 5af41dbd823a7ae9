// N ranks give, bit for bit, the losses and weights of one rank that takes N pieces, in
// every sharding, whatever the levers.

#include "autodiff/ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_options.h"
#include "base/result.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "nn/conv.h"
#include "nn/gpt.h"
#include "nn/layers.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "runtime/initial_values.h"
#include "runtime/session.h"
#include "tests/support/thread_ranks.h"
#include "train/step_builder.h"

namespace stowage {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int64_t kSteps = 3;

using Content = std::map<std::string, std::vector<std::byte>>;

template <typename T>
T Must(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.error().message);
  return *std::move(result);
}
void Must(const Status& status) {
  REQUIRE_MESSAGE(status.ok(), status.error().message);
}

Result<Graph> Gpt(int64_t batch) {
  const GptConfig config{.name = "tiny",
                         .layers = 2,
                         .heads = 2,
                         .width = 16,
                         .vocabulary = 11,
                         .max_seq = 6};
  return BuildGpt(config, ModelPurpose::kTrain,
                  {.batch = batch, .seq = 6, .dropout = 0.1});
}

// With batch norms, whose averages are states of the model, and a count that is a sum.
Result<Graph> Pictures(int64_t batch) {
  GraphBuilder g("pictures");
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

// Numbers of an input of the whole batch, by its name, the step and their place.
std::vector<std::byte> InputBytes(const ValueInfo& info, int64_t step) {
  std::mt19937 random(
      static_cast<uint32_t>(std::hash<std::string>()(StrCat(info.name, step))));
  std::vector<std::byte> bytes(static_cast<size_t>(info.type.bytes()));
  for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
    if (info.type.dtype == DType::kF32) {
      const float x = static_cast<float>(random() >> 8) * 0x1p-24f - 0.5f;
      std::memcpy(&bytes[static_cast<size_t>(i) * 4], &x, 4);
    } else {
      const auto x = static_cast<int32_t>(random() % 5);
      std::memcpy(&bytes[static_cast<size_t>(i) * 4], &x, 4);
    }
  }
  return bytes;
}

// The inputs of `part` of the batch that `whole` is for.
void WriteInputs(const Graph& whole, const BatchPart& part, int64_t step,
                 Runner& runner) {
  for (const ValueId id : whole.Leaves(Role::kInput)) {
    const ValueInfo& info = whole.value(id);
    if (info.name == "seed" || info.name == "step") continue;
    const std::vector<std::byte> all = InputBytes(info, step);
    const auto row = static_cast<int64_t>(all.size()) / info.type.shape[0];
    Must(runner.WriteBytes(
        info.name, info.type.dtype,
        std::span(all).subspan(static_cast<size_t>(row * part.first),
                               static_cast<size_t>(row * part.count))));
  }
  if (runner.graph().Find("seed")) Must(runner.Write("seed", int64_t{3}));
  if (runner.graph().Find("step")) Must(runner.Write("step", step));
  Must(runner.Write("lr", 0.01f));
}

std::vector<std::byte> BytesOf(const Runner& runner, const std::string& name) {
  const TensorType& type =
      runner.graph().value(*runner.graph().Find(name)).type;
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  Must(runner.ReadBytes(name, type.dtype, bytes));
  return bytes;
}

// This rank's block of what is whole, zeros behind.
std::vector<std::byte> OwnOf(const std::vector<std::byte>& whole, size_t block,
                             int rank) {
  std::vector<std::byte> own(block);
  const size_t begin =
      std::min(whole.size(), block * static_cast<size_t>(rank));
  const size_t count = std::min(block, whole.size() - begin);
  std::copy_n(whole.begin() + static_cast<ptrdiff_t>(begin), count,
              own.begin());
  return own;
}

// Gives blocks of params their parts of what the params start from.
void Initialize(const Graph& whole, int rank, Session* session) {
  session->Initialize(kSeed);
  Runner& runner = session->front();
  for (const ValueId id : runner.graph().Leaves(Role::kParam)) {
    const ValueInfo& own = runner.graph().value(id);
    if (own.name.rfind("own:", 0) != 0) continue;
    const ValueInfo& info = whole.value(*whole.Find(own.name.substr(4)));
    Must(runner.WriteBytes(own.name, own.type.dtype,
                           OwnOf(InitialValues(info, kSeed),
                                 static_cast<size_t>(own.type.bytes()), rank)));
  }
}

struct Net {
  std::string name;
  ModelFn model;
  int64_t batch;
  TrainOptions options;
};

struct How {
  int64_t ranks = 1;
  Sharding shard = Sharding::kNone;
  /// Of the least budget of all levers, so many times; absent: no lever.
  std::optional<double> tight = {};
};

int64_t NumCollectives(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(), [](const Node& node) {
    return GetOpDef(node.op).collective;
  });
}

// What is left of a run: of each step the scalar outputs, at the end params and states.
// A step of one rank takes its batch in `pieces`.
Content RunRank(const Net& net, const How& how, int64_t pieces,
                Collectives* rank) {
  const int of = rank == nullptr ? 0 : rank->rank();
  const auto backend = MakeCpuBackend({.threads = 1, .collectives = rank});
  const Ranks ranks = {
      .ranks = how.ranks, .rank = of, .shard = how.shard, .bucket_bytes = 512};
  FitOptions fit = {.plan = {.device = backend->Needs()},
                    .levers = how.tight ? Levers{} : NoLevers()};
  fit.levers.pieces = {pieces};
  StepFitter fitter(
      BuildRankSteps(net.model, net.batch, ranks, "loss", net.options), fit);
  std::optional<Bytes> budget;
  if (how.tight) {
    budget = static_cast<Bytes>(
        *how.tight * static_cast<double>(Must(fitter.SmallestBudget())));
  }
  FittedStep step = Must(fitter.Fit(budget));
  if (how.tight) {
    CHECK(step.price.recomputed_nodes + step.price.host.values > 0);
    // None runs again: every rank would have to.
    const FittedStep given = Must(fitter.AsGiven());
    CHECK(NumCollectives(step.graph) == NumCollectives(given.graph));
  }
  Session session = Must(
      Session::Create({{"train", std::move(step.graph), std::move(step.plan)}},
                      *backend, {.arena = {}, .poison = true}));
  const Graph whole = Must(net.model(net.batch));
  Initialize(whole, of, &session);
  Runner& runner = session.front();
  Content content;
  for (int64_t s = 1; s <= kSteps; ++s) {
    WriteInputs(whole, PartOfRank(net.batch, how.ranks, of), s, runner);
    const StepCode code = runner.Step();
    REQUIRE_MESSAGE(code == StepCode::kOk, runner.Explain(code).message);
    for (const GraphOutput& output : runner.graph().outputs()) {
      content[StrCat(output.name, "@", s)] = BytesOf(runner, output.name);
    }
  }
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : runner.graph().Leaves(role)) {
      const std::string& name = runner.graph().value(id).name;
      content[name] = BytesOf(runner, name);
    }
  }
  return content;
}

// Names under which rank `rank` has something else than one rank has.
std::string Differences(const Content& one, const Content& own, int rank) {
  std::string names;
  for (const auto& [name, bytes] : own) {
    const bool is_block = name.rfind("own:", 0) == 0;
    const auto whole = one.find(is_block ? name.substr(4) : name);
    if (whole == one.end() ||
        (is_block ? OwnOf(whole->second, bytes.size(), rank) : whole->second) !=
            bytes) {
      names += name + " ";
    }
  }
  return names;
}

// Of each rank, which takes its part in `pieces`.
std::vector<Content> RunRanks(const Net& net, const How& how, int64_t pieces) {
  std::vector<Content> all(static_cast<size_t>(how.ranks));
  testing::ThreadRanks ranks(static_cast<int>(how.ranks));
  ranks.Run([&](Collectives& rank) {
    all[static_cast<size_t>(rank.rank())] = RunRank(net, how, pieces, &rank);
  });
  return all;
}

std::string Compare(const Net& net, const How& how) {
  const Content one = RunRank(net, {}, how.ranks, nullptr);
  const std::vector<Content> all = RunRanks(net, how, 1);
  std::string wrong;
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
const Net kPictures = {"pictures",
                       Pictures,
                       11,
                       {.optimizer = Momentum{.decay = 0.01},
                        .groups = {{.pattern = "*.bias", .lr_scale = 0.5},
                                   {.pattern = "conv1.weight", .frozen = true}},
                        .sums = {"right"}}};

TEST_CASE("ranks give the bits of one rank that takes as many pieces") {
  for (const Net& net : {kGpt, kClippedGpt, kPictures}) {
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

TEST_CASE("ranks give the same bits where the budget of each is tight") {
  for (const Sharding shard : kShardings) {
    CAPTURE(ShardingName(shard));
    CHECK(Compare(kGpt, {.ranks = 2, .shard = shard, .tight = 1.05}) == "");
  }
}

// The order of sums is that of pieces, then ranks; or where sums are split with every
// piece, of ranks, then pieces.
TEST_CASE("what ranks split changes nothing where they take pieces, too") {
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
  for (int64_t step = 1; step <= kSteps; ++step) {
    float losses[2];
    const std::string loss = StrCat("loss@", step);
    std::memcpy(&losses[0], none[0].at(loss).data(), 4);
    std::memcpy(&losses[1], gradients[0].at(loss).data(), 4);
    CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(1e-5));
  }
}

}  // namespace
}  // namespace stowage
