#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MACHINE_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MACHINE_H_

// Executes PTX kernels on the CPU. Each step executes one instruction for the 32 lanes of a warp.
// Diverged lanes reconverge as soon as they reach the same instruction, and the lanes with the
// smallest instruction address run first. An instruction that involves the whole warp waits for
// all of its lanes.
//
// The interpreter reports these errors, with the instruction:
//
//  - registers and shared bytes that are read but were never written;
//  - accesses that are misaligned or outside the kernel's memory;
//  - copies that were not waited for, and races (ptx_memory.h);
//  - warps that are incomplete where all lanes are required;
//  - barriers that some threads never reach;
//  - errors in warpgroup matmuls (ptx_warpgroups.h), mbarriers (ptx_mbarriers.h) and bulk copies
//    (ptx_bulk_copies.h);
//  - division by zero.
//
// Only one thread at a time may use a Machine. Several machines may run the same kernel, which
// they only read.
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
  /// The global memory that the kernel may access.
  std::span<const std::span<std::byte>> memory;
};

struct MachineOptions {
  /// Selects the order in which threads run. If 0, blocks run in order, and in a block warp 0 runs
  /// to the next barrier, then warp 1, and so on. Otherwise the next block is chosen at random, and
  /// every few instructions the next warp is chosen at random.
  uint64_t seed = 0;
  /// If true, a chosen warp runs to the next barrier.
  bool warp_by_warp = false;
};

class Machine {
 public:
  /// Runs all blocks, and stops at the first error. Returns its message, or "" if there is none.
  std::string Run(const GridCall& call, const MachineOptions& options = {});

  /// The number of warp instructions executed so far.
  int64_t executed() const { return executed_; }

 private:
  // Lanes of a warp that are at the same instruction.
  struct Group {
    uint32_t at = 0;  // index of the instruction
    uint32_t lanes = 0;
    bool waits = false;   // waits for the other lanes of its warp
    bool polled = false;  // found an mbarrier's phase unfinished
  };
  enum class Waits : uint8_t { kNot, kBarrier, kWarpgroup, kMbarrier };
  struct WarpState {
    Warp warp;
    Group groups[kLanes];
    int count = 0;
    int64_t executed = 0;  // warp instructions in this block
    Waits waits = Waits::kNot;
    uint32_t at = 0;  // the instruction at which it waits, or last waited
    uint64_t mbarrier = 0;
  };
  // One of the 16 barriers of a block, with the arrivals of its current phase.
  struct Barrier {
    struct Arrival {
      int warp;
      bool waits;
      Clock clock;
    };
    uint32_t threads = 0;  // participants; 0 means all that have not exited
    uint32_t at = 0;       // the instruction of the first arrival
    std::vector<Arrival> arrivals;
  };

  void RunBlock(const GridCall& call, uint32_t x, uint32_t y,
                const MachineOptions& options, uint64_t* random);
  void Start(const GridCall& call, uint32_t x, uint32_t y, size_t warp);
  // Runs a warp until it waits, it exits, or `instructions` have been executed.
  void RunWarp(const Kernel& kernel, WarpState* state, int64_t instructions);
  // Merges groups that have reconverged, and returns the runnable group with the
  // smallest instruction index, or null.
  Group* Choose(WarpState* state);
  // Makes the warp wait if some of its lanes wait for an mbarrier. Returns whether
  // it waits. Called when no lane is runnable.
  bool WaitsForMbarrier(WarpState* state);
  // Handles a warp's arrival at a barrier. If the barrier has a thread count, the
  // last arrival opens it.
  void ComeToBarrier(const Kernel& kernel, WarpState* state, uint32_t at);
  void Open(Barrier* barrier);
  // Called when no warp can run and some wait for mbarriers. Runs a bulk copy if
  // there is one, and otherwise lets these warps poll their mbarriers. Reports a
  // deadlock after too many polls without a change.
  void MeetMbarriers(const Kernel& kernel, const MachineOptions& options,
                     uint64_t* random);
  void RunCopy(const Kernel& kernel, const MachineOptions& options,
               uint64_t* random);
  // Called when no warp can run. Opens the barrier at which all warps wait.
  void MeetBarrier(const Kernel& kernel);
  // Reports a deadlock.
  void BlameStuck(const Kernel& kernel);
  // Called when all warps have exited. Reports copies that no thread waited for.
  void BlameCopies(const Kernel& kernel);
  // Handles a warp's arrival at a warpgroup matmul, which starts with the last
  // arrival.
  void ComeToProduct(const Kernel& kernel, WarpState* state, uint32_t at);
  // Records an error at instruction `at`, unless there is an error already.
  void Blame(const Kernel& kernel, uint32_t at, const std::string& what);

  Memory memory_;
  Block block_;
  std::vector<WarpState> warps_;
  std::array<Barrier, 16> barriers_;
  int64_t changes_ = 0;  // Mbarriers::changes when all warps last waited
  int rounds_in_vain_ = 0;
  std::vector<std::byte> registers_;
  std::vector<uint32_t> written_;
  int64_t executed_ = 0;
  std::string wrong_;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MACHINE_H_
