#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MBARRIERS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MBARRIERS_H_

// Executes mbarriers, which are barrier objects in shared memory. See PTX ISA 9.0, section
// 9.7.13.15.
//
// A phase of an mbarrier completes when the number of arrivals given to mbarrier.init has
// occurred, and all expected bytes (expect-tx) have been copied (complete-tx). A wait returns
// whether the phase is complete. A wait that may time out returns false immediately if the phase is
// incomplete, and other warps run until the next poll.
//
// Threads must not access the bytes of the object as data. The interpreter reports these errors,
// with the address of the mbarrier:
//
//  - an mbarrier that is not aligned to 8 bytes, is used ahead of mbarrier.init or after
//    mbarrier.inval, or is used by another thread without synchronization after mbarrier.init;
//  - counts that are out of range, more arrivals than a phase expects, and waits for a phase older
//    than the previous one;
//  - a phase that completes while a copy that signals it is unfinished, since too few bytes were
//    expected;
//  - copies that no thread has waited for when the mbarrier is invalidated or the block ends;
//  - a deadlock, with the arrivals and bytes that the phase still needs.
//
//   Mbarrier* const barrier = FindMbarrier(warp, address, lane);
//   if (barrier != nullptr) barrier->tx += bytes;

#include <cstdint>
#include <map>
#include <string>

#include "tests/gpu/ptx/ptx_order.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {

struct Mbarrier {
  uint32_t expected = 0;  // arrivals in each phase
  uint32_t pending = 0;   // arrivals missing in the current phase
  int64_t tx = 0;         // bytes that are expected but not yet copied
  int64_t phase = 0;      // the current, incomplete phase
  uint32_t made = 0;      // stamp of its mbarrier.init (ptx_order.h)
  size_t agent = 0;       // its number in clocks (ptx_order.h)
  // The stamp of the bytes that bulk copies of this phase write. 0 means that
  // there are no copies.
  uint32_t copies = 0;
  uint32_t under_way = 0;  // the number of unfinished copies of this phase
  // The last phase with bulk copies, and the last that a thread has waited for.
  int64_t has_copies = -1, waited = -1;
  Clock arrived;  // what the arrivals of the current phase released
  Clock over;     // what the arrivals of the previous phase released
};

struct Mbarriers {
  std::map<uint64_t, Mbarrier> at;  // keyed by address
  int64_t changes = 0;              // counts changes of any mbarrier
};

/// Returns the mbarrier at an address of shared memory, which `lane` uses. Returns null and reports
/// the error if the lane must not use it.
Mbarrier* FindMbarrier(Warp& warp, uint64_t address, int lane);

/// Notifies an mbarrier that a bulk copy of `bytes` bytes is complete. Returns an error message, or
/// "".
std::string CompleteCopy(Mbarriers& mbarriers, uint64_t address,
                         uint32_t bytes);

/// Returns a description for messages, for example "the mbarrier at 64, whose phase 3 waits for 1
/// arrivals and 128 bytes".
std::string NameOf(const Mbarriers& mbarriers, uint64_t address);

/// Returns a message about a copy that no thread has waited for at the end of a block, or "" if
/// there is none.
std::string CopiesNotWaitedFor(const Mbarriers& mbarriers);

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MBARRIERS_H_
