#include "gpu/emulator/emulator.h"
#include "tests/gpu/grid_runner.h"

namespace stowage::testing {

void RunTestGrid(const gpu::KernelCall& call, const GridOptions& options) {
  gpu::RunGrid(call, {.seed = options.seed,
                      .warp_by_warp = options.warp_by_warp,
                      .report = options.report});
}

bool TakesAllOrders() { return true; }

}  // namespace stowage::testing
