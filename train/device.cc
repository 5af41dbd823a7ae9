#include "train/device.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu.h"

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

// On any device: f64 is for checks.
Status CheckTrainsIn(DType dtype) {
  if (dtype == DType::kF32 || IsHalf(dtype)) return {};
  return Error{ErrorCode::kUnsupported,
               StrCat("[train] dtype ", DTypeName(dtype),
                      " cannot be trained with; available: f32, bf16 and f16 "
                      "(`stowage plan` plans any)")};
}

}  // namespace

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
  if (automatic && flags.collectives != nullptr) {
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
  chosen.backend = MakeCpuBackend({.threads = flags.threads,
                                   .check = flags.check,
                                   .collectives = flags.collectives,
                                   .blocking_folder = folder,
                                   .note = flags.note});
  if (automatic) chosen.why = StrCat("device: cpu, since ", reason);
  return chosen;
}

Result<DeviceNeeds> NeedsOfDevice(const std::string& name, DType dtype,
                                  int threads) {
  if (!name.empty() && name != "cpu" && name != "cuda") {
    return NoSuchDevice(name, "cpu or cuda");
  }
  if (name == "cuda" || (name.empty() && IsHalf(dtype))) return GpuNeeds();
  const std::shared_ptr<Backend> cpu = MakeCpuBackend({.threads = threads});
  return DeviceNeeds{.workspace =
                         [cpu](const Graph& graph, const Node& node) {
                           return cpu->Workspace(graph, node);
                         },
                     .reserve = {},
                     .fusions = cpu->FusesOps()};
}

}  // namespace stowage
