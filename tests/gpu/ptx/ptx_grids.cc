#include "tests/gpu/ptx/ptx_grids.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "base/strings.h"
#include "gpu/queue.h"
#include "tests/gpu/grid_runner.h"
#include "tests/gpu/ptx/cuda_registry.h"
#include "tests/gpu/ptx/ptx_machine.h"
#include "tests/gpu/ptx/ptx_module.h"

namespace stowage::testing {
namespace ptx {
namespace {

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
