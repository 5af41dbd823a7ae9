// One rank of several that mpirun has started, or one alone that takes as many micro-batches:
// trains a model for some steps, and prints its losses, and a digest of its params and
// states whole, bit for bit. Ends badly where the arena or what is sent is not as planned.
//
//   mpirun -n 2 rank_training MODEL BATCH STEPS SHARDING [TIGHT]
//   rank_training MODEL BATCH STEPS 2      # micro-batches
//
// With TIGHT, each rank has so many times the least budget that recomputation and
// offloading can train in.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "cluster/launch.h"
#include "cluster/lifeline.h"
#include "cluster/team.h"
#include "cpu/cpu_backend.h"
#include "ir/graph.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/plan.h"
#include "runtime/session.h"
#include "train/rank_checkpoints.h"
#include "train/step_builder.h"

namespace stowage {
namespace {

constexpr uint64_t kSeed = 7;

struct Asked {
  std::string model;
  int64_t batch = 1;
  int64_t steps = 1;
  std::string how;  // a sharding, or alone a number of micro-batches
  std::optional<double> tight;
};

// Numbers of an input of the whole batch, by the step and its name.
std::vector<std::byte> InputBytes(const ValueInfo& info, int64_t step) {
  std::mt19937 random(
      static_cast<uint32_t>(Xxh64(StrCat(info.name, " ", step))));
  std::vector<std::byte> bytes(static_cast<size_t>(info.type.bytes()));
  for (size_t i = 0; i < bytes.size(); i += 4) {
    const float real = static_cast<float>(random() >> 8) * 0x1p-24f;
    const auto whole = static_cast<int32_t>(random() % 10);
    std::memcpy(&bytes[i],
                info.type.dtype == DType::kF32
                    ? static_cast<const void*>(&real)
                    : static_cast<const void*>(&whole),
                4);
  }
  return bytes;
}

Status WriteInputs(const Graph& whole, const BatchPart& part, int64_t step,
                   Runner& runner) {
  for (const ValueId id : whole.Leaves(Role::kInput)) {
    const ValueInfo& info = whole.value(id);
    if (info.name == "seed" || info.name == "step") continue;
    const std::vector<std::byte> all = InputBytes(info, step);
    const size_t row = all.size() / static_cast<size_t>(info.type.shape[0]);
    STOWAGE_RETURN_IF_ERROR(runner.WriteBytes(
        info.name, info.type.dtype,
        std::span(all).subspan(row * static_cast<size_t>(part.first),
                               row * static_cast<size_t>(part.count))));
  }
  if (runner.graph().Find("seed")) {
    STOWAGE_RETURN_IF_ERROR(runner.Write("seed", int64_t{3}));
  }
  if (runner.graph().Find("step")) {
    STOWAGE_RETURN_IF_ERROR(runner.Write("step", step));
  }
  return runner.Write("lr", 0.01f);
}

Result<std::string> DigestOf(const Runner& runner) {
  std::string all;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : runner.graph().Leaves(role)) {
      const ValueInfo& leaf = runner.graph().value(id);
      std::string bytes(static_cast<size_t>(leaf.type.bytes()), '\0');
      STOWAGE_RETURN_IF_ERROR(
          runner.ReadBytes(leaf.name, leaf.type.dtype,
                           std::as_writable_bytes(std::span(bytes))));
      all += bytes;
    }
  }
  return StrCat(Xxh64(all));
}

// What TIGHT stands for.
Result<std::optional<Bytes>> BudgetOf(const Asked& asked, StepFitter& fitter) {
  if (!asked.tight) return std::optional<Bytes>();
  STOWAGE_ASSIGN_OR_RETURN(const Bytes smallest, fitter.SmallestBudget());
  return std::optional(
      static_cast<Bytes>(*asked.tight * static_cast<double>(smallest)));
}

Error Unplanned(std::string_view what, int64_t is, int64_t planned) {
  return {ErrorCode::kDevice,
          StrCat(what, " is ", is, " bytes, not ", planned, " as planned")};
}

Status Train(const Asked& asked, cluster::Team* team) {
  Collectives* const joined = team == nullptr ? nullptr : &team->collectives();
  const ModelFn model = [&](int64_t batch) {
    ModelOptions options;
    options.batch = batch;
    return BuildModel(asked.model, ModelPurpose::kTrain, options);
  };
  Ranks ranks;
  FitOptions fit;
  fit.optimizations = asked.tight ? MemoryOptimizations{} : NoOptimizations();
  fit.optimizations.micro_batches = {1};
  if (joined != nullptr) {
    ranks.ranks = joined->ranks();
    ranks.rank = joined->rank();
    STOWAGE_ASSIGN_OR_RETURN(ranks.shard, ParseSharding(asked.how));
  } else {
    fit.optimizations.micro_batches = {std::atoll(asked.how.c_str())};
  }
  const std::unique_ptr<Backend> cpu =
      MakeCpuBackend({.threads = 1, .collectives = joined});
  fit.plan.device = cpu->Needs();
  const TrainOptions options{.optimizer = AdamW{}, .allow_batch_change = true};
  StepFitter fitter(BuildRankSteps(model, asked.batch, ranks, "loss", options),
                    fit);
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Bytes> budget,
                           BudgetOf(asked, fitter));
  STOWAGE_ASSIGN_OR_RETURN(FittedStep step, fitter.Fit(budget));
  const bool uses_optimizations =
      step.price.recomputed_nodes + step.price.host.values > 0;
  if (asked.tight && !uses_optimizations) {
    return Error{ErrorCode::kInvalidArgument,
                 "nothing runs again and nothing is offloaded; be tighter"};
  }
  const Bytes planned = step.plan.arena_bytes();
  const Bytes wire = WireBytes(step.graph);
  STOWAGE_ASSIGN_OR_RETURN(
      Session session,
      Session::Create({{"train", std::move(step.graph), std::move(step.plan)}},
                      *cpu));
  if (session.arena_bytes() != planned) {
    return Unplanned("the arena", session.arena_bytes(), planned);
  }
  // Whole values come from rank 0, and go back to it.
  std::optional<WholeValues> whole_values;
  if (joined != nullptr) {
    STOWAGE_ASSIGN_OR_RETURN(
        const SampledStep one,
        BuildSteps(model, asked.batch, "loss", options)(1, Sampling::kAll));
    STOWAGE_ASSIGN_OR_RETURN(whole_values,
                             WholeValues::Make(one.graph, *cpu, *joined));
    if (Session* const first = whole_values->session()) {
      first->Initialize(kSeed);
    }
    STOWAGE_RETURN_IF_ERROR(whole_values->Scatter(session.front()));
  } else {
    session.Initialize(kSeed);
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, model(asked.batch));
  const BatchPart part = PartOfRank(asked.batch, ranks.ranks, ranks.rank);
  Runner& runner = session.front();
  const int64_t sent = team == nullptr ? 0 : team->bytes_sent();
  for (int64_t s = 1; s <= asked.steps; ++s) {
    STOWAGE_RETURN_IF_ERROR(WriteInputs(whole, part, s, runner));
    const StepCode code = runner.Step();
    if (code != StepCode::kOk) return runner.Explain(code);
    STOWAGE_ASSIGN_OR_RETURN(const float loss, runner.ReadScalar("loss"));
    if (ranks.rank == 0)
      std::printf("%lld %a\n", static_cast<long long>(s), loss);
  }
  // The plan tells of rank 0, whose blocks are none of the short ones.
  if (team != nullptr && ranks.rank == 0 &&
      team->bytes_sent() - sent != asked.steps * wire) {
    return Unplanned("what is sent", team->bytes_sent() - sent,
                     asked.steps * wire);
  }
  const Runner* all = &runner;
  if (whole_values) {
    STOWAGE_RETURN_IF_ERROR(whole_values->Gather(runner));
    if (whole_values->session() == nullptr) return {};
    all = &whole_values->session()->front();
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string digest, DigestOf(*all));
  std::printf("values %s\n", digest.c_str());
  return {};
}

Status Run(const Asked& asked) {
  STOWAGE_ASSIGN_OR_RETURN(const cluster::Launch launch, cluster::ReadLaunch());
  if (launch.ranks == 1) return Train(asked, nullptr);
  STOWAGE_ASSIGN_OR_RETURN(const std::unique_ptr<cluster::Team> team,
                           cluster::Team::Join(launch, {}));
  STOWAGE_RETURN_IF_ERROR(Train(asked, team.get()));
  team->Part([] {});
  return {};
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  stowage::Asked asked = {.model = argv[1],
                          .batch = std::atoll(argv[2]),
                          .steps = std::atoll(argv[3]),
                          .how = argv[4],
                          .tight = {}};
  if (argc == 6) asked.tight = std::atof(argv[5]);
  const stowage::Status status = stowage::Run(asked);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rank_training: %s\n", status.error().message.c_str());
  return 1;
}
