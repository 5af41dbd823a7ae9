#ifndef STOWAGE_TRAIN_DEVICE_H_
#define STOWAGE_TRAIN_DEVICE_H_

// Which device computes, and for which one a plan is made.
//
//   Result<ChosenDevice> device = ChooseDevice({.name = "auto"});
//   if (!device->why.empty()) std::cerr << device->why << '\n';

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "ir/dtype.h"
#include "planner/lifetimes.h"
#include "runtime/backend.h"
#include "runtime/collectives.h"

namespace stowage {

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
};

struct ChosenDevice {
  std::unique_ptr<Backend> backend;
  std::string why;  // a line for people when the choice was ours; or empty
};

/// The device of that name; `auto` is the GPU when one works, otherwise the CPU, and
/// the CPU on several ranks, of which some may have no GPU.
/// Errors: a name that there is not; kDevice with the reason when cuda is wanted
/// and cannot be had; those of MakeGpuBackend that are not kDevice; kUnsupported for a
/// dtype that there is no training in.
Result<ChosenDevice> ChooseDevice(const DeviceFlags& flags);

/// What kernels of the device called `name` need (cpu, cuda, or empty: cpu for
/// f32 and f64, cuda for bf16 and f16), of a CPU with `threads` threads. No device
/// is opened. Error: no such name.
Result<DeviceNeeds> NeedsOfDevice(const std::string& name, DType dtype,
                                  int threads);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_DEVICE_H_
