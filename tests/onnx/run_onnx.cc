#include "tests/onnx/run_onnx.h"

#include <memory>
#include <utility>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "runtime/session.h"

namespace stowage {
namespace {

Status Write(Runner& runner, const NamedArray& array) {
  return runner.WriteBytes(array.name, array.array.type.dtype,
                           array.array.data());
}

}  // namespace

Result<std::vector<Array>> RunOnnx(const OnnxModel& model, const Graph& graph,
                                   const std::vector<NamedArray>& inputs) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
  STOWAGE_ASSIGN_OR_RETURN(const PlannedGraph program,
                           PlanProgram(graph, {.device = cpu->Needs()}));
  return RunOnnx(model, program, *cpu, inputs);
}

Result<std::vector<Array>> RunOnnx(const OnnxModel& model,
                                   const PlannedGraph& program,
                                   Backend& backend,
                                   const std::vector<NamedArray>& inputs) {
  const Graph& graph = program.graph;
  STOWAGE_ASSIGN_OR_RETURN(
      Session session,
      Session::Create({{"run", graph, program.plan}}, backend));
  session.Initialize(/*seed=*/1);
  Runner& runner = session.front();
  STOWAGE_RETURN_IF_ERROR(model.ForEachWeight(
      graph, [&](const NamedArray& weight) { return Write(runner, weight); }));
  for (const NamedArray& input : inputs) {
    STOWAGE_RETURN_IF_ERROR(Write(runner, input));
  }
  const StepCode code = runner.Step();
  if (code != StepCode::kOk) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[onnx] the step fails with code ", static_cast<int>(code))};
  }
  std::vector<Array> outputs;
  for (const GraphOutput& output : graph.outputs()) {
    Array array{graph.value(output.value).type, {}};
    array.bytes.resize(static_cast<size_t>(array.type.bytes()));
    STOWAGE_RETURN_IF_ERROR(
        runner.ReadBytes(output.name, array.type.dtype, array.data()));
    outputs.push_back(std::move(array));
  }
  return outputs;
}

}  // namespace stowage
