#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MACHINE_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MACHINE_H_

// Executes grids of PTX kernels on the CPU, one instruction for the 32 lanes of a warp at a time.
// Diverged lanes reconverge as soon as they reach the same instruction; lanes that are furthest
// behind run first. Instructions of a whole warp wait for its lanes.
//
// Reported, with the instruction: registers and shared bytes read before they are
// written; accesses outside of what the kernel was given, or unaligned; copies that
// were not waited for; races (ptx_memory.h); warps that are not whole where they
// must be; what is wrong with products of warpgroups (ptx_warpgroups.h); barriers that
// some never reach; what is wrong with mbarriers and bulk copies (ptx_mbarriers.h,
// ptx_bulk_copies.h); division by zero.
//
// A machine is for one thread at a time. Kernels are only read: several may run one.
//
//   Machine machine;
//   std::string wrong = machine.Run({.kernel = kernel, .params = params,
//                                    .grid_x = 4, .threads = 128,
//                                    .memory = buffers},
//                                   {.seed = 3});

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/gpu/ptx/ptx_block.h"
#include "tests/gpu/ptx/ptx_memory.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_order.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {

struct GridCall {
  const Kernel* kernel = nullptr;
  std::span<const std::byte> params;
  uint32_t grid_x = 1, grid_y = 1;
  uint32_t threads = 32;
  uint32_t dynamic_shared = 0;
  /// The bytes of global memory that the kernel may touch.
  std::span<const std::span<std::byte>> memory;
};

struct MachineOptions {
  /// 0: blocks in their order, warp 0 up to the barrier, then warp 1. Others:
  /// blocks, and after every few instructions warps, are drawn by lot.
  uint64_t seed = 0;
  /// A warp that was drawn runs up to the barrier.
  bool warp_by_warp = false;
};

class Machine {
 public:
  /// Runs all blocks. Returns the first fault, after which nothing runs, or empty.
  std::string Run(const GridCall& call, const MachineOptions& options = {});

  /// The number of warp instructions executed so far.
  int64_t executed() const { return executed_; }

 private:
  // Lanes that are at the same place.
  struct Group {
    uint32_t at = 0;
    uint32_t lanes = 0;
    bool waits = false;   // for the rest of its warp
    bool polled = false;  // an mbarrier in vain, since its warp was last woken
  };
  enum class Waits : uint8_t { kNot, kBarrier, kWarpgroup, kMbarrier };
  struct WarpState {
    Warp warp;
    Group groups[kLanes];
    int count = 0;
    int64_t executed = 0;  // in this block
    Waits waits = Waits::kNot;
    uint32_t at = 0;  // where it does, or last did
    uint64_t mbarrier = 0;
  };
  // One of the 16 of a block, and who has come to it since it last opened.
  struct Barrier {
    struct Arrival {
      int warp;
      bool waits;
      Clock clock;
    };
    uint32_t threads = 0;  // that open it; 0: all that have not ended
    uint32_t at = 0;       // where the first came to it
    std::vector<Arrival> arrivals;
  };

  void RunBlock(const GridCall& call, uint32_t x, uint32_t y,
                const MachineOptions& options, uint64_t* random);
  void Start(const GridCall& call, uint32_t x, uint32_t y, size_t warp);
  // Until the barrier, the end, or so many instructions.
  void RunWarp(const Kernel& kernel, WarpState* state, int64_t instructions);
  Group* Choose(WarpState* state);
  // Whether those of its lanes that could go on wait for an mbarrier: then so does it.
  bool WaitsForMbarrier(WarpState* state);
  // A warp comes to the barrier of an instruction, which opens with the last.
  void ComeToBarrier(const Kernel& kernel, WarpState* state, uint32_t at);
  void Open(Barrier* barrier);
  // When no warp can go on: runs a copy, or lets those that wait for mbarriers look again,
  // until that is in vain.
  void MeetMbarriers(const Kernel& kernel, const MachineOptions& options,
                     uint64_t* random);
  void RunCopy(const Kernel& kernel, const MachineOptions& options,
               uint64_t* random);
  // When no warp can go on: opens the barrier that all wait at.
  void MeetBarrier(const Kernel& kernel);
  void BlameStuck(const Kernel& kernel);
  // When all have ended: copies for which nobody has waited.
  void BlameCopies(const Kernel& kernel);
  // A warp comes to a product, which begins with the last of its warpgroup.
  void ComeToProduct(const Kernel& kernel, WarpState* state, uint32_t at);
  void Blame(const Kernel& kernel, uint32_t at, const std::string& what);

  Memory memory_;
  Block block_;
  std::vector<WarpState> warps_;
  std::array<Barrier, 16> barriers_;
  int64_t changes_ = 0;  // of mbarriers, when all warps last waited
  int rounds_in_vain_ = 0;
  std::vector<std::byte> registers_;
  std::vector<uint32_t> written_;
  int64_t executed_ = 0;
  std::string wrong_;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MACHINE_H_
