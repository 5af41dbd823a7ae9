#include "train/device.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

#include "autodiff/backward.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "cpu/targets.h"
#include "gpu/gpu.h"
#include "runtime/host_file.h"

namespace stowage {

bool IsOfModel(const Optimizer& optimizer, const TrainingDefaults& defaults) {
  const Result<Optimizer> own = ParseOptimizer(defaults.optimizer);
  return own.ok() && own->index() == optimizer.index();
}

Result<Optimizer> ChooseOptimizer(std::string_view name,
                                  const TrainingDefaults& defaults) {
  const std::string_view chosen = name.empty() ? defaults.optimizer : name;
  STOWAGE_ASSIGN_OR_RETURN(Optimizer optimizer, ParseOptimizer(chosen));
  if (!IsOfModel(optimizer, defaults)) return optimizer;
  if (AdamW* adamw = std::get_if<AdamW>(&optimizer)) {
    adamw->beta1 = defaults.beta1;
    adamw->beta2 = defaults.beta2;
  }
  std::visit([&](auto& kind) { kind.decay = defaults.decay; }, optimizer);
  return optimizer;
}

Result<Optimizer> WithMomentum(Optimizer optimizer, double momentum) {
  if (!(momentum >= 0 && momentum < 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[momentum] ", momentum,
                        " is out of range; expected at least 0 and below 1")};
  }
  if (const Sgd* const sgd = std::get_if<Sgd>(&optimizer)) {
    if (momentum == 0) return optimizer;
    return Optimizer(Momentum{.momentum = momentum, .decay = sgd->decay});
  }
  if (!MomentumOf(optimizer)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[momentum] ", OptimizerName(optimizer),
                        " has no momentum to set to ", momentum,
                        "; sgd, momentum, momentum-bf16, nesterov and muon "
                        "have one")};
  }
  std::visit(
      [&](auto& kind) {
        if constexpr (requires { kind.momentum; }) kind.momentum = momentum;
      },
      optimizer);
  return optimizer;
}

Result<Optimizer> WithDecay(Optimizer optimizer, double decay) {
  if (!(decay >= 0 && std::isfinite(decay))) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[weight-decay] ", decay,
                        " is out of range; expected a finite number of at "
                        "least 0")};
  }
  std::visit([&](auto& kind) { kind.decay = decay; }, optimizer);
  return optimizer;
}

double DecayOf(const Optimizer& optimizer) {
  return std::visit([](const auto& kind) { return kind.decay; }, optimizer);
}

std::optional<double> MomentumOf(const Optimizer& optimizer) {
  return std::visit(
      [](const auto& kind) -> std::optional<double> {
        if constexpr (requires { kind.momentum; }) return kind.momentum;
        return std::nullopt;
      },
      optimizer);
}

Result<std::optional<LossScaling>> ChooseLossScaling(std::string_view text,
                                                     DType dtype) {
  using Scaling = std::optional<LossScaling>;
  const bool is_by_type = text.empty() && dtype == DType::kF16;
  if (text == "dynamic" || is_by_type) return Scaling(LossScaling{});
  if (text == "none" || text.empty()) return Scaling();
  LossScaling fixed = {.is_dynamic = false};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, fixed.init_scale);
  if (parsed.ec != std::errc() || parsed.ptr != end ||
      !CheckLossScaling(fixed).ok()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[loss-scale] ", Quoted(text),
                        " is neither dynamic, none, nor a number above 0 "
                        "that f32 has, and the inverse of")};
  }
  return Scaling(fixed);
}

namespace {

Error NoSuchDevice(const std::string& name, std::string_view expected) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[device] there is no device ", Quoted(name), "; expected ",
                 expected)};
}

bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

// On any device: f64 is for checks.
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
  // Planning may take minutes: what it is for is tried before.
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
  // Ranks would time beside one another, each for itself: on GPUs the last to write would
  // have the next run's bits, and on CPUs of one host all would be slowed down.
  const std::string folder =
      flags.collectives == nullptr ? flags.choice_folder : "";
  std::string reason;
  const bool on_disk = !flags.offload_folder.empty();
  if (on_disk && flags.name == "cuda") {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[offload] values of a GPU are offloaded to host "
                        "memory, not to a file in ",
                        Quoted(flags.offload_folder),
                        "; give --offload auto, or --device cpu")};
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
    // What is wrong with a file of algorithms is no reason to compute elsewhere.
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

Result<DeviceNeeds> NeedsOfDevice(const std::string& name, DType dtype,
                                  int threads, const std::string& cpu_target) {
  if (!name.empty() && name != "cpu" && name != "cuda") {
    return NoSuchDevice(name, "cpu or cuda");
  }
  if (name == "cuda" || (name.empty() && IsHalf(dtype))) {
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

ParamBytes MeasureParamBytes(const Graph& graph, const Plan& plan) {
  ParamBytes bytes = {.weights = plan.regions.weights,
                      .states = plan.regions.state + plan.regions.host_state};
  for (const ValueId param : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(param);
    if (!info.on_host) continue;
    const Bytes slot = AlignUp(info.type.bytes(), plan.alignment);
    bytes.weights += slot;
    bytes.states -= slot;
  }
  std::set<int32_t> gradients;  // their buffers
  for (const ValueId param : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(param);
    bytes.params += info.type.shape.num_elements();
    const std::optional<ValueId> gradient = graph.Find(GradientName(info.name));
    if (gradient) {
      gradients.insert(plan.buffer_of[static_cast<size_t>(*gradient)]);
    }
  }
  std::map<Time, Bytes> changes;
  for (const int32_t buffer : gradients) {
    const PlannedBuffer& planned = plan.buffers[static_cast<size_t>(buffer)];
    changes[planned.lower] += planned.size;
    changes[planned.upper] -= planned.size;
  }
  Bytes live = 0;
  for (const auto& [time, change] : changes) {
    live += change;
    bytes.gradients = std::max(bytes.gradients, live);
  }
  return bytes;
}

}  // namespace stowage
