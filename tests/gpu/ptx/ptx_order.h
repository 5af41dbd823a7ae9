#ifndef STOWAGE_TESTS_GPU_PTX_PTX_ORDER_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_ORDER_H_

// The happens-before order of a grid. An access is stamped with its lane and its segment:
// the part of a warp's run between two points of synchronization. Segments are numbered as
// they begin, and blocks run one after the other. Each warp knows up to which segment it
// comes after each other warp:
//
//  - after all that was before a barrier of the whole block, by the numbers alone;
//  - after what a warp did before it came to a barrier that both took part in (Release),
//    and what that had seen by then (Acquire).
//
// Lanes come to an mbarrier one by one: who arrives releases what these lanes did, and
// what others of their warp did before a bar.warp.sync; who waits acquires for its own
// lanes alone, until they meet the others.
//
// What bulk copies write has one stamp for all that signal one phase of an mbarrier. It
// comes before those who know of the end of that phase; a barrier of the block hands on
// what its warps know.
//
// The bytes of shared memory that a product of a warpgroup reads are read at any time from
// its issue until each of the warps has waited for it. Several who have read a byte since
// it was written share one stamp, a set.
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

// A vector clock: for each agent, the last of its segments that happens before something. An
// agent is a warp, as a whole or lane by lane, or an mbarrier, whose segments are its phases.
//
//   Clock clock;
//   clock.AddAll(3, 70);      // warp 3 up to its segment 70
//   clock.AddLane(3, 5, 80);  // lane 5 of it up to 80
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

  /// Whether it has what this lane did in the segment; of a lane beyond 31: what
  /// each of them did.
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

  std::vector<uint32_t> all_;    // by agent: of all its lanes
  std::vector<uint32_t> lanes_;  // beyond that, by agent and lane
};

enum class Space : uint8_t { kGlobal, kShared };

/// The warps that issue a product together.
inline constexpr int kWarpgroupWarps = 4;

/// What a fence orders for the asynchronous proxy, as bits.
enum FenceOf : uint8_t {
  kFencesShared = 1,
  kFencesGlobal = 2,
  kFencesInit = 4
};

class Order {
 public:
  // A stamp is 64 times its segment, and a lane or one of these.
  static constexpr uint32_t kManyLanes = 32, kAtomicLane = 33;
  // Segments from here on are sets of readers, or what bulk copies do.
  static constexpr uint32_t kFirstSet = uint32_t{1} << 25;
  static constexpr uint32_t SegmentOf(uint32_t stamp) { return stamp >> 6; }
  static constexpr uint32_t LaneOf(uint32_t stamp) { return stamp & 63; }

  /// Whether numbers run out: all stamps must then be forgotten before BeginGrid.
  bool IsWornOut() const;
  void StartAnew();

  void BeginGrid();
  void BeginBlock(int warps);
  /// All warps have met.
  void Barrier();
  /// The lanes of a warp have met.
  void SyncWarp(int warp);
  /// What these lanes did so far ends here, and comes before who acquires it.
  Clock Release(int warp, uint32_t lanes);
  void Acquire(int warp, uint32_t lanes, const Clock& clock);
  /// These lanes executed a fence between the generic proxy and the asynchronous one,
  /// of these bits of FenceOf.
  void FenceProxy(int warp, uint32_t lanes, uint8_t of);

  /// A number for an mbarrier in clocks.
  size_t NewMbarrier() { return next_agent_++; }
  /// The stamp of what bulk copies write that signal a phase of it.
  uint32_t BeginCopies(size_t mbarrier);
  bool IsOfCopies(uint32_t stamp) const {
    return copies_.contains(SegmentOf(stamp));
  }

  uint32_t Stamp(int warp, uint32_t lane) const {
    return segments_[static_cast<size_t>(warp)] * 64 + lane;
  }
  /// The first segments of the grid, of the block, and of what lies behind its last
  /// barrier. Those before are ordered before all of it.
  uint32_t grid() const { return grid_; }
  uint32_t block() const { return block_; }
  uint32_t epoch() const { return epoch_; }

  /// Whether what has this stamp and an access by the lane now are unordered.
  bool Conflicts(Space space, uint32_t stamp, int warp, uint32_t lane) const;
  /// Whether each lane that has this stamp, of this block, has fenced what it did before
  /// the lane came after it, by a fence that has one of these bits of FenceOf.
  bool IsFenced(uint32_t stamp, int warp, uint32_t lane, uint8_t of) const;
  /// Of those who have read a byte, one whose read is not fenced; 0: there is none.
  uint32_t UnfencedReader(uint32_t readers, int warp, uint32_t lane) const;
  /// Who wrote with a stamp of this block.
  std::string NameOf(uint32_t stamp) const;
  /// Who it was, of those that an access by the lane conflicts with.
  std::string Who(uint32_t stamp, int warp, uint32_t lane) const;

  /// The stamp of both: those who have read a byte, and a lane that now does.
  uint32_t Join(Space space, uint32_t readers, int warp, uint32_t lane);

  /// A product of this warpgroup, named by its first warp, begins to read. Returns its
  /// number.
  uint32_t BeginReads(int first_warp);
  /// The stamp of both: those who have read a byte, and the product.
  uint32_t JoinReads(uint32_t readers, uint32_t reads);
  /// The warp has waited for the product.
  void EndReads(uint32_t reads, int warp);

 private:
  struct Set {
    std::vector<uint32_t> stamps;  // each of another warp
    std::vector<uint32_t> reads;   // of products
  };
  struct Reads {
    int first_warp = 0;
    std::array<uint32_t, kWarpgroupWarps> ended =
        {};  // by warp: when; 0: not yet
  };
  struct Fence {
    uint32_t segment, lanes;
    uint8_t of;
  };

  uint32_t NewSegment(int owner);
  int OwnerOf(uint32_t segment) const { return owners_[segment - block_]; }
  // Whether a lane, or each of kManyLanes, comes after what that lane did.
  bool Knows(int warp, uint32_t lane, size_t agent, uint32_t agent_lane,
             uint32_t segment) const;
  bool StampConflicts(uint32_t stamp, int warp, uint32_t lane) const;
  bool ReadsConflict(const Reads& reads, int warp, uint32_t lane) const;
  bool IsBeforeAll(uint32_t stamp, int first_warp) const;
  Set MembersOf(uint32_t readers) const;
  uint32_t Keep(Set set);

  uint32_t next_ = 1;
  uint32_t grid_ = 1, block_ = 1, epoch_ = 1;
  std::vector<int> owners_;         // of segments from block_ on: their warp
  std::vector<uint32_t> segments_;  // by warp: the current one
  std::vector<uint32_t> met_;  // by warp: the first since its lanes have met
  std::vector<Clock> seen_;    // by warp: what all its lanes know
  // By warp: what these lanes know beyond that, since they last met.
  std::vector<std::vector<std::pair<uint32_t, Clock>>> lanes_seen_;
  std::vector<std::vector<Fence>> fences_;  // by warp, in their order

  // Sets and copies are numbered like segments, from kFirstSet on.
  uint32_t next_set_ = kFirstSet, grid_set_ = kFirstSet, block_set_ = kFirstSet;
  std::unordered_map<uint32_t, Set> sets_;  // of the block, that still matter
  std::unordered_map<uint64_t, uint32_t> joined_;  // since the last barrier
  uint64_t last_join_ = 0;                         // of joined_; 0: none
  uint32_t last_joined_ = 0;
  std::vector<Reads> reads_;
  std::unordered_map<uint32_t, size_t> copies_;  // of the block: their mbarrier
  size_t next_agent_ = 0;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_ORDER_H_
