#ifndef STOWAGE_TRAIN_DEVICE_H_
#define STOWAGE_TRAIN_DEVICE_H_

// Selects the device that computes, or the one to plan for, and measures its speed.
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
  DType dtype = DType::kF32;  // of the training
  int threads = 0;            // of the CPU; 0: all
  bool check = false;  // checks every op's results for NaN and infinity: slow
  /// The folder of autotune caches (GpuOptions::algorithm_folder,
  /// CpuOptions::blocking_folder).
  std::string choice_folder = {};
  /// Called with the reason if the autotune cache cannot be written (CpuOptions::note).
  std::function<void(const std::string&)> note = {};
  /// The collectives of this rank; null if there is one rank.
  Collectives* collectives = nullptr;
  /// The number of this rank on its host, which selects its GPU.
  int local_rank = 0;
  /// The folder of files that take offloaded values (CpuOptions::offload_folder); empty: they
  /// are in memory.
  std::string offload_folder = {};
};

/// DeviceFlags::offload_folder for a plan that may offload `choice`: `given`, or the system's
/// folder of temporary files; empty unless `choice` is OffloadChoice::kDisk. Errors:
/// kInvalidArgument if a folder is given and nothing is offloaded to disk; kIo if no file can
/// be created there.
Result<std::string> OffloadFolder(OffloadChoice choice,
                                  const std::string& given);

struct ChosenDevice {
  std::unique_ptr<Backend> backend;
  std::string
      why;  // the device and the reason, if it was chosen by "auto"; else empty
};

/// The device called `flags.name`. "auto" is a GPU if one works, else the CPU; with several
/// ranks, some of which may have no GPU, and with an offload folder, it is the CPU. Errors: an
/// unknown name; kDevice, with the reason, if "cuda" does not work; other errors of
/// MakeGpuBackend; kUnsupported for a dtype that cannot be trained in, and for a GPU with an
/// offload folder; an invalid STOWAGE_CPU_TARGET (cpu/targets.h).
Result<ChosenDevice> ChooseDevice(const DeviceFlags& flags);

/// Whether a plan for device `name` is for a GPU: for "cuda", and for "" in bf16 and f16.
bool IsForGpu(const std::string& name, DType dtype);

/// The error of a step on a GPU that offloads to disk, into `folder` if that is known.
Error OffloadsToHostOnly(const std::string& folder = "");

/// The requirements of the kernels of device `name`: "cpu", "cuda" or "" (IsForGpu). A CPU has `threads` threads, and kernels for
/// `cpu_target` (cpu/targets.h; "": that of this process). Opens no device. Errors: an unknown
/// name; an invalid CPU target, or one given for cuda.
Result<DeviceNeeds> NeedsOfDevice(const std::string& name, DType dtype,
                                  int threads,
                                  const std::string& cpu_target = "");

/// The speed of a device, from which StepSeconds estimates a step's time: all matmuls are
/// assumed as fast as the measured one, and other ops bound by memory. Measured times of the
/// ops (planner/fit/cost.h) are more precise.
struct DeviceRates {
  double flops_per_second = 1;
  double bytes_per_second = 1;
};

/// Times a matmul of a small transformer's sizes and a sum of two vectors of 16 MiB, which
/// takes a few hundredths of a second. Errors: those of Session::Create and of the device.
Result<DeviceRates> MeasureRates(Backend& backend, DType dtype);

/// The estimated seconds of one run of `graph`: for each node the larger of its operations and
/// its bytes over the rates; views take none. Linear.
double StepSeconds(const Graph& graph, const DeviceRates& rates);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_DEVICE_H_
