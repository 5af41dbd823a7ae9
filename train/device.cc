#include "train/device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "cpu/targets.h"
#include "gpu/gpu.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/host_file.h"
#include "runtime/session.h"

namespace stowage {

namespace {

Error NoSuchDevice(const std::string& name, std::string_view expected) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[device] there is no device ", Quoted(name), "; expected ",
                 expected)};
}

bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

// The same for all devices: f64 is for checks.
Status CheckTrainsIn(DType dtype) {
  if (dtype == DType::kF32 || IsHalf(dtype)) return {};
  return Error{ErrorCode::kUnsupported,
               StrCat("[train] dtype ", DTypeName(dtype),
                      " cannot be trained with; available: f32, bf16 and f16 "
                      "(`stowage plan` plans any)")};
}

Status CheckCpuTarget(const std::string& name) {
  const Result<const cpu::CpuTarget*> target = cpu::FindCpuTarget(name);
  if (!target.ok()) return target.error();
  return {};
}

}  // namespace

Result<std::string> OffloadFolder(OffloadChoice choice,
                                  const std::string& given) {
  if (choice != OffloadChoice::kDisk) {
    if (given.empty()) return std::string();
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[offload] the offload folder ", Quoted(given),
                        " is given, and nothing is offloaded to disk; give "
                        "offload disk with it, not ",
                        OffloadName(choice))};
  }
  std::string folder = given;
  if (folder.empty()) {
    std::error_code error;
    const auto temporary = std::filesystem::temp_directory_path(error);
    folder = error ? "." : temporary.string();
  }
  // Planning may take minutes: fail before it if the folder cannot be used.
  constexpr Bytes kSome = 4096;
  const auto file = HostFile::Create(folder, kSome, kSome);
  if (!file.ok()) return file.error();
  return folder;
}

Result<ChosenDevice> ChooseDevice(const DeviceFlags& flags) {
  const bool automatic = flags.name == "auto";
  if (!automatic && flags.name != "cpu" && flags.name != "cuda") {
    return NoSuchDevice(flags.name, "auto, cpu or cuda");
  }
  STOWAGE_RETURN_IF_ERROR(CheckTrainsIn(flags.dtype));
  ChosenDevice chosen;
  // Ranks do not autotune: on GPUs the last to write the cache would determine the next run's
  // bits, and on CPUs of one host their measurements would disturb each other.
  const std::string folder =
      flags.collectives == nullptr ? flags.choice_folder : "";
  std::string reason;
  const bool on_disk = !flags.offload_folder.empty();
  if (on_disk && flags.name == "cuda") {
    return OffloadsToHostOnly(flags.offload_folder);
  }
  if (automatic && on_disk) {
    reason = "values may be offloaded to disk";
  } else if (automatic && flags.collectives != nullptr) {
    reason = "there are several ranks; --device cuda takes a GPU for each";
  } else if (flags.name != "cpu") {
    Result<std::unique_ptr<Backend>> gpu =
        MakeGpuBackend({.device = flags.local_rank,
                        .matmul_library = "",
                        .algorithm_folder = folder,
                        .check = flags.check,
                        .collectives = flags.collectives});
    if (gpu.ok()) {
      chosen.backend = *std::move(gpu);
      chosen.why = StrCat("device: ", chosen.backend->description());
      return chosen;
    }
    // An invalid autotune cache is no reason to compute on another device.
    if (!automatic || gpu.error().code != ErrorCode::kDevice) {
      return gpu.error();
    }
    reason = gpu.error().message;
  }
  STOWAGE_RETURN_IF_ERROR(CheckCpuTarget(""));
  chosen.backend = MakeCpuBackend({.threads = flags.threads,
                                   .check = flags.check,
                                   .collectives = flags.collectives,
                                   .blocking_folder = folder,
                                   .offload_folder = flags.offload_folder,
                                   .note = flags.note});
  if (automatic) chosen.why = StrCat("device: cpu, since ", reason);
  return chosen;
}

bool IsForGpu(const std::string& name, DType dtype) {
  return name == "cuda" || (name.empty() && IsHalf(dtype));
}

Error OffloadsToHostOnly(const std::string& folder) {
  return {ErrorCode::kUnsupported,
          StrCat("[offload] values of a GPU are offloaded to host memory, not "
                 "to a file",
                 folder.empty() ? "" : StrCat(" in ", Quoted(folder)),
                 "; give --offload auto, or --device cpu")};
}

Result<DeviceNeeds> NeedsOfDevice(const std::string& name, DType dtype,
                                  int threads, const std::string& cpu_target) {
  if (!name.empty() && name != "cpu" && name != "cuda") {
    return NoSuchDevice(name, "cpu or cuda");
  }
  if (IsForGpu(name, dtype)) {
    if (cpu_target.empty()) return GpuNeeds();
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[cpu-target] ", Quoted(cpu_target),
                        " is given for a plan for cuda; leave it out, or plan "
                        "for device cpu")};
  }
  STOWAGE_RETURN_IF_ERROR(CheckCpuTarget(cpu_target));
  const std::shared_ptr<Backend> cpu =
      MakeCpuBackend({.threads = threads, .target = cpu_target});
  return DeviceNeeds{.workspace =
                         [cpu](const Graph& graph, const Node& node) {
                           return cpu->Workspace(graph, node);
                         },
                     .reserve = {},
                     .fusions = cpu->FusesOps(),
                     .device = cpu->planned_for()};
}

namespace {

// The median seconds of a few runs of the graph that `build` builds.
template <typename Build>
Result<double> Seconds(Backend& backend, Build&& build) {
  using Clock = std::chrono::steady_clock;
  GraphBuilder g("rates");
  g.Output("y", build(g));
  STOWAGE_ASSIGN_OR_RETURN(Graph graph, g.Finish());
  STOWAGE_ASSIGN_OR_RETURN(Plan plan,
                           PlanMemory(graph, {.device = backend.Needs()}));
  std::vector<SessionProgram> programs;
  programs.push_back({"rates", std::move(graph), std::move(plan)});
  STOWAGE_ASSIGN_OR_RETURN(Session session,
                           Session::Create(std::move(programs), backend));
  session.Initialize(/*seed=*/0);
  Runner& runner = session.front();
  std::array<double, 7> seconds;
  runner.Step();  // warms up
  for (double& of_run : seconds) {
    const Clock::time_point start = Clock::now();
    if (const StepCode code = runner.Step(); code != StepCode::kOk) {
      return runner.Explain(code);
    }
    of_run = std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::ranges::nth_element(seconds, seconds.begin() + 3);
  return std::max(seconds[3], 1e-9);
}

double BytesOf(const Graph& graph, const Node& node) {
  double bytes = 0;
  const auto add = [&](const auto& values) {
    for (const ValueId id : values) {
      bytes += static_cast<double>(graph.value(id).type.bytes());
    }
  };
  add(node.inputs);
  add(node.results);
  return bytes;
}

}  // namespace

Result<DeviceRates> MeasureRates(Backend& backend, DType dtype) {
  constexpr int64_t kRows = 256, kDepth = 512, kColumns = 1536;
  STOWAGE_ASSIGN_OR_RETURN(
      const double product, Seconds(backend, [&](GraphBuilder& g) {
        return MatMul(g.Param("a", dtype, {kRows, kDepth}),
                      g.Param("b", dtype, {kColumns, kDepth}), false, true);
      }));
  constexpr Bytes kVector = Bytes{16} << 20;
  const int64_t elements = kVector / SizeOf(dtype);
  STOWAGE_ASSIGN_OR_RETURN(const double sum,
                           Seconds(backend, [&](GraphBuilder& g) {
                             return Add(g.Param("a", dtype, {elements}),
                                        g.Param("b", dtype, {elements}));
                           }));
  return DeviceRates{
      .flops_per_second =
          2.0 * static_cast<double>(kRows * kDepth * kColumns) / product,
      .bytes_per_second = 3.0 * static_cast<double>(kVector) / sum};
}

double StepSeconds(const Graph& graph, const DeviceRates& rates) {
  double seconds = 0;
  for (const Node& node : graph.nodes()) {
    if (GetOpDef(node.op).is_view()) continue;
    double of_bodies = 0;  // the longest of them
    for (const auto& body : BodiesOf(node)) {
      of_bodies = std::max(of_bodies, StepSeconds(*body, rates));
    }
    seconds += static_cast<double>(IterationsOf(node)) * of_bodies;
    if (!BodiesOf(node).empty()) continue;
    seconds += std::max(NodeFlops(graph, node) / rates.flops_per_second,
                        BytesOf(graph, node) / rates.bytes_per_second);
  }
  return seconds;
}

}  // namespace stowage
