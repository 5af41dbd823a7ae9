#include "tests/gpu/ptx/ptx_grids.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/queue.h"
#include "tests/gpu/grid_runner.h"
#include "tests/gpu/ptx/ptx_machine.h"
#include "tests/gpu/ptx/ptx_module.h"

namespace stowage::testing {

namespace ptx {
namespace {

// The name in the PTX of each function of the host that stands for a kernel. Objects of nvcc
// register them when the program starts (__cudaRegisterFunction below); written before main()
// alone, so any thread may read it afterwards.
std::map<const void*, std::string>& KernelNames() {
  static auto& names = *new std::map<const void*, std::string>;
  return names;
}

// Empty where the function is no kernel: "_ZN7stowage3gpu...11SoftmaxRowsI...".
std::string NameOfKernel(const void* function) {
  const auto found = KernelNames().find(function);
  return found == KernelNames().end() ? std::string() : found->second;
}

// The kernels of the program, and what has become of them. Threads share it: a kernel is
// read when it is first asked for, under the lock, and never written again.
class Kernels {
 public:
  static Kernels& Get() {
    static auto& kernels = *new Kernels;
    return kernels;
  }

  Result<const Kernel*> Find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const Result<const Kernel*> kernel = module_.Find(name);
    if (kernel.ok()) run_.insert(name);
    return kernel;
  }
  void Count(int64_t instructions) {
    const std::lock_guard lock(mutex_);
    executed_ += instructions;
  }

  std::vector<std::string> names() {
    const std::lock_guard lock(mutex_);
    return module_.names();
  }
  bool HasRun(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return run_.contains(name);
  }
  int64_t executed() {
    const std::lock_guard lock(mutex_);
    return executed_;
  }

 private:
  Kernels() {
    const char* const paths = std::getenv("STOWAGE_KERNEL_REPORTS");
    STOWAGE_CHECK(paths != nullptr);
    std::istringstream words(paths);
    for (std::string path; words >> path;) {
      if (!path.ends_with(".ptx")) continue;
      std::ifstream file(path);
      std::stringstream text;
      text << file.rdbuf();
      STOWAGE_CHECK(file.good());
      STOWAGE_CHECK(module_.Add(text.str()).ok());
    }
  }

  std::mutex mutex_;
  Module module_;
  std::set<std::string> run_;
  int64_t executed_ = 0;
};

std::string RunCall(const gpu::KernelCall& call, const GridOptions& options) {
  // A machine runs one grid at a time.
  static thread_local Machine machine;
  const Result<const Kernel*> kernel =
      Kernels::Get().Find(NameOfKernel(call.function));
  if (!kernel.ok()) return StrCat(call.name, ": ", kernel.error().message);
  const int64_t before = machine.executed();
  std::string wrong =
      machine.Run({.kernel = *kernel,
                   .params = {static_cast<const std::byte*>(call.params),
                              call.params_bytes},
                   .grid_x = call.grid.x,
                   .grid_y = call.grid.y,
                   .threads = call.threads,
                   .dynamic_shared = call.dynamic_shared,
                   .memory = options.memory},
                  {.seed = options.seed, .warp_by_warp = options.warp_by_warp});
  Kernels::Get().Count(machine.executed() - before);
  return wrong;
}

}  // namespace

std::vector<std::string> AllKernels() { return Kernels::Get().names(); }

std::vector<std::string> KernelsNotRun() {
  std::vector<std::string> names = AllKernels();
  std::erase_if(names, [](const std::string& name) {
    return Kernels::Get().HasRun(name);
  });
  return names;
}

int64_t InstructionsExecuted() { return Kernels::Get().executed(); }

}  // namespace ptx

void RunTestGrid(const gpu::KernelCall& call, const GridOptions& options) {
  const std::string wrong = ptx::RunCall(call, options);
  if (wrong.empty()) return;
  if (options.report != nullptr) {
    if (options.report->empty()) *options.report = wrong;
    return;
  }
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}

bool TakesAllOrders() {
  return std::getenv("STOWAGE_ALL_INSTANCES") != nullptr;
}

}  // namespace stowage::testing

// The part of the CUDA runtime that objects of nvcc call when a program starts, as
// crt/host_runtime.h of the toolkit declares it; unused pointers are void*. Nothing can be
// launched through it.
extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* function, char*,
                            const char* name, int, void*, void*, void*, void*,
                            int*) {
  stowage::testing::ptx::KernelNames()[function] = name;
}

// Called by the functions of the host that launch kernels; ours are not called.
unsigned __cudaPopCallConfiguration(void*, void*, void*, void*) {
  STOWAGE_CHECK(!"a kernel was called as a function");
  return 0;
}
int __cudaGetKernel(void*, const void*) {
  STOWAGE_CHECK(!"a kernel was called as a function");
  return 0;
}
int __cudaLaunchKernel() {
  STOWAGE_CHECK(!"a kernel was called as a function");
  return 0;
}

}  // extern "C"
