// One rank of several that mpirun has started, or one alone that takes as many pieces:
// trains a model for some steps, and prints its losses, and a digest of its params and
// states whole, bit for bit.
//
//   mpirun -n 2 rank_training MODEL BATCH STEPS SHARDING
//   rank_training MODEL BATCH STEPS 2      # pieces

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/ranks.h"
#include "autodiff/train_options.h"
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
#include "planner/fit/levers.h"
#include "runtime/session.h"
#include "train/step_builder.h"
#include "train/whole_values.h"

namespace stowage {
namespace {

constexpr uint64_t kSeed = 7;

struct Asked {
  std::string model;
  int64_t batch = 1;
  int64_t steps = 1;
  std::string how;  // a sharding, or alone a number of pieces
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

Status Train(const Asked& asked, Collectives* joined) {
  const ModelFn model = [&](int64_t batch) {
    ModelOptions options;
    options.batch = batch;
    return BuildModel(asked.model, ModelPurpose::kTrain, options);
  };
  Ranks ranks;
  FitOptions fit;
  fit.levers = NoLevers();
  if (joined != nullptr) {
    ranks.ranks = joined->ranks();
    ranks.rank = joined->rank();
    STOWAGE_ASSIGN_OR_RETURN(ranks.shard, ParseSharding(asked.how));
  } else {
    fit.levers.pieces = {std::atoll(asked.how.c_str())};
  }
  const std::unique_ptr<Backend> cpu =
      MakeCpuBackend({.threads = 1, .collectives = joined});
  fit.plan.device = cpu->Needs();
  const TrainOptions options{.optimizer = AdamW{}};
  StepFitter fitter(BuildRankSteps(model, asked.batch, ranks, "loss", options),
                    fit);
  STOWAGE_ASSIGN_OR_RETURN(FittedStep step, fitter.Fit({}));
  const Bytes planned = step.plan.arena_bytes();
  STOWAGE_ASSIGN_OR_RETURN(
      Session session,
      Session::Create({{"train", std::move(step.graph), std::move(step.plan)}},
                      *cpu));
  if (session.arena_bytes() != planned) {
    return Error{ErrorCode::kDevice, "the arena is not as planned"};
  }
  // Whole values come from rank 0, and go back to it.
  std::optional<WholeValues> whole_values;
  if (joined != nullptr) {
    STOWAGE_ASSIGN_OR_RETURN(
        const PiecedStep one,
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
  for (int64_t s = 1; s <= asked.steps; ++s) {
    STOWAGE_RETURN_IF_ERROR(WriteInputs(whole, part, s, runner));
    const StepCode code = runner.Step();
    if (code != StepCode::kOk) return runner.Explain(code);
    STOWAGE_ASSIGN_OR_RETURN(const float loss, runner.ReadScalar("loss"));
    if (ranks.rank == 0)
      std::printf("%lld %a\n", static_cast<long long>(s), loss);
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
  STOWAGE_RETURN_IF_ERROR(Train(asked, &team->collectives()));
  team->Part([] {});
  return {};
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const stowage::Status status = stowage::Run({.model = argv[1],
                                               .batch = std::atoll(argv[2]),
                                               .steps = std::atoll(argv[3]),
                                               .how = argv[4]});
  if (status.ok()) return 0;
  std::fprintf(stderr, "rank_training: %s\n", status.error().message.c_str());
  return 1;
}
