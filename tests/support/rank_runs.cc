#include "tests/support/rank_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "runtime/values.h"

namespace stowage::testing {
namespace {

constexpr uint64_t kSeed = 7;

template <typename T>
T Must(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.error().message);
  return *std::move(result);
}
void Must(const Status& status) {
  REQUIRE_MESSAGE(status.ok(), status.error().message);
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

int64_t NumCollectives(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(), [](const Node& node) {
    return GetOpDef(node.op).collective;
  });
}

}  // namespace

Content RunRank(const RankNet& net, const RankHow& how, int64_t micro_batches,
                int rank, Backend& backend) {
  const Ranks ranks = {.ranks = how.ranks,
                       .rank = rank,
                       .shard = how.shard,
                       .bucket_bytes = 512};
  FitOptions fit = {
      .plan = {.device = backend.Needs()},
      .optimizations = how.tight ? MemoryOptimizations{} : NoOptimizations()};
  fit.optimizations.micro_batches = {micro_batches};
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
                      backend, {.arena = {}, .poison = how.poison}));
  const Graph whole = Must(net.model(net.batch));
  Initialize(whole, rank, &session);
  Runner& runner = session.front();
  Content content;
  for (int64_t s = 1; s <= kRankSteps; ++s) {
    WriteInputs(whole, PartOfRank(net.batch, how.ranks, rank), s, runner);
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

}  // namespace stowage::testing
