#include "tests/gpu/ptx/ptx_grids.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

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

Module& Kernels() {
  static auto& module = *[] {
    auto* const all = new Module;
    const char* const paths = std::getenv("STOWAGE_KERNEL_REPORTS");
    STOWAGE_CHECK(paths != nullptr);
    std::istringstream words(paths);
    for (std::string path; words >> path;) {
      if (!path.ends_with(".ptx")) continue;
      std::ifstream file(path);
      std::stringstream text;
      text << file.rdbuf();
      STOWAGE_CHECK(file.good());
      STOWAGE_CHECK(all->Add(text.str()).ok());
    }
    return all;
  }();
  return module;
}

Machine& TheMachine() {
  static auto& machine = *new Machine;
  return machine;
}

std::set<std::string>& Run() {
  static auto& run = *new std::set<std::string>;
  return run;
}

std::string RunCall(const gpu::KernelCall& call, const GridOptions& options) {
  const std::string name = NameOfKernel(call.function);
  const Result<const Kernel*> kernel = Kernels().Find(name);
  if (!kernel.ok()) return StrCat(call.name, ": ", kernel.error().message);
  Run().insert(name);
  return TheMachine().Run(
      {.kernel = *kernel,
       .params = {static_cast<const std::byte*>(call.params),
                  call.params_bytes},
       .grid_x = call.grid.x,
       .grid_y = call.grid.y,
       .threads = call.threads,
       .dynamic_shared = call.dynamic_shared,
       .memory = options.memory},
      {.seed = options.seed, .warp_by_warp = options.warp_by_warp});
}

}  // namespace

std::vector<std::string> AllKernels() { return Kernels().names(); }

std::vector<std::string> KernelsNotRun() {
  std::vector<std::string> names = AllKernels();
  std::erase_if(names,
                [](const std::string& name) { return Run().contains(name); });
  return names;
}

int64_t InstructionsExecuted() { return TheMachine().executed(); }

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
