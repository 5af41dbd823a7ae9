#ifndef STOWAGE_TRAIN_DEVICE_H_
#define STOWAGE_TRAIN_DEVICE_H_

// Selects the device on which to train or for which to plan, and measures its speed.
//
//   Result<ChosenDevice> device = ChooseDevice({.name = "auto"});
//   if (!device->why.empty()) std::cerr << device->why << '\n';
//
//   STOWAGE_ASSIGN_OR_RETURN(const DeviceRates rates,
//                            MeasureRates(*device->backend, DType::kF32));
//   const double seconds = StepSeconds(plan.step.graph, rates);

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/lifetimes.h"
#include "runtime/backend.h"

namespace stowage {

struct DeviceFlags {
  std::string name = "auto";  // auto, cpu or cuda
  DType dtype = DType::kF32;  // data type of the model's params and activations
  int threads = 0;            // number of CPU threads; 0 means all
  bool check = false;         // checks all results for NaN and infinity; slow
  /// The folder of autotune caches (GpuOptions::algorithm_folder,
  /// CpuOptions::blocking_folder).
  std::string choice_folder = {};
  /// Called with the reason if an autotune cache cannot be written (CpuOptions::note).
  std::function<void(const std::string&)> note = {};
  /// The collectives of this rank, or null if there is only one rank.
  Collectives* collectives = nullptr;
  /// The index of this rank on its host, which selects its GPU.
  int local_rank = 0;
  /// The folder for files of offloaded values (CpuOptions::offload_folder). If empty, offloaded
  /// values are in memory.
  std::string offload_folder = {};
};

/// Returns the folder for DeviceFlags::offload_folder, given the allowed kind of offloading. If
/// `choice` is OffloadChoice::kDisk, the result is `given`, or the system's folder for temporary
/// files if `given` is empty. Otherwise it is "". Returns kInvalidArgument if `given` is not empty
/// and `choice` is not kDisk. Returns kIo if no file can be created in the folder.
Result<std::string> OffloadFolder(OffloadChoice choice,
                                  const std::string& given);

struct ChosenDevice {
  std::unique_ptr<Backend> backend;
  std::string
      why;  // names the device and, if "auto" chose the CPU, the reason; empty if "cpu" was given
};

/// Returns the device named `flags.name`. "auto" selects a GPU if one works, and the CPU otherwise.
/// If `collectives` or `offload_folder` is set, "auto" selects the CPU, since some ranks may have
/// no GPU, and a GPU cannot offload to disk. Returns kInvalidArgument if the name is unknown.
/// Returns kDevice, with the reason, if "cuda" does not work. Returns kUnsupported if the dtype is
/// not f32, bf16 or f16, or if the name is "cuda" and `offload_folder` is set. Propagates other
/// errors of MakeGpuBackend, and the error of an invalid STOWAGE_CPU_TARGET (cpu/targets.h).
Result<ChosenDevice> ChooseDevice(const DeviceFlags& flags);

/// Returns whether a plan for device `name` is a plan for a GPU. This is the case if the name is
/// "cuda", or if it is "" and the dtype is bf16 or f16.
bool IsForGpu(const std::string& name, DType dtype);

/// Returns the kUnsupported error that a GPU cannot offload to disk. The message names `folder`
/// unless it is "".
Error OffloadsToHostOnly(const std::string& folder = "");

/// Returns the requirements of the kernels of device `name`, for planning without the device. The
/// name is "cpu", "cuda", or "" for the device that IsForGpu determines from the dtype. For a CPU,
/// `threads` is the number of threads (0 means all), and `cpu_target` selects the kernels
/// (cpu/targets.h), where "" means the target of this process. Returns kInvalidArgument if the name
/// is unknown, or if a CPU target is given for a GPU. Propagates errors of cpu::FindCpuTarget.
Result<DeviceNeeds> NeedsOfDevice(const std::string& name, DType dtype,
                                  int threads,
                                  const std::string& cpu_target = "");

/// The speed of a device, from which StepSeconds estimates the time of a step. The estimate assumes
/// that all ops compute as fast as the matmul that MeasureRates measures, unless memory bandwidth
/// limits them. Measured times of the ops (OpTimes in planner/fit/cost.h) are more precise.
struct DeviceRates {
  double flops_per_second = 1;
  double bytes_per_second = 1;
};

/// Measures a matmul with the sizes of a small transformer, and a sum of two vectors of 16 MiB.
/// This takes a few hundredths of a second. Propagates errors of Session::Create and of the device.
Result<DeviceRates> MeasureRates(Backend& backend, DType dtype);

/// Returns the estimated seconds of one run of `graph`. The time of a node is the time of its
/// operations or the time of its memory traffic, whichever is longer. The time of a node with
/// bodies is the time of its slowest body, multiplied by the number of iterations. Views take no
/// time. Linear in the size of the graph.
double StepSeconds(const Graph& graph, const DeviceRates& rates);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_DEVICE_H_
