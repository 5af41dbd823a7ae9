#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MBARRIERS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MBARRIERS_H_

// Barriers that are objects in shared memory. PTX ISA 9.0, section 9.7.13.15.
//
// A phase of an mbarrier ends when all arrivals that mbarrier.init asked for have come,
// and all bytes that were expected (expect-tx) have been copied (complete-tx). Who waits
// for a phase is told whether it is over, and is told no as long as it is not: a wait that
// may give up, gives up. In between other warps run.
//
// The bytes of the object are no data to anyone. Reported, with where the mbarrier is:
//
//  - one that is not aligned to 8 bytes, is used before mbarrier.init or after
//    mbarrier.inval, or has neither a barrier nor a wait between init and another thread;
//  - counts out of their range, more arrivals than a phase waits for, a state of an older
//    phase than the last;
//  - a phase that ends while a copy that signals it is under way, since fewer bytes were
//    expected; copies for which nobody has waited when the mbarrier or the block ends;
//  - warps that wait for ever, with what the phase still lacks.
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
  uint32_t expected = 0;  // arrivals of each phase
  uint32_t pending = 0;   // of this one, that have not come
  int64_t tx = 0;         // bytes that are expected and have not been copied
  int64_t phase = 0;      // that is not over
  uint32_t made = 0;      // stamp of its mbarrier.init
  size_t agent = 0;       // in clocks
  // What bulk copies of this phase write has this stamp; 0: there are none.
  uint32_t copies = 0;
  uint32_t under_way = 0;                // of these
  int64_t has_copies = -1, waited = -1;  // the last phases of which that is so
  Clock arrived;                         // of this phase
  Clock over;                            // of the one before
};

struct Mbarriers {
  std::map<uint64_t, Mbarrier> at;  // by address
  int64_t changes = 0;              // of any of them
};

/// The mbarrier that a lane uses, at an address of shared memory. Null: something is wrong,
/// which is reported.
Mbarrier* FindMbarrier(Warp& warp, uint64_t address, int lane);

/// A bulk copy that a phase of the mbarrier waits for is done. Returns what is wrong.
std::string CompleteCopy(Mbarriers& mbarriers, uint64_t address,
                         uint32_t bytes);

/// "the mbarrier at 64, whose phase 3 waits for 1 arrivals and 128 bytes"
std::string NameOf(const Mbarriers& mbarriers, uint64_t address);

/// Copies for which nobody has waited, when a block has ended; empty: there are none.
std::string CopiesNotWaitedFor(const Mbarriers& mbarriers);

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MBARRIERS_H_
