#ifndef STOWAGE_TESTS_GPU_PTX_PTX_ORDER_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_ORDER_H_

// Tracks the happens-before order of a kernel's memory accesses, to detect races.
//
// Each access has a stamp, which consists of its lane and its segment. A segment is the interval
// between two synchronization points of a warp. Segments are numbered in the order in which they
// begin, and blocks run in sequence. Each warp has a vector clock, which contains the last segment
// of each other warp that happens before it. Clocks change as follows:
//
//  - After a barrier of the whole block, everything ahead of the barrier happens before
//    everything after it. Comparing segment numbers is sufficient.
//  - At any other barrier, each participant calls Release on arrival and then acquires the clocks
//    of all participants (Acquire).
//
// Lanes arrive at an mbarrier individually. An arrival releases the accesses of the arriving lanes,
// and the accesses of the other lanes of their warp ahead of the last bar.warp.sync. A wait
// acquires only for the waiting lanes, until they synchronize with the other lanes of their warp.
//
// All bulk copies that signal the same phase of an mbarrier have one stamp. Their writes happen
// before accesses by lanes that know that the phase is complete. A barrier of the block shares
// this knowledge among its warps.
//
// A warpgroup matmul may read its bytes of shared memory at any time from its issue until each
// of its warps has waited for it. If several threads or matmuls have read a byte since it was
// written, they share one stamp, which denotes a set of readers.
//
//   order.BeginGrid();
//   order.BeginBlock(warps);
//   const uint32_t stamp = order.Stamp(warp, lane);
//   order.Acquire(other, kAllLanes, order.Release(warp, kAllLanes));
//   order.Conflicts(Space::kShared, stamp, other, lane)  // false

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stowage::testing::ptx {

// A vector clock. For each agent, it has the last segment of that agent that happens before a
// point of the execution. An agent is a warp, as a whole or per lane, or an mbarrier, whose
// segments are its phases.
//
//   Clock clock;
//   clock.AddAll(3, 70);      // all lanes of warp 3, up to segment 70
//   clock.AddLane(3, 5, 80);  // lane 5 of warp 3, up to segment 80
//   clock.Covers(3, 5, 75)    // true
//   clock.Covers(3, 6, 75)    // false
class Clock {
 public:
  void AddAll(size_t agent, uint32_t segment) { Raise(agent, segment, &all_); }
  void AddLane(size_t agent, uint32_t lane, uint32_t segment) {
    Raise(kLanesOfWarp * agent + lane, segment, &lanes_);
  }
  void Join(const Clock& other) {
    for (size_t i = 0; i < other.all_.size(); ++i) AddAll(i, other.all_[i]);
    for (size_t i = 0; i < other.lanes_.size(); ++i) {
      Raise(i, other.lanes_[i], &lanes_);
    }
  }

  /// Returns whether the clock includes the accesses of this lane in the segment. If `lane` is
  /// above 31, returns whether it includes the accesses of all lanes.
  bool Covers(size_t agent, uint32_t lane, uint32_t segment) const {
    if (At(agent, all_) >= segment) return true;
    const size_t first = kLanesOfWarp * agent;
    if (lane < kLanesOfWarp) return At(first + lane, lanes_) >= segment;
    for (size_t i = first; i < first + kLanesOfWarp; ++i) {
      if (At(i, lanes_) < segment) return false;
    }
    return true;
  }

 private:
  static constexpr uint32_t kLanesOfWarp = 32;

  static uint32_t At(size_t i, const std::vector<uint32_t>& of) {
    return i < of.size() ? of[i] : 0;
  }
  static void Raise(size_t i, uint32_t segment, std::vector<uint32_t>* of) {
    if (segment == 0) return;
    if (of->size() <= i) of->resize(i + 1);
    (*of)[i] = std::max((*of)[i], segment);
  }

  std::vector<uint32_t> all_;    // per agent, for all of its lanes
  std::vector<uint32_t> lanes_;  // per agent and lane, in addition to all_
};

enum class Space : uint8_t { kGlobal, kShared };

/// The number of warps in a warpgroup.
inline constexpr int kWarpgroupWarps = 4;

/// Bits for the accesses that a fence orders relative to the asynchronous proxy.
enum FenceOf : uint8_t {
  kFencesShared = 1,
  kFencesGlobal = 2,
  kFencesInit = 4
};

class Order {
 public:
  // A stamp is 64 times its segment, plus a lane or one of these constants.
  static constexpr uint32_t kManyLanes = 32, kAtomicLane = 33;
  // Segment numbers from here on denote sets of readers, or bulk copies.
  static constexpr uint32_t kFirstSet = uint32_t{1} << 25;
  static constexpr uint32_t SegmentOf(uint32_t stamp) { return stamp >> 6; }
  static constexpr uint32_t LaneOf(uint32_t stamp) { return stamp & 63; }

  /// Returns whether segment numbers are nearly exhausted. If so, clear all stamps and call
  /// StartAnew ahead of the next BeginGrid.
  bool IsWornOut() const;
  /// Restarts the numbering of segments.
  void StartAnew();

  void BeginGrid();
  void BeginBlock(int warps);
  /// Records that all warps of the block have synchronized.
  void Barrier();
  /// Records that the lanes of a warp have synchronized.
  void SyncWarp(int warp);
  /// Ends the current segment of the warp. Returns a clock with the accesses of these lanes so far,
  /// and everything that happens before them.
  Clock Release(int warp, uint32_t lanes);
  /// Records that everything in `clock` happens before the next accesses of these lanes.
  void Acquire(int warp, uint32_t lanes, const Clock& clock);
  /// Records that these lanes executed a fence between the generic and the asynchronous proxy. `of`
  /// has bits of FenceOf.
  void FenceProxy(int warp, uint32_t lanes, uint8_t of);

  /// Returns a new agent number for an mbarrier.
  size_t NewMbarrier() { return next_agent_++; }
  /// Returns the stamp for the writes of bulk copies that signal one phase of an mbarrier.
  uint32_t BeginCopies(size_t mbarrier);
  bool IsOfCopies(uint32_t stamp) const {
    return copies_.contains(SegmentOf(stamp));
  }

  uint32_t Stamp(int warp, uint32_t lane) const {
    return segments_[static_cast<size_t>(warp)] * 64 + lane;
  }
  /// These return the first segment of the grid, of the block, and after the block's last barrier.
  /// All earlier segments happen before that segment.
  uint32_t grid() const { return grid_; }
  uint32_t block() const { return block_; }
  uint32_t epoch() const { return epoch_; }

  /// Returns whether the access with this stamp and a current access by the lane are unordered.
  bool Conflicts(Space space, uint32_t stamp, int warp, uint32_t lane) const;
  /// Returns whether each lane of this stamp executed a proxy fence after its access and ahead of
  /// the current point of `lane`. The fence must have one of the bits `of`. The stamp must be of
  /// this block.
  bool IsFenced(uint32_t stamp, int warp, uint32_t lane, uint8_t of) const;
  /// Returns the stamp of a reader in `readers` whose read is not fenced, or 0 if there is none.
  uint32_t UnfencedReader(uint32_t readers, int warp, uint32_t lane) const;
  /// Returns the warp and lane of a stamp of this block, for messages.
  std::string NameOf(uint32_t stamp) const;
  /// Returns the name of an access in `stamp` that conflicts with an access by the lane.
  std::string Who(uint32_t stamp, int warp, uint32_t lane) const;

  /// Returns a stamp for `readers` and a lane that now reads the same byte.
  uint32_t Join(Space space, uint32_t readers, int warp, uint32_t lane);

  /// Starts the reads of a warpgroup matmul, and returns its number. `first_warp` is the first warp
  /// of the warpgroup.
  uint32_t BeginReads(int first_warp);
  /// Returns a stamp for `readers` and a matmul that reads the same byte.
  uint32_t JoinReads(uint32_t readers, uint32_t reads);
  /// Records that the warp has waited for the matmul with number `reads`.
  void EndReads(uint32_t reads, int warp);

 private:
  struct Set {
    std::vector<uint32_t> stamps;  // of lanes, at most one per warp
    std::vector<uint32_t> reads;   // numbers of matmuls
  };
  struct Reads {
    int first_warp = 0;
    std::array<uint32_t, kWarpgroupWarps> ended =
        {};  // per warp, the segment of its wait; 0 means not yet
  };
  struct Fence {
    uint32_t segment, lanes;
    uint8_t of;
  };

  uint32_t NewSegment(int owner);
  int OwnerOf(uint32_t segment) const { return owners_[segment - block_]; }
  // Returns whether the access by `agent_lane` in the segment happens before the
  // current point of `lane`, or of all lanes if `lane` is kManyLanes.
  bool Knows(int warp, uint32_t lane, size_t agent, uint32_t agent_lane,
             uint32_t segment) const;
  bool StampConflicts(uint32_t stamp, int warp, uint32_t lane) const;
  bool ReadsConflict(const Reads& reads, int warp, uint32_t lane) const;
  bool IsBeforeAll(uint32_t stamp, int first_warp) const;
  Set MembersOf(uint32_t readers) const;
  uint32_t Keep(Set set);

  uint32_t next_ = 1;
  uint32_t grid_ = 1, block_ = 1, epoch_ = 1;
  std::vector<int> owners_;         // the warp of each segment from block_ on
  std::vector<uint32_t> segments_;  // the current segment of each warp
  std::vector<uint32_t> met_;  // per warp, the first since its last SyncWarp
  std::vector<Clock> seen_;    // per warp, the clock of all its lanes
  // Per warp, the additional clocks of some lanes since the last SyncWarp.
  std::vector<std::vector<std::pair<uint32_t, Clock>>> lanes_seen_;
  std::vector<std::vector<Fence>> fences_;  // per warp, oldest first

  // Sets and copies are numbered like segments, from kFirstSet on.
  uint32_t next_set_ = kFirstSet, grid_set_ = kFirstSet, block_set_ = kFirstSet;
  std::unordered_map<uint32_t, Set> sets_;  // the block's sets still in use
  // Memoizes Join and JoinReads since the last barrier.
  std::unordered_map<uint64_t, uint32_t> joined_;
  uint64_t last_join_ = 0;  // the last key of joined_, or 0
  uint32_t last_joined_ = 0;
  std::vector<Reads> reads_;
  std::unordered_map<uint32_t, size_t> copies_;  // agents of the mbarriers
  size_t next_agent_ = 0;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_ORDER_H_
