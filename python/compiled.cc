#include "python/compiled.h"

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "compile/compile.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "python/arrays.h"
#include "python/errors.h"

namespace stowage::python {
namespace {

namespace py = pybind11;

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Adds the weights of the model's ONNX file to `contents`, and replaces them by `weights`.
void ReadContents(const PlannedTraining& plan,
                  const std::map<std::string, py::object>& weights,
                  std::map<std::string, std::string>* contents) {
  const Graph& graph = plan.plan().step.graph;
  if (plan.model().weights) {
    ValueOf(plan.model().weights->ForEachWeight(
        graph, [&](const NamedArray& weight) -> Status {
          contents->emplace(weight.name, TextOf(weight.array.data()));
          return {};
        }));
  }
  for (const auto& [name, array] : weights) {
    const std::optional<ValueId> id = graph.Find(name);
    const Role role = id ? graph.value(*id).role : Role::kInput;
    if (role != Role::kParam && role != Role::kState) {
      Raise("InvalidArgument",
            StrCat("[to_c] weights are given for ", Quoted(name),
                   ", which is no param and ", "no state of the step"));
    }
    const TensorType& type = graph.value(*id).type;
    const ArrayView view(array, name);
    contents->insert_or_assign(name, view.CheckIsWeight(type)
                                         ? TextOf(RoundToBF16(view.data()))
                                         : TextOf(view.data()));
  }
}

}  // namespace

DeviceNeeds NeedsOfDeviceC(int threads, const std::string& cpu_target) {
  if (threads != 0 || !cpu_target.empty()) {
    Raise(
        "InvalidArgument",
        StrCat("[plan] ",
               threads != 0 ? StrCat("threads are ", threads)
                            : StrCat("the CPU target is ", Quoted(cpu_target)),
               " and the device is \"c\": a step in C computes in the thread "
               "that calls it, on any processor; leave it away"));
  }
  return NeedsOfC();
}

bool IsC(const DeviceNeeds& needs) { return needs.device == NeedsOfC().device; }

Result<TrainingSpec> SpecOfC(TrainingSpec spec) {
  spec.planning.alignment = kCAlignment;
  std::erase_if(spec.programs, [](const ProgramSpec& program) {
    return program.name != "evaluate";
  });
  STOWAGE_ASSIGN_OR_RETURN(TrainingPlanner planner,
                           TrainingPlanner::Make(spec, NeedsOfC()));
  STOWAGE_ASSIGN_OR_RETURN(
      const SampledStep whole,
      planner.step().question().build(/*micro_batches=*/1, Sampling::kAll));
  std::set<std::string> params;
  for (const ValueId id : whole.graph.Leaves(Role::kParam)) {
    params.insert(whole.graph.value(id).name);
  }
  spec.planning.outside = FrozenParams(whole.graph, params);
  return spec;
}

py::dict Compile(const PlannedTraining& plan, const std::string& prefix,
                 const std::string& header, bool caller_arena,
                 const std::map<std::string, py::object>& weights) {
  const DeviceNeeds& device = plan.spec().planning.device;
  if (!IsC(device)) {
    Raise("InvalidArgument",
          StrCat("[to_c] the plan is for ", device.device,
                 "; plan with device=\"c\", for the kernels in C"));
  }
  CompileOptions options{
      .prefix = prefix, .header = header, .caller_arena = caller_arena};
  ReadContents(plan, weights, &options.contents);
  const FittedStep& step = plan.plan().step;
  std::vector<CProgram> programs = {{"step", step.graph, step.plan}};
  for (const PlannedProgram& program : plan.plan().programs) {
    programs.push_back({program.name, program.graph, program.plan});
  }
  const CompiledStep compiled =
      WithoutGil([&] { return CompileToC(programs, options); });
  py::dict files;
  files["source"] = compiled.source;
  files["header"] = compiled.header;
  files["arena_bytes"] = compiled.arena;
  files["flash_bytes"] = compiled.flash;
  files["slow_bytes"] = compiled.slow;
  files["stack_bytes"] = compiled.stack;
  files["kernels"] = compiled.kernels;
  files["launches"] = compiled.launches;
  return files;
}

}  // namespace stowage::python
