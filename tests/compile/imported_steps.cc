#include "tests/compile/imported_steps.h"

#include <cstddef>
#include <set>
#include <vector>

#include "autodiff/optimizer.h"
#include "compile/compile.h"
#include "cpu/cpu_backend.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "train/fine_tuning.h"

namespace stowage::testing {
namespace {

// The weights of the base, as the library has them after LoadBase.
Result<std::map<std::string, std::string>> WeightsOf(const FineTuning& tuning,
                                                     int64_t seq) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph,
                           tuning.ModelOf(ModelPurpose::kTrain, seq)(1));
  const auto cpu = MakeCpuBackend({.threads = 1});
  STOWAGE_ASSIGN_OR_RETURN(const Plan plan,
                           PlanMemory(graph, {.device = cpu->Needs()}));
  STOWAGE_ASSIGN_OR_RETURN(auto session,
                           Session::Create({{"base", graph, plan}}, *cpu));
  STOWAGE_RETURN_IF_ERROR(tuning.LoadBase(session.front()));
  std::map<std::string, std::string> weights;
  for (const PretrainedParam& param : tuning.base().params()) {
    const TensorType& type = graph.value(*graph.Find(param.name)).type;
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    STOWAGE_RETURN_IF_ERROR(
        session.front().ReadBytes(param.name, type.dtype, bytes));
    weights[param.name].assign(reinterpret_cast<const char*>(bytes.data()),
                               bytes.size());
  }
  return weights;
}

}  // namespace

Result<FittedStep> PlanBesideConstants(
    const ModelFn& model, int64_t batch, const TrainOptions& training,
    const std::map<std::string, std::string>& contents) {
  const StepBuilder build = BuildSteps(model, batch, "loss", training);
  STOWAGE_ASSIGN_OR_RETURN(const SampledStep whole, build(1, Sampling::kAll));
  std::set<std::string> names;
  for (const auto& [name, bytes] : contents) names.insert(name);
  StepFitter fitter(build,
                    {.plan = {.alignment = kCAlignment,
                              .device = NeedsOfC(),
                              .outside = FrozenParams(whole.graph, names)}});
  return fitter.AsGiven();
}

Result<AdaptersStep> PlanAdapters(const std::string& gguf, int64_t seq) {
  STOWAGE_ASSIGN_OR_RETURN(const FineTuning tuning, FineTuning::Open(gguf));
  AdaptersStep adapters;
  STOWAGE_ASSIGN_OR_RETURN(adapters.contents, WeightsOf(tuning, seq));
  STOWAGE_ASSIGN_OR_RETURN(
      adapters.step,
      PlanBesideConstants(tuning.ModelOf(ModelPurpose::kTrain, seq), 1,
                          {.optimizer = AdamW{}, .groups = tuning.groups()},
                          adapters.contents));
  return adapters;
}

}  // namespace stowage::testing
