#include "tests/gpu/ptx/ptx_order.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace stowage::testing::ptx {
namespace {

constexpr int kSeveral = -1;  // blocks

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
  seen_.assign(At(warps), Clock(At(warps), 0));
  fences_.assign(At(warps), {});
  sets_.clear();
  reads_.clear();
  Barrier();
}

void Order::Barrier() {
  epoch_ = next_;
  for (size_t warp = 0; warp < segments_.size(); ++warp) {
    met_[warp] = segments_[warp] = NewSegment(static_cast<int>(warp));
  }
  // All readers were before, but for products that were not waited for.
  joined_.clear();
  last_join_ = 0;
  std::erase_if(sets_, [&](const auto& entry) {
    return std::ranges::none_of(entry.second.reads, [&](uint32_t reads) {
      return ReadsConflict(reads_[reads], 0);
    });
  });
}

void Order::SyncWarp(int warp) {
  met_[At(warp)] = segments_[At(warp)] = NewSegment(warp);
}

Order::Clock Order::Release(int warp) {
  Clock clock(segments_.size());
  for (size_t other = 0; other < clock.size(); ++other) {
    clock[other] = Seen(warp, static_cast<int>(other));
  }
  segments_[At(warp)] = NewSegment(warp);
  return clock;
}

void Order::Acquire(int warp, const Clock& clock) {
  for (size_t other = 0; other < clock.size(); ++other) {
    uint32_t& seen = seen_[At(warp)][other];
    seen = std::max(seen, clock[other]);
  }
}

void Order::FenceProxy(int warp, uint32_t lanes) {
  segments_[At(warp)] = NewSegment(warp);
  fences_[At(warp)].push_back({segments_[At(warp)], lanes});
}

uint32_t Order::Seen(int warp, int other) const {
  if (warp == other) return segments_[At(warp)];
  return std::max(seen_[At(warp)][At(other)], epoch_ - 1);
}

// Of a segment of this block that is no set.
bool Order::StampConflicts(uint32_t stamp, int warp, uint32_t lane) const {
  const uint32_t segment = SegmentOf(stamp);
  if (segment < epoch_) return false;
  const int owner = OwnerOf(segment);
  if (owner != warp) return segment > Seen(warp, owner);
  return segment >= met_[At(warp)] && LaneOf(stamp) != lane;
}

bool Order::ReadsConflict(const Reads& reads, int warp) const {
  for (int i = 0; i < kWarpgroupWarps; ++i) {
    const uint32_t ended = reads.ended[At(i)];
    if (ended == 0 || ended > Seen(warp, reads.first_warp + i)) return true;
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
  if (found == sets_.end()) return false;  // before a barrier
  return std::ranges::any_of(found->second.stamps,
                             [&](uint32_t member) {
                               return StampConflicts(member, warp, lane);
                             }) ||
         std::ranges::any_of(found->second.reads, [&](uint32_t reads) {
           return ReadsConflict(reads_[reads], warp);
         });
}

bool Order::IsFenced(uint32_t stamp, int warp) const {
  const uint32_t segment = SegmentOf(stamp), lane = LaneOf(stamp);
  const int owner = OwnerOf(segment);
  const uint32_t lanes = lane < kManyLanes ? uint32_t{1} << lane : ~uint32_t{0};
  const std::vector<Fence>& fences = fences_[At(owner)];
  const uint32_t last = Seen(warp, owner);
  for (auto fence =
           std::ranges::upper_bound(fences, segment, {}, &Fence::segment);
       fence != fences.end() && fence->segment <= last; ++fence) {
    if ((fence->lanes & lanes) == lanes) return true;
  }
  return false;
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
    if (!ReadsConflict(reads, warp)) continue;
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
    return !ReadsConflict(reads_[reads], warp);
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
