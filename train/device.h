#ifndef STOWAGE_TRAIN_DEVICE_H_
#define STOWAGE_TRAIN_DEVICE_H_

// Selects the device for training, or the device to plan for, and measures its speed.
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
  DType dtype = DType::kF32;  // type of the training
  int threads = 0;            // threads of the CPU; 0 means all
  bool check = false;         // checks each op for NaN and infinity; slow
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

/// Returns the DeviceFlags::offload_folder for a plan that may offload to `choice`. Unless `choice`
/// is OffloadChoice::kDisk, it is empty. Otherwise it is `given`, or the system's folder for
/// temporary files if `given` is empty. Returns kInvalidArgument if a folder is given and nothing
/// is offloaded to disk, and kIo if no file can be created in the folder.
Result<std::string> OffloadFolder(OffloadChoice choice,
                                  const std::string& given);

struct ChosenDevice {
  std::unique_ptr<Backend> backend;
  std::string
      why;  // names the device, and why "auto" chose a CPU; empty if "cpu" was given
};

/// Returns the device named `flags.name`. "auto" is a GPU if one works, and the CPU otherwise. With
/// several ranks, some of which may have no GPU, and with an offload folder, "auto" is the CPU.
/// Returns kInvalidArgument if the name is unknown, kDevice, with the reason, if "cuda" does not
/// work, and kUnsupported if the dtype cannot be trained in, or for "cuda" with an offload folder.
/// Propagates other errors of MakeGpuBackend, and the error of an invalid STOWAGE_CPU_TARGET
/// (cpu/targets.h).
Result<ChosenDevice> ChooseDevice(const DeviceFlags& flags);

/// Returns whether a plan for device `name` is for a GPU, which is the case for "cuda", and for ""
/// with bf16 and f16.
bool IsForGpu(const std::string& name, DType dtype);

/// Returns the error of a step on a GPU that would offload to disk, into `folder` if it is known.
Error OffloadsToHostOnly(const std::string& folder = "");

/// Returns the requirements of the kernels of device `name`, which is "cpu", "cuda" or ""
/// (IsForGpu). For a CPU, `threads` is the number of threads, and kernels are for `cpu_target`
/// (cpu/targets.h), or for this process's target if it is empty. Opens no device. Returns
/// kInvalidArgument if the name is unknown, or if a CPU target is invalid or given for cuda.
Result<DeviceNeeds> NeedsOfDevice(const std::string& name, DType dtype,
                                  int threads,
                                  const std::string& cpu_target = "");

/// The speed of a device, from which StepSeconds estimates the time of a step. The estimate assumes
/// that all matmuls are as fast as the measured one, and that other ops are bound by memory
/// bandwidth. Measured times of the ops (planner/fit/cost.h) are more precise.
struct DeviceRates {
  double flops_per_second = 1;
  double bytes_per_second = 1;
};

/// Measures a matmul with the sizes of a small transformer and a sum of two vectors of 16 MiB,
/// which takes a few hundredths of a second. Propagates errors of Session::Create and of the
/// device.
Result<DeviceRates> MeasureRates(Backend& backend, DType dtype);

/// Returns the estimated seconds of one run of `graph`. The time of a node is the larger of the
/// times for its operations and for its bytes. Views take no time. Linear in the size of the graph.
double StepSeconds(const Graph& graph, const DeviceRates& rates);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_DEVICE_H_
