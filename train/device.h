#ifndef STOWAGE_TRAIN_DEVICE_H_
#define STOWAGE_TRAIN_DEVICE_H_

// Which device computes, and for which one a plan is made.
//
//   Result<ChosenDevice> device = ChooseDevice({.name = "auto"});
//   if (!device->why.empty()) std::cerr << device->why << '\n';

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "nn/models.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/lifetimes.h"
#include "planner/plan.h"
#include "runtime/backend.h"

namespace stowage {

// The optimizer that is meant by a name, for a model that has settings of its own.
//
//   Result<ModelInfo> info = FindModel("gpt-nano");
//   Result<Optimizer> optimizer = ChooseOptimizer("", info->training);

/// Whether it is the model's own optimizer, in whatever it keeps its states: then the
/// model's settings and learning rate are for it.
bool IsOfModel(const Optimizer& optimizer, const TrainingDefaults& defaults);

/// The optimizer called `name`, or the model's where that is empty; with the model's own
/// settings when it is the model's (IsOfModel), else with its own. Error: no optimizer is so called.
Result<Optimizer> ChooseOptimizer(std::string_view name,
                                  const TrainingDefaults& defaults);

/// `optimizer` with these instead of its own. As torch.optim.SGD has it, Sgd with a
/// momentum above 0 is Momentum. Errors, kInvalidArgument, name the value: a momentum
/// outside [0, 1), or for an optimizer that has none; a decay that is negative or not
/// finite.
Result<Optimizer> WithMomentum(Optimizer optimizer, double momentum);
Result<Optimizer> WithDecay(Optimizer optimizer, double decay);

/// The decay and, where it has one, the momentum of an optimizer.
double DecayOf(const Optimizer& optimizer);
std::optional<double> MomentumOf(const Optimizer& optimizer);

// The loss scaling that is meant by a word, or by the element type where nothing is said:
// f16 needs it, for the least of its numbers is larger than many gradients.
//
//   ChooseLossScaling("", DType::kF16);      // LossScaling{}, which moves
//   ChooseLossScaling("1024", DType::kF32);  // one that stays

/// "dynamic", "none", a number, or, where `text` is empty, dynamic for f16 and none for
/// the other types. Error kInvalidArgument: anything else, a number that no loss scale is.
Result<std::optional<LossScaling>> ChooseLossScaling(std::string_view text,
                                                     DType dtype);

struct DeviceFlags {
  std::string name = "auto";  // auto, cpu or cuda
  DType dtype = DType::kF32;  // that is to be trained in
  int threads = 0;            // of the CPU
  bool check = false;         // op by op, for NaN and infinity: slow
  /// Where choices by measurement are kept (GpuOptions::algorithm_folder,
  /// CpuOptions::blocking_folder).
  std::string choice_folder = {};
  /// Told why nothing is kept there where that is no error (CpuOptions::note).
  std::function<void(const std::string&)> note = {};
  /// What joins this rank to the others of a step (CpuOptions, GpuOptions).
  Collectives* collectives = nullptr;
  /// Of this rank among those of its host, which tells it its GPU.
  int local_rank = 0;
  /// The folder of the files in which host memory lies (CpuOptions::offload_folder);
  /// empty: host memory is memory.
  std::string offload_folder = {};
};

/// The folder of a run whose plan may offload `choice`: `given`, or the system's folder of
/// temporary files; empty unless that is OffloadChoice::kDisk. Errors: kInvalidArgument if
/// one is given, and nothing is offloaded to disk; kIo if no file can be made there.
Result<std::string> OffloadFolder(OffloadChoice choice,
                                  const std::string& given);

struct ChosenDevice {
  std::unique_ptr<Backend> backend;
  std::string why;  // a line for people when the choice was ours; or empty
};

/// The device of that name; `auto` is the GPU when one works, otherwise the CPU, and
/// the CPU on several ranks, of which some may have no GPU, and with an offload folder.
/// Errors: a name that there is not; kDevice with the reason when cuda is wanted
/// and cannot be had; those of MakeGpuBackend that are not kDevice; kUnsupported for a
/// dtype that there is no training in, and for a GPU with an offload folder; for the CPU, a STOWAGE_CPU_TARGET that cannot be
/// had (cpu/targets.h).
Result<ChosenDevice> ChooseDevice(const DeviceFlags& flags);

/// What kernels of the device called `name` need (cpu, cuda, or empty: cpu for
/// f32 and f64, cuda for bf16 and f16), of a CPU with `threads` threads, compiled for the
/// CPU target `cpu_target` (cpu/targets.h; empty: that of this process). No device
/// is opened. Errors: no such name; a CPU target that cannot be had, or is given for cuda.
Result<DeviceNeeds> NeedsOfDevice(const std::string& name, DType dtype,
                                  int threads,
                                  const std::string& cpu_target = "");

// What a training step keeps for its params: beside activations, what fills a budget.
//
//   const ParamBytes bytes = MeasureParamBytes(step.graph, step.plan);
//   bytes.per_param(bytes.total());   // 5.66

struct ParamBytes {
  int64_t params = 0;  // elements of all params
  Bytes weights = 0;   // the region of weights, and params on the host
  Bytes states = 0;    // the region of states, and states on the host
  Bytes gradients =
      0;  // the most that gradients of params take at any one time

  Bytes total() const { return weights + states + gradients; }
  /// `bytes` for each element of the params; 0 where there are none.
  double per_param(Bytes bytes) const {
    return params == 0
               ? 0
               : static_cast<double>(bytes) / static_cast<double>(params);
  }
};

/// Of a plan that was made for `graph`, a training step's. A gradient that dies at its
/// update counts until then, one that is summed over micro-batches from the first micro-batch on.
/// Linear, but for sorting gradients by time.
ParamBytes MeasureParamBytes(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_DEVICE_H_
