// Ranks whose steps run on GPUs give the bits of one GPU that takes as many micro-batches, as the
// CPU's do (tests/laws/ranks_test.cc), whatever streams their exchanges run beside.

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cluster/link.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/cluster/on_ranks.h"
#include "tests/gpu/fake_device.h"
#include "tests/support/rank_runs.h"

namespace stowage::testing {
namespace {

Result<Graph> Mlp(int64_t batch) {
  GraphBuilder g("mlp");
  const Value x = g.Input("x", DType::kF32, {batch, 6});
  const Value labels = g.Input("labels", DType::kI32, {batch});
  const Value h = Relu(Linear(x, "fc1", 33));
  const Value logits = Linear(Tanh(Linear(h, "fc2", 17)), "fc3", 5);
  g.Output("loss", g.Name("loss", CrossEntropy(logits, labels)));
  return g.Finish();
}

const RankNet kMlp = {"mlp", Mlp, 5, {.optimizer = AdamW{}}};
const RankNet kClipped = {
    "clipped mlp", Mlp, 6, {.optimizer = Momentum{}, .clip_norm = 0.5}};

// What differs between ranks and one device that takes as many micro-batches; "": nothing.
std::string Compare(const RankNet& net, const RankHow& how,
                    const FakeOptions& options) {
  const Content one = RunRank(net, {.poison = how.poison}, how.ranks, 0,
                              *MakeFakeBackend({}, nullptr));
  std::vector<std::string> wrong(static_cast<size_t>(how.ranks));
  cluster::OnRanks(static_cast<int>(how.ranks), [&](cluster::Link& link) {
    FakeOptions own = options;
    own.link = &link;
    FakeDevice* device = nullptr;
    const auto backend = MakeFakeBackend(own, &device);
    const Content content = RunRank(net, how, 1, link.rank(), *backend);
    std::string& differs = wrong[static_cast<size_t>(link.rank())];
    differs = Differences(one, content, link.rank());
    CHECK(content.size() == one.size());
    CHECK(device->calls("Exchange") > 0);
  });
  std::string all;
  for (const std::string& each : wrong) all += each;
  return all;
}

TEST_CASE(
    "GPUs of several ranks give the bits of one that takes micro-batches") {
  for (const RankNet& net : {kMlp, kClipped}) {
    for (const int64_t ranks : {2, 3}) {
      for (const Sharding shard : kShardings) {
        CAPTURE(net.name);
        CAPTURE(ranks);
        CAPTURE(ShardingName(shard));
        const RankHow how = {.ranks = ranks, .shard = shard, .poison = false};
        CHECK(Compare(net, how, {}) == "");
        // Op by op, and all that is dead is overwritten.
        if (ranks == 2) {
          CHECK(Compare(net, {.ranks = ranks, .shard = shard}, {}) == "");
        }
      }
    }
  }
}

// What comes too late, or too early, gives other bits.
TEST_CASE("exchanges beside the kernels change no bit, however late they run") {
  for (const Sharding shard : kShardings) {
    for (const bool lazy_compute : {false, true}) {
      CAPTURE(ShardingName(shard));
      CAPTURE(lazy_compute);
      const RankHow how = {.ranks = 2, .shard = shard, .poison = false};
      CHECK(Compare(kMlp, how,
                    {.lazy_compute = lazy_compute, .lazy_exchange = true}) ==
            "");
    }
  }
}

TEST_CASE("a step for more ranks than there are is refused in words") {
  GraphBuilder g("sum");
  const Value x = g.Input("x", DType::kF32, {4});
  g.Output("y", AllReduce(x, 2));
  Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  const auto gpu = MakeFakeBackend({}, nullptr);
  Result<Plan> plan = PlanMemory(*graph, {.device = gpu->Needs()});
  REQUIRE(plan.ok());
  const Result<Session> session =
      Session::Create({{"sum", *std::move(graph), *std::move(plan)}}, *gpu, {});
  REQUIRE_FALSE(session.ok());
  CHECK(
      session.error().message ==
      "[gpu] all_reduce of \"y\" is among 2 ranks; the backend joins 1; build "
      "the step for as many ranks as there are, and give the backend what "
      "joins them (GpuOptions::collectives)");
}

}  // namespace
}  // namespace stowage::testing
