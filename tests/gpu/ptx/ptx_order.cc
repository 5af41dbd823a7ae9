#include "tests/gpu/ptx/ptx_order.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace stowage::testing::ptx {
namespace {

constexpr int kSeveral = -1;  // blocks

constexpr uint32_t kEvery = 0xFFFFFFFF;  // lane

size_t At(int warp) { return static_cast<size_t>(warp); }

}  // namespace

bool Order::IsWornOut() const {
  return next_ > kFirstSet / 2 || next_set_ - kFirstSet > kFirstSet / 2;
}

void Order::StartAnew() {
  next_ = 1;
  next_set_ = kFirstSet;
}

uint32_t Order::NewSegment(int owner) {
  owners_.push_back(owner);
  return next_++;
}

void Order::BeginGrid() {
  owners_.clear();
  sets_.clear();
  grid_ = block_ = next_;
  grid_set_ = next_set_;
  NewSegment(kSeveral);
}

void Order::BeginBlock(int warps) {
  owners_.clear();
  block_ = next_;
  block_set_ = next_set_;
  segments_.assign(At(warps), 0);
  met_.assign(At(warps), 0);
  seen_.assign(At(warps), {});
  lanes_seen_.assign(At(warps), {});
  fences_.assign(At(warps), {});
  sets_.clear();
  reads_.clear();
  copies_.clear();
  next_agent_ = At(warps);
  Barrier();
}

void Order::Barrier() {
  epoch_ = next_;
  if (!copies_.empty()) {
    Clock all;
    for (size_t warp = 0; warp < segments_.size(); ++warp) {
      all.Join(seen_[warp]);
      for (const auto& [lanes, clock] : lanes_seen_[warp]) all.Join(clock);
    }
    std::ranges::fill(seen_, all);
  }
  for (size_t warp = 0; warp < segments_.size(); ++warp) {
    met_[warp] = segments_[warp] = NewSegment(static_cast<int>(warp));
    lanes_seen_[warp].clear();
  }
  // All readers were before, but for products that were not waited for. Whether they
  // have fenced their reads matters where there may be bulk copies.
  joined_.clear();
  last_join_ = 0;
  if (next_agent_ > segments_.size()) return;
  std::erase_if(sets_, [&](const auto& entry) {
    return std::ranges::none_of(entry.second.reads, [&](uint32_t reads) {
      return ReadsConflict(reads_[reads], 0, 0);
    });
  });
}

void Order::SyncWarp(int warp) {
  for (const auto& [lanes, clock] : lanes_seen_[At(warp)]) {
    seen_[At(warp)].Join(clock);
  }
  lanes_seen_[At(warp)].clear();
  met_[At(warp)] = segments_[At(warp)] = NewSegment(warp);
}

Clock Order::Release(int warp, uint32_t lanes) {
  Clock clock = seen_[At(warp)];
  for (const auto& [others, more] : lanes_seen_[At(warp)]) {
    if ((others & lanes) != 0) clock.Join(more);
  }
  for (size_t other = 0; other < segments_.size(); ++other) {
    clock.AddAll(other, epoch_ - 1);
  }
  if (lanes == kEvery) {
    clock.AddAll(At(warp), segments_[At(warp)]);
  } else {
    clock.AddAll(At(warp), met_[At(warp)] - 1);
    for (uint32_t lane = 0; lane < kManyLanes; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      clock.AddLane(At(warp), lane, segments_[At(warp)]);
    }
  }
  segments_[At(warp)] = NewSegment(warp);
  return clock;
}

void Order::Acquire(int warp, uint32_t lanes, const Clock& clock) {
  if (lanes == kEvery) {
    seen_[At(warp)].Join(clock);
  } else {
    auto& seen = lanes_seen_[At(warp)];
    auto same = std::ranges::find(
        seen, lanes, [](const auto& entry) { return entry.first; });
    if (same == seen.end()) same = seen.insert(same, {lanes, Clock()});
    same->second.Join(clock);
  }
  // What was joined is not what it would be now.
  segments_[At(warp)] = NewSegment(warp);
}

uint32_t Order::BeginCopies(size_t mbarrier) {
  copies_[next_set_] = mbarrier;
  return next_set_++ * 64;
}

void Order::FenceProxy(int warp, uint32_t lanes, uint8_t of) {
  segments_[At(warp)] = NewSegment(warp);
  fences_[At(warp)].push_back({segments_[At(warp)], lanes, of});
}

bool Order::Knows(int warp, uint32_t lane, size_t agent, uint32_t agent_lane,
                  uint32_t segment) const {
  if (seen_[At(warp)].Covers(agent, agent_lane, segment)) return true;
  const uint32_t wanted = lane < kManyLanes ? uint32_t{1} << lane : kEvery;
  uint32_t know = 0;
  for (const auto& [lanes, clock] : lanes_seen_[At(warp)]) {
    if (clock.Covers(agent, agent_lane, segment)) know |= lanes;
  }
  return (know & wanted) == wanted;
}

// Of a segment of this block that is no set.
bool Order::StampConflicts(uint32_t stamp, int warp, uint32_t lane) const {
  const uint32_t segment = SegmentOf(stamp);
  if (segment < epoch_) return false;
  const int owner = OwnerOf(segment);
  if (owner == warp && (segment < met_[At(warp)] || LaneOf(stamp) == lane)) {
    return false;
  }
  return !Knows(warp, lane, At(owner), LaneOf(stamp), segment);
}

// Who knows of one lane behind the wait of its warp knows of the wait.
bool Order::ReadsConflict(const Reads& reads, int warp, uint32_t lane) const {
  for (int i = 0; i < kWarpgroupWarps; ++i) {
    const uint32_t ended = reads.ended[At(i)];
    const int owner = reads.first_warp + i;
    if (ended == 0) return true;
    if (ended < epoch_ || owner == warp) continue;
    bool is_known = false;
    for (uint32_t one = 0; one < kManyLanes && !is_known; ++one) {
      is_known = Knows(warp, lane, At(owner), one, ended);
    }
    if (!is_known) return true;
  }
  return false;
}

bool Order::Conflicts(Space space, uint32_t stamp, int warp,
                      uint32_t lane) const {
  const uint32_t segment = SegmentOf(stamp);
  const bool is_set = segment >= kFirstSet;
  const uint32_t grid = is_set ? grid_set_ : grid_;
  const uint32_t block = is_set ? block_set_ : block_;
  if (segment < (space == Space::kShared ? block : grid)) return false;
  if (segment < block) return true;  // another block
  if (!is_set) return StampConflicts(stamp, warp, lane);
  const auto found = sets_.find(segment);
  if (found == sets_.end()) {
    const auto copies = copies_.find(segment);
    return copies != copies_.end() &&  // else before a barrier
           !Knows(warp, lane, copies->second, 0, segment);
  }
  return std::ranges::any_of(found->second.stamps,
                             [&](uint32_t member) {
                               return StampConflicts(member, warp, lane);
                             }) ||
         std::ranges::any_of(found->second.reads, [&](uint32_t reads) {
           return ReadsConflict(reads_[reads], warp, lane);
         });
}

bool Order::IsFenced(uint32_t stamp, int warp, uint32_t lane,
                     uint8_t of) const {
  const uint32_t segment = SegmentOf(stamp);
  const int owner = OwnerOf(segment);
  const std::vector<Fence>& fences = fences_[At(owner)];
  const auto first =
      std::ranges::upper_bound(fences, segment, {}, &Fence::segment);
  const auto is_fenced = [&](uint32_t one) {
    return std::any_of(first, fences.end(), [&](const Fence& fence) {
      return (fence.lanes >> one & 1) != 0 && (fence.of & of) != 0 &&
             (owner == warp || fence.segment < epoch_ ||
              Knows(warp, lane, At(owner), one, fence.segment));
    });
  };
  if (LaneOf(stamp) < kManyLanes) return is_fenced(LaneOf(stamp));
  for (uint32_t one = 0; one < kManyLanes; ++one) {
    if (!is_fenced(one)) return false;
  }
  return true;
}

uint32_t Order::UnfencedReader(uint32_t readers, int warp,
                               uint32_t lane) const {
  const uint32_t segment = SegmentOf(readers);
  const auto is_unfenced = [&](uint32_t stamp) {
    return !IsFenced(stamp, warp, lane, kFencesShared);
  };
  if (segment < kFirstSet) {
    return segment >= block_ && is_unfenced(readers) ? readers : 0;
  }
  const auto set = sets_.find(segment);
  if (set == sets_.end()) return 0;
  const auto found = std::ranges::find_if(set->second.stamps, is_unfenced);
  return found == set->second.stamps.end() ? 0 : *found;
}

std::string Order::NameOf(uint32_t stamp) const {
  const uint32_t lane = LaneOf(stamp);
  return StrCat("warp ", OwnerOf(SegmentOf(stamp)),
                lane < kManyLanes ? StrCat(" lane ", lane) : std::string());
}

std::string Order::Who(uint32_t stamp, int warp, uint32_t lane) const {
  const uint32_t segment = SegmentOf(stamp);
  if (segment < block_ || (segment >= kFirstSet && segment < block_set_)) {
    return "another block";
  }
  for (const uint32_t number : MembersOf(stamp).reads) {
    const Reads& reads = reads_[number];
    if (!ReadsConflict(reads, warp, lane)) continue;
    const bool is_over =
        std::ranges::find(reads.ended, 0u) == reads.ended.end();
    return StrCat("a product of warps ", reads.first_warp, " to ",
                  reads.first_warp + kWarpgroupWarps - 1,
                  is_over ? "" : " that was not waited for");
  }
  for (const uint32_t member : MembersOf(stamp).stamps) {
    if (StampConflicts(member, warp, lane)) return NameOf(member);
  }
  return "nobody";
}

// Those of a stamp that is not of another block.
Order::Set Order::MembersOf(uint32_t readers) const {
  const uint32_t segment = SegmentOf(readers);
  if (segment < kFirstSet) {
    return segment < epoch_ ? Set{} : Set{{readers}, {}};
  }
  const auto found = sets_.find(segment);
  return found == sets_.end() ? Set{} : found->second;
}

uint32_t Order::Keep(Set set) {
  const uint32_t number = next_set_++;
  sets_[number] = std::move(set);
  return number * 64;
}

uint32_t Order::Join(Space space, uint32_t readers, int warp, uint32_t lane) {
  const uint32_t many = Stamp(warp, kManyLanes);
  const uint64_t both = uint64_t{readers} << 32 | many;
  if (both == last_join_) return last_joined_;
  if (!Conflicts(space, readers, warp, lane)) return Stamp(warp, lane);
  const uint32_t segment = SegmentOf(readers);
  if (segment < block_ || (segment >= kFirstSet && segment < block_set_)) {
    return grid_ * 64;  // several blocks
  }
  if (segment < kFirstSet && OwnerOf(segment) == warp) return many;
  last_join_ = both;
  uint32_t& joined = joined_[both];
  if (joined != 0) return last_joined_ = joined;
  Set set = MembersOf(readers);
  if (std::ranges::find(set.stamps, many) != set.stamps.end()) {
    return last_joined_ = joined = readers;
  }
  // Those that are before this access are before whatever comes after it.
  std::erase_if(set.stamps, [&](uint32_t member) {
    return OwnerOf(SegmentOf(member)) == warp ||
           !StampConflicts(member, warp, kManyLanes);
  });
  std::erase_if(set.reads, [&](uint32_t reads) {
    return !ReadsConflict(reads_[reads], warp, kManyLanes);
  });
  set.stamps.push_back(many);
  return last_joined_ = joined = Keep(std::move(set));
}

uint32_t Order::BeginReads(int first_warp) {
  reads_.push_back({.first_warp = first_warp});
  return static_cast<uint32_t>(reads_.size() - 1);
}

bool Order::IsBeforeAll(uint32_t stamp, int first_warp) const {
  for (int i = 0; i < kWarpgroupWarps; ++i) {
    if (StampConflicts(stamp, first_warp + i, kManyLanes)) return false;
  }
  return true;
}

uint32_t Order::JoinReads(uint32_t readers, uint32_t reads) {
  if (SegmentOf(readers) < kFirstSet ? SegmentOf(readers) < epoch_
                                     : SegmentOf(readers) < block_set_) {
    readers = 0;
  }
  constexpr uint64_t kOfProduct = uint64_t{1} << 31;
  uint32_t& joined = joined_[uint64_t{readers} << 32 | kOfProduct | reads];
  if (joined != 0) return joined;
  Set set = MembersOf(readers);
  const int first_warp = reads_[reads].first_warp;
  std::erase_if(set.stamps, [&](uint32_t member) {
    return IsBeforeAll(member, first_warp);
  });
  // The products of a warpgroup end in their order.
  std::erase_if(set.reads, [&](uint32_t other) {
    return reads_[other].first_warp == first_warp;
  });
  set.reads.push_back(reads);
  return joined = Keep(std::move(set));
}

void Order::EndReads(uint32_t reads, int warp) {
  Reads& of = reads_[reads];
  of.ended[At(warp - of.first_warp)] = segments_[At(warp)];
}

}  // namespace stowage::testing::ptx
